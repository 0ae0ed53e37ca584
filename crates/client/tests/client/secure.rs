//! Servers that want a password or speak TLS: who has what they want is let in, and who has not is told what to do.

use std::path::Path;

use tempfile::TempDir;
use tenure_client::{Builder, Client, Error, v1};
use tenure_server::{Config, Password, Tls, TlsFiles};

use crate::certificates::{Authority, Identity};
use crate::fixture::{Host, deadline, eventually, holds, until_happened, until_renewed, within};
use crate::proxy::Proxy;

const PASSWORD: &str = "Größe: 1";

fn password() -> Option<Password> {
    Some(Password::parse(PASSWORD).unwrap())
}

/// The files are read when the server starts, and when they change.
async fn secured(identity: &Identity, client_ca: Option<&Authority>, password: Option<Password>) -> (Host, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let files = identity.write(folder.path(), "server");
    let client_ca = client_ca.map(|authority| authority.write(folder.path(), "clients.crt"));
    let tls = Some(Tls::load(TlsFiles { cert: files.cert, key: files.key, client_ca }).unwrap());
    (Host::start_with(Config { tls, password, ..Config::any_ports() }).await, folder)
}

/// Both ways to connect fail, for the same reason.
async fn refused(builder: Builder) -> Error {
    let calls = within(builder.clone().connect_api()).await.unwrap_err();
    let session = within(builder.connect()).await.unwrap_err();
    assert_eq!(calls.to_string(), session.to_string());
    session
}

async fn assert_unreachable(builder: Builder, why_part: &str) {
    let error = refused(builder).await;
    assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains(why_part)), "{error:?}");
}

#[tokio::test]
async fn whoever_has_the_password_is_let_in() {
    let host = Host::start_with(Config { password: password(), ..Config::any_ports() }).await;
    let address = host.address.to_string();
    let client = within(Client::builder(&address).password(PASSWORD).connect()).await.unwrap();
    drop(within(client.lock("db")).await.unwrap());
    within(client.api().list_pools(v1::ListPoolsRequest::default())).await.unwrap();
    within(Client::builder(&address).password(PASSWORD).connect_api()).await.unwrap();

    for (builder, told) in [
        (Client::builder(&address), "missing credentials"),
        (Client::builder(&address).password("wrong"), "invalid credentials"),
    ] {
        let error = refused(builder).await;
        assert!(matches!(&error, Error::Unauthenticated { why, .. } if why == told), "{error:?}");
        assert_eq!(error.code(), "unauthenticated");
        assert!(!error.may_have_happened());
    }
}

#[tokio::test]
async fn tls_is_spoken_by_scheme_or_by_authority() {
    let authority = Authority::new("ours");
    let (host, _folder) = secured(&authority.sign(), None, password()).await;
    let port = host.address.port();
    for address in
        [format!("https://127.0.0.1:{port}"), format!("https://localhost:{port}"), format!("127.0.0.1:{port}")]
    {
        let builder = Client::builder(&address).tls_ca(authority.pem()).password(PASSWORD);
        let client = within(builder.clone().connect()).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        drop(within(client.lock("db")).await.unwrap());
        within(client.api().list_pools(v1::ListPoolsRequest::default())).await.unwrap();
        within(builder.connect_api()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_not_to_be_trusted_is_not_talked_to() {
    let (authority, others) = (Authority::new("ours"), Authority::new("others"));
    let (host, _folder) = secured(&authority.sign(), None, None).await;
    let address = host.address.to_string();
    assert_unreachable(Client::builder(&address).tls_ca(others.pem()), "no authority that is trusted here").await;
    let (host, _folder) = secured(&authority.sign_for(&["elsewhere"]), None, None).await;
    assert_unreachable(Client::builder(host.address.to_string()).tls_ca(authority.pem()), "another name").await;
}

#[tokio::test]
async fn whether_tls_is_spoken_must_be_the_same_on_both_sides() {
    let authority = Authority::new("ours");
    let (host, _folder) = secured(&authority.sign(), None, None).await;
    for address in [host.address.to_string(), format!("http://{}", host.address)] {
        let error = refused(Client::builder(address)).await;
        assert!(matches!(&error, Error::Foreign { why, .. } if why.contains("https://")), "{error:?}");
    }
    let plain = Host::start().await;
    let builder = Client::builder(format!("https://{}", plain.address)).tls_ca(authority.pem());
    assert_unreachable(builder, "TLS").await;
}

#[tokio::test]
async fn a_server_that_wants_certificates_sees_one() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
    let (host, _folder) = secured(&authority.sign(), Some(&clients), None).await;
    let builder = Client::builder(host.address.to_string()).tls_ca(authority.pem());
    let known = clients.sign();
    let client = within(builder.clone().tls_identity(known.certificate, known.key).connect()).await.unwrap();
    drop(within(client.lock("db")).await.unwrap());

    assert_unreachable(builder.clone(), "it may want to see a client certificate").await;
    let unknown = authority.sign();
    let builder = builder.tls_identity(unknown.certificate, unknown.key);
    assert_unreachable(builder, "it may not accept the client certificate").await;
}

#[tokio::test]
async fn what_cannot_be_used_is_said_before_anything_is_sent() {
    let authority = Authority::new("ours");
    let (one, another) = (authority.sign(), authority.sign());
    let builder = || Client::builder("https://127.0.0.1:1").tls_ca(authority.pem());
    for unusable in [
        builder().tls_ca("nothing"),
        builder().tls_identity("nothing", &*one.key),
        builder().tls_identity(&*one.certificate, "nothing"),
        builder().tls_identity(&*one.certificate, &*another.key),
        builder().password("two\nlines"),
        builder().password_file("none"),
        builder().tls_ca_file("none"),
        builder().tls_identity_files("none", "none"),
    ] {
        let error = refused(unusable).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_cut_line_is_mended_with_password_and_tls() {
    let authority = Authority::new("ours");
    let (host, _folder) = secured(&authority.sign(), None, password()).await;
    let proxy = Proxy::before(host.address).await;
    let builder = Client::builder(proxy.address.to_string()).tls_ca(authority.pem()).password(PASSWORD);
    let alice = within(builder.clone().holder("alice").connect()).await.unwrap();
    let api = within(builder.connect_api()).await.unwrap();
    let guard = within(alice.lock("db")).await.unwrap();
    let waiting = tokio::spawn(alice.acquire("db").into_future());
    until_happened(&alice.api(), "db", v1::EventKind::Queued, 1).await;

    proxy.cut();
    let onlooker = Client::builder(host.address.to_string()).tls_ca(authority.pem()).password(PASSWORD);
    let onlooker = within(onlooker.connect_api()).await.unwrap();
    until_happened(&onlooker, "db", v1::EventKind::WaiterBack, 1).await;
    within(guard.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
    within(api.clone().list_pools(v1::ListPoolsRequest::default())).await.unwrap();
}

/// A server that knows this password and trusts the clients of this authority, on what is in the folder. Its own files are
/// there too, and those of a client that it lets in.
async fn demanding(folder: &Path, password: &str, authority: &Authority) -> Host {
    authority.write(folder, "ca.crt");
    authority.sign().write(folder, "client");
    std::fs::write(folder.join("password"), format!("{password}\n")).unwrap();
    let files = authority.sign().write(folder, "server");
    let client_ca = Some(authority.write(folder, "clients.crt"));
    let tls = Some(Tls::load(TlsFiles { cert: files.cert, key: files.key, client_ca }).unwrap());
    let password = Some(Password::parse(password).unwrap());
    Host::on_with(&folder.join("data"), Config { tls, password, ..Config::any_ports() }).await
}

fn from_files(proxy: &Proxy, folder: &Path) -> Builder {
    Client::builder(proxy.address.to_string())
        .password_file(folder.join("password"))
        .tls_ca_file(folder.join("ca.crt"))
        .tls_identity_files(folder.join("client.crt"), folder.join("client.key"))
}

#[tokio::test]
async fn new_secrets_in_the_same_files_are_taken_when_the_server_comes_back_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let host = demanding(folder.path(), "first", &Authority::new("first")).await;
    let proxy = Proxy::before(host.address).await;
    let client = within(from_files(&proxy, folder.path()).connect()).await.unwrap();
    let (beside, alone) = (client.api(), within(from_files(&proxy, folder.path()).connect_api()).await.unwrap());
    let guard = within(client.lock("db")).await.unwrap();
    assert_eq!((holds(&beside, "db").await.len(), client.trouble().is_none()), (1, true));

    let before = deadline(&guard);
    host.kill();
    eventually(|| async { client.trouble() }).await;
    let host = demanding(folder.path(), "second", &Authority::new("second")).await;
    proxy.lead_to(host.address);
    until_renewed(&guard, before).await;
    assert!(client.trouble().is_none());
    for api in [&beside, &alone] {
        let tokens: Vec<_> = holds(api, "db").await.iter().map(|hold| hold.token).collect();
        assert_eq!(tokens, [guard.token()]);
    }
    within(guard.release()).await.unwrap();
    within(client.close()).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_gone_is_named_and_looked_for_until_it_is_back() {
    let host = Host::start_with(Config { password: password(), ..Config::any_ports() }).await;
    let proxy = Proxy::before(host.address).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let builder = Client::builder(proxy.address.to_string()).password_file(&path);
    let named = format!("{} cannot be read", path.display());
    let error = refused(builder.clone()).await;
    assert!(matches!(&error, Error::Unusable(why) if why.contains(&named)), "{error:?}");

    std::fs::write(&path, PASSWORD).unwrap();
    let client = within(builder.connect()).await.unwrap();
    let guard = within(client.lock("db")).await.unwrap();
    let before = deadline(&guard);
    std::fs::remove_file(&path).unwrap();
    proxy.cut();
    let is_named = |error: &Error| matches!(error, Error::Unusable(why) if why.contains(&named));
    eventually(|| async { client.trouble().filter(is_named) }).await;
    let status = within(client.api().list_pools(v1::ListPoolsRequest::default())).await.unwrap_err();
    let error = Error::of_status(client.address(), status);
    assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains(&named)), "{error:?}");

    std::fs::write(&path, PASSWORD).unwrap();
    until_renewed(&guard, before).await;
    within(client.api().list_pools(v1::ListPoolsRequest::default())).await.unwrap();
}
