//! What `cargo xtask load` does, as a library, so that the tests run the same with fewer.

pub mod crowd;
