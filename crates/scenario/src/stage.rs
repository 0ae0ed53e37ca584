//! What a face must be able to do so that scenarios can be played on it.

use crate::action::Action;
use crate::outcome::Outcome;
use crate::text::Millis;

/// A server, or what stands for one, with a clock that only the scenario moves, and everybody who talks to it.
///
/// When a method returns, whatever it set off has happened: its effects show in the next call.
#[allow(async_fn_in_trait)] // Stages are used one at a time, on one thread.
pub trait Stage {
    /// Sets the clock, and has everything happen that is due by then.
    async fn advance(&mut self, to: Millis);

    /// Does one thing and gives its immediate outcome. `key` is the secret of the hold that the action names.
    async fn act(&mut self, actor: &str, action: &Action, key: Option<&str>) -> Outcome;

    /// The next outcome of a waiting acquire of this actor. A face that talks through sockets waits for it as
    /// long as is reasonable; none if it does not come.
    async fn late(&mut self, actor: &str) -> Option<Outcome>;

    /// Every late outcome that has come and was not taken by [`Stage::late`], with its actor.
    async fn left_over(&mut self) -> Vec<(String, Outcome)>;
}
