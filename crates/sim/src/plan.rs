//! What happens in a run, as data: who asks for what and when, what the network does with it, and what breaks. A plan is
//! made from a seed, can be shortened step by step, and is kept as text; running it involves no further chance.

mod make;

use serde::{Deserialize, Serialize};

/// Microseconds since the run began.
pub type Micros = u64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub clients: u8,
    /// Whether the server has room for only a few of each thing.
    pub tight: bool,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub at: Micros,
    /// Decides whatever small things follow from the step: delays, mostly.
    pub luck: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Ask {
        client: u8,
        ask: Ask,
        fate: Fate,
    },
    /// The client stops: it neither reads, nor sends, nor renews.
    Pause {
        client: u8,
        millis: u32,
    },
    /// The connection of the client's session breaks.
    Cut {
        client: u8,
    },
    /// The client gives up a call that has not been answered.
    HangUp {
        client: u8,
        which: u8,
    },
    Fault(Fault),
}

/// What the network does with a call. Each has a connection of its own, so calls may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Fine,
    RequestLost,
    AnswerLost,
    /// The request arrives so much later, when others have come before it.
    Delayed {
        micros: u32,
    },
    /// It arrives twice, the second time so much later.
    Doubled {
        micros: u32,
    },
    /// Its connection breaks so much later, and the server notices.
    Broken {
        micros: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The machine loses its power; of the batch that was being written so much is left.
    Crash {
        left: Left,
        down_millis: u32,
    },
    /// The same, at the next sync.
    CrashAtSync {
        left: Left,
        down_millis: u32,
    },
    /// The next sync fails, and the server stops because of it.
    DiskFails {
        left: Left,
        down_millis: u32,
    },
    /// An orderly stop, and a start.
    Restart {
        down_millis: u32,
    },
    DiskSlow {
        sync_micros: u32,
        for_millis: u32,
    },
    /// The wall clock is set.
    WallClock {
        by_seconds: i32,
    },
}

/// What a disk has of a batch whose sync did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Left {
    Nothing,
    /// The beginning of it, in 256ths.
    Torn(u16),
    /// Everything but one sector.
    Hole(u16),
    All,
}

/// What a client asks. What it refers to is found when it is asked: the newest of what the client knows is 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Acquire(AskAcquire),
    /// So many acquires at once, each to wait as long as it takes.
    Crowd {
        pool: u8,
        count: u16,
    },
    /// The last acquire that had a request id, once more.
    AcquireAgain,
    Renew {
        which: u8,
        ttl: Option<u32>,
    },
    Release {
        which: u8,
        names_pool: bool,
    },
    /// Of the request ids that the client used, counted from 1; 0 is one that it will use next.
    Withdraw {
        request: u8,
    },
    ForceRelease {
        which: u8,
    },
    OwnerGone {
        owner: u8,
    },
    OpenSession {
        stream: bool,
        grace: u32,
        outlasts_holds: bool,
    },
    KeepAlive {
        which: u8,
    },
    Resume {
        which: u8,
    },
    EndSession {
        which: u8,
    },
    SetUnits {
        pool: u8,
        size: u32,
        backfill: bool,
        window: Option<u32>,
        declared: bool,
        /// How waiters take turns: not, by holder, by holder with weights, or all as one group.
        #[serde(default)]
        fair: u8,
        #[serde(default)]
        script: u8,
    },
    /// Bits say which of the resources are listed.
    SetResources {
        resources: u8,
        reversed: bool,
        placement: u8,
        backfill: bool,
        #[serde(default)]
        cleaning: bool,
        #[serde(default)]
        fair: u8,
        #[serde(default)]
        script: u8,
    },
    SetCondition {
        pool: u8,
        resource: Option<u8>,
        condition: u8,
        #[serde(default)]
        lasts: Option<u32>,
    },
    /// Of somebody's holds, for the client itself.
    Steal {
        which: u8,
        ttl: Option<u32>,
        request: bool,
    },
    /// One of the client's own waits before one of somebody's, or of all.
    MoveWaiter {
        which: u8,
        before: Option<u8>,
    },
    /// For a client; `instead` names who has it according to the one who asks.
    Reserve {
        resource: u8,
        client: u8,
        instead_of: Option<u8>,
        lasts: Option<u32>,
    },
    Unreserve {
        resource: u8,
        client: u8,
    },
    RemovePool {
        pool: u8,
    },
    Lie(Lie),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAcquire {
    pub pool: u8,
    /// All of it if 0.
    pub amount: u32,
    pub selector: Option<u8>,
    pub size: Option<u32>,
    pub lifetime: Life,
    pub wait: Waits,
    pub priority: i8,
    pub in_session: bool,
    /// One it has used, counted from 1 for the newest; 0 is a new one.
    pub request: Option<u8>,
    /// What is done with the hold.
    pub then: Then,
    #[serde(default)]
    pub dirty: bool,
    /// What is wanted of further pools.
    #[serde(default)]
    pub also: Vec<AskPart>,
    /// It lets go of nothing before it is answered, and wants to be refused if it never could be.
    #[serde(default)]
    pub holds_on: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskPart {
    pub pool: u8,
    /// All of it if 0.
    pub amount: u32,
    pub selector: Option<u8>,
    pub size: Option<u32>,
}

impl AskAcquire {
    /// One unit, whenever it comes, and nothing else.
    pub(crate) fn plain(pool: u8, lifetime: Life) -> Self {
        Self {
            pool,
            amount: 1,
            selector: None,
            size: None,
            lifetime,
            wait: Waits::Forever,
            priority: 0,
            in_session: false,
            request: None,
            then: Then::Forget,
            dirty: false,
            also: Vec::new(),
            holds_on: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    Default,
    Leased(u32),
    Session(Option<u32>),
    Window(u32),
    Kept,
    Bound(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waits {
    Try,
    For(u32),
    Forever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    Forget,
    /// Released so many milliseconds later, renewed meanwhile.
    Use(u32),
}

/// What no honest client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lie {
    InventedKey,
    /// A key of somebody else, for a pool that it is not of.
    WrongPool,
    /// A key of somebody else, in another namespace.
    WrongNamespace,
    InventedSession,
    /// Somebody else's session, in another namespace.
    ForeignSession,
    /// Somebody else's request id.
    ForeignRequest,
    TooMuch,
    SelectorOnUnits,
    WrongSize,
    WrongHolder,
    /// A connection that is long gone says that it is gone.
    StaleDetach,
    WrongKind,
}

impl Plan {
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{{\"seed\": {}, \"clients\": {}, \"tight\": {}, \"steps\": [\n",
            self.seed, self.clients, self.tight
        );
        for (at, step) in self.steps.iter().enumerate() {
            let step = serde_json::to_string(step).expect("a step is plain data");
            text.push_str(&step);
            text.push_str(if at + 1 < self.steps.len() { ",\n" } else { "\n" });
        }
        text.push_str("]}\n");
        text
    }

    pub fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}
