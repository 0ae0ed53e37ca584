//! A client that does what no library would: HTTP/2 by hand. It says its piece in one go and is gone, or does not answer,
//! or talks too much.

use std::net::SocketAddr;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request over a connection of its own, and waits for nothing.
pub(crate) async fn send(addr: SocketAddr, method: &str, message: &impl Message) -> TcpStream {
    send_all(addr, method, std::slice::from_ref(message)).await
}

/// As `send`, with a deadline as gRPC writes it. To keep it is up to the caller.
pub(crate) async fn send_until(addr: SocketAddr, method: &str, message: &impl Message, timeout: &str) -> TcpStream {
    let mut socket = send_all::<()>(addr, method, &[]).await;
    let mut bytes = Vec::new();
    request(&mut bytes, 1, method, message, &[("grpc-timeout", timeout)]);
    socket.write_all(&bytes).await.unwrap();
    socket
}

/// Sends many requests in one go over a connection of their own, and waits for nothing.
pub(crate) async fn send_all<M: Message>(addr: SocketAddr, method: &str, messages: &[M]) -> TcpStream {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, SETTINGS, 0, 0, &[]);
    for (stream, message) in (1..).step_by(2).zip(messages) {
        request(&mut bytes, stream, method, message, &[]);
    }
    socket.write_all(&bytes).await.unwrap();
    socket
}

/// One more request over the same connection, on a stream that was not used before.
pub(crate) async fn send_more(socket: &mut TcpStream, stream: u32, method: &str, message: &impl Message) {
    let mut bytes = Vec::new();
    request(&mut bytes, stream, method, message, &[]);
    socket.write_all(&bytes).await.unwrap();
}

/// Cancels the request that was sent, which may be answered by now. The connection lives on.
pub(crate) async fn cancel(socket: &mut TcpStream) {
    let mut bytes = Vec::new();
    frame(&mut bytes, RESET, 0, 1, &CANCEL);
    socket.write_all(&bytes).await.unwrap();
}

/// Makes so many requests and cancels each, all in one go, from this stream on. Gives the next one that is free.
pub(crate) async fn give_up(
    socket: &mut TcpStream,
    first: u32,
    method: &str,
    message: &impl Message,
    times: u32,
) -> u32 {
    let mut bytes = Vec::new();
    let end = first + 2 * times;
    for stream in (first..end).step_by(2) {
        request(&mut bytes, stream, method, message, &[]);
        frame(&mut bytes, RESET, 0, stream, &CANCEL);
    }
    socket.write_all(&bytes).await.unwrap();
    end
}

/// Makes so many requests in one go, from this stream on. The end of each comes by itself, as some libraries have it. Gives
/// the next stream that is free.
pub(crate) async fn send_many(
    socket: &mut TcpStream,
    first: u32,
    method: &str,
    message: &impl Message,
    times: u32,
) -> u32 {
    let mut bytes = Vec::new();
    let end = first + 2 * times;
    for stream in (first..end).step_by(2) {
        headers(&mut bytes, stream, method, &[]);
        frame(&mut bytes, DATA, 0, stream, &body(message));
        frame(&mut bytes, DATA, END_STREAM, stream, &[]);
    }
    socket.write_all(&bytes).await.unwrap();
    end
}

/// Asks so many times in one go whether anybody is there.
pub(crate) async fn ping(socket: &mut TcpStream, times: usize) {
    let mut bytes = Vec::new();
    for _ in 0..times {
        frame(&mut bytes, PING, 0, 0, b"anybody?");
    }
    socket.write_all(&bytes).await.unwrap();
}

/// A frame that the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// The next frame; none when the server has hung up.
pub(crate) async fn heard(socket: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).await.ok()?;
    let [l0, l1, l2, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
    socket.read_exact(&mut payload).await.ok()?;
    Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
}

/// The whole answer to the first request; none if it is only a status.
pub(crate) async fn answer<M: Message + Default>(socket: &mut TcpStream) -> Option<M> {
    let mut message = None;
    loop {
        let frame = heard(socket).await.expect("the server is there");
        if frame.stream == 1 && frame.kind == DATA {
            // After a flag and the length. The tests have short ones, which come in one piece.
            message = Some(M::decode(&frame.payload[5..]).unwrap());
        }
        if frame.stream == 1 && frame.flags & END_STREAM != 0 {
            return message;
        }
    }
}

pub(crate) const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn request(bytes: &mut Vec<u8>, stream: u32, method: &str, message: &impl Message, more: &[(&str, &str)]) {
    headers(bytes, stream, method, more);
    frame(bytes, DATA, END_STREAM, stream, &body(message));
}

fn headers(bytes: &mut Vec<u8>, stream: u32, method: &str, more: &[(&str, &str)]) {
    let path = format!("/ldlm.LDLM/{method}");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut headers = Vec::new();
    for (name, value) in fields.iter().chain(more) {
        // Literal, not indexed, with a new name; no Huffman code.
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).unwrap());
            headers.extend_from_slice(text.as_bytes());
        }
    }
    frame(bytes, HEADERS, END_HEADERS, stream, &headers);
}

fn body(message: &impl Message) -> Vec<u8> {
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    body.extend(message.encode_to_vec());
    body
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}
