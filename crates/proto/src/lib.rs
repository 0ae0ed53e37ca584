//! What goes over the wire: the generated types of `proto/tenure/v1`, as protobuf and as JSON, and of `proto/ldlm`.
//!
//! These are never domain types: the server converts them at its edge, in one place. Nothing here checks
//! anything but the shape of a message.

mod json;
mod status;

pub use status::{refusal_of, to_status};

pub mod v1 {
    //! Package `tenure.v1`.
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]

    tonic::include_proto!("tenure.v1");
}

pub mod ldlm {
    //! Package `ldlm`: the interface of LDLM.
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]

    tonic::include_proto!("ldlm");
}

/// The descriptors of the package `tenure.v1`, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("descriptors");
/// The same for the package `ldlm`.
pub const LDLM_FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("ldlm_descriptors");
