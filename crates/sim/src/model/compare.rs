//! Whether the engine's state and answers are those of the model.

use tenure_core::*;
use tenure_engine::Failure;

use super::Model;

/// Apart from the texts, which explain and do not decide.
pub fn same_answer(expected: &Result<Reply, Failure>, found: &Result<Reply, Failure>) -> bool {
    match (expected, found) {
        (Ok(Reply::Refused(expected)), Ok(Reply::Refused(found))) => match (&**expected, &**found) {
            (Refusal::WrongKind { pool: expected, .. }, Refusal::WrongKind { pool: found, .. }) => expected == found,
            (Refusal::NotRenewable { token: expected, .. }, Refusal::NotRenewable { token: found, .. }) => {
                expected == found
            }
            (
                Refusal::BadScript { pool: expected, which: one, .. },
                Refusal::BadScript { pool: found, which: other, .. },
            ) => (expected, one) == (found, other),
            // Looked at by itself.
            (Refusal::Deadlock { .. }, Refusal::Deadlock { .. }) => true,
            (Refusal::Changed { pool: expected, .. }, Refusal::Changed { pool: found, .. }) => expected == found,
            (expected, found) => expected == found,
        },
        (expected, found) => expected == found,
    }
}

impl Model {
    pub fn compare(&self, state: &State) -> Result<(), String> {
        self.compare_holds(state)?;
        self.compare_waiters(state)?;
        self.compare_sessions(state)?;
        self.compare_pools(state)?;
        let counters = state.counters();
        let found = (counters.token_next, counters.waiter_next, counters.session_next);
        same("the numbers to be given next", &(self.token_next, self.waiter_next, self.session_next), &found)
    }

    fn compare_holds(&self, state: &State) -> Result<(), String> {
        let mut expected: Vec<_> = self.holds.iter().map(|hold| hold.token).collect();
        expected.sort();
        same("the holds", &expected, &state.holds().collect())?;
        for expected in &self.holds {
            let hold = state.hold(expected.token).expect("it was just listed");
            let what = format!("hold {}", expected.token.0);
            same(&what, &(&expected.pool, expected.key, &expected.holder), &(&hold.pool, hold.key, &hold.holder))?;
            let taken = (expected.units, &expected.resources[..], expected.all);
            same(&what, &taken, &(hold.taken.units, &hold.taken.resources[..], hold.taken.all))?;
            same(&what, &expected.dirty, &hold.taken.dirty)?;
            let lasts = (&expected.lifetime, expected.since, expected.deadline);
            same(&what, &lasts, &(&hold.lifetime, hold.since, hold.deadline))?;
            same(&what, &(expected.session, &expected.request), &(hold.session, &hold.request))?;
            same(&what, &&expected.also[..], &&hold.also[..])?;
        }
        Ok(())
    }

    fn compare_waiters(&self, state: &State) -> Result<(), String> {
        let mut expected: Vec<_> = self.waiters.iter().map(|waiter| waiter.id).collect();
        expected.sort();
        same("the waiters", &expected, &state.waiters().collect())?;
        for expected in &self.waiters {
            let (waiter, present) = state.waiter(expected.id).expect("it was just listed");
            let what = format!("waiter {}", expected.id.0);
            same(&what, &(&expected.pool, &expected.demand), &(&waiter.pool, &waiter.demand))?;
            same(&what, &(expected.priority, expected.deadline), &(waiter.priority, waiter.deadline))?;
            same(&what, &(expected.session, &expected.request), &(waiter.session, &waiter.request))?;
            same(&what, &(expected.key, !expected.away), &(waiter.key, present))?;
            same(&what, &expected.turn, &waiter.place(expected.id).rank().turn)?;
            same(&what, &(&expected.also[..], expected.holds_on), &(&waiter.also[..], waiter.holds_on))?;
        }
        Ok(())
    }

    fn compare_sessions(&self, state: &State) -> Result<(), String> {
        let mut expected: Vec<_> = self.sessions.iter().map(|session| session.id).collect();
        expected.sort();
        same("the sessions", &expected, &state.sessions().map(|(id, _)| id).collect())?;
        for expected in &self.sessions {
            let session = state.session(expected.id).expect("it was just listed");
            let what = format!("session {}", expected.id.0);
            let carried = (expected.attached, expected.away, expected.attachments);
            same(&what, &carried, &(session.attached, session.away, session.attachments))?;
            same(&what, &(expected.key, expected.deadline), &(session.key, session.deadline))?;
        }
        Ok(())
    }

    fn compare_pools(&self, state: &State) -> Result<(), String> {
        let mut expected: Vec<_> = self.pools.iter().map(|pool| pool.path.clone()).collect();
        expected.sort();
        same("the pools", &expected, &state.pools().cloned().collect())?;
        for expected in &self.pools {
            let pool = state.pool(&expected.path).expect("it was just listed");
            let what = format!("pool {:?}", expected.path);
            same(&what, &expected.spec(), &pool.spec())?;
            same(&what, &(&expected.condition, expected.removing), &(pool.condition(), pool.is_removing()))?;
            same(&what, &(expected.idle_since, expected.until), &(pool.idle_since(), pool.until()))?;
            same(&format!("the faults of {what}"), &expected.faults, &pool.script_faults())?;
            let mut served = expected.served.clone();
            served.sort();
            same(&what, &served, &pool.turns_served().collect())?;
            let query = Query::Queue { pool: expected.path.clone(), after: None, limit: PAGE_MAX };
            let Ok(View::Queue(page)) = state.query(&query) else { return Err(format!("{what} has no queue")) };
            let queue: Vec<_> = self.queue(&expected.path).iter().take(PAGE_MAX).map(|waiter| waiter.id).collect();
            same(&format!("the queue of {what}"), &queue, &page.items.iter().map(|waiter| waiter.id).collect())?;
            let mut resources: Vec<_> = expected
                .resources
                .iter()
                .map(|it| {
                    let life = (it.until, it.dirty, it.reserved.clone());
                    (it.spec.name.clone(), it.condition.clone(), it.leaving, life)
                })
                .collect();
            resources.sort_by(|one, other| one.0.cmp(&other.0));
            let found = pool.resources().map(|(name, it)| {
                let life = (it.until, it.dirty, it.reserved.as_deref().cloned());
                (name.clone(), it.condition.clone(), it.leaving, life)
            });
            same(&what, &resources, &found.collect())?;
        }
        Ok(())
    }
}

impl super::Pool {
    fn spec(&self) -> PoolSpec {
        let listed = self.resources.iter().filter(|resource| !resource.leaving).map(|resource| resource.spec.clone());
        let capacity = match self.units {
            Some(units) => Capacity::Units(units),
            None => Capacity::Resources { placement: self.placement.clone(), resources: listed.collect() },
        };
        PoolSpec {
            capacity,
            order: self.order,
            window: self.window,
            declared: self.declared,
            cleaning: self.cleaning,
            fair: self.fair.clone(),
            scripts: self.scripts.clone(),
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}
