//! Our own server: what fails there is not for others to mend.

use anyhow::bail;
use greenwave::tls::{Identity, Pem, TlsServer};
use greenwave::{Address, ServerConfig};

use super::{FEATURES, Kept, Running, Server};
use crate::certificates::Certificates;
use crate::service;

const VERSION: &str = "this one, in the same process";

pub(super) const PLAIN: Server = Server {
    name: "greenwave",
    tool: Err(VERSION),
    is_secured: false,
    features: FEATURES,
    start: |_, secured| start(secured),
};

pub(super) const SECURED: Server = Server { name: "greenwave-tls", is_secured: true, ..PLAIN };

fn start(secured: Option<&Certificates>) -> anyhow::Result<Running> {
    let config = ServerConfig::default().listen(["tcp://127.0.0.1:0".parse()?]).tls(secured.map(identity).transpose()?);
    let server = service::start(config)?;
    let Some(Address::Tcp(socket)) = server.addresses().first().cloned() else { bail!("the server has no socket") };
    Ok(Running { socket, _kept: Kept::Ours { _server: server } })
}

/// How a server of ours is secured by these.
pub(crate) fn identity(certificates: &Certificates) -> anyhow::Result<TlsServer> {
    let Certificates { certificate, key, .. } = certificates;
    let identity = Identity { certificate: Pem::File(certificate), key: Pem::File(key) };
    Ok(TlsServer::new(identity, None)?)
}
