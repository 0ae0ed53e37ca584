//! Why the process ends, as a line on stderr and an exit code. The codes are a contract, those of sysexits.h.

use std::process::ExitCode;

use tenure_engine::StoreError;
use tenure_server::StartError;

pub(crate) const HELP: &str = "\
Exit codes:
   0  stopped as asked
  64  the command line cannot be used
  69  an address cannot be listened on
  70  the process could not be set up
  73  the data directory cannot be used: another server has it, or it is something else
  74  reading or writing the data directory failed";

pub(crate) enum Exit {
    Usage { what: String, hint: String },
    Start(StartError),
    Store(StoreError),
    Setup(std::io::Error),
}

impl Exit {
    pub(crate) fn report(self) -> ExitCode {
        let (code, what, hint) = match self {
            Self::Usage { what, hint } => (64, what, hint),
            Self::Start(error) => {
                let flag = match &error {
                    StartError::Grpc { .. } => "--grpc",
                    StartError::Http { .. } => "--http",
                };
                let hint = format!("choose another address with {flag}; port 0 takes any that is free");
                (69, error.to_string(), hint)
            }
            Self::Store(error) => {
                let (code, hint) = match &error {
                    StoreError::InUse(_) => (73, "stop that server, or choose another directory with --data"),
                    StoreError::Format { .. } | StoreError::Foreign(..) => (73, "choose another directory with --data"),
                    StoreError::Damaged(_) => (74, "nothing was changed; restore a backup, or see docs/storage.md"),
                    StoreError::Io(_) => (74, "check the directory given with --data, its permissions and its disk"),
                };
                (code, error.to_string(), hint.to_owned())
            }
            Self::Setup(error) => (70, error.to_string(), "check the limits of this process".to_owned()),
        };
        eprintln!("error: {what}\nhint: {hint}");
        ExitCode::from(code)
    }
}
