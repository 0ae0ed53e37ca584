//! LDLM's interface as its clients see it, through real sockets, with a connection per client. Time is told, not waited
//! for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod disconnects;
mod errors;
mod fixture;
mod locks;
mod protocol;
mod queues;
mod raw;
mod rest;
mod rest_client;
mod restarts;
mod sizes;
mod times;
