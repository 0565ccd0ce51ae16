//! The certificate of a server that lives as long as it does.

use std::net::{IpAddr, Ipv4Addr};

use greenwave::tls::{Identity, Pem, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

/// A certificate for the loopback address, and its authority.
pub(super) struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    pub(super) fn make() -> anyhow::Result<Self> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn server(&self) -> anyhow::Result<TlsServer> {
        let (certificate, key) = (Pem::Bytes(self.certificate.as_bytes()), Pem::Bytes(self.key.as_bytes()));
        Ok(TlsServer::new(Identity { certificate, key }, None)?)
    }
}
