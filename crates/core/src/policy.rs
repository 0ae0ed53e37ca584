//! The user's own code in a pool: what it is asked, what it may cost, and the trait it is behind.
//!
//! What the code is written in is not known here: whoever runs a machine gives it [`Policies`], which make something that
//! gives scores out of a pool's texts.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::command::{Capacity, Order, PoolSpec};
use crate::limits::{DECISION_OPERATIONS_MAX, HANDOUT_OPERATIONS_MAX, NOTE_BYTES_MAX, SCRIPT_BYTES_MAX};
use crate::names::{Holder, Invalid, Labels, Note, Priority, ResourceName};

/// Makes policies out of what pools carry as text: a language's compiler, or a table of names of code of your own. The
/// same text must always come to mean the same.
pub trait Policies: Send + Sync {
    fn compile(&self, which: Which, text: &str) -> Result<Arc<dyn Policy>, Fault>;
}

/// Gives scores. It must not remember anything between two calls, nor look at anything but what it is given: the same
/// question has the same answer, today and on another machine.
pub trait Policy: Send + Sync {
    /// How well a free resource suits a request, or how much a waiter deserves what is free: the highest score wins. Pools
    /// of units have no resource to show.
    fn score(&self, request: &Request<'_>, resource: Option<&Offer<'_>>, budget: &mut Budget) -> Result<i64, Fault>;

    /// The same for several resources. Worth another way where preparing the request takes longer than a score.
    fn scores(&self, request: &Request<'_>, resources: &[Offer<'_>], budget: &mut Budget) -> Result<Vec<i64>, Fault> {
        resources.iter().map(|resource| self.score(request, Some(resource), budget)).collect()
    }

    /// What it looks at: where that is the same it is not asked again, while one thing is handed out after another.
    fn sight(&self) -> Sight {
        Sight::default()
    }
}

/// What a policy looks at, of what may be different from one request or resource to the next. The default is everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The metadata by name, if that is all it looks at of who asks.
    pub meta: Option<Vec<String>>,
    /// How long somebody has waited.
    pub waited: bool,
    /// The labels by name, if they are all it looks at of a resource.
    pub labels: Option<Vec<String>>,
}

impl Default for Sight {
    fn default() -> Self {
        Self { meta: None, waited: true, labels: None }
    }
}

/// What a policy sees of somebody who asks.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub holder: &'a Holder,
    /// How much it asks for, as the pool is.
    pub units: u32,
    pub priority: Priority,
    pub selector: Option<&'a str>,
    /// It wants what is to be cleaned.
    pub dirty: bool,
    /// How long it has waited: nothing, if it has just come.
    pub waited_ms: u64,
}

/// What a policy sees of a resource that is free.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    pub name: &'a ResourceName,
    pub labels: &'a Labels,
}

/// What a pool carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scripts {
    /// Scores a free resource for a request.
    pub place: Option<Script>,
    /// Scores somebody who waits, for what is free.
    pub order: Option<Script>,
}

/// Which of a pool's two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Which {
    Place,
    Order,
}

impl Which {
    /// As callers know it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Place => "scripts.place",
            Self::Order => "scripts.order",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Order => "order",
        }
    }
}

/// The text of a policy. Not empty; lines may end.
#[derive(Clone, PartialEq, Eq)]
pub struct Script(Arc<String>);

impl Script {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::new("script", why));
        if text.trim().is_empty() {
            return refuse("is empty".into());
        }
        if text.len() > SCRIPT_BYTES_MAX {
            return refuse(format!("has {} bytes; the most is {SCRIPT_BYTES_MAX}", text.len()));
        }
        if let Some(at) = text.find(|it: char| it.is_control() && !matches!(it, '\n' | '\r' | '\t')) {
            return refuse(format!("has a control character at byte {at}"));
        }
        Ok(Self(Arc::new(text.into())))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Scripts {
    pub fn is_empty(&self) -> bool {
        self.place.is_none() && self.order.is_none()
    }

    pub fn get(&self, which: Which) -> Option<&Script> {
        match which {
            Which::Place => self.place.as_ref(),
            Which::Order => self.order.as_ref(),
        }
    }

    /// Whether a pool like this can have them, whatever they say.
    pub(crate) fn check(spec: &PoolSpec) -> Result<(), (Which, Fault)> {
        let Self { place, order } = &spec.scripts;
        let named = matches!(spec.capacity, Capacity::Resources { .. });
        let why = match () {
            () if place.is_some() && !named => (Which::Place, "has nothing to score: the pool has no named resources"),
            () if order.is_some() && spec.window.is_some() => (Which::Order, "has no say in a rate window"),
            () if order.is_some() && spec.order == Order::Strict => {
                (Which::Order, "needs the order `backfill`: of those who fit it says who is served first")
            }
            () if order.is_some() && spec.fair.is_some() => {
                (Which::Order, "cannot be together with `fair`: both say who is served first")
            }
            () => return Ok(()),
        };
        Err((why.0, Fault::new(why.1)))
    }
}

/// Why there is no score, in the user's code. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Option<(u32, u32)>,
    pub why: String,
}

impl Fault {
    pub fn new(why: impl Into<String>) -> Self {
        Self { at: None, why: why.into() }
    }

    pub fn at(line: u32, column: u32, why: impl Into<String>) -> Self {
        Self { at: Some((line, column)), why: why.into() }
    }

    /// As a sentence that fits into a note, whatever it is made of.
    pub(crate) fn note(&self) -> Note {
        let mut text: String = format!("{self}").chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
        while text.len() > NOTE_BYTES_MAX {
            text.pop();
        }
        Note::parse(&text).unwrap_or_else(|_| Note::parse("failed").expect("it is a note"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// What is left of what the scores of one decision may cost together.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    spent: u64,
    /// Whether it is what was left to all that is handed out together, and not that of a decision.
    last: bool,
    exceeded: bool,
}

impl Budget {
    pub fn of_a_decision() -> Self {
        Self { left: DECISION_OPERATIONS_MAX, spent: 0, last: false, exceeded: false }
    }

    /// Of a decision that is not alone, and others have left so much.
    pub(crate) fn at_most(left: u64) -> Self {
        Self { left: left.min(DECISION_OPERATIONS_MAX), last: left < DECISION_OPERATIONS_MAX, ..Self::of_a_decision() }
    }

    /// In operations: what one of them is, is the policy's affair, but it should take well below a microsecond.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// What is exceeded once has nothing left.
    pub fn spend(&mut self, operations: u64) -> Result<(), Fault> {
        self.spent = self.spent.saturating_add(operations);
        match self.left.checked_sub(operations) {
            Some(left) if !self.exceeded => {
                self.left = left;
                Ok(())
            }
            _ => {
                (self.left, self.exceeded) = (0, true);
                Err(self.fault())
            }
        }
    }

    fn fault(&self) -> Fault {
        if self.last {
            let max = HANDOUT_OPERATIONS_MAX;
            return Fault::new(format!(
                "takes more than the {max} operations for what is handed out at once: the rest is without it"
            ));
        }
        Fault::new(format!("takes more than the {DECISION_OPERATIONS_MAX} operations that one decision may take"))
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    /// Whether nothing is left to what is handed out together either.
    pub(crate) fn was_the_last(&self) -> bool {
        self.last && self.exceeded
    }
}
