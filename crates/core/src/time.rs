//! Points in time and durations, in whole milliseconds, and the stamp that brings them in.
//!
//! Nothing here reads a clock: the driver does, once per batch.

use crate::limits::{TTL_MAX, TTL_MIN};
use crate::names::Invalid;

/// A point in time: milliseconds since the Unix epoch, by the engine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; zero when `earlier` is the later one.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl core::ops::Add<Ttl> for Timestamp {
    type Output = Self;

    fn add(self, ttl: Ttl) -> Self {
        Self(self.0.saturating_add(ttl.0))
    }
}

/// How long something lasts: a lease, a wait, a grace, a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// For constants within the bounds; anything a caller sends goes through [`Ttl::parse`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub fn parse(what: &'static str, millis: u64) -> Result<Self, Invalid> {
        if millis < TTL_MIN.0 {
            return Err(Invalid::new(what, alloc::format!("is {millis} ms; the least is {} ms", TTL_MIN.0)));
        }
        if millis > TTL_MAX.0 {
            return Err(Invalid::new(what, alloc::format!("is {millis} ms; the most is {} ms (366 days)", TTL_MAX.0)));
        }
        Ok(Self(millis))
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// What the world adds to a command: when it is taken to happen, and a number nobody can guess.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub at: Timestamp,
    /// Random, and different for every command: keys are made from it, and random placement.
    pub nonce: u128,
}
