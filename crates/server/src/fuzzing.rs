//! Every decoder of the front ends, with whatever bytes: refused or understood, and the same again after a round trip.
//! The first byte of an input says which message the rest is.

use std::fmt::Debug;

use axum::body::Body;
use axum::http::{Request, header};
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Page, Query};
use tenure_fuzz::{fuzz, word};
use tenure_proto::{ldlm, v1};

use crate::convert::{self, Caller};
use crate::error::Error;
use crate::rest::extract;

/// What is common to all requests.
trait Wire: Message + Clone + Default + Debug + PartialEq + Serialize + DeserializeOwned {}
impl<M: Message + Clone + Default + Debug + PartialEq + Serialize + DeserializeOwned> Wire for M {}

/// Decodes the bytes as the message of that number, in one way or another, and converts it.
trait Decode {
    fn decode<M: Wire>(&self, bytes: &[u8], convert: fn(M) -> Result<(), Error>) -> String;
}

/// The requests of the API, by number.
fn as_request(decode: &impl Decode, input: &[u8]) -> String {
    let Some((number, bytes)) = input.split_first() else { return "empty".into() };
    let number = number % 26;
    let heard = match number {
        0 => decode.decode::<v1::AcquireRequest>(bytes, |it| convert::acquire(it, &Caller::default()).map(drop)),
        1 => decode.decode::<v1::RenewRequest>(bytes, |it| convert::renew(it, &Caller::default()).map(drop)),
        2 => decode.decode::<v1::ReleaseRequest>(bytes, |it| convert::release(it, &Caller::default()).map(drop)),
        3 => decode.decode::<v1::WithdrawRequest>(bytes, |it| convert::withdraw(it, &Caller::default()).map(drop)),
        4 => decode.decode::<v1::ForceReleaseRequest>(bytes, |it| convert::force_release(it).map(drop)),
        5 => decode.decode::<v1::OwnerGoneRequest>(bytes, |it| convert::owner_gone(it).map(drop)),
        6 => decode.decode::<v1::OpenSessionRequest>(bytes, |it| convert::open_session(it, true).map(drop)),
        7 => decode.decode::<v1::KeepAliveRequest>(bytes, |it| convert::keep_alive(it).map(drop)),
        8 => decode.decode::<v1::EndSessionRequest>(bytes, |it| convert::end_session(it).map(drop)),
        9 => decode.decode::<v1::SetPoolRequest>(bytes, |it| convert::set_pool(it).map(drop)),
        10 => decode.decode::<v1::SetConditionRequest>(bytes, |it| convert::set_condition(it).map(drop)),
        11 => decode.decode::<v1::RemovePoolRequest>(bytes, |it| convert::remove_pool(&it).map(drop)),
        12 => decode.decode::<v1::ListHoldsRequest>(bytes, |it| convert::list_holds(it).map(drop)),
        13 => decode.decode::<v1::ListSessionsRequest>(bytes, |it| convert::list_sessions(it).map(drop)),
        14 => decode.decode::<v1::ListPoolsRequest>(bytes, |it| convert::list_pools(it).map(drop)),
        15 => decode.decode::<v1::GetPoolRequest>(bytes, |it| convert::get_pool(it).map(drop)),
        16 => decode.decode::<v1::ListQueueRequest>(bytes, |it| convert::list_queue(it).map(drop)),
        17 => decode.decode::<v1::HistoryRequest>(bytes, |it| convert::history(it).map(drop)),
        18 => decode.decode::<v1::WatchRequest>(bytes, |it| convert::watch(&it).map(drop)),
        19 => decode.decode::<v1::StealRequest>(bytes, |it| convert::steal(it).map(drop)),
        20 => decode.decode::<v1::MoveWaiterRequest>(bytes, |it| convert::move_waiter(&it).map(drop)),
        21 => decode.decode::<v1::ReserveRequest>(bytes, |it| convert::reserve(it).map(drop)),
        22 => decode.decode::<v1::UnreserveRequest>(bytes, |it| convert::unreserve(&it).map(drop)),
        23 => decode.decode::<v1::ExplainRequest>(bytes, |it| convert::explain(it).map(drop)),
        24 => decode.decode::<v1::ListWaitsRequest>(bytes, |it| convert::list_waits(it).map(drop)),
        _ => decode.decode::<v1::SearchRequest>(bytes, |it| convert::search(it).map(drop)),
    };
    format!("{number} {heard}")
}

fn verdict(converted: Result<(), Error>) -> String {
    match converted {
        Ok(()) => "understood".into(),
        // What is told must be tellable.
        Err(error) => word(&error.tell().message),
    }
}

/// As gRPC has it.
struct Protobuf;

impl Decode for Protobuf {
    fn decode<M: Wire>(&self, bytes: &[u8], convert: fn(M) -> Result<(), Error>) -> String {
        let message = match M::decode(bytes) {
            Ok(message) => message,
            Err(error) => return word(&error),
        };
        assert_eq!(M::decode(&*message.encode_to_vec()).as_ref(), Ok(&message), "the same after a round trip");
        let converted = convert(message.clone());
        // What cannot be used need not have a form in JSON: protobuf has a value for what was left out, and numbers that
        // nobody knows.
        if converted.is_ok() {
            let json = serde_json::to_vec(&message).expect("what can be used can be written");
            assert_eq!(serde_json::from_slice::<M>(&json).ok().as_ref(), Some(&message), "the same through JSON");
        }
        verdict(converted)
    }
}

/// As the body of an HTTP request.
struct Json(tokio::runtime::Runtime);

impl Decode for Json {
    fn decode<M: Wire>(&self, bytes: &[u8], convert: fn(M) -> Result<(), Error>) -> String {
        let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(bytes.to_vec())).expect("it has all that a request needs");
        let message = match self.0.block_on(extract::body::<M>(request)) {
            Ok(message) => message,
            Err(error) => return word(&error.tell().message),
        };
        assert_eq!(M::decode(&*message.encode_to_vec()).as_ref(), Ok(&message), "the same through protobuf");
        verdict(convert(message))
    }
}

/// As the query of an HTTP request.
struct Parameters;

impl Decode for Parameters {
    fn decode<M: Wire>(&self, bytes: &[u8], convert: fn(M) -> Result<(), Error>) -> String {
        let pairs = form_urlencoded::parse(bytes);
        match extract::parse::<M>(serde_urlencoded::Deserializer::new(pairs)) {
            Ok(message) => verdict(convert(message)),
            Err(error) => word(&error.tell().message),
        }
    }
}

const KEY: &str = "00000000-0000-4000-8000-000000000000";

/// One of each kind, as the fields of JSON.
const REQUESTS: [&str; 26] = [
    r#"{"namespace":"n","pool":"db","units":2,"size":9,"select":"gpu && mem >= 80 || !(zone == \"eu west\")","lifetime":"session",
        "ttl_ms":2000,"wait_ms":500,"priority":-3,"holder":"h","meta":{"host":"a"},"session_key":"00000000-0000-4000-8000-000000000000","request_id":"r"}"#,
    r#"{"key":"00000000-0000-4000-8000-000000000000","pool":"db","ttl_ms":1}"#,
    r#"{"key":"00000000-0000-4000-8000-000000000000"}"#,
    r#"{"request_id":"r"}"#,
    r#"{"pool":"db","holder":"h","token":7,"reason":"stuck"}"#,
    r#"{"owner":"o"}"#,
    r#"{"holder":"h","meta":{"a":"b"},"grace_ms":1000}"#,
    r#"{"session_key":"00000000-0000-4000-8000-000000000000"}"#,
    r#"{"session_key":"00000000-0000-4000-8000-000000000000"}"#,
    r#"{"pool":"db","spec":{"resources":[{"name":"a","labels":{"zone":"eu"},"properties":{"ip":"1"}}],"placement":"spread","spread_label":"zone","order":"backfill","cleaning":true,"fair":{"by":"tenant","weights":{"a":3}},"scripts":{"place":"1","order":"request.units"}}}"#,
    r#"{"pool":"db","resource":"a","condition":{"state":"quarantined","note":"smokes"},"lasts_ms":9}"#,
    r#"{"pool":"db"}"#,
    r#"{"pool":"db","holder":"h","after":"3","limit":7}"#,
    r#"{"after":"3","limit":7}"#,
    r#"{"prefix":"d","after":"da","limit":7}"#,
    r#"{"pool":"db"}"#,
    r#"{"pool":"db","after":"0.3.-9.4","limit":7}"#,
    r#"{"pool":"db","holder":"h","after":3,"newest_first":true,"limit":7}"#,
    r#"{"pool":"db","after":3}"#,
    r#"{"pool":"db","holder":"h","token":7,"to":"g","meta":{"a":"b"},"lifetime":"leased","ttl_ms":9,"request_id":"r","reason":"x"}"#,
    r#"{"pool":"db","waiter":3,"holder":"h","before":2,"reason":"x"}"#,
    r#"{"pool":"db","resource":"a","holder":"h","lasts_ms":9,"instead_of":"g","reason":"x"}"#,
    r#"{"pool":"db","resource":"a","holder":"h","reason":"x"}"#,
    r#"{"pool":"db","waiter":3,"limit":7}"#,
    r#"{"holder":"h","after":"3","limit":7}"#,
    r#"{"text":"d","after":"pool\nda\ngpu-7","limit":7}"#,
];

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "\\u0000",
    "\\ud800",
    "\u{202e}",
    "\u{fffd}",
    "\"units\":",
    "\"all\":true",
    "\"wait_forever\":true",
    "\"lifetime\":",
    "\"window\"",
    "\"bound\"",
    "\"kept\"",
    "\"owner\":",
    "\"resources\":",
    "\"labels\":",
    "&&",
    "||",
    "!",
    "(",
    ")",
    ">=",
    "==",
    "&",
    "=",
    "%00",
    "%ff",
    "+",
    "limit=",
    "after=",
    KEY,
];

fn numbered(number: usize, bytes: &[u8]) -> Vec<u8> {
    [&[number.try_into().expect("there are few")], bytes].concat()
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_grpc_request() {
    let mut samples = Vec::new();
    macro_rules! sample {
        ($($number:literal $message:ident)+) => {$(
            let message: v1::$message = serde_json::from_str(REQUESTS[$number]).expect(REQUESTS[$number]);
            samples.push(numbered($number, &message.encode_to_vec()));
        )+};
    }
    sample! { 0 AcquireRequest 1 RenewRequest 2 ReleaseRequest 3 WithdrawRequest 4 ForceReleaseRequest 5 OwnerGoneRequest
    6 OpenSessionRequest 7 KeepAliveRequest 8 EndSessionRequest 9 SetPoolRequest 10 SetConditionRequest 11 RemovePoolRequest
    12 ListHoldsRequest 13 ListSessionsRequest 14 ListPoolsRequest 15 GetPoolRequest 16 ListQueueRequest 17 HistoryRequest
    18 WatchRequest 19 StealRequest 20 MoveWaiterRequest 21 ReserveRequest 22 UnreserveRequest 23 ExplainRequest
    24 ListWaitsRequest 25 SearchRequest }
    fuzz("grpc", &samples, WORDS, |input| as_request(&Protobuf, input));
}

#[test]
fn any_bytes_are_refused_or_understood_as_the_body_of_a_rest_request() {
    let samples: Vec<_> = REQUESTS.iter().enumerate().map(|(number, json)| numbered(number, json.as_bytes())).collect();
    let json = Json(tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));
    for sample in &samples {
        let heard = as_request(&json, sample);
        assert!(heard.ends_with("understood"), "a sample is good: {heard}");
    }
    fuzz("rest_body", &samples, WORDS, |input| as_request(&json, input));
}

#[test]
fn any_bytes_are_refused_or_understood_as_the_query_of_a_rest_request() {
    let query = b"pool=d%C3%A4&holder=h+h&after=3&limit=7&newest_first=true&prefix=x&namespace=n";
    let samples: Vec<_> = (11..19).chain([24, 25]).map(|number| numbered(number, query)).collect();
    fuzz("rest_query", &samples, WORDS, |input| as_request(&Parameters, input));
}

#[test]
fn any_path_is_refused_or_understood_as_the_parameters_of_a_rest_request() {
    async fn get_pool(mut request: axum::extract::Request) -> String {
        match extract::parameters::<v1::GetPoolRequest>(&mut request).await {
            Ok(message) => serde_json::to_string(&message).expect("texts are JSON"),
            Err(error) => format!("! {}", error.tell().message),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let router = axum::Router::new().route("/pools/{pool}", axum::routing::any(get_pool));
    let answer = |path: &[u8]| -> Option<String> {
        let request = Request::builder().uri(path).body(Body::empty()).ok()?;
        let response = runtime.block_on(tower::ServiceExt::oneshot(router.clone(), request)).expect("it never fails");
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), usize::MAX)).expect("it is there");
        response_text(&body)
    };
    fn response_text(body: &[u8]) -> Option<String> {
        Some(str::from_utf8(body).expect("it was text").to_owned()).filter(|text| !text.is_empty())
    }
    let samples = ["/pools/db", "/pools/d%C3%A4?namespace=n", "/pools/a%2Fb%20c%2B?namespace=a+b%2B"];
    let words =
        ["%", "%2", "%00", "%2F", "%ff", "%C3", "%25", "+", "?", "&", "=", "/", "namespace=", "pool=", "#", "..", "é"];
    fuzz("rest_path", &samples.map(|path| path.as_bytes().to_vec()), &words, |input| {
        let Some(told) = answer(input) else { return "no such path".into() };
        if let Some(refused) = told.strip_prefix("! ") {
            return word(&refused);
        }
        let message: v1::GetPoolRequest = serde_json::from_str(&told).expect("it was just written");
        // Whatever it says can be said again.
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("namespace", &message.namespace).finish();
        let all = percent_encoding::NON_ALPHANUMERIC;
        let again = format!("/pools/{}?{query}", percent_encoding::utf8_percent_encode(&message.pool, all));
        assert_eq!(answer(again.as_bytes()).as_ref(), Some(&told), "{again}");
        verdict(convert::get_pool(message).map(drop))
    });
}

#[test]
fn any_text_is_refused_or_understood_as_where_a_listing_goes_on() {
    let samples = ["0.3", "-9.4.-7.12", "1000.18446744073709551615.9223372036854775807.-9223372036854775808"];
    let places = ["pool\nda", "pool\nda\ngpu-7", "hold\n3", "wait\n3", "session\n3"];
    let samples: Vec<_> = samples.iter().chain(&places).map(|text| text.as_bytes().to_vec()).collect();
    fuzz("cursor", &samples, &[".", "-", "+", "\n", "pool\n", "hold\n", "0", "18446744073709551616"], |input| {
        let Ok(text) = str::from_utf8(input) else { return "not UTF-8".into() };
        let queue = |after: &str| {
            let request = v1::ListQueueRequest { pool: "db".into(), after: Some(after.into()), ..Default::default() };
            match convert::list_queue(request) {
                Ok(Query::Queue { after: Some(place), .. }) => Some(place),
                _ => None,
            }
        };
        let search = |after: &str| {
            let request = v1::SearchRequest { text: "d".into(), after: Some(after.into()), ..Default::default() };
            match convert::search(request) {
                Ok(Query::Search { after: Some(place), .. }) => Some(place),
                _ => None,
            }
        };
        if let Some(place) = queue(text) {
            let told = convert::queue(&Page { items: Vec::new(), next: Some(place) }).next.expect("it goes on");
            assert_eq!(queue(&told), Some(place));
            return format!("queue {}", place.is_ranked());
        }
        if let Some(place) = search(text) {
            let told = convert::found(&Page { items: Vec::new(), next: Some(place.clone()) }).next.expect("it goes on");
            assert_eq!(search(&told).as_ref(), Some(&place));
            return format!("search {}", text.split('\n').next().unwrap_or_default());
        }
        "refused".into()
    });
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_message_of_a_stream() {
    use v1::client_request::Request;
    let decode = |input: &[u8]| {
        let message = match v1::ClientMessage::decode(input) {
            Ok(message) => message,
            Err(error) => return word(&error),
        };
        assert_eq!(v1::ClientMessage::decode(&*message.encode_to_vec()).as_ref(), Ok(&message));
        let caller = Caller::default();
        let converted = message.requests.into_iter().map(|request| match request.request {
            Some(Request::Open(open)) => verdict(convert::open_session(*open, true).map(drop)),
            Some(Request::Resume(resume)) => verdict(convert::resume(&resume).map(drop)),
            Some(Request::Acquire(acquire)) => verdict(convert::acquire(*acquire, &caller).map(drop)),
            Some(Request::Renew(renew)) => verdict(convert::renew(*renew, &caller).map(drop)),
            Some(Request::Release(release)) => verdict(convert::release(*release, &caller).map(drop)),
            Some(Request::Withdraw(withdraw)) => verdict(convert::withdraw(*withdraw, &caller).map(drop)),
            Some(Request::Ping(_) | Request::End(_)) => "nothing in it".into(),
            None => "no request".into(),
        });
        converted.take(3).collect()
    };
    let parse = |number: usize| REQUESTS[number];
    let requests = [
        Request::Open(Box::new(serde_json::from_str(parse(6)).expect("a sample"))),
        Request::Acquire(Box::new(serde_json::from_str(parse(0)).expect("a sample"))),
        Request::Renew(Box::new(serde_json::from_str(parse(1)).expect("a sample"))),
        Request::Release(Box::new(serde_json::from_str(parse(2)).expect("a sample"))),
        Request::Withdraw(Box::new(serde_json::from_str(parse(3)).expect("a sample"))),
        Request::Ping(v1::Ping {}),
        Request::End(v1::EndSession {}),
    ];
    let requests = requests.into_iter().zip(1..).map(|(request, id)| v1::ClientRequest { id, request: Some(request) });
    let all = v1::ClientMessage { requests: requests.collect() }.encode_to_vec();
    fuzz("stream", &[all], WORDS, decode);
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_request_of_ldlm() {
    fn decoded<M: Message + Default + Debug + PartialEq>(bytes: &[u8], name: fn(&M) -> &str) -> String {
        match M::decode(bytes) {
            Ok(message) => {
                assert_eq!(M::decode(&*message.encode_to_vec()).as_ref(), Ok(&message));
                // Every name has a pool.
                let _ = crate::pool_of_lock(name(&message));
                "understood".into()
            }
            Err(error) => word(&error),
        }
    }
    let lock = ldlm::LockRequest {
        name: "a".into(),
        wait_timeout_seconds: Some(-1),
        lock_timeout_seconds: Some(i32::MAX),
        size: Some(3),
    };
    let renew = ldlm::RenewRequest { name: "ä\n".into(), key: "k".into(), lock_timeout_seconds: 3 };
    let samples = [numbered(0, &lock.encode_to_vec()), numbered(3, &renew.encode_to_vec())];
    fuzz("ldlm_grpc", &samples, &["name", "\u{202e}", "\0"], |input| match input.split_first() {
        Some((0, bytes)) => decoded::<ldlm::LockRequest>(bytes, |it| &it.name),
        Some((1, bytes)) => decoded::<ldlm::TryLockRequest>(bytes, |it| &it.name),
        Some((2, bytes)) => decoded::<ldlm::UnlockRequest>(bytes, |it| &it.name),
        Some((_, bytes)) => decoded::<ldlm::RenewRequest>(bytes, |it| &it.name),
        None => "empty".into(),
    });
}
