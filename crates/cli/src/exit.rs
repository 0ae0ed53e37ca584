//! Why the process ends, as a line on stderr and an exit code. The codes are a contract: those of sysexits.h where one
//! fits, those of shells for what happens to a command that is run, and 79 for a hold that was lost.

use std::process::ExitCode;

use tenure_engine::StoreError;
use tenure_proto::v1;
use tenure_server::StartError;

use crate::output;

pub(crate) const HELP: &str = "\
Exit codes:
   0  done; `run` has the code of its command instead
   1  refused, and waiting would not help: not held any more, no such pool, more than there is
  64  the command line, the configuration or the request cannot be used
  66  a file that was named cannot be read
  69  the server cannot be reached or does not serve now; an address cannot be listened on
  70  the process could not be set up
  73  the data directory cannot be used: another server has it, or it is something else
  74  reading or writing failed
  75  no room now, or none in time; -E takes another code
  76  what answers is not a Tenure server, or one of another version
  77  the server wants a password, or another one
  79  the hold was lost while it was needed; `run` has stopped its command
 126  `run`: the command cannot be run
 127  `run`: the command was not found
 128+ ended by this signal: 130 by SIGINT, 143 by SIGTERM";

pub(crate) const REFUSED: u8 = 1;
pub(crate) const USAGE: u8 = 64;
pub(crate) const NO_INPUT: u8 = 66;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const SETUP: u8 = 70;
pub(crate) const CANNOT_CREATE: u8 = 73;
pub(crate) const IO: u8 = 74;
pub(crate) const BUSY: u8 = 75;
pub(crate) const FOREIGN: u8 = 76;
pub(crate) const NO_PERMISSION: u8 = 77;
pub(crate) const LOST: u8 = 79;

#[derive(Debug)]
pub(crate) enum Exit {
    Usage {
        what: String,
        hint: String,
    },
    /// A file that was named cannot be read.
    NoInput {
        what: String,
        hint: String,
    },
    /// Something that is needed does not answer.
    #[cfg_attr(not(feature = "temporal"), expect(dead_code, reason = "only a build with Temporal can miss it"))]
    Unavailable {
        what: String,
        hint: String,
    },
    Start(StartError),
    Store(StoreError),
    Setup(std::io::Error),
    /// Output could not be written.
    Output(std::io::Error),
    Client(tenure_client::Error),
    /// The server has no room, and whoever asked chose this code for it.
    Conflict {
        error: tenure_client::Error,
        code: u8,
    },
    /// A hold was lost.
    Lost(String),
    CannotRun {
        what: String,
        not_found: bool,
    },
    /// Nothing to say but the code: it is another's, such as the command's.
    Code(u8),
}

impl Exit {
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    /// Ended by a signal, as a shell would say it.
    pub(crate) fn signal(number: i32) -> Self {
        Self::Code(u8::try_from(128 + number).unwrap_or(u8::MAX))
    }

    /// Says it, on stderr and for a program also as JSON on stdout, and gives the code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let code = self.code();
        let Some(told) = self.told() else { return ExitCode::from(code) };
        if json {
            output::error(&told);
        }
        // A line each, whatever is in there.
        output::note(&format!("error: {}", told.message));
        output::note(&format!("hint: {}", hint(&told)));
        ExitCode::from(code)
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage { .. } => USAGE,
            Self::NoInput { .. } => NO_INPUT,
            Self::Start(_) | Self::Unavailable { .. } => UNAVAILABLE,
            Self::Store(StoreError::Damaged(_) | StoreError::Io(_)) | Self::Output(_) => IO,
            Self::Store(StoreError::InUse(_) | StoreError::Format { .. } | StoreError::Foreign(..)) => CANNOT_CREATE,
            Self::Setup(_) => SETUP,
            Self::Client(error) => of_client(error),
            Self::Conflict { code, .. } | Self::Code(code) => *code,
            Self::Lost(_) => LOST,
            Self::CannotRun { not_found: true, .. } => 127,
            Self::CannotRun { not_found: false, .. } => 126,
        }
    }

    /// What happened and what to do; none if there is nothing to say.
    fn told(self) -> Option<v1::Refusal> {
        let (code, message, advice) = match self {
            Self::Usage { what, hint } => ("usage", what, hint),
            Self::NoInput { what, hint } => ("no_input", what, hint),
            Self::Unavailable { what, hint } => ("unreachable", what, hint),
            Self::Start(error) => {
                let flag = match &error {
                    StartError::Grpc { .. } => "--grpc",
                    StartError::Http { .. } => "--http",
                };
                let hint = format!("choose another address with {flag}; port 0 takes any that is free");
                ("start", error.to_string(), hint)
            }
            Self::Store(error) => {
                let hint = match &error {
                    StoreError::InUse(_) => "stop that server, or choose another directory with --data",
                    StoreError::Format { .. } | StoreError::Foreign(..) => "choose another directory with --data",
                    StoreError::Damaged(_) => "nothing was changed; restore a backup, or see docs/storage.md",
                    StoreError::Io(_) => "check the directory given with --data, its permissions and its disk",
                };
                ("store", error.to_string(), hint.to_owned())
            }
            Self::Setup(error) => ("setup", error.to_string(), "check the limits of this process".to_owned()),
            Self::Output(error) => {
                ("output", format!("the output cannot be written: {error}"), "check where it goes".to_owned())
            }
            Self::Client(error) | Self::Conflict { error, .. } => return Some(client(error)),
            Self::Lost(what) => {
                ("lost", what, "stop using what it protected; its token is no longer the newest".into())
            }
            Self::CannotRun { what, .. } => ("cannot_run", what, "check the command after `--`".to_owned()),
            Self::Code(_) => return None,
        };
        Some(v1::Refusal { code: code.to_owned(), message, advice, ..v1::Refusal::default() })
    }
}

/// What to do, in the words of the command line where the server's are those of the API.
fn hint(told: &v1::Refusal) -> String {
    let option = match told.field.as_deref() {
        Some("namespace") => "--namespace",
        Some("pool") => "the name of the pool",
        Some("meta") => "--meta or --reason",
        Some("size") => "--size",
        Some("select") => "--select",
        Some("priority") => "--priority",
        Some("ttl_ms") => "--ttl",
        Some("wait_ms") => "--wait",
        Some("holder") => "--holder",
        Some("owner") => "--owner",
        Some("request_id") => "--request-id",
        _ => return told.advice.clone(),
    };
    // Some commands have other words, and have said it in those.
    told.advice.replace("correct the request", &format!("correct {option}"))
}

impl From<tenure_client::Error> for Exit {
    fn from(error: tenure_client::Error) -> Self {
        Self::Client(error)
    }
}

pub(crate) fn of_client(error: &tenure_client::Error) -> u8 {
    match error {
        tenure_client::Error::Refused(refusal) => match refusal.code.as_str() {
            "busy" | "timed_out" | "out_of_service" | "limit_reached" => BUSY,
            "invalid_argument" => USAGE,
            "stopping" | "overloaded" => UNAVAILABLE,
            "lost" | "unreadable" => IO,
            _ => REFUSED,
        },
        tenure_client::Error::Foreign { .. } => FOREIGN,
        tenure_client::Error::Unauthenticated { .. } => NO_PERMISSION,
        tenure_client::Error::Unusable(_) => USAGE,
        tenure_client::Error::Unreachable { .. } | tenure_client::Error::Closed => UNAVAILABLE,
    }
}

fn client(error: tenure_client::Error) -> v1::Refusal {
    let message = error.to_string();
    let (code, advice) = match error {
        tenure_client::Error::Refused(refusal) => return *refusal,
        tenure_client::Error::Foreign { .. } => {
            ("foreign", "check --addr or TENURE_ADDR, and `tenure --version` here and there")
        }
        // As the client says it.
        tenure_client::Error::Unreachable { why, .. } if why.contains("certificate") || why.contains("TLS") => {
            ("unreachable", "check --tls-ca, --client-cert and --client-key, or their variables")
        }
        tenure_client::Error::Unreachable { .. } => {
            ("unreachable", "start one with `tenure serve`, or say where it is with --addr or TENURE_ADDR")
        }
        tenure_client::Error::Unauthenticated { .. } => {
            ("unauthenticated", "say the password with TENURE_PASSWORD or --password-file")
        }
        tenure_client::Error::Unusable(_) => {
            ("unusable", "check TENURE_PASSWORD, --password-file, --tls-ca, --client-cert and --client-key")
        }
        tenure_client::Error::Closed => ("closed", "try again"),
    };
    let retry = !matches!(code, "foreign" | "unauthenticated" | "unusable");
    v1::Refusal { code: code.into(), message, advice: advice.into(), retry, ..v1::Refusal::default() }
}
