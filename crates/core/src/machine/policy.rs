//! Pools that carry code of the user's own: it is tried when they are set, asked when something is granted, and recorded when
//! it fails.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::Step;
use crate::command::{Acquire, Lifetime, PoolSpec};
use crate::event::Event;
use crate::limits::{OPERATIONS_PER_WORK, SCRIPT_FAULTS_MAX};
use crate::mutation::Mistake;
use crate::names::{PoolPath, SessionId};
use crate::placement;
use crate::policy::{Fault, Scripts};
use crate::pool::Taken;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::scores::{Compiled, Decision, Faults, Newcomer};
use crate::view::Place;

impl Step<'_> {
    /// Compiles the scripts and tries them.
    pub(super) fn check_scripts(&self, path: &PoolPath, spec: &PoolSpec) -> Result<Compiled, Refusal> {
        let compiled = self.machine.compiler.compile(&spec.scripts);
        let checked = Scripts::check(spec).and_then(|()| compiled.probe(spec));
        match checked {
            Ok(()) => Ok(compiled),
            Err((which, Fault { at, why })) => Err(Refusal::BadScript { pool: path.clone(), which, at, why }),
        }
    }

    /// Serves the next of a pool with scripts, if there is one and there is work left to do.
    pub(super) fn serve_by_scripts(&mut self, path: &PoolPath) -> ControlFlow<()> {
        if self.state().pools[path].queue.is_empty() {
            return ControlFlow::Break(());
        }
        // Before they are asked: that may be most of the work.
        if self.worked_enough() {
            self.stop_in(path);
            return ControlFlow::Break(());
        }
        let Some((place, taken, faults)) = self.next_by_scripts(path, None) else { return ControlFlow::Break(()) };
        self.record_faults(path, faults);
        let id = place.arrival();
        let grant = self.grant_to_waiter(id, taken);
        self.settled.push((id, Reply::Granted(grant)));
        ControlFlow::Continue(())
    }

    /// An acquire in a pool with scripts, of which nothing is wrong.
    pub(super) fn acquire_by_scripts(
        &mut self,
        acquire: Acquire,
        lifetime: Lifetime,
        session: Option<SessionId>,
        place: Place,
    ) -> Result<Reply, Refusal> {
        let newcomer = Newcomer { place, demand: &acquire.demand, holder: &acquire.holder };
        match self.next_by_scripts(&acquire.pool, Some(newcomer)) {
            Some((first, taken, faults)) => {
                assert_eq!(first, place, "a waiter that fits is served before anybody else is heard");
                self.record_faults(&acquire.pool, faults);
                Ok(self.grant_to_newcomer(acquire, lifetime, session, place, taken, None))
            }
            None => self.queue_or_refuse(acquire, lifetime, session, place),
        }
    }

    /// The next to be served, what it gets, and what failed.
    fn next_by_scripts(&mut self, path: &PoolPath, newcomer: Option<Newcomer<'_>>) -> Option<(Place, Taken, Faults)> {
        let machine = &mut *self.machine;
        let pool = &machine.state.pools[path];
        let handout = machine.handouts.entry(path.clone()).or_default();
        let compiled = machine.compiler.of(path, pool).filter(|_| handout.asks());
        let Some(compiled) = compiled else {
            let candidate = newcomer.map(Newcomer::candidate);
            return placement::next(pool, candidate, self.stamp.nonce).map(|(place, taken)| (place, taken, Vec::new()));
        };
        let mut decision =
            Decision::new(&machine.state, path, pool, self.stamp.at, self.stamp.nonce, &compiled, handout);
        let next = decision.next(newcomer);
        let (faults, operations) = decision.close();
        // What takes long is worked off in pieces, too.
        self.work += usize::try_from(operations / OPERATIONS_PER_WORK).unwrap_or(usize::MAX);
        self.asked += operations;
        next.map(|(place, taken)| (place, taken, faults))
    }

    fn record_faults(&mut self, path: &PoolPath, faults: Faults) {
        for (which, fault) in faults {
            let before = self.state().pools[path].script_faults();
            // The last one says so; a second one of the same decision has nothing to add.
            if before >= SCRIPT_FAULTS_MAX || Mistake::KeepsFaultsQuiet.is_made() {
                return;
            }
            let set_aside = before + 1 >= SCRIPT_FAULTS_MAX;
            self.emit(Event::PolicyFailed { pool: path.clone(), which, why: fault.note(), set_aside });
        }
    }
}
