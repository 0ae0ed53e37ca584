//! What the rules make of what a client sends, frame by frame. That they are those of the standard is for h2spec to say.

use axum::body::Bytes;
use axum::http::{HeaderValue, Response};
use tenure_fuzz::fuzz;

use super::super::frame;
use super::*;

const CALL: &str = "/tenure.v1.Tenure/Acquire";
/// `:method: POST`, `:scheme: http` and `:path: /` by their numbers.
const SHORT_BLOCK: &[u8] = &[0x83, 0x86, 0x84];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Request(u32, String, bool),
    Data(u32, Vec<u8>, bool),
    Trailers(u32, HeaderMap),
    Reset(u32),
    MaySend(Option<u32>),
}

/// Somebody who notes everything, and is done with data when told so.
#[derive(Debug, Default)]
struct Notes {
    heard: Vec<Heard>,
    keeps_data: bool,
}

impl Hear for Notes {
    fn request(&mut self, stream: u32, head: &Arc<RequestHead>, ends: bool) {
        self.heard.push(Heard::Request(stream, head.uri.to_string(), ends));
    }

    fn data(&mut self, stream: u32, data: &[u8], ends: bool) -> usize {
        // However it is cut into frames, but for its end.
        match self.heard.last_mut() {
            Some(Heard::Data(last, before, false)) if *last == stream && !ends => before.extend(data),
            _ => self.heard.push(Heard::Data(stream, data.to_vec(), ends)),
        }
        if self.keeps_data { 0 } else { data.len() }
    }

    fn trailers(&mut self, stream: u32, trailers: HeaderMap) {
        self.heard.push(Heard::Trailers(stream, trailers));
    }

    fn reset(&mut self, stream: u32) {
        self.heard.push(Heard::Reset(stream));
    }

    fn may_send(&mut self, stream: Option<u32>) {
        self.heard.push(Heard::MaySend(stream));
    }
}

/// A connection that has been opened.
struct Scene {
    protocol: Protocol,
    notes: Notes,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self { protocol: Protocol::new(), notes: Notes::default() };
        scene.protocol.hear(PREFACE, &mut scene.notes).unwrap();
        scene.says(SETTINGS, 0, 0, &[]);
        scene.said();
        scene
    }

    fn tries(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Why> {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, kind, flags, stream, payload);
        self.protocol.hear(&bytes, &mut self.notes)
    }

    fn says(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.tries(kind, flags, stream, payload).unwrap();
    }

    fn begins(&mut self, stream: u32) {
        self.says(HEADERS, END_HEADERS, stream, SHORT_BLOCK);
    }

    fn lets_more_be_sent(&mut self, stream: u32, bytes: u32) {
        self.says(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    }

    fn sets(&mut self, setting: u16, value: u32) {
        let mut payload = Vec::new();
        write_setting(&mut payload, setting, value);
        self.says(SETTINGS, 0, 0, &payload);
    }

    fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.notes.heard)
    }

    /// The frames that have been said to the client since it was last asked.
    fn said(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.protocol.out);
        let (mut frames, mut rest) = (Vec::new(), &*bytes);
        while let Some((head, after)) = rest.split_first_chunk() {
            let head = Head::read(*head);
            let (payload, others) = after.split_at(head.bytes);
            frames.push((head.kind, head.flags, head.stream, payload.to_vec()));
            rest = others;
        }
        assert!(rest.is_empty(), "only whole frames are said");
        frames
    }

    fn said_data(&mut self) -> usize {
        self.said().iter().filter(|(kind, ..)| *kind == DATA).map(|(.., payload)| payload.len()).sum()
    }
}

fn spelled_out(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.bytes());
        }
    }
    block
}

fn reset(stream: u32, why: Why) -> (u8, u8, u32, Vec<u8>) {
    (RST_STREAM, 0, stream, (why as u32).to_be_bytes().to_vec())
}

#[test]
fn no_more_of_an_answer_is_sent_than_the_client_lets_be_sent() {
    let mut scene = Scene::new();
    scene.sets(SETTING_WINDOW_BYTES, 10);
    scene.begins(1);
    scene.said();
    let mut data = Bytes::from(vec![7; 100]);
    assert!(!scene.protocol.send(1, &mut data));
    assert_eq!((scene.said_data(), data.len()), (10, 90));
    assert!(!scene.protocol.send(1, &mut data), "nothing has changed");
    assert_eq!(scene.said_data(), 0);
    scene.lets_more_be_sent(1, 20);
    assert!(!scene.protocol.send(1, &mut data));
    assert_eq!(scene.said_data(), 20);
    // Below nothing, because what was sent already counts.
    scene.sets(SETTING_WINDOW_BYTES, 5);
    scene.lets_more_be_sent(1, 5);
    assert!(!scene.protocol.send(1, &mut data));
    assert_eq!(scene.said_data(), 0);
    scene.sets(SETTING_WINDOW_BYTES, 1_000);
    assert!(scene.protocol.send(1, &mut data));
    assert_eq!(scene.said_data(), 70);
    let may_send = scene.heard().iter().filter(|heard| matches!(heard, Heard::MaySend(_))).count();
    assert_eq!(may_send, 5, "whoever answers is told each time");
}

#[test]
fn all_streams_together_send_no_more_than_the_connection_lets_be_sent() {
    let mut scene = Scene::new();
    scene.sets(SETTING_WINDOW_BYTES, 1_000_000);
    let mut data = Bytes::from(vec![7; 40_000]);
    let mut other = data.clone();
    scene.begins(1);
    scene.begins(3);
    scene.said();
    assert!(scene.protocol.send(1, &mut data));
    assert!(!scene.protocol.send(3, &mut other));
    let sent = scene.said();
    assert!(sent.iter().all(|(.., payload)| payload.len() <= PAYLOAD_BYTES_MAX));
    assert_eq!(sent.iter().map(|(.., payload)| payload.len()).sum::<usize>(), WINDOW_BYTES as usize);
    // An answer that is sent as a whole or not at all.
    scene.begins(5);
    assert!(!scene.protocol.answer_at_once(5, &[1; 20]));
    scene.lets_more_be_sent(0, 20);
    scene.said();
    assert!(scene.protocol.answer_at_once(5, &[1; 20]));
    assert_eq!(scene.said_data(), 20);
    assert!(!scene.protocol.send(3, &mut other));
}

#[test]
fn what_is_done_with_may_be_said_again() {
    let mut scene = Scene::new();
    scene.begins(1);
    let payload = vec![0; PAYLOAD_BYTES_MAX];
    let frames = 10 * CONNECTION_WINDOW_BYTES as usize / payload.len();
    for _ in 0..frames {
        scene.says(DATA, 0, 1, &payload);
    }
    let allowed = |scene: &mut Scene, id: u32| -> u64 {
        let said = scene.said();
        let of = said.iter().filter(|(kind, _, stream, _)| *kind == WINDOW_UPDATE && *stream == id);
        of.map(|(.., payload)| u64::from(u32::from_be_bytes(payload.as_slice().try_into().unwrap()))).sum()
    };
    let all = (frames * payload.len()) as u64;
    assert!(allowed(&mut scene, 1) + u64::from(STREAM_WINDOW_BYTES) >= all);
    // What is kept is not allowed again.
    scene.notes.keeps_data = true;
    let left = STREAM_WINDOW_BYTES as usize / payload.len();
    for _ in 0..left / 2 {
        scene.says(DATA, 0, 1, &payload);
    }
    assert_eq!(scene.said(), []);
    let mut last = Ok(());
    for _ in 0..left {
        last = scene.tries(DATA, 0, 1, &payload);
    }
    assert_eq!(last, Ok(()));
    assert_eq!(scene.said()[0], reset(1, Why::FlowControl));
}

#[test]
fn padding_is_not_heard_and_counts_all_the_same() {
    let mut scene = Scene::new();
    scene.begins(1);
    scene.heard();
    let padded = [&[3][..], b"data", &[0; 3]].concat();
    let before = scene.protocol.heard_window;
    scene.notes.keeps_data = true;
    scene.says(DATA, PADDED, 1, &padded);
    assert_eq!(scene.heard(), [Heard::Data(1, b"data".to_vec(), false)]);
    assert_eq!(before - scene.protocol.heard_window, 8);
    assert_eq!(scene.protocol.released, 4, "nobody has to look at padding");
    assert_eq!(scene.tries(DATA, PADDED, 1, &[5, 0]), Err(Why::Protocol));
}

#[test]
fn a_block_of_numbers_is_known_again_until_the_table_changes() {
    let mut scene = Scene::new();
    let mut block = vec![0x83, 0x86, 0x44];
    block.push(CALL.len().try_into().unwrap());
    block.extend(CALL.bytes());
    scene.says(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    // The path is the newest of the table now.
    let numbers = [0x83, 0x86, 0xbe];
    for stream in [3, 5] {
        scene.says(HEADERS, END_HEADERS | END_STREAM, stream, &numbers);
    }
    assert_eq!(scene.protocol.known.len(), 1);
    // And now something else is.
    let other = [&[0x83, 0x86, 0x44, 6][..], b"/other"].concat();
    scene.says(HEADERS, END_HEADERS | END_STREAM, 7, &other);
    scene.says(HEADERS, END_HEADERS | END_STREAM, 9, &numbers);
    let path = |heard| match heard {
        Heard::Request(_, path, true) => path,
        other => panic!("{other:?}"),
    };
    let paths: Vec<_> = scene.heard().into_iter().map(path).collect();
    assert_eq!(paths, [CALL, CALL, CALL, "/other", "/other"]);
}

#[test]
fn long_headers_are_sent_in_pieces_and_heard_in_pieces() {
    let mut scene = Scene::new();
    scene.begins(1);
    scene.said();
    let mut response = Response::new(());
    let long = "x".repeat(2 * PAYLOAD_BYTES_MAX);
    response.headers_mut().insert("grpc-message", HeaderValue::from_str(&long).unwrap());
    scene.protocol.answer(1, &response, true);
    let said = scene.said();
    let kinds: Vec<_> = said.iter().map(|(kind, flags, ..)| (*kind, *flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_STREAM), (CONTINUATION, 0), (CONTINUATION, END_HEADERS), (RST_STREAM, 0)]);

    let block = spelled_out(&[(":method", "POST"), (":scheme", "http"), (":path", CALL), ("x", "y")]);
    let (some, more) = block.split_at(20);
    scene.heard();
    scene.says(HEADERS, END_STREAM, 3, some);
    scene.says(CONTINUATION, 0, 3, &[]);
    assert_eq!(scene.heard(), []);
    scene.says(CONTINUATION, END_HEADERS, 3, more);
    assert_eq!(scene.heard(), [Heard::Request(3, CALL.to_owned(), true)]);
}

#[test]
fn headers_without_an_end_are_not_listened_to() {
    let mut scene = Scene::new();
    scene.says(HEADERS, 0, 1, SHORT_BLOCK);
    let pieces = (0..2 * BLOCK_PIECES_MAX).map(|_| scene.tries(CONTINUATION, 0, 1, &[]));
    assert!(pieces.into_iter().any(|heard| heard == Err(Why::EnhanceYourCalm)));
    let mut scene = Scene::new();
    scene.says(HEADERS, 0, 1, SHORT_BLOCK);
    let piece = vec![0x84; PAYLOAD_BYTES_MAX];
    let pieces = (0..4).map(|_| scene.tries(CONTINUATION, 0, 1, &piece));
    assert!(pieces.into_iter().any(|heard| heard == Err(Why::EnhanceYourCalm)));
}

#[test]
fn too_many_headers_are_refused_and_the_connection_goes_on() {
    let mut scene = Scene::new();
    let value = "v".repeat(100);
    let fields: Vec<_> = (0..150).map(|_| ("name", value.as_str())).collect();
    let block = [SHORT_BLOCK, &spelled_out(&fields)].concat();
    scene.says(HEADERS, END_HEADERS, 1, &block);
    let said = scene.said();
    // `:status: 431`, spelled out, and that no more is to be said.
    assert_eq!((said[0].0, said[0].1, said[0].2), (HEADERS, END_HEADERS | END_STREAM, 1));
    assert!(said[0].3.ends_with(b"431"), "{said:?}");
    assert_eq!(said[1], reset(1, Why::NoError));
    // What was on its way is not held against it.
    scene.says(DATA, END_STREAM, 1, b"late");
    assert_eq!(scene.said(), []);
    scene.begins(3);
    assert_eq!(scene.heard(), [Heard::Request(3, "/".to_owned(), false)]);
}

#[test]
fn what_comes_after_an_answer_was_given_is_passed_over_and_given_back() {
    let mut scene = Scene::new();
    scene.begins(1);
    assert!(scene.protocol.answer_at_once(1, b"answer"));
    assert_eq!(scene.said().last(), Some(&reset(1, Why::NoError)), "it need not say more");
    scene.heard();
    scene.says(DATA, 0, 1, b"more");
    scene.says(HEADERS, END_HEADERS | END_STREAM, 1, &spelled_out(&[("x", "y")]));
    assert_eq!((scene.heard(), scene.said()), (vec![], vec![]));
    assert_eq!(scene.protocol.released, 4);
    // Once it has ended it has nothing more to say.
    scene.says(HEADERS, END_HEADERS | END_STREAM, 3, SHORT_BLOCK);
    assert!(scene.protocol.answer_at_once(3, b"answer"));
    scene.said();
    scene.says(DATA, 0, 3, b"more");
    assert_eq!(scene.said(), [reset(3, Why::StreamClosed)]);
}

#[test]
fn no_more_streams_are_open_than_there_is_room_for() {
    let mut scene = Scene::new();
    let ids = (1..).step_by(2).take(STREAMS_MAX);
    ids.clone().for_each(|stream| scene.begins(stream));
    assert_eq!((scene.heard().len(), scene.said()), (STREAMS_MAX, vec![]));
    let next = ids.last().unwrap() + 2;
    scene.begins(next);
    assert_eq!((scene.heard(), scene.said()), (vec![], vec![reset(next, Why::Refused)]));
    // What it says on it all the same is passed over.
    scene.says(DATA, END_STREAM, next, b"on its way");
    assert_eq!((scene.heard(), scene.said()), (vec![], vec![]));
    scene.says(RST_STREAM, 0, 1, &(Why::NoError as u32).to_be_bytes());
    scene.begins(next + 2);
    assert_eq!(scene.heard(), [Heard::Reset(1), Heard::Request(next + 2, "/".to_owned(), false)]);
}

#[test]
fn headers_of_open_streams_have_no_more_room_than_there_is_for_all_of_them() {
    let mut scene = Scene::new();
    let long = "x".repeat(120);
    let mut block = SHORT_BLOCK.to_vec();
    (0..50).for_each(|_| block.extend(spelled_out(&[("x-long", &long)])));
    let begun = (1..).step_by(2).map(|stream| {
        scene.says(HEADERS, END_HEADERS, stream, &block);
        scene.said()
    });
    let begun = begun.take_while(Vec::is_empty).count();
    // Each has 50 times 158 bytes, and what the three others take.
    assert!((8_000..8_500).contains(&begun), "{begun}");
    let next = 2 * u32::try_from(begun).unwrap() + 3;
    scene.protocol.fail(1);
    scene.said();
    scene.heard();
    scene.says(HEADERS, END_HEADERS, next, &block);
    assert_eq!(scene.heard(), [Heard::Request(next, "/".to_owned(), false)], "there is room again");
}

#[test]
fn what_some_keep_waiting_does_not_keep_others_from_speaking() {
    let mut scene = Scene::new();
    let frame = vec![7; PAYLOAD_BYTES_MAX];
    let frames_per_stream = STREAM_WINDOW_BYTES / PAYLOAD_BYTES;
    // All but the window of one stream is said and not looked at.
    scene.notes.keeps_data = true;
    let others = CONNECTION_WINDOW_BYTES / STREAM_WINDOW_BYTES - 1;
    for stream in (1..).step_by(2).take(others as usize) {
        scene.begins(stream);
        (0..frames_per_stream).for_each(|_| scene.says(DATA, 0, stream, &frame));
    }
    scene.said();
    scene.notes.keeps_data = false;
    let last = 2 * others + 1;
    scene.begins(last);
    (0..frames_per_stream).for_each(|_| scene.says(DATA, 0, last, &frame));
    let more = scene.said().into_iter().filter(|(kind, _, stream, _)| (*kind, *stream) == (WINDOW_UPDATE, 0));
    let more: u32 = more.map(|(.., payload)| u32::from_be_bytes(payload.try_into().unwrap())).sum();
    assert!(more >= STREAM_WINDOW_BYTES / 2, "{more}");
}

#[test]
fn a_client_that_breaks_the_rules_again_and_again_is_hung_up_on() {
    let mut scene = Scene::new();
    let mut broken = 0;
    let last = loop {
        let stream = 2 * broken + 1;
        // Without a path it is no request.
        if let Err(why) = scene.tries(HEADERS, END_HEADERS, stream, &[0x83, 0x86]) {
            break why;
        }
        assert_eq!(scene.said(), [reset(stream, Why::Protocol)]);
        broken += 1;
    };
    assert_eq!((last, broken as usize), (Why::EnhanceYourCalm, BROKEN_MAX));
    assert_eq!(scene.heard(), []);
    assert!(scene.protocol.recent.len() <= RECENT_MAX);
}

#[test]
fn what_was_on_its_way_is_taken_before_the_end_and_nothing_after_it() {
    let mut scene = Scene::new();
    scene.begins(1);
    scene.protocol.announce_end();
    scene.begins(3);
    assert!(!scene.protocol.is_over());
    let pings: Vec<_> = scene.said().into_iter().filter(|(kind, ..)| matches!(*kind, GOAWAY | PING)).collect();
    let [(GOAWAY, .., first), (PING, 0, 0, goodbye)] = &pings[..] else { panic!("{pings:?}") };
    assert_eq!(first[..4], STREAM_MAX.to_be_bytes());
    scene.says(PING, ACK, 0, goodbye);
    scene.says(HEADERS, END_HEADERS | END_STREAM, 5, SHORT_BLOCK);
    let began = scene.heard().iter().filter(|heard| matches!(heard, Heard::Request(..))).count();
    assert_eq!(began, 2);
    let said = scene.said();
    assert_eq!((said[0].0, &said[0].3[..4]), (GOAWAY, &3_u32.to_be_bytes()[..]));
    assert_eq!(said.last(), Some(&reset(5, Why::Refused)));
    scene.protocol.end(1);
    assert!(!scene.protocol.is_over());
    scene.protocol.end(3);
    assert!(scene.protocol.is_over());
}

#[test]
fn one_that_has_said_nothing_is_not_waited_for() {
    let mut protocol = Protocol::new();
    protocol.announce_end();
    assert!(protocol.is_over());
}

/// What a client may well say, in the order in which it does.
fn conversation() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    let path = [&[0x83, 0x86, 0x44, CALL.len().try_into().unwrap()][..], CALL.as_bytes()].concat();
    frame::write(&mut bytes, SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]);
    frame::write(&mut bytes, HEADERS, END_HEADERS, 1, &path);
    frame::write(&mut bytes, DATA, 0, 1, b"some");
    frame::write(&mut bytes, WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]);
    frame::write(&mut bytes, DATA, PADDED | END_STREAM, 1, b"\x02more\0\0");
    frame::write(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 3, &[0x83, 0x86, 0xbe]);
    frame::write(&mut bytes, PING, 0, 0, b"12345678");
    frame::write(&mut bytes, HEADERS, HAS_PRIORITY, 5, &[0, 0, 0, 0, 9, 0x83]);
    frame::write(&mut bytes, CONTINUATION, END_HEADERS, 5, &[0x86, 0x84]);
    frame::write(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 5, &spelled_out(&[("trailer", "x")]));
    frame::write(&mut bytes, RST_STREAM, 0, 3, &[0, 0, 0, 8]);
    frame::write(&mut bytes, PRIORITY, 0, 7, &[0, 0, 0, 0, 1]);
    frame::write(&mut bytes, GOAWAY, 0, 0, &[0; 8]);
    bytes
}

#[test]
fn any_bytes_mean_the_same_however_they_come_and_what_is_kept_has_an_end() {
    let words = ["\0\0\0", "\0\0\u{1}", "\0\0\u{4}", "\u{1}\u{5}", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    let greeting = [PREFACE, &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]].concat();
    fuzz("http2", &[conversation(), greeting.clone()], &words, |input| {
        // Behind a greeting more is understood.
        let bytes = [&greeting, input.strip_prefix(PREFACE).unwrap_or(input)].concat();
        let hear = |length: usize| {
            let (mut protocol, mut notes) = (Protocol::new(), Notes::default());
            let heard = bytes.chunks(length).try_for_each(|piece| protocol.hear(piece, &mut notes));
            assert!(protocol.unread.len() <= HEAD_BYTES + PAYLOAD_BYTES_MAX);
            assert!(protocol.recent.len() <= RECENT_MAX && protocol.known.len() <= KNOWN_MAX);
            assert!(protocol.block.iter().all(|block| block.bytes.len() <= BLOCK_BYTES_MAX));
            // A request that was heard is open until it is reset, since nobody answers.
            let count = |which: fn(&Heard) -> bool| notes.heard.iter().filter(|heard| which(heard)).count();
            let open = count(|it| matches!(it, Heard::Request(..))) - count(|it| matches!(it, Heard::Reset(_)));
            assert_eq!(protocol.streams.len(), open);
            (heard, notes.heard, protocol.out)
        };
        let length = 1 + usize::from(input.first().copied().unwrap_or_default()) % 11;
        let whole = hear(bytes.len());
        assert_eq!(whole, hear(length));
        format!("{:?} {}", whole.0, whole.1.len().min(20))
    });
}
