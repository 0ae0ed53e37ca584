//! How to be let in: the password, and the certificates of TLS; and why it did not work, in words.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};
use tonic::codegen::http::HeaderValue;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// What the application has said of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) password: Option<Source>,
    /// PEM.
    pub(crate) ca: Option<Source>,
    /// A certificate and its key, PEM.
    pub(crate) identity: Option<(Source, Source)>,
}

/// Bytes, or where they are. What is in a file may be replaced while the client lives.
#[derive(Clone)]
pub(crate) enum Source {
    Given(Vec<u8>),
    File(PathBuf),
}

/// What is shown at the server's door: what the sources have now.
pub(crate) struct Papers {
    pub(crate) password: Option<HeaderValue>,
    ca: Option<Certificate>,
    identity: Option<Identity>,
}

impl Access {
    /// Whether something was said that only TLS has a use for.
    pub(crate) fn wants_tls(&self) -> bool {
        self.ca.is_some() || self.is_identified()
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.identity.is_some()
    }

    pub(crate) fn has_files(&self) -> bool {
        let pair = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        pair.chain(&self.password).chain(&self.ca).any(|source| matches!(source, Source::File(_)))
    }

    /// Blocks while files are read.
    pub(crate) fn read(&self) -> Result<Papers, String> {
        let identity = |(certificate, key): &(Source, Source)| -> Result<_, String> {
            Ok(Identity::from_pem(certificate.read()?, key.read()?))
        };
        Ok(Papers {
            password: self.password.as_ref().map(password).transpose()?,
            ca: self.ca.as_ref().map(authorities).transpose()?,
            identity: self.identity.as_ref().map(identity).transpose()?,
        })
    }

    /// Where a certificate that cannot be used is to be looked for, to be said after it.
    pub(crate) fn identity_origin(&self) -> String {
        match &self.identity {
            Some((Source::File(certificate), Source::File(key))) => {
                format!(" (the client certificate in {}, its key in {})", certificate.display(), key.display())
            }
            _ => String::new(),
        }
    }
}

impl Source {
    pub(crate) fn file(path: PathBuf) -> Self {
        // It is read again later, wherever the process works then.
        Self::File(std::path::absolute(&path).unwrap_or(path))
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Given(bytes) => Ok(bytes.clone()),
            Self::File(path) => {
                std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
            }
        }
    }

    /// To be said after what it is.
    fn origin(&self) -> String {
        match self {
            Self::Given(_) => String::new(),
            Self::File(path) => format!(" in {}", path.display()),
        }
    }
}

fn password(source: &Source) -> Result<HeaderValue, String> {
    let bytes = source.read()?;
    let mut text = bytes.as_slice();
    if let Source::File(path) = source {
        // Editors end a file with a line's end.
        text = text.strip_suffix(b"\n").unwrap_or(text);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            // Whoever replaces it may be in the middle of it.
            return Err(format!("there is no password in {}", path.display()));
        }
    }
    let mut value = HeaderValue::from_bytes(text)
        .map_err(|_| format!("the password{} has characters that cannot be sent", source.origin()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn authorities(source: &Source) -> Result<Certificate, String> {
    let pem = source.read()?;
    match CertificateDer::pem_slice_iter(&pem).next() {
        Some(Ok(_)) => Ok(Certificate::from_pem(pem)),
        Some(Err(error)) => Err(format!("the authority's certificate{} is broken: {error}", source.origin())),
        None => Err(format!("the authority's certificate{} is not in PEM form", source.origin())),
    }
}

impl Papers {
    pub(crate) fn tls(self, timeout: Duration) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().timeout(timeout);
        let config = match self.ca {
            None => config.with_native_roots(),
            Some(authorities) => config.ca_certificate(authorities),
        };
        match self.identity {
            None => config,
            Some(identity) => config.identity(identity),
        }
    }
}

/// Without the secrets.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// What went wrong with TLS, if it was that.
pub(crate) fn tls_reason(error: &io::Error) -> Option<String> {
    if error.kind() == io::ErrorKind::UnexpectedEof && error.to_string().contains("tls handshake") {
        return Some("it hangs up instead of speaking TLS".to_owned());
    }
    Some(match error.get_ref()?.downcast_ref::<TlsError>()? {
        TlsError::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => {
                "no authority that is trusted here has signed its certificate".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name than the address".to_owned()
            }
            // The verifier has no name of its own for it.
            why if why.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is an authority's own (CA:TRUE), and not one for a server".to_owned()
            }
            why => format!("its certificate is not valid: {why}"),
        },
        TlsError::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            "it wants to see a client certificate".to_owned()
        }
        TlsError::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => "it does not accept the client certificate".to_owned(),
        TlsError::InvalidMessage(_) => "it does not speak TLS; write http://host:port".to_owned(),
        other => format!("TLS failed: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Source {
        Source::Given(text.as_bytes().to_vec())
    }

    #[test]
    fn secrets_are_not_shown() {
        let identity = Some((given("certificate"), given("private")));
        let access = Access { password: Some(given("s3cret")), ca: None, identity };
        let shown = format!("{access:?} {:?}", access.read().unwrap().password);
        assert!(!shown.contains("s3cret") && !shown.contains("private"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"s3cret")), "{shown}");
    }

    #[test]
    fn what_cannot_be_used_is_said_before_it_is_tried() {
        let password = Access { password: Some(given("two\nlines")), ..Access::default() };
        assert!(password.read().err().unwrap().contains("cannot be sent"));
        let ca = Access { ca: Some(given("not PEM")), ..Access::default() };
        assert!(ca.read().err().unwrap().contains("PEM"));
    }

    #[test]
    fn a_file_is_read_whenever_it_is_needed_and_named_if_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let access = Access { password: Some(Source::file(path.clone())), ..Access::default() };
        let why = |access: &Access| access.read().err().unwrap();
        assert!(why(&access).starts_with(&format!("{} cannot be read: ", path.display())), "{}", why(&access));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(why(&access), format!("there is no password in {}", path.display()));
        for text in ["one", "two\n", "three\r\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(access.read().unwrap().password.unwrap(), text.trim_end());
        }
    }
}
