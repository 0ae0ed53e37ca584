//! The server's certificates: read from files, for both ports, and read anew when the files change.
//!
//! A new set is taken as a whole or not at all, once nobody writes to it any more, and only for connections that come after
//! it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;

use crate::auth::Face;

/// How often the files are looked at: soon enough for whoever has just replaced them and wants to see that it works, and
/// seldom enough that a file does not look the same twice while it is being written.
const LOOK: Duration = Duration::from_secs(1);

/// What is read, all of it PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and after it those it was signed by up to one that clients know.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Authorities, one of which must have signed the certificate that every client must then have.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} cannot be used for TLS: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
}

/// How the server speaks TLS. Clones share the certificates.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Current>>,
}

struct Current {
    contents: Contents,
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

/// The bytes of the files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Current::of(&files, Contents::read(&files)?)?;
        Ok(Self { files: Arc::new(files), current: Arc::new(RwLock::new(current)) })
    }

    /// Takes what the files have now for the connections to come, and says whether that is anything new. What cannot be
    /// used changes nothing.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.files)?;
        match self.has(&contents) {
            true => Ok(false),
            false => self.take(contents).map(|()| true),
        }
    }

    /// What a handshake that begins now goes by.
    pub(crate) fn config(&self, face: Face) -> Arc<ServerConfig> {
        self.read(|current| match face {
            Face::Grpc => current.grpc.clone(),
            Face::Http => current.http.clone(),
        })
    }

    /// Looks at the files now and then, until the end.
    pub(crate) async fn follow(self, end: CancellationToken) {
        // What was wrong the last time is not told again and again.
        let mut told = None;
        let mut follower = Follower { tls: self.clone(), seen: None };
        while end.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let looking = tokio::task::spawn_blocking(move || (follower.look(), follower));
            let Ok((looked, same_follower)) = looking.await else { return };
            follower = same_follower;
            match looked {
                Ok(true) => tracing::info!(cert = %self.files.cert.display(), "new certificates are in use"),
                Ok(false) => {}
                Err(error) => {
                    let error = error.to_string();
                    if told.as_ref() != Some(&error) {
                        tracing::error!(error, "new certificates are not used; the ones before are");
                        told = Some(error);
                    }
                    continue;
                }
            }
            told = None;
        }
    }

    fn has(&self, contents: &Contents) -> bool {
        self.read(|current| current.contents == *contents)
    }

    fn take(&self, contents: Contents) -> Result<(), TlsError> {
        let new = Current::of(&self.files, contents)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&Current) -> T) -> T {
        look(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Without the keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

/// Takes what it has seen twice in a row. A file that ends between two certificates because the rest is still to be written
/// is a good one by itself, and would leave clients without the authorities they know.
struct Follower {
    tls: Tls,
    /// What the files had the last time, if it was anything new.
    seen: Option<Contents>,
}

impl Follower {
    /// Whether anything new was taken.
    fn look(&mut self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.tls.files)?;
        if self.tls.has(&contents) {
            self.seen = None;
            return Ok(false);
        }
        if self.seen.as_ref() != Some(&contents) {
            self.seen = Some(contents);
            return Ok(false);
        }
        self.tls.take(contents).map(|()| true)
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|error| TlsError::Unreadable { path: path.to_owned(), error });
        let client_ca = files.client_ca.as_deref().map(read).transpose()?;
        Ok(Self { cert: read(&files.cert)?, key: read(&files.key)?, client_ca })
    }
}

impl Current {
    fn of(files: &TlsFiles, contents: Contents) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider has what the versions need");
        let builder = match (&contents.client_ca, &files.client_ca) {
            (Some(pem), Some(path)) => {
                let unusable = |why: String| TlsError::Unusable { path: path.clone(), why };
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, pem)? {
                    roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(error.to_string()))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let chain = certificates(&files.cert, &contents.cert)?;
        let unusable = |why: String| TlsError::Unusable { path: files.key.clone(), why };
        let key =
            PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| unusable(reason(error, "private key")))?;
        let mut grpc = builder.with_single_cert(chain, key).map_err(|error| {
            let why = format!("with the certificate in {}: {error}", files.cert.display());
            unusable(why)
        })?;
        let mut http = grpc.clone();
        grpc.alpn_protocols = vec![b"h2".to_vec()];
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { contents, grpc: Arc::new(grpc), http: Arc::new(http) })
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let why = match read {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Ok(_) => reason(PemError::NoItemsFound, "certificate"),
        Err(error) => reason(error, "certificate"),
    };
    Err(TlsError::Unusable { path: path.to_owned(), why })
}

fn reason(error: PemError, wanted: &str) -> String {
    match error {
        PemError::NoItemsFound => format!("it has no {wanted} in PEM form"),
        error => format!("its PEM is broken: {error}"),
    }
}

#[cfg(test)]
#[path = "../tests/wire/certificates.rs"]
mod certificates;

#[cfg(test)]
mod tests {
    use super::certificates::Authority;
    use super::*;

    #[test]
    fn a_file_that_is_still_being_written_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("ours");
        let files = authority.sign().write(folder.path(), "server");
        let tls = Tls::load(TlsFiles { cert: files.cert.clone(), key: files.key.clone(), client_ca: None }).unwrap();
        let mut follower = Follower { tls: tls.clone(), seen: None };
        let in_use = || tls.read(|current| current.contents.cert.clone());
        let before = in_use();
        assert!(!follower.look().unwrap(), "nothing has changed");

        let after = authority.sign();
        let (cut, whole) = (after.certificate.clone(), [after.certificate, authority.pem()].concat());
        std::fs::write(&files.key, after.key).unwrap();
        assert!(!follower.look().unwrap(), "and what does not fit together yet is not told");
        std::fs::write(&files.cert, &cut).unwrap();
        assert!(!follower.look().unwrap());
        std::fs::write(&files.cert, &whole).unwrap();
        assert!(!follower.look().unwrap());
        assert!(in_use() == before);
        assert!(follower.look().unwrap());
        assert!(in_use() == whole.as_bytes());
        assert!(!follower.look().unwrap(), "it was taken already");
    }

    #[test]
    fn what_stays_unusable_is_told_each_time_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = Authority::new("ours").sign().write(folder.path(), "server");
        let tls = Tls::load(TlsFiles { cert: files.cert.clone(), key: files.key, client_ca: None }).unwrap();
        let mut follower = Follower { tls: tls.clone(), seen: None };
        std::fs::write(&files.cert, "not PEM").unwrap();
        assert!(!follower.look().unwrap(), "it may be that it is being written");
        for _ in 0..2 {
            assert!(matches!(follower.look(), Err(TlsError::Unusable { .. })));
        }
        assert!(!tls.has(&Contents::read(&tls.files).unwrap()));
    }
}
