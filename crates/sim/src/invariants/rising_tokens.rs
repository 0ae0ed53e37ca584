//! Tokens strictly rise over the life of the data, restarts included.

use tenure_core::{Event, Reply, Timestamp, Token};

use super::{Answer, Invariant, Ledger, Looked};

#[derive(Debug)]
pub(super) struct RisingTokens {
    last: Token,
}

impl Default for RisingTokens {
    fn default() -> Self {
        Self { last: Token(0) }
    }
}

impl Invariant for RisingTokens {
    fn name(&self) -> &'static str {
        "rising tokens"
    }

    fn event(&mut self, _before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, .. } = event else { return Ok(false) };
        if *token <= self.last {
            return Err(format!("token {} was granted after {}", token.0, self.last.0));
        }
        self.last = *token;
        Ok(true)
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Looked {
        match answer.reply {
            Reply::Granted(grant) if grant.token > self.last => {
                Err(format!("token {} was told before it was durable", grant.token.0))
            }
            Reply::Granted(_) => Ok(true),
            _ => Ok(false),
        }
    }
}
