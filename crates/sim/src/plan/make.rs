//! A plan from a seed. Seeds differ in temper: how dense the traffic is, how much breaks, how long time is.

use super::*;
use crate::random::Random;
use crate::scripts::COUNT;

impl Plan {
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let temper = Temper::new(&mut random);
        let count = random.between(20, temper.steps_max);
        let mut at = 0;
        let mut steps = Vec::new();
        for pool in opening(&mut random) {
            let what = What::Ask { client: 0, ask: pool, fate: Fate::Fine };
            steps.push(Step { at, luck: luck(&mut random), what });
        }
        for _ in 0..count {
            at += match random.below(100) {
                0..40 => random.below(1_000),
                40..95 => random.below(temper.gap_micros),
                95..99 => random.below(20 * temper.gap_micros),
                // Long enough for pools to vanish and for request ids to be forgotten.
                _ if temper.patient => random.below(900_000_000),
                _ => random.below(40 * temper.gap_micros),
            };
            let what = temper.what(&mut random);
            steps.push(Step { at, luck: luck(&mut random), what });
        }
        Self { seed, clients: temper.clients, tight: temper.tight, steps }
    }
}

fn luck(random: &mut Random) -> u32 {
    random.small(u32::MAX)
}

/// Some pools are declared before anything else.
fn opening(random: &mut Random) -> Vec<Ask> {
    let mut asks = Vec::new();
    if random.one_in(2) {
        let size = 1 + random.small(5);
        let fair = random.byte(4);
        asks.push(Ask::SetUnits { pool: 1, size, backfill: false, window: None, declared: true, fair, script: 0 });
    }
    if random.one_in(2) {
        let size = 1 + random.small(5);
        let script = scripted(random);
        asks.push(Ask::SetUnits { pool: 2, size, backfill: true, window: None, declared: true, fair: 0, script });
    }
    if random.one_in(2) {
        let (size, window) = (1 + random.small(4), Some(1 + random.small(400)));
        let backfill = random.one_in(4);
        asks.push(Ask::SetUnits { pool: 3, size, backfill, window, declared: true, fair: 0, script: 0 });
    }
    if !random.one_in(4) {
        asks.push(set_resources(random));
    }
    asks
}

fn set_resources(random: &mut Random) -> Ask {
    let script = scripted(random);
    Ask::SetResources {
        resources: random.byte(255),
        reversed: random.one_in(3),
        placement: random.byte(5),
        // With one that orders mostly so that it is not refused.
        backfill: if !script.is_multiple_of(6) { !random.one_in(5) } else { random.one_in(4) },
        cleaning: random.one_in(3),
        fair: if script == 0 && random.one_in(3) { random.byte(4) } else { 0 },
        script,
    }
}

/// Most pools have no scripts.
fn scripted(random: &mut Random) -> u8 {
    if random.one_in(3) { random.byte(COUNT) } else { 0 }
}

struct Temper {
    clients: u8,
    tight: bool,
    patient: bool,
    crowded: bool,
    steps_max: u64,
    gap_micros: u64,
    /// How often something breaks, in thousandths.
    faults: u64,
    /// How often a call is mistreated, in thousandths.
    losses: u64,
    lies: u64,
    /// How long leases and waits are, in milliseconds.
    scale: u32,
    /// How many pools are asked for: few make long queues.
    pools: u8,
    /// One acquire in so many is for several pools.
    set_every: u64,
    /// One acquire in so many holds on.
    hold_on_every: u64,
    /// A few take one thing after another and keep it: they come to wait for each other.
    crossing: bool,
}

impl Temper {
    fn new(random: &mut Random) -> Self {
        let crossing = random.one_in(8);
        Self {
            clients: if crossing { 2 + random.byte(3) } else { 1 + random.byte(8) },
            tight: random.one_in(10),
            patient: random.one_in(4),
            crowded: random.one_in(20),
            steps_max: *random.pick(&[60, 150, 150, 400]),
            gap_micros: *random.pick(&[2_000, 20_000, 200_000, 2_000_000]),
            faults: *random.pick(&[0, 10, 30, 80]),
            losses: *random.pick(&[0, 50, 200]),
            lies: *random.pick(&[0, 20, 100]),
            scale: *random.pick(&[10, 100, 1_000, 20_000]),
            pools: *random.pick(&[1, 3, 5, 7, 7]),
            set_every: *random.pick(&[2, 6, 1_000]),
            hold_on_every: *random.pick(&[2, 8, 1_000]),
            crossing,
        }
    }

    fn what(&self, random: &mut Random) -> What {
        if random.below(1_000) < self.faults {
            return What::Fault(self.fault(random));
        }
        let client = random.byte(self.clients);
        match random.below(100) {
            0..3 => {
                let longest = if random.one_in(2) { 3 * self.scale } else { 10 * self.gap_millis() };
                What::Pause { client, millis: 1 + random.small(longest) }
            }
            3..6 => What::Cut { client },
            6..11 => What::HangUp { client, which: random.byte(4) },
            _ => What::Ask { client, ask: self.ask(random, client), fate: self.fate(random) },
        }
    }

    fn fault(&self, random: &mut Random) -> Fault {
        let left = match random.below(4) {
            0 => Left::Nothing,
            1 => Left::Torn(u16::from(random.byte(255))),
            2 => Left::Hole(u16::from(random.byte(255))),
            _ => Left::All,
        };
        // Mostly so long that a few steps find nobody there.
        let gap_millis = self.gap_millis();
        let longest = if random.one_in(10) { 60_000 } else { *random.pick(&[2, 3 * gap_millis, 20 * gap_millis]) };
        let down_millis = random.small(longest);
        match random.below(10) {
            0..2 => Fault::Crash { left, down_millis },
            2..5 => Fault::CrashAtSync { left, down_millis },
            5 => Fault::DiskFails { left, down_millis },
            6 => Fault::Restart { down_millis },
            7..9 => Fault::DiskSlow { sync_micros: 500 + random.small(50_000), for_millis: 1 + random.small(2_000) },
            _ => Fault::WallClock { by_seconds: *random.pick(&[-3_600, -60, -1, 1, 60, 3_600]) },
        }
    }

    fn fate(&self, random: &mut Random) -> Fate {
        if random.below(1_000) >= self.losses {
            return Fate::Fine;
        }
        match random.below(5) {
            0 => Fate::RequestLost,
            1 => Fate::AnswerLost,
            2 => Fate::Doubled { micros: random.small(5_000_000) },
            3 => {
                let longest = *random.pick(&[50_000, 5_000_000, 120_000_000]);
                Fate::Delayed { micros: random.small(longest) }
            }
            _ => {
                let longest = *random.pick(&[500, 5_000, 500_000]);
                Fate::Broken { micros: random.small(longest) }
            }
        }
    }

    fn gap_millis(&self) -> u32 {
        u32::try_from(self.gap_micros / 1_000).expect("some seconds")
    }

    fn millis(&self, random: &mut Random) -> u32 {
        1 + random.small(self.scale)
    }

    fn ask(&self, random: &mut Random, client: u8) -> Ask {
        if random.below(1_000) < self.lies {
            return Ask::Lie(*random.pick(&LIES));
        }
        // More than one command may serve, now and then, and a pool that then becomes large enough for them.
        if self.crowded && random.one_in(12) {
            let pool = 1 + random.byte(2);
            return match random.below(3) {
                0 => Ask::SetUnits {
                    pool,
                    size: 600,
                    backfill: pool == 2,
                    window: None,
                    declared: true,
                    fair: 0,
                    script: if pool == 2 { scripted(random) } else { 0 },
                },
                1 => Ask::RemovePool { pool },
                _ => Ask::Crowd { pool, count: u16::from(random.byte(255)) },
            };
        }
        let which = if random.one_in(4) { random.byte(20) } else { random.byte(3) };
        if self.crossing && !random.one_in(4) {
            return match random.below(16) {
                0..2 => Ask::Release { which, names_pool: false },
                2 => Ask::OpenSession { stream: true, grace: 60_000, outlasts_holds: false },
                3 => Ask::Reserve {
                    resource: random.byte(8),
                    client: random.byte(self.clients),
                    instead_of: None,
                    lasts: None,
                },
                4 => Ask::SetCondition {
                    pool: 4,
                    resource: Some(random.byte(8)),
                    condition: if random.one_in(2) { 0 } else { 2 },
                    lasts: None,
                },
                _ => Ask::Acquire(self.crossing(random, client)),
            };
        }
        match random.below(100) {
            0..43 => Ask::Acquire(self.acquire(random)),
            43..50 => Ask::AcquireAgain,
            50..57 => Ask::Renew { which, ttl: random.one_in(2).then(|| self.millis(random)) },
            57..68 => Ask::Release { which, names_pool: random.one_in(2) },
            68..71 => Ask::Withdraw { request: random.byte(4) },
            71 => match random.below(3) {
                0 => {
                    Ask::Steal { which, ttl: random.one_in(2).then(|| self.millis(random)), request: random.one_in(3) }
                }
                _ => Ask::ForceRelease { which },
            },
            72 => match random.below(3) {
                0 => Ask::OwnerGone { owner: random.byte(2) },
                _ => Ask::MoveWaiter { which, before: random.one_in(2).then(|| random.byte(4)) },
            },
            73..79 => Ask::OpenSession {
                stream: !random.one_in(3),
                grace: self.millis(random),
                outlasts_holds: random.one_in(4),
            },
            79..82 => Ask::KeepAlive { which },
            82..85 => Ask::Resume { which },
            85..87 => Ask::EndSession { which },
            87..91 => Ask::SetUnits {
                pool: random.byte(self.pools.max(4)),
                size: random.small(6),
                backfill: random.one_in(2),
                window: random.one_in(4).then(|| 1 + random.small(400)),
                declared: !random.one_in(3),
                fair: if random.one_in(3) { random.byte(4) } else { 0 },
                script: if random.one_in(2) { scripted(random) } else { 0 },
            },
            91..93 => set_resources(random),
            93..96 => Ask::SetCondition {
                pool: random.byte(7),
                resource: random.one_in(2).then(|| random.byte(8)),
                condition: random.byte(4),
                lasts: random.one_in(2).then(|| self.millis(random)),
            },
            96 => Ask::Reserve {
                resource: random.byte(8),
                client: random.byte(self.clients),
                instead_of: random.one_in(3).then(|| random.byte(self.clients)),
                lasts: random.one_in(2).then(|| self.millis(random)),
            },
            97 if random.one_in(2) => Ask::Unreserve { resource: random.byte(8), client: random.byte(self.clients) },
            // What is kept would keep the pool from ever coming back.
            _ if self.crossing => Ask::Release { which, names_pool: true },
            _ => Ask::RemovePool { pool: random.byte(7) },
        }
    }

    /// Now and then something of other pools too. The seventh is in a namespace of its own.
    fn also(&self, random: &mut Random, first: u8) -> Vec<AskPart> {
        if first == 6 || !random.one_in(self.set_every) {
            return Vec::new();
        }
        let others = (0..6).filter(|pool| *pool != first && random.one_in(3)).collect::<Vec<_>>();
        let part = |pool| AskPart {
            pool,
            amount: if random.one_in(10) { 0 } else { *random.pick(&[1, 1, 1, 2]) },
            selector: (pool == 4 && !random.one_in(3)).then(|| random.byte(7)),
            size: (pool == 5).then_some(3),
        };
        others.into_iter().map(part).collect()
    }

    fn acquire(&self, random: &mut Random) -> AskAcquire {
        let pool = random.byte(self.pools);
        // The fourth is mostly a rate, the fifth has resources.
        let lifetime = match (pool, random.below(12)) {
            (3, 0..5) => Life::Default,
            (3, 5..10) => Life::Window(*random.pick(&[50, 200])),
            (_, 0) => Life::Kept,
            (_, 1) => Life::Bound(random.byte(2)),
            (_, 2) => Life::Session(random.one_in(2).then(|| self.millis(random))),
            (_, 3..5) => Life::Default,
            _ => Life::Leased(self.millis(random)),
        };
        AskAcquire {
            pool,
            amount: if random.one_in(8) { 0 } else { *random.pick(&[1, 1, 1, 2, 3]) },
            selector: (pool == 4 && !random.one_in(3)).then(|| random.byte(7)),
            dirty: random.one_in(if pool == 4 { 4 } else { 40 }),
            size: match pool {
                3 if random.one_in(2) => Some(2),
                5 => Some(3),
                _ if random.one_in(20) => Some(1 + random.small(4)),
                _ => None,
            },
            lifetime,
            wait: match random.below(4) {
                0 => Waits::Try,
                1 => Waits::Forever,
                _ => Waits::For(self.millis(random)),
            },
            priority: if random.one_in(3) { *random.pick(&[-1, 0, 1]) } else { 0 },
            in_session: random.one_in(2) || matches!(lifetime, Life::Session(_)),
            request: random.one_in(2).then(|| if random.one_in(6) { random.byte(4) } else { 0 }),
            then: if random.one_in(3) { Then::Forget } else { Then::Use(1 + random.small(2 * self.scale)) },
            also: self.also(random, pool),
            holds_on: random.one_in(self.hold_on_every),
        }
    }

    /// Something to keep: each has a pool that it tries to get something of, and waits for what others have.
    fn crossing(&self, random: &mut Random, client: u8) -> AskAcquire {
        let own = random.one_in(3);
        let further = if own { 0 } else { 1 + random.byte(4) };
        let pool = [0, 1, 4, 2, 5][usize::from((client + further) % 5)];
        let lifetime = *random.pick(&[Life::Kept, Life::Leased(300_000), Life::Session(None), Life::Bound(0)]);
        AskAcquire {
            amount: if random.one_in(10) { 0 } else { *random.pick(&[1, 1, 1, 2]) },
            selector: (pool == 4 && !random.one_in(3)).then(|| random.byte(7)),
            dirty: pool == 4 && random.one_in(6),
            size: (pool == 5).then_some(3),
            wait: match random.below(6) {
                _ if own => Waits::Try,
                0..2 => Waits::For(self.millis(random)),
                _ => Waits::Forever,
            },
            priority: if random.one_in(5) { *random.pick(&[-1, 1]) } else { 0 },
            in_session: random.one_in(4) || matches!(lifetime, Life::Session(_)),
            request: random.one_in(3).then_some(0),
            also: self.also(random, pool),
            holds_on: !random.one_in(6),
            ..AskAcquire::plain(pool, lifetime)
        }
    }
}

const LIES: [Lie; 12] = [
    Lie::InventedKey,
    Lie::WrongPool,
    Lie::WrongNamespace,
    Lie::InventedSession,
    Lie::ForeignSession,
    Lie::ForeignRequest,
    Lie::TooMuch,
    Lie::SelectorOnUnits,
    Lie::WrongSize,
    Lie::WrongHolder,
    Lie::StaleDetach,
    Lie::WrongKind,
];
