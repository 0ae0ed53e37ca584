//! A server and its clients as a stage.
//!
//! Waiting calls are futures that live here and are polled when an outcome is asked for; dropping one is how its
//! caller hangs up. Nothing sleeps: that a call has arrived is told by the engine, which is observed.

use std::collections::BTreeMap;
use std::pin::Pin;

use tenure_proto::v1::{self, client_request::Request};
use tenure_scenario::{
    Acquire, Action, HoldRef, InSession, Lifetime, Millis, OpenSession, Outcome, Pool, Scenario, Stage,
};

use crate::actor::{Actor, Call, OwnSession, from_calls, now_or_never, outcome, told};
use crate::face::Face;
use crate::host::{Host, PATIENCE, Site};
use crate::wire;

/// A session's key in the right form that nobody was ever given.
const SESSION_OF_NOBODY: &str = "00000000-0000-4000-8000-000000000001";

/// More than enough for an answer that has been given to overtake nothing.
const ROUND_TRIPS: usize = 4;

pub(crate) struct OnServer<F: Face> {
    site: Site,
    /// None while the server is stopped.
    running: Option<(Host, F)>,
    actors: BTreeMap<String, Actor<F>>,
    /// Which waiter a request became: a call that joins it makes no new one.
    waiters: BTreeMap<(String, String), u64>,
}

impl<F: Face> OnServer<F> {
    pub(crate) async fn new(scenario: &Scenario) -> Self {
        let (actors, waiters) = (BTreeMap::new(), BTreeMap::new());
        let mut stage = Self { site: Site::new(scenario), running: None, actors, waiters };
        stage.start().await;
        stage
    }

    async fn start(&mut self) {
        let host = self.site.start().await;
        let face = F::connect(&host.server).await;
        self.running = Some((host, face));
    }

    fn kill(&mut self) {
        if let Some((host, _)) = self.running.take() {
            host.kill();
        }
        for actor in self.actors.values_mut() {
            *actor = Actor { session: actor.session.take(), ..Actor::default() };
        }
    }

    fn host(&self) -> &Host {
        &self.running.as_ref().expect("nothing is asked of a server that is stopped").0
    }

    fn face(&self) -> F {
        self.running.as_ref().expect("nothing is asked of a server that is stopped").1.clone()
    }

    fn actor(&mut self, name: &str) -> &mut Actor<F> {
        self.actors.entry(name.to_owned()).or_default()
    }

    async fn acquire(&mut self, actor: &str, acquire: &Acquire) -> Outcome {
        let own = self.actor(actor).session.clone().map(|session| session.key);
        let session_key = match acquire.session {
            InSession::No => None,
            InSession::Own => Some(own.expect("the actor of a scenario has opened a session")),
            InSession::Wrong => Some(SESSION_OF_NOBODY.to_owned()),
        };
        let in_session = acquire.session == InSession::Own;
        let Actor { stream, late, .. } = self.actor(actor);
        if in_session && let Some(stream) = stream {
            // The stream's own session needs no naming.
            let request = wire::acquire(acquire, None);
            return told(&stream.ask(Request::Acquire(Box::new(request)), late).await);
        }
        let before = self.places(&acquire.pool).await;
        let mut arrived = self.host().engine.commands();
        let (face, request) = (self.face(), wire::acquire(acquire, session_key));
        let mut answer: Pin<Box<dyn Future<Output = _>>> = Box::pin(async move { face.acquire(request).await });
        tokio::select! {
            biased;
            called = &mut answer => return outcome(called, |grant| wire::granted(&grant)),
            () = arrived.grown_by(1) => {}
        }
        self.host().settle().await;
        let mut after = self.places(&acquire.pool).await;
        let request = acquire.request.clone().map(|request| (acquire.pool.namespace.clone(), request));
        let joined = request.as_ref().and_then(|request| self.waiters.get(request)).copied();
        let made = after.keys().find(|waiter| !before.contains_key(waiter)).copied();
        let waiter = made.or(joined).filter(|waiter| after.contains_key(waiter));
        let Some(waiter) = waiter else {
            let called = tokio::time::timeout(PATIENCE, answer).await.expect("the server answers");
            return outcome(called, |grant| wire::granted(&grant));
        };
        // The waiter of a request may be there though this call was refused: an answer gets time to come here.
        for _ in 0..if made.is_none() { ROUND_TRIPS } else { 0 } {
            self.places(&acquire.pool).await;
            if let Some(called) = now_or_never(&mut answer).await {
                return outcome(called, |grant| wire::granted(&grant));
            }
        }
        self.waiters.extend(request.map(|request| (request, waiter)));
        self.actor(actor).calls.push(Call { in_session, answer });
        after.remove(&waiter).expect("it was just found")
    }

    /// Who waits, by number, and what they would be told.
    async fn places(&self, pool: &Pool) -> BTreeMap<u64, Outcome> {
        let (namespace, pool) = (wire::namespace(&pool.namespace), pool.name.clone());
        let request = v1::ListQueueRequest { namespace, pool, ..v1::ListQueueRequest::default() };
        let queue = self.face().list_queue(request).await;
        queue.map(|queue| wire::places(&queue.waiters)).unwrap_or_default()
    }

    async fn open_session(&mut self, actor: &str, open: &OpenSession) -> Outcome {
        let request = v1::OpenSessionRequest {
            namespace: wire::namespace(&open.namespace),
            holder: actor.to_owned(),
            grace_ms: Some(open.grace),
            ..v1::OpenSessionRequest::default()
        };
        let (face, namespace) = (self.face(), open.namespace.clone());
        let stream = if open.polled { None } else { face.stream().await };
        let own = self.actor(actor);
        let opened = match stream {
            Some(stream) => own.carry(stream, Request::Open(Box::new(request))).await,
            None => {
                own.kept_alive = !open.polled;
                outcome(face.open_session(request).await, |opened| wire::session(&opened))
            }
        };
        if let Some(key) = &opened.key {
            own.session = Some(OwnSession { namespace, key: key.clone() });
        }
        opened
    }

    /// The connection before is told that it was taken over, and the server lets it go: waits until it has.
    async fn resume_session(&mut self, actor: &str) -> Outcome {
        let mut hang_ups = self.host().engine.hang_ups();
        let face = self.face();
        let stream = face.stream().await;
        let own = self.actor(actor);
        let OwnSession { namespace, key } = own.session.clone().expect("the actor of a scenario has opened a session");
        let namespace = wire::namespace(&namespace);
        match stream {
            Some(stream) => {
                own.old.extend(own.stream.take());
                let request = v1::ResumeSession {
                    namespace,
                    session_key: key,
                    holder: actor.to_owned(),
                    ..v1::ResumeSession::default()
                };
                let outcome = own.carry(stream, Request::Resume(Box::new(request))).await;
                if own.stream.is_some() {
                    let lost: usize = own.old.drain(..).map(|connection| connection.waiting).sum();
                    hang_ups.grown_by(lost as u64).await;
                }
                outcome
            }
            None => {
                own.kept_alive = true;
                let kept = face.keep_alive(v1::KeepAliveRequest { namespace, session_key: key }).await;
                outcome(kept, |opened| wire::session(&opened))
            }
        }
    }

    async fn keep_alive(&mut self, actor: &str) -> Outcome {
        let session = self.actor(actor).session.clone().expect("the actor of a scenario has opened a session");
        let (namespace, session_key) = (wire::namespace(&session.namespace), session.key);
        let kept = self.face().keep_alive(v1::KeepAliveRequest { namespace, session_key }).await;
        outcome(kept, |opened| wire::session(&opened))
    }

    async fn end_session(&mut self, actor: &str) -> Outcome {
        let face = self.face();
        let own = self.actor(actor);
        own.kept_alive = false;
        if let Some(mut stream) = own.stream.take() {
            return told(&stream.ask(Request::End(v1::EndSession {}), &mut own.late).await);
        }
        let session = own.session.clone().expect("the actor of a scenario has opened a session");
        let (namespace, session_key) = (wire::namespace(&session.namespace), session.key);
        let ended = face.end_session(v1::EndSessionRequest { namespace, session_key }).await;
        outcome(ended, |v1::SessionEnded {}| Outcome::new("done"))
    }

    /// Waits until the server has heard of what is lost, but not for what it makes of it.
    async fn drop_session(&mut self, actor: &str) {
        let (mut commands, mut hang_ups) = (self.host().engine.commands(), self.host().engine.hang_ups());
        let own = self.actor(actor);
        own.kept_alive = false;
        let before = own.calls.len();
        own.calls.retain(|call| !call.in_session);
        let (detached, lost) = (own.stream.take().is_some(), before - own.calls.len());
        commands.grown_by(u64::from(detached)).await;
        hang_ups.grown_by(lost as u64).await;
    }

    /// The server has let it go when the session was resumed.
    fn drop_old(&mut self, actor: &str) {
        self.actor(actor).old.clear();
    }

    async fn hang_up(&mut self, actor: &str) {
        let mut hang_ups = self.host().engine.hang_ups();
        let gone = std::mem::take(&mut self.actor(actor).calls).len();
        hang_ups.grown_by(gone as u64).await;
    }

    /// Through the stream if there is one, as a client would.
    async fn renew(&mut self, actor: &str, hold: &HoldRef, ttl_ms: Option<Millis>, key: Option<&str>) -> Outcome {
        let (namespace, pool, key) = named(hold, key);
        let request = v1::RenewRequest { namespace, key, pool, ttl_ms };
        let face = self.face();
        match self.actor(actor) {
            Actor { stream: Some(stream), late, .. } => {
                told(&stream.ask(Request::Renew(Box::new(request)), late).await)
            }
            _ => outcome(face.renew(request).await, |renewed| wire::renewed(&renewed)),
        }
    }

    async fn release(&mut self, actor: &str, hold: &HoldRef, key: Option<&str>) -> Outcome {
        let (namespace, pool, key) = named(hold, key);
        let request = v1::ReleaseRequest { namespace, key, pool };
        let face = self.face();
        match self.actor(actor) {
            Actor { stream: Some(stream), late, .. } => {
                told(&stream.ask(Request::Release(Box::new(request)), late).await)
            }
            _ => outcome(face.release(request).await, |released| wire::released(&released)),
        }
    }

    async fn withdraw(&mut self, actor: &str, namespace: &str, request: &str) -> Outcome {
        let request = v1::WithdrawRequest { namespace: wire::namespace(namespace), request_id: request.to_owned() };
        let face = self.face();
        match self.actor(actor) {
            Actor { stream: Some(stream), late, .. } => {
                told(&stream.ask(Request::Withdraw(Box::new(request)), late).await)
            }
            _ => outcome(face.withdraw(request).await, |v1::Withdrawn {}| Outcome::new("withdrawn")),
        }
    }

    /// What an operator does or asks: a call like any other.
    async fn operate(&self, action: &Action) -> Outcome {
        let face = self.face();
        match action {
            Action::ForceRelease(force) => {
                let request = v1::ForceReleaseRequest {
                    namespace: wire::namespace(&force.pool.namespace),
                    pool: force.pool.name.clone(),
                    holder: force.holder.clone(),
                    token: force.token,
                    reason: force.reason.clone(),
                };
                outcome(face.force_release(request).await, |released| wire::released(&released))
            }
            Action::OwnerGone { namespace, owner } => {
                let request = v1::OwnerGoneRequest { namespace: wire::namespace(namespace), owner: owner.clone() };
                outcome(face.owner_gone(request).await, |gone| Outcome::new("done").with("holds", gone.holds))
            }
            Action::SetPool(set) => outcome(face.set_pool(wire::set_pool(set)).await, |set| {
                Outcome::new("done").with("created", set.created)
            }),
            Action::SetCondition(set) => {
                let request = v1::SetConditionRequest {
                    namespace: wire::namespace(&set.pool.namespace),
                    pool: set.pool.name.clone(),
                    resource: set.resource.clone(),
                    condition: Some(wire::condition(&set.condition)),
                    lasts_ms: set.lasts,
                    state_was: set.state_was.map_or(0, |state| wire::state(state).into()),
                };
                outcome(face.set_condition(request).await, |_| Outcome::new("done"))
            }
            Action::RemovePool(pool) => {
                let (namespace, pool) = (wire::namespace(&pool.namespace), pool.name.clone());
                outcome(face.remove_pool(v1::RemovePoolRequest { namespace, pool }).await, |removed| {
                    Outcome::new("done").with("holds-left", removed.holds_left)
                })
            }
            Action::Show { pool, resource } => {
                let (namespace, pool) = (wire::namespace(&pool.namespace), pool.name.clone());
                outcome(face.get_pool(v1::GetPoolRequest { namespace, pool }).await, |detail| match resource {
                    Some(name) => wire::shown_resource(&detail, name),
                    None => wire::shown(&detail),
                })
            }
            Action::Queue(pool) => {
                let (namespace, pool) = (wire::namespace(&pool.namespace), pool.name.clone());
                let request = v1::ListQueueRequest { namespace, pool, ..v1::ListQueueRequest::default() };
                outcome(face.list_queue(request).await, |queue| wire::queue(&queue.waiters))
            }
            Action::Holds { namespace, pool, holder } => {
                let namespace = wire::namespace(namespace);
                let (pool, holder) = (pool.clone(), holder.clone());
                let request = v1::ListHoldsRequest { namespace, pool, holder, ..v1::ListHoldsRequest::default() };
                outcome(face.list_holds(request).await, |holds| wire::holds(&holds.holds))
            }
            Action::List { namespace, prefix } => {
                let (namespace, prefix) = (wire::namespace(namespace), prefix.clone());
                let request = v1::ListPoolsRequest { namespace, prefix, ..v1::ListPoolsRequest::default() };
                outcome(face.list_pools(request).await, |pools| wire::pools(&pools.pools))
            }
            Action::Sessions { namespace } => {
                let namespace = wire::namespace(namespace);
                let request = v1::ListSessionsRequest { namespace, ..v1::ListSessionsRequest::default() };
                outcome(face.list_sessions(request).await, |sessions| wire::sessions(&sessions.sessions))
            }
            Action::Steal(steal) => {
                let mut request = v1::StealRequest {
                    namespace: wire::namespace(&steal.pool.namespace),
                    pool: steal.pool.name.clone(),
                    holder: steal.holder.clone(),
                    token: steal.token,
                    to: steal.to.clone(),
                    request_id: steal.request.clone(),
                    reason: steal.reason.clone(),
                    ..v1::StealRequest::default()
                };
                match &steal.lifetime {
                    Some(Lifetime::Leased(ttl)) => request.ttl_ms = Some(*ttl),
                    Some(_) => request.set_lifetime(v1::Lifetime::Kept),
                    None => {}
                }
                outcome(face.steal(request).await, |grant| wire::granted(&grant))
            }
            Action::MoveWaiter(to) => {
                let request = v1::MoveWaiterRequest {
                    namespace: wire::namespace(&to.pool.namespace),
                    pool: to.pool.name.clone(),
                    waiter: to.waiter,
                    holder: to.holder.clone(),
                    before: to.before,
                    reason: to.reason.clone(),
                };
                outcome(face.move_waiter(request).await, |_| Outcome::new("done"))
            }
            Action::Reserve(reserve) => {
                let request = v1::ReserveRequest {
                    namespace: wire::namespace(&reserve.pool.namespace),
                    pool: reserve.pool.name.clone(),
                    resource: reserve.resource.clone(),
                    holder: reserve.holder.clone(),
                    lasts_ms: reserve.lasts,
                    instead_of: reserve.instead_of.clone(),
                    reason: reserve.reason.clone(),
                };
                outcome(face.reserve(request).await, |_| Outcome::new("done"))
            }
            Action::Unreserve(unreserve) => {
                let request = v1::UnreserveRequest {
                    namespace: wire::namespace(&unreserve.pool.namespace),
                    pool: unreserve.pool.name.clone(),
                    resource: unreserve.resource.clone(),
                    holder: unreserve.holder.clone(),
                    reason: unreserve.reason.clone(),
                };
                outcome(face.unreserve(request).await, |_| Outcome::new("done"))
            }
            Action::Explain { pool, request, waiter } => {
                let (namespace, pool) = (wire::namespace(&pool.namespace), pool.name.clone());
                let (waiter, request_id) = (*waiter, request.clone());
                let request = v1::ExplainRequest { namespace, pool, waiter, request_id, limit: None };
                outcome(face.explain(request).await, |explained| wire::explained(&explained))
            }
            Action::History { namespace, pool, holder } => {
                let namespace = wire::namespace(namespace);
                let (pool, holder) = (pool.clone(), holder.clone());
                let mut request = v1::HistoryRequest { namespace, pool, holder, ..v1::HistoryRequest::default() };
                let mut events = Vec::new();
                loop {
                    let page = match face.history(request.clone()).await {
                        Ok(page) => page,
                        Err(refusal) => return wire::refused(&refusal),
                    };
                    events.extend(page.events);
                    request.after = page.next;
                    if page.done {
                        return wire::history(&events);
                    }
                }
            }
            _ => Outcome::new("done"),
        }
    }
}

fn named(hold: &HoldRef, key: Option<&str>) -> (String, Option<String>, String) {
    let key = key.expect("the runner finds the key of a hold").to_owned();
    (wire::namespace(&hold.pool.namespace), Some(hold.pool.name.clone()), key)
}

impl<F: Face> Stage for OnServer<F> {
    async fn advance(&mut self, to: Millis) {
        self.site.set_clock(to);
        if self.running.is_none() {
            return;
        }
        let kept: Vec<_> = self.actors.iter().filter(|(_, it)| it.kept_alive).map(|(name, _)| name.clone()).collect();
        for actor in kept {
            self.keep_alive(&actor).await;
        }
        self.host().settle().await;
    }

    async fn act(&mut self, actor: &str, action: &Action, key: Option<&str>) -> Outcome {
        let mut done = Outcome::new("done");
        match action {
            Action::Stop => {
                self.kill();
                return done;
            }
            Action::Start => self.start().await,
            Action::Restart => {
                self.kill();
                self.start().await;
            }
            Action::Acquire(acquire) => done = self.acquire(actor, acquire).await,
            Action::Renew { hold, ttl } => done = self.renew(actor, hold, *ttl, key).await,
            Action::Release { hold } => done = self.release(actor, hold, key).await,
            Action::Withdraw { namespace, request } => done = self.withdraw(actor, namespace, request).await,
            Action::OpenSession(open) => done = self.open_session(actor, open).await,
            Action::KeepAlive => done = self.keep_alive(actor).await,
            Action::ResumeSession => done = self.resume_session(actor).await,
            Action::EndSession => done = self.end_session(actor).await,
            Action::DropSession => self.drop_session(actor).await,
            Action::DropOldConnection => self.drop_old(actor),
            Action::HangUp => self.hang_up(actor).await,
            Action::StopListening => panic!("through a socket this cannot be played"),
            _ => done = self.operate(action).await,
        }
        self.host().settle().await;
        done
    }

    async fn late(&mut self, actor: &str) -> Option<Outcome> {
        let own = self.actor(actor);
        if let Some(outcome) = own.late.pop_front() {
            return Some(outcome);
        }
        if !own.waits() {
            return None;
        }
        tokio::time::timeout(PATIENCE, own.hear()).await.ok()
    }

    /// What the engine has said by now is in the server's hands; a round trip over the same way gives it time to
    /// come here. What would still be missed is found by the next look.
    async fn left_over(&mut self) -> Vec<(String, Outcome)> {
        let mut left = Vec::new();
        if self.running.is_some() && self.actors.values().any(|actor| !actor.calls.is_empty()) {
            let _ = self.face().list_pools(v1::ListPoolsRequest::default()).await;
        }
        for (name, actor) in &mut self.actors {
            if let Actor { stream: Some(stream), late, .. } = actor
                && stream.waiting > 0
            {
                stream.ask(Request::Ping(v1::Ping {}), late).await;
            }
            left.extend(actor.late.drain(..).map(|outcome| (name.clone(), outcome)));
            while let Some(outcome) = now_or_never(&mut std::pin::pin!(from_calls(&mut actor.calls))).await {
                left.push((name.clone(), outcome));
            }
        }
        left
    }
}
