//! The rules of HTTP/2, for a server: bytes in, what they mean to whoever answers, and bytes out. No sockets, no tasks and no clock.
//!
//! It keeps what both sides may still send, knows which streams are open, and says what is wrong with a stream or with all of it.
//! What a call is about, and when it is answered, is for `calls`. Nothing is pushed, and priorities are not looked at.

mod sending;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::HeaderMap;
use hashbrown::HashMap;

use super::fields::{Fields, RequestHead};
use super::frame::*;
use super::hpack::{Decoder, Encoder};

/// What a stream may say that is not yet looked at.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
/// What a connection may say that is not yet looked at: whoever answers may keep as much of it waiting.
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;
/// The headers of one request: names and tokens, not data.
pub(super) const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// The same, as they are sent. They may be a little longer so, and not without end.
const BLOCK_BYTES_MAX: usize = 32 * 1024;
/// In how many pieces they may come, some of which may have no bytes at all.
const BLOCK_PIECES_MAX: usize = 64;
/// Streams that may be open at once, and the headers of all of them. Those who wait have one each, so it is many, and clients are not told
/// of it: they would keep back the release that all others wait for.
const STREAMS_MAX: usize = 64 * 1024;
const HEADERS_OF_ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Streams of one connection that may break the rules, in all its life. No sound client breaks any, but an answer that comes before its
/// request has ended may look like it, and connections live long.
const BROKEN_MAX: usize = 10_000;
/// Streams that are remembered after their end, to tell what comes late from what is wrong.
const RECENT_MAX: usize = 256;
/// Blocks of headers that are known as a whole: one for each call that a client makes often.
const KNOWN_MAX: usize = 8;

/// Pings that ask whether the client is there, and whether it has heard that there are to be no more calls.
const ARE_YOU_THERE: [u8; 8] = *b"tenure??";
const GOODBYE: [u8; 8] = *b"goodbye!";

/// Whoever answers.
pub(super) trait Hear {
    /// A call begins. With `ends` that is all of it.
    fn request(&mut self, stream: u32, head: &Arc<RequestHead>, ends: bool);
    /// Gives how much of it is done with already. For the rest the client may say more when it is released.
    fn data(&mut self, stream: u32, data: &[u8], ends: bool) -> usize;
    /// The call's last word.
    fn trailers(&mut self, stream: u32, trailers: HeaderMap);
    /// It is over, whatever was said.
    fn reset(&mut self, stream: u32);
    /// More may be sent on it; on all, without one.
    fn may_send(&mut self, stream: Option<u32>);
}

#[derive(Debug)]
pub(super) struct Protocol {
    /// To be written to the client.
    pub(super) out: Vec<u8>,
    /// How much of the preface is still to come.
    preface: &'static [u8],
    /// The first frame has come, which must tell settings.
    is_greeted: bool,
    /// The beginning of a frame.
    unread: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    /// Headers of which more is to come.
    block: Option<Block>,
    /// Blocks that are nothing but numbers in the table, and what they mean as long as that is as it is.
    known: Vec<(Box<[u8]>, Arc<RequestHead>)>,
    streams: HashMap<u32, Stream>,
    /// What all of them have.
    header_bytes: usize,
    /// The highest that was begun.
    last: u32,
    /// Streams that have ended, and whether it was us who did not want to hear the rest.
    recent: VecDeque<(u32, bool)>,
    broken: usize,
    /// What may be sent in all, and what every stream may say of it before it is allowed more.
    window: i64,
    stream_window: i64,
    /// What the client may still send in all, and what it could be allowed besides.
    heard_window: u32,
    released: u32,
    /// The client was told that there are to be no more calls; and new ones are not taken any more.
    is_announced: bool,
    is_last: bool,
    /// The client begins no more calls.
    client_leaves: bool,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    /// What may be sent besides what every stream may, less what was sent. So that nothing is to be done for each of them when the client
    /// changes its mind about that.
    window: i64,
    /// What the client may still send, and what it could be allowed besides.
    heard_window: u32,
    released: u32,
    /// The client has said all it wants to say.
    has_ended: bool,
    /// What is still to come, if the client has said how much it is.
    expected: Option<u64>,
    header_bytes: usize,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    pieces: usize,
}

/// What is wrong with a frame.
enum Wrong {
    /// Nothing that comes after it can be understood, or is wanted.
    Connection(Why),
    Stream(u32, Why),
}

impl From<Why> for Wrong {
    fn from(why: Why) -> Self {
        Self::Connection(why)
    }
}

impl Protocol {
    /// It speaks first, of its settings.
    pub(super) fn new() -> Self {
        let (mut out, mut settings) = (Vec::new(), Vec::new());
        write_setting(&mut settings, SETTING_WINDOW_BYTES, STREAM_WINDOW_BYTES);
        write_setting(&mut settings, SETTING_HEADER_BYTES, HEADER_BYTES_MAX);
        write(&mut out, SETTINGS, 0, 0, &settings);
        write(&mut out, WINDOW_UPDATE, 0, 0, &(CONNECTION_WINDOW_BYTES - WINDOW_BYTES).to_be_bytes());
        Self {
            out,
            preface: PREFACE,
            is_greeted: false,
            unread: Vec::new(),
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            block: None,
            known: Vec::new(),
            streams: HashMap::new(),
            header_bytes: 0,
            last: 0,
            recent: VecDeque::new(),
            broken: 0,
            window: WINDOW_BYTES.into(),
            stream_window: WINDOW_BYTES.into(),
            heard_window: CONNECTION_WINDOW_BYTES,
            released: 0,
            is_announced: false,
            is_last: false,
            client_leaves: false,
            scratch: Vec::new(),
        }
    }

    /// Whether either side has said that no more calls are to come, and all that came are answered.
    pub(super) fn is_over(&self) -> bool {
        (self.is_last || self.client_leaves) && self.streams.is_empty()
    }

    /// What the client has said. After an error it is not to be listened to any more.
    pub(super) fn hear(&mut self, bytes: &[u8], calls: &mut impl Hear) -> Result<(), Why> {
        if self.unread.is_empty() {
            let used = self.hear_frames(bytes, calls)?;
            self.unread.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut unread = std::mem::take(&mut self.unread);
        unread.extend_from_slice(bytes);
        let used = self.hear_frames(&unread, calls)?;
        // With its memory, if that is all: most connections are silent most of the time.
        if used < unread.len() {
            unread.drain(..used);
            self.unread = unread;
        }
        Ok(())
    }

    /// Gives how many bytes were whole frames.
    fn hear_frames(&mut self, bytes: &[u8], calls: &mut impl Hear) -> Result<usize, Why> {
        let mut rest = bytes;
        if !self.preface.is_empty() {
            let (said, after) = rest.split_at(self.preface.len().min(rest.len()));
            self.preface = self.preface.strip_prefix(said).ok_or(Why::Protocol)?;
            rest = after;
        }
        while let Some((head, after)) = rest.split_first_chunk() {
            let head = Head::read(*head);
            if head.bytes > PAYLOAD_BYTES_MAX {
                return Err(Why::FrameSize);
            }
            let Some((payload, others)) = after.split_at_checked(head.bytes) else { break };
            rest = others;
            match self.hear_frame(head, payload, calls) {
                Ok(()) => {}
                Err(Wrong::Connection(why)) => return Err(why),
                Err(Wrong::Stream(stream, why)) => self.break_off(stream, why, calls)?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn hear_frame(&mut self, head: Head, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        let is_first = !std::mem::replace(&mut self.is_greeted, true);
        if is_first && (head.kind != SETTINGS || head.has(ACK)) {
            return Err(Why::Protocol.into());
        }
        // Headers come without a break.
        if self.block.as_ref().map(|block| block.stream) != (head.kind == CONTINUATION).then_some(head.stream) {
            return Err(Why::Protocol.into());
        }
        let is_of_a_stream = matches!(head.kind, DATA | HEADERS | PRIORITY | RST_STREAM | CONTINUATION);
        let is_of_all = matches!(head.kind, SETTINGS | PING | GOAWAY);
        if is_of_a_stream && head.stream == 0 || is_of_all && head.stream != 0 {
            return Err(Why::Protocol.into());
        }
        match head.kind {
            DATA => self.hear_data(head, payload, calls),
            HEADERS => self.hear_headers(head, payload, calls),
            CONTINUATION => self.hear_more_headers(head, payload, calls),
            PRIORITY => self.hear_priority(head.stream, payload),
            RST_STREAM => self.hear_reset(head.stream, payload, calls),
            SETTINGS => self.hear_settings(head, payload, calls),
            PING => {
                let payload = <[u8; 8]>::try_from(payload).map_err(|_| Why::FrameSize)?;
                if !head.has(ACK) {
                    write(&mut self.out, PING, ACK, 0, &payload);
                } else if payload == GOODBYE && self.is_announced && !self.is_last {
                    self.take_no_more();
                }
                Ok(())
            }
            GOAWAY if payload.len() < 8 => Err(Why::FrameSize.into()),
            GOAWAY => {
                self.client_leaves = true;
                Ok(())
            }
            WINDOW_UPDATE => self.hear_window(head.stream, payload, calls),
            PUSH_PROMISE => Err(Why::Protocol.into()),
            // Others may be told of what we do not know.
            _ => Ok(()),
        }
    }

    fn hear_data(&mut self, head: Head, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        let data = without_padding(head, payload)?;
        let bytes = window_bytes(payload);
        self.heard_window = self.heard_window.checked_sub(bytes).ok_or(Why::FlowControl)?;
        let Some(stream) = self.streams.get_mut(&head.stream) else {
            self.release_connection(bytes);
            return self.comes_late(head.stream);
        };
        if stream.has_ended {
            self.release_connection(bytes);
            return Err(Wrong::Stream(head.stream, Why::StreamClosed));
        }
        let Some(window) = stream.heard_window.checked_sub(bytes) else {
            self.release_connection(bytes);
            return Err(Wrong::Stream(head.stream, Why::FlowControl));
        };
        stream.heard_window = window;
        let ends = head.has(END_STREAM);
        if let Some(expected) = &mut stream.expected {
            match expected.checked_sub(data.len() as u64) {
                Some(left) if left == 0 || !ends => *expected = left,
                _ => {
                    self.release_connection(bytes);
                    return Err(Wrong::Stream(head.stream, Why::Protocol));
                }
            }
        }
        stream.has_ended = ends;
        let done = calls.data(head.stream, data, ends) + payload.len() - data.len();
        self.release(head.stream, u32::try_from(done).expect("it is a part of a frame"));
        Ok(())
    }

    fn hear_headers(&mut self, head: Head, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        let mut fragment = without_padding(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(HAS_PRIORITY) {
            let (priority, rest) = fragment.split_first_chunk::<5>().ok_or(Why::FrameSize)?;
            depends_on_itself = dependency(*priority) == head.stream;
            fragment = rest;
        }
        let ends = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.hear_block(head.stream, ends, depends_on_itself, fragment, calls);
        }
        let bytes = fragment.to_vec();
        self.block = Some(Block { stream: head.stream, ends, depends_on_itself, bytes, pieces: 1 });
        Ok(())
    }

    fn hear_more_headers(&mut self, head: Head, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        let block = self.block.as_mut().expect("headers come without a break");
        block.bytes.extend_from_slice(payload);
        block.pieces += 1;
        if block.bytes.len() > BLOCK_BYTES_MAX || block.pieces > BLOCK_PIECES_MAX {
            return Err(Why::EnhanceYourCalm.into());
        }
        if !head.has(END_HEADERS) {
            return Ok(());
        }
        let Block { stream, ends, depends_on_itself, bytes, .. } = self.block.take().expect("it was just there");
        self.hear_block(stream, ends, depends_on_itself, &bytes, calls)
    }

    /// All headers of a request, or what comes at its end.
    fn hear_block(
        &mut self,
        id: u32,
        ends: bool,
        depends_on_itself: bool,
        block: &[u8],
        calls: &mut impl Hear,
    ) -> Result<(), Wrong> {
        if id > self.last
            && !depends_on_itself
            && let Some((_, head)) = self.known.iter().find(|(known, _)| **known == *block)
        {
            let head = head.clone();
            return self.begin(id, &head, ends, calls);
        }
        let mut fields = Fields::default();
        self.decoder.decode(block, |name, value| fields.add(name, value)).map_err(|_| Why::Compression)?;
        let is_numbers_only = block.iter().all(|byte| *byte > 0x80 && *byte < 0xff);
        if !is_numbers_only {
            // The table may have changed, and with it what the numbers mean.
            self.known.clear();
        }
        if depends_on_itself {
            self.last = self.last.max(id);
            return Err(Wrong::Stream(id, Why::Protocol));
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            return match fields.trailers() {
                _ if stream.has_ended => Err(Wrong::Stream(id, Why::StreamClosed)),
                Some(trailers) if ends && stream.expected.is_none_or(|left| left == 0) => {
                    stream.has_ended = true;
                    calls.trailers(id, trailers);
                    Ok(())
                }
                _ => Err(Wrong::Stream(id, Why::Protocol)),
            };
        }
        if id <= self.last {
            return match self.recent.iter().find(|(recent, _)| *recent == id) {
                Some((_, true)) => Ok(()),
                Some((_, false)) => Err(Why::StreamClosed.into()),
                None => Err(Why::Protocol.into()),
            };
        }
        if id.is_multiple_of(2) {
            return Err(Why::Protocol.into());
        }
        if fields.are_too_many() {
            self.last = id;
            self.refuse_headers(id, ends);
            return Ok(());
        }
        let Some(head) = fields.request().map(Arc::new) else {
            self.last = id;
            return Err(Wrong::Stream(id, Why::Protocol));
        };
        if is_numbers_only {
            if self.known.len() == KNOWN_MAX {
                self.known.clear();
            }
            self.known.push((block.into(), head.clone()));
        }
        self.begin(id, &head, ends, calls)
    }

    fn begin(&mut self, id: u32, head: &Arc<RequestHead>, ends: bool, calls: &mut impl Hear) -> Result<(), Wrong> {
        if id.is_multiple_of(2) {
            return Err(Why::Protocol.into());
        }
        self.last = id;
        let has_room = self.streams.len() < STREAMS_MAX && self.header_bytes + head.bytes <= HEADERS_OF_ALL_BYTES_MAX;
        if self.is_last || !has_room {
            write(&mut self.out, RST_STREAM, 0, id, &(Why::Refused as u32).to_be_bytes());
            self.remember(id, true);
            return Ok(());
        }
        if ends && head.length.is_some_and(|length| length > 0) {
            return Err(Wrong::Stream(id, Why::Protocol));
        }
        let stream = Stream {
            window: 0,
            heard_window: STREAM_WINDOW_BYTES,
            released: 0,
            has_ended: ends,
            expected: head.length,
            header_bytes: head.bytes,
        };
        self.header_bytes += head.bytes;
        self.streams.insert(id, stream);
        calls.request(id, head, ends);
        Ok(())
    }

    /// `431 Request Header Fields Too Large`.
    fn refuse_headers(&mut self, id: u32, has_ended: bool) {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        self.encoder.status(431, &mut block);
        write(&mut self.out, HEADERS, END_HEADERS | END_STREAM, id, &block);
        if !has_ended {
            write(&mut self.out, RST_STREAM, 0, id, &(Why::NoError as u32).to_be_bytes());
        }
        self.remember(id, !has_ended);
    }

    /// They are not looked at, but must make sense.
    fn hear_priority(&mut self, id: u32, payload: &[u8]) -> Result<(), Wrong> {
        let why = match <[u8; 5]>::try_from(payload) {
            Ok(priority) if dependency(priority) != id => return Ok(()),
            Ok(_) => Why::Protocol,
            Err(_) => Why::FrameSize,
        };
        // Nothing can be said on a stream that was never begun.
        if id > self.last { Err(why.into()) } else { Err(Wrong::Stream(id, why)) }
    }

    fn hear_reset(&mut self, id: u32, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        if payload.len() != 4 {
            return Err(Why::FrameSize.into());
        }
        if id > self.last {
            return Err(Why::Protocol.into());
        }
        if self.forget(id).is_some() {
            self.remember(id, false);
            calls.reset(id);
        }
        Ok(())
    }

    fn hear_settings(&mut self, head: Head, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        if !payload.len().is_multiple_of(6) || head.has(ACK) && !payload.is_empty() {
            return Err(Why::FrameSize.into());
        }
        if head.has(ACK) {
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let [s0, s1, v0, v1, v2, v3] = *setting else { unreachable!("they come in sixes") };
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match u16::from_be_bytes([s0, s1]) {
                SETTING_TABLE_BYTES => self.encoder.set_table_max(value),
                SETTING_PUSH if value > 1 => return Err(Why::Protocol.into()),
                SETTING_WINDOW_BYTES if value > WINDOW_BYTES_MAX => return Err(Why::FlowControl.into()),
                SETTING_WINDOW_BYTES => {
                    // That it is too much for a stream which was allowed more is noticed when that is allowed more again: to look at all
                    // of them would take long, and until then no harm is done.
                    self.stream_window = value.into();
                    calls.may_send(None);
                }
                // Less is always right: more would only keep others from being heard in between.
                SETTING_PAYLOAD_BYTES if !(PAYLOAD_BYTES..1 << 24).contains(&value) => return Err(Why::Protocol.into()),
                _ => {}
            }
        }
        write(&mut self.out, SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    fn hear_window(&mut self, id: u32, payload: &[u8], calls: &mut impl Hear) -> Result<(), Wrong> {
        let more = <[u8; 4]>::try_from(payload).map_err(|_| Why::FrameSize)?;
        let more = i64::from(u32::from_be_bytes(more) & WINDOW_BYTES_MAX);
        if id == 0 {
            self.window += more;
            return match () {
                () if more == 0 => Err(Why::Protocol.into()),
                () if self.window > WINDOW_BYTES_MAX.into() => Err(Why::FlowControl.into()),
                () => {
                    calls.may_send(None);
                    Ok(())
                }
            };
        }
        if id > self.last {
            return Err(Why::Protocol.into());
        }
        // Of one that is over it comes late.
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.window += more;
        if more == 0 {
            return Err(Wrong::Stream(id, Why::Protocol));
        }
        if self.stream_window + stream.window > WINDOW_BYTES_MAX.into() {
            return Err(Wrong::Stream(id, Why::FlowControl));
        }
        calls.may_send(Some(id));
        Ok(())
    }

    /// Something is said on a stream that is not open.
    fn comes_late(&mut self, id: u32) -> Result<(), Wrong> {
        if id > self.last || id.is_multiple_of(2) {
            return Err(Why::Protocol.into());
        }
        match self.recent.iter().any(|recent| *recent == (id, true)) {
            true => Ok(()),
            false => Err(Wrong::Stream(id, Why::StreamClosed)),
        }
    }

    fn break_off(&mut self, id: u32, why: Why, calls: &mut impl Hear) -> Result<(), Why> {
        self.broken += 1;
        if self.broken > BROKEN_MAX {
            return Err(Why::EnhanceYourCalm);
        }
        let was_open = self.forget(id).is_some();
        write(&mut self.out, RST_STREAM, 0, id, &(why as u32).to_be_bytes());
        self.remember(id, true);
        if was_open {
            calls.reset(id);
        }
        Ok(())
    }

    fn forget(&mut self, id: u32) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        self.header_bytes -= stream.header_bytes;
        Some(stream)
    }

    fn remember(&mut self, id: u32, by_us: bool) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((id, by_us));
    }

    /// Something that a stream has said was looked at, or is not going to be.
    pub(super) fn release(&mut self, id: u32, bytes: u32) {
        self.release_connection(bytes);
        // One that has ended says no more.
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.has_ended) {
            stream.released += bytes;
            if stream.released >= STREAM_WINDOW_BYTES / 2 {
                stream.heard_window += stream.released;
                let more = std::mem::take(&mut stream.released);
                write(&mut self.out, WINDOW_UPDATE, 0, id, &more.to_be_bytes());
            }
        }
    }

    fn release_connection(&mut self, bytes: u32) {
        self.released += bytes;
        // Also if that is all that others may say, because the rest is kept waiting by some.
        if self.released > 0 && self.released >= self.heard_window.min(CONNECTION_WINDOW_BYTES / 2) {
            self.heard_window += self.released;
            let more = std::mem::take(&mut self.released);
            write(&mut self.out, WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
    }
}

fn without_padding(head: Head, payload: &[u8]) -> Result<&[u8], Why> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Why::FrameSize)?;
    let end = rest.len().checked_sub((*padding).into()).ok_or(Why::Protocol)?;
    Ok(&rest[..end])
}

fn window_bytes(payload: &[u8]) -> u32 {
    u32::try_from(payload.len()).expect("a payload has at most 24 bits")
}

fn dependency(priority: [u8; 5]) -> u32 {
    let [s0, s1, s2, s3, _] = priority;
    u32::from_be_bytes([s0 & 0x7f, s1, s2, s3])
}

#[cfg(test)]
mod tests;
