//! Connections that say nothing, or only begin to: they are hung up on, and those that have said what they want are not.

use std::net::SocketAddr;
use std::time::Duration;

use tenure_server::Config;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::certificates::Authority;
use crate::fixture::{Fixture, within};
use crate::secure::{Secured, shake};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
pub(crate) const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0anybody?";
/// The beginnings of frames that acknowledge.
const SETTINGS_SEEN: &[u8] = b"\0\0\0\x04\x01";
pub(crate) const PONG: &[u8] = b"\0\0\x08\x06\x01";

/// Much more than it takes to say something on this machine, since an honest connection must be in time.
fn config() -> Config {
    Config { opening_timeout: Duration::from_secs(3), ..Config::any_ports() }
}

/// What is no request yet, nor the whole beginning of HTTP/2.
const BEGINNINGS: [&[u8]; 4] = [b"", b"GET / HT", b"PRI * HTTP/2.0\r\n", PREFACE.split_at(PREFACE.len() - 1).0];

pub(crate) trait Line: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Line for T {}

pub(crate) async fn say(line: &mut impl Line, words: &[u8]) {
    line.write_all(words).await.unwrap();
    line.flush().await.unwrap();
}

/// Says this, and then nothing until it is hung up on.
async fn say_no_more(mut line: impl Line, words: &[u8]) {
    say(&mut line, words).await;
    // How it is hung up on is not ours to say.
    let _ = line.read_to_end(&mut Vec::new()).await;
}

/// Gives all that was said until then.
pub(crate) async fn hear(line: &mut impl Line, wanted: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    while !heard.windows(wanted.len()).any(|some| some == wanted) {
        assert_ne!(within(line.read_buf(&mut heard)).await.unwrap(), 0, "it was hung up on");
    }
    heard
}

/// One that says what it wants, though not in one piece, and then nothing for long.
struct Honest<T> {
    line: T,
    goes_on: &'static [u8],
    is_answered: &'static [u8],
}

impl<T: Line> Honest<T> {
    async fn over_grpc(mut line: T) -> Self {
        say(&mut line, &PREFACE[..7]).await;
        say(&mut line, &PREFACE[7..]).await;
        say(&mut line, SETTINGS).await;
        hear(&mut line, SETTINGS_SEEN).await;
        Self { line, goes_on: PING, is_answered: PONG }
    }

    async fn over_http(mut line: T) -> Self {
        // Shorter than the beginning of HTTP/2.
        say(&mut line, b"GET / HTTP/1.1\r\n\r\n").await;
        hear(&mut line, b"200 OK").await;
        Self { line, goes_on: b"GET /healthz HTTP/1.1\r\n\r\n", is_answered: b"200 OK" }
    }

    /// HTTP/1 waits longer for the rest.
    async fn over_http_with_a_pause(mut line: T) -> Self {
        say(&mut line, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await;
        Self { line, goes_on: b"\r\n", is_answered: b"200 OK" }
    }

    async fn lives(mut self) {
        say(&mut self.line, self.goes_on).await;
        hear(&mut self.line, self.is_answered).await;
    }
}

#[tokio::test]
async fn who_does_not_say_what_it_wants_is_hung_up_on() {
    let fixture = Fixture::start_with(config()).await;
    let (grpc, http) = (fixture.server.grpc_addr(), fixture.server.http_addr());
    let connect = async |addr: SocketAddr| TcpStream::connect(addr).await.unwrap();
    let honest = [
        Honest::over_grpc(connect(grpc).await).await,
        Honest::over_grpc(connect(http).await).await,
        Honest::over_http(connect(http).await).await,
        Honest::over_http_with_a_pause(connect(http).await).await,
    ];
    let mut silent = JoinSet::new();
    for addr in [grpc, http] {
        for words in BEGINNINGS {
            silent.spawn(say_no_more(connect(addr).await, words));
        }
    }
    within(silent.join_all()).await;
    for honest in honest {
        honest.lives().await;
    }
}

#[tokio::test]
async fn who_does_not_say_what_it_wants_over_tls_is_hung_up_on() {
    let authority = Authority::new("ours");
    let secured = Secured::start_with(&authority.sign(), None, config()).await;
    let (grpc, http) = (secured.fixture.server.grpc_addr(), secured.fixture.server.http_addr());
    let connect = async |addr: SocketAddr| within(shake(addr, &authority, None, &[])).await.unwrap();
    let honest = [
        Honest::over_grpc(connect(grpc).await).await,
        Honest::over_grpc(connect(http).await).await,
        Honest::over_http(connect(http).await).await,
        Honest::over_http_with_a_pause(connect(http).await).await,
    ];
    let mut silent = JoinSet::new();
    for addr in [grpc, http] {
        // Before TLS, how TLS begins, and HTTP to a port that does not speak it.
        for words in [&b""[..], b"\x16", b"\x16\x03\x01\x02\0\x01", b"G"] {
            silent.spawn(say_no_more(TcpStream::connect(addr).await.unwrap(), words));
        }
        for words in BEGINNINGS {
            silent.spawn(say_no_more(connect(addr).await, words));
        }
    }
    within(silent.join_all()).await;
    for honest in honest {
        honest.lives().await;
    }
}
