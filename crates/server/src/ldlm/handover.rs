//! Grants on their way to callers that may just be hanging up.
//!
//! A caller that cancels a call says so in a frame, which may cross the answer on the wire. HTTP/2 then has no stream
//! left to tell anybody of, and a lock would stay locked with a key that nobody has seen until the connection ends. So
//! an onlooker tells on which stream each answer went, and the lock is taken back if that stream is reset, or if the
//! answer is let go of without having gone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{StreamExt, unfold};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use prost::Message;
use tenure_core::Key;
use tenure_engine::Engine;
use tenure_proto::ldlm::LockResponse;
use tokio::sync::oneshot;
use tonic::body::Body;

use super::Granted;
use crate::http2::PREFIX_BYTES;

/// Answers with longer names are not looked for: they would have to be kept until the whole of one has passed.
pub(super) const ANSWER_BYTES_MAX: usize = 8 * 1024;
/// Answers, and resets, that are remembered. A reset that crosses an answer comes within a round trip.
pub(super) const REMEMBERED_MAX: usize = 1_024;
/// How long the end of an answer waits for its beginning to be on its way. Longer only if the client does not read.
const WRITING_MAX: Duration = Duration::from_secs(1);

/// The grants of one connection.
pub(super) struct Crossing {
    engine: Arc<dyn Engine>,
    /// There was a grant.
    in_use: AtomicBool,
    grants: Mutex<Grants>,
}

#[derive(Default)]
struct Grants {
    /// With whom to tell that it is written, if somebody waits for it.
    unwritten: HashMap<Key, (Granted, Option<oneshot::Sender<()>>)>,
    /// Those whose answers were let go of before they were seen to go: either they are about to, or they never will.
    let_go: Vec<Key>,
    /// With the stream that each was answered on, oldest first.
    written: VecDeque<(u32, Granted)>,
    /// Streams that were reset when nothing was known of them. What the other side of the connection does with a reset
    /// may come after it has written one more answer.
    resets: VecDeque<u32>,
    /// A stream was reset, whatever for.
    any_reset: bool,
    /// Some answer was not followed to its end.
    lost_sight: bool,
    /// There is nothing any more to write to.
    over: bool,
}

impl Crossing {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, in_use: AtomicBool::new(false), grants: Mutex::default() }
    }

    /// Answers with a grant, which is taken back if the answer does not leave. With care, its end follows its beginning
    /// by itself: a caller that stops listening by the clock says nothing of it once it has heard the end, and is likely to
    /// stop just then. All others are spared the second write.
    pub(super) fn hand_over(self: &Arc<Self>, granted: Granted, answer: &LockResponse, care: bool) -> Handover {
        let mut written = None;
        if answer.encoded_len() <= ANSWER_BYTES_MAX - PREFIX_BYTES {
            let (tell, told) = care.then(oneshot::channel).unzip();
            self.in_use.store(true, Ordering::Release);
            self.grants().unwritten.insert(granted.key, (granted, tell));
            written = told;
        }
        let (crossing, written) = (self.clone(), Mutex::new(written));
        Handover(Arc::new(OnItsWay { crossing, granted, written, handed_on: AtomicBool::new(false) }))
    }

    /// Only the connections of LDLM's clients are worth a closer look.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    pub(super) fn written(&self, stream: u32, answer: &LockResponse) {
        let mut grants = self.grants();
        let Some((granted, tell)) = Key::parse(&answer.key).ok().and_then(|key| grants.unwritten.remove(&key)) else {
            return;
        };
        if grants.resets.contains(&stream) {
            // Nobody waits for the end of this answer.
            return self.take_back(granted);
        }
        remember(&mut grants.written, (stream, granted));
        if let Some(tell) = tell {
            let _ = tell.send(());
        }
    }

    /// All that HTTP/2 had taken to write is written. An answer that was let go of by then and was not seen is one that was
    /// thrown away, as happens when its stream is reset.
    pub(super) fn flushed(&self) {
        if !self.is_in_use() {
            return;
        }
        let grants = &mut *self.grants();
        for key in grants.let_go.drain(..) {
            let Some((granted, tell)) = grants.unwritten.remove(&key) else { continue };
            // A lock that somebody has must never be taken back, and nothing else than a reset makes HTTP/2 throw an
            // answer away.
            if grants.any_reset && !grants.lost_sight {
                self.take_back(granted);
            } else if let Some(tell) = tell {
                let _ = tell.send(());
            }
        }
    }

    /// From now on an answer may go without having been seen.
    pub(super) fn lose_sight(&self) {
        self.grants().lost_sight = true;
    }

    /// The connection has ended: what is not written is not going to be.
    pub(super) fn end(&self) {
        let grants = &mut *self.grants();
        grants.over = true;
        grants.unwritten.drain().for_each(|(_, (granted, _))| self.take_back(granted));
    }

    fn let_go(&self, granted: Granted) {
        let mut grants = self.grants();
        if !grants.unwritten.contains_key(&granted.key) {
            // It was seen to go.
        } else if grants.over {
            grants.unwritten.remove(&granted.key);
            self.take_back(granted);
        } else {
            grants.let_go.push(granted.key);
        }
    }

    pub(super) fn reset(&self, stream: u32, is_cancelled: bool) {
        let mut grants = self.grants();
        grants.any_reset = true;
        if !is_cancelled {
            return;
        }
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

/// A grant until HTTP/2 has all of its answer. It travels with the answer, and if that is dropped before, is taken back:
/// no client takes half an answer for one.
#[derive(Clone)]
pub(super) struct Handover(Arc<OnItsWay>);

struct OnItsWay {
    crossing: Arc<Crossing>,
    granted: Granted,
    written: Mutex<Option<oneshot::Receiver<()>>>,
    handed_on: AtomicBool,
}

impl Handover {
    /// All of the answer is where HTTP/2 writes from.
    pub(super) fn leaves(self) {
        self.0.handed_on.store(true, Ordering::Release);
        self.0.crossing.let_go(self.0.granted);
    }

    pub(super) fn carry(self, answer: Body) -> Body {
        let written = self.0.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answer = match written {
            Some(written) => in_two_parts(answer, written),
            None => answer,
        };
        Body::new(answer.map_frame(move |frame| {
            if frame.is_trailers() {
                self.0.handed_on.store(true, Ordering::Release);
            }
            let (crossing, granted) = (&self.0.crossing, self.0.granted);
            frame.map_data(|bytes| Bytes::from_owner(Parcel { bytes, granted, crossing: crossing.clone() }))
        }))
    }
}

/// The answer, whose end is held back until its beginning is on its way.
fn in_two_parts(answer: Body, written: oneshot::Receiver<()>) -> Body {
    let parts = unfold((BodyStream::new(answer), Some(written)), |(mut frames, mut written)| async {
        let frame = frames.next().await?;
        if frame.as_ref().is_ok_and(|frame| frame.is_trailers())
            && let Some(written) = written.take()
            && let Ok(Err(_)) = tokio::time::timeout(WRITING_MAX, written).await
        {
            // The call was cancelled, and this is about to be dropped.
            std::future::pending::<()>().await;
        }
        Some((frame, (frames, written)))
    });
    Body::new(StreamBody::new(Box::pin(parts)))
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.handed_on.load(Ordering::Acquire) {
            self.crossing.grants().unwritten.remove(&self.granted.key);
            self.crossing.take_back(self.granted);
        }
    }
}

/// The bytes of an answer. HTTP/2 keeps them until it has written them, or copied them to where it writes from, or until
/// there is nobody any more to write them to.
struct Parcel {
    bytes: Bytes,
    granted: Granted,
    crossing: Arc<Crossing>,
}

impl AsRef<[u8]> for Parcel {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.crossing.let_go(self.granted);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::body::Frame;
    use tenure_core::*;
    use tenure_engine::Calls;

    use super::super::onlooker::Onlooker;
    use super::*;
    use crate::Storage;

    const CANCEL: u8 = 8;

    /// A connection on which a lock was granted.
    struct Scene {
        engine: Arc<dyn Engine>,
        crossing: Arc<Crossing>,
        onlooker: Onlooker,
        granted: Granted,
    }

    impl Scene {
        async fn new() -> Self {
            let engine = Storage::default().start_engine().unwrap();
            let acquiring = engine.acquire(Acquire {
                pool: PoolPath::new(Namespace::default(), PoolName::parse("x").unwrap()),
                demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
                size: None,
                lifetime: Some(Lifetime::Kept),
                wait: Wait::Try,
                priority: Priority::default(),
                holder: Arc::new(Holder::parse("tester", []).unwrap()),
                session: None,
                request: None,
                also: Box::default(),
                holds_on: false,
            });
            let acquiring = acquiring.unwrap();
            let ticket = acquiring.ticket();
            let Ok(Reply::Granted(grant)) = acquiring.settle().await else { panic!("it is free") };
            let crossing = Arc::new(Crossing::new(engine.clone()));
            let mut onlooker = Onlooker::new(crossing.clone());
            onlooker.read(&[0; 24]);
            let granted = Granted { key: grant.key, token: grant.token, ticket };
            Self { engine, crossing, onlooker, granted }
        }

        fn answer(&self) -> LockResponse {
            LockResponse { locked: true, name: "x".into(), key: self.granted.key.to_string(), error: None }
        }

        /// The bytes of the answer, as HTTP/2 has them when it has all of it.
        async fn take_answer(&self) -> Bytes {
            let message = self.answer().encode_to_vec();
            let mut bytes = vec![0];
            bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            bytes.extend(message);
            let frames = [Frame::data(Bytes::from(bytes)), Frame::trailers(Default::default())];
            let body = Body::new(StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, Infallible>))));
            let mut body = self.crossing.hand_over(self.granted, &self.answer(), false).carry(body);
            let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(body.frame().await.unwrap().unwrap().is_trailers());
            bytes
        }

        /// Writes data, in a frame each.
        fn write<'a>(&mut self, stream: u8, frames: impl Iterator<Item = &'a [u8]>) {
            for payload in frames {
                self.onlooker.wrote(&[0, 0, u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0, 0, stream]);
                self.onlooker.wrote(payload);
            }
        }

        fn reset(&mut self, stream: u8, why: u8) {
            self.onlooker.read(&[0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, why]);
        }

        async fn is_held(&self) -> bool {
            let release = Release { namespace: Namespace::default(), key: self.granted.key, pool: None };
            matches!(self.engine.call(Command::Release(release)).await, Ok(Reply::Released { .. }))
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_thrown_away_at_a_reset_gives_its_lock_back() {
        for why in [0, CANCEL] {
            let mut scene = Scene::new().await;
            let bytes = scene.take_answer().await;
            scene.reset(1, why);
            drop(bytes);
            scene.crossing.flushed();
            assert!(!scene.is_held().await, "reset for {why}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_copied_and_then_written_keeps_its_lock() {
        let mut scene = Scene::new().await;
        scene.reset(9, CANCEL);
        let bytes = scene.take_answer().await;
        let copy = bytes.to_vec();
        drop(bytes);
        scene.write(1, std::iter::once(&*copy));
        scene.crossing.flushed();
        assert!(scene.is_held().await);
    }

    #[tokio::test]
    async fn an_answer_is_known_again_however_small_its_pieces() {
        for size in [1, 4, 5, 6] {
            let mut scene = Scene::new().await;
            scene.reset(9, CANCEL);
            let bytes = scene.take_answer().await;
            scene.write(1, bytes.clone().chunks(size));
            drop(bytes);
            scene.crossing.flushed();
            scene.reset(3, CANCEL);
            assert!(scene.is_held().await, "pieces of {size} bytes");
        }
    }

    #[tokio::test]
    async fn an_answer_whose_stream_is_reset_after_it_was_written_gives_its_lock_back() {
        let mut scene = Scene::new().await;
        let bytes = scene.take_answer().await;
        scene.write(1, std::iter::once(&*bytes));
        scene.crossing.flushed();
        scene.reset(1, CANCEL);
        assert!(!scene.is_held().await);
    }

    #[tokio::test]
    async fn without_a_reset_no_lock_is_taken_back() {
        let scene = Scene::new().await;
        drop(scene.take_answer().await);
        scene.crossing.flushed();
        assert!(scene.is_held().await);
    }

    #[tokio::test]
    async fn what_is_not_written_when_the_connection_ends_is_given_back() {
        let scene = Scene::new().await;
        let bytes = scene.take_answer().await;
        scene.crossing.end();
        drop(bytes);
        assert!(!scene.is_held().await);
    }
}
