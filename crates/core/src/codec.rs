//! Serde for the types that have a `parse`: they are written as what they were parsed from, and parsed again when they
//! are read, so no value gets in by this way that could not get in by the other. All other types derive it, without
//! attributes, because the format may be one without field names; then only the version that wrote can read.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fair::FairShare;
use crate::names::*;
use crate::policy::Script;
use crate::selector::Selector;
use crate::time::Ttl;

macro_rules! as_text {
    ($($name:ident)+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parse($name::parse))
            }
        }
    )+};
}

as_text! { Namespace PoolName ResourceName HolderId RequestId OwnerId Note LabelName Script Selector }

/// Parses text where it lies, without a copy.
struct Parse<T, E>(fn(&str) -> Result<T, E>);

impl<T, E: fmt::Display> Visitor<'_> for Parse<T, E> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
        (self.0)(text).map_err(F::custom)
    }
}

impl Serialize for Holder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.id, self.meta().collect::<Vec<_>>()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Holder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (id, meta) = <(String, Vec<(String, String)>)>::deserialize(deserializer)?;
        Self::parse(&id, pairs(&meta)).map_err(D::Error::custom)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.iter().collect::<Vec<_>>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::deserialize(deserializer)?;
        Self::parse(pairs(&entries)).map_err(D::Error::custom)
    }
}

impl Serialize for FairShare {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.by(), self.weights().collect::<Vec<_>>()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FairShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (by, weights) = <(String, Vec<(String, u32)>)>::deserialize(deserializer)?;
        Self::parse(&by, weights.iter().map(|(group, weight)| (group.as_str(), *weight))).map_err(D::Error::custom)
    }
}

fn pairs(entries: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    entries.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(i16::deserialize(deserializer)?.into()).map_err(D::Error::custom)
    }
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_millis().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse("duration", u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
