//! A call that goes on: messages both ways on one stream of HTTP/2, each of which carries what there was to say by the time it was
//! written.

use std::sync::Arc;

use prost::Message;
use prost::encoding;

use super::{
    Callers, Channel, DATA, END_HEADERS, HEADERS, Line, Outcome, PREFIX_BYTES, WINDOW_BYTES_MAX, WINDOW_UPDATE, frame,
};

/// What a frame may have without asking the server.
pub const FRAME_BYTES_MAX: usize = 16 * 1024;

/// One end of it, shared by those who talk.
#[derive(Clone, Debug)]
pub struct Talk {
    callers: Arc<Callers>,
}

/// What becomes of each message of the server, and, with none, of the end.
type Listener = Box<dyn FnMut(Option<&[u8]>) + Send>;

/// What is under way.
pub(super) struct Talking {
    pub(super) stream: u32,
    /// Of the next message, entries of its one repeated field.
    entries: Vec<u8>,
    entries_count: usize,
    entries_max: usize,
    /// Messages, or the rest of one, for which the server has had no room.
    messages: Vec<u8>,
    /// What the server will take.
    window: i64,
    /// What was heard since the server was last told that it may say more.
    heard: u32,
    /// The beginning of a message.
    begun: Vec<u8>,
    listener: Listener,
}

impl std::fmt::Debug for Talking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talking").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Channel {
    /// Begins to talk, once on a connection, in messages of no more than so many entries. The listener must not say anything itself.
    pub fn talk(
        &self,
        path: &'static str,
        entries_max: usize,
        listener: impl FnMut(Option<&[u8]>) + Send + 'static,
    ) -> Talk {
        let mut line = self.line();
        assert!(line.talking.is_none(), "there is one talk at a time");
        let headers = line.headers(path);
        let stream = line.take_stream();
        frame(&mut line.out, HEADERS, END_HEADERS, stream, &headers);
        let talking = Talking {
            stream,
            entries: Vec::new(),
            entries_count: 0,
            entries_max,
            messages: Vec::new(),
            window: i64::from(line.stream_window),
            heard: 0,
            begun: Vec::new(),
            listener: Box::new(listener),
        };
        line.talking = Some(talking);
        line.wake_carrier();
        Talk { callers: self.callers.clone() }
    }
}

impl Talk {
    /// Says it with the next message.
    pub fn say(&self, entry: &impl Message) -> Outcome<()> {
        let mut line = self.callers.line();
        if let Some(over) = &line.over {
            return Err(over.clone().into());
        }
        let talking = line.talking.as_mut().ok_or("the server has said all it has to say")?;
        encoding::message::encode(1, entry, &mut talking.entries);
        talking.entries_count += 1;
        if talking.entries_count == talking.entries_max {
            talking.end_message()?;
        }
        line.wake_carrier();
        Ok(())
    }
}

impl Line {
    /// Puts what there is to say, as far as the server takes it, into frames.
    pub(super) fn write_talk(&mut self) -> Outcome<()> {
        let Some(talking) = &mut self.talking else { return Ok(()) };
        // Until there is room, what there is to say gathers.
        if talking.messages.is_empty() {
            talking.end_message()?;
        }
        let room = u32::try_from(talking.window.max(0))?.min(self.window) as usize;
        let said = room.min(talking.messages.len());
        for part in talking.messages[..said].chunks(FRAME_BYTES_MAX) {
            frame(&mut self.out, DATA, 0, talking.stream, part);
        }
        talking.messages.drain(..said);
        talking.window -= i64::try_from(said)?;
        self.window -= u32::try_from(said)?;
        Ok(())
    }
}

impl Talking {
    fn end_message(&mut self) -> Outcome<()> {
        if self.entries_count > 0 {
            self.messages.push(0);
            self.messages.extend(u32::try_from(self.entries.len())?.to_be_bytes());
            self.messages.append(&mut self.entries);
            self.entries_count = 0;
        }
        Ok(())
    }

    pub(super) fn change_window(&mut self, by: i64) {
        self.window += by;
    }

    /// What the server said. Tells it in `out` that it may say more.
    pub(super) fn hear(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Outcome<()> {
        self.heard += u32::try_from(payload.len())?;
        if self.heard > WINDOW_BYTES_MAX / 2 {
            frame(out, WINDOW_UPDATE, 0, self.stream, &self.heard.to_be_bytes());
            self.heard = 0;
        }
        self.begun.extend(payload);
        whole_messages(&mut self.begun, |message| {
            (self.listener)(Some(message));
            Ok(())
        })
    }

    pub(super) fn end(mut self) {
        (self.listener)(None);
    }
}

/// Takes the messages out of what was heard, as far as they are whole.
pub fn whole_messages(begun: &mut Vec<u8>, mut hear: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
    let mut rest = &begun[..];
    while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX_BYTES>() {
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err("what is compressed is not understood here".into());
        }
        let Some((message, others)) = after.split_at_checked(u32::from_be_bytes(length) as usize) else { break };
        hear(message)?;
        rest = others;
    }
    let heard = begun.len() - rest.len();
    begun.drain(..heard);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn messages_are_heard_whole_however_they_are_cut() {
        let said = b"\0\0\0\0\x03one\0\0\0\0\0\0\0\0\0\x05three";
        for piece in 1..=said.len() {
            let heard = Arc::<Mutex<Vec<String>>>::default();
            let hearing = heard.clone();
            let mut talking = Talking {
                stream: 1,
                entries: Vec::new(),
                entries_count: 0,
                entries_max: 1,
                messages: Vec::new(),
                window: 0,
                heard: 0,
                begun: Vec::new(),
                listener: Box::new(move |message| {
                    let message = message.map_or("the end".into(), String::from_utf8_lossy);
                    hearing.lock().unwrap().push(message.into_owned());
                }),
            };
            let mut out = Vec::new();
            said.chunks(piece).for_each(|piece| talking.hear(piece, &mut out).unwrap());
            talking.end();
            assert_eq!(*heard.lock().unwrap(), ["one", "", "three", "the end"], "in pieces of {piece}");
            assert!(out.is_empty());
        }
    }
}
