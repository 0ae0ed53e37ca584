//! The front ends: gRPC and REST over one service, and the process around them.
//!
//! Decode, call the service, encode: no rule of Tenure is decided here. Rules are in `tenure-core`, durability
//! and time in `tenure-engine`, messages in `tenure-proto`.

mod convert;
mod error;
mod grpc;
mod http;
mod metrics;
mod rest;
mod server;
mod service;
mod storage;
mod version;
mod watch;

pub use server::{Config, Server, StartError};
pub use storage::{Disk, Storage};
