//! The binary `tenure`. Without a subcommand it is the server; what the subcommands do is in the module of each.

mod access;
mod acquire;
mod arguments;
mod config;
mod connection;
mod demo;
mod elect;
mod env;
mod environment;
mod exit;
mod generate;
mod hold;
mod ldlm;
mod logs;
mod look;
mod operate;
mod output;
mod patience;
mod pool;
mod pools;
mod rate;
mod run;
mod serve;
mod supervise;
mod temporal;
mod top;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Exit;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Let programs take turns: on locks, permits, pools of named resources and rate windows
///
/// Without a command this is the server, and takes the options of `tenure serve`.
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
    Run(run::Args),
    Acquire(acquire::Args),
    Renew(hold::RenewArgs),
    Release(hold::ReleaseArgs),
    Withdraw(hold::WithdrawArgs),
    Rate(rate::Args),
    Elect(elect::Args),

    Ls(look::LsArgs),
    Show(look::ShowArgs),
    Queue(look::QueueArgs),
    Explain(look::ExplainArgs),
    Holds(look::HoldsArgs),
    Sessions(look::SessionsArgs),
    Watch(look::WatchArgs),
    History(look::HistoryArgs),
    Top(top::Args),

    #[command(subcommand, arg_required_else_help = false)]
    Pool(pool::Command),
    ForceRelease(operate::ForceReleaseArgs),
    Steal(operate::StealArgs),
    Move(operate::MoveArgs),
    Reserve(operate::ReserveArgs),
    Unreserve(operate::UnreserveArgs),
    OwnerGone(operate::OwnerGoneArgs),
    #[command(subcommand, arg_required_else_help = false)]
    Ldlm(ldlm::Command),
    #[command(subcommand, arg_required_else_help = false)]
    Temporal(temporal::Command),

    /// Run the server; so does `tenure` alone
    #[command(after_long_help = serve::HELP)]
    Serve(serve::Args),
    Demo(demo::Args),

    /// Print a script that lets a shell complete commands and options
    #[command(after_long_help = generate::COMPLETIONS_HELP)]
    Completions(generate::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(after_long_help = generate::MAN_HELP)]
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    // Not a command for people, and what follows belongs to somebody else.
    let arguments: Vec<_> = std::env::args_os().collect();
    if supervise::guard::is_called(&arguments) {
        return supervise::guard::main(&arguments);
    }
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments),
    };
    let Some(command) = cli.command else { return finish(serve::run(cli.serve), false) };
    let json = command.json();
    finish(command.run(), json)
}

/// What can be said. The server's options are told where it is called by its name, or they would drown the rest.
fn command_line() -> clap::Command {
    without_empty_variables(Cli::command()).mut_args(|option| option.hide(true))
}

/// A variable that is set to nothing is as good as not set.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |option: &clap::Arg| {
        option.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|it| it.is_empty()))
    };
    command
        .mut_args(|option| if is_empty(&option) { option.env(Resettable::Reset) } else { option })
        .mut_subcommands(without_empty_variables)
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut cli = command_line();
    // The server's variables are read for `tenure` alone; a bad one must not keep other commands from working.
    if arguments.get(1).is_some_and(|name| cli.find_subcommand(name).is_some()) {
        cli = cli.mut_args(|option| option.env(Resettable::Reset));
    }
    Cli::from_arg_matches(&cli.try_get_matches_from(arguments)?)
}

impl Command {
    /// Whether the answer, and a refusal too, is wanted as JSON.
    fn json(&self) -> bool {
        match self {
            Self::Acquire(args) => args.output.json,
            Self::Renew(args) => args.output.json,
            Self::Release(args) => args.output.json,
            Self::Withdraw(args) => args.output.json,
            Self::Rate(args) => args.output.json,
            Self::Elect(args) => args.output.json,
            Self::Ls(args) => args.output.json,
            Self::Show(args) => args.output.json,
            Self::Queue(args) => args.output.json,
            Self::Explain(args) => args.output.json,
            Self::Holds(args) => args.output.json,
            Self::Sessions(args) => args.output.json,
            Self::Watch(args) => args.output.json,
            Self::History(args) => args.output.json,
            Self::Pool(command) => command.json(),
            Self::ForceRelease(args) => args.output.json,
            Self::Steal(args) => args.output.json,
            Self::Move(args) => args.output.json,
            Self::Reserve(args) => args.output.json,
            Self::Unreserve(args) => args.output.json,
            Self::OwnerGone(args) => args.output.json,
            Self::Ldlm(command) => command.json(),
            Self::Temporal(command) => command.json(),
            Self::Run(_) | Self::Top(_) | Self::Serve(_) | Self::Demo(_) | Self::Completions(_) | Self::Man(_) => false,
        }
    }

    fn run(self) -> Result<(), Exit> {
        match self {
            Self::Run(args) => block_on(run::run(args)),
            Self::Acquire(args) => block_on(acquire::run(args)),
            Self::Renew(args) => block_on(hold::renew(args)),
            Self::Release(args) => block_on(hold::release(args)),
            Self::Withdraw(args) => block_on(hold::withdraw(args)),
            Self::Rate(args) => block_on(rate::run(args)),
            Self::Elect(args) => block_on(elect::run(args)),
            Self::Ls(args) => block_on(look::ls(args)),
            Self::Show(args) => block_on(look::show(args)),
            Self::Queue(args) => block_on(look::queue(args)),
            Self::Explain(args) => block_on(look::explain(args)),
            Self::Holds(args) => block_on(look::holds(args)),
            Self::Sessions(args) => block_on(look::sessions(args)),
            Self::Watch(args) => block_on(look::watch(args)),
            Self::History(args) => block_on(look::history(args)),
            Self::Top(args) => block_on(top::run(args)),
            Self::Pool(command) => block_on(pool::run(command)),
            Self::ForceRelease(args) => block_on(operate::force_release(args)),
            Self::Steal(args) => block_on(operate::steal(args)),
            Self::Move(args) => block_on(operate::move_waiter(args)),
            Self::Reserve(args) => block_on(operate::reserve(args)),
            Self::Unreserve(args) => block_on(operate::unreserve(args)),
            Self::OwnerGone(args) => block_on(operate::owner_gone(args)),
            Self::Ldlm(command) => block_on(ldlm::run(command)),
            Self::Temporal(command) => block_on(temporal::run(command)),
            Self::Serve(args) => serve::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Completions(args) => generate::completions(&args, &command_line()),
            Self::Man(args) => generate::man(&args, &command_line()),
        }
    }
}

/// A client has one thing to do at a time.
fn block_on(done: impl Future<Output = Result<(), Exit>>) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::Setup)?;
    runtime.block_on(done)
}

fn finish(done: Result<(), Exit>, json: bool) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(json),
    }
}

/// One clear line and a hint, instead of a page.
fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // A broken pipe is not an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if arguments.get(1).is_some_and(|word| word == "acquire") && arguments.iter().any(|word| word == "--eval") {
        // A script that evaluates nothing would go on without its hold.
        let _ = output::print(&acquire::failing(exit::USAGE));
    }
    let text = error.render().to_string();
    let what: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let what = what.join(" ");
    let what =
        what.strip_prefix("error: ").unwrap_or(&what).replace("invalid digit found in string", "expected a number");
    Exit::Usage { what, hint: usage_hint(error, tip, arguments) }.report(false)
}

fn usage_hint(error: &clap::Error, tip: Option<&str>, arguments: &[OsString]) -> String {
    // Subcommands come before all options.
    let (mut command, mut name) = (&command_line(), "tenure".to_owned());
    for word in arguments.iter().skip(1) {
        let Some(inner) = command.find_subcommand(word) else { break };
        name = format!("{name} {}", inner.get_name());
        command = inner;
    }
    if let Some(variable) = config::variable_behind(error, command, arguments) {
        return format!("it comes from the variable {variable}");
    }
    let lacks_command = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument);
    if lacks_command && name == "tenure run" && !arguments.iter().any(|word| word == "--") {
        return "the command comes after `--`: tenure run POOL -- COMMAND".to_owned();
    }
    match tip {
        // To say `--` is seldom what was meant.
        Some(tip) if !tip.starts_with("to pass ") => tip.to_owned(),
        _ => format!("`{name} --help` shows what there is"),
    }
}
