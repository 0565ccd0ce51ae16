//! Certificates made for a test: an authority, and one each for a server and a client.

use std::sync::atomic::{AtomicU32, Ordering};

use greenwave_verbs::tls::{Identity, Pem};
use greenwave_verbs::{TlsClient, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An authority and what it has signed, as PEM.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) server: Signed,
    pub(crate) client: Signed,
}

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificates {
    /// A server at 127.0.0.1 that is called `localhost`.
    pub(crate) fn usual() -> Self {
        Self::with(|_| {})
    }

    /// The same, but for what is changed in the server's certificate.
    pub(crate) fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        // Those of different tests, and of one, are different people.
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        authority.distinguished_name.push(DnType::CommonName, format!("authority {serial}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let sign = |names: &[&str], purpose, change: Box<dyn FnOnce(&mut CertificateParams) + '_>| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.extended_key_usages = vec![purpose];
            change(&mut params);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            Signed { certificate: certificate.pem(), key: key.serialize_pem() }
        };
        let server = sign(&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, Box::new(change));
        let client = sign(&["ada"], ExtendedKeyUsagePurpose::ClientAuth, Box::new(|_| {}));
        Self { authority: authority.pem(), server, client }
    }

    /// Anybody may connect.
    pub(crate) fn server(&self) -> TlsServer {
        TlsServer::new(self.server.identity(), None).unwrap()
    }

    /// Whoever has a certificate of the authority may connect.
    pub(crate) fn mutual_server(&self) -> TlsServer {
        TlsServer::new(self.server.identity(), Some(self.authority())).unwrap()
    }

    /// A client without a certificate.
    pub(crate) fn client(&self) -> TlsClient {
        TlsClient::new(self.authority(), None, Some("localhost")).unwrap()
    }

    /// A client with one.
    pub(crate) fn mutual_client(&self) -> TlsClient {
        TlsClient::new(self.authority(), Some(self.client.identity()), Some("localhost")).unwrap()
    }

    pub(crate) fn authority(&self) -> Pem<'_> {
        Pem::Bytes(self.authority.as_bytes())
    }
}

impl Signed {
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity { certificate: Pem::Bytes(self.certificate.as_bytes()), key: Pem::Bytes(self.key.as_bytes()) }
    }
}
