//! The wire, tested through real sockets: what gRPC and HTTP clients see.
//!
//! Time is told, not waited for, and what must have happened is looked up in the engine's events. One binary, so
//! that the server is linked once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod certificates;
mod console;
mod fixture;
mod grpc;
mod hang_up;
mod lost;
mod openapi;
mod operations;
mod rest;
mod search;
mod secure;
mod silent;
mod stream;
mod talk;
mod unread;
mod watch;
