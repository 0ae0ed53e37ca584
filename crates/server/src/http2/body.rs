//! What a client says in a call, on its way to whoever answers it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use axum::http::HeaderMap;
use http_body::Frame;

use super::bells::Bells;

/// What is said in small pieces is put together up to about this size: each piece of its own would take a multiple of what it has.
const PIECE_BYTES: usize = 4 * 1024;

/// The side of the connection.
#[derive(Debug)]
pub(super) struct Said(Arc<Shared>);

/// The side of whoever answers.
#[derive(Debug)]
pub(super) struct Incoming(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stream: u32,
    bells: Arc<Bells>,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    data: VecDeque<Vec<u8>>,
    trailers: Option<HeaderMap>,
    has_ended: bool,
    /// It was broken off.
    is_broken: bool,
    /// Nobody listens.
    is_closed: bool,
    listener: Option<Waker>,
}

pub(super) fn channel(stream: u32, bells: &Arc<Bells>) -> (Said, Incoming) {
    let shared = Arc::new(Shared { stream, bells: bells.clone(), line: Mutex::default() });
    (Said(shared.clone()), Incoming(shared))
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing is left half done in it, whoever panics.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Said {
    /// Gives how much of it nobody is going to listen to.
    pub(super) fn data(&self, data: &[u8]) -> usize {
        let mut unheard = 0;
        self.tell(|line| match line.data.back_mut() {
            _ if line.is_closed => unheard = data.len(),
            Some(last) if last.len() < PIECE_BYTES => last.extend_from_slice(data),
            _ if data.is_empty() => {}
            _ => line.data.push_back(data.to_vec()),
        });
        unheard
    }

    pub(super) fn end(&self, trailers: Option<HeaderMap>) {
        self.tell(|line| {
            line.trailers = trailers;
            line.has_ended = true;
        });
    }

    fn tell(&self, say: impl FnOnce(&mut Line)) {
        let mut line = self.0.line();
        say(&mut line);
        let listener = line.listener.take();
        drop(line);
        if let Some(listener) = listener {
            listener.wake();
        }
    }
}

/// A body that is let go of before its end was broken off.
impl Drop for Said {
    fn drop(&mut self) {
        self.tell(|line| line.is_broken = !line.has_ended);
    }
}

/// The client has broken the call off.
#[derive(Debug, thiserror::Error)]
#[error("the call was broken off")]
pub(super) struct Broken;

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let mut line = self.0.line();
        if let Some(data) = line.data.pop_front() {
            drop(line);
            self.0.bells.release(self.0.stream, data.len());
            return Poll::Ready(Some(Ok(Frame::data(data.into()))));
        }
        if let Some(trailers) = line.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if line.has_ended {
            return Poll::Ready(None);
        }
        if line.is_broken {
            return Poll::Ready(Some(Err(Broken)));
        }
        if !line.listener.as_ref().is_some_and(|listener| listener.will_wake(cx.waker())) {
            line.listener = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let line = self.0.line();
        line.has_ended && line.data.is_empty() && line.trailers.is_none()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let mut line = self.0.line();
        line.is_closed = true;
        let unheard = std::mem::take(&mut line.data).iter().map(Vec::len).sum();
        drop(line);
        if unheard > 0 {
            self.0.bells.release(self.0.stream, unheard);
        }
    }
}
