//! Why something was not done. A refusal is the server's normal answer; the others are about reaching it.

use tenure_proto::v1;

/// Why something was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server's answer, with what it knows: a code, advice, who holds what was asked for.
    #[error("{}", .0.message)]
    Refused(Box<v1::Refusal>),
    /// Nobody answered, or not in time.
    #[error("no server can be reached at {address}: {why}")]
    Unreachable { address: String, why: String },
    /// Something else listens there, or a server of another version.
    #[error("what answers at {address} is not a Tenure server of this version: {why}")]
    Foreign { address: String, why: String },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// What a failed call of [`Client::api`](crate::Client::api) or [`connect_api`](crate::connect_api) means.
    pub fn of_status(address: &str, status: tonic::Status) -> Self {
        if let Some(refusal) = tenure_proto::refusal_of(&status) {
            return Self::Refused(Box::new(refusal));
        }
        let address = address.to_owned();
        match crate::link::foreign(&status) {
            Some(why) => Self::Foreign { address, why },
            None => Self::Unreachable { address, why: crate::link::reason_of_status(&status) },
        }
    }

    /// A stable name for programs: the refusal's code, or `unreachable`, `foreign_server`, `closed`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            Self::Unreachable { .. } => "unreachable",
            Self::Foreign { .. } => "foreign_server",
            Self::Closed => "closed",
        }
    }

    /// No room, and the request would not wait.
    pub fn is_busy(&self) -> bool {
        self.code() == "busy"
    }

    /// No room for as long as the request would wait.
    pub fn is_timed_out(&self) -> bool {
        self.code() == "timed_out"
    }

    /// Whether what was asked may have taken effect all the same. An acquire that failed so is withdrawn as soon as the
    /// server can be reached.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.may_have_happened,
            Self::Unreachable { .. } => true,
            Self::Foreign { .. } | Self::Closed => false,
        }
    }
}
