//! Every answer says which server gave it, so that a client that cannot make sense of one can say whom it met.

use axum::http::header::SERVER;
use axum::http::{HeaderValue, Response};

pub(crate) const NAME: HeaderValue = HeaderValue::from_static(concat!("tenure/", env!("CARGO_PKG_VERSION")));

/// For a layer around everything else, so that what is refused before it reaches a service is signed too.
pub(crate) fn sign<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(SERVER, NAME);
    response
}
