//! LDLM's interface as its clients see it: the real binary as a process, a connection per client, and LDLM's own cases one
//! by one. Times are short, and what is waited for is always something that happens.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../server/tests/wire/certificates.rs"]
mod certificates;
mod client;
mod commands;
mod disconnects;
mod errors;
mod fixture;
mod keepalive;
mod locks;
mod protocol;
mod queues;
mod races;
mod raw;
mod rest;
mod rest_client;
mod restarts;
mod secure;
mod sizes;
#[path = "../support/mod.rs"]
mod support;
mod times;
