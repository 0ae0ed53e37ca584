//! The console's files: served from the program, with a policy that lets nothing else in.

use hyper::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use hyper::{Request, StatusCode};

use crate::fixture::Fixture;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// What a page refers to: the scripts, styles and pictures of its own host.
fn references(text: &str) -> Vec<String> {
    let marks = ["href=\"/", "src=\"/"];
    let found = marks.iter().flat_map(|mark| text.match_indices(mark).map(|(at, mark)| &text[at + mark.len() - 1..]));
    found.map(|rest| rest[..rest.find('"').unwrap()].to_owned()).collect()
}

#[tokio::test]
async fn a_browser_gets_the_console_with_all_that_it_refers_to() {
    let fixture = Fixture::start().await;
    let request = Request::get("/").header(ACCEPT, BROWSER).body(Vec::new()).unwrap();
    let response = fixture.send(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(response.headers()["vary"], "accept");
    let (_, page) = fixture.text("/console/index.html").await;
    let references = references(&page);
    assert!(references.len() >= 3, "{references:?}");
    for path in references {
        let path = path.split('#').next().unwrap();
        assert_eq!(fixture.text(path).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn the_policy_lets_nothing_in_from_elsewhere_and_nothing_that_is_written_into_the_page() {
    let fixture = Fixture::start().await;
    for path in ["/console/index.html", "/console/app.js", "/console/style.css", "/console/views/pool.js"] {
        let response = fixture.send(Request::get(path).body(Vec::new()).unwrap()).await;
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        for hole in ["unsafe", "data:", "blob:", "*", "http"] {
            assert!(!policy.contains(hole), "{path}: {policy}");
        }
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(response.headers()["cross-origin-resource-policy"], "same-origin");
    }
}

#[tokio::test]
async fn a_file_that_the_browser_has_already_is_not_sent_again() {
    let fixture = Fixture::start().await;
    let first = fixture.send(Request::get("/console/app.js").body(Vec::new()).unwrap()).await;
    let tag = first.headers()[ETAG].clone();
    let ask = |tag: &str| Request::get("/console/app.js").header(IF_NONE_MATCH, tag).body(Vec::new()).unwrap();
    assert_eq!(fixture.send(ask(tag.to_str().unwrap())).await.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(fixture.send(ask("\"of another version\"")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn who_asks_without_a_browser_is_told_the_way_in_a_few_words() {
    let fixture = Fixture::start().await;
    let (status, words) = fixture.text("/").await;
    assert_eq!(status, StatusCode::OK);
    let paths: Vec<_> = words.split_whitespace().filter(|word| word.starts_with('/') && word.len() > 1).collect();
    assert!(paths.len() >= 5, "{words}");
    for path in paths {
        assert_eq!(fixture.text(path.trim_end_matches(',')).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn there_is_nothing_else_below_the_console() {
    let fixture = Fixture::start().await;
    for path in ["/console", "/console/", "/console/nothing.js", "/console/../Cargo.toml", "/console/%2e%2e/Cargo.toml"]
    {
        let (status, refused) = fixture.get(path).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::NOT_FOUND, &"unknown_path".into()), "{path}");
    }
}
