//! Whom the server lets in, and whether it speaks TLS. A setting that is empty is off.

use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use tenure_server::{Config, Password, Tls, TlsError, TlsFiles};

use crate::exit::Exit;
use crate::{access, env};

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Security {
    /// Let in only those who say the password in this file; TENURE_PASSWORD may have the password itself
    #[arg(
        long,
        value_name = "FILE",
        env = env::PASSWORD_FILE,
        default_value = "",
        hide_default_value = true,
        value_parser = file(),
    )]
    password_file: PathBuf,
    /// Speak TLS on both ports, with the certificate (and those it was signed by) in this PEM file
    #[arg(
        long,
        value_name = "FILE",
        env = env::TLS_CERT,
        default_value = "",
        hide_default_value = true,
        value_parser = file(),
    )]
    tls_cert: PathBuf,
    /// The private key of that certificate, a PEM file
    #[arg(
        long,
        value_name = "FILE",
        env = env::TLS_KEY,
        default_value = "",
        hide_default_value = true,
        value_parser = file(),
    )]
    tls_key: PathBuf,
    /// Let in only those with a certificate that an authority in this PEM file has signed
    #[arg(
        long,
        value_name = "FILE",
        env = env::CLIENT_CA,
        default_value = "",
        hide_default_value = true,
        value_parser = file(),
    )]
    client_ca: PathBuf,
}

impl Security {
    pub(super) fn is_tls(&self) -> bool {
        named(&self.tls_cert).is_some()
    }

    pub(super) fn password(&self) -> Result<Option<Password>, Exit> {
        Ok(access::password(named(&self.password_file))?.map(|(_, password)| password))
    }

    /// Where the password comes from which no setting names.
    pub(super) fn unnamed_password(&self) -> Option<&'static str> {
        let is_set = std::env::var_os(env::PASSWORD).is_some_and(|password| !password.is_empty());
        (is_set && named(&self.password_file).is_none()).then_some(env::PASSWORD)
    }

    pub(super) fn tls(&self) -> Result<Option<Tls>, Exit> {
        let client_ca = named(&self.client_ca).map(Path::to_owned);
        let (cert, key) = match (named(&self.tls_cert), named(&self.tls_key)) {
            (Some(cert), Some(key)) => (cert.to_owned(), key.to_owned()),
            (None, None) if client_ca.is_none() => return Ok(None),
            (None, None) => {
                let hint = "certificates of clients are seen over TLS alone: give --tls-cert and --tls-key too";
                return Err(Exit::usage("--client-ca needs --tls-cert", hint));
            }
            (Some(_), None) => return Err(Exit::usage("--tls-cert needs --tls-key", "name its private key")),
            (None, Some(_)) => return Err(Exit::usage("--tls-key needs --tls-cert", "name its certificate")),
        };
        let hint = "check --tls-cert, --tls-key and --client-ca: each is a PEM file";
        let loaded = Tls::load(TlsFiles { cert, key, client_ca }).map_err(|error| match error {
            TlsError::Unreadable { .. } => Exit::NoInput { what: error.to_string(), hint: hint.to_owned() },
            TlsError::Unusable { .. } => Exit::usage(error.to_string(), hint),
        });
        loaded.map(Some)
    }
}

/// For whoever has not made it so on purpose.
pub(super) fn warn_if_open(config: &Config) {
    if config.grpc.ip().is_loopback() && config.http.ip().is_loopback() {
        return;
    }
    match (&config.password, &config.tls) {
        (None, None) => tracing::warn!("whoever reaches the ports may do everything: there is no password and no TLS"),
        (Some(_), None) => tracing::warn!("the password is sent in clear: there is no TLS"),
        (_, Some(_)) => {}
    }
}

fn named(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

/// A path, or nothing.
fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}
