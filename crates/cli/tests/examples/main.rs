//! The programs in `examples/`, run as they are against the real binary. Whether they keep what they promise is seen from
//! outside: from what their workers wrote, and from the server's history.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod failover;
mod postgresql;
mod rates;
mod slots;
mod stage;
mod stale_writer;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod usage;
mod window;
