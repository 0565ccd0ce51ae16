//! A client of HTTP/1.1 over TLS, by the standard library and rustls.

use crate::certificates::Certified;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// Posts an empty request to a method by Connect's protocol. The whole answer.
pub(crate) fn post(
    to: SocketAddr,
    authority: &str,
    own: Option<&Certified>,
    method: &str,
    headers: &[(&str, &str)],
) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connection = ClientConnection::new(Arc::new(config), ServerName::from(to.ip())).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(to).unwrap());
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /{method} HTTP/1.1\r\nhost: test\r\ncontent-type: application/proto\r\ncontent-length: 0\r\n{headers}\
         connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
