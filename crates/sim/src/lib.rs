//! The adversary: the real rules and the real driver of the embedded engine under a virtual clock, disk and network, from one
//! seed, beside a reference model and under the eyes of invariants. docs/reliability.md tells what it does.

mod client;
mod counts;
pub mod disk;
pub mod invariants;
pub mod model;
pub mod plan;
mod random;
mod sabotage;
mod scripts;
mod selectors;
mod shrink;
mod world;

pub use counts::Counts;
pub use plan::{Left, Plan};
pub use sabotage::Sabotage;
pub use shrink::shrink;
pub use world::{Ended, Options, Violation, run};
