//! A machine and the few commands that benchmarks need.

use std::sync::Arc;

use tenure_core::*;

pub(crate) struct Load {
    machine: Machine,
    holder: Arc<Holder>,
    nonce: u128,
}

impl Default for Load {
    fn default() -> Self {
        let limits = Limits::default();
        let holder = Holder::parse("worker-17@host-3", [("pid", "4711")]).expect("a holder");
        Self { machine: Machine::new(limits), holder: Arc::new(holder), nonce: 0 }
    }
}

impl Load {
    /// The key, if it was granted at once.
    pub(crate) fn acquire(&mut self, pool: &str, size: u32, wait: Wait) -> Option<Key> {
        let acquire = Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).expect("a name")),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: Some(size),
            lifetime: None,
            wait,
            priority: Priority::default(),
            // As from the wire: every request brings its own.
            holder: Arc::new(Holder::clone(&self.holder)),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        };
        match self.apply(Command::Acquire(acquire)).reply {
            Reply::Granted(grant) => Some(grant.key),
            _ => None,
        }
    }

    /// The key of the waiter that is served, if any.
    #[allow(dead_code, reason = "each benchmark uses its own part of this")]
    pub(crate) fn release(&mut self, key: Key) -> Option<Key> {
        let namespace = Namespace::default();
        let outcome = self.apply(Command::Release(Release { namespace, key, pool: None }));
        match outcome.settled.into_iter().next() {
            Some((_, Reply::Granted(grant))) => Some(grant.key),
            _ => None,
        }
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.nonce += 1;
        self.machine.apply(Stamp { at: Timestamp::from_millis(1), nonce: self.nonce }, command)
    }
}
