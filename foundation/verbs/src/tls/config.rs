//! How sessions are set up: which certificates are shown, and which are believed.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::{UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{ClientConfig, ServerConfig};

use super::pem::{read_authorities, read_identity, read_lists, unusable, wrong_key};
use super::renewal::{Refresh, Renewed, Source, identity, pair};
use super::{Identity, Pem, Session, TlsError};
use crate::{Address, VerbsError};

/// The protocol within, as both sides name it (RFC 7301). A peer that names none is taken at its word.
const PROTOCOL: &[u8] = b"greenwave/1";

/// The same for servers of gRPC.
const HTTP2: &[u8] = b"h2";

/// How a listener secures its connections. Cheap to clone; clones are renewed together.
///
/// What comes from files is read again within about a second after they have changed. Connections that are open stay as they
/// are; those that come in then are secured by what the files say now, and sessions of before are not resumed. While the files
/// can't be used, what was read before holds, and the log says why.
#[derive(Clone)]
pub struct TlsServer {
    made: Arc<Renewed<Served>>,
    /// The protocols within, the preferred one first.
    protocols: Arc<[Vec<u8>]>,
    /// What sessions are begun with, and what it was made of.
    offered: Arc<RwLock<Option<Offered>>>,
}

/// What a server's files say.
pub(super) struct Served {
    config: ServerConfig,
    /// How the certificates of clients are checked, if they have to have some.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// What the files say, with the protocols within.
type Offered = (Arc<Served>, Arc<ServerConfig>);

/// How connections to servers are secured. Cheap to clone; connections made with clones resume each other's sessions. What comes
/// from files is read again as for a [`TlsServer`].
#[derive(Clone)]
pub struct TlsClient {
    made: Arc<Renewed<Called>>,
    name: Option<ServerName<'static>>,
}

/// What a client's files say.
pub(super) struct Called {
    config: Arc<ClientConfig>,
    /// For servers of gRPC.
    http2: Arc<ClientConfig>,
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
        Self::make(identity, clients, &[])
    }

    /// The same for clients with a certificate of one of these authorities that none of the lists says is revoked. There has to be
    /// a list of each authority that signed one in a client's chain: where there is none, nobody knows, and the client is refused.
    /// A list is used past the date by which it was to be replaced.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn revoking(identity: Identity<'_>, clients: Pem<'_>, lists: &[Pem<'_>]) -> Result<Self, TlsError> {
        Self::make(identity, Some(clients), lists)
    }

    fn make(shown: Identity<'_>, clients: Option<Pem<'_>>, lists: &[Pem<'_>]) -> Result<Self, TlsError> {
        let (own, clients) = (pair(shown), clients.map(Source::of));
        let lists: Vec<_> = lists.iter().copied().map(Source::of).collect();
        let sources: Vec<_> = own.iter().chain(&clients).chain(&lists).cloned().collect();
        let make = move || served(identity(&own), clients.as_ref().map(Source::pem), &lists);
        let (protocols, offered) = ([PROTOCOL.to_vec()].into(), Arc::default());
        Ok(Self { made: Renewed::new(&sources, make)?, protocols, offered })
    }

    /// The same, for clients that want to speak this protocol within too, by its name for ALPN (RFC 7301): `h2`. It is preferred
    /// to those that are offered after it.
    #[must_use]
    pub fn offering(&self, protocol: &[u8]) -> Self {
        let protocols = self.protocols.iter().cloned().chain([protocol.to_vec()]).collect();
        Self { made: Arc::clone(&self.made), protocols, offered: Arc::default() }
    }

    /// Reads the files again now, if they have changed. It may block.
    pub fn refresh(&self) {
        self.made.refresh();
    }

    /// Why the files as they are now can't be used, if they can't: what was read before holds.
    pub fn fault(&self) -> Option<String> {
        self.made.fault()
    }

    /// A session with a client that is connected.
    pub(crate) fn accept(&self) -> Result<Box<Session>, VerbsError> {
        let served = self.made.current();
        let connection = UnbufferedServerConnection::new(self.offered(&served));
        let session = connection.map(|connection| Session::server(connection, served.clients.clone()));
        session.map_err(|error| failed("beginning a TLS session", &error))
    }

    fn offered(&self, served: &Arc<Served>) -> Arc<ServerConfig> {
        if let Some((of, config)) = &*self.offered.read().unwrap_or_else(PoisonError::into_inner)
            && Arc::ptr_eq(of, served)
        {
            return Arc::clone(config);
        }
        let mut config = served.config.clone();
        config.alpn_protocols = self.protocols.to_vec();
        let config = Arc::new(config);
        *self.offered.write().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(served), Arc::clone(&config)));
        config
    }
}

pub(super) fn served(shown: Identity<'_>, clients: Option<Pem<'_>>, lists: &[Source]) -> Result<Served, TlsError> {
    let provider = provider();
    let (chain, key) = read_identity(shown)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(shown.certificate, &error))?;
    let clients = match clients {
        None => None,
        Some(pem) => {
            let roots = Arc::new(read_authorities(pem)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            for list in lists {
                verifier = verifier.with_crls(read_lists(list.pem())?);
            }
            Some(verifier.build().map_err(|error| unusable(pem, &error))?)
        }
    };
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| wrong_key(shown, &error))?;
    Ok(Served { config, clients })
}

impl TlsClient {
    /// Believes servers whose certificate is from one of these authorities, is valid now, and is for `name`; if that
    /// is `None`, for the IP address that is connected to. With an identity, this side can show who it is (mutual TLS).
    ///
    /// TLS 1.3 and 1.2. Sessions may be resumed; no data is sent before the handshake is done.
    ///
    /// # Errors
    /// [`TlsError`]: which of the files, and what is wrong with it.
    pub fn new(authorities: Pem<'_>, shown: Option<Identity<'_>>, name: Option<&str>) -> Result<Self, TlsError> {
        let (authorities, own) = (Source::of(authorities), shown.map(pair));
        let sources: Vec<_> = [&authorities].into_iter().chain(own.iter().flatten()).cloned().collect();
        let make = move || called(authorities.pem(), own.as_ref().map(identity));
        let made = Renewed::new(&sources, make)?;
        Ok(Self { made, name: name.map(server_name).transpose()? })
    }

    /// The same, for servers whose certificate is for this name.
    ///
    /// # Errors
    /// It is no name of a host.
    pub fn for_name(&self, name: &str) -> Result<Self, TlsError> {
        Ok(Self { name: Some(server_name(name)?), ..self.clone() })
    }

    /// Reads the files again now, if they have changed. It may block.
    pub fn refresh(&self) {
        self.made.refresh();
    }

    /// Why the files as they are now can't be used, if they can't: what was read before holds.
    pub fn fault(&self) -> Option<String> {
        self.made.fault()
    }

    /// A session with the server at an address.
    pub(crate) fn connect(&self, address: &Address) -> Result<Box<Session>, VerbsError> {
        let name = match (&self.name, address.socket()) {
            (Some(name), _) => name.clone(),
            (None, Some(socket)) => ServerName::from(socket.ip()),
            (None, None) => return Err(VerbsError::NamelessTls { address: address.clone() }),
        };
        let called = self.made.current();
        let config = if address.is_grpc() { &called.http2 } else { &called.config };
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name);
        connection.and_then(Session::client).map_err(|error| failed("beginning a TLS session", &error))
    }
}

pub(super) fn called(authorities: Pem<'_>, shown: Option<Identity<'_>>) -> Result<Called, TlsError> {
    let (provider, roots) = (provider(), Arc::new(read_authorities(authorities)?));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let verifier = verifier.build().map_err(|error| unusable(authorities, &error))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(authorities, &error))?
        .with_webpki_verifier(verifier);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(shown) => {
            let (chain, key) = read_identity(shown)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| wrong_key(shown, &error))?
        }
    };
    let mut http2 = config.clone();
    http2.alpn_protocols = vec![HTTP2.to_vec()];
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Called { config: Arc::new(config), http2: Arc::new(http2) })
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

/// Whose cryptography is used: AWS-LC's where it was asked for, else ring's.
fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = rustls::crypto::ring::default_provider();
    Arc::new(provider)
}

fn failed(doing: &'static str, error: &rustls::Error) -> VerbsError {
    VerbsError::System { doing, source: std::io::Error::other(error.to_string()) }
}
