//! What servers and keepers say to each other, and how it becomes bytes. A keeper may be hosted by a server of another
//! version than the one that asks, so every message begins with the version of all of them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_core::{Command, Event, Lifetime, Query, Refusal, Reply, Seq, SessionId, Timestamp, Token, View};

/// Raised with every change of a message or of anything in it.
pub(crate) const VERSION: u8 = 3;

/// A process in front of the keepers. Another number in each life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ServerId(pub(crate) u64);

impl ServerId {
    /// None of them: the workflow that the keeper lives in. All others are drawn at random.
    pub(crate) const HOUSE: Self = Self(0);
}

/// What a server has to say to a keeper, in one Update.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) server: ServerId,
    /// A server that starts again has the same one, and takes over from its former life.
    pub(crate) name: String,
    pub(crate) lane: Lane,
    /// From 1 in each lane. The same again, if it is not known what came of it.
    pub(crate) sequence: u64,
    /// What cannot be guessed: keys are made from it.
    pub(crate) seed: [u8; 32],
    pub(crate) mail: Vec<Mail>,
    /// Whoever follows what happens has come this far.
    pub(crate) follow: Option<Seq>,
    /// How long to wait for news, if there is nothing to answer.
    pub(crate) park_millis: u64,
}

/// One message may be under way in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lane {
    /// Commands; answered at once.
    Mail,
    /// Nothing but the wish to hear of news.
    News,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Mail {
    Command {
        ticket: u64,
        command: Command,
        returns: bool,
        /// Instead of one from the seed: a session has the same key with every keeper.
        nonce: Option<u128>,
    },
    HangUp {
        ticket: u64,
        unreceived: Option<Token>,
    },
    Detach {
        session: SessionId,
        attachment: u64,
    },
    Query {
        ticket: u64,
        query: Query,
    },
    /// The server stops: nobody waits on its behalf any more, and the connections of its sessions are gone.
    Farewell,
    /// For keepers whose time is told: this much has passed.
    Advance {
        ticket: u64,
        millis: u64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Said(Said),
    /// It was silent for too long, or the keeper is a new one: nobody waits on its behalf any more.
    Unknown,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Said {
    /// From 1: in this order it happened, in whichever lane it comes.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) answers: Vec<(u64, Reply)>,
    pub(crate) views: Vec<(u64, Result<View, Refusal>)>,
    pub(crate) last: Seq,
    /// What happened after the point that was asked for, as far as it fits.
    pub(crate) happened: Vec<Happened>,
    /// How many servers there are, this one too.
    pub(crate) servers: u32,
}

/// The events of one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Happened {
    pub(crate) first: Seq,
    pub(crate) at: Timestamp,
    pub(crate) events: Vec<Event>,
}

impl Happened {
    pub(crate) fn last(&self) -> Seq {
        Seq(self.first.0.saturating_add(self.events.len() as u64).saturating_sub(1))
    }
}

/// The grants among answers that nobody is ever going to hear. They are to be taken back; what ends with its session is
/// left to whoever comes back with it and asks again.
pub(crate) fn unheard(answers: &[(u64, Reply)]) -> Vec<(u64, Token)> {
    let granted = answers.iter().filter_map(|(ticket, reply)| match reply {
        Reply::Granted(grant) if !matches!(grant.lifetime, Lifetime::Session(_)) => Some((*ticket, grant.token)),
        _ => None,
    });
    granted.collect()
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a message of version {0}; this program speaks version {VERSION}: let all servers have the same version")]
    Version(u8),
    #[error("a message that cannot be read: {0}")]
    Malformed(String),
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, vec![VERSION]).expect("these types can all be written")
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| Unreadable::Malformed(error.to_string())),
        Some((&version, _)) => Err(Unreadable::Version(version)),
        None => Err(Unreadable::Malformed("it is empty".to_owned())),
    }
}
