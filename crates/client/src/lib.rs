//! The Rust client of Tenure: take turns on locks, semaphores, pools of named resources and rate windows, and be told
//! when a hold is lost.
//!
//! ```no_run
//! # async fn example() -> Result<(), tenure_client::Error> {
//! use std::time::Duration;
//! use tenure_client::Client;
//!
//! let client = Client::connect("127.0.0.1:3144").await?;
//!
//! // A mutex: any name, waited for however long it takes.
//! let guard = client.lock("nightly-report").await?;
//! tokio::select! {
//!     () = write_report(guard.token()) => guard.release().await?,
//!     lost = guard.lost() => eprintln!("stopped writing: {lost}"),
//! }
//!
//! // A machine from a pool, for at most a minute of waiting.
//! let machine = client.acquire("gpus").select("mem >= 80 && !old").wait(Duration::from_secs(60)).await?;
//! println!("working on {}", machine.resources()[0].name);
//! drop(machine); // released in the background
//!
//! client.close().await?;
//! # Ok(())
//! # }
//! # async fn write_report(_token: u64) {}
//! ```
//!
//! # What to rely on
//!
//! - **One connection for all tasks.** A [`Client`] is cheap to clone. It has one session and one stream, served by a thread
//!   of its own: an application that keeps its own threads busy or blocked does not delay a renewal.
//! - **A guard is a promise with an end.** [`Guard::deadlines`] says until when the hold is certainly ours, on this
//!   process's clock and counted from before the request was sent. It moves with every renewal. When it passes, or the
//!   server says that the hold is over, [`Guard::lost`] resolves. A process that was paused notices only when it goes on:
//!   that is what [`Guard::token`] is for, and [`fencing`] checks it where it matters. On Linux the time that the host was suspended counts.
//! - **Broken connections are mended.** Holds, and places in the queue, survive a lost connection and a restart of the
//!   server, as long as the session's grace and the leases last. Passwords and certificates that are in files are read anew
//!   for it.
//! - **Nothing is left behind.** Dropping a guard releases its hold; dropping an acquire that waits leaves the queue. Both
//!   happen in the background: call [`Guard::release`] or [`Client::close`] before the process ends to know that they did.

mod access;
mod acquire;
mod address;
mod calls;
mod client;
mod clock;
mod connection;
mod error;
pub mod fencing;
mod guard;
mod link;
mod part;
mod probe;
mod random;
mod session;

pub use acquire::Acquire;
pub use address::check_address;
pub use calls::Calls;
pub use client::{Builder, Client, connect_api, default_holder};
pub use error::Error;
pub use guard::{Deadlines, Guard, Lost};
pub use link::Api;
pub use part::Part;
pub use random::random_id;
pub use tenure_proto::v1;
