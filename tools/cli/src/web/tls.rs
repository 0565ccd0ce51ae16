//! TLS for connections of HTTP: the same certificates as for `grpcs://`, and what is spoken within is agreed on.

#[cfg(feature = "tls")]
pub(crate) use secured::Tls;

/// Can't be made without the cargo feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

#[cfg(feature = "tls")]
mod secured {
    use std::path::Path;
    use std::sync::Arc;

    use greenwave::{Reason, Status};
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::super::address::{Address, Version};

    const HTTP1: &[u8] = b"http/1.1";
    const HTTP2: &[u8] = b"h2";

    /// How connections are secured.
    #[derive(Clone)]
    pub(crate) struct Tls {
        connector: TlsConnector,
        name: ServerName<'static>,
    }

    impl Tls {
        /// Believes servers whose certificate is from these authorities and for this name. `own`: this side's certificate and
        /// its key.
        ///
        /// # Errors
        /// A file that isn't what it should be, or a name that can't be one.
        pub(crate) fn new(
            address: &Address,
            authorities: &Path,
            own: Option<(&Path, &Path)>,
            name: Option<&str>,
        ) -> Result<Self, String> {
            let read = |file: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let certificates = |file: &Path| {
                let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                found.map_err(|error| read(file, &error))
            };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(authorities)? {
                roots.add(certificate).map_err(|error| read(authorities, &error))?;
            }
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots);
            let mut config = match own {
                None => builder.with_no_client_auth(),
                Some((certificate, key)) => {
                    let chain = certificates(certificate)?;
                    let key_read = PrivateKeyDer::from_pem_file(key).map_err(|error| read(key, &error))?;
                    builder.with_client_auth_cert(chain, key_read).map_err(|error| read(key, &error))?
                }
            };
            config.alpn_protocols = match address.version {
                None => vec![HTTP2.to_vec(), HTTP1.to_vec()],
                Some(Version::Http2) => vec![HTTP2.to_vec()],
                Some(Version::Http1) => vec![HTTP1.to_vec()],
            };
            let name = name.unwrap_or(&address.host).to_owned();
            let name = ServerName::try_from(name.clone()).map_err(|_| format!("`{name}` is no name of a host"))?;
            Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
        }

        /// Secures a connection; says what is spoken within.
        pub(crate) async fn secure(
            &self,
            stream: TcpStream,
            wanted: Option<Version>,
        ) -> Result<(TlsStream<TcpStream>, Version), Status> {
            let stream = self.connector.connect(self.name.clone(), stream).await;
            let stream = stream.map_err(|error| Status::refused(Reason::Unreachable, format!("TLS: {error}")))?;
            let agreed = stream.get_ref().1.alpn_protocol();
            let version = match agreed {
                Some(HTTP2) => Version::Http2,
                Some(_) => Version::Http1,
                // A server that agrees on nothing is taken at its word.
                None => wanted.unwrap_or(Version::Http1),
            };
            Ok((stream, version))
        }
    }
}
