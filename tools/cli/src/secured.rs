//! How `call` and `bench` connect: with TLS or without.

use std::path::{Path, PathBuf};

use clap::Args;
use greenwave::tls::{Identity, Pem, TlsClient};
use greenwave::{Address, ChannelConfig, GrpcClientSettings, Target};
use greenwave_services::replicated::client::Place as Replica;

use crate::address::Place;

use crate::problem::Problem;
use crate::web::{self, Tls};

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
        self.expecting(name, place.host.as_deref(), &Target::from(place.address.clone()))
    }

    /// How a channel to one or several is set up. The servers of a name have certificates for that name.
    ///
    /// # Errors
    /// When a file can't be read, or isn't what it should be.
    pub(crate) fn config_to(&self, name: &str, target: &Target) -> Result<ChannelConfig, Problem> {
        self.expecting(name, target.name(), target)
    }

    /// How connections of HTTP are secured, if they are.
    ///
    /// # Errors
    /// When `https://` has nobody to believe or `http://` has, or a file isn't what it should be.
    pub(crate) fn web(&self, address: &web::Address) -> Result<Option<Tls>, Problem> {
        let refused = |what: &str| Problem::wrong_use(what).at(address);
        let Some(authorities) = &self.tls_ca else {
            let missing = || refused("https:// is secured").remedy("say whom to believe with --tls-ca");
            return if address.secured { Err(missing()) } else { Ok(None) };
        };
        if !address.secured {
            return Err(refused("--tls-ca is for a server that is called over TLS").remedy("write https://"));
        }
        // What is wrong with a file is said as it is for other addresses.
        self.believing(authorities, self.tls_name.as_deref())?;
        #[cfg(feature = "tls")]
        {
            let own = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
            Tls::new(address, authorities, own, self.tls_name.as_deref()).map(Some).map_err(Problem::wrong_use)
        }
        #[cfg(not(feature = "tls"))]
        Err(refused("this command was built without TLS").remedy("build it with the cargo feature `tls`"))
    }

    /// Where the replicas of a group are. Each has a certificate for its own name, if it was written by name, unless another name
    /// is expected of all.
    pub(crate) fn replicas(&self, places: &[Place]) -> Vec<Replica> {
        let by_name = cfg!(feature = "resolver") && self.tls_ca.is_some() && self.tls_name.is_none();
        let replica = |Place { address, host }: &Place| match (host, address.socket()) {
            (Some(name), Some(socket)) if by_name => Replica::Host { name: name.clone(), port: socket.port() },
            _ => address.clone().into(),
        };
        places.iter().map(replica).collect()
    }

    fn expecting(&self, name: &str, host: Option<&str>, target: &Target) -> Result<ChannelConfig, Problem> {
        let mut config = ChannelConfig::default().name(name);
        // Whom a server of gRPC is asked for by.
        if let (Some(host), Some(socket)) = (host, target.address().and_then(Address::socket)) {
            config = config.grpc(GrpcClientSettings::new().authority(format!("{host}:{}", socket.port())));
        }
        let Some(authorities) = &self.tls_ca else { return Ok(config) };
        let host = self.tls_name.as_deref().or(host);
        if host.is_none() && target.address().is_some_and(|address| address.socket().is_none()) {
            return Err(Problem::wrong_use("a socket file has no name that a certificate could be for")
                .at(target)
                .remedy("say which name to expect with --tls-name"));
        }
        Ok(config.tls(self.believing(authorities, host)?))
    }

    fn believing(&self, authorities: &Path, host: Option<&str>) -> Result<TlsClient, Problem> {
        let pair = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let identity =
            pair.map(|(certificate, key)| Identity { certificate: Pem::File(certificate), key: Pem::File(key) });
        TlsClient::new(Pem::File(authorities), identity, host).map_err(Problem::wrong_use)
    }
}
