//! Who is let in: the password at both ports, TLS and certificates of clients, and certificates that are replaced while
//! the server runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST, SERVER, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tenure_proto::ldlm;
use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{ClientMessage, ListPoolsRequest, ListPoolsResponse};
use tenure_server::{Config, Password, Tls, TlsError, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::certificates::{Authority, Identity};
use crate::fixture::{Fixture, eventually, within};

const PASSWORD: &str = "s3:cret";
/// `any:s3:cret`
const BASIC: &str = "Basic YW55OnMzOmNyZXQ=";

async fn guarded() -> Fixture {
    let password = Some(Password::parse(PASSWORD).unwrap());
    Fixture::start_with(Config { password, ..Config::any_ports() }).await
}

/// A call with these values of `authorization`, in this order.
async fn call(channel: Channel, given: &[&str]) -> Result<ListPoolsResponse, Status> {
    let mut request = tonic::Request::new(ListPoolsRequest::default());
    for value in given {
        request.metadata_mut().append("authorization", value.parse().unwrap());
    }
    within(TenureClient::new(channel).list_pools(request)).await.map(tonic::Response::into_inner)
}

fn told(status: &Status) -> (Code, &str) {
    (status.code(), status.message())
}

#[tokio::test]
async fn grpc_lets_in_whoever_has_the_password() {
    let fixture = guarded().await;
    let channel = fixture.channel().await;
    let missing = call(channel.clone(), &[]).await.unwrap_err();
    assert_eq!(told(&missing), (Code::Unauthenticated, "missing credentials"));
    assert!(missing.metadata().get("server").is_some(), "it says who refuses");
    for wrong in [&["wrong"][..], &[""], &[BASIC], &["wrong", PASSWORD]] {
        let refused = call(channel.clone(), wrong).await.unwrap_err();
        assert_eq!(told(&refused), (Code::Unauthenticated, "invalid credentials"), "{wrong:?}");
    }
    for right in [&[PASSWORD][..], &["Bearer s3:cret"], &[PASSWORD, "wrong"]] {
        call(channel.clone(), right).await.unwrap_or_else(|status| panic!("{right:?}: {status}"));
    }
}

#[tokio::test]
async fn streams_and_what_does_not_exist_need_the_password_too_and_the_health_does_not() {
    let fixture = guarded().await;
    let channel = fixture.channel().await;
    let stream = tokio_stream::iter([ClientMessage::default()]);
    let refused = within(TenureClient::new(channel.clone()).session(stream)).await.unwrap_err();
    assert_eq!(told(&refused), (Code::Unauthenticated, "missing credentials"));
    let mut unknown = tonic::client::Grpc::new(channel.clone());
    within(unknown.ready()).await.unwrap();
    let codec = tonic_prost::ProstCodec::<ListPoolsRequest, ListPoolsResponse>::default();
    let path = "/no.Such/Method".parse().unwrap();
    let refused = unknown.unary(tonic::Request::new(ListPoolsRequest::default()), path, codec);
    assert_eq!(within(refused).await.unwrap_err().code(), Code::Unauthenticated);
    let mut health = HealthClient::new(channel);
    within(health.check(HealthCheckRequest::default())).await.unwrap();
    let refused = within(health.watch(HealthCheckRequest::default())).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "it has no end");
}

#[tokio::test]
async fn http_lets_in_whoever_has_the_password() {
    let fixture = guarded().await;
    let get = async |path: &str, given: Option<&str>| {
        let mut request = Request::get(path);
        if let Some(given) = given {
            request = request.header(AUTHORIZATION, given);
        }
        within(fixture.send(request.body(Vec::new()).unwrap())).await
    };
    for path in ["/", "/metrics", "/api/v1/pools", "/api/v1/openapi.json", "/nowhere"] {
        for given in
            [None, Some("wrong"), Some(PASSWORD), Some("basic YW55OnMzOmNyZXQ="), Some("Basic YW55OnMzOmNyZXQ")]
        {
            let refused = get(path, given).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path} {given:?}");
            assert_eq!(refused.headers()[WWW_AUTHENTICATE], "Basic realm=\"Restricted\"");
            assert!(refused.headers().contains_key(SERVER));
            assert_eq!(refused.into_body().collect().await.unwrap().to_bytes(), "", "nothing is told");
        }
        for given in [BASIC, "Bearer s3:cret"] {
            assert_ne!(get(path, Some(given)).await.status(), StatusCode::UNAUTHORIZED, "{path} {given}");
        }
    }
    assert_eq!(get("/api/v1/pools", Some(BASIC)).await.status(), StatusCode::OK);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(path, None).await.status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn ldlms_clients_need_the_same_password() {
    let fixture = guarded().await;
    let lock = || ldlm::TryLockRequest { name: "x".into(), ..Default::default() };
    let mut client = LdlmClient::new(fixture.channel().await);
    let refused = within(client.try_lock(lock())).await.unwrap_err();
    assert_eq!(told(&refused), (Code::Unauthenticated, "missing credentials"));
    let mut request = tonic::Request::new(lock());
    request.metadata_mut().insert("authorization", PASSWORD.parse().unwrap());
    assert!(within(client.try_lock(request)).await.unwrap().into_inner().locked);

    let post = async |path: &str, headers: &[(&str, &str)]| {
        let request = headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
        within(fixture.send(request.body(b"{\"name\": \"y\"}".to_vec()).unwrap())).await
    };
    assert_eq!(post("/session", &[]).await.status(), StatusCode::UNAUTHORIZED);
    let opened = post("/session", &[("authorization", BASIC)]).await;
    assert_eq!(opened.status(), StatusCode::CREATED);
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let refused = post("/v1/lock", &[("cookie", &cookie)]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "a cookie is no password");
    assert!(refused.headers().contains_key(WWW_AUTHENTICATE));
    let locked = post("/v1/lock", &[("cookie", &cookie), ("authorization", BASIC)]).await;
    assert_eq!(locked.status(), StatusCode::OK);
}

/// A server with certificates in a folder.
pub(crate) struct Secured {
    pub(crate) fixture: Fixture,
    tls: Tls,
    folder: TempDir,
}

impl Secured {
    async fn start(identity: &Identity, client_ca: Option<&Authority>) -> Self {
        Self::start_with(identity, client_ca, Config::any_ports()).await
    }

    pub(crate) async fn start_with(identity: &Identity, client_ca: Option<&Authority>, config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = identity.write(folder.path(), "server");
        let client_ca = client_ca.map(|authority| authority.write(folder.path(), "clients.crt"));
        let tls = Tls::load(TlsFiles { cert: files.cert, key: files.key, client_ca }).unwrap();
        let fixture = Fixture::start_with(Config { tls: Some(tls.clone()), ..config }).await;
        Self { fixture, tls, folder }
    }

    fn endpoint(&self, authority: &Authority, identity: Option<&Identity>) -> Endpoint {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
        if let Some(identity) = identity {
            tls = tls.identity(tonic::transport::Identity::from_pem(&identity.certificate, &identity.key));
        }
        let uri: tonic::transport::Uri = format!("https://{}", self.fixture.server.grpc_addr()).parse().unwrap();
        Endpoint::from(uri).tls_config(tls).unwrap()
    }

    /// Whether a call comes through over a connection of its own. That a certificate is missing shows only there.
    async fn grpc(&self, authority: &Authority, identity: Option<&Identity>) -> Result<(), Code> {
        let channel = within(self.endpoint(authority, identity).connect()).await.map_err(|_| Code::Unavailable)?;
        call(channel, &[]).await.map(drop).map_err(|status| status.code())
    }

    /// A connection to the HTTP port that speaks one of these.
    async fn tls(
        &self,
        authority: &Authority,
        identity: Option<&Identity>,
        protocols: &[&[u8]],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        shake(self.fixture.server.http_addr(), authority, identity, protocols).await
    }
}

pub(crate) async fn shake(
    addr: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let socket = TcpStream::connect(addr).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

async fn get_over_http1(stream: TlsStream<TcpStream>) -> hyper::Result<Response<Incoming>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/api/v1/pools").header(HOST, "localhost").body(Empty::<Bytes>::new()).unwrap();
    sender.send_request(request).await
}

#[tokio::test]
async fn both_ports_speak_tls() {
    let authority = Authority::new("ours");
    let secured = Secured::start(&authority.sign(), None).await;
    within(secured.grpc(&authority, None)).await.unwrap();

    let stream = within(secured.tls(&authority, None, &[b"http/1.1"])).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(within(get_over_http1(stream)).await.unwrap().status(), StatusCode::OK);
    let stream = within(secured.tls(&authority, None, &[])).await.unwrap();
    assert_eq!(within(get_over_http1(stream)).await.unwrap().status(), StatusCode::OK, "without a choice too");

    let stream = within(secured.tls(&authority, None, &[b"http/1.1", b"h2"])).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "the better one is chosen");
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = within(shaken).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("https://localhost/api/v1/pools").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(within(sender.send_request(request)).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn who_does_not_speak_tls_or_does_not_trust_it_is_not_served() {
    let authority = Authority::new("ours");
    let secured = Secured::start(&authority.sign(), None).await;
    assert_eq!(secured.grpc(&Authority::new("others"), None).await, Err(Code::Unavailable));

    let plain = within(call(secured.fixture.channel().await, &[])).await.unwrap_err();
    assert!(matches!(plain.code(), Code::Unavailable | Code::Unknown | Code::Internal), "{plain:?}");
    let mut socket = TcpStream::connect(secured.fixture.server.http_addr()).await.unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Half closed, so that the server need not wait for more.
    socket.shutdown().await.unwrap();
    let mut told = String::new();
    within(socket.read_to_string(&mut told)).await.unwrap();
    assert!(told.starts_with("HTTP/1.0 400 "), "{told}");
    assert!(told.contains("Client sent an HTTP request to an HTTPS server."), "{told}");
}

#[tokio::test]
async fn with_an_authority_for_clients_only_they_are_let_in() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
    let secured = Secured::start(&authority.sign(), Some(&clients)).await;
    let (known, unknown) = (clients.sign(), authority.sign());
    within(secured.grpc(&authority, Some(&known))).await.unwrap();
    for identity in [None, Some(&unknown)] {
        let refused = secured.grpc(&authority, identity).await.unwrap_err();
        assert!(matches!(refused, Code::Unavailable | Code::Unknown), "{refused:?}");
    }

    let stream = within(secured.tls(&authority, Some(&known), &[])).await.unwrap();
    assert_eq!(within(get_over_http1(stream)).await.unwrap().status(), StatusCode::OK);
    for identity in [None, Some(&unknown)] {
        // A client of TLS 1.3 believes to be let in until it hears otherwise.
        let stream = within(secured.tls(&authority, identity, &[])).await.unwrap();
        within(get_over_http1(stream)).await.unwrap_err();
    }
}

#[tokio::test]
async fn those_who_say_nothing_keep_nobody_out() {
    let authority = Authority::new("ours");
    let secured = Secured::start(&authority.sign(), None).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(secured.fixture.server.grpc_addr()).await.unwrap());
        silent.push(TcpStream::connect(secured.fixture.server.http_addr()).await.unwrap());
    }
    within(secured.grpc(&authority, None)).await.unwrap();
    let stream = within(secured.tls(&authority, None, &[])).await.unwrap();
    assert_eq!(within(get_over_http1(stream)).await.unwrap().status(), StatusCode::OK);
    // And a stop does not wait for them either.
    within(secured.fixture.server.stop()).await;
}

#[tokio::test]
async fn new_certificates_are_taken_and_connections_go_on() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let secured = Secured::start(&before.sign(), None).await;
    let old = within(secured.endpoint(&before, None).connect()).await.unwrap();
    call(old.clone(), &[]).await.unwrap();
    assert!(!secured.tls.reload().unwrap(), "nothing has changed");

    after.sign().write(secured.folder.path(), "server");
    // The server looks by itself.
    eventually(|| async { secured.grpc(&after, None).await.ok() }).await;
    assert!(!secured.tls.reload().unwrap(), "it was taken already");
    assert_eq!(secured.grpc(&before, None).await, Err(Code::Unavailable));
    call(old, &[]).await.unwrap();
}

#[tokio::test]
async fn broken_certificates_change_nothing() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
    let secured = Secured::start(&authority.sign(), Some(&clients)).await;
    let client = clients.sign();
    let path = |name: &str| secured.folder.path().join(name);
    for name in ["server.crt", "server.key", "clients.crt"] {
        let good = std::fs::read(path(name)).unwrap();
        let another = Authority::new("another").sign();
        let unpaired = if name == "server.key" { another.key } else { "-----BEGIN CERTIFICATE-----\n?".to_owned() };
        for bad in ["", "not PEM", &unpaired] {
            std::fs::write(path(name), bad).unwrap();
            let error = secured.tls.reload().unwrap_err();
            assert!(matches!(&error, TlsError::Unusable { path, .. } if path.ends_with(name)), "{name}: {error}");
        }
        std::fs::remove_file(path(name)).unwrap();
        let error = secured.tls.reload().unwrap_err();
        assert!(matches!(&error, TlsError::Unreadable { path, .. } if path.ends_with(name)), "{name}: {error}");
        within(secured.grpc(&authority, Some(&client))).await.unwrap();
        std::fs::write(path(name), good).unwrap();
        assert!(!secured.tls.reload().unwrap(), "as it was");
    }
}

#[tokio::test]
async fn a_client_that_answers_no_pings_is_hung_up_on_over_tls_too() {
    let authority = Authority::new("ours");
    let (keepalive_interval, keepalive_timeout) = (Duration::from_millis(50), Duration::from_millis(50));
    let config = Config { keepalive_interval, keepalive_timeout, ..Config::any_ports() };
    let secured = Secured::start_with(&authority.sign(), None, config).await;
    let mut mute = within(secured.tls(&authority, None, &[b"h2"])).await.unwrap();
    // As HTTP/2 begins, and then no word.
    mute.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    mute.flush().await.unwrap();
    let mut heard = Vec::new();
    // How it is hung up on is not ours to say.
    let _ = within(mute.read_to_end(&mut heard)).await;
    assert!(!heard.is_empty(), "it was spoken to");
}
