//! How to be let in: the password, and the certificates of TLS; and why it did not work, in words.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tonic::{Request, Status};

/// What the application has said of it.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub(crate) password: Option<String>,
    /// PEM.
    pub(crate) ca: Option<Vec<u8>>,
    /// A certificate and its key, PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Access {
    pub(crate) fn credentials(&self) -> Result<Credentials, String> {
        let Some(password) = &self.password else { return Ok(Credentials(None)) };
        let mut value = MetadataValue::try_from(password.as_bytes())
            .map_err(|_| "the password has characters that cannot be sent".to_owned())?;
        value.set_sensitive(true);
        Ok(Credentials(Some(value)))
    }

    /// Whether something was said that only TLS has a use for.
    pub(crate) fn wants_tls(&self) -> bool {
        self.ca.is_some() || self.identity.is_some()
    }

    pub(crate) fn tls(&self, timeout: Duration) -> Result<ClientTlsConfig, String> {
        let mut config = ClientTlsConfig::new().timeout(timeout);
        config = match &self.ca {
            None => config.with_native_roots(),
            Some(pem) => match CertificateDer::pem_slice_iter(pem).next() {
                Some(Ok(_)) => config.ca_certificate(Certificate::from_pem(pem)),
                Some(Err(error)) => return Err(format!("the authority's certificate is broken: {error}")),
                None => return Err("the authority's certificate is not in PEM form".to_owned()),
            },
        };
        Ok(match &self.identity {
            None => config,
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        })
    }
}

/// Without the secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("password", &self.password.is_some())
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

/// Says the password, if there is one, with every call.
#[derive(Clone, Debug)]
pub struct Credentials(Option<MetadataValue<Ascii>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(password) = &self.0 {
            request.metadata_mut().insert("authorization", password.clone());
        }
        Ok(request)
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

    #[test]
    fn secrets_are_not_shown() {
        let identity = Some((b"certificate".to_vec(), b"private".to_vec()));
        let access = Access { password: Some("s3cret".into()), ca: None, identity };
        let shown = format!("{access:?} {:?}", access.credentials().unwrap());
        assert!(!shown.contains("s3cret") && !shown.contains("private"), "{shown}");
    }

    #[test]
    fn what_cannot_be_used_is_said_before_it_is_tried() {
        let access = |password: &str, ca: &[u8]| Access {
            password: Some(password.to_owned()),
            ca: Some(ca.to_vec()),
            identity: None,
        };
        assert!(access("two\nlines", b"").credentials().is_err());
        assert!(access("", b"not PEM").tls(Duration::ZERO).unwrap_err().contains("PEM"));
    }
}
