//! Why something was not done. A refusal is the server's normal answer; the others are about reaching it.

use tenure_proto::v1;

use crate::address::check_address;

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
    /// The server wants a password, or another one.
    #[error("the server at {address} does not let us in: {why}")]
    Unauthenticated { address: String, why: String },
    /// The password or the certificates to connect with are not what they should be. Nothing was sent.
    #[error("no connection can be made with this: {0}")]
    Unusable(String),
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
        if crate::link::wants_password(&status) {
            return Self::Unauthenticated { address, why: status.message().to_owned() };
        }
        match crate::link::foreign(&status) {
            Some(why) => Self::Foreign { address, why },
            None => Self::Unreachable { address, why: crate::link::reason_of_status(&status) },
        }
    }

    /// A stable name for programs: the refusal's code, or `unreachable`, `foreign_server`, `unauthenticated`,
    /// `unusable`, `closed`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            Self::Unreachable { .. } => "unreachable",
            Self::Foreign { .. } => "foreign_server",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::Unusable(_) => "unusable",
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

    /// Whether it may be over after a while, so that asking again makes sense: nobody can be reached, or the server is
    /// stopping, has too much to do or cannot tell what became of it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refusal) => has_no_time(refusal),
            Self::Unreachable { address, .. } => check_address(address).is_ok(),
            Self::Foreign { .. } | Self::Unauthenticated { .. } | Self::Unusable(_) | Self::Closed => false,
        }
    }

    /// Whether what was asked may have taken effect all the same. An acquire that failed so is withdrawn as soon as the
    /// server can be reached.
    pub fn may_have_happened(&self) -> bool {
        match self {
            // Nobody was spoken to.
            Self::Unreachable { address, .. } if check_address(address).is_err() => false,
            Self::Refused(refusal) => refusal.may_have_happened,
            Self::Unreachable { .. } => true,
            Self::Foreign { .. } | Self::Unauthenticated { .. } | Self::Unusable(_) | Self::Closed => false,
        }
    }
}

/// Nothing is wrong with the request: asked again, it may well be answered.
pub(crate) fn has_no_time(refusal: &v1::Refusal) -> bool {
    matches!(refusal.code.as_str(), "stopping" | "overloaded") || is_unsure(refusal)
}

/// The server does not know itself whether it was done.
pub(crate) fn is_unsure(refusal: &v1::Refusal) -> bool {
    refusal.code == "lost"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_whether_asking_again_makes_sense_and_whether_it_may_have_happened() {
        let refused = |code: &str| {
            let may_have_happened = code == "lost";
            Error::Refused(Box::new(v1::Refusal { code: code.into(), may_have_happened, ..v1::Refusal::default() }))
        };
        let unreachable = |address: &str| Error::Unreachable { address: address.into(), why: "cut".into() };
        for (error, may_pass, may_have_happened) in [
            (unreachable("127.0.0.1:3144"), true, true),
            (unreachable("not an address"), false, false),
            (refused("stopping"), true, false),
            (refused("overloaded"), true, false),
            (refused("lost"), true, true),
            (refused("busy"), false, false),
            (Error::Foreign { address: "127.0.0.1:3144".into(), why: "SSH".into() }, false, false),
            (Error::Closed, false, false),
        ] {
            assert_eq!((error.may_pass(), error.may_have_happened()), (may_pass, may_have_happened), "{error:?}");
        }
    }
}
