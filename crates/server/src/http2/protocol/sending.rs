//! What is said to the client: answers, as far as it lets them be sent, and what concerns the connection as a whole.

use axum::body::Bytes;
use axum::http::{HeaderMap, Response};

use super::super::frame::*;
use super::{ARE_YOU_THERE, GOODBYE, Protocol};
use crate::version;

impl Protocol {
    /// The beginning of an answer, or with `ends` all of it.
    pub(in crate::http2) fn answer<B>(&mut self, id: u32, response: &Response<B>, ends: bool) {
        let mut block = std::mem::take(&mut self.scratch);
        self.encoder.begin(&mut block);
        self.encoder.status(response.status().as_u16(), &mut block);
        self.encode(response.headers(), &mut block);
        self.send_headers(id, &block, ends);
        self.scratch = emptied(block);
    }

    pub(in crate::http2) fn trailers(&mut self, id: u32, trailers: &HeaderMap) {
        let mut block = std::mem::take(&mut self.scratch);
        self.encoder.begin(&mut block);
        self.encode(trailers, &mut block);
        self.send_headers(id, &block, true);
        self.scratch = emptied(block);
    }

    /// The whole of an answer that nearly all calls are given, if it may be sent at once: one message, and that all is well.
    pub(in crate::http2) fn answer_at_once(&mut self, id: u32, message: &[u8]) -> bool {
        let bytes = message.len() as i64;
        let Some(stream) = self.streams.get_mut(&id) else { return true };
        if bytes > (self.stream_window + stream.window).min(self.window) || message.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        stream.window -= bytes;
        self.window -= bytes;
        let mut block = std::mem::take(&mut self.scratch);
        self.encoder.begin(&mut block);
        self.encoder.status(200, &mut block);
        self.encoder.constant(b"content-type", b"application/grpc", &mut block);
        self.encoder.constant(b"server", version::NAME.as_bytes(), &mut block);
        write(&mut self.out, HEADERS, END_HEADERS, id, &block);
        write(&mut self.out, DATA, 0, id, message);
        block.clear();
        self.encoder.begin(&mut block);
        self.encoder.constant(b"grpc-status", b"0", &mut block);
        self.send_headers(id, &block, true);
        self.scratch = emptied(block);
        true
    }

    fn encode(&mut self, headers: &HeaderMap, block: &mut Vec<u8>) {
        for (name, value) in headers {
            match name.as_str() {
                "content-type" => self.encoder.constant(b"content-type", value.as_bytes(), block),
                "server" => self.encoder.constant(b"server", value.as_bytes(), block),
                "grpc-status" if value == "0" => self.encoder.constant(b"grpc-status", value.as_bytes(), block),
                name => self.encoder.field(name.as_bytes(), value.as_bytes(), block),
            }
        }
    }

    fn send_headers(&mut self, id: u32, block: &[u8], ends: bool) {
        let mut kind = HEADERS;
        let mut flags = if ends { END_STREAM } else { 0 };
        let mut rest = block;
        loop {
            let (some, after) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            rest = after;
            if rest.is_empty() {
                flags |= END_HEADERS;
            }
            write(&mut self.out, kind, flags, id, some);
            if rest.is_empty() {
                break;
            }
            (kind, flags) = (CONTINUATION, 0);
        }
        if ends {
            self.has_answered(id);
        }
    }

    /// As much of it as may be sent. Whether that was all.
    pub(in crate::http2) fn send(&mut self, id: u32, data: &mut Bytes) -> bool {
        while !data.is_empty() {
            let Some(stream) = self.streams.get_mut(&id) else { return true };
            let may = (self.stream_window + stream.window).min(self.window).min(PAYLOAD_BYTES_MAX as i64);
            let bytes = usize::try_from(may).unwrap_or(0).min(data.len());
            if bytes == 0 {
                return false;
            }
            stream.window -= bytes as i64;
            self.window -= bytes as i64;
            write(&mut self.out, DATA, 0, id, &data.split_to(bytes));
        }
        true
    }

    /// An answer ends that has no trailers.
    pub(in crate::http2) fn end(&mut self, id: u32) {
        write(&mut self.out, DATA, END_STREAM, id, &[]);
        self.has_answered(id);
    }

    fn has_answered(&mut self, id: u32) {
        let Some(stream) = self.forget(id) else { return };
        // Whatever else it wants to say is of no interest.
        if !stream.has_ended {
            write(&mut self.out, RST_STREAM, 0, id, &(Why::NoError as u32).to_be_bytes());
        }
        self.remember(id, !stream.has_ended);
    }

    /// An answer cannot be given to its end.
    pub(in crate::http2) fn fail(&mut self, id: u32) {
        if self.forget(id).is_some() {
            write(&mut self.out, RST_STREAM, 0, id, &(Why::Internal as u32).to_be_bytes());
            self.remember(id, true);
        }
    }

    /// The client is to say something.
    pub(in crate::http2) fn ask(&mut self) {
        write(&mut self.out, PING, 0, 0, &ARE_YOU_THERE);
    }

    /// There are not going to be more calls, but those that are on their way are still taken, until the client says that it has heard of it.
    pub(in crate::http2) fn announce_end(&mut self) {
        self.is_announced = true;
        self.go_away(STREAM_MAX, Why::NoError);
        write(&mut self.out, PING, 0, 0, &GOODBYE);
        // One that has said nothing yet has no calls, and may never say anything.
        if !self.is_greeted {
            self.take_no_more();
        }
    }

    /// No more calls are taken.
    pub(super) fn take_no_more(&mut self) {
        self.is_last = true;
        self.go_away(self.last, Why::NoError);
    }

    /// The last word.
    pub(in crate::http2) fn give_up(&mut self, why: Why) {
        self.go_away(self.last, why);
    }

    fn go_away(&mut self, last: u32, why: Why) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend((why as u32).to_be_bytes());
        write(&mut self.out, GOAWAY, 0, 0, &payload);
    }
}

fn emptied(mut block: Vec<u8>) -> Vec<u8> {
    block.clear();
    block
}
