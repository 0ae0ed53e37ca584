//! Between the wire's messages and the rules' types: the only place that knows both.
//!
//! Requests are parsed here, once, and trusted afterwards; what cannot be used names its field.

mod answer;
mod event;
mod operator;
mod pool;
mod request;
mod search;

pub(crate) use answer::*;
pub(crate) use event::event;
pub(crate) use operator::*;
pub(crate) use pool::{condition, pool_detail, remove_pool, set_condition, set_pool, summary};
pub(crate) use request::*;
pub(crate) use search::*;
