//! Where each setting of the server comes from: its flag, its environment variable, the configuration file or its
//! default, in this order. What a value means is known to the parser of its flag alone, through which all of them go.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use toml::de::{DeTable, DeValue};

use crate::exit::Exit;

/// Read from the working directory if no file is named.
pub(crate) const FILE: &str = "tenure.toml";
/// The value name of options that are whole numbers, which the file may give without quotes. All others are text there.
pub(crate) const COUNT: &str = "N";
/// The value name of options that are on or off, which the file may say without quotes too.
pub(crate) const SWITCH: &str = "BOOL";

/// Every setting, with its value as it was written and where that was.
#[derive(Debug)]
pub(crate) struct Settings {
    options: Command,
    settings: Vec<Setting>,
    file: Option<PathBuf>,
}

#[derive(Debug)]
struct Setting {
    key: String,
    flag: String,
    is_count: bool,
    value: OsString,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Flag,
    Variable(String),
    Line(usize),
    Default,
}

impl Settings {
    /// `options` has nothing but settings; `given` is what a command line with these options said.
    pub(crate) fn resolve(options: Command, given: &ArgMatches, file: Option<&Path>) -> Result<Self, Exit> {
        let file = File::read(file)?;
        let mut entries = match &file {
            Some(file) => file.entries(&options)?,
            None => BTreeMap::new(),
        };
        let settings = options
            .get_arguments()
            .map(|option| {
                let key = option.get_id().as_str();
                let value = || given.get_raw(key).and_then(|mut values| values.next());
                let value = || value().expect("every setting has a default").to_owned();
                let (value, source) = match (given.value_source(key), entries.remove(key)) {
                    (Some(ValueSource::CommandLine), _) => (value(), Source::Flag),
                    (Some(ValueSource::EnvVariable), _) => (value(), Source::Variable(variable(option))),
                    (_, Some(entry)) => (entry.value.into(), Source::Line(entry.line)),
                    (_, None) => (value(), Source::Default),
                };
                // A variable of the caller's that is not set must not switch a guard off unseen.
                if matches!(source, Source::Flag) && value.is_empty() {
                    let what = format!("{} has no value", flag(option));
                    return Err(Exit::usage(what, "leave the option out for its default"));
                }
                Ok(Setting { key: key.to_owned(), flag: flag(option), is_count: is_count(option), value, source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { settings, file: file.map(|file| file.path), options })
    }

    /// The file that was read, if there was one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn parse<T: FromArgMatches>(&self) -> T {
        let arguments = self.settings.iter().map(|setting| argument(&setting.flag, &setting.value));
        parser(&self.options)
            .try_get_matches_from(arguments)
            .and_then(|matches| T::from_arg_matches(&matches))
            .expect("every value was accepted before")
    }

    /// As a configuration file that gives the same values, with the source of each beside it.
    pub(crate) fn to_toml(&self) -> Result<String, Exit> {
        let mut lines = Vec::new();
        for setting in &self.settings {
            let Some(value) = setting.value.to_str() else {
                let what = format!("{} is not UTF-8, so no file can hold it", setting.flag);
                return Err(Exit::usage(what, "give it as a flag or a variable only, without --print-config"));
            };
            let value = if setting.is_count { value.to_owned() } else { quoted(value) };
            lines.push((format!("{} = {value}", setting.key), self.source(setting)));
        }
        // One long path should not push all comments out of sight.
        let width = lines.iter().map(|(line, _)| line.chars().count()).filter(|width| *width <= 64).max().unwrap_or(0);
        Ok(lines.into_iter().map(|(line, source)| format!("{line:width$}  # {source}\n")).collect())
    }

    fn source(&self, setting: &Setting) -> String {
        match &setting.source {
            Source::Flag => setting.flag.clone(),
            Source::Variable(name) => name.clone(),
            Source::Line(line) => {
                let path = self.file.as_deref().unwrap_or(Path::new(FILE)).display().to_string();
                format!("{}, line {line}", path.replace(char::is_control, "\u{fffd}"))
            }
            Source::Default => "default".to_owned(),
        }
    }
}

/// The variable that a value comes from which clap names after its flag, if it is not on the command line.
pub(crate) fn variable_behind(error: &clap::Error, command: &Command, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = named.split(' ').next()?;
    let option = command.get_arguments().find(|option| option.get_long() == flag.strip_prefix("--"))?;
    let variable = option.get_env().filter(|name| std::env::var_os(name).is_some())?;
    let is_given = arguments.iter().any(|word| word.as_encoded_bytes().starts_with(flag.as_bytes()));
    (!is_given).then(|| variable.to_string_lossy().into_owned())
}

struct File {
    path: PathBuf,
    text: String,
}

struct Entry {
    value: String,
    line: usize,
}

impl File {
    /// None if no file is named and there is none where one is looked for.
    fn read(named: Option<&Path>) -> Result<Option<Self>, Exit> {
        let path = named.unwrap_or(Path::new(FILE));
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => return Ok(None),
            Err(error) => {
                let hint = match named {
                    Some(_) => "check the path given with --config or TENURE_CONFIG",
                    None => "make it readable, or choose another file with --config; /dev/null is an empty one",
                };
                let what = format!("the configuration file {} cannot be read: {error}", path.display());
                return Err(Exit::NoInput { what, hint: hint.to_owned() });
            }
        };
        let path = path.to_owned();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
                Err(Exit::usage(format!("{}, line {line}: not UTF-8", path.display()), "save the file as UTF-8"))
            }
        }
    }

    /// What it says of `options`, by key. Every value has been accepted by its option's parser, also where a flag wins.
    fn entries(&self, options: &Command) -> Result<BTreeMap<String, Entry>, Exit> {
        let table = DeTable::parse(&self.text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            self.wrong(error.span().unwrap_or_default(), &message, "each line is like `data = \"tenure-data\"`")
        })?;
        let mut found: Vec<_> = table.into_inner().into_iter().collect();
        // The first mistake in the file is the one that is told.
        found.sort_by_key(|(key, _)| key.span().start);
        let mut entries = BTreeMap::new();
        for (key, value) in found {
            let (at, key, value) = (key.span(), key.into_inner().into_owned(), value.into_inner());
            let Some(option) = options.get_arguments().find(|option| option.get_id().as_str() == key) else {
                return Err(self.wrong(at, &format!("unknown key `{key}`"), &unknown_hint(options, &key, &value)));
            };
            let default = || format!("leave it out for the default: {key} = {}", default_of(option));
            let Some(value) = text_of(option, &value) else {
                let wanted = if is_count(option) { "a whole number" } else { "text in quotes" };
                let what = format!("`{key}` is a TOML {}, and must be {wanted}", value.type_str());
                return Err(self.wrong(at, &what, &default()));
            };
            let parsed = parser(options).try_get_matches_from([argument(&flag(option), &value)]);
            if let Err(error) = parsed {
                let what = format!("invalid value {} for `{key}`{}", quoted(&value), reason(&error));
                return Err(self.wrong(at, &what, &default()));
            }
            entries.insert(key, Entry { value, line: self.line(&at) });
        }
        Ok(entries)
    }

    fn wrong(&self, at: Range<usize>, what: &str, hint: &str) -> Exit {
        Exit::usage(format!("{}, line {}: {what}", self.path.display(), self.line(&at)), hint)
    }

    fn line(&self, at: &Range<usize>) -> usize {
        1 + self.text.bytes().take(at.start).filter(|byte| *byte == b'\n').count()
    }
}

/// Reads values only: what is not a setting is not an argument.
fn parser(options: &Command) -> Command {
    options.clone().no_binary_name(true).disable_help_flag(true).disable_version_flag(true)
}

fn argument(flag: &str, value: impl Into<OsString>) -> OsString {
    let mut argument = OsString::from(flag);
    argument.push("=");
    argument.push(value.into());
    argument
}

fn flag(option: &Arg) -> String {
    format!("--{}", option.get_long().expect("every setting has a long flag"))
}

fn variable(option: &Arg) -> String {
    option.get_env().expect("every setting has a variable").to_string_lossy().into_owned()
}

fn is_count(option: &Arg) -> bool {
    is_of(option, COUNT)
}

fn is_of(option: &Arg, kind: &str) -> bool {
    option.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == kind))
}

fn default_of(option: &Arg) -> String {
    let default: OsString = option.get_default_values().iter().map(|value| value.as_os_str()).collect();
    let default = default.to_string_lossy();
    if is_count(option) { default.into_owned() } else { quoted(&default) }
}

/// The value as it would stand after the flag; none if it is of a type that the option does not take.
fn text_of(option: &Arg, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if is_count(option) => {
            let digits = number.as_str();
            Some(i64::from_str_radix(digits, number.radix()).map_or_else(|_| digits.to_owned(), |n| n.to_string()))
        }
        DeValue::Boolean(on) if is_of(option, SWITCH) => Some(on.to_string()),
        _ => None,
    }
}

fn unknown_hint(options: &Command, key: &str, value: &DeValue<'_>) -> String {
    let is_known = |key: &str| options.get_arguments().any(|option| option.get_id().as_str() == key);
    let underscored = key.replace('-', "_");
    if is_known(&underscored) {
        return format!("keys have underscores: `{underscored}`");
    }
    if matches!(value, DeValue::Table(_)) {
        return "there are no tables: all keys stand at the top of the file".to_owned();
    }
    let unknown = parser(options).try_get_matches_from([argument(&format!("--{}", key.replace('_', "-")), "")]);
    let similar = unknown.err().and_then(|error| match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => Some(flag.trim_start_matches('-').replace('-', "_")),
        _ => None,
    });
    match similar.filter(|similar| is_known(similar)) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => "`tenure serve --config /dev/null --print-config` shows every key".to_owned(),
    }
}

/// Why a parser did not accept a value, to go on with after it was named.
fn reason(error: &clap::Error) -> String {
    match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(valid)), _) if !valid.is_empty() => format!(": expected {}", valid.join(", ")),
        (_, Some(source)) => format!(": {source}"),
        _ => String::new(),
    }
}

/// A TOML string on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_read_back_as_it_was() {
        for text in ["", "tenure-data", r#"C:\data "new""#, "a\nb\tc\r\u{1}\u{7f}\u{85}", "größe # 1", "'''"] {
            let line = format!("data = {}", quoted(text));
            let table = DeTable::parse(&line).unwrap().into_inner();
            assert_eq!(table.get("data").unwrap().get_ref().as_str(), Some(text), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::{fuzz, word};

    use super::*;

    #[test]
    fn any_bytes_are_refused_or_understood_as_a_configuration() {
        let options = crate::serve::options();
        let sample = "# all\ngrpc = \"127.0.0.1:0\"\ndata = 'tenure-data'\nhistory_max_age = \"7d\"\nmailbox = 0x10\n[a]\nb = 1979-05-27\n";
        let words = options
            .get_arguments()
            .map(|option| option.get_id().as_str())
            .chain(["=", "\"", "\"\"\"", "'", "[", "]", "{", ".", "\n", "0x", "1e9", "true", "\\u"]);
        fuzz("config", &[sample.into()], &words.collect::<Vec<_>>(), |input| {
            let Ok(text) = String::from_utf8(input.to_vec()) else { return "not UTF-8".into() };
            let file = File { path: FILE.into(), text };
            let entries = match file.entries(&options) {
                Ok(entries) => entries,
                // What comes after the place is about the mistake.
                Err(error) => return word(&format!("{error:?}").splitn(3, ": ").last().unwrap_or_default().to_owned()),
            };
            let again = entries.iter().map(|(key, entry)| format!("{key} = {}\n", quoted(&entry.value)));
            let again = File { path: FILE.into(), text: again.collect() };
            for (key, entry) in again.entries(&options).unwrap_or_default() {
                assert_eq!(entry.value, entries[&key].value, "{key} is read back as it was");
            }
            format!("{} understood", entries.len())
        });
    }
}
