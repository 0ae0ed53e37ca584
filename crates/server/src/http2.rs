//! HTTP/2 for the gRPC port, made for calls that are short and many: what one costs beside the work itself is a fraction of what a library for all
//! of HTTP takes.
//!
//! `protocol` has the rules and no sockets, `calls` passes calls on and answers back, `connection` is the task that reads and writes. What is
//! below is a socket, above is any service that tonic makes; the calls that are made most go to [`Direct`] without further layers.
//! The HTTP port has hyper: it speaks HTTP/1 too, and is not asked as often.

mod bells;
mod body;
mod calls;
mod connection;
mod fields;
pub(crate) mod frame;
mod hpack;
mod protocol;

pub(crate) use calls::{Answering, Direct, Message};
pub(crate) use connection::{KeepAlive, serve};
pub(crate) use fields::RequestHead;

use std::time::Duration;

use axum::http::HeaderMap;

/// Before a message of gRPC: whether it is compressed, and its length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// How long the caller listens for an answer, if it has said so.
pub(crate) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count = count.parse::<u32>().ok()?;
    let unit = match unit {
        "H" => Duration::from_secs(60 * 60),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    Some(unit * count)
}
