//! A keeper whose own workflow asks too: a face, on behalf of the workflows that signal it. They stand in the same queue as
//! the callers of servers, and differ only in how they are told.

use tenure_core::{Capacity, Change, Command, Key, Refusal, Reply, State, Timestamp, WaiterId};
use tenure_engine::Audience;

use super::wire::ServerId;
use super::{Keeper, Remote, Settings, growth, lock};

impl Keeper {
    /// Goes on from a state in which these wait, by the house's numbers for them.
    pub(crate) fn of_house(settings: Settings, state: State, waiting: impl Iterator<Item = (u64, WaiterId)>) -> Self {
        let listeners = waiting.map(|(ticket, waiter)| (waiter, vec![of_house(ticket)])).collect();
        Self::with_state(settings, state, Audience { listeners, carriers: Vec::new(), told: Vec::new() })
    }

    pub(crate) fn state(&self) -> &State {
        self.desk.state()
    }

    /// Does what the house asks for. The answer is among what it [hears](Self::heard), and so is what comes of a wait.
    pub(crate) fn ask(&mut self, clock: Timestamp, nonce: u128, ticket: u64, command: Command) {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&nonce.to_le_bytes());
        lock(&self.nonces).mix(&seed);
        self.commands += 1;
        self.may_have_shrunk = true;
        self.unmeasured_bytes += growth(&command);
        self.open(self.time(clock));
        self.desk.command(command, of_house(ticket));
        self.finish();
    }

    /// The house does not want to hear of this any more.
    pub(crate) fn hang_up(&mut self, clock: Timestamp, ticket: u64) {
        self.open(self.time(clock));
        self.desk.hang_up((ServerId::HOUSE, ticket), None);
        self.finish();
    }

    /// What the house is told, in the order in which it happened.
    pub(crate) fn heard(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.house)
    }

    /// What a face cannot do: its pool is there as long as its workflow, and has named resources.
    pub(super) fn refused_by_face(&self, command: &Command) -> Option<Refusal> {
        self.settings.face?;
        let (pool, why) = match command {
            Command::SetPool(set) | Command::ChangeSeen { change: Change::Pool(set), .. } => match set.spec.capacity {
                Capacity::Resources { .. } if set.spec.window.is_none() => return None,
                _ => (&set.pool, "belongs to a workflow of Temporal, and has named resources"),
            },
            Command::RemovePool { pool } => (pool, "belongs to a workflow of Temporal, and goes when that ends"),
            _ => return None,
        };
        Some(Refusal::WrongKind { pool: pool.clone(), why: why.into() })
    }

    /// At a face, a session that is opened under a key that it was given may be known already, from another server: then it is only
    /// taken over, or kept.
    pub(super) fn once(&self, command: Command, nonce: Option<u128>) -> Command {
        let (Command::OpenSession(open), Some(nonce)) = (&command, nonce) else { return command };
        let (namespace, session) = (open.namespace.clone(), Key::from_nonce(nonce));
        if self.settings.face.is_none()
            || !self.desk.state().sessions().any(|(_, known)| known.key == session && !known.closing)
        {
            return command;
        }
        match open.attached {
            true => Command::AttachSession { namespace, session },
            false => Command::KeepAlive { namespace, session },
        }
    }
}

fn of_house(ticket: u64) -> Remote {
    Remote { server: ServerId::HOUSE, ticket, returns: false }
}
