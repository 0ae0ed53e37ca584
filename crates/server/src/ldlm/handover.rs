//! Grants on their way to callers that may just be hanging up.
//!
//! A caller that cancels a call says so in a frame, which may cross the answer on the wire. HTTP/2 then has no stream
//! left to tell anybody of, and a lock would stay locked with a key that nobody has seen until the connection ends. So
//! this looks on as the bytes pass: it learns from the answer on which stream it went, and takes the lock back if that
//! stream is reset.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{StreamExt, unfold};
use http_body_util::{BodyStream, StreamBody};
use prost::Message;
use tenure_core::Key;
use tenure_engine::Engine;
use tenure_proto::ldlm::LockResponse;
use tokio::sync::oneshot;
use tonic::body::Body;

use super::Granted;
use super::frames::{Frames, Kind, PREFACE_BYTES};

/// Answers with longer names are not looked for: they would have to be kept until the whole of one has passed.
const ANSWER_BYTES_MAX: usize = 8 * 1024;
/// Answers, and resets, that are remembered. A reset that crosses an answer comes within a round trip.
const REMEMBERED_MAX: usize = 1_024;
/// How long the end of an answer waits for its beginning to be on its way. Longer only if the client does not read.
const WRITING_MAX: Duration = Duration::from_secs(1);
/// A gRPC message begins with a flag and its length.
const PREFIX_BYTES: usize = 5;
const NO_ERROR: [u8; 4] = [0; 4];

/// The grants of one connection.
pub(super) struct Crossing {
    engine: Arc<dyn Engine>,
    /// Only the connections of LDLM's clients are worth a closer look.
    in_use: AtomicBool,
    grants: Mutex<Grants>,
}

#[derive(Default)]
struct Grants {
    unwritten: HashMap<Key, (Granted, oneshot::Sender<()>)>,
    /// With the stream that each was answered on, oldest first.
    written: VecDeque<(u32, Granted)>,
    /// Streams that were reset when nothing was known of them. What the other side of the connection does with a reset
    /// may come after it has written one more answer.
    resets: VecDeque<u32>,
}

impl Crossing {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, in_use: AtomicBool::new(false), grants: Mutex::default() }
    }

    /// Answers with a grant, which is taken back if the answer does not leave.
    pub(super) fn hand_over(self: &Arc<Self>, granted: Granted, answer: &LockResponse) -> Handover {
        let mut written = None;
        if answer.encoded_len() <= ANSWER_BYTES_MAX - PREFIX_BYTES {
            let (tell, told) = oneshot::channel();
            self.in_use.store(true, Ordering::Release);
            self.grants().unwritten.insert(granted.key, (granted, tell));
            written = Some(told);
        }
        let crossing = self.clone();
        Handover(Arc::new(OnItsWay { crossing, granted, written: Mutex::new(written), left: AtomicBool::new(false) }))
    }

    fn written(&self, stream: u32, answer: &LockResponse) {
        let mut grants = self.grants();
        let Some((granted, tell)) = Key::parse(&answer.key).ok().and_then(|key| grants.unwritten.remove(&key)) else {
            return;
        };
        if grants.resets.contains(&stream) {
            // Nobody waits for the end of this answer.
            return self.take_back(granted);
        }
        remember(&mut grants.written, (stream, granted));
        let _ = tell.send(());
    }

    fn reset(&self, stream: u32) {
        let mut grants = self.grants();
        match grants.written.iter().position(|(written, _)| *written == stream) {
            Some(at) => {
                let (_, granted) = grants.written.remove(at).expect("it was just found");
                self.take_back(granted);
            }
            None => remember(&mut grants.resets, stream),
        }
    }

    fn take_back(&self, granted: Granted) {
        self.engine.hang_up(granted.ticket, Some(granted.token));
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remember<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == REMEMBERED_MAX {
        all.pop_front();
    }
    all.push_back(one);
}

/// A grant until its answer has left. It travels with the answer, and if that is dropped, is taken back.
#[derive(Clone)]
pub(super) struct Handover(Arc<OnItsWay>);

struct OnItsWay {
    crossing: Arc<Crossing>,
    granted: Granted,
    written: Mutex<Option<oneshot::Receiver<()>>>,
    left: AtomicBool,
}

impl Handover {
    /// The answer, whose end is held back until its beginning is on its way: no client takes half an answer for one.
    pub(super) fn carry(self, answer: Body) -> Body {
        let frames = unfold((BodyStream::new(answer), self), |(mut frames, handover)| async {
            let frame = frames.next().await?;
            if frame.as_ref().is_ok_and(|frame| frame.is_trailers()) {
                handover.leave().await;
            }
            Some((frame, (frames, handover)))
        });
        Body::new(StreamBody::new(Box::pin(frames)))
    }

    async fn leave(&self) {
        let written = self.0.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(written) = written {
            match tokio::time::timeout(WRITING_MAX, written).await {
                Ok(Ok(())) | Err(_) => {}
                // The call was cancelled, and this is about to be dropped.
                Ok(Err(_)) => std::future::pending().await,
            }
        }
        self.0.left.store(true, Ordering::Release);
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.left.load(Ordering::Acquire) {
            self.crossing.grants().unwritten.remove(&self.granted.key);
            self.crossing.take_back(self.granted);
        }
    }
}

/// Looks on as a connection's bytes pass.
pub(super) struct Onlooker {
    crossing: Arc<Crossing>,
    incoming: Frames,
    outgoing: Frames,
    /// Answers of which only a part has passed.
    parts: HashMap<u32, Vec<u8>>,
}

impl Onlooker {
    pub(super) fn new(crossing: Arc<Crossing>) -> Self {
        Self {
            crossing,
            incoming: Frames::new(Kind::Reset, PREFACE_BYTES, NO_ERROR.len()),
            outgoing: Frames::new(Kind::Data, 0, ANSWER_BYTES_MAX),
            parts: HashMap::new(),
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        // A stream that is over may be put away with NO_ERROR; that is no cancellation.
        let crossing = &self.crossing;
        self.incoming.follow(bytes, |stream, why| {
            if *why != NO_ERROR {
                crossing.reset(stream);
            }
        });
    }

    pub(super) fn wrote(&mut self, bytes: &[u8]) {
        let (crossing, parts) = (&self.crossing, &mut self.parts);
        self.outgoing.follow(bytes, |stream, some| {
            if !crossing.in_use.load(Ordering::Acquire) {
                return;
            }
            let mut answer = parts.remove(&stream).unwrap_or_default();
            answer.extend_from_slice(some);
            let Some((prefix, message)) = answer.split_first_chunk::<PREFIX_BYTES>() else { return };
            let [_, length @ ..] = *prefix;
            let length = u32::from_be_bytes(length) as usize;
            if message.len() == length {
                if let Ok(answer) = LockResponse::decode(message) {
                    crossing.written(stream, &answer);
                }
            } else if message.len() < length && length <= ANSWER_BYTES_MAX && parts.len() < REMEMBERED_MAX {
                parts.insert(stream, answer);
            }
        });
    }
}
