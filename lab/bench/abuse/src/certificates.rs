//! The certificate of a server that lives as long as it does.

use greenwave::tls::{Identity, Pem, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A certificate for the loopback address, and its authority.
pub(crate) struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    pub(crate) fn make() -> anyhow::Result<Self> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let params = CertificateParams::new(["127.0.0.1".to_owned()])?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn server(&self) -> anyhow::Result<TlsServer> {
        let (certificate, key) = (Pem::Bytes(self.certificate.as_bytes()), Pem::Bytes(self.key.as_bytes()));
        Ok(TlsServer::new(Identity { certificate, key }, None)?)
    }
}
