//! Tenure beside a real Temporal: workflows in Python that have nothing of ours, at the real binary.

#![cfg(feature = "temporal")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activities;
mod clients;
mod faces;
mod owners;
mod restarts;
mod serve;
mod stage;
mod stories;
#[path = "../support/mod.rs"]
mod support;
