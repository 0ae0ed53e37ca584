//! The store on disk: what was committed is what comes back, or there is an error that says why not.

#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod damage;
mod fixture;
mod fuzzing;
mod history;
mod recovery;
mod segments;
mod world;
