//! What `cargo xtask load` does, as a library, so that the tests run the same with fewer; and how the load generator makes calls.

pub mod calls;
pub mod crowd;
