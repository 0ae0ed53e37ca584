//! Who listens at an address, if it is not a gRPC server: found out by listening to what it says.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::{Address, PORT_DEFAULT};

/// Whoever has something to say says it at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// How an HTTP/2 client begins: its preface, and settings that are empty.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS_FRAME: u8 = 4;
/// How much of a stranger's words is repeated.
const QUOTE_CHARACTERS_MAX: usize = 40;

pub(crate) const NOT_GRPC: &str =
    "it speaks HTTP and not gRPC; a server listens for gRPC on another port than for HTTP";

/// What the server is, unless it speaks HTTP/2 or says nothing.
pub(crate) async fn stranger(address: &Address) -> Option<String> {
    let heard = tokio::time::timeout(PATIENCE, first_words(address)).await.ok()?.ok()?;
    recognise(&heard)
}

async fn first_words(address: &Address) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
    socket.write_all(GREETING).await?;
    let mut heard = vec![0; 128];
    let length = socket.read(&mut heard).await?;
    heard.truncate(length);
    Ok(heard)
}

fn recognise(heard: &[u8]) -> Option<String> {
    match heard {
        [] => None,
        [0x15 | 0x16, 0x03, ..] => Some("it wants TLS; write https://host:port".to_owned()),
        [b'H', b'T', b'T', b'P', b'/', ..] => Some(format!("{NOT_GRPC}, by default {PORT_DEFAULT}")),
        [_, _, _, SETTINGS_FRAME, ..] => None,
        _ => {
            let line = String::from_utf8_lossy(heard);
            let line = line.lines().next().unwrap_or_default();
            let quote: String = line.chars().filter(|c| !c.is_control()).take(QUOTE_CHARACTERS_MAX).collect();
            Some(format!("it says `{quote}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_recognised_by_their_first_words() {
        assert_eq!(recognise(b""), None);
        assert_eq!(recognise(b"\0\0\x06\x04\0\0\0\0\0"), None, "this is HTTP/2");
        assert!(recognise(b"HTTP/1.1 400 Bad Request\r\n").unwrap().contains("HTTP"));
        assert!(recognise(b"\x15\x03\x01\0\x02\x02\x50").unwrap().contains("TLS"));
        assert_eq!(recognise(b"SSH-2.0-Open\x07SSH\r\nmore").unwrap(), "it says `SSH-2.0-OpenSSH`");
    }
}
