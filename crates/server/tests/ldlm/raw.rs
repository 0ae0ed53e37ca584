//! A client that says its piece in one go and is gone: HTTP/2 by hand, because every library waits for something.

use std::net::SocketAddr;

use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Sends one request over a connection of its own, and waits for nothing.
pub(crate) async fn send(addr: SocketAddr, method: &str, message: &impl Message) -> TcpStream {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(&request(method, message)).await.unwrap();
    socket
}

/// Cancels the request that was sent, which may be answered by now. The connection lives on.
pub(crate) async fn cancel(socket: &mut TcpStream) {
    let mut bytes = Vec::new();
    frame(&mut bytes, RESET, 0, 1, &CANCEL);
    socket.write_all(&bytes).await.unwrap();
}

fn request(method: &str, message: &impl Message) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, SETTINGS, 0, 0, &[]);
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
    for (name, value) in fields {
        // Literal, not indexed, with a new name; no Huffman code.
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).unwrap());
            headers.extend_from_slice(text.as_bytes());
        }
    }
    frame(&mut bytes, HEADERS, END_HEADERS, 1, &headers);
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    body.extend(message.encode_to_vec());
    frame(&mut bytes, DATA, END_STREAM, 1, &body);
    bytes
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}
