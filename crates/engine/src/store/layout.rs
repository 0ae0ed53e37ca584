//! Where everything lies in the database, and the envelope around every value. docs/storage.md draws the same.

use std::fmt;

use prost::Message;
use tenure_core::{Namespace, PoolName, PoolPath, Seq, SessionId, Token, WaiterId};
use xxhash_rust::xxh3::Xxh3;

use super::StoreError;

/// The version of everything below and in storage.proto. Another number: another program must read it.
pub(super) const FORMAT: u64 = 2;
/// Had the log in the database.
pub(super) const FORMAT_WITH_OLD_LOG: u64 = 1;

/// Version of the envelope, then the checksum.
const ENVELOPE: u8 = 1;
const ENVELOPE_BYTES: usize = 9;

/// Every key there is. What follows the arrow is the message of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// meta `watermark` → `Watermark`
    Watermark,
    /// meta `log` → `LogBounds`
    LogBounds,
    /// log, number of the first event → `Entry`. Of the log itself; format 1 had a keyspace of that name.
    Entry(Seq),
    /// rows `p` namespace 0 name → `PoolRow`
    Pool(PoolPath),
    /// rows `s` id → `SessionRow`
    Session(SessionId),
    /// rows `h` token → `HoldRow`
    Hold(Token),
    /// rows `w` id → `WaiterRow`
    Waiter(WaiterId),
    /// rows `e` index of the first → `EndedRow`
    Ended(u64),
}

impl Address {
    /// Numbers are big-endian, so that keys sort like them.
    pub(super) fn key(&self) -> Vec<u8> {
        let row = |kind: u8, number: u64| [&[kind][..], &number.to_be_bytes()].concat();
        match self {
            Self::Watermark => b"watermark".to_vec(),
            Self::LogBounds => b"log".to_vec(),
            Self::Entry(first) => first.0.to_be_bytes().to_vec(),
            // No name has a control character, so a zero byte ends the namespace.
            Self::Pool(path) => {
                [b"p", path.namespace().as_str().as_bytes(), b"\0", path.name().as_str().as_bytes()].concat()
            }
            Self::Session(id) => row(b's', id.0),
            Self::Hold(token) => row(b'h', token.0),
            Self::Waiter(id) => row(b'w', id.0),
            Self::Ended(index) => row(b'e', *index),
        }
    }

    /// Reads the key of a row.
    pub(super) fn of_row(key: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged(format!("a row has the key {}, which is none", key.escape_ascii()));
        let (kind, rest) = key.split_first().ok_or_else(damaged)?;
        let number = || rest.try_into().map(u64::from_be_bytes).map_err(|_| damaged());
        match kind {
            b'p' => {
                let (namespace, name) =
                    std::str::from_utf8(rest).ok().and_then(|text| text.split_once('\0')).ok_or_else(damaged)?;
                let namespace = Namespace::parse(namespace).map_err(|_| damaged())?;
                let name = PoolName::parse(name).map_err(|_| damaged())?;
                Ok(Self::Pool(PoolPath::new(namespace, name)))
            }
            b's' => number().map(SessionId).map(Self::Session),
            b'h' => number().map(Token).map(Self::Hold),
            b'w' => number().map(WaiterId).map(Self::Waiter),
            b'e' => number().map(Self::Ended),
            _ => Err(damaged()),
        }
    }

    pub(super) fn of_entry(key: &[u8]) -> Result<Seq, StoreError> {
        let number = key.try_into().map(u64::from_be_bytes);
        number
            .map(Seq)
            .map_err(|_| StoreError::Damaged(format!("a log entry has the key {}, which is none", key.escape_ascii())))
    }

    pub(super) fn damaged(&self, why: impl fmt::Display) -> StoreError {
        StoreError::Damaged(format!("{self}: {why}"))
    }

    /// Wraps a message for storage: version, checksum, message.
    pub(super) fn seal(&self, message: &impl Message) -> Vec<u8> {
        self.seal_with(message.encoded_len(), |buffer| message.encode(buffer).expect("a vector grows"))
    }

    /// The same for a message of about so many bytes, which `write` adds to what is there.
    pub(super) fn seal_with(&self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut value = Vec::with_capacity(ENVELOPE_BYTES + bytes);
        value.extend([0; ENVELOPE_BYTES]);
        write(&mut value);
        self.envelop(&mut value);
        value
    }

    /// Fills in the envelope, for which there is room at the beginning.
    fn envelop(&self, value: &mut [u8]) {
        let checksum = self.checksum(&value[ENVELOPE_BYTES..]);
        value[0] = ENVELOPE;
        value[1..ENVELOPE_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Wraps what may or may not be a message.
    pub(super) fn seal_bytes(&self, message: &[u8]) -> Vec<u8> {
        let mut value = [&[0; ENVELOPE_BYTES], message].concat();
        self.envelop(&mut value);
        value
    }

    /// The message without its envelope.
    pub(super) fn message(value: &[u8]) -> &[u8] {
        value.get(ENVELOPE_BYTES..).unwrap_or_default()
    }

    /// Reads what [`Address::seal`] wrote at the same address.
    pub(super) fn unseal<M: Message + Default>(&self, value: &[u8]) -> Result<M, StoreError> {
        let (envelope, message) = value
            .split_at_checked(ENVELOPE_BYTES)
            .ok_or_else(|| self.damaged(format!("has only {} bytes", value.len())))?;
        if envelope[0] != ENVELOPE {
            return Err(self.damaged(format!("has envelope {}, which is unknown", envelope[0])));
        }
        if envelope[1..] != self.checksum(message).to_le_bytes() {
            return Err(self.damaged("does not have the checksum it was written with"));
        }
        M::decode(message).map_err(|error| self.damaged(error))
    }

    /// Over the address too, so that a value in the wrong place is noticed.
    fn checksum(&self, message: &[u8]) -> u64 {
        let keyspace: &[u8] = match self {
            Self::Watermark | Self::LogBounds => b"meta",
            Self::Entry(_) => b"log",
            _ => b"rows",
        };
        let mut hasher = Xxh3::new();
        hasher.update(keyspace);
        hasher.update(&self.key());
        hasher.update(message);
        hasher.digest()
    }
}

/// As an error message names it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watermark => f.write_str("the watermark"),
            Self::LogBounds => f.write_str("the log's first event"),
            Self::Entry(first) => write!(f, "the log entry of event {}", first.0),
            Self::Pool(path) => write!(f, "the row of pool {path:?}"),
            Self::Session(id) => write!(f, "the row of session {}", id.0),
            Self::Hold(token) => write!(f, "the row of hold {}", token.0),
            Self::Waiter(id) => write!(f, "the row of waiter {}", id.0),
            Self::Ended(index) => write!(f, "the row of ended requests from {index}"),
        }
    }
}
