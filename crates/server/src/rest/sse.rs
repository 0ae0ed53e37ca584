//! Watching over HTTP: server-sent events, which browsers and curl take up again by themselves.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::Event;
use tenure_proto::v1;
use tokio_stream::{Stream, StreamExt};

use super::{App, ErrorBody, extract};
use crate::error::Error;

/// What a client sends that lost its connection: the last `id` it has seen.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn watch(
    State(app): State<App>,
    mut request: Request,
) -> Result<Sse<impl Stream<Item = Result<Event, axum::Error>>>, Error> {
    let mut watch: v1::WatchRequest = extract::parameters(&mut request).await?;
    // A client that reconnects repeats its parameters; what it has seen is newer.
    watch.after = last_seen(request.headers())?.or(watch.after);
    let watching = app.service.watch(watch).await?;
    Ok(Sse::new(watching.map(|watched| match watched {
        Ok(v1::Watched { seq, event: Some(event) }) => Event::default().id(seq.to_string()).json_data(event),
        // Without data nothing is dispatched, but the client remembers how far it has come.
        Ok(v1::Watched { seq, event: None }) => Ok(Event::default().id(seq.to_string())),
        Err(error) => Event::default().event("refused").json_data(ErrorBody { error: error.tell() }),
    })))
}

/// The number of the last event that the client has seen, if it says so.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    // Just digits, as they were sent.
    let text = last.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match text.and_then(|text| text.parse().ok()) {
        Some(seq) => Ok(Some(seq)),
        None => Err(Error::invalid(LAST_EVENT_ID, "the Last-Event-ID is not the number of an event")),
    }
}

#[cfg(test)]
mod fuzzing {
    use axum::http::HeaderValue;
    use tenure_fuzz::{fuzz, word};

    use super::*;

    fn read(bytes: &[u8]) -> Option<Result<Option<u64>, Error>> {
        let value = HeaderValue::from_bytes(bytes).ok()?;
        Some(last_seen(&HeaderMap::from_iter([(LAST_EVENT_ID.parse().expect("a header"), value)])))
    }

    #[test]
    fn any_header_is_refused_or_understood_as_the_last_event() {
        let samples = ["0", "7", "18446744073709551615"].map(|text| text.as_bytes().to_vec());
        fuzz("last_event_id", &samples, &["18446744073709551616", "+", "-", "00", " ", ".", "é"], |input| match read(
            input,
        ) {
            Some(Ok(seq)) => {
                let seq = seq.expect("there is a header");
                assert_eq!(read(seq.to_string().as_bytes()).and_then(Result::ok), Some(Some(seq)));
                format!("{:?}", seq.checked_ilog2())
            }
            Some(Err(error)) => word(&error.tell().message),
            None => "no header".into(),
        });
    }
}
