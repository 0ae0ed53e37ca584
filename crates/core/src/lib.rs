//! The rules of Tenure: who gets what, when, and for how long.
//!
//! A deterministic machine. [`Machine::apply`] takes a stamp and a command and gives a reply and the
//! events that happened; [`State::evolve`] is the one function that changes state, used for live traffic
//! and for recovery alike. What the machine cannot derive (time, ids, randomness) arrives in the stamp.
//!
//! What is deliberately not here: clocks, sockets, files, threads, randomness, async. The crate does not
//! link the standard library, so the compiler keeps them out. How names are hashed in `pools` differs from
//! process to process, and that cannot be seen from outside of it.

#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "mutations"))]
extern crate std;

#[cfg(feature = "serde")]
mod codec;
mod command;
mod deadlock;
mod decimal;
mod event;
mod explain;
mod fair;
mod handout;
mod limits;
mod machine;
#[doc(hidden)]
pub mod mutation;
mod names;
mod placement;
mod policy;
mod pool;
mod pools;
mod query;
mod queue;
mod record;
mod refusal;
mod reply;
mod scores;
mod search;
mod selector;
mod sets;
mod state;
mod time;
mod view;

pub use command::*;
pub use event::*;
pub use fair::{FairBy, FairShare};
pub use limits::*;
pub use machine::{Machine, Outcome};
pub use names::*;
pub use policy::*;
pub use pool::{Next, Pool, Resource, Taken};
pub use record::{Counters, EndedRequest, HeldPart, Hold, RequestStage, Session, WaitedPart, Waiter};
pub use refusal::*;
pub use reply::*;
pub use selector::{Selector, SelectorError};
pub use state::{Numbering, State};
pub use time::{Stamp, Timestamp, Ttl};
pub use view::*;
