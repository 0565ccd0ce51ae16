//! An authority, and a certificate of this machine from it, made anew for each run.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::tools;

/// Files in the PEM format, which are gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// Whom clients believe.
    pub(crate) authority: PathBuf,
    /// Who servers are: 127.0.0.1, or localhost.
    pub(crate) certificate: PathBuf,
    /// The private key of that.
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Makes them, and writes them into the target folder.
    ///
    /// # Errors
    /// When they can't be written there.
    pub(crate) fn write() -> anyhow::Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        // An issuer by the name of what it issues would be taken for a certificate that vouches for itself.
        authority.distinguished_name.push(DnType::CommonName, "greenwave interop authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned).to_vec())?;
        server.distinguished_name.push(DnType::CommonName, "greenwave interop server");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        // A process of its own may run at the same time: tests do.
        let folder = tools::folder().join(format!("tls-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            authority: write("authority.pem", authority.pem())?,
            certificate: write("server.pem", certificate.pem())?,
            key: write("server.key", key.serialize_pem())?,
        })
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        if let Some(folder) = self.key.parent() {
            // What stays is of no use to anybody, and harms nobody.
            let _ = fs::remove_dir_all(folder);
        }
    }
}
