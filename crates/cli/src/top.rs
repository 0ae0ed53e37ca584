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
        return output::print(&seen.text([ROWS; 3])).map(|_| ());
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
        // Of all sections together, on a screen.
        let room = screen.as_ref().map(|screen| screen.rows().saturating_sub(ROWS_AROUND).max(3));
        let seen = tokio::select! {
            number = signals.next() => return Err(Exit::signal(number)),
            () = keys.quit() => return Ok(()),
            seen = Seen::look(&mut connection, &args, room.unwrap_or(ROWS)) => seen?,
        };
        let rows = room.map_or([ROWS; 3], |room| seen.shares(room));
        let read = match &screen {
            Some(screen) => screen.draw(&seen.lines(rows, screen.rows())),
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

    fn total(&self, of: fn(&v1::Pool) -> u64) -> u64 {
        self.pools.iter().map(of).sum()
    }

    /// How many entries pools, holds and queues get of so many: what one does not need, the others have.
    fn shares(&self, room: usize) -> [usize; 3] {
        let waiters = self.queues.iter().map(|(_, waiters)| waiters.len()).sum();
        let mut left = room;
        let mut needs = [(0, self.pools.len()), (1, self.holds.len()), (2, waiters)];
        needs.sort_by_key(|(_, need)| *need);
        let mut shares = [0; 3];
        for (at, (section, need)) in needs.into_iter().enumerate() {
            shares[section] = need.min((left / (needs.len() - at)).max(1));
            left = left.saturating_sub(shares[section]);
        }
        shares
    }

    fn title(&self) -> String {
        let pools = look::count(self.pools.len() as u64, "pool");
        let holds = look::count(self.total(|pool| pool.holds), "hold");
        let waiters = look::count(self.total(|pool| pool.waiters), "waiter");
        format!("{} at {}: {pools}, {holds}, {waiters}", self.address, look::moment(self.now_ms))
    }

    /// Sections with their headings, each of so many entries at most.
    fn sections(&self, [pools, holds, mut left]: [usize; 3]) -> Vec<(String, String)> {
        let mut sections = Vec::new();
        if !self.pools.is_empty() {
            let heading = heading("POOLS", pools, self.pools.len() as u64);
            sections.push((heading, look::pool_rows(self.pools.iter().take(pools), self.now_ms)));
        }
        if !self.holds.is_empty() {
            let heading = heading("HOLDS", holds.min(self.holds.len()), self.total(|pool| pool.holds));
            sections.push((heading, look::hold_rows(self.holds.iter().take(holds), self.now_ms, true)));
        }
        for (pool, waiters) in self.queues.iter().filter(|(_, waiters)| !waiters.is_empty()) {
            let shown = waiters.len().min(left);
            if shown > 0 {
                let all = self.pools.iter().find(|it| it.pool == *pool).map_or(0, |it| it.waiters);
                let heading = heading(&format!("QUEUE of {pool}"), shown, all);
                sections.push((heading, look::waiter_rows(&waiters[..shown], self.now_ms)));
            }
            // The heading and the columns of the next take room too.
            left = left.saturating_sub(shown + 3);
        }
        sections
    }

    fn text(&self, rows: [usize; 3]) -> String {
        let mut text = format!("{}\n", output::clean(&self.title()));
        for (heading, table) in self.sections(rows) {
            text.push_str(&format!("\n{}\n{table}", output::clean(&heading)));
        }
        text
    }

    /// No more than `height`; the last says how to leave.
    fn lines(&self, rows: [usize; 3], height: usize) -> Vec<Line> {
        let mut lines = vec![Line::heading(&self.title())];
        for (heading, table) in self.sections(rows) {
            lines.extend([Line::default(), Line::heading(&heading)]);
            let mut table = table.lines();
            lines.extend(table.next().map(Line::faint));
            lines.extend(table.map(Line::text));
        }
        lines.push(Line::default());
        lines.truncate(height.saturating_sub(1));
        lines.push(Line::faint("q to leave"));
        lines
    }
}

/// Says so if there are more than are shown.
fn heading(what: &str, shown: usize, all: u64) -> String {
    if all > shown as u64 { format!("{what}, {shown} of {all}") } else { what.to_owned() }
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
        let text = seen().text([10; 3]);
        for part in
            ["2 pools, 1 hold, 2 waiters", "\nPOOLS\nPOOL", "\nHOLDS\nPOOL", "\nQUEUE of db\nPOSITION", "ada\\u{1b}"]
        {
            assert!(text.contains(part), "{part} is missing from {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_frame_shows_as_much_as_there_is_room_for() {
        let text = seen().text([1; 3]);
        assert!(text.contains("bob") && !text.contains("dan") && !text.contains("idle"), "{text}");
        assert!(text.contains("\nPOOLS, 1 of 2\n") && text.contains("\nQUEUE of db, 1 of 2\n"), "{text}");
        assert!(text.contains("\nHOLDS\n"), "there are no more: {text}");
        assert_eq!(seen().lines([1; 3], 50).len(), text.lines().count() + 2, "the same with a hint at its end");
        assert_eq!(seen().lines([1; 3], 8).len(), 8, "and never more than the screen has");
    }

    #[test]
    fn what_one_section_does_not_need_the_others_have() {
        let seen = seen();
        assert_eq!(seen.shares(30), [2, 1, 2]);
        assert_eq!(seen.shares(4), [1, 1, 2]);
        assert_eq!(seen.shares(3), [1, 1, 1]);
        let crowded = Seen { pools: vec![v1::Pool::default(); 40], ..seen };
        assert_eq!(crowded.shares(20), [17, 1, 2]);
    }
}
