//! LDLM's password and TLS: a password as its clients say it, over gRPC and REST, and certificates of both sides.

use std::path::PathBuf;

use tempfile::TempDir;
use tenure_proto::ldlm::LockResponse;
use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use crate::certificates::{Authority, Identity};
use crate::client::Ask;
use crate::fixture::{Fixture, serve, within};
use crate::support::Process;

const PASSWORD: &str = "s3:cret";
/// `any:s3:cret`
const BASIC: &str = "Basic YW55OnMzOmNyZXQ=";

/// A server with a password. Its folder is to be kept.
async fn guarded() -> (Fixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, PASSWORD).unwrap();
    (Fixture::with(&["--password-file", file.to_str().unwrap()]).await, folder)
}

/// Locks `x` with these values of `authorization`, in this order.
async fn try_lock(channel: Channel, given: &[&str]) -> Result<LockResponse, Status> {
    let mut request = Request::new("x".message());
    for value in given {
        request.metadata_mut().append("authorization", value.parse().unwrap());
    }
    within(LdlmClient::new(channel).try_lock(request)).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn the_raw_password_lets_in_over_grpc() {
    let (fixture, _folder) = guarded().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", fixture.grpc_addr())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let missing = try_lock(channel.clone(), &[]).await.unwrap_err();
    assert_eq!((missing.code(), missing.message()), (Code::Unauthenticated, "missing credentials"));
    for wrong in [&["wrong"][..], &[""], &[BASIC], &["Basic s3:cret"], &["wrong", PASSWORD]] {
        let refused = try_lock(channel.clone(), wrong).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "invalid credentials"), "{wrong:?}");
    }
    assert!(try_lock(channel.clone(), &[PASSWORD]).await.unwrap().locked, "nobody has locked it before");
    assert!(!try_lock(channel, &[PASSWORD, "wrong"]).await.unwrap().locked, "only the first value counts");
}

#[tokio::test]
async fn basic_with_any_user_lets_in_over_rest_with_every_request() {
    let (fixture, _folder) = guarded().await;
    for given in [None, Some("wrong"), Some(PASSWORD), Some("basic YW55OnMzOmNyZXQ="), Some("Basic YW55OnMzOmNyZXQ")] {
        let refused = fixture.http_as(given, "POST", "/session", None, "").await;
        assert_eq!((refused.status, &*refused.text), (401, ""), "{given:?}");
        assert_eq!(refused.www_authenticate.as_deref(), Some("Basic realm=\"Restricted\""));
    }
    // `:s3:cret` and `somebody:s3:cret`
    for given in [BASIC, "Basic OnMzOmNyZXQ=", "Basic c29tZWJvZHk6czM6Y3JldA=="] {
        assert_eq!(fixture.http_as(Some(given), "POST", "/session", None, "").await.status, 201, "{given}");
    }
    let opened = fixture.http_as(Some(BASIC), "POST", "/session", None, "").await.json();
    let cookie = opened["session_id"].as_str().unwrap();
    for (path, body) in [("/v1/lock", r#"{"name": "x"}"#), ("/v1/nothing", ""), ("/session", "")] {
        let refused = fixture.http("POST", path, Some(cookie), body).await;
        assert_eq!((refused.status, &*refused.text), (401, ""), "a cookie is no password");
        assert!(refused.www_authenticate.is_some());
    }
    let locked = fixture.http_as(Some(BASIC), "POST", "/v1/lock", Some(cookie), r#"{"name": "x"}"#).await;
    assert_eq!((locked.status, &locked.json()["locked"]), (200, &true.into()));
}

/// A server with certificates.
struct Secured {
    server: Process,
    authority: Authority,
    clients: Authority,
    _folder: TempDir,
}

impl Secured {
    fn start(with_clients: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
        let files = authority.sign().write(folder.path(), "server");
        let mut serve = serve(&folder);
        let arg = |path: PathBuf| path.to_str().unwrap().to_owned();
        serve.args(["--durability", "memory", "--tls-cert", &arg(files.cert), "--tls-key", &arg(files.key)]);
        if with_clients {
            serve.args(["--client-ca", &arg(clients.write(folder.path(), "clients.crt"))]);
        }
        Self { server: Process::spawn(&mut serve), authority, clients, _folder: folder }
    }

    /// Locks `x` over a connection of its own.
    async fn try_lock(&self, identity: Option<&Identity>) -> Result<LockResponse, Code> {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.authority.pem()));
        if let Some(Identity { certificate, key }) = identity {
            tls = tls.identity(tonic::transport::Identity::from_pem(certificate, key));
        }
        let endpoint = Endpoint::from_shared(self.server.grpc.clone()).unwrap().tls_config(tls).unwrap();
        let channel = within(endpoint.connect()).await.map_err(|_| Code::Unavailable)?;
        try_lock(channel, &[]).await.map_err(|status| status.code())
    }

    async fn try_lock_in_clear(&self) -> Result<LockResponse, Code> {
        let endpoint = Endpoint::from_shared(self.server.grpc.replace("https", "http")).unwrap();
        let channel = within(endpoint.connect()).await.map_err(|_| Code::Unavailable)?;
        try_lock(channel, &[]).await.map_err(|status| status.code())
    }
}

/// How a connection that breaks looks is the client library's to say; most say `UNAVAILABLE`.
fn assert_not_served(answer: Result<LockResponse, Code>) {
    let broken = [Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled];
    assert!(answer.as_ref().is_err_and(|code| broken.contains(code)), "{answer:?}");
}

#[tokio::test]
async fn with_a_certificate_only_tls_is_spoken() {
    let secured = Secured::start(false);
    assert_not_served(secured.try_lock_in_clear().await);
    assert!(secured.try_lock(None).await.unwrap().locked);
}

#[tokio::test]
async fn with_an_authority_for_clients_only_they_are_served() {
    let secured = Secured::start(true);
    assert_not_served(secured.try_lock_in_clear().await);
    assert_not_served(secured.try_lock(None).await);
    assert_not_served(secured.try_lock(Some(&secured.authority.sign())).await);
    assert!(secured.try_lock(Some(&secured.clients.sign())).await.unwrap().locked);
}

#[test]
fn an_authority_for_clients_without_a_certificate_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let clients = Authority::new("our clients").write(folder.path(), "clients.crt");
    let refused = serve(&folder).arg("--client-ca").arg(clients).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{error}");
    assert!(error.contains("--client-ca needs --tls-cert"), "{error}");
}
