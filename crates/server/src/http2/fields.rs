//! What headers say: a request's beginning or its end, checked against the rules of HTTP/2.

use axum::http::header::{CONTENT_LENGTH, TE};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::protocol::HEADER_BYTES_MAX;

/// What a field takes besides its name and value, as HTTP/2 counts.
const FIELD_BYTES: usize = 32;
/// They are about one connection of HTTP/1, and mean nothing here.
const OF_HTTP_1: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// How a request begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Of what is to follow, if that is said.
    pub(super) length: Option<u64>,
    /// What all of it takes.
    pub(super) bytes: usize,
}

/// The fields of a block, as they come.
#[derive(Debug, Default)]
pub(super) struct Fields {
    method: Option<Method>,
    scheme: bool,
    authority: bool,
    path: Option<PathAndQuery>,
    headers: HeaderMap,
    bytes: usize,
    is_wrong: bool,
}

impl Fields {
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.bytes += name.len() + value.len() + FIELD_BYTES;
        if self.are_too_many() || self.is_wrong {
            return;
        }
        let is_right = match name.strip_prefix(b":") {
            Some(name) => self.add_pseudo(name, value),
            None => self.add_header(name, value),
        };
        self.is_wrong = is_right.is_none();
    }

    /// Those that stand for the first line of HTTP/1: each once, and before all others.
    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if !self.headers.is_empty() {
            return None;
        }
        let is_again = match name {
            b"method" => self.method.replace(Method::from_bytes(value).ok()?).is_some(),
            b"scheme" => std::mem::replace(&mut self.scheme, true),
            b"authority" => std::mem::replace(&mut self.authority, true),
            b"path" => self.path.replace(PathAndQuery::try_from(value).ok()?).is_some(),
            _ => return None,
        };
        let may_be_empty = name == b"authority";
        (!is_again && (may_be_empty || !value.is_empty())).then_some(())
    }

    fn add_header(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if name.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let name = HeaderName::from_bytes(name).ok()?;
        if OF_HTTP_1.contains(&name.as_str()) || name == TE && value != b"trailers" {
            return None;
        }
        self.headers.append(name, HeaderValue::from_bytes(value).ok()?);
        Some(())
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.bytes > HEADER_BYTES_MAX as usize
    }

    /// None if they make no request.
    pub(super) fn request(self) -> Option<RequestHead> {
        let (Some(method), Some(path), true, false) = (self.method, self.path, self.scheme, self.is_wrong) else {
            return None;
        };
        let length = match self.headers.get(CONTENT_LENGTH) {
            Some(length) => Some(length.to_str().ok()?.parse().ok()?),
            None => None,
        };
        Some(RequestHead { method, uri: Uri::from(path), headers: self.headers, length, bytes: self.bytes })
    }

    /// None if they are not what may come at the end.
    pub(super) fn trailers(self) -> Option<HeaderMap> {
        let is_request = self.method.is_some() || self.path.is_some() || self.scheme || self.authority;
        (!is_request && !self.is_wrong && !self.are_too_many()).then_some(self.headers)
    }
}
