//! What an actor does, as the columns between the time and the arrow say it.

use crate::text::{Arguments, Millis, duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Acquire(Acquire),
    Renew {
        hold: HoldRef,
        ttl: Option<Millis>,
    },
    Release {
        hold: HoldRef,
    },
    Withdraw {
        namespace: String,
        request: String,
    },
    /// The caller of the waiting acquires goes away, and that is noticed at once.
    HangUp,
    /// The caller goes away, and nobody notices until an answer cannot be delivered.
    StopListening,

    OpenSession(OpenSession),
    KeepAlive,
    /// The connection that carries the session is lost.
    DropSession,
    /// That the connection before the last resumption is lost is noticed only now.
    DropOldConnection,
    /// A new connection takes the session over.
    ResumeSession,
    EndSession,

    ForceRelease(ForceRelease),
    OwnerGone {
        namespace: String,
        owner: String,
    },
    SetPool(SetPool),
    SetCondition(SetCondition),
    RemovePool(Pool),

    Show {
        pool: Pool,
        resource: Option<String>,
    },
    Queue(Pool),
    Holds {
        namespace: String,
        pool: Option<String>,
        holder: Option<String>,
    },
    List {
        namespace: String,
        prefix: String,
    },
    Sessions {
        namespace: String,
    },
    History {
        namespace: String,
        pool: Option<String>,
        holder: Option<String>,
    },

    Steal(Steal),
    MoveWaiter(MoveWaiter),
    Reserve(Reserve),
    Unreserve(Unreserve),
    Explain {
        pool: Pool,
        request: Option<String>,
        waiter: Option<u64>,
    },

    /// The server is killed and starts again on its data. Every connection is lost.
    Restart,
    /// The server is killed.
    Stop,
    Start,
    /// Nothing but the clock.
    Pass,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub pool: Pool,
    pub amount: Amount,
    pub size: Option<u32>,
    pub select: Option<String>,
    /// Exactly this resource.
    pub resource: Option<String>,
    pub lifetime: Option<Lifetime>,
    pub wait: Wait,
    pub priority: i64,
    pub holder: String,
    pub session: InSession,
    pub request: Option<String>,
    /// What has to be cleaned.
    pub dirty: bool,
    pub meta: Vec<(String, String)>,
    /// What it wants of further pools.
    pub also: Vec<Part>,
    pub holds_on: bool,
}

/// What an acquire wants of one more pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub pool: String,
    pub amount: Amount,
    pub size: Option<u32>,
    pub select: Option<String>,
    /// Exactly this resource.
    pub resource: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Count(u32),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    Leased(Millis),
    /// With the session, and perhaps after a time unless renewed.
    Session(Option<Millis>),
    Window(Millis),
    Kept,
    Bound(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Try,
    For(Millis),
    Forever,
}

/// The session within which an acquire is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSession {
    No,
    /// The actor's, open or ended.
    Own,
    /// One that never was.
    Wrong,
}

/// A hold, by what its holder knows: its token, and with it the key that somebody was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRef {
    pub pool: Pool,
    pub key: KeyOf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOf {
    /// The key that came with this token to this actor.
    Grant { token: u64, actor: String },
    /// A key of nobody.
    Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    pub namespace: String,
    pub grace: Millis,
    /// No connection carries it: it lives by keep-alives.
    pub polled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForceRelease {
    pub pool: Pool,
    pub holder: String,
    pub token: u64,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steal {
    pub pool: Pool,
    pub holder: String,
    pub token: u64,
    pub to: String,
    pub lifetime: Option<Lifetime>,
    pub request: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveWaiter {
    pub pool: Pool,
    pub waiter: u64,
    pub holder: String,
    /// Of all if none.
    pub before: Option<u64>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    pub pool: Pool,
    pub resource: String,
    pub holder: String,
    pub lasts: Option<Millis>,
    pub instead_of: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreserve {
    pub pool: Pool,
    pub resource: String,
    pub holder: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPool {
    pub pool: Pool,
    pub capacity: Capacity,
    pub backfill: bool,
    pub window: Option<Millis>,
    pub cleaning: bool,
    pub fair: Option<Fair>,
    /// What the scripts are that score resources, and those who wait.
    pub place_by: Option<String>,
    pub order_by: Option<String>,
    /// Only if this is its size now.
    pub size_was: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fair {
    pub by: String,
    pub weights: Vec<(String, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    Units(u32),
    Resources { placement: Placement, resources: Vec<Resource> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    First,
    LeastRecentlyUsed,
    MostRecentlyUsed,
    Random,
    Spread(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub properties: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCondition {
    pub pool: Pool,
    pub resource: Option<String>,
    pub condition: Condition,
    pub lasts: Option<Millis>,
    /// Only if this is its condition now.
    pub state_was: Option<State>,
}

/// A condition without its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    InService,
    Drained,
    Quarantined,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    InService,
    Drained(Option<String>),
    Quarantined(String),
}

impl Action {
    /// Whether an outcome must be given: what loses a connection has nobody to answer.
    pub(crate) fn has_outcome(&self) -> bool {
        let loses = matches!(self, Self::HangUp | Self::StopListening | Self::DropSession | Self::DropOldConnection);
        !loses && !matches!(self, Self::Restart | Self::Stop | Self::Start | Self::Pass)
    }

    pub(crate) fn parse(actor: &str, words: Vec<String>) -> Result<Self, String> {
        let mut arguments = Arguments::new(words);
        let action = Self::parse_verb(actor, &mut arguments)?;
        arguments.end()?;
        Ok(action)
    }

    fn parse_verb(actor: &str, arguments: &mut Arguments) -> Result<Self, String> {
        let verb = arguments.word("the verb")?;
        Ok(match verb.as_str() {
            "acquire" => Self::Acquire(acquire(actor, arguments)?),
            "renew" => Self::Renew { hold: hold(actor, arguments)?, ttl: arguments.duration("ttl")? },
            "release" => Self::Release { hold: hold(actor, arguments)? },
            "withdraw" => Self::Withdraw { namespace: namespace(arguments), request: arguments.must("request")? },
            "hangs-up" => Self::HangUp,
            "stops-listening" => Self::StopListening,
            "session" => session(arguments)?,
            "force-release" => Self::ForceRelease(ForceRelease {
                pool: pool(arguments)?,
                holder: arguments.must("holder")?,
                token: arguments.number("token")?.ok_or("`token=` is missing")?,
                reason: arguments.must("reason")?,
            }),
            "owner-gone" => Self::OwnerGone { namespace: namespace(arguments), owner: arguments.must("owner")? },
            "pool" => match arguments.word("`set` or `rm`")?.as_str() {
                "set" => Self::SetPool(set_pool(arguments)?),
                "rm" => Self::RemovePool(pool(arguments)?),
                other => return Err(format!("`pool {other}` is neither `pool set` nor `pool rm`")),
            },
            "drain" => set_condition(arguments, |note| Ok(Condition::Drained(note)))?,
            "quarantine" => set_condition(arguments, |note| {
                note.map(Condition::Quarantined).ok_or_else(|| "`note=` is missing".into())
            })?,
            "return" => set_condition(arguments, |_| Ok(Condition::InService))?,
            "show" => Self::Show { pool: pool(arguments)?, resource: arguments.get("resource") },
            "queue" => Self::Queue(pool(arguments)?),
            "holds" => Self::Holds {
                namespace: namespace(arguments),
                pool: arguments.get("pool"),
                holder: arguments.get("holder"),
            },
            "ls" => Self::List { namespace: namespace(arguments), prefix: arguments.get("prefix").unwrap_or_default() },
            "sessions" => Self::Sessions { namespace: namespace(arguments) },
            "history" => Self::History {
                namespace: namespace(arguments),
                pool: arguments.get("pool"),
                holder: arguments.get("holder"),
            },
            "steal" => Self::Steal(steal(arguments)?),
            "move" => Self::MoveWaiter(move_waiter(arguments)?),
            "reserve" => Self::Reserve(Reserve {
                pool: pool(arguments)?,
                resource: arguments.must("resource")?,
                holder: arguments.must("holder")?,
                lasts: arguments.duration("for")?,
                instead_of: arguments.get("instead-of"),
                reason: arguments.must("reason")?,
            }),
            "unreserve" => Self::Unreserve(Unreserve {
                pool: pool(arguments)?,
                resource: arguments.must("resource")?,
                holder: arguments.must("holder")?,
                reason: arguments.must("reason")?,
            }),
            "explain" => Self::Explain {
                pool: pool(arguments)?,
                request: arguments.get("request"),
                waiter: arguments.number("waiter")?,
            },
            "stop" if actor == "server" => Self::Stop,
            "start" if actor == "server" => Self::Start,
            "restart" if actor == "server" => Self::Restart,
            "passes" if actor == "time" => Self::Pass,
            other => return Err(format!("`{other}` is not a verb")),
        })
    }
}

fn namespace(arguments: &mut Arguments) -> String {
    arguments.get("ns").unwrap_or_else(|| "default".into())
}

fn pool(arguments: &mut Arguments) -> Result<Pool, String> {
    Ok(Pool { namespace: namespace(arguments), name: arguments.word("the pool")? })
}

fn acquire(actor: &str, arguments: &mut Arguments) -> Result<Acquire, String> {
    let pool = pool(arguments)?;
    let amount = amount(arguments)?;
    let ttl = arguments.duration("ttl")?;
    let of_session = arguments.flag("until-session-ends");
    let lifetimes = [
        if of_session { Some(Lifetime::Session(ttl)) } else { ttl.map(Lifetime::Leased) },
        arguments.duration("window")?.map(Lifetime::Window),
        arguments.get("owner").map(Lifetime::Bound),
        arguments.flag("kept").then_some(Lifetime::Kept),
    ];
    let mut lifetimes = lifetimes.into_iter().flatten();
    let lifetime = lifetimes.next();
    if lifetimes.next().is_some() {
        return Err("a hold has one lifetime".into());
    }
    let wait = match arguments.get("wait").as_deref() {
        None => Wait::Try,
        Some("forever") => Wait::Forever,
        Some(text) => Wait::For(duration(text).ok_or_else(|| format!("`wait={text}` is not a duration"))?),
    };
    let session = match (arguments.flag("session"), arguments.get("session").as_deref()) {
        (false, None) => InSession::No,
        (true, None) => InSession::Own,
        (false, Some("wrong")) => InSession::Wrong,
        _ => return Err("a session is `session` or `session=wrong`".into()),
    };
    Ok(Acquire {
        pool,
        amount,
        size: arguments.number("size")?,
        select: arguments.get("select"),
        resource: arguments.get("resource"),
        lifetime,
        wait,
        priority: arguments.number("priority")?.unwrap_or(0),
        holder: arguments.get("as").unwrap_or_else(|| actor.to_owned()),
        session,
        request: arguments.get("request"),
        also: arguments.all("also").iter().map(|text| part(text)).collect::<Result<_, _>>()?,
        holds_on: arguments.flag("holds-on"),
        dirty: arguments.flag("dirty"),
        meta: arguments.all("meta").iter().map(|text| pair(text)).collect(),
    })
}

fn amount(arguments: &mut Arguments) -> Result<Amount, String> {
    Ok(match arguments.get("units").as_deref() {
        None => Amount::Count(1),
        Some("all") => Amount::All,
        Some(count) => Amount::Count(count.parse().map_err(|_| format!("`units={count}` is not a number"))?),
    })
}

/// `gpu units=2 select=big&&!old`: the pool, and what is wanted of it.
fn part(text: &str) -> Result<Part, String> {
    let mut arguments = Arguments::new(text.split_whitespace().map(str::to_owned).collect());
    let part = Part {
        pool: arguments.word("the pool")?,
        amount: amount(&mut arguments)?,
        size: arguments.number("size")?,
        select: arguments.get("select"),
        resource: arguments.get("resource"),
    };
    arguments.end()?;
    Ok(part)
}

fn steal(arguments: &mut Arguments) -> Result<Steal, String> {
    let pool = pool(arguments)?;
    let lifetime = match (arguments.duration("ttl")?, arguments.flag("kept")) {
        (Some(_), true) => return Err("a hold has one lifetime".into()),
        (ttl, false) => ttl.map(Lifetime::Leased),
        (None, true) => Some(Lifetime::Kept),
    };
    Ok(Steal {
        pool,
        holder: arguments.must("holder")?,
        token: arguments.number("token")?.ok_or("`token=` is missing")?,
        to: arguments.must("to")?,
        lifetime,
        request: arguments.get("request"),
        reason: arguments.must("reason")?,
    })
}

fn move_waiter(arguments: &mut Arguments) -> Result<MoveWaiter, String> {
    let pool = pool(arguments)?;
    let before = match (arguments.number("before")?, arguments.flag("front")) {
        (Some(_), true) | (None, false) => return Err("a waiter moves to `before=N` or to the `front`".into()),
        (before, _) => before,
    };
    Ok(MoveWaiter {
        pool,
        waiter: arguments.number("waiter")?.ok_or("`waiter=` is missing")?,
        holder: arguments.must("holder")?,
        before,
        reason: arguments.must("reason")?,
    })
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

fn hold(actor: &str, arguments: &mut Arguments) -> Result<HoldRef, String> {
    let pool = pool(arguments)?;
    let token = arguments.number("token")?;
    let key = match (token, arguments.get("key")) {
        (Some(token), None) => KeyOf::Grant { token, actor: actor.to_owned() },
        (None, Some(key)) if key == "wrong" => KeyOf::Wrong,
        (Some(token), Some(of)) => KeyOf::Grant { token, actor: of },
        _ => return Err("a hold is `token=N`, `token=N key=ACTOR` or `key=wrong`".into()),
    };
    Ok(HoldRef { pool, key })
}

fn session(arguments: &mut Arguments) -> Result<Action, String> {
    Ok(match arguments.word("what to do with the session")?.as_str() {
        "open" => Action::OpenSession(OpenSession {
            namespace: namespace(arguments),
            grace: arguments.duration("grace")?.ok_or("`grace=` is missing")?,
            polled: arguments.flag("polled"),
        }),
        "keep-alive" => Action::KeepAlive,
        "drop" => Action::DropSession,
        "drop-old" => Action::DropOldConnection,
        "resume" => Action::ResumeSession,
        "end" => Action::EndSession,
        other => return Err(format!("`session {other}` is not something to do")),
    })
}

fn set_pool(arguments: &mut Arguments) -> Result<SetPool, String> {
    let pool = pool(arguments)?;
    let units = arguments.number("units")?;
    let resources: Vec<_> = arguments.all("resource").iter().map(|text| resource(text)).collect();
    let placement = match arguments.get("placement").as_deref() {
        None | Some("first") => Placement::First,
        Some("least-recently-used") => Placement::LeastRecentlyUsed,
        Some("most-recently-used") => Placement::MostRecentlyUsed,
        Some("random") => Placement::Random,
        Some(other) => match other.strip_prefix("spread:") {
            Some(label) => Placement::Spread(label.to_owned()),
            None => return Err(format!("`{other}` is not a placement")),
        },
    };
    let capacity = match (units, resources) {
        (Some(units), resources) if resources.is_empty() && placement == Placement::First => Capacity::Units(units),
        (None, resources) => Capacity::Resources { placement, resources },
        _ => return Err("a pool has units, or resources and a placement".into()),
    };
    let backfill = match arguments.get("order").as_deref() {
        None | Some("strict") => false,
        Some("backfill") => true,
        Some(other) => return Err(format!("`{other}` is not an order")),
    };
    let weights = arguments.get("weights").unwrap_or_default();
    let weights = weights.split_whitespace().map(pair).map(|(group, weight)| match weight.parse() {
        Ok(weight) => Ok((group, weight)),
        Err(_) => Err(format!("`{weight}` is not a weight")),
    });
    let weights = weights.collect::<Result<_, _>>()?;
    let fair = arguments.get("fair").map(|by| Fair { by, weights });
    let (cleaning, size_was) = (arguments.flag("cleaning"), arguments.number("size-was")?);
    let (place_by, order_by) = (arguments.get("place-by"), arguments.get("order-by"));
    let window = arguments.duration("window")?;
    Ok(SetPool { pool, capacity, backfill, window, cleaning, fair, place_by, order_by, size_was })
}

/// `a gpu mem=80 @port=3000`: the name, labels, and properties with an `@`.
fn resource(text: &str) -> Resource {
    let mut words = text.split_whitespace();
    let mut resource =
        Resource { name: words.next().unwrap_or_default().to_owned(), labels: Vec::new(), properties: Vec::new() };
    for word in words {
        let (list, word) = match word.strip_prefix('@') {
            Some(word) => (&mut resource.properties, word),
            None => (&mut resource.labels, word),
        };
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        list.push((name.to_owned(), value.to_owned()));
    }
    resource
}

fn set_condition(
    arguments: &mut Arguments,
    condition: impl FnOnce(Option<String>) -> Result<Condition, String>,
) -> Result<Action, String> {
    let pool = pool(arguments)?;
    let condition = condition(arguments.get("note"))?;
    let (resource, lasts) = (arguments.get("resource"), arguments.duration("for")?);
    let state_was = match arguments.get("state-was").as_deref() {
        None => None,
        Some("in-service") => Some(State::InService),
        Some("drained") => Some(State::Drained),
        Some("quarantined") => Some(State::Quarantined),
        Some(other) => return Err(format!("`{other}` is not a condition")),
    };
    Ok(Action::SetCondition(SetCondition { pool, resource, condition, lasts, state_was }))
}
