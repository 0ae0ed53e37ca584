//! The front ends: gRPC and REST over one service, and the process around them.
//!
//! Decode, call the service, encode: no rule of Tenure is decided here. Rules are in `tenure-core`, durability
//! and time in `tenure-engine`, messages in `tenure-proto`.

mod accept;
mod auth;
mod console;
mod convert;
mod error;
pub mod front;
#[cfg(test)]
mod fuzzing;
mod grpc;
mod http;
mod http2;
mod ldlm;
mod metrics;
mod rest;
mod server;
mod service;
mod storage;
mod tls;
mod version;
mod watch;

pub use auth::Password;
pub use ldlm::{LdlmConfig, pool_of_lock};
pub use server::{Config, Server, StartError};
pub use storage::{Disk, Storage};
pub use tls::{Tls, TlsError, TlsFiles};
