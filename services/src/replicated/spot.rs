//! Where a replica is reached: by clients, and by the other replicas at a port of its own.

use std::fmt;
use std::str::FromStr;

use greenwave::Address;
use greenwave_replica::{Place, PlaceError};

/// So far above the port for clients is the one for replicas, unless it is said; below, if there is none so high.
const ABOVE: u16 = 1000;

/// Where a replica is reached. As text it is where clients reach it, and, behind a slash, the port for replicas if that isn't
/// 1000 above: `tcp://10.0.0.1:7400` is at 8400 for replicas, `tcp://10.0.0.1:7400/7500` at 7500. Of a socket of Unix the one
/// for replicas has `.peers` behind its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    clients: Place,
    peers: Place,
}

impl Spot {
    /// Where clients reach it.
    pub const fn clients(&self) -> &Place {
        &self.clients
    }

    /// Where the other replicas do.
    pub const fn peers(&self) -> &Place {
        &self.peers
    }
}

impl From<Place> for Spot {
    fn from(clients: Place) -> Self {
        let beside = |port: u16| port.checked_add(ABOVE).unwrap_or(port.saturating_sub(ABOVE));
        let peers = match &clients {
            Place::Address(Address::Tcp(socket)) => at_port(&clients, beside(socket.port())),
            Place::Host { port, .. } => at_port(&clients, beside(*port)),
            Place::Address(Address::Unix(path)) => {
                let mut path = path.clone().into_os_string();
                path.push(".peers");
                Place::Address(Address::Unix(path.into()))
            }
            // What has no port has a name, which is for both.
            Place::Address(other) => Place::Address(other.clone()),
        };
        Self { clients, peers }
    }
}

impl From<Address> for Spot {
    fn from(clients: Address) -> Self {
        Place::from(clients).into()
    }
}

impl FromStr for Spot {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let port = text.rsplit_once('/').and_then(|(before, port)| Some((before, port.parse().ok()?)));
        match port.filter(|(before, port)| before.starts_with("tcp://") && *port > 0) {
            Some((before, port)) => {
                let clients: Place = before.parse()?;
                Ok(Self { peers: at_port(&clients, port), clients })
            }
            None => Ok(text.parse::<Place>()?.into()),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clients.fmt(f)?;
        if Self::from(self.clients.clone()).peers == self.peers {
            return Ok(());
        }
        match &self.peers {
            Place::Address(Address::Tcp(socket)) => write!(f, "/{}", socket.port()),
            Place::Host { port, .. } => write!(f, "/{port}"),
            Place::Address(_) => Ok(()),
        }
    }
}

/// The same host at another port.
fn at_port(place: &Place, port: u16) -> Place {
    match place {
        Place::Address(Address::Tcp(socket)) => Place::Address(Address::Tcp((socket.ip(), port).into())),
        Place::Host { name, .. } => Place::Host { name: name.clone(), port },
        Place::Address(other) => Place::Address(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_reached_beside_clients_or_where_it_is_said() {
        for (text, peers) in [
            ("tcp://10.0.0.1:7400", "tcp://10.0.0.1:8400"),
            ("tcp://10.0.0.1:7400/7500", "tcp://10.0.0.1:7500"),
            ("tcp://[::1]:7400/7500", "tcp://[::1]:7500"),
            ("tcp://kv-1.example:7400", "tcp://kv-1.example:8400"),
            ("tcp://kv-1.example:7400/1", "tcp://kv-1.example:1"),
            ("tcp://10.0.0.1:65000", "tcp://10.0.0.1:64000"),
            ("unix:///run/kv.sock", "unix:///run/kv.sock.peers"),
        ] {
            let spot: Spot = text.parse().unwrap();
            assert_eq!((spot.to_string().as_str(), spot.peers().to_string().as_str()), (text, peers));
        }
        assert_eq!("tcp://10.0.0.1:7400/8400".parse::<Spot>().unwrap().to_string(), "tcp://10.0.0.1:7400");
        for text in ["", "tcp://10.0.0.1:7400/", "tcp://10.0.0.1:7400/0", "tcp://10.0.0.1/7", "tcp://10.0.0.1:7400/7/8"]
        {
            assert!(text.parse::<Spot>().is_err(), "{text}");
        }
    }
}
