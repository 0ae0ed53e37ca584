//! Looking at what there is and at what happens. Nothing here changes anything.
//!
//! With `--json` the messages of the API are printed as REST has them; the pages of a listing are put together.

mod events;
mod explain;
mod line;
mod lists;
mod pools;
mod say;

pub(crate) use events::{Following, HistoryArgs, WatchArgs, history, watch};
pub(crate) use explain::{ExplainArgs, explain};
pub(crate) use lists::{
    HoldsArgs, QueueArgs, SessionsArgs, hold_rows, holds, queue, sessions, some_holds, some_waiters, waiter_rows,
};
pub(crate) use pools::{LsArgs, ShowArgs, all_pools, ls, pool_rows, show, spec};
pub(crate) use say::{condition, count, exact, moment, now_ms, taken};

/// The most that a page may have: few calls for long listings.
const PAGE: u32 = 1000;
