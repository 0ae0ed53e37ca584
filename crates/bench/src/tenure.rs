//! The same pairs on Tenure: a call each, or pipelined over the session stream.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{
    AcquireRequest, ClientMessage, ClientRequest, Grant, OpenSessionRequest, ReleaseRequest, client_request::Request,
    server_answer::Answer,
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

use crate::load::{Meter, Shape};

const REQUESTS_PER_MESSAGE_MAX: usize = 1_024;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) enum Work {
    /// Own names, a call for each acquire and each release.
    Unary(Shape),
    /// Own names, over the stream.
    Stream(Shape),
    /// All want the same name, over the stream.
    Hot(Shape),
    /// Own names, with the Rust client: guards, renewals, reconnects and all.
    Client(Shape),
}

/// Connections go to the servers in turn.
pub(crate) async fn run(addresses: &[String], work: &Work, span: Duration) -> Result<f64, Box<dyn Error>> {
    let meter = Meter::default();
    let tasks = match work {
        Work::Unary(shape) => unary(addresses, *shape, &meter).await,
        Work::Stream(shape) => stream(addresses, *shape, &meter, false).await,
        Work::Hot(shape) => stream(addresses, *shape, &meter, true).await,
        Work::Client(shape) => client(addresses, *shape, &meter).await,
    };
    let tasks = tasks.map_err(|error| error.to_string())?;
    let figure = meter.measure(span).await;
    for task in tasks {
        task.await?.map_err(|error| error.to_string())?;
    }
    Ok(figure)
}

type Tasks = Vec<tokio::task::JoinHandle<Outcome<()>>>;

async fn connect(address: &str) -> Outcome<TenureClient<Channel>> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
    Ok(TenureClient::new(channel))
}

fn acquire(pool: String) -> AcquireRequest {
    AcquireRequest { pool, holder: "bench".into(), ttl_ms: Some(30_000), wait_forever: true, ..Default::default() }
}

async fn unary(addresses: &[String], shape: Shape, meter: &Meter) -> Outcome<Tasks> {
    let mut tasks = Tasks::new();
    for (connection, address) in (0..shape.connections).zip(addresses.iter().cycle()) {
        let client = connect(address).await?;
        for task in 0..shape.tasks {
            let (meter, mut client) = (meter.clone(), client.clone());
            let pool = format!("lock-{connection}-{task}");
            tasks.push(tokio::spawn(async move {
                while !meter.is_over() {
                    let grant = client.acquire(acquire(pool.clone())).await?.into_inner();
                    client.release(ReleaseRequest { key: grant.key, ..Default::default() }).await?;
                    meter.count();
                }
                Ok(())
            }));
        }
    }
    Ok(tasks)
}

async fn stream(addresses: &[String], shape: Shape, meter: &Meter, hot: bool) -> Outcome<Tasks> {
    let mut tasks = Tasks::new();
    for (connection, address) in (0..shape.connections).zip(addresses.iter().cycle()) {
        let session = Session::open(address).await?;
        for task in 0..shape.tasks {
            let (meter, session) = (meter.clone(), session.clone());
            let pool = if hot { "hot".to_owned() } else { format!("lock-{connection}-{task}") };
            // Who asks was said once, for the session.
            let acquire = move || AcquireRequest { holder: String::new(), ..acquire(pool.clone()) };
            tasks.push(tokio::spawn(async move {
                while !meter.is_over() {
                    let grant = session.acquire(acquire()).await?;
                    // A hand-over is a grant to somebody who waited.
                    meter.count();
                    let release = ReleaseRequest { key: grant.key, ..Default::default() };
                    session.ask(Request::Release(Box::new(release))).await?;
                }
                Ok(())
            }));
        }
    }
    Ok(tasks)
}

async fn client(addresses: &[String], shape: Shape, meter: &Meter) -> Outcome<Tasks> {
    let mut tasks = Tasks::new();
    for (connection, address) in (0..shape.connections).zip(addresses.iter().cycle()) {
        let client = tenure_client::Client::connect(address).await?;
        for task in 0..shape.tasks {
            let (meter, client) = (meter.clone(), client.clone());
            let pool = format!("lock-{connection}-{task}");
            tasks.push(tokio::spawn(async move {
                while !meter.is_over() {
                    client.lock(&pool).await?.release().await?;
                    meter.count();
                }
                Ok(())
            }));
        }
    }
    Ok(tasks)
}

/// Many tasks over one stream.
#[derive(Clone)]
struct Session {
    requests: mpsc::UnboundedSender<ClientRequest>,
    asked: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>,
    next: Arc<AtomicU64>,
}

impl Session {
    async fn open(address: &str) -> Outcome<Self> {
        let mut client = connect(address).await?;
        let (requests, mut outgoing) = mpsc::unbounded_channel();
        let session = Self { requests, asked: Arc::default(), next: Arc::default() };
        let open = OpenSessionRequest { holder: "bench".into(), ..Default::default() };
        let opened = session.send(Request::Open(Box::new(open)))?;
        // What tasks have to say by the time the connection is ready goes into one message.
        let messages = futures_util::stream::poll_fn(move |cx| {
            let mut requests = Vec::new();
            let gathered = outgoing.poll_recv_many(cx, &mut requests, REQUESTS_PER_MESSAGE_MAX);
            gathered.map(|count| (count > 0).then_some(ClientMessage { requests }))
        });
        let mut answers = client.session(messages).await?.into_inner();
        let asked = session.asked.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = answers.next().await {
                let mut asked = asked.lock().expect("nobody panics with it");
                for heard in message.answers {
                    // Being queued is not the end of it.
                    if let Some(answer) = heard.answer
                        && !matches!(answer, Answer::Queued(_))
                        && let Some(asker) = asked.remove(&heard.id)
                    {
                        let _ = asker.send(answer);
                    }
                }
            }
        });
        opened.await?;
        Ok(session)
    }

    fn send(&self, request: Request) -> Outcome<oneshot::Receiver<Answer>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (asker, answered) = oneshot::channel();
        self.asked.lock().expect("nobody panics with it").insert(id, asker);
        self.requests.send(ClientRequest { id, request: Some(request) })?;
        Ok(answered)
    }

    async fn ask(&self, request: Request) -> Outcome<Answer> {
        match self.send(request)?.await? {
            Answer::Refused(refusal) => Err(refusal.message.into()),
            answer => Ok(answer),
        }
    }

    async fn acquire(&self, acquire: AcquireRequest) -> Outcome<Grant> {
        match self.ask(Request::Acquire(Box::new(acquire))).await? {
            Answer::Granted(grant) => Ok(grant),
            other => Err(format!("not a grant: {other:?}").into()),
        }
    }
}
