//! Logs go to stderr: for people on a terminal, as JSON where a machine reads them.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

pub(crate) fn start(filter: EnvFilter, format: Format) {
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
}

/// What the client has to say while a command waits or holds: that the connection was lost, and that it is back.
pub(crate) fn of_the_client() {
    let logs =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new("tenure_client=info")).with_writer(std::io::stderr);
    logs.without_time().with_level(false).with_target(false).with_ansi(false).init();
}
