//! A refusal as a gRPC status, and back.
//!
//! The status details are a `google.rpc.Status` that holds the [`Refusal`], because that is what gRPC libraries
//! expect there; some reject the whole answer if it is anything else.

use prost::Message;
use tonic::{Code, Status};

use crate::v1::Refusal;

const REFUSAL_TYPE: &str = "type.googleapis.com/tenure.v1.Refusal";

/// A status travels in HTTP/2 trailers, and gRPC libraries reject trailers of more than 8 KiB. The message is in
/// there twice, once with up to three bytes per byte, and the details with four for three.
const REFUSAL_BYTES_MAX: usize = 2_560;
const MESSAGE_BYTES_MAX: usize = 512;

pub fn to_status(code: Code, mut refusal: Refusal) -> Status {
    shorten(&mut refusal);
    let message = refusal.message.clone();
    let any = Any { type_url: REFUSAL_TYPE.into(), value: refusal.encode_to_vec() };
    let details = RpcStatus { code: code.into(), message: message.clone(), details: vec![any] };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// The refusal that a status carries; none if it is not one of Tenure's.
pub fn refusal_of(status: &Status) -> Option<Refusal> {
    let details = RpcStatus::decode(status.details()).ok()?;
    let any = details.details.into_iter().find(|any| any.type_url == REFUSAL_TYPE)?;
    Refusal::decode(&*any.value).ok()
}

/// Leaves out what is least missed until it fits: `holders_total` still says how many there are.
fn shorten(refusal: &mut Refusal) {
    if refusal.message.len() > MESSAGE_BYTES_MAX {
        refusal.message.truncate(refusal.message.floor_char_boundary(MESSAGE_BYTES_MAX));
        refusal.message.push('…');
    }
    if refusal.encoded_len() > REFUSAL_BYTES_MAX {
        refusal.holders.iter_mut().for_each(|hold| hold.meta.clear());
    }
    while refusal.encoded_len() > REFUSAL_BYTES_MAX && refusal.reserved.pop().is_some() {}
    while refusal.encoded_len() > REFUSAL_BYTES_MAX && refusal.holders.pop().is_some() {}
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Hold;

    #[test]
    fn a_refusal_survives_the_status() {
        let refusal = Refusal { code: "busy".into(), message: "pool `db` has no room".into(), ..Refusal::default() };
        let status = to_status(Code::Aborted, refusal.clone());
        assert_eq!(status.code(), Code::Aborted);
        assert_eq!(status.message(), refusal.message);
        assert_eq!(refusal_of(&status), Some(refusal));
    }

    #[test]
    fn a_foreign_status_carries_none() {
        assert_eq!(refusal_of(&Status::unavailable("the proxy says so")), None);
        assert_eq!(refusal_of(&Status::with_details(Code::Aborted, "", vec![1, 2, 3].into())), None);
    }

    #[test]
    fn a_refusal_too_large_for_trailers_is_shortened() {
        let hold = Hold {
            holder: "ü".repeat(256),
            meta: (0..16).map(|n| (n.to_string(), "v".repeat(512))).collect(),
            ..Hold::default()
        };
        let refusal =
            Refusal { code: "busy".into(), message: "ü".repeat(4_096), holders: vec![hold; 8], ..Refusal::default() };
        let told = refusal_of(&to_status(Code::Aborted, refusal)).expect("it is still one");
        assert!(told.encoded_len() <= REFUSAL_BYTES_MAX);
        assert!(!told.holders.is_empty(), "as many holders as fit are told");
    }
}
