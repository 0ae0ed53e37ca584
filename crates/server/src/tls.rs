//! The server's certificates: read from files, for both ports, and read anew when the files change.
//!
//! A new set is taken as a whole or not at all, and only for connections that come after it.

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

/// How often the files are looked at: soon enough for whoever has just replaced them and wants to see that it works.
const LOOK: Duration = Duration::from_secs(2);

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
        if self.read(|current| current.contents == contents) {
            return Ok(false);
        }
        let new = Current::of(&self.files, contents)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(true)
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
        while end.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let tls = self.clone();
            let Ok(reloaded) = tokio::task::spawn_blocking(move || tls.reload()).await else { return };
            match reloaded {
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
