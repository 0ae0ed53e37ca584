//! Watching over HTTP: server-sent events, which browsers and curl take up again by themselves.

use axum::extract::{Request, State};
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
    if let Some(last) = request.headers().get(LAST_EVENT_ID) {
        let seq = last.to_str().ok().and_then(|text| text.parse().ok());
        // A client that reconnects repeats its parameters; what it has seen is newer.
        watch.after =
            Some(seq.ok_or_else(|| Error::invalid(LAST_EVENT_ID, "the Last-Event-ID is not the number of an event"))?);
    }
    let watching = app.service.watch(watch).await?;
    Ok(Sse::new(watching.map(|watched| match watched {
        Ok(v1::Watched { seq, event: Some(event) }) => Event::default().id(seq.to_string()).json_data(event),
        // Without data nothing is dispatched, but the client remembers how far it has come.
        Ok(v1::Watched { seq, event: None }) => Ok(Event::default().id(seq.to_string())),
        Err(error) => Event::default().event("refused").json_data(ErrorBody { error: error.tell() }),
    })))
}
