//! Pools as operators declare and change them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_client::v1::{self, ConditionState};

use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::{look, output, units};

/// Declare, change, drain and remove pools
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Set(SetArgs),
    Drain(DrainArgs),
    Quarantine(QuarantineArgs),
    Return(ReturnArgs),
    Rm(RmArgs),
}

impl Command {
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Set(args) => args.output.json,
            Self::Drain(args) => args.target.output.json,
            Self::Quarantine(args) => args.target.output.json,
            Self::Return(args) => args.target.output.json,
            Self::Rm(args) => args.output.json,
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<(), Exit> {
    match command {
        Command::Set(args) => set(args).await,
        Command::Drain(args) => set_condition(args.target, ConditionState::Drained, args.note, args.lasts).await,
        Command::Quarantine(args) => {
            set_condition(args.target, ConditionState::Quarantined, Some(args.note), args.lasts).await
        }
        Command::Return(args) => set_condition(args.target, ConditionState::InService, None, None).await,
        Command::Rm(args) => rm(args).await,
    }
}

/// Declare a pool, or change it; no hold is dropped
#[derive(clap::Args)]
#[command(after_long_help = "\
What is not said is as in a new pool: a change says everything again. What is too much after a shrink drains.

Examples:
  tenure pool set permits --units 10 --order backfill
  tenure pool set mails --units 30 --window 60s
  tenure pool set gpus --resource 'gpu-1 a100 mem=80 @host=rack-3' --resource 'gpu-2 old mem=16'
  tenure pool set beds --resource bed-1 --resource bed-2 --cleaning
  tenure pool set builds --units 4 --fair tenant --weight web=3
  tenure pool set gpus --resource 'gpu-1 mem=80' --resource 'gpu-2 mem=16' --place-by '-number(resource.labels.mem, 0)'
  tenure pool set gpus --resource gpu-1 --order backfill --order-by @share.rhai
  tenure pool set gpus --file gpus.toml
  tenure show gpus --json | jq .spec | tenure pool set gpus-too --file -

A file has the `spec` that `tenure show --json` prints, in TOML for instance:
  placement = \"least_recently_used\"
  [[resources]]
  name = \"gpu-1\"
  labels = { a100 = \"\", mem = \"80\" }
  properties = { host = \"rack-3\" }")]
pub(crate) struct SetArgs {
    /// The pool's name
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    capacity: Capacity,
    /// Which of the free resources that fit is granted: first, least-recently-used, most-recently-used, random or
    /// spread:LABEL [default: first]
    #[arg(long, value_name = "HOW", value_parser = placement, conflicts_with_all = ["units", "file"])]
    placement: Option<Placement>,
    /// Who may be served while the head of the queue cannot be [default: strict]
    #[arg(long, conflicts_with = "file")]
    order: Option<Order>,
    /// Make it a rate window: every hold lasts exactly this long
    #[arg(long, value_name = "DURATION", value_parser = units::duration, conflicts_with = "file")]
    window: Option<Duration>,
    /// What was held has to be cleaned (`tenure run --dirty`) before it is handed out again
    #[arg(long, conflicts_with_all = ["units", "file"])]
    cleaning: bool,
    /// Serve waiters of the same priority in turn, grouped by this piece of metadata, or by `holder`
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    fair: Option<String>,
    /// How often a group is served for once of the others, from 1 to 1000; may be repeated
    #[arg(long = "weight", value_name = "GROUP=N", value_parser = weight, requires = "fair")]
    weights: Vec<(String, u32)>,
    /// Choose among the free resources by the score that this script gives each: its text, or @FILE
    #[arg(long, value_name = "SCRIPT", conflicts_with = "file", allow_hyphen_values = true)]
    place_by: Option<String>,
    /// Serve first whom this script gives the highest score, of those who fit, within a priority: its text, or @FILE
    #[arg(long, value_name = "SCRIPT", conflicts_with = "file", allow_hyphen_values = true)]
    order_by: Option<String>,
    /// Only if it has this many units or resources now; refused if that has changed since somebody looked
    #[arg(long, value_name = "N")]
    size_was: Option<u32>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Capacity {
    /// This many units, all alike
    #[arg(long, value_name = "N", value_parser = some_units)]
    units: Option<u32>,
    /// A named resource, with labels to choose it by and properties told to its holder: 'NAME label label=value
    /// @property=value'; may be repeated
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = resource)]
    resources: Vec<v1::Resource>,
    /// All of it from this file, JSON or TOML by its extension; `-` is JSON from stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    /// Nobody who wants something the head could use
    Strict,
    /// Whoever fits
    Backfill,
}

/// A placement, with the label of `spread`.
#[derive(Clone, Debug)]
struct Placement(v1::Placement, Option<String>);

async fn set(args: SetArgs) -> Result<(), Exit> {
    let spec = match &args.capacity.file {
        Some(file) => read_spec(file)?,
        None => args.spec()?,
    };
    let said = look::spec(&spec);
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::SetPoolRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        spec: Some(spec),
        size_was: args.size_was,
    };
    let set = connection.calls.set_pool(request).await.map_err(|status| connection.failed(status))?.into_inner();
    let how = if set.created { "created" } else { "changed" };
    output::done(&args.output, &format!("pool `{}` set: {said} ({how})", args.pool), &set)
}

impl SetArgs {
    fn spec(&self) -> Result<v1::PoolSpec, Exit> {
        let Placement(placement, spread_label) =
            self.placement.clone().unwrap_or(Placement(v1::Placement::Unspecified, None));
        let order = match self.order {
            None => v1::Order::Unspecified,
            Some(Order::Strict) => v1::Order::Strict,
            Some(Order::Backfill) => v1::Order::Backfill,
        };
        let place = self.place_by.as_deref().map(script).transpose()?;
        let order_by = self.order_by.as_deref().map(script).transpose()?;
        Ok(v1::PoolSpec {
            units: self.capacity.units,
            resources: self.capacity.resources.clone(),
            named: !self.capacity.resources.is_empty(),
            placement: placement.into(),
            spread_label,
            order: order.into(),
            window_ms: self.window.map(units::millis),
            cleaning: self.cleaning,
            fair: self.fair.clone().map(|by| v1::FairShare { by, weights: self.weights.iter().cloned().collect() }),
            scripts: (place.is_some() || order_by.is_some()).then_some(v1::Scripts { place, order: order_by }),
        })
    }
}

/// The text itself, or what is in a file.
fn script(text: &str) -> Result<String, Exit> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(file) => std::fs::read_to_string(file).map_err(|error| Exit::NoInput {
            what: format!("`{file}` cannot be read: {error}"),
            hint: "check the name given after `@`".to_owned(),
        }),
    }
}

/// What `drain`, `quarantine` and `return` are done to.
#[derive(clap::Args)]
struct Target {
    /// The pool's name
    pool: String,
    /// Only this resource of it
    resource: Option<String>,
    /// Only if this is its condition now; refused if that has changed since somebody looked
    #[arg(long, value_name = "CONDITION")]
    state_was: Option<State>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum State {
    /// It is handed out
    InService,
    /// Nothing more of it is, for a planned reason
    Drained,
    /// Nothing more of it is, because it may be broken
    Quarantined,
}

impl From<State> for ConditionState {
    fn from(state: State) -> Self {
        match state {
            State::InService => Self::InService,
            State::Drained => Self::Drained,
            State::Quarantined => Self::Quarantined,
        }
    }
}

/// Hand out no more of a pool or a resource, for a planned reason
#[derive(clap::Args)]
#[command(after_long_help = "\
Holds there are go on, and those who wait keep waiting.

Examples:
  tenure pool drain gpus --note 'moving house'
  tenure pool drain gpus gpu-1")]
pub(crate) struct DrainArgs {
    /// Why, for others to see
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Return it by itself after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    lasts: Option<Duration>,
    #[command(flatten)]
    target: Target,
}

/// Hand out no more of a pool or a resource that may be broken
#[derive(clap::Args)]
#[command(after_long_help = "\
Holds there are go on, and those who wait keep waiting.

Examples:
  tenure pool quarantine gpus gpu-1 --note 'the fan is loud'
  tenure pool quarantine gpus gpu-1 --note 'too hot' --for 10m")]
pub(crate) struct QuarantineArgs {
    /// Why, for others to see
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// Return it by itself after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    lasts: Option<Duration>,
    #[command(flatten)]
    target: Target,
}

/// Hand out a drained or quarantined pool or resource again
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure pool return gpus
  tenure pool return gpus gpu-1")]
pub(crate) struct ReturnArgs {
    #[command(flatten)]
    target: Target,
}

async fn set_condition(
    target: Target,
    state: ConditionState,
    note: Option<String>,
    lasts: Option<Duration>,
) -> Result<(), Exit> {
    let condition = v1::Condition { state: state.into(), note };
    let lasts_ms = lasts.map(units::millis);
    let mut said = look::condition(Some(&condition));
    said.extend(lasts_ms.map(|lasts| format!(" for {}", look::exact(lasts))));
    let said = match &target.resource {
        Some(resource) => format!("resource `{resource}` of pool `{}` {said}", target.pool),
        None => format!("pool `{}` {said}", target.pool),
    };
    let mut connection = Connection::open(&target.server).await?;
    let request = v1::SetConditionRequest {
        namespace: target.server.namespace.clone(),
        pool: target.pool.clone(),
        resource: target.resource.clone(),
        condition: Some(condition),
        lasts_ms,
        state_was: target.state_was.map_or(ConditionState::Unspecified, Into::into).into(),
    };
    let set = connection.calls.set_condition(request).await.map_err(|status| connection.failed(status))?.into_inner();
    output::done(&target.output, &said, &set)
}

/// Take a pool away; it vanishes with its last hold
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure pool rm gpus")]
pub(crate) struct RmArgs {
    /// The pool's name
    pool: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

async fn rm(args: RmArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::RemovePoolRequest { namespace: args.server.namespace.clone(), pool: args.pool.clone() };
    let removed = connection.calls.remove_pool(request).await;
    let removed = removed.map_err(|status| connection.failed(status))?.into_inner();
    let said = match removed.holds_left {
        0 => format!("pool `{}` removed", args.pool),
        left => format!("pool `{}` is being removed: {} left", args.pool, look::count(left, "hold")),
    };
    output::done(&args.output, &said, &removed)
}

fn read_spec(file: &Path) -> Result<v1::PoolSpec, Exit> {
    let from_stdin = file == Path::new("-");
    let name = if from_stdin { "stdin".to_owned() } else { format!("`{}`", file.display()) };
    let toml = match file.extension().and_then(OsStr::to_str) {
        _ if from_stdin => false,
        Some("json") => false,
        Some("toml") => true,
        _ => {
            let what = format!("{name} ends neither in .json nor in .toml");
            return Err(Exit::usage(what, "name it so, or give JSON to stdin with --file -"));
        }
    };
    let text = match from_stdin {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| Exit::NoInput {
        what: format!("{name} cannot be read: {error}"),
        hint: "check the name given with --file".to_owned(),
    })?;
    parse_spec(&text, toml).map_err(|why| {
        let what = format!("{name} is not the spec of a pool: {why}");
        Exit::usage(what, "it has the shape of `tenure show POOL --json | jq .spec`")
    })
}

fn parse_spec(text: &str, toml: bool) -> Result<v1::PoolSpec, String> {
    match toml {
        true => toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].lines().count().max(1));
            let place = line.map_or_else(String::new, |line| format!(" at line {line}"));
            format!("{}{place}", error.message())
        }),
        false => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

fn some_units(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "expected a number from 0 to 2147483647")
}

fn weight(text: &str) -> Result<(String, u32), &'static str> {
    // Groups may be called anything.
    let parsed = text.rsplit_once('=').and_then(|(group, weight)| Some((group.to_owned(), weight.parse().ok()?)));
    parsed.ok_or("expected GROUP=N, such as web=3")
}

fn placement(text: &str) -> Result<Placement, &'static str> {
    Ok(match text.split_once(':') {
        None if text == "first" => Placement(v1::Placement::First, None),
        None if text == "least-recently-used" => Placement(v1::Placement::LeastRecentlyUsed, None),
        None if text == "most-recently-used" => Placement(v1::Placement::MostRecentlyUsed, None),
        None if text == "random" => Placement(v1::Placement::Random, None),
        Some(("spread", label)) if !label.is_empty() => Placement(v1::Placement::Spread, Some(label.to_owned())),
        _ => return Err("expected first, least-recently-used, most-recently-used, random or spread:LABEL"),
    })
}

/// `gpu-1 a100 mem=80 @host=rack-3`: the name, labels, and properties with an `@`.
fn resource(text: &str) -> Result<v1::Resource, String> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or("expected 'NAME label label=value @property=value'")?;
    if name.starts_with('@') || name.contains('=') {
        return Err(format!(
            "expected its name first, and `{name}` looks like something else; a file can have any name"
        ));
    }
    let mut resource = v1::Resource { name: name.to_owned(), ..v1::Resource::default() };
    for word in words {
        let (what, list, pair): (_, &mut BTreeMap<_, _>, _) = match word.strip_prefix('@') {
            Some(property) => ("property", &mut resource.properties, property),
            None => ("label", &mut resource.labels, word),
        };
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name.is_empty() {
            return Err(format!("`{word}` is a {what} without a name"));
        }
        if list.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(format!("`{name}` is there twice"));
        }
    }
    Ok(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_a_name_with_labels_and_properties() {
        let parsed = resource(" gpu-1  a100 mem=80 zone=a=b @host=rack-3 @spare").expect("it is one");
        let pairs = |list: &[(&str, &str)]| list.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        assert_eq!(parsed.name, "gpu-1");
        assert_eq!(parsed.labels, pairs(&[("a100", ""), ("mem", "80"), ("zone", "a=b")]));
        assert_eq!(parsed.properties, pairs(&[("host", "rack-3"), ("spare", "")]));
    }

    #[test]
    fn a_resource_without_a_name_or_with_a_label_without_one_or_twice_is_none() {
        for text in ["", "  ", "@host=rack-3", "mem=80", "gpu-1 mem=80 mem=16", "gpu-1 =80", "gpu-1 @=80", "gpu-1 @"] {
            assert!(resource(text).is_err(), "{text}");
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::{fuzz, word};

    use super::*;

    const WORDS: [&str; 14] = [
        "[[resources]]",
        "name = ",
        "labels",
        "properties",
        ".",
        "=",
        "\"",
        "{",
        "}",
        "\n",
        "order = \"backfill\"",
        "@",
        "units = ",
        "é",
    ];

    fn of_text(input: &[u8], decode: impl Fn(&str) -> Result<v1::PoolSpec, String>) -> String {
        let Ok(text) = str::from_utf8(input) else { return "not UTF-8".into() };
        match decode(text) {
            Ok(spec) => {
                let json = serde_json::to_string(&spec).expect("what was read can be written");
                assert_eq!(parse_spec(&json, false), Ok(spec), "the same after a round trip");
                "understood".into()
            }
            Err(error) => word(&error),
        }
    }

    #[test]
    fn any_bytes_are_refused_or_understood_as_the_file_of_a_pool() {
        let toml = "order = \"backfill\"\nplacement = \"spread\"\nspread_label = \"zone\"\n[[resources]]\nname = \"a\"\nlabels = { zone = \"eu\" }\n";
        fuzz("pool_toml", &[toml.into()], &WORDS, |input| of_text(input, |text| parse_spec(text, true)));
        let json = r#"{"units":3,"window_ms":1000,"resources":[{"name":"a","labels":{"zone":"eu"},"properties":{}}]}"#;
        fuzz("pool_json", &[json.into()], &WORDS, |input| of_text(input, |text| parse_spec(text, false)));
    }

    #[test]
    fn any_text_is_refused_or_understood_as_a_resource() {
        let samples = [b"gpu-1 a100 mem=80 @host=rack-3".to_vec()];
        fuzz("resource", &samples, &WORDS, |input| match str::from_utf8(input).map(resource) {
            Ok(Ok(resource)) => format!("{} {}", resource.labels.len().min(3), resource.properties.len().min(3)),
            Ok(Err(error)) => word(&error),
            Err(_) => "not UTF-8".into(),
        });
    }
}
