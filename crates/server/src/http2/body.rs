//! What a client says in a call, on its way to whoever answers it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::http::HeaderMap;
use http_body::Frame;
use prost::bytes::{Bytes, BytesMut};

use super::PREFIX_BYTES;
use super::bells::Bells;

/// A message is passed on when it is whole, or when so much of it is there: whoever decodes it makes room for as much as it says it has, so
/// that a few bytes on each of many streams would take all memory. It is less than a stream may say that is not passed on.
const HELD_BACK_BYTES_MAX: usize = 256 * 1024;

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
    data: BytesMut,
    /// What is still to come of a message that was passed on in part.
    rest: usize,
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

impl Line {
    /// What can be passed on: messages that are whole, or long; and all of it, when nothing more is to come.
    fn pass(&mut self) -> Bytes {
        let mut at = if self.has_ended { self.data.len() } else { 0 };
        while at < self.data.len() {
            if self.rest == 0 {
                let Some(([_, length @ ..], message)) = self.data[at..].split_first_chunk::<PREFIX_BYTES>() else {
                    break;
                };
                let length = u32::from_be_bytes(*length) as usize;
                if message.len() < length.min(HELD_BACK_BYTES_MAX) {
                    break;
                }
                self.rest = PREFIX_BYTES + length;
            }
            let some = self.rest.min(self.data.len() - at);
            self.rest -= some;
            at += some;
        }
        // With its memory, if that is all.
        if at == self.data.len() { std::mem::take(&mut self.data).freeze() } else { self.data.split_to(at).freeze() }
    }
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
        self.tell(|line| match line.is_closed {
            true => unheard = data.len(),
            false => line.data.extend_from_slice(data),
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
        let data = line.pass();
        if !data.is_empty() {
            drop(line);
            self.0.bells.release(self.0.stream, data.len());
            return Poll::Ready(Some(Ok(Frame::data(data))));
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
        let unheard = std::mem::take(&mut line.data).len();
        drop(line);
        if unheard > 0 {
            self.0.bells.release(self.0.stream, unheard);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body;

    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        [&[0][..], &length, &vec![7; bytes]].concat()
    }

    /// How much is passed on at once; none if whoever answers has to wait.
    fn passed(incoming: &mut Incoming) -> Option<usize> {
        match Pin::new(incoming).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => Some(frame.map_or(0, |frame| frame.unwrap().into_data().unwrap().len())),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_message_is_passed_on_when_it_is_whole_or_there_is_much_of_it() {
        let (said, mut incoming) = channel(1, &Arc::default());
        let (small, long) = (message(100), message(1_000_000));
        // Whole ones together, and not the beginning of the next, which says that it is long.
        said.data(&small);
        said.data(&[&small[..], &long[..50]].concat());
        assert_eq!([passed(&mut incoming), passed(&mut incoming)], [Some(210), None]);
        said.data(&long[50..HELD_BACK_BYTES_MAX]);
        assert_eq!(passed(&mut incoming), None);
        said.data(&long[HELD_BACK_BYTES_MAX..300_000]);
        assert_eq!([passed(&mut incoming), passed(&mut incoming)], [Some(300_000), None]);
        // The rest of it as it comes, and then the next as before.
        said.data(&long[300_000..300_001]);
        assert_eq!(passed(&mut incoming), Some(1));
        said.data(&[&long[300_001..], &message(0)[..], &small[..3]].concat());
        assert_eq!([passed(&mut incoming), passed(&mut incoming)], [Some(long.len() - 300_001 + PREFIX_BYTES), None]);
        // Half a message is for whoever answers to complain of.
        said.end(None);
        assert_eq!([passed(&mut incoming), passed(&mut incoming)], [Some(3), Some(0)]);
    }
}
