//! The binary `tenure`. Without a subcommand it is the server.

mod env;
mod exit;
mod logs;
mod serve;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Let programs take turns: on locks, permits, pools of named resources and rate windows
#[derive(Parser)]
#[command(name = "tenure", version, args_conflicts_with_subcommands = true, after_long_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Args,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server; so does `tenure` alone
    #[command(after_long_help = exit::HELP)]
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let args = match cli.command {
        Some(Command::Serve(args)) => args,
        None => cli.serve,
    };
    match serve::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// One clear line and a hint, instead of a page.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A broken pipe is not an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let what: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let what = what.join(" ");
    Exit::Usage {
        what: what.strip_prefix("error: ").unwrap_or(&what).to_owned(),
        hint: tip.unwrap_or("`tenure --help` shows what there is").to_owned(),
    }
    .report()
}
