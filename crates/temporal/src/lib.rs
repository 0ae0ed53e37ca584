//! Temporal: pools that live in keeper workflows, the workflows of others that Tenure stands in for, and workflows as
//! callers. The only crate that knows Temporal's SDK, which takes minutes to build.

mod faces;
