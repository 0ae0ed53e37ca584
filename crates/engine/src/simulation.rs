//! What a simulator needs to run the embedded engine without its threads, its clock and its disk: the parts that are
//! the same in both. Not part of the interface.

pub use crate::clock::{origin, sleep};
pub use crate::driver::{Delivery, Driver, Local, Mail, Prepared};
pub use crate::embedded::{BATCH_MILLIS_MAX, Committer};
pub use crate::store::simulation::*;
