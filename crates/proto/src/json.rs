//! Enumerations as JSON: lower-case words instead of the numbers that protobuf sends.

use serde::de::DeserializeOwned;
use serde::{Deserializer, Serialize, Serializer};

pub(crate) fn is_unspecified(number: &i32) -> bool {
    *number == 0
}

pub(crate) fn serialize<E, S>(number: &i32, serializer: S) -> Result<S::Ok, S::Error>
where
    E: TryFrom<i32> + Serialize,
    S: Serializer,
{
    let value = E::try_from(*number).map_err(|_| serde::ser::Error::custom(format!("no value has number {number}")))?;
    value.serialize(serializer)
}

pub(crate) fn deserialize<'de, E, D>(deserializer: D) -> Result<i32, D::Error>
where
    E: Into<i32> + DeserializeOwned,
    D: Deserializer<'de>,
{
    E::deserialize(deserializer).map(Into::into)
}
