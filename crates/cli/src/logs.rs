//! Logs go to stderr: for people on a terminal, as JSON where a machine reads them.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

pub(crate) fn start(filter: &str, format: Format) -> Result<(), Exit> {
    let filter = EnvFilter::try_new(filter).map_err(|error| Exit::Usage {
        what: format!("the log filter `{filter}` cannot be used: {error}"),
        hint: "try --log info, or --log tenure_server=debug".to_owned(),
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
