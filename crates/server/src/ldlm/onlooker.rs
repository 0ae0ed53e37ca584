//! Looks on as a connection's bytes pass, for what HTTP/2 does not tell: which answer left on which stream, which streams
//! were reset after that, and how often the client pings.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use tenure_proto::ldlm::LockResponse;
use tokio::time::Instant;

use super::frames::{Frames, Look};
use super::handover::{ANSWER_BYTES_MAX, Crossing, REMEMBERED_MAX};
use super::pings::Pings;
use crate::http2::PREFIX_BYTES;
use crate::http2::frame::{ACK, DATA, HEADERS, Head, PING, PREFACE, RST_STREAM};

const NO_ERROR: [u8; 4] = [0; 4];

pub(super) struct Onlooker {
    incoming: Frames,
    outgoing: Frames,
    sight: Sight,
}

struct Sight {
    crossing: Arc<Crossing>,
    pings: Pings,
    /// Answers of which only a part has passed.
    parts: HashMap<u32, Vec<u8>>,
}

impl Onlooker {
    pub(super) fn new(crossing: Arc<Crossing>) -> Self {
        let sight = Sight { crossing, pings: Pings::default(), parts: HashMap::new() };
        Self { incoming: Frames::after(PREFACE.len()), outgoing: Frames::after(0), sight }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.incoming.follow(bytes, &mut Incoming(&mut self.sight));
    }

    pub(super) fn wrote(&mut self, bytes: &[u8]) {
        self.outgoing.follow(bytes, &mut Outgoing(&mut self.sight));
    }

    /// Whether the client pings too often, and has finished what it was saying.
    pub(super) fn has_heard_enough(&self) -> bool {
        self.sight.pings.are_too_many() && self.incoming.are_whole()
    }

    /// Whether something can be said to the client without being taken for a part of something else.
    pub(super) fn may_interrupt(&self) -> bool {
        self.outgoing.are_whole()
    }
}

struct Incoming<'a>(&'a mut Sight);

impl Look for Incoming<'_> {
    fn begins(&mut self, frame: Head) -> bool {
        if frame.kind == PING && frame.flags & ACK == 0 {
            self.0.pings.came(Instant::now());
        }
        frame.kind == RST_STREAM && frame.bytes == NO_ERROR.len()
    }

    fn passed(&mut self, frame: Head, why: &[u8]) {
        // A stream that is over may be put away with NO_ERROR; that is no cancellation.
        self.0.crossing.reset(frame.stream, *why != NO_ERROR);
    }
}

struct Outgoing<'a>(&'a mut Sight);

impl Look for Outgoing<'_> {
    fn begins(&mut self, frame: Head) -> bool {
        if let HEADERS | DATA = frame.kind {
            self.0.pings.excused();
        }
        frame.kind == DATA && frame.bytes <= ANSWER_BYTES_MAX && self.0.crossing.is_in_use()
    }

    fn passed(&mut self, frame: Head, some: &[u8]) {
        let Sight { crossing, parts, .. } = &mut *self.0;
        // Nearly always it comes whole, and is not copied.
        let answer = match parts.remove(&frame.stream) {
            Some(before) => Cow::Owned([&before, some].concat()),
            None => Cow::Borrowed(some),
        };
        let length = answer.first_chunk::<PREFIX_BYTES>().map(|[_, length @ ..]| u32::from_be_bytes(*length) as usize);
        match length.map(|length| (length, length.cmp(&(answer.len() - PREFIX_BYTES)))) {
            Some((_, Ordering::Equal)) => {
                if let Ok(answer) = LockResponse::decode(&answer[PREFIX_BYTES..]) {
                    crossing.written(frame.stream, &answer);
                }
            }
            // Not an answer to look for.
            Some((_, Ordering::Less) | (ANSWER_BYTES_MAX.., _)) => {}
            _ if parts.len() < REMEMBERED_MAX => drop(parts.insert(frame.stream, answer.into_owned())),
            _ => crossing.lose_sight(),
        }
    }
}
