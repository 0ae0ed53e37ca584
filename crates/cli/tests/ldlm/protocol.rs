//! gRPC around the messages: what is no answer of LDLM's, and with which status it is told.

use tenure_proto::ldlm::TryLockRequest;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::fixture::{Fixture, within};

/// A message whose field 1 are bytes, which a name need not be.
#[derive(Clone, PartialEq, prost::Message)]
struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(string, tag = "77")]
    more: String,
}

async fn call(
    fixture: &Fixture,
    path: &'static str,
    message: Bytes,
) -> Result<tenure_proto::ldlm::LockResponse, Status> {
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", fixture.grpc_addr())).unwrap();
    let mut grpc = Grpc::new(channel.connect().await.unwrap()).max_encoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(path);
    let call =
        grpc.unary(Request::new(message), path, ProstCodec::<Bytes, tenure_proto::ldlm::LockResponse>::default());
    within(call).await.map(tonic::Response::into_inner)
}

const TRY_LOCK: &str = "/ldlm.LDLM/TryLock";

#[tokio::test]
async fn a_name_that_is_no_text_is_an_internal_error() {
    let fixture = Fixture::start().await;
    let message = Bytes { name: vec![0xff, 0xfe], ..Bytes::default() };
    assert_eq!(call(&fixture, TRY_LOCK, message).await.unwrap_err().code(), Code::Internal);
}

#[tokio::test]
async fn a_field_that_nobody_knows_is_ignored() {
    let fixture = Fixture::start().await;
    let message = Bytes { name: b"x".to_vec(), more: "to come".into() };
    assert!(call(&fixture, TRY_LOCK, message).await.unwrap().locked);
}

#[tokio::test]
async fn a_message_that_is_too_large_exhausts_resources() {
    let fixture = Fixture::start().await;
    for method in [TRY_LOCK, "/ldlm.LDLM/Lock", "/ldlm.LDLM/Unlock"] {
        let message = Bytes { name: vec![b'x'; 5_000_000], ..Bytes::default() };
        assert_eq!(call(&fixture, method, message).await.unwrap_err().code(), Code::ResourceExhausted, "{method}");
    }
    let large = Bytes { name: vec![b'x'; 3_900_000], ..Bytes::default() };
    assert!(call(&fixture, TRY_LOCK, large).await.unwrap().locked);
}

#[tokio::test]
async fn unknown_methods_and_services_are_unimplemented() {
    let fixture = Fixture::start().await;
    for path in ["/ldlm.LDLM/Nothing", "/ldlm.Other/Lock", "/ldlm.LDLM/lock"] {
        assert_eq!(call(&fixture, path, Bytes::default()).await.unwrap_err().code(), Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn the_health_service_is_there_for_those_who_ask() {
    let fixture = Fixture::start().await;
    let answer = call(&fixture, "/grpc.health.v1.Health/Check", Bytes::default()).await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn a_compressed_request_is_unimplemented() {
    let fixture = Fixture::start().await;
    let mut alice = fixture.client().await.0;
    let mut request = Request::new(TryLockRequest { name: "x".into(), ..TryLockRequest::default() });
    request.metadata_mut().insert("grpc-encoding", "gzip".parse().unwrap());
    assert_eq!(within(alice.try_lock(request)).await.unwrap_err().code(), Code::Unimplemented);
}
