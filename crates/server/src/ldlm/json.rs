//! LDLM's messages as JSON, by the rules of protobuf: either spelling of a field, numbers also as text, null for nothing.
//!
//! Unlike in our own API an unknown field is no error, because it is none in LDLM.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tenure_proto::ldlm::{self, ErrorCode};

/// A field that requests can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    Key,
    LockTimeoutSeconds,
    Size,
}

impl Field {
    /// As in the `.proto` file, and as JSON has it.
    fn spellings(self) -> [&'static str; 2] {
        match self {
            Self::Name => ["name"; 2],
            Self::Key => ["key"; 2],
            Self::LockTimeoutSeconds => ["lock_timeout_seconds", "lockTimeoutSeconds"],
            Self::Size => ["size"; 2],
        }
    }
}

/// What a request says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) lock_timeout_seconds: Option<i32>,
    pub(super) size: Option<i32>,
}

impl Fields {
    /// Reads the first value in `body`, with the fields that the request has. Nothing at all is an empty request.
    pub(super) fn parse(body: &[u8], fields: &[Field]) -> Result<Self, serde_json::Error> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::Deserializer::from_slice(body).deserialize_map(Reading(fields))
    }

    fn set(&mut self, field: Field, value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let [name, _] = field.spellings();
        let text = |value| match value {
            Value::String(text) => Ok(text),
            other => Err(format!("invalid value for string field {name}: {other}")),
        };
        let number =
            |value: Value| int32(&value).ok_or_else(|| format!("invalid value for int32 field {name}: {value}"));
        match field {
            Field::Name => self.name = text(value)?,
            Field::Key => self.key = text(value)?,
            Field::LockTimeoutSeconds => self.lock_timeout_seconds = Some(number(value)?),
            Field::Size => self.size = Some(number(value)?),
        }
        Ok(())
    }
}

/// A number without a fraction, or text that is one.
fn int32(value: &Value) -> Option<i32> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(whole) => i32::try_from(whole).ok(),
            None => {
                let number = number.as_f64()?;
                let fits = number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
                #[allow(clippy::cast_possible_truncation, reason = "it was just seen to fit")]
                fits.then_some(number as i32)
            }
        },
        Value::String(text) => int32(&serde_json::from_str(text).ok().filter(Value::is_number)?),
        _ => None,
    }
}

struct Reading<'a>(&'a [Field]);

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        let mut seen = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let field = self.0.iter().find(|field| field.spellings().contains(&&*name));
            let Some(&field) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(&field) {
                return Err(serde::de::Error::custom(format!("duplicate field {name}")));
            }
            seen.push(field);
            fields.set(field, map.next_value()?).map_err(serde::de::Error::custom)?;
        }
        Ok(fields)
    }
}

/// Says also what is false or empty; only an error that is none is left out.
#[derive(Serialize)]
pub(super) struct Locked {
    locked: bool,
    name: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

#[derive(Serialize)]
pub(super) struct Unlocked {
    unlocked: bool,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

#[derive(Serialize)]
struct Error {
    code: &'static str,
    message: String,
}

impl From<ldlm::LockResponse> for Locked {
    fn from(response: ldlm::LockResponse) -> Self {
        let ldlm::LockResponse { locked, name, key, error } = response;
        Self { locked, name, key, error: error.map(Error::from) }
    }
}

impl From<ldlm::UnlockResponse> for Unlocked {
    fn from(response: ldlm::UnlockResponse) -> Self {
        let ldlm::UnlockResponse { unlocked, name, error } = response;
        Self { unlocked, name, error: error.map(Error::from) }
    }
}

impl From<ldlm::Error> for Error {
    fn from(error: ldlm::Error) -> Self {
        Self { code: ErrorCode::try_from(error.code).unwrap_or_default().as_str_name(), message: error.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Field; 4] = [Field::Name, Field::Key, Field::LockTimeoutSeconds, Field::Size];

    #[test]
    fn both_spellings_and_all_kinds_of_whole_numbers_are_read() {
        for number in ["60", "60.0", "6e1", "\"60\"", "\"60.0\""] {
            for name in ["lock_timeout_seconds", "lockTimeoutSeconds"] {
                let fields = Fields::parse(format!("{{\"{name}\": {number}}}").as_bytes(), &ALL).unwrap();
                assert_eq!(fields.lock_timeout_seconds, Some(60), "{name} {number}");
            }
        }
        let fields = Fields::parse(br#"{"name": "a", "key": "k", "size": -2147483648} and more"#, &ALL).unwrap();
        assert_eq!((&*fields.name, &*fields.key, fields.size), ("a", "k", Some(i32::MIN)));
    }

    #[test]
    fn what_is_null_or_unknown_is_not_there() {
        for body in ["", " \n", "{}", "{\"size\": null, \"name\": null}", "{\"wait_timeout_seconds\": [{\"x\": 1}]}"] {
            assert_eq!(Fields::parse(body.as_bytes(), &ALL).unwrap(), Fields::default(), "{body}");
        }
        assert_eq!(Fields::parse(b"{\"size\": \"x\"}", &[Field::Name]).unwrap(), Fields::default());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let bad: [&[u8]; 16] = [
            b"{bad",
            b"[]",
            b"null",
            b"5",
            b"{\"name\": 5}",
            b"{\"name\": \"\xff\xfe\"}",
            b"{\"size\": 99999999999}",
            b"{\"size\": 2147483648}",
            b"{\"size\": 1.5}",
            b"{\"size\": \"\"}",
            b"{\"size\": \"null\"}",
            b"{\"size\": true}",
            b"{\"size\": 1e999}",
            b"{\"size\": 1, \"size\": 1}",
            b"{\"size\": null, \"size\": 1}",
            b"{\"lock_timeout_seconds\": 60, \"lockTimeoutSeconds\": 60}",
        ];
        for body in bad {
            let read = Fields::parse(body, &ALL);
            assert!(read.is_err(), "{} is {read:?}", body.escape_ascii());
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::{fuzz, word};

    use super::*;

    #[test]
    fn any_bytes_are_refused_or_understood_as_a_body_of_ldlm() {
        let sample =
            br#"{"name":"a","key":"k","lock_timeout_seconds":"3","lockTimeoutSeconds":1e1,"size":null,"more":[{}]}"#;
        let fields = [Field::Name, Field::Key, Field::LockTimeoutSeconds, Field::Size];
        let words = ["{", "}", "[", "]", "\"size\":", "1e400", "2147483648", "-2147483649", "0.5", "\\ud800", "null"];
        fuzz("ldlm_rest", &[sample.to_vec()], &words, |input| match Fields::parse(input, &fields) {
            Ok(parsed) => format!("{} {}", parsed.size.is_some(), parsed.lock_timeout_seconds.is_some()),
            Err(error) => word(&error),
        });
    }
}
