//! Authorities and what they sign, made anew in every test. The tests of the client and of the command line use it too.

#![allow(dead_code, reason = "each test uses its own part of this")]

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Where a server finds its files.
pub(crate) struct Files {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// For a server on this machine, or for a client.
    pub(crate) fn sign(&self) -> Identity {
        self.sign_for(&["localhost", "127.0.0.1"])
    }

    pub(crate) fn sign_for(&self, names: &[&str]) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes the authority's own certificate.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, self.pem()).unwrap();
        path
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key`, over what was there.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Files {
        let files = Files { cert: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) };
        std::fs::write(&files.cert, &self.certificate).unwrap();
        std::fs::write(&files.key, &self.key).unwrap();
        files
    }
}
