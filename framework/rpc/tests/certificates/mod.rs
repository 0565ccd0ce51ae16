//! An authority of a test's own, and certificates of it.

use greenwave_verbs::tls::{Identity, Pem};
use greenwave_verbs::{TlsClient, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Who signs.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The certificate's number.
    #[allow(dead_code, reason = "for tests of revocation")]
    pub(crate) serial: u64,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Those of different tests, and of one, are different people.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    #[allow(dead_code, reason = "for tests of revocation")]
    pub(crate) fn issuer(&self) -> &CertifiedIssuer<'static, KeyPair> {
        &self.0
    }

    /// A certificate for these URIs and names of hosts, and for 127.0.0.1.
    pub(crate) fn certify(&self, uris: &[&str], dns: &[&str]) -> Certified {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
        params.subject_alt_names.extend(dns.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())));
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(serial.into());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Certified { certificate, key: key.serialize_pem(), serial }
    }

    /// A server that takes clients with certificates of this authority alone.
    pub(crate) fn server(&self) -> TlsServer {
        TlsServer::new(self.certify(&[], &[]).identity(), Some(Pem::Bytes(self.pem().as_bytes()))).unwrap()
    }

    /// A client with this certificate, if any.
    pub(crate) fn client(&self, own: Option<&Certified>) -> TlsClient {
        TlsClient::new(Pem::Bytes(self.pem().as_bytes()), own.map(Certified::identity), None).unwrap()
    }
}

impl Certified {
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity { certificate: Pem::Bytes(self.certificate.as_bytes()), key: Pem::Bytes(self.key.as_bytes()) }
    }
}
