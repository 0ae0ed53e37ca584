//! gRPC calls at little cost, for every server that speaks gRPC: what the generator takes of the processors, servers cannot have,
//! and a client library takes as much as a server does.
//!
//! It is as much of HTTP/2 as it takes to ask sound servers: frames are read and written in one task for each connection, headers are
//! sent by their numbers in HPACK's table once they have been sent, and those of answers are not looked at.

mod talk;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use self::talk::Talking;
pub use self::talk::{FRAME_BYTES_MAX, Talk, whole_messages};
use crate::crowd::Outcome;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const FRAME_HEADER_BYTES: usize = 9;
/// Before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// What may be sent at first, on a stream and in all.
const WINDOW_BYTES: u32 = 65_535;
const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;
/// The first number of HPACK's table that is not given by its standard.
const TABLE_BEGIN: usize = 62;
const TABLE_BYTES: u32 = 4_096;
pub const READ_BYTES: usize = 64 * 1024;

/// A connection, shared by tasks that each ask one thing at a time.
#[derive(Clone, Debug)]
pub struct Channel {
    callers: Arc<Callers>,
}

/// What all who ask have in common. With the last of them the connection ends.
#[derive(Debug)]
struct Callers {
    line: Arc<Mutex<Line>>,
}

impl Callers {
    fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let mut line = self.line();
        line.over = Some("nobody asks any more".to_owned());
        line.wake_carrier();
    }
}

/// What is under way.
#[derive(Debug)]
struct Line {
    authority: String,
    /// Not yet written.
    out: Vec<u8>,
    /// Of the task that writes and reads.
    carrier: Option<Waker>,
    /// Headers that the server knows by their numbers, oldest first.
    table: Vec<(&'static str, String)>,
    next_stream: u32,
    /// What the server will take of messages, and those who wait for it to take more.
    window: u32,
    waiting: Vec<Waker>,
    /// What it will take of each stream at first.
    stream_window: u32,
    /// What was heard since the server was last told that it may say more.
    heard: u32,
    calls: HashMap<u32, Call>,
    talking: Option<Talking>,
    /// Why there is no more to come.
    over: Option<String>,
}

#[derive(Debug, Default)]
struct Call {
    answer: Vec<u8>,
    ended: bool,
    caller: Option<Waker>,
}

impl Channel {
    pub async fn open(address: &str) -> Outcome<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut line = Line {
            authority: address.to_owned(),
            out: PREFACE.to_vec(),
            carrier: None,
            table: Vec::new(),
            next_stream: 1,
            window: WINDOW_BYTES,
            waiting: Vec::new(),
            stream_window: WINDOW_BYTES,
            heard: 0,
            calls: HashMap::new(),
            talking: None,
            over: None,
        };
        // A stream's window: the server may always speak.
        let [a, b, c, d] = WINDOW_BYTES_MAX.to_be_bytes();
        frame(&mut line.out, SETTINGS, 0, 0, &[0, 4, a, b, c, d]);
        frame(&mut line.out, WINDOW_UPDATE, 0, 0, &(WINDOW_BYTES_MAX - WINDOW_BYTES).to_be_bytes());
        let line = Arc::new(Mutex::new(line));
        tokio::spawn(carry(socket, line.clone()));
        Ok(Self { callers: Arc::new(Callers { line }) })
    }

    /// Asks, and gives the answer. What is refused comes without an answer and is an error, whatever it is; a refusal after an answer,
    /// which no server here gives, would not be noticed.
    pub async fn call<A: Message + Default>(&self, path: &'static str, request: &impl Message) -> Outcome<A> {
        let stream = poll_fn(|cx| self.line().poll_ask(cx, path, request)).await?;
        let answer = poll_fn(|cx| self.line().poll_answer(cx, stream)).await?;
        let Some((prefix, message)) = answer.split_first_chunk::<PREFIX_BYTES>() else {
            return Err(format!("{path} was refused").into());
        };
        match u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize {
            length if prefix[0] == 0 && length == message.len() => Ok(A::decode(message)?),
            _ => Err(format!("{path} was not answered with one plain message").into()),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.callers.line()
    }
}

impl Line {
    fn poll_ask(&mut self, cx: &Context<'_>, path: &'static str, request: &impl Message) -> Poll<Outcome<u32>> {
        if let Some(over) = &self.over {
            return Poll::Ready(Err(over.clone().into()));
        }
        let mut data = vec![0];
        data.extend(u32::try_from(request.encoded_len())?.to_be_bytes());
        request.encode(&mut data)?;
        let bytes = u32::try_from(data.len())?;
        if bytes > self.window {
            self.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.window -= bytes;
        let stream = self.take_stream();
        let headers = self.headers(path);
        frame(&mut self.out, HEADERS, END_HEADERS, stream, &headers);
        frame(&mut self.out, DATA, END_STREAM, stream, &data);
        self.calls.insert(stream, Call::default());
        self.wake_carrier();
        Poll::Ready(Ok(stream))
    }

    fn is_under_way(&self, stream: u32) -> bool {
        self.calls.get(&stream).is_some_and(|call| !call.ended)
            || self.talking.as_ref().is_some_and(|talking| talking.stream == stream)
    }

    fn take_stream(&mut self) -> u32 {
        self.next_stream += 2;
        self.next_stream - 2
    }

    fn headers(&mut self, path: &'static str) -> Vec<u8> {
        // `:method: POST` and `:scheme: http`.
        let mut headers = vec![0x83, 0x86];
        let authority = self.authority.clone();
        self.header(&mut headers, ":path", path);
        self.header(&mut headers, ":authority", &authority);
        self.header(&mut headers, "content-type", "application/grpc");
        self.header(&mut headers, "te", "trailers");
        headers
    }

    /// Spelled out once, and by its number from then on.
    fn header(&mut self, block: &mut Vec<u8>, name: &'static str, value: &str) {
        let known = self.table.iter().rev().position(|(known, with)| *known == name && with == value);
        match known {
            Some(age) => block.push(0x80 | u8::try_from(TABLE_BEGIN + age).expect("there are few")),
            None => {
                block.extend([0x40, short(name)]);
                block.extend(name.as_bytes());
                block.push(short(value));
                block.extend(value.as_bytes());
                self.table.push((name, value.to_owned()));
            }
        }
    }

    fn poll_answer(&mut self, cx: &Context<'_>, stream: u32) -> Poll<Outcome<Vec<u8>>> {
        let call = self.calls.get_mut(&stream).expect("it was just asked");
        if call.ended {
            return Poll::Ready(Ok(self.calls.remove(&stream).map(|call| call.answer).unwrap_or_default()));
        }
        if let Some(over) = &self.over {
            return Poll::Ready(Err(over.clone().into()));
        }
        call.caller = Some(cx.waker().clone());
        Poll::Pending
    }

    fn wake_carrier(&mut self) {
        self.carrier.take().into_iter().for_each(Waker::wake);
    }

    /// A frame of the server.
    fn hear(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Outcome<()> {
        match kind {
            DATA if flags & PADDED != 0 => return Err("answers with padding are not for this client".into()),
            DATA => {
                self.heard += u32::try_from(payload.len())?;
                if self.heard > WINDOW_BYTES_MAX / 2 {
                    frame(&mut self.out, WINDOW_UPDATE, 0, 0, &self.heard.to_be_bytes());
                    self.heard = 0;
                }
                match (self.calls.get_mut(&stream), &mut self.talking) {
                    (Some(call), _) => call.answer.extend(payload),
                    (None, Some(talking)) if talking.stream == stream => talking.hear(payload, &mut self.out)?,
                    _ => {}
                }
            }
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    let what = u16::from_be_bytes([setting[0], setting[1]]);
                    let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                    // The size of HPACK's table, and what may be said on a stream.
                    if (what == 1 && value < TABLE_BYTES) || (what == 4 && value < WINDOW_BYTES) {
                        return Err("the server has less room than this client needs".into());
                    }
                    if what == 4 {
                        let more = i64::from(value) - i64::from(self.stream_window);
                        self.talking.iter_mut().for_each(|talking| talking.change_window(more));
                        self.stream_window = value;
                    }
                }
                frame(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, payload),
            WINDOW_UPDATE if stream == 0 => {
                self.window = self.window.saturating_add(u32::from_be_bytes(payload.try_into()?));
                self.waiting.drain(..).for_each(Waker::wake);
            }
            WINDOW_UPDATE => {
                if let Some(talking) = self.talking.as_mut().filter(|talking| talking.stream == stream) {
                    talking.change_window(i64::from(u32::from_be_bytes(payload.try_into()?)));
                }
            }
            // One that has ended may be told again that it has.
            RST_STREAM if self.is_under_way(stream) => {
                return Err(format!("a call was broken off: {payload:?}").into());
            }
            GOAWAY => return Err("the server hangs up".into()),
            PUSH_PROMISE => return Err("the server pushes".into()),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            if let Some(call) = self.calls.get_mut(&stream) {
                call.ended = true;
                call.caller.take().into_iter().for_each(Waker::wake);
            } else if let Some(talking) = self.talking.take_if(|talking| talking.stream == stream) {
                talking.end();
            }
        }
        Ok(())
    }

    fn end(&mut self, why: String) {
        self.over = Some(why);
        self.waiting.drain(..).for_each(Waker::wake);
        self.calls.values_mut().filter_map(|call| call.caller.take()).for_each(Waker::wake);
        self.talking.take().into_iter().for_each(Talking::end);
    }
}

/// Writes what is asked and reads what is answered, until either is not possible any more or nobody is left to ask.
async fn carry(mut socket: TcpStream, line: Arc<Mutex<Line>>) {
    let mut carrier = Carrier { writing: Vec::new(), written: 0, reading: vec![0; READ_BYTES], read: 0 };
    let ended = poll_fn(|cx| carrier.poll(cx, &mut socket, &line)).await;
    lock(&line).end(ended.map_or_else(|error| error.to_string(), |()| "the connection has ended".to_owned()));
}

struct Carrier {
    writing: Vec<u8>,
    written: usize,
    reading: Vec<u8>,
    /// How much of it is the beginning of a frame.
    read: usize,
}

impl Carrier {
    fn poll(&mut self, cx: &mut Context<'_>, socket: &mut TcpStream, line: &Arc<Mutex<Line>>) -> Poll<Outcome<()>> {
        loop {
            if lock(line).over.is_some() {
                return Poll::Ready(Ok(()));
            }
            // From here on whoever asks wakes this; or the socket does, if it takes no more.
            let _ = self.poll_write(cx, socket, line)?;
            if ready!(self.poll_read(cx, socket, line))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Ready when there is no more to write.
    fn poll_write(&mut self, cx: &mut Context<'_>, socket: &mut TcpStream, line: &Mutex<Line>) -> Poll<Outcome<()>> {
        loop {
            if self.written == self.writing.len() {
                self.writing.clear();
                self.written = 0;
                let mut line = lock(line);
                line.write_talk()?;
                std::mem::swap(&mut self.writing, &mut line.out);
                if self.writing.is_empty() {
                    line.carrier = Some(cx.waker().clone());
                    return Poll::Ready(Ok(()));
                }
            }
            self.written += ready!(Pin::new(&mut *socket).poll_write(cx, &self.writing[self.written..]))?;
        }
    }

    /// Ready with whether the server has hung up.
    fn poll_read(&mut self, cx: &mut Context<'_>, socket: &mut TcpStream, line: &Mutex<Line>) -> Poll<Outcome<bool>> {
        let mut buffer = ReadBuf::new(&mut self.reading[self.read..]);
        ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Ok(true));
        }
        let end = self.read + count;
        let mut begin = 0;
        let mut line = lock(line);
        while let Some((header, rest)) = self.reading[begin..end].split_first_chunk::<FRAME_HEADER_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = *header;
            let Some(payload) = rest.get(..u32::from_be_bytes([0, a, b, c]) as usize) else { break };
            line.hear(kind, flags, u32::from_be_bytes(stream), payload)?;
            begin += FRAME_HEADER_BYTES + payload.len();
        }
        self.reading.copy_within(begin..end, 0);
        self.read = end - begin;
        Poll::Ready(Ok(false))
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().expect("nobody panics with it")
}

/// Lengths from 127 on are spelled in another way.
pub(crate) fn short(text: &str) -> u8 {
    u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("the headers here are short")
}

pub fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("what is said here is short");
    bytes.extend(&length.to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}
