//! How sessions are set up: which certificates are shown, and which are believed.

use std::fmt;
use std::sync::Arc;

use rustls::client::{UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{Identity, Pem, Session, TlsError};
use crate::{Address, VerbsError};

/// The protocol within, as both sides name it (RFC 7301). A peer that names none is taken at its word.
const PROTOCOL: &[u8] = b"greenwave/1";

/// The same for servers of gRPC.
const HTTP2: &[u8] = b"h2";

/// How a listener secures its connections. Cheap to clone.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    /// How the certificates of clients are checked, if they have to have some.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// How connections to servers are secured. Cheap to clone; connections made with clones resume each other's sessions.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// For servers of gRPC.
    http2: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl TlsServer {
    /// Shows a certificate to clients. With `clients`, a client has to have a certificate too, from one of these
    /// authorities (mutual TLS); without, anybody may connect.
    ///
    /// TLS 1.3 and 1.2. Sessions may be resumed; no data is taken before the handshake is done.
    ///
    /// # Errors
    /// [`TlsError`]: which of the files, and what is wrong with it.
    pub fn new(identity: Identity<'_>, clients: Option<Pem<'_>>) -> Result<Self, TlsError> {
        let provider = provider();
        let (chain, key) = read_identity(identity)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(identity.certificate, &error))?;
        let clients = match clients {
            None => None,
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(read_authorities(pem)?), provider);
                Some(verifier.build().map_err(|error| unusable(pem, &error))?)
            }
        };
        let builder = match &clients {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| wrong_key(identity, &error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { config: Arc::new(config), clients })
    }

    /// The same, for clients that want to speak this protocol within too, by its name for ALPN (RFC 7301): `h2`. It is preferred
    /// to those that are offered after it.
    #[must_use]
    pub fn offering(&self, protocol: &[u8]) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols.push(protocol.to_vec());
        Self { config: Arc::new(config), clients: self.clients.clone() }
    }

    /// A session with a client that is connected.
    pub(crate) fn accept(&self) -> Result<Box<Session>, VerbsError> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&self.config));
        let session = connection.map(|connection| Session::server(connection, self.clients.clone()));
        session.map_err(|error| failed("beginning a TLS session", &error))
    }
}

impl TlsClient {
    /// Believes servers whose certificate is from one of these authorities, is valid now, and is for `name`; if that
    /// is `None`, for the IP address that is connected to. With an identity, this side can show who it is (mutual TLS).
    ///
    /// TLS 1.3 and 1.2. Sessions may be resumed; no data is sent before the handshake is done.
    ///
    /// # Errors
    /// [`TlsError`]: which of the files, and what is wrong with it.
    pub fn new(authorities: Pem<'_>, identity: Option<Identity<'_>>, name: Option<&str>) -> Result<Self, TlsError> {
        let (provider, roots) = (provider(), Arc::new(read_authorities(authorities)?));
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| unusable(authorities, &error))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(authorities, &error))?
            .with_webpki_verifier(verifier);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read_identity(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| wrong_key(identity, &error))?
            }
        };
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let name = name.map(server_name).transpose()?;
        Ok(Self { config: Arc::new(config), http2: Arc::new(http2), name })
    }

    /// The same, for servers whose certificate is for this name.
    ///
    /// # Errors
    /// It is no name of a host.
    pub fn for_name(&self, name: &str) -> Result<Self, TlsError> {
        Ok(Self { name: Some(server_name(name)?), ..self.clone() })
    }

    /// A session with the server at an address.
    pub(crate) fn connect(&self, address: &Address) -> Result<Box<Session>, VerbsError> {
        let name = match (&self.name, address.socket()) {
            (Some(name), _) => name.clone(),
            (None, Some(socket)) => ServerName::from(socket.ip()),
            (None, None) => return Err(VerbsError::NamelessTls { address: address.clone() }),
        };
        let config = if address.is_grpc() { &self.http2 } else { &self.config };
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name);
        connection.and_then(Session::client).map_err(|error| failed("beginning a TLS session", &error))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name { name: name.to_owned() })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn failed(doing: &'static str, error: &rustls::Error) -> VerbsError {
    VerbsError::System { doing, source: std::io::Error::other(error.to_string()) }
}

fn read_identity(
    Identity { certificate, key }: Identity<'_>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = read_certificates(certificate)?;
    let text = read(key)?;
    let parsed = PrivateKeyDer::from_pem_slice(&text);
    let key = parsed.map_err(|error| not_found(key, "private key", "PRIVATE KEY", &error))?;
    Ok((chain, key))
}

fn read_authorities(pem: Pem<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(pem)? {
        roots.add(certificate).map_err(|error| unusable(pem, &error))?;
    }
    Ok(roots)
}

fn read_certificates(pem: Pem<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(pem)?;
    let refuse = |error: &PemError| not_found(pem, "certificate", "CERTIFICATE", error);
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = parsed.map_err(|error| refuse(&error))?;
    if certificates.is_empty() { Err(refuse(&PemError::NoItemsFound)) } else { Ok(certificates) }
}

fn read(pem: Pem<'_>) -> Result<Vec<u8>, TlsError> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.to_vec()),
        Pem::File(path) => std::fs::read(path).map_err(|source| TlsError::Read { place: pem.to_string(), source }),
    }
}

fn not_found(pem: Pem<'_>, what: &'static str, label: &'static str, error: &PemError) -> TlsError {
    TlsError::Pem { place: pem.to_string(), what, label, reason: error.to_string() }
}

fn unusable(pem: Pem<'_>, error: &dyn fmt::Display) -> TlsError {
    TlsError::Certificate { place: pem.to_string(), reason: error.to_string() }
}

/// A certificate that can't be parsed is told from a key that doesn't fit.
fn wrong_key(Identity { certificate, key }: Identity<'_>, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InvalidCertificate(_) => unusable(certificate, error),
        _ => TlsError::Key { key: key.to_string(), certificate: certificate.to_string(), reason: error.to_string() },
    }
}
