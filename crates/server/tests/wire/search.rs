//! Looking for things whose place is not known, and changing only what is still as it was seen.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::talk::Talk;

/// A pool with labels, a hold, two waits and a session, with names that have something in common.
async fn stage() -> (Fixture, Talk) {
    let fixture = Fixture::start().await;
    let spec = json!({ "resources": [
        { "name": "gpu-1", "labels": { "zone": "eu-west" } }, { "name": "gpu-2", "labels": { "zone": "us" } },
    ] });
    fixture.put("/api/v1/pools/gpus", spec).await;
    let session = json!({ "holder": "scheduler", "meta": { "host": "rack-1" } });
    let (_, session) = fixture.post("/api/v1/sessions", session).await;
    fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "backup", "meta": { "host": "rack-7" } })).await;
    let mut stream = Talk::open(&fixture, "queuer").await.0;
    for (id, holder) in [(1, "Migration"), (2, "vacuum")] {
        let acquire = crate::fixture::acquire("db", holder);
        let acquire =
            tenure_proto::v1::AcquireRequest { wait_forever: true, request_id: Some(holder.into()), ..acquire };
        stream.say(id, tenure_proto::v1::client_request::Request::Acquire(Box::new(acquire)));
        stream.hear().await;
    }
    assert!(session["session"].is_number());
    (fixture, stream)
}

async fn found(fixture: &Fixture, text: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let (status, page) = fixture.get(&format!("/api/v1/search?text={text}&limit={limit}{after}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        all.extend(page["found"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { return all };
        after = format!("&after={}", form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>());
    }
}

#[tokio::test]
async fn a_text_is_found_in_names_labels_and_metadata_in_capitals_or_not() {
    let (fixture, _waiting) = stage().await;
    let gpus = [json!({ "pool": "gpus" }), json!({ "pool": "gpus", "resource": "gpu-1" })];
    assert_eq!(found(&fixture, "GPU", 100).await[..2], gpus);
    let label = json!([{ "pool": "gpus", "resource": "gpu-1", "because": { "zone": "eu-west" } }]);
    assert_eq!(json!(found(&fixture, "zone=EU", 100).await), label);
    let racks = json!([
        { "pool": "db", "holder": "backup", "token": 1, "because": { "host": "rack-7" } },
        { "holder": "scheduler", "session": 1, "because": { "host": "rack-1" } },
    ]);
    assert_eq!(json!(found(&fixture, "rack", 100).await), racks);
    assert_eq!(
        json!(found(&fixture, "migra", 100).await),
        json!([{ "pool": "db", "holder": "Migration", "waiter": 1 }])
    );
    assert_eq!(found(&fixture, "nothing", 100).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_search_in_pages_finds_the_same_as_one_without() {
    let (fixture, _waiting) = stage().await;
    let all = found(&fixture, "u", 1000).await;
    assert!(all.len() >= 5, "{all:?}");
    for limit in [1, 2, 3] {
        assert_eq!(found(&fixture, "u", limit).await, all, "{limit}");
    }
    for bad in ["", "&text=", "&text=a&after=x"] {
        let (status, refused) = fixture.get(&format!("/api/v1/search?limit=1{bad}")).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{bad}");
    }
}

#[tokio::test]
async fn waits_are_listed_over_all_pools_and_by_holder() {
    let (fixture, _waiting) = stage().await;
    let (_, all) = fixture.get("/api/v1/waits").await;
    let waits = all["waits"].as_array().unwrap();
    let who =
        |wait: &Value| (wait["pool"].clone(), wait["waiter"]["holder"].clone(), wait["waiter"]["position"].clone());
    assert_eq!(who(&waits[0]), (json!("db"), json!("Migration"), json!(1)));
    assert_eq!(who(&waits[1]), (json!("db"), json!("vacuum"), json!(2)));
    let (_, own) = fixture.get("/api/v1/waits?holder=vacuum").await;
    assert_eq!(own["waits"], json!([waits[1]]));
    let (_, page) = fixture.get("/api/v1/waits?limit=1").await;
    let (_, rest) = fixture.get(&format!("/api/v1/waits?limit=1&after={}", page["next"].as_str().unwrap())).await;
    assert_eq!((&page["waits"][0], &rest["waits"][0]), (&waits[0], &waits[1]));
    assert_eq!(fixture.get("/api/v1/waits?namespace=blue").await.1, json!({ "waits": [] }));
}

#[tokio::test]
async fn history_of_one_kind_leaves_out_nothing_and_nothing_else_in() {
    let fixture = Fixture::start().await;
    for turn in 0..5 {
        let (_, grant) = fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": format!("h{turn}") })).await;
        fixture.post("/api/v1/release", json!({ "key": grant["key"] })).await;
    }
    for (direction, order) in [("false", [0, 1, 2, 3, 4]), ("true", [4, 3, 2, 1, 0])] {
        let mut holders = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/api/v1/history?kind=granted&limit=2&newest_first={direction}{after}");
            let (_, page) = fixture.get(&path).await;
            for event in page["events"].as_array().unwrap() {
                assert_eq!(event["kind"], "granted");
                holders.push(event["holder"].as_str().unwrap().to_owned());
            }
            if page["done"] == true {
                break;
            }
            after = format!("&after={}", page["next"]);
        }
        assert_eq!(holders, order.map(|turn| format!("h{turn}")), "{direction}");
    }
    let (status, refused) = fixture.get("/api/v1/history?kind=wished").await;
    assert_eq!((status, &refused["error"]["field"]), (StatusCode::BAD_REQUEST, &json!("kind")));
}

#[tokio::test]
async fn a_pool_is_changed_only_if_it_is_still_as_it_was_seen() {
    let fixture = Fixture::start().await;
    fixture.put("/api/v1/pools/db", json!({ "units": 3 })).await;
    let (status, refused) = fixture.put("/api/v1/pools/db?size_was=2", json!({ "units": 5 })).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"], &error["size"]), (StatusCode::CONFLICT, &json!("pool_changed"), &json!(3)));
    assert_eq!(fixture.get("/api/v1/pools/db").await.1["summary"]["size"], 3);
    assert_eq!(fixture.put("/api/v1/pools/db?size_was=3", json!({ "units": 5 })).await.0, StatusCode::OK);
    assert_eq!(fixture.get("/api/v1/pools/db").await.1["summary"]["size"], 5);

    let drain = || json!({ "state": "drained", "note": "moving house" });
    let (status, refused) = fixture.put("/api/v1/pools/db/condition?state_was=quarantined", drain()).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"]), (StatusCode::CONFLICT, &json!("pool_changed")));
    assert_eq!(error["condition"], json!({ "state": "in_service" }));
    assert_eq!(fixture.put("/api/v1/pools/db/condition?state_was=in_service", drain()).await.0, StatusCode::OK);
    let (status, _) = fixture.put("/api/v1/pools/none?size_was=1", json!({ "units": 1 })).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "what was seen is gone");
}

#[tokio::test]
async fn a_resource_is_changed_only_if_it_is_still_as_it_was_seen() {
    let (fixture, _waiting) = stage().await;
    let quarantine = || json!({ "state": "quarantined", "note": "smells" });
    let path = "/api/v1/pools/gpus/condition?resource=gpu-1&state_was";
    assert_eq!(fixture.put(&format!("{path}=in_service"), quarantine()).await.0, StatusCode::OK);
    let (status, refused) = fixture.put(&format!("{path}=in_service"), json!({ "state": "drained" })).await;
    let error = &refused["error"];
    assert_eq!(
        (status, &error["code"], &error["resource"]),
        (StatusCode::CONFLICT, &json!("pool_changed"), &json!("gpu-1"))
    );
    let (status, refused) = fixture
        .put("/api/v1/pools/gpus/condition?resource=gpu-9&state_was=in_service", json!({ "state": "drained" }))
        .await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::NOT_FOUND, &json!("unknown_resource")));
}
