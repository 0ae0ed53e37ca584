//! What a front end outside this crate needs to speak as REST does: messages in, commands out, and the same words for
//! a no. It decides nothing and knows no connection.

use serde::de::DeserializeOwned;
use tenure_core::{Acquire, Command, Grant, Refusal, Timestamp, Token, Ttl};
use tenure_engine::Failure;
use tenure_proto::v1;

use crate::convert::{self, Caller};
use crate::error::Error;
use crate::rest::parse;

/// A message as REST takes it: what cannot be used names its field.
pub fn message<T: DeserializeOwned>(json: serde_json::Value) -> Result<T, Box<v1::Refusal>> {
    parse(json).map_err(|error| error.tell().into())
}

pub fn acquire(request: v1::AcquireRequest) -> Result<Acquire, Box<v1::Refusal>> {
    convert::acquire(request, &Caller::default()).map_err(|error| error.tell().into())
}

pub fn renew(request: v1::RenewRequest) -> Result<Command, Box<v1::Refusal>> {
    convert::renew(request, &Caller::default()).map_err(|error| error.tell().into())
}

pub fn release(request: v1::ReleaseRequest) -> Result<Command, Box<v1::Refusal>> {
    convert::release(request, &Caller::default()).map_err(|error| error.tell().into())
}

pub fn granted(grant: &Grant) -> v1::Grant {
    convert::grant(grant)
}

pub fn renewed(token: Token, ttl: Ttl, deadline: Timestamp) -> v1::Renewed {
    convert::renewed(token, ttl, deadline)
}

pub fn released(token: Token) -> v1::Released {
    convert::released(token)
}

pub fn refused(refusal: Box<Refusal>) -> Box<v1::Refusal> {
    Error::from(refusal).tell().into()
}

pub fn failed(failure: Failure) -> Box<v1::Refusal> {
    Error::from(failure).tell().into()
}

/// Input that cannot be used for a reason that only the front end knows.
pub fn invalid(field: Option<&str>, message: impl Into<String>) -> Box<v1::Refusal> {
    Error::Invalid { field: field.map(str::to_owned), message: message.into() }.tell().into()
}
