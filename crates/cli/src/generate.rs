//! Completions and manual pages, made from the same description of the command line that parses it.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Exit;
use crate::output;

const NAME: &str = "tenure";

#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell that shall complete
    shell: Shell,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Write the page of every command into this directory instead; it is made if there is none
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) const COMPLETIONS_HELP: &str = "\
Example:
  source <(tenure completions bash)";

pub(crate) const MAN_HELP: &str = "\
Examples:
  tenure man | man -l -
  tenure man --dir ~/.local/share/man/man1";

pub(crate) fn completions(args: &CompletionsArgs, cli: &Command) -> Result<(), Exit> {
    output::print(&script(args.shell, cli))?;
    Ok(())
}

pub(crate) fn man(args: &ManArgs, cli: &Command) -> Result<(), Exit> {
    let pages = pages(cli);
    let Some(dir) = &args.dir else {
        let (_, page) = pages.first().expect("the command itself has a page");
        output::print(page)?;
        return Ok(());
    };
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    for (name, page) in pages {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

fn script(shell: Shell, cli: &Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(cli), NAME, &mut script);
    String::from_utf8(script).expect("a script is text")
}

/// File names and contents, that of the command itself first.
fn pages(cli: &Command) -> Vec<(String, String)> {
    // A page about `help` would say nothing.
    let mut cli = visible(cli).disable_help_subcommand(true);
    cli.build();
    let mut pages = Vec::new();
    let mut left = vec![cli];
    while let Some(command) = left.pop() {
        // What only the long help shows would have no text on its page.
        let command = command.mut_args(|argument| argument.hide_short_help(false));
        left.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let man = Man::new(command).source(concat!("tenure ", env!("CARGO_PKG_VERSION")));
        pages.push((man.get_filename(), render(&man)));
    }
    pages
}

fn render(man: &Man) -> String {
    let mut page = Vec::new();
    man.render(&mut page).expect("memory can be written to");
    let page = String::from_utf8(page).expect("a page is text");
    // What ends our help is examples and tables, whose lines must not run together.
    match page.split_once(".SH EXTRA\n") {
        None => page,
        Some((before, notes)) => {
            let (notes, after) = notes.split_at(notes.find(".SH ").unwrap_or(notes.len()));
            format!("{before}.SH NOTES\n.nf\n{notes}.fi\n{after}")
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Exit {
    Exit::Output(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The command line without what we only call ourselves. A command cannot be taken out of another, so it is put
/// together again; the parts that neither pages nor completions show are left behind.
fn visible(cli: &Command) -> Command {
    let mut visible = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(cli.get_arguments())
        .subcommands(cli.get_subcommands().filter(|command| !command.is_hide_set()))
        .args_conflicts_with_subcommands(cli.is_args_conflicts_with_subcommands_set());
    if let Some(about) = cli.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(help) = cli.get_after_long_help() {
        visible = visible.after_long_help(help.clone());
    }
    visible
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ValueEnum};

    use super::*;

    #[test]
    fn what_is_hidden_is_neither_completed_nor_documented() {
        let option = Arg::new("tls-ca").long("tls-ca").help("Trust these").hide_short_help(true);
        let cli = Command::new(NAME)
            .subcommand(Command::new("run").about("Run a command").arg(option))
            .subcommand(Command::new("__guard").hide(true));
        for shell in Shell::value_variants() {
            let script = script(*shell, &cli);
            assert!(script.contains("run") && !script.contains("guard"), "{shell}: {script}");
        }
        let pages = pages(&cli);
        assert_eq!(pages.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["tenure.1", "tenure-run.1"]);
        assert!(pages.iter().all(|(_, page)| !page.contains("guard")), "{pages:?}");
        assert!(pages[1].1.contains("Trust these"), "what short help leaves out is documented: {pages:?}");
    }
}
