//! `tenure top`: pools, holders and queues, live. A frame is drawn from a few listings; where stdout is no terminal, frames
//! are printed one after another.

mod keys;

use std::time::Duration;

use tenure_client::v1;
use tokio::time::{MissedTickBehavior, interval};

use crate::arguments::Server;
use crate::connection::Connection;
use crate::demo::picture::Line;
use crate::demo::screen::Screen;
use crate::exit::Exit;
use crate::supervise::Signals;
use crate::{look, output, units};
use keys::Keys;

/// How many entries of a section are printed where there is no terminal whose height would say.
const ROWS: usize = 20;
/// Of a frame that is not a section: the title, and a heading, its columns and an empty line for each section.
const ROWS_AROUND: usize = 12;
/// Of as many pools as can be looked at within a frame.
const QUEUES: usize = 4;

/// Watch pools, holders and queues, live
#[derive(clap::Args)]
#[command(after_long_help = "\
The pools with the longest queues come first, then who has held longest, then the queues. Press q or
Ctrl-C to leave. Where stdout is not a terminal, frames are printed one after another.

Examples:
  tenure top
  tenure top build/ --every 5s
  tenure top --once | head")]
pub(crate) struct Args {
    /// Only pools whose names start with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// How often to look
    #[arg(long, value_name = "DURATION", value_parser = period, default_value = "1s")]
    every: Duration,
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: Args) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    if args.once {
        let seen = Seen::look(&mut connection, &args, ROWS).await?;
        return output::print(&seen.text(ROWS)).map(|_| ());
    }
    let mut signals = Signals::listen().map_err(Exit::Setup)?;
    let mut screen = Screen::open()?;
    let mut keys = if screen.is_some() { Keys::listen() } else { Keys::none() };
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut shown = screen.as_mut();
        tokio::select! {
            biased;
            number = signals.next() => return Err(Exit::signal(number)),
            () = keys.quit() => return Ok(()),
            () = Screen::suspended(&mut shown) => keys.again(),
            _ = ticks.tick() => {}
        }
        let rows = screen.as_ref().map_or(ROWS, |screen| screen.rows().saturating_sub(ROWS_AROUND) / 3).max(1);
        let seen = tokio::select! {
            number = signals.next() => return Err(Exit::signal(number)),
            () = keys.quit() => return Ok(()),
            seen = Seen::look(&mut connection, &args, rows) => seen?,
        };
        let read = match &screen {
            Some(screen) => screen.draw(&seen.lines(rows)),
            None => output::print(&format!("{}\n", seen.text(rows))),
        };
        if !read? {
            return Ok(());
        }
    }
}

/// How things stand, as far as a frame has room for it.
struct Seen {
    now_ms: u64,
    address: String,
    /// Those with the longest queues first.
    pools: Vec<v1::Pool>,
    /// Those longest there first.
    holds: Vec<v1::Hold>,
    queues: Vec<(String, Vec<v1::Waiter>)>,
}

impl Seen {
    async fn look(connection: &mut Connection, args: &Args, rows: usize) -> Result<Self, Exit> {
        let namespace = &args.server.namespace;
        let mut pools = look::all_pools(connection, namespace, &args.prefix).await?;
        pools.sort_by(|one, other| {
            let busy = |pool: &v1::Pool| (pool.waiters, pool.holds);
            busy(other).cmp(&busy(one)).then_with(|| one.pool.cmp(&other.pool))
        });
        let mut holds = Vec::new();
        let mut queues = Vec::new();
        if args.prefix.is_empty() {
            holds = look::some_holds(connection, namespace, None, None, rows).await?;
        }
        let held = pools.iter().filter(|pool| pool.holds > 0 && !args.prefix.is_empty());
        for pool in held.take(QUEUES) {
            // One that vanishes meanwhile has nothing to show.
            let of_pool = look::some_holds(connection, namespace, Some(&pool.pool), None, rows).await;
            holds.extend(of_pool.unwrap_or_default());
        }
        holds.sort_by_key(|hold| (hold.since_ms, hold.token));
        for pool in pools.iter().filter(|pool| pool.waiters > 0).take(QUEUES) {
            let waiters = look::some_waiters(connection, namespace, &pool.pool, rows).await.unwrap_or_default();
            queues.push((pool.pool.clone(), waiters));
        }
        Ok(Self { now_ms: look::now_ms(), address: args.server.addr.clone(), pools, holds, queues })
    }

    fn title(&self) -> String {
        let total = |of: fn(&v1::Pool) -> u64| self.pools.iter().map(of).sum::<u64>();
        let pools = look::count(self.pools.len() as u64, "pool");
        let holds = look::count(total(|pool| pool.holds), "hold");
        let waiters = look::count(total(|pool| pool.waiters), "waiter");
        format!("{} at {}: {pools}, {holds}, {waiters}", self.address, look::moment(self.now_ms))
    }

    /// Sections with their headings, each of so many entries at most.
    fn sections(&self, rows: usize) -> Vec<(String, String)> {
        let mut sections = Vec::new();
        if !self.pools.is_empty() {
            sections.push(("POOLS".to_owned(), look::pool_rows(self.pools.iter().take(rows), self.now_ms)));
        }
        if !self.holds.is_empty() {
            sections.push(("HOLDS".to_owned(), look::hold_rows(self.holds.iter().take(rows), self.now_ms, true)));
        }
        let mut left = rows;
        for (pool, waiters) in self.queues.iter().filter(|(_, waiters)| !waiters.is_empty()) {
            let shown = waiters.len().min(left);
            if shown > 0 {
                sections.push((format!("QUEUE of {pool}"), look::waiter_rows(&waiters[..shown], self.now_ms)));
            }
            // The heading and the columns of the next take room too.
            left = left.saturating_sub(shown + 3);
        }
        sections
    }

    fn text(&self, rows: usize) -> String {
        let mut text = format!("{}\n", output::clean(&self.title()));
        for (heading, table) in self.sections(rows) {
            text.push_str(&format!("\n{}\n{table}", output::clean(&heading)));
        }
        text
    }

    fn lines(&self, rows: usize) -> Vec<Line> {
        let mut lines = vec![Line::heading(&self.title())];
        for (heading, table) in self.sections(rows) {
            lines.extend([Line::default(), Line::heading(&heading)]);
            let mut table = table.lines();
            lines.extend(table.next().map(Line::faint));
            lines.extend(table.map(Line::text));
        }
        lines.extend([Line::default(), Line::faint("q to leave")]);
        lines
    }
}

fn period(text: &str) -> Result<Duration, String> {
    let period = units::seconds(text)?;
    if period < Duration::from_millis(100) { Err("expected 100ms or more".to_owned()) } else { Ok(period) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let pool = |name: &str, waiters, holds| v1::Pool {
            pool: name.into(),
            size: 1,
            used: 1,
            waiters,
            holds,
            ..v1::Pool::default()
        };
        let waiter = |position, holder: &str| v1::Waiter {
            waiter: position,
            position: Some(position),
            holder: holder.into(),
            since_ms: 1_000,
            ..v1::Waiter::default()
        };
        let hold = v1::Hold {
            pool: "db".into(),
            holder: "ada\u{1b}[2J".into(),
            token: 7,
            units: 1,
            since_ms: 2_000,
            deadline_ms: Some(9_000),
            ..v1::Hold::default()
        };
        Seen {
            now_ms: 4_000,
            address: "127.0.0.1:3144".into(),
            pools: vec![pool("db", 2, 1), pool("idle", 0, 0)],
            holds: vec![hold],
            queues: vec![("db".into(), vec![waiter(1, "bob"), waiter(2, "dan")])],
        }
    }

    #[test]
    fn a_frame_has_pools_holders_and_queues_and_nothing_that_steers_a_terminal() {
        let text = seen().text(10);
        for part in
            ["2 pools, 1 hold, 2 waiters", "\nPOOLS\nPOOL", "\nHOLDS\nPOOL", "\nQUEUE of db\nPOSITION", "ada\\u{1b}"]
        {
            assert!(text.contains(part), "{part} is missing from {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_frame_shows_as_much_as_there_is_room_for() {
        let text = seen().text(1);
        assert!(text.contains("bob") && !text.contains("dan") && !text.contains("idle"), "{text}");
        assert_eq!(seen().lines(1).len(), text.lines().count() + 2, "the same with a hint at its end");
    }
}
