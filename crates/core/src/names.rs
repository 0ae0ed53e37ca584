//! Names, ids and keys. Each is parsed once at the edge and trusted inside.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

use crate::limits::*;

/// A piece of input that cannot be used: which one, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {why}")]
pub struct Invalid {
    /// The field, as callers know it.
    pub what: &'static str,
    pub why: String,
}

impl Invalid {
    pub fn new(what: &'static str, why: impl Into<String>) -> Self {
        Self { what, why: why.into() }
    }
}

/// Non-empty, bounded, no control characters: it is going to stand in a log line and on a terminal.
fn check_text(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(what, "is empty"));
    }
    if text.len() > bytes_max {
        return Err(Invalid::new(what, format!("has {} bytes; the most is {bytes_max}", text.len())));
    }
    if let Some(at) = text.find(char::is_control) {
        return Err(Invalid::new(what, format!("has a control character at byte {at}")));
    }
    Ok(())
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check_text($what, text, $max)?;
                Ok(Self(Arc::from(text)))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl core::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_type!(
    /// Keeps the pools, sessions and history of different teams apart.
    Namespace, "namespace", NAMESPACE_BYTES_MAX
);
text_type!(PoolName, "pool name", NAME_BYTES_MAX);
text_type!(ResourceName, "resource name", NAME_BYTES_MAX);
text_type!(HolderId, "holder", NAME_BYTES_MAX);
text_type!(
    /// Chosen by the caller, unique within a namespace: makes a retried acquire safe. Whoever knows it can
    /// learn the hold's key, so it should be as hard to guess as one.
    RequestId, "request id", REQUEST_ID_BYTES_MAX
);
text_type!(
    /// Something outside whose end ends its holds, such as a workflow.
    OwnerId, "owner", OWNER_BYTES_MAX
);
text_type!(
    /// Why: of a quarantine, a drain, a forced release.
    Note, "reason", NOTE_BYTES_MAX
);
text_type!(LabelName, "label name", META_NAME_BYTES_MAX);

impl Default for Namespace {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

/// A pool's full name. Cheap to clone: every hold and waiter of the pool shares one.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolPath(Arc<(Namespace, PoolName)>);

impl Ord for PoolPath {
    /// By namespace, then by name. Those that share a namespace mostly share its text too, which need not be compared then.
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let namespaces = match Arc::ptr_eq(&self.0.0.0, &other.0.0.0) {
            true => Ordering::Equal,
            false => self.0.0.cmp(&other.0.0),
        };
        namespaces.then_with(|| self.0.1.cmp(&other.0.1))
    }
}

impl PartialOrd for PoolPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PoolPath {
    pub fn new(namespace: Namespace, name: PoolName) -> Self {
        Self(Arc::new((namespace, name)))
    }

    pub fn namespace(&self) -> &Namespace {
        &self.0.0
    }

    pub fn name(&self) -> &PoolName {
        &self.0.1
    }
}

impl fmt::Debug for PoolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}

/// Fencing: a number that rises with every grant of the server, over restarts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token(pub u64);

/// A waiter's number; also its arrival, so the lower came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaiterId(pub u64);

/// A session's public number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionId(pub u64);

/// The number of an event, from 1, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Seq(pub u64);

/// A secret: whoever has it may renew or release the hold, or speak for the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Key(u128);

/// Where a key's digits are in its text: the beginning and the end of each group.
const KEY_GROUPS: [(usize, usize); 5] = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)];

const DIGITS: [u8; 16] = *b"0123456789abcdef";

/// What each byte is worth as a digit; more than fifteen if it is none.
const WORTH: [u8; 256] = {
    let mut worth = [u8::MAX; 256];
    let mut value = 0_u8;
    while value < 16 {
        worth[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    worth
};

impl Key {
    /// A random number in the shape of a version 4 UUID, which is what lock clients expect a key to be.
    pub const fn from_nonce(nonce: u128) -> Self {
        let version = (nonce & !(0xf << 76)) | (0x4 << 76);
        Self((version & !(0x3 << 62)) | (0x2 << 62))
    }

    /// A key for what ends apart from the rest of a set. Its last bits are the same: they may tell who made it.
    pub(crate) const fn of_part(self, nth: usize) -> Self {
        Self(self.0 ^ ((nth as u128 + 1) << 100))
    }

    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub const fn as_bits(self) -> u128 {
        self.0
    }

    /// Reads the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad = || Invalid::new("key", "is not of the form xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx");
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return Err(bad());
        }
        let digit = |byte: u8| WORTH[usize::from(byte)];
        let mut bits = [0; 16];
        let mut next = bits.iter_mut();
        // Looked at in the end: a key that is one has no need to ask at each digit.
        let mut is_bad = false;
        for (start, end) in KEY_GROUPS {
            is_bad |= start > 0 && bytes[start - 1] != b'-';
            for (pair, byte) in bytes[start..end].chunks_exact(2).zip(&mut next) {
                let (high, low) = (digit(pair[0]), digit(pair[1]));
                is_bad |= (high | low) > 0xf;
                *byte = high << 4 | low;
            }
        }
        if is_bad { Err(bad()) } else { Ok(Self(u128::from_be_bytes(bits))) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'-'; 36];
        let bits = self.0.to_be_bytes();
        let mut next = bits.iter();
        for (start, end) in KEY_GROUPS {
            for (pair, byte) in text[start..end].chunks_exact_mut(2).zip(&mut next) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 0xf)];
            }
        }
        f.write_str(core::str::from_utf8(&text).expect("digits and hyphens"))
    }
}

/// Not the key: a debug line ends up in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Who: an id and small metadata, such as host, process or reason.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    pub id: HolderId,
    /// Names and values in turn, each ended by a NUL, sorted by name: there are as many holders as holds, so
    /// they are kept small.
    meta: Box<str>,
}

impl Holder {
    pub fn parse<'a>(id: &str, meta: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Invalid> {
        let bounds =
            EntryBounds { what: "metadata", entries_max: META_ENTRIES_MAX, value_bytes_max: META_VALUE_BYTES_MAX };
        let mut packed = String::new();
        for (name, value) in &bounds.parse(meta)? {
            if value.contains('\0') {
                return Err(Invalid::new("metadata", format!("`{name}` has a NUL character")));
            }
            packed.extend([name, "\0", value, "\0"]);
        }
        Ok(Self { id: HolderId::parse(id)?, meta: packed.into() })
    }

    pub fn meta(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.meta.split_terminator('\0');
        core::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entry(&"id", &self.id).entries(self.meta()).finish()
    }
}

/// Labels (to choose by) or properties (to be told on a grant) of a resource. An empty value is a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub fn parse<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Invalid> {
        let bounds = EntryBounds { what: "labels", entries_max: LABELS_MAX, value_bytes_max: LABEL_VALUE_BYTES_MAX };
        let sorted = bounds.parse(entries)?;
        Ok(Self(sorted.into_iter().map(|(name, value)| (Box::from(name), Box::from(value))).collect()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(label, _)| (**label).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

struct EntryBounds {
    what: &'static str,
    entries_max: usize,
    value_bytes_max: usize,
}

impl EntryBounds {
    fn parse<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<BTreeMap<&'a str, &'a str>, Invalid> {
        let mut sorted = BTreeMap::new();
        for (name, value) in entries {
            let refuse = |why: String| Err(Invalid::new(self.what, why));
            check_text(self.what, name, META_NAME_BYTES_MAX)?;
            if value.len() > self.value_bytes_max {
                return refuse(format!("`{name}` has {} bytes; the most is {}", value.len(), self.value_bytes_max));
            }
            if sorted.insert(name, value).is_some() {
                return refuse(format!("`{name}` is given twice"));
            }
            if sorted.len() > self.entries_max {
                return refuse(format!("has more than {} entries", self.entries_max));
            }
        }
        Ok(sorted)
    }
}

/// Higher first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(i16);

impl Priority {
    pub fn parse(number: i64) -> Result<Self, Invalid> {
        i16::try_from(number).ok().filter(|n| (PRIORITY_MIN..=PRIORITY_MAX).contains(n)).map(Self).ok_or_else(|| {
            Invalid::new("priority", format!("is {number}; it must lie between {PRIORITY_MIN} and {PRIORITY_MAX}"))
        })
    }

    pub fn get(self) -> i16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_nothing_else_is() {
        let key = Key::from_bits(0x0123_4567_89ab_4cde_8f01_2345_6789_abcd);
        let text = "01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(key.to_string(), text);
        assert_eq!(Key::parse(text), Ok(key));
        for at in 0..text.len() {
            for other in ["A", "g", "-", "0", " "] {
                let mut changed = text.to_string();
                changed.replace_range(at..=at, other);
                match Key::parse(&changed) {
                    Ok(read) => assert_eq!(read.to_string(), changed),
                    Err(_) => assert!(other != "0" || text.as_bytes()[at] == b'-', "{changed}"),
                }
            }
        }
        assert!(Key::parse(&text[1..]).is_err() && Key::parse("").is_err());
        assert!(Key::parse("0123456789ab4cde8f0123456789abcd0123").is_err());
    }
}
