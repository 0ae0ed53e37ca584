//! Why a request was not done, told the same way by every front end.
//!
//! One table maps every reason to its gRPC code and its HTTP status; one function makes the message that both
//! carry. docs/api.md shows the table.

use axum::http::StatusCode;
use tenure_core::{Invalid, NoRoom, PoolPath, Refusal, Retry};
use tenure_engine::{EventsGone, Failure};
use tenure_proto::v1;
use tonic::Code;

use crate::convert;

#[derive(Debug)]
pub(crate) enum Error {
    /// Input that cannot be used, and the field it is in if it is in one.
    Invalid {
        field: Option<String>,
        message: String,
    },
    Refused(Box<Refusal>),
    Failed(Failure),
    EventsGone(EventsGone),
    Http(HttpError),
}

/// What only an HTTP request can get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpError {
    UnknownHost,
    UnknownPath,
    MethodNotAllowed,
    UnsupportedMediaType,
    BodyTooLarge,
    BodyTimeout,
}

impl Error {
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { field: Some(field.to_owned()), message: message.into() }
    }

    /// A stable name for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_argument",
            Self::Refused(refusal) => refusal.code(),
            Self::Failed(failure) => failure.code(),
            Self::EventsGone(_) => "events_gone",
            Self::Http(HttpError::UnknownHost) => "unknown_host",
            Self::Http(HttpError::UnknownPath) => "unknown_path",
            Self::Http(HttpError::MethodNotAllowed) => "method_not_allowed",
            Self::Http(HttpError::UnsupportedMediaType) => "unsupported_media_type",
            Self::Http(HttpError::BodyTooLarge) => "body_too_large",
            Self::Http(HttpError::BodyTimeout) => "body_timeout",
        }
    }

    /// `ABORTED` is for what may succeed if the caller starts over, `FAILED_PRECONDITION` for what somebody has to
    /// change first. No lack of room is `DEADLINE_EXCEEDED` or 408: libraries make those up themselves, and
    /// retry them.
    pub(crate) fn statuses(&self) -> (Code, StatusCode) {
        match self {
            Self::Invalid { .. } => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Self::Refused(refusal) => match **refusal {
                Refusal::UnknownSession | Refusal::UnknownPool { .. } | Refusal::UnknownResource { .. } => {
                    (Code::NotFound, StatusCode::NOT_FOUND)
                }
                Refusal::RequestReused { .. } => (Code::AlreadyExists, StatusCode::CONFLICT),
                Refusal::BadScript { .. } => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
                Refusal::LimitReached { .. } => (Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS),
                Refusal::Busy(_)
                | Refusal::TimedOut(_)
                | Refusal::Withdrawn { .. }
                | Refusal::MovedOn { .. }
                | Refusal::Changed { .. }
                | Refusal::PoolChanged { .. } => (Code::Aborted, StatusCode::CONFLICT),
                _ => (Code::FailedPrecondition, StatusCode::CONFLICT),
            },
            Self::Failed(Failure::Overloaded { .. } | Failure::Stopping) => {
                (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Failed(Failure::Lost) => (Code::Unknown, StatusCode::INTERNAL_SERVER_ERROR),
            Self::Failed(Failure::Unreadable(_)) => (Code::Internal, StatusCode::INTERNAL_SERVER_ERROR),
            Self::EventsGone(_) => (Code::OutOfRange, StatusCode::GONE),
            Self::Http(HttpError::UnknownHost) => (Code::FailedPrecondition, StatusCode::MISDIRECTED_REQUEST),
            Self::Http(HttpError::UnknownPath) => (Code::Unimplemented, StatusCode::NOT_FOUND),
            Self::Http(HttpError::MethodNotAllowed) => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED),
            Self::Http(HttpError::UnsupportedMediaType) => (Code::InvalidArgument, StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::Http(HttpError::BodyTooLarge) => (Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE),
            Self::Http(HttpError::BodyTimeout) => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
        }
    }

    /// The message as both front ends send it. Every no goes through here once, so here it is counted.
    pub(crate) fn tell(&self) -> v1::Refusal {
        let code = self.code();
        metrics::counter!("tenure_refusals_total", "code" => code).increment(1);
        let told = match self {
            Self::Invalid { field, message } => v1::Refusal {
                message: message.clone(),
                advice: "correct the request; nothing was changed".into(),
                field: field.clone(),
                ..v1::Refusal::default()
            },
            Self::Refused(refusal) => refused(refusal),
            Self::Failed(failure) => failed(failure),
            Self::EventsGone(gone) => v1::Refusal {
                message: gone.to_string(),
                advice: "look at the state as it is now, and go on from the newest event".into(),
                oldest: Some(gone.oldest.0),
                ..v1::Refusal::default()
            },
            Self::Http(error) => error.tell(),
        };
        // Not the message: it may repeat a request id, and that is as good as a key.
        tracing::debug!(code, field = told.field, pool = told.pool, "refused");
        v1::Refusal { code: code.into(), ..told }
    }
}

impl From<Box<Refusal>> for Error {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<EventsGone> for Error {
    fn from(gone: EventsGone) -> Self {
        Self::EventsGone(gone)
    }
}

/// Says in which field of the message something unusable was.
pub(crate) trait InField<T> {
    fn in_field(self, field: &str) -> Result<T, Error>;
}

impl<T> InField<T> for Result<T, Invalid> {
    fn in_field(self, field: &str) -> Result<T, Error> {
        self.map_err(|invalid| Error::invalid(field, invalid.to_string()))
    }
}

impl HttpError {
    fn tell(self) -> v1::Refusal {
        let (message, advice) = match self {
            Self::UnknownHost => (
                "a server without a password that listens on loopback is not reached by this host name",
                "ask for localhost or for an address, or give the server a password",
            ),
            Self::UnknownPath => ("there is nothing at this path", "see /api/v1/openapi.json for what there is"),
            Self::MethodNotAllowed => {
                ("the path does not know this method", "see /api/v1/openapi.json for what there is")
            }
            // A browser may send anything else to any server without asking first, so anything else is refused.
            Self::UnsupportedMediaType => (
                "the body must be JSON and say so",
                "send the header `content-type: application/json`; with curl, use --json instead of -d",
            ),
            Self::BodyTooLarge => ("the body is larger than 4 MiB", "send less at once"),
            Self::BodyTimeout => ("the body did not arrive in time, or not as a whole", "send it again"),
        };
        v1::Refusal {
            message: message.into(),
            advice: advice.into(),
            retry: self == Self::BodyTimeout,
            ..v1::Refusal::default()
        }
    }
}

fn failed(failure: &Failure) -> v1::Refusal {
    let advice = match failure {
        Failure::Overloaded { .. } => "try again in a second",
        Failure::Stopping => "try again when the server is back",
        Failure::Lost => "try again when the server is back, with the same request id if there was one",
        Failure::Unreadable(_) => "see the server's log",
    };
    if let Failure::Unreadable(why) = failure {
        tracing::error!(why, "the log could not be read");
    }
    v1::Refusal {
        message: failure.to_string(),
        advice: advice.into(),
        retry: !matches!(failure, Failure::Unreadable(_)),
        may_have_happened: failure.may_have_happened(),
        ..v1::Refusal::default()
    }
}

fn refused(refusal: &Refusal) -> v1::Refusal {
    let told = v1::Refusal {
        message: refusal.to_string(),
        advice: refusal.advice(),
        retry: refusal.retry() == Retry::Later,
        ..v1::Refusal::default()
    };
    match refusal {
        Refusal::UnknownSession
        | Refusal::SessionTakenOver
        | Refusal::RequestReused { .. }
        | Refusal::Withdrawn { .. }
        | Refusal::NotHeld => told,
        Refusal::RequestEnded { token, .. } => v1::Refusal { token: token.map(|token| token.0), ..told },
        Refusal::UnknownPool { pool }
        | Refusal::WrongKind { pool, .. }
        | Refusal::PoolRemoving { pool }
        | Refusal::Changed { pool, .. } => about(pool, told),
        Refusal::UnknownResource { pool, resource } => {
            about(pool, v1::Refusal { resource: Some(resource.to_string()), ..told })
        }
        Refusal::SizeMismatch { pool, size, .. } => about(pool, v1::Refusal { size: Some(*size), ..told }),
        Refusal::WindowMismatch { pool, window } => {
            about(pool, v1::Refusal { window_ms: window.map(|window| window.as_millis()), ..told })
        }
        Refusal::NeverFits { pool, most, .. } => about(pool, v1::Refusal { most: Some(*most), ..told }),
        Refusal::LimitReached { limit, max } => {
            v1::Refusal { limit: Some(limit.to_string()), max: Some(*max as u64), ..told }
        }
        Refusal::PoolsApart { pool, other } => {
            about(pool, v1::Refusal { other_pool: Some(other.name().to_string()), ..told })
        }
        Refusal::Deadlock { cycle } => {
            let blocked = cycle.iter().map(|it| v1::Blocked {
                holder: it.holder.to_string(),
                session: it.session.map(|session| session.0),
                pool: it.pool.name().to_string(),
                token: it.token.map(|token| token.0),
            });
            let told = v1::Refusal { cycle: blocked.collect(), ..told };
            cycle.iter().take(1).fold(told, |told, first| about(&first.pool, told))
        }
        Refusal::OutOfService { pool, condition } => {
            about(pool, v1::Refusal { condition: Some(convert::condition(condition)), ..told })
        }
        Refusal::Busy(room) | Refusal::TimedOut(room) => no_room(room, told),
        Refusal::NotRenewable { token, .. } => v1::Refusal { token: Some(token.0), ..told },
        Refusal::NotReleasable { token, deadline } => {
            v1::Refusal { token: Some(token.0), deadline_ms: Some(deadline.as_millis()), ..told }
        }
        Refusal::MovedOn { pool, expected, now } => about(
            pool,
            v1::Refusal { token: Some(expected.0), holders: now.iter().map(convert::hold).collect(), ..told },
        ),
        Refusal::PoolChanged { pool, resource, size, condition } => about(
            pool,
            v1::Refusal {
                resource: resource.as_ref().map(ToString::to_string),
                size: Some(*size),
                condition: Some(convert::condition(condition)),
                ..told
            },
        ),
        Refusal::BadScript { pool, which, at, .. } => about(
            pool,
            v1::Refusal {
                field: Some(which.field().to_owned()),
                line: at.map(|(line, _)| line),
                column: at.map(|(_, column)| column),
                ..told
            },
        ),
    }
}

fn about(pool: &PoolPath, told: v1::Refusal) -> v1::Refusal {
    v1::Refusal { namespace: Some(pool.namespace().to_string()), pool: Some(pool.name().to_string()), ..told }
}

fn no_room(room: &NoRoom, told: v1::Refusal) -> v1::Refusal {
    about(
        &room.pool,
        v1::Refusal {
            at_ms: Some(room.at.as_millis()),
            holders: room.holders.iter().map(convert::hold).collect(),
            holders_total: Some(room.holders_total as u64),
            position: Some(room.position as u64),
            free: Some(room.free),
            also: room.also.iter().map(also_no_room).collect(),
            dirty: Some(room.dirty),
            reserved: room
                .reserved
                .iter()
                .map(|(resource, holder)| v1::ReservedFor {
                    resource: resource.to_string(),
                    holder: holder.to_string(),
                })
                .collect(),
            ..told
        },
    )
}

fn also_no_room(room: &NoRoom) -> v1::NoRoom {
    v1::NoRoom {
        pool: room.pool.name().to_string(),
        holders: room.holders.iter().map(convert::hold).collect(),
        holders_total: room.holders_total as u64,
        position: room.position as u64,
        free: room.free,
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::*;

    use super::*;

    /// One of each, in order of precedence.
    fn all() -> Vec<Error> {
        let pool = || PoolPath::new(Namespace::default(), PoolName::parse("db").unwrap());
        let request = || RequestId::parse("r").unwrap();
        let room = || {
            let at = Timestamp::from_millis(0);
            let holders = Vec::new();
            let (dirty, reserved, also) = (0, Vec::new(), Vec::new());
            Box::new(NoRoom {
                pool: pool(),
                at,
                holders,
                holders_total: 0,
                position: 1,
                free: 0,
                dirty,
                reserved,
                also,
            })
        };
        let token = Token(1);
        let refusals = [
            Refusal::UnknownSession,
            Refusal::SessionTakenOver,
            Refusal::RequestEnded { request: request(), token: None },
            Refusal::RequestReused { request: request() },
            Refusal::UnknownPool { pool: pool() },
            Refusal::UnknownResource { pool: pool(), resource: ResourceName::parse("a").unwrap() },
            Refusal::WrongKind { pool: pool(), why: "".into() },
            Refusal::SizeMismatch { pool: pool(), size: 1, asked: 2 },
            Refusal::WindowMismatch { pool: pool(), window: None },
            Refusal::PoolRemoving { pool: pool() },
            Refusal::NeverFits { pool: pool(), asked: 2, most: 1 },
            Refusal::LimitReached { limit: "holds_max".into(), max: 1 },
            Refusal::PoolsApart { pool: pool(), other: pool() },
            Refusal::Deadlock { cycle: Vec::new() },
            Refusal::OutOfService { pool: pool(), condition: Condition::Drained(None) },
            Refusal::Busy(room()),
            Refusal::TimedOut(room()),
            Refusal::Withdrawn { request: None },
            Refusal::NotHeld,
            Refusal::NotRenewable { token, why: "".into(), advice: "".into() },
            Refusal::NotReleasable { token, deadline: Timestamp::from_millis(0) },
            Refusal::MovedOn { pool: pool(), expected: token, now: Vec::new() },
            Refusal::PoolChanged { pool: pool(), resource: None, size: 1, condition: Condition::InService },
            Refusal::BadScript { pool: pool(), which: Which::Place, at: Some((1, 2)), why: "is wrong".into() },
        ];
        let before = [
            Error::invalid("pool", "pool name is empty"),
            Error::Failed(Failure::Stopping),
            Error::Failed(Failure::Overloaded { waiting: 1 }),
        ];
        let after = [
            Error::EventsGone(EventsGone { oldest: Seq(2) }),
            Error::Failed(Failure::Lost),
            Error::Failed(Failure::Unreadable(String::new())),
        ];
        before.into_iter().chain(refusals.map(Error::from)).chain(after).collect()
    }

    #[test]
    fn the_documented_table_of_codes_is_true() {
        let documented: Vec<_> = include_str!("../../../docs/api.md")
            .lines()
            .skip_while(|line| !line.starts_with("| Code | gRPC |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(|line| line.rsplitn(3, '|').nth(2).unwrap().to_owned())
            .collect();
        let true_table: Vec<_> = all()
            .iter()
            .map(|error| {
                let ((grpc, http), told) = (error.statuses(), error.tell());
                // `FailedPrecondition` as gRPC writes it.
                let mut name = String::new();
                for letter in format!("{grpc:?}").chars() {
                    if letter.is_uppercase() && !name.is_empty() {
                        name.push('_');
                    }
                    name.push(letter.to_ascii_uppercase());
                }
                let retry = if told.retry { "yes" } else { "no" };
                format!("| `{}` | `{name}` | {} | {retry} ", told.code, http.as_u16())
            })
            .collect();
        assert_eq!(documented, true_table);
    }

    #[test]
    fn only_what_was_lost_may_have_happened() {
        for error in all() {
            assert_eq!(error.tell().may_have_happened, error.code() == "lost", "{}", error.code());
        }
    }
}
