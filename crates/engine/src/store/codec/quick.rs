//! The events that happen all the time, as the bytes of their messages without making the messages.
//!
//! What is not told here is told by its message. Tests compare: whatever is encoded while assertions are on is encoded
//! both ways.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tenure_core::*;

use super::{event, stored};

/// `Entry`.
pub(super) fn entry(entry: &super::Entry, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    number(1, entry.at.as_millis(), buffer);
    for it in &entry.events {
        message(2, buffer, |buffer| match it {
            Event::Granted { token, hold: it, waiter } if it.also.is_empty() => message(2, buffer, |buffer| {
                number(1, token.0, buffer);
                message(2, buffer, |buffer| hold(it, buffer));
                given(3, waiter.map(|id| id.0), buffer);
            }),
            Event::Ended { token, pool, holder, session, since, how: HoldEnd::Released, also } if also.is_empty() => {
                message(4, buffer, |buffer| {
                    number(1, token.0, buffer);
                    message(2, buffer, |buffer| path(pool, buffer));
                    text(3, holder.as_str(), buffer);
                    number(4, stored::HoldEnd::Released as u64, buffer);
                    number(6, since.as_millis(), buffer);
                    given(7, session.map(|id| id.0), buffer);
                });
            }
            it => event(it).encode(buffer).expect("a vector grows"),
        });
    }
    debug_assert_eq!(buffer[start..], super::entry(entry).encode_to_vec());
}

/// `Hold`, of one pool.
fn hold(hold: &Hold, buffer: &mut Vec<u8>) {
    message(1, buffer, |buffer| path(&hold.pool, buffer));
    let key = super::key(hold.key);
    message(2, buffer, |buffer| {
        fixed(1, key.high, buffer);
        fixed(2, key.low, buffer);
    });
    message(3, buffer, |buffer| {
        text(1, hold.holder.id.as_str(), buffer);
        for (name, value) in hold.holder.meta() {
            message(2, buffer, |buffer| {
                text(1, name, buffer);
                text(2, value, buffer);
            });
        }
    });
    number(4, hold.taken.units.into(), buffer);
    for name in &hold.taken.resources {
        present_text(5, name.as_str(), buffer);
    }
    number(6, hold.taken.all.into(), buffer);
    message(7, buffer, |buffer| lifetime(&hold.lifetime, buffer));
    number(8, hold.since.as_millis(), buffer);
    given(9, hold.deadline.map(Timestamp::as_millis), buffer);
    given(10, hold.session.map(|id| id.0), buffer);
    if let Some(request) = &hold.request {
        present_text(11, request.as_str(), buffer);
    }
    number(12, hold.asked.as_millis(), buffer);
    number(60, hold.taken.dirty.into(), buffer);
}

/// `Lifetime`.
fn lifetime(lifetime: &Lifetime, buffer: &mut Vec<u8>) {
    match lifetime {
        Lifetime::Leased(ttl) => given(1, Some(ttl.as_millis()), buffer),
        Lifetime::Session(None) => message(2, buffer, |_| {}),
        Lifetime::Window(ttl) => given(3, Some(ttl.as_millis()), buffer),
        Lifetime::Kept => message(4, buffer, |_| {}),
        Lifetime::Bound(owner) => present_text(5, owner.as_str(), buffer),
        Lifetime::Session(Some(ttl)) => given(6, Some(ttl.as_millis()), buffer),
    }
}

/// `PoolPath`.
fn path(path: &PoolPath, buffer: &mut Vec<u8>) {
    text(1, path.namespace().as_str(), buffer);
    text(2, path.name().as_str(), buffer);
}

/// A message within a message. Most are short, and their length is one byte.
fn message(tag: u32, buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(tag, WireType::LengthDelimited, buffer);
    let at = buffer.len();
    buffer.push(0);
    write(buffer);
    let length = buffer.len() - at - 1;
    match u8::try_from(length) {
        Ok(length @ ..0x80) => buffer[at] = length,
        _ => {
            let mut prefix = Vec::with_capacity(10);
            encode_varint(length as u64, &mut prefix);
            buffer.splice(at..=at, prefix);
        }
    }
}

/// Nothing if it is zero.
fn number(tag: u32, number: u64, buffer: &mut Vec<u8>) {
    given(tag, (number != 0).then_some(number), buffer);
}

fn given(tag: u32, number: Option<u64>, buffer: &mut Vec<u8>) {
    if let Some(number) = number {
        encode_key(tag, WireType::Varint, buffer);
        encode_varint(number, buffer);
    }
}

/// Nothing if it is zero.
fn fixed(tag: u32, number: u64, buffer: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::SixtyFourBit, buffer);
        buffer.extend(number.to_le_bytes());
    }
}

/// Nothing if it is empty.
fn text(tag: u32, text: &str, buffer: &mut Vec<u8>) {
    if !text.is_empty() {
        present_text(tag, text, buffer);
    }
}

fn present_text(tag: u32, text: &str, buffer: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, buffer);
    encode_varint(text.len() as u64, buffer);
    buffer.extend_from_slice(text.as_bytes());
}
