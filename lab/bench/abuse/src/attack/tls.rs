//! Handshakes of TLS, finished and not.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use super::Maker;
use super::behaviour::{Behaviour, Io, add};

/// Whom an attacker takes the server for. It doesn't care.
const NAME: &str = "abused";

/// A third finishes its handshake and leaves, a third leaves once the server has done its part, a third never goes on.
pub(super) fn maker() -> anyhow::Result<Maker> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let anybody = Arc::new(Anybody(provider));
    let config = Arc::new(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth());
    let mut hello = Vec::new();
    connection(&config).context("no handshake can be begun")?.write_tls(&mut hello)?;
    Ok(Box::new(move |number| match number % 3 {
        0 => Box::new(Whole(connection(&config))),
        1 => Box::new(Begun { hello: hello.clone(), leaves: true }),
        _ => Box::new(Begun { hello: hello.clone(), leaves: false }),
    }))
}

fn connection(config: &Arc<ClientConfig>) -> Option<ClientConnection> {
    ClientConnection::new(Arc::clone(config), ServerName::try_from(NAME).ok()?).ok()
}

/// Sends the first flight of a handshake, and nothing more.
struct Begun {
    hello: Vec<u8>,
    leaves: bool,
}

impl Behaviour for Begun {
    fn go(&mut self, came: &[u8], io: &mut Io<'_>) {
        io.out.append(&mut self.hello);
        io.leaves = self.leaves && !came.is_empty();
    }
}

/// Goes on to the end.
struct Whole(Option<ClientConnection>);

impl Behaviour for Whole {
    fn go(&mut self, mut came: &[u8], io: &mut Io<'_>) {
        let Some(connection) = &mut self.0 else { return };
        while !came.is_empty() {
            let is_taken = connection.read_tls(&mut came).is_ok_and(|bytes| bytes > 0);
            if !is_taken || connection.process_new_packets().is_err() {
                io.leaves = true;
                return;
            }
        }
        while connection.wants_write() && connection.write_tls(io.out).is_ok() {}
        // The next time it is asked all has been sent.
        if !connection.is_handshaking() && io.out.is_empty() {
            add(&io.tallies.handshakes, 1);
            io.leaves = true;
        }
    }
}

/// Takes everybody for the server: a client that checks nothing has less to do.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
