//! The client against a real server, over real sockets that can be cut, frozen and closed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../server/tests/wire/certificates.rs"]
mod certificates;
mod closing;
mod connecting;
mod fixture;
mod holding;
mod losing;
mod proxy;
mod reconnecting;
mod secure;
