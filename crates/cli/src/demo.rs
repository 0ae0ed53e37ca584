//! `tenure demo`: a few consumers take turns on fewer resources, and a picture of who holds and who waits.
//!
//! The picture is drawn from what the server tells, as any onlooker could draw it; the consumers are clients of their own
//! and tell it nothing.

mod consumer;
mod onlooker;
pub(crate) mod picture;
pub(crate) mod screen;
mod tally;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tenure_client::{Error, v1};
use tenure_server::{Config, Storage};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::access::Access;
use crate::arguments::Server;
use crate::exit::Exit;
use crate::supervise::Signals;
use crate::{look, output, units};
use consumer::{Consumer, LEASE};
use onlooker::Onlooker;
use picture::{Line, Seen};
use screen::Screen;
use tally::Tally;

/// Often enough for bars that grow, and for a resized terminal.
const FRAME: Duration = Duration::from_millis(100);
/// How often to look though nothing was told. A server that does not answer is noticed by this.
const LOOK: Duration = Duration::from_secs(1);
/// The sessions of the consumers outlive their connections for this long.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// How long the consumers may take to leave.
const FAREWELL: Duration = Duration::from_secs(5);
const LOST: &str = "the server does not answer; waiting for it to come back";
/// More than this cannot be told apart in a picture.
const MANY: i64 = 100;

/// Show consumers that take turns: who holds and who waits, live
#[derive(clap::Args)]
#[command(after_long_help = "\
Nothing needs to run: the demo starts a server of its own, in memory, and says where it is, so
that you can look at it and interfere from another terminal. Every now and then a consumer falls
silent while it holds, as if its process were gone; its lease runs out, and the next in the queue
is served. Where stdout is not a terminal, what happens is printed line by line, and the picture
once at the end. With --addr that server may be killed and started again meanwhile, too.

TENURE_ADDR and TENURE_NAMESPACE are not looked at, so that nobody plays on a server that others
use by accident.

Examples:
  tenure demo
  tenure demo --consumers 20 --capacity 5 --for 1m
  tenure demo --addr 127.0.0.1:3144 --pool playground")]
pub(crate) struct Args {
    /// How many take turns
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=MANY))]
    consumers: u32,
    /// How many can hold at the same time
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=MANY))]
    capacity: u32,
    /// End after this time; a bare number is seconds [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = units::seconds)]
    lasts: Option<Duration>,
    /// The pool they share; it must not exist yet, and is removed at the end
    #[arg(long, value_name = "NAME", default_value = "demo")]
    pool: String,
    /// Play on the server with this gRPC address [default: one that is started for it]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Server")]
    addr: Option<String>,
    /// The namespace of the pool on that server
    #[arg(long, value_name = "NAME", default_value = "default", requires = "addr", help_heading = "Server")]
    namespace: String,
    #[command(flatten, next_help_heading = "Server")]
    access: Access,
}

pub(crate) fn run(args: Args) -> Result<(), Exit> {
    // A terminal that does not take the picture, as after Ctrl-S, must not hold up the server.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(Exit::Setup)?.block_on(async {
        let mut signals = Signals::listen().map_err(Exit::Setup)?;
        let own = match args.addr {
            Some(_) => None,
            None => Some(serve().await?),
        };
        let addr = own.as_ref().map(|server| server.grpc_addr().to_string());
        let server = Server {
            addr: addr.or_else(|| args.addr.clone()).expect("without an address a server was started"),
            namespace: args.namespace.clone(),
            // One of its own lets everybody in.
            access: if own.is_some() { Access::default() } else { args.access.clone() },
        };
        let ended = play(&args, server, &mut signals).await;
        if let Some(own) = own {
            tokio::select! {
                () = own.stop() => {}
                number = signals.next() => return Err(Exit::signal(number)),
            }
        }
        ended
    })
}

/// A server in this process that keeps everything in memory.
async fn serve() -> Result<tenure_server::Server, Exit> {
    let engine = Storage::default().start_engine().map_err(Exit::Store)?;
    tenure_server::Server::start(engine, Config::any_ports()).await.map_err(Exit::Start)
}

async fn play(args: &Args, server: Server, signals: &mut Signals) -> Result<(), Exit> {
    let mut demo = tokio::select! {
        demo = Demo::prepare(args, server) => demo?,
        // Nothing is there yet that would have to be put away.
        number = signals.next() => return Err(Exit::signal(number)),
    };
    let shown = demo.show(signals).await;
    // The terminal is as it was: a second Ctrl-C does not have to wait for anything.
    tokio::select! {
        () = demo.clean_up() => {}
        number = signals.next() => return Err(Exit::signal(number)),
    }
    match shown? {
        Ending::Signal(number) => Err(Exit::signal(number)),
        Ending::Over | Ending::NobodyReads => Ok(()),
    }
}

/// Why it ends.
enum Ending {
    Over,
    Signal(i32),
    NobodyReads,
}

struct Demo<'a> {
    args: &'a Args,
    addr: String,
    onlooker: Onlooker,
    consumers: JoinSet<Result<(), Error>>,
    /// Says that they shall leave.
    leave: watch::Sender<bool>,
    tally: Tally,
    seen: Seen,
    looked: Instant,
    /// Something was told since.
    stale: bool,
    /// How far this machine's clock is ahead of the server's: no more than what was told soonest after it happened.
    ahead_ms: i64,
    /// Since when the server cannot be reached.
    lost: Option<Instant>,
}

impl<'a> Demo<'a> {
    /// Connects everybody and then declares the pool, so that a failure leaves nothing behind.
    async fn prepare(args: &'a Args, server: Server) -> Result<Self, Exit> {
        let mut onlooker = Onlooker::begin(&server, &args.pool).await?;
        let mut clients = Vec::new();
        for number in 0..args.consumers {
            let client = server.client()?.holder(consumer::name(number));
            clients.push((number, client.connect().await?));
        }
        onlooker.declare(spec(args.capacity)).await?;
        let (leave, leaving) = watch::channel(false);
        let mut consumers = JoinSet::new();
        for (number, client) in clients {
            consumers.spawn(Consumer { client, pool: args.pool.clone(), number }.run(leaving.clone()));
        }
        let (tally, seen, looked) = (Tally::default(), Seen::default(), Instant::now());
        let addr = server.addr;
        let (stale, ahead_ms, lost) = (true, i64::MAX, None);
        Ok(Self { args, addr, onlooker, consumers, leave, tally, seen, looked, stale, ahead_ms, lost })
    }

    /// Shows what happens, and at the end what there was. However it ends, the terminal is as it was before.
    async fn show(&mut self, signals: &mut Signals) -> Result<Ending, Exit> {
        let mut screen = Screen::open()?;
        let ended = match &mut screen {
            None if !print(&self.heading())? => Ok(Ending::NobodyReads),
            screen => self.follow(screen.as_mut(), signals).await,
        };
        drop(screen);
        let ending = ended?;
        if !matches!(ending, Ending::NobodyReads) {
            // If it does not answer any more, what was seen last is shown.
            let _ = self.look().await;
            let mut lines = vec![Line::default()];
            lines.extend(self.state());
            lines.extend([Line::default(), Line::text(&self.tally.summary())]);
            print(&lines)?;
        }
        Ok(ending)
    }

    async fn follow(&mut self, mut screen: Option<&mut Screen>, signals: &mut Signals) -> Result<Ending, Exit> {
        let end = self.args.lasts.and_then(|lasts| Instant::now().checked_add(lasts));
        let mut frames = interval(if screen.is_some() { FRAME } else { LOOK });
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                biased;
                ending = ended(end, signals) => return Ok(ending),
                Some(ended) = self.consumers.join_next() => return Err(gone(ended)),
                () = Screen::suspended(&mut screen) => Ok(true),
                event = self.onlooker.next(), if self.lost.is_none() => match event {
                    Ok(event) => self.hear(&event, screen.is_none()),
                    Err(error) => Err(error),
                },
                _ = frames.tick() => {
                    let done = tokio::select! {
                        done = self.refresh() => done,
                        ending = ended(end, signals) => return Ok(ending),
                    };
                    match &screen {
                        Some(screen) => done.and(screen.draw(&self.frame(screen.rows()))),
                        None => done.map(|()| true),
                    }
                }
            };
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(Ending::NobodyReads),
                Err(error) => self.lose(error, screen.is_none())?,
            }
        }
    }

    /// False if nobody reads any more.
    fn hear(&mut self, event: &v1::Event, tell: bool) -> Result<bool, Exit> {
        self.stale = true;
        self.ahead_ms = self.ahead_ms.min(now_ms() - i64::try_from(event.at_ms).unwrap_or(i64::MAX));
        match self.tally.hear(event) {
            Some(line) if tell => print(std::slice::from_ref(line)),
            _ => Ok(true),
        }
    }

    /// Asks the server how things stand, if that may have changed.
    async fn refresh(&mut self) -> Result<(), Exit> {
        if self.lost.is_some() {
            self.onlooker.again().await?;
            (self.lost, self.stale) = (None, true);
        }
        if self.stale || self.looked.elapsed() >= LOOK { self.look().await } else { Ok(()) }
    }

    async fn look(&mut self) -> Result<(), Exit> {
        self.stale = false;
        self.seen = self.onlooker.look().await?;
        self.looked = Instant::now();
        Ok(())
    }

    /// Somebody else's server may be stopped and started again, and everything goes on. Fails if it was away for too long
    /// or something else is wrong.
    fn lose(&mut self, error: Exit, tell: bool) -> Result<(), Exit> {
        let may_pass = match &error {
            Exit::Client(Error::Unreachable { .. }) => true,
            Exit::Client(Error::Refused(refusal)) => refusal.retry,
            _ => false,
        };
        let first = self.lost.is_none();
        let since = *self.lost.get_or_insert_with(Instant::now);
        if !may_pass || self.args.addr.is_none() || since.elapsed() > AWAY_MAX {
            return Err(error);
        }
        if first && tell {
            output::note(LOST);
        }
        Ok(())
    }

    fn state(&self) -> Vec<Line> {
        // Without any event there is nothing that could have lasted.
        picture::state(&self.seen, u64::try_from(now_ms().saturating_sub(self.ahead_ms)).unwrap_or(0))
    }

    fn heading(&self) -> Vec<Line> {
        let Args { consumers, capacity, pool, namespace, .. } = self.args;
        let consumers = look::count((*consumers).into(), "consumer");
        let resources = look::count((*capacity).into(), "resource");
        let namespace = if namespace == "default" { String::new() } else { format!(" --namespace {namespace}") };
        let state = match self.lost {
            Some(_) => Line::bad(LOST),
            None => Line::faint(&format!("from another terminal: tenure queue {pool} --addr {}{namespace}", self.addr)),
        };
        let what = Line::heading(&format!("{consumers} and {resources}: pool `{pool}` on {}", self.addr));
        vec![what, state, Line::default()]
    }

    /// What fits on a screen of this height: the state first, then as much as there is room for of what happened.
    fn frame(&self, rows: usize) -> Vec<Line> {
        let mut lines = self.heading();
        lines.extend(self.state());
        lines.extend([Line::default(), self.tally.figures(), Line::default()]);
        let room = rows.saturating_sub(lines.len());
        lines.extend(self.tally.recent(room));
        if lines.len() > rows {
            lines.truncate(rows.saturating_sub(1));
            lines.push(Line::faint("…"));
        }
        lines
    }

    /// Lets the consumers go and removes the pool.
    async fn clean_up(mut self) {
        self.leave.send_replace(true);
        let done = async {
            let mut left = true;
            while let Some(ended) = self.consumers.join_next().await {
                left &= matches!(ended, Ok(Ok(())));
            }
            self.onlooker.remove().await && left
        };
        if !matches!(timeout(FAREWELL, done).await, Ok(true)) && self.args.addr.is_some() {
            let (lease, pool) = (look::exact(units::millis(LEASE)), &self.args.pool);
            output::note(&format!(
                "not everything could be put away: leases end within {lease}, and `tenure pool rm {pool}` removes the pool"
            ));
        }
    }
}

/// When the time is over, or somebody says so.
async fn ended(end: Option<Instant>, signals: &mut Signals) -> Ending {
    let over = async {
        match end {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        number = signals.next() => Ending::Signal(number),
        () = over => Ending::Over,
    }
}

/// By this machine's clock.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Why a consumer went though nobody told it to.
fn gone(ended: Result<Result<(), Error>, JoinError>) -> Exit {
    match ended {
        Ok(Ok(())) => Exit::Client(Error::Closed),
        Ok(Err(error)) => Exit::Client(error),
        Err(error) => Exit::Setup(std::io::Error::other(error)),
    }
}

/// Prints without colours and however wide. False if nobody reads any more.
fn print(lines: &[Line]) -> Result<bool, Exit> {
    output::print(&lines.iter().map(|line| format!("{}\n", line.render(usize::MAX, false))).collect::<String>())
}

/// Named resources, with something to select by and something to be told.
fn spec(capacity: u32) -> v1::PoolSpec {
    let resource = |number: u32| v1::Resource {
        name: format!("gpu-{number}"),
        labels: BTreeMap::from([("mem".to_owned(), if number % 2 == 1 { "80" } else { "40" }.to_owned())]),
        properties: BTreeMap::from([("host".to_owned(), format!("rack-{number}"))]),
    };
    v1::PoolSpec { resources: (1..=capacity).map(resource).collect(), named: true, ..v1::PoolSpec::default() }
}
