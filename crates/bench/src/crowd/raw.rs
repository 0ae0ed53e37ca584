//! HTTP by hand, for clients that no library would let one be: they speak as fast as they can, and never read.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{Outcome, PATIENCE};
use crate::calls::{DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, short};

/// How HTTP/2 begins, and a client that would take any amount on each stream.
pub(crate) fn opening() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    let window = [&4_u16.to_be_bytes()[..], &0x7fff_ffff_u32.to_be_bytes()].concat();
    frame(&mut bytes, SETTINGS, 0, 0, &window);
    bytes
}

/// A call of gRPC begins.
pub(crate) fn call(bytes: &mut Vec<u8>, stream: u32, method: &str) {
    // `:method: POST` and `:scheme: http` are in HPACK's table; the rest is spelled out.
    let mut block = vec![0x83, 0x86];
    let path = format!("/tenure.v1.Tenure/{method}");
    for (name, value) in
        [(":path", path.as_str()), (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")]
    {
        block.extend([0, short(name)]);
        block.extend(name.as_bytes());
        block.push(short(value));
        block.extend(value.as_bytes());
    }
    frame(bytes, HEADERS, END_HEADERS, stream, &block);
}

/// A message of a call, which may be its last.
pub(crate) fn message(bytes: &mut Vec<u8>, stream: u32, message: &impl prost::Message, is_last: bool) {
    let mut data = vec![0];
    let length = u32::try_from(message.encoded_len()).expect("what is said here is short");
    data.extend(length.to_be_bytes());
    data.extend(message.encode_to_vec());
    frame(bytes, DATA, if is_last { END_STREAM } else { 0 }, stream, &data);
}

/// Says all that there is to say, as far as it is taken, and waits for a while to be hung up on. Gives how much the server, or the
/// system for it, has taken. On a thread of its own.
pub(crate) fn speak(address: &str, mut words: impl FnMut() -> Option<Vec<u8>>) -> Outcome<usize> {
    // What is not read is not to lie about in the system either.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(&address.parse::<std::net::SocketAddr>()?.into())?;
    let mut socket = TcpStream::from(socket);
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = 0;
    while let Some(some) = words() {
        let mut rest = &some[..];
        while !rest.is_empty() {
            match socket.write(rest) {
                Ok(count) => {
                    bytes += count;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Hung up on, or never.
                Err(_) => return Ok(bytes),
            }
        }
    }
    is_hung_up_on(&socket)?;
    Ok(bytes)
}

/// Waits for it. The end of the answers says it, but they are not to be read; the system knows.
fn is_hung_up_on(socket: &TcpStream) -> Outcome<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    Ok(poll(&mut fds, Some(&patience))? > 0)
}

/// Says this and no more, reads until it is hung up on, and gives what it heard.
pub(crate) fn say_once(address: &str, words: &[u8], patience: Duration) -> Outcome<Vec<u8>> {
    use std::io::Read;
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(patience))?;
    // It may be refused before all is said.
    let _ = socket.write_all(words);
    let mut heard = Vec::new();
    // And reset, because of what was not read.
    let _ = socket.read_to_end(&mut heard);
    Ok(heard)
}
