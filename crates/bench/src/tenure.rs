//! Tenure itself: a call each, or pipelined over the session stream, or with the Rust client.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use futures_util::StreamExt;
use prost::Message;
use tenure_bench::calls;
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{
    AcquireRequest, ClientRequest, EndSession, GetPoolRequest, Grant, OpenSessionRequest, PoolSpec, ReleaseRequest,
    Released, Resource, ServerMessage, SetPoolRequest, client_request::Request, server_answer::Answer,
};
use tonic::transport::{Channel, Endpoint};

use crate::load::{Connection, Outcome, What};
use crate::plan::{LONG_LEASE_MILLIS, WINDOW_MILLIS, WINDOW_PLACES};

const SESSION: &str = "/tenure.v1.Tenure/Session";
const REQUESTS_PER_MESSAGE_MAX: usize = 1_024;

/// A call for each acquire and each release.
#[derive(Clone, Debug)]
pub(crate) struct Unary(calls::Channel);

/// The Rust client: guards, renewals, reconnects and all.
#[derive(Clone, Debug)]
pub(crate) struct Client(tenure_client::Client);

/// Many tasks over one stream. Each has a clone, and asks one thing at a time.
#[derive(Debug)]
pub(crate) struct Stream {
    talk: calls::Talk,
    desk: Arc<Mutex<Desk>>,
    /// Under which it asks: its place at the desk.
    id: u64,
}

/// Where answers are left for those who asked.
#[derive(Debug, Default)]
struct Desk {
    places: Vec<Place>,
    free: Vec<u64>,
    /// Nobody else will be answered.
    over: bool,
}

#[derive(Debug, Default)]
struct Place {
    answer: Option<Heard>,
    waiting: Option<Waker>,
}

/// What whoever asked wants to know of an answer: answers are large, and there are many.
#[derive(Debug)]
enum Heard {
    /// The hold's key.
    Granted(String),
    Refused(String),
    Other,
}

impl Heard {
    /// None if it is not the end of it.
    fn of(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Queued(_) => None,
            Answer::Granted(grant) => Some(Self::Granted(grant.key)),
            Answer::Refused(refusal) => Some(Self::Refused(refusal.message)),
            _ => Some(Self::Other),
        }
    }
}

impl Connection for Unary {
    /// The hold's key, if it can be given back.
    type Taken = Option<String>;

    async fn open(address: &str) -> Outcome<Self> {
        calls::Channel::open(address).await.map(Self)
    }

    async fn take(&mut self, what: &What) -> Outcome<Self::Taken> {
        let request = AcquireRequest { holder: "bench".into(), ..acquire(what) };
        let grant: Grant = self.0.call("/tenure.v1.Tenure/Acquire", &request).await?;
        Ok(can_be_given_back(what).then_some(grant.key))
    }

    async fn give_back(&mut self, taken: Self::Taken) -> Outcome<()> {
        if let Some(key) = taken {
            let request = ReleaseRequest { key, ..Default::default() };
            let Released { .. } = self.0.call("/tenure.v1.Tenure/Release", &request).await?;
        }
        Ok(())
    }
}

impl Connection for Client {
    type Taken = tenure_client::Guard;

    async fn open(address: &str) -> Outcome<Self> {
        Ok(Self(tenure_client::Client::connect(address).await?))
    }

    async fn take(&mut self, what: &What) -> Outcome<Self::Taken> {
        let (What::Own(name) | What::Shared { name, .. }) = what else { return Err("only names are locked".into()) };
        Ok(self.0.lock(name).await?)
    }

    async fn give_back(&mut self, taken: Self::Taken) -> Outcome<()> {
        Ok(taken.release().await?)
    }
}

impl Connection for Stream {
    type Taken = Option<String>;

    async fn open(address: &str) -> Outcome<Self> {
        let desk = Arc::<Mutex<Desk>>::default();
        let answers = desk.clone();
        let talk = calls::Channel::open(address).await?.talk(SESSION, REQUESTS_PER_MESSAGE_MAX, move |message| {
            lock(&answers).hear(message.and_then(|message| ServerMessage::decode(message).ok()));
        });
        let session = Self::at(talk, desk);
        let open = OpenSessionRequest { holder: "bench".into(), ..Default::default() };
        session.send(Request::Open(Box::new(open)))?;
        session.answer().await?;
        Ok(session.clone())
    }

    async fn take(&mut self, what: &What) -> Outcome<Self::Taken> {
        let key = self.acquire(acquire(what)).await?;
        Ok(can_be_given_back(what).then_some(key))
    }

    async fn give_back(&mut self, taken: Self::Taken) -> Outcome<()> {
        if let Some(key) = taken {
            let release = ReleaseRequest { key, ..Default::default() };
            self.ask(Request::Release(Box::new(release))).await?;
        }
        Ok(())
    }

    async fn close(&self) {
        // If the stream is gone the session ends by itself.
        let _ = self.ask(Request::End(EndSession {})).await;
    }
}

impl Stream {
    fn at(talk: calls::Talk, desk: Arc<Mutex<Desk>>) -> Self {
        let id = lock(&desk).place();
        Self { talk, desk, id }
    }

    fn send(&self, request: Request) -> Outcome<()> {
        self.talk.say(&ClientRequest { id: self.id, request: Some(request) })
    }

    async fn answer(&self) -> Outcome<Heard> {
        let answered = poll_fn(|cx| {
            let mut desk = lock(&self.desk);
            let over = desk.over;
            let place = &mut desk.places[usize::try_from(self.id).expect("places are few")];
            match place.answer.take() {
                None if !over => {
                    place.waiting = Some(cx.waker().clone());
                    Poll::Pending
                }
                answer => Poll::Ready(answer),
            }
        });
        match answered.await.ok_or("the stream has ended")? {
            Heard::Refused(message) => Err(message.into()),
            heard => Ok(heard),
        }
    }

    async fn ask(&self, request: Request) -> Outcome<Heard> {
        self.send(request)?;
        self.answer().await
    }

    async fn acquire(&self, acquire: AcquireRequest) -> Outcome<String> {
        match self.ask(Request::Acquire(Box::new(acquire))).await? {
            Heard::Granted(key) => Ok(key),
            other => Err(format!("not a grant: {other:?}").into()),
        }
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        Self::at(self.talk.clone(), self.desk.clone())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The session's own place is not for others: that is where losses are told.
        if self.id != 0 {
            lock(&self.desk).leave_place(self.id);
        }
    }
}

impl Desk {
    fn place(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u64 - 1
        })
    }

    fn leave_place(&mut self, id: u64) {
        if let Some(place) = self.of(id) {
            *place = Place::default();
            self.free.push(id);
        }
    }

    fn of(&mut self, id: u64) -> Option<&mut Place> {
        usize::try_from(id).ok().and_then(|id| self.places.get_mut(id))
    }

    /// Without a message there are no more.
    fn hear(&mut self, message: Option<ServerMessage>) {
        let Some(message) = message else { return self.end() };
        for answered in message.answers {
            if let Some(heard) = answered.answer.and_then(Heard::of) {
                self.leave(answered.id, heard);
            }
        }
    }

    fn leave(&mut self, id: u64, answer: Heard) {
        if let Some(place) = self.of(id) {
            place.answer = Some(answer);
            place.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    fn end(&mut self) {
        self.over = true;
        self.places.iter_mut().filter_map(|place| place.waiting.take()).for_each(Waker::wake);
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().expect("nobody panics with it")
}

pub(crate) async fn connect(address: &str) -> Outcome<TenureClient<Channel>> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
    Ok(TenureClient::new(channel))
}

/// Who asks is said elsewhere.
fn acquire(what: &What) -> AcquireRequest {
    let (pool, select, ttl_ms) = match what {
        What::Own(pool) | What::Shared { name: pool, .. } => (pool, None, Some(30_000)),
        What::Chosen { pool, select } => (pool, Some(select.clone()), Some(30_000)),
        What::Place(pool) => (pool, None, None),
    };
    AcquireRequest { pool: pool.clone(), select, ttl_ms, wait_forever: true, ..Default::default() }
}

fn can_be_given_back(what: &What) -> bool {
    !matches!(what, What::Place(_))
}

async fn set_pool(address: &str, pool: &str, spec: PoolSpec) -> Outcome<()> {
    let request = SetPoolRequest { pool: pool.to_owned(), spec: Some(spec), ..Default::default() };
    connect(address).await?.set_pool(request).await?;
    Ok(())
}

pub(crate) async fn declare_units(address: &str, pool: &str, units: u32) -> Outcome<()> {
    set_pool(address, pool, PoolSpec { units: Some(units), ..Default::default() }).await
}

pub(crate) async fn declare_window(address: &str, pool: &str) -> Outcome<()> {
    let spec = PoolSpec { units: Some(WINDOW_PLACES), window_ms: Some(WINDOW_MILLIS), ..Default::default() };
    set_pool(address, pool, spec).await
}

/// Machines in ten zones, of ten sizes, every third of them with a GPU.
pub(crate) async fn declare_machines(address: &str, pool: &str, count: u32) -> Outcome<()> {
    let machine = |number: u32| {
        let mut labels = BTreeMap::from([
            ("zone".to_owned(), format!("z{}", number % 10)),
            ("mem".to_owned(), (8 * (1 + number / 10 % 10)).to_string()),
        ]);
        if number.is_multiple_of(3) {
            labels.insert("gpu".to_owned(), String::new());
        }
        Resource { name: format!("machine-{number}"), labels, ..Default::default() }
    };
    set_pool(address, pool, PoolSpec { resources: (0..count).map(machine).collect(), ..Default::default() }).await
}

pub(crate) async fn waiters(address: &str, pool: &str) -> Outcome<u64> {
    let request = GetPoolRequest { pool: pool.to_owned(), ..Default::default() };
    let detail = connect(address).await?.get_pool(request).await?.into_inner();
    Ok(detail.summary.map_or(0, |summary| summary.waiters))
}

/// Takes this many names, each for long, and gives none back.
pub(crate) async fn hold(address: &str, count: usize) -> Outcome<()> {
    let stream = Stream::open(address).await?;
    let mut under_way = futures_util::stream::FuturesUnordered::new();
    let mut numbers = 0..count;
    loop {
        while under_way.len() < REQUESTS_PER_MESSAGE_MAX
            && let Some(number) = numbers.next()
        {
            let lease = Some(LONG_LEASE_MILLIS);
            let request = AcquireRequest { pool: format!("held-{number}"), ttl_ms: lease, ..Default::default() };
            let stream = stream.clone();
            under_way.push(async move { stream.acquire(request).await });
        }
        match under_way.next().await {
            Some(held) => drop(held?),
            None => return Ok(()),
        }
    }
}

/// Once it does what it is there for.
pub(crate) async fn answers(address: &str) -> Outcome<()> {
    let mut unary = Unary::open(address).await?;
    let taken = unary.take(&What::Own("answers".to_owned())).await?;
    unary.give_back(taken).await
}
