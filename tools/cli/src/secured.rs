//! How `call` and `bench` connect: with TLS or without.

use std::path::PathBuf;

use clap::Args;
use greenwave::tls::{Identity, Pem, TlsClient};
use greenwave::{ChannelConfig, GrpcClientSettings};

use crate::address::Place;
use crate::problem::Problem;

/// Which server is believed, and who this side is.
#[derive(Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Secured {
    /// Connect over TLS, and believe a server whose certificate is from this authority, a PEM file
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// This side's certificate, a PEM file, for a server that wants one
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of this side's certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name that the server's certificate has to be for [default: the host in the address]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
}

impl Secured {
    /// How a channel to a server is set up.
    ///
    /// # Errors
    /// When a file can't be read, or isn't what it should be.
    pub(crate) fn config(&self, name: &str, place: &Place) -> Result<ChannelConfig, Problem> {
        let mut config = ChannelConfig::default().name(name);
        // Whom a server of gRPC is asked for by.
        if let (Some(host), Some(socket)) = (&place.host, place.address.socket()) {
            config = config.grpc(GrpcClientSettings::new().authority(format!("{host}:{}", socket.port())));
        }
        let Some(authorities) = &self.tls_ca else { return Ok(config) };
        let pair = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let identity =
            pair.map(|(certificate, key)| Identity { certificate: Pem::File(certificate), key: Pem::File(key) });
        let host = self.tls_name.as_deref().or(place.host.as_deref());
        if host.is_none() && place.address.socket().is_none() {
            return Err(Problem::wrong_use("a socket file has no name that a certificate could be for")
                .at(&place.address)
                .remedy("say which name to expect with --tls-name"));
        }
        let tls = TlsClient::new(Pem::File(authorities), identity, host).map_err(Problem::wrong_use)?;
        Ok(config.tls(tls))
    }
}
