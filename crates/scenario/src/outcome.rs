//! What came of a step, as words: one form that every face can give.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::{duration, duration_text};

/// What a face answered. It lists every field it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Such as `granted`; for a refusal, `refused` and its code.
    pub word: String,
    pub fields: BTreeMap<String, String>,
    /// The secret of a grant or a session, for later steps; never compared with the text.
    pub key: Option<String>,
}

impl Outcome {
    pub fn new(word: impl Into<String>) -> Self {
        Self { word: word.into(), ..Self::default() }
    }

    pub fn refused(code: &str) -> Self {
        Self::new(format!("refused {code}"))
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.fields.insert(name.into(), value.to_string());
        self
    }

    /// A list, in the order given; `none` if it is empty.
    #[must_use]
    pub fn with_list<T: fmt::Display>(self, name: &str, items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
        let text = if items.is_empty() { "none".into() } else { items.join(",") };
        self.with(name, text)
    }

    #[must_use]
    pub fn with_key(mut self, key: impl fmt::Display) -> Self {
        self.key = Some(key.to_string());
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)?;
        for (name, value) in &self.fields {
            let quote = if value.contains(char::is_whitespace) { "'" } else { "" };
            write!(f, " {name}={quote}{value}{quote}")?;
        }
        Ok(())
    }
}

/// What a scenario says should come of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// None: any but a refusal, for questions, whose answer has no word.
    word: Option<String>,
    fields: Vec<(String, String)>,
}

impl Expected {
    pub(crate) fn parse(words: Vec<String>) -> Result<Self, String> {
        let mut words = words.into_iter().peekable();
        let mut plain = Vec::new();
        while let Some(word) = words.next_if(|word| !word.contains('=')) {
            plain.push(word);
        }
        let fields = words
            .map(|word| match word.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), canonical(value))),
                None => Err(format!("`{word}` should be a `name=value`")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        match plain.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] if fields.is_empty() => Err("an outcome is missing after the arrow".into()),
            [] => Ok(Self { word: None, fields }),
            ["refused"] => Err("a refusal needs its code".into()),
            ["refused", _] | [_] => Ok(Self { word: Some(plain.join(" ")), fields }),
            _ => Err(format!("`{}` is not an outcome", plain.join(" "))),
        }
    }

    /// Fields that are not listed may be anything.
    pub(crate) fn matches(&self, actual: &Outcome) -> bool {
        let word = match &self.word {
            Some(word) => *word == actual.word,
            None => !actual.word.starts_with("refused"),
        };
        word && self.fields.iter().all(|(name, wanted)| {
            actual.fields.get(name).is_some_and(|value| wanted.split('|').any(|wanted| wanted == value))
        })
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.clone().unwrap_or_default();
        write!(f, "{}", Outcome { word, fields: self.fields.iter().cloned().collect(), key: None })
    }
}

/// `1m` and `60s` are the same.
fn canonical(value: &str) -> String {
    duration(value).map_or_else(|| value.to_owned(), duration_text)
}
