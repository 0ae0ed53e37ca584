//! Watching: the log read to its end, and on as it grows.
//!
//! A watcher reads the log at its own pace, so a slow one costs the engine nothing and misses nothing; only one
//! that falls behind what is kept is told so, and ends.

use std::time::Duration;

use tenure_core::{PAGE_MAX, Seq};
use tenure_engine::{EventFilter, EventPage, EventQuery};
use tenure_proto::v1;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;

use crate::convert;
use crate::error::Error;
use crate::service::Service;

/// What a watcher may have waiting before it must read; the rest stays in the log.
const UNREAD_MAX: usize = 256;
/// A busy server commits thousands of times a second; looking each time would cost it more than it tells anybody.
const PACE: Duration = Duration::from_millis(10);
/// Below the minute after which proxies cut an idle connection.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) type Watching = ReceiverStream<Result<v1::Watched, Error>>;

impl Service {
    /// What is too old to watch from is refused here, before anything is sent.
    pub(crate) async fn watch(&self, request: v1::WatchRequest) -> Result<Watching, Error> {
        let filter = convert::watch(&request)?;
        // An engine that fetches events from afar does not know the last one until it is asked.
        let newest = EventQuery { after: None, newest_first: true, filter: EventFilter::default(), limit: 1 };
        self.engine.events(newest).await??;
        let last = *self.engine.last_event().borrow();
        let after = request.after.map_or(last, Seq);
        if after > last {
            let message = format!("event {} has not happened yet; the last is {}", after.0, last.0);
            return Err(Error::invalid("after", message));
        }
        let mut watcher = Watcher { service: self.clone(), filter, after };
        let first = watcher.look().await?;
        let (unread, watching) = mpsc::channel(UNREAD_MAX);
        tokio::spawn(async move {
            if let Err(error) = watcher.run(first, &unread).await {
                // It may be the watcher itself that is gone.
                let _ = unread.send(Err(error)).await;
            }
        });
        Ok(ReceiverStream::new(watching))
    }
}

struct Watcher {
    service: Service,
    filter: EventFilter,
    after: Seq,
}

impl Watcher {
    /// Until the watcher hangs up, the engine stops, or the log is cut off before it is read.
    async fn run(
        mut self,
        mut page: EventPage,
        unread: &mpsc::Sender<Result<v1::Watched, Error>>,
    ) -> Result<(), Error> {
        let mut grown = self.service.engine.last_event();
        let mut progress = Instant::now() + PROGRESS_INTERVAL;
        loop {
            for recorded in &page.items {
                let watched = v1::Watched { seq: recorded.seq.0, event: Some(convert::event(recorded)) };
                if unread.send(Ok(watched)).await.is_err() {
                    return Ok(());
                }
                progress = Instant::now() + PROGRESS_INTERVAL;
            }
            if page.done {
                let after = self.after;
                tokio::select! {
                    more = grown.wait_for(|last| *last > after) => {
                        if more.is_err() {
                            return Ok(());
                        }
                    }
                    () = tokio::time::sleep_until(progress) => {}
                    () = unread.closed() => return Ok(()),
                }
                sleep(PACE).await;
            } else if unread.is_closed() {
                // Where nothing matches nothing is sent, so that nothing else would tell.
                return Ok(());
            }
            page = self.look().await?;
            if page.items.is_empty() && Instant::now() >= progress {
                let watched = v1::Watched { seq: self.after.0, event: None };
                if unread.send(Ok(watched)).await.is_err() {
                    return Ok(());
                }
                progress = Instant::now() + PROGRESS_INTERVAL;
            }
        }
    }

    async fn look(&mut self) -> Result<EventPage, Error> {
        let query =
            EventQuery { after: Some(self.after), newest_first: false, filter: self.filter.clone(), limit: PAGE_MAX };
        let page = self.service.engine.events(query).await??;
        self.after = page.reached.map_or(self.after, |reached| reached.max(self.after));
        Ok(page)
    }
}
