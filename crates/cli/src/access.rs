//! How the server lets a command in: certificates from files, and the password from a file or a variable. No secret
//! stands on a command line, which everybody on the machine can read.

use std::path::{Path, PathBuf};

use tenure_client::{Builder, Client, Error};
use tenure_server::Password;

use crate::env;
use crate::exit::Exit;

const PASSWORD_HINT: &str = "put it alone into a file for --password-file, or into TENURE_PASSWORD";

/// What a server with TLS or a password wants.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Access {
    /// Speak TLS, and trust the authorities in this PEM file alone [default with https://: those of the system]
    #[arg(long, value_name = "FILE", env = env::TLS_CA, hide_short_help = true)]
    tls_ca: Option<PathBuf>,
    /// Speak TLS, and show the certificate in this PEM file to a server that wants to see one
    #[arg(long, value_name = "FILE", env = env::CLIENT_CERT, requires = "client_key", hide_short_help = true)]
    client_cert: Option<PathBuf>,
    /// The private key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", env = env::CLIENT_KEY, requires = "client_cert", hide_short_help = true)]
    client_key: Option<PathBuf>,
    /// Take the server's password from this file [default: what TENURE_PASSWORD says]
    #[arg(long, value_name = "FILE", env = env::PASSWORD_FILE, hide_short_help = true)]
    password_file: Option<PathBuf>,
}

impl Access {
    /// The client reads the files for every connection that it makes, because they may be replaced. They are looked at here
    /// too, so that one that cannot be used at the start is named together with its option. A pipe can be read only once.
    pub(crate) fn apply(&self, mut client: Builder) -> Result<Builder, Exit> {
        if let Some(path) = &self.tls_ca {
            let pem = read(path, "--tls-ca or TENURE_TLS_CA")?;
            client = if path.is_file() { client.tls_ca_file(path) } else { client.tls_ca(pem) };
        }
        if let (Some(certificate), Some(key)) = (&self.client_cert, &self.client_key) {
            let pem = read(certificate, "--client-cert or TENURE_CLIENT_CERT")?;
            let key_pem = read(key, "--client-key or TENURE_CLIENT_KEY")?;
            client = match certificate.is_file() && key.is_file() {
                true => client.tls_identity_files(certificate, key),
                false => client.tls_identity(pem, key_pem),
            };
        }
        let file = self.password_file.as_deref();
        Ok(match (password(file)?, file.filter(|path| path.is_file())) {
            (Some(_), Some(path)) => client.password_file(path),
            (Some((text, _)), None) => client.password(text),
            (None, _) => client,
        })
    }

    /// What lets another process in the same way, wherever it works. A path that is not UTF-8 is left out.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let files = [
            (env::TLS_CA, &self.tls_ca),
            (env::CLIENT_CERT, &self.client_cert),
            (env::CLIENT_KEY, &self.client_key),
            (env::PASSWORD_FILE, &self.password_file),
        ];
        let absolute = |path: &PathBuf| std::path::absolute(path).ok()?.into_os_string().into_string().ok();
        files.into_iter().filter_map(|(name, path)| Some((name.to_owned(), absolute(path.as_ref()?)?))).collect()
    }
}

/// Why there is no connection to the server any more, to be said after what was lost by it.
pub(crate) fn trouble(client: &Client) -> String {
    match client.trouble() {
        None => String::new(),
        Some(Error::Unreachable { why, .. }) => format!(": {why}"),
        Some(error) => format!(": {error}"),
    }
}

/// The password in the file, or else in the variable, as it was written and as the server keeps it. None if nothing has
/// one.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<(String, Password)>, Exit> {
    let (bytes, source) = match file {
        Some(path) => (read(path, "--password-file or TENURE_PASSWORD_FILE")?, path.display().to_string()),
        None => match std::env::var_os(env::PASSWORD) {
            Some(text) if !text.is_empty() => (text.into_encoded_bytes(), env::PASSWORD.to_owned()),
            _ => return Ok(None),
        },
    };
    let unusable = |why| Exit::usage(format!("the password in {source} cannot be used: {why}"), PASSWORD_HINT);
    let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8"))?;
    // Editors end a file with a line's end.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let password = Password::parse(text).map_err(unusable)?;
    Ok(Some((text.to_owned(), password)))
}

fn read(path: &Path, named: &str) -> Result<Vec<u8>, Exit> {
    std::fs::read(path).map_err(|error| Exit::NoInput {
        what: format!("{} cannot be read: {error}", path.display()),
        hint: format!("check the path given with {named}"),
    })
}
