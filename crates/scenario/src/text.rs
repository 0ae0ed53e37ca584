//! The words of a line: splitting, durations, and `name=value` arguments that must all be used.

/// Time in a scenario, from its start.
pub type Millis = u64;

/// Splits at blanks; single quotes keep a value with blanks together and vanish.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        if c == '\'' {
            quoted = !quoted;
            word.get_or_insert_default();
        } else if c.is_whitespace() && !quoted {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    if quoted {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

/// `250ms`, `10s`, `5m`, `2h` or `1d`; none if the text is not a duration.
pub(crate) fn duration(text: &str) -> Option<Millis> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<Millis>().ok()?.checked_mul(unit)
}

/// How outcomes write times and durations: whole seconds where possible.
pub fn duration_text(millis: Millis) -> String {
    if millis.is_multiple_of(1_000) { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}

/// What follows a verb.
pub(crate) struct Arguments {
    words: std::vec::IntoIter<String>,
    named: Vec<(String, String)>,
}

impl Arguments {
    pub(crate) fn new(words: Vec<String>) -> Self {
        let (named, words): (Vec<_>, Vec<_>) =
            words.into_iter().partition(|word| word.split_once('=').is_some_and(|(name, _)| is_name(name)));
        let named = named
            .into_iter()
            .filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect();
        Self { words: words.into_iter(), named }
    }

    /// The next word without a name, which must be there.
    pub(crate) fn word(&mut self, what: &str) -> Result<String, String> {
        self.words.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// Whether a certain word without a name is there.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let mut words: Vec<_> = std::mem::take(&mut self.words).collect();
        let found = words.iter().position(|word| word == flag);
        if let Some(at) = found {
            words.remove(at);
        }
        self.words = words.into_iter();
        found.is_some()
    }

    pub(crate) fn get(&mut self, name: &str) -> Option<String> {
        let at = self.named.iter().position(|(it, _)| it == name)?;
        Some(self.named.remove(at).1)
    }

    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        std::iter::from_fn(|| self.get(name)).collect()
    }

    pub(crate) fn must(&mut self, name: &str) -> Result<String, String> {
        self.get(name).ok_or_else(|| format!("`{name}=` is missing"))
    }

    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Millis>, String> {
        self.get(name)
            .map(|value| duration(&value).ok_or_else(|| format!("`{name}={value}` is not a duration such as 10s")))
            .transpose()
    }

    pub(crate) fn number<N: std::str::FromStr>(&mut self, name: &str) -> Result<Option<N>, String> {
        self.get(name).map(|value| value.parse().map_err(|_| format!("`{name}={value}` is not a number"))).transpose()
    }

    /// A misspelt argument must not pass for an absent one.
    pub(crate) fn end(mut self) -> Result<(), String> {
        if let Some(word) = self.words.next() {
            return Err(format!("`{word}` is not expected here"));
        }
        match self.named.first() {
            Some((name, _)) => Err(format!("`{name}=` is not expected here")),
            None => Ok(()),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
