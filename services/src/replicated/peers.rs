//! Who belongs to a group when it begins, as people write it: `1=tcp://10.0.0.1:7400,2=tcp://kv-2.example:7400`.

use std::collections::BTreeMap;
use std::str::FromStr;

pub use greenwave_replica::Place;
use thiserror::Error;

pub use super::spot::Spot;

/// The replicas of a group, by number, and where each is reached by clients and by the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(BTreeMap<u64, Spot>);

/// Peers that can't be meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeersError {
    /// Not a number and an address, or a host's name with a port.
    #[error(
        "`{0}` is no replica; allowed: a number from 1 on and an address, such as 1=tcp://127.0.0.1:7401 or \
         1=tcp://kv-1.example:7400"
    )]
    Form(String),
    /// A number twice.
    #[error("replica {0} is named twice; give each a number of its own")]
    Number(u64),
    /// An address twice, of clients or of replicas.
    #[error("replicas {first} and {second} have the same address, {address}; give each one of its own")]
    Address {
        /// The one.
        first: u64,
        /// The other.
        second: u64,
        /// Their address.
        address: String,
    },
    /// A port that the system would pick.
    #[error("replica {0} has port 0, and the others couldn't find it; give it a port")]
    Port(u64),
    /// The replica itself isn't among them.
    #[error("replica {id} is not among the peers, which are {known}; name it there, or another one with --id")]
    NotAmong {
        /// The replica.
        id: u64,
        /// Those that are.
        known: String,
    },
}

impl Peers {
    /// These replicas, each with its number.
    ///
    /// # Errors
    /// A number or an address comes twice, or a port is left to the system.
    pub fn new(replicas: impl IntoIterator<Item = (u64, impl Into<Spot>)>) -> Result<Self, PeersError> {
        let mut peers: BTreeMap<u64, Spot> = BTreeMap::new();
        for (id, address) in replicas {
            let spot: Spot = address.into();
            if spot.clients().to_string().ends_with(":0") {
                return Err(PeersError::Port(id));
            }
            let places = |spot: &Spot| [spot.clients().clone(), spot.peers().clone()];
            for place in places(&spot) {
                if let Some((first, _)) = peers.iter().find(|(_, taken)| places(taken).contains(&place)) {
                    return Err(PeersError::Address { first: *first, second: id, address: place.to_string() });
                }
            }
            if peers.insert(id, spot).is_some() {
                return Err(PeersError::Number(id));
            }
        }
        Ok(Self(peers))
    }

    /// Where a replica is reached.
    ///
    /// # Errors
    /// It isn't among them.
    pub fn spot(&self, id: u64) -> Result<&Spot, PeersError> {
        self.0.get(&id).ok_or_else(|| {
            let known: Vec<_> = self.0.keys().map(u64::to_string).collect();
            PeersError::NotAmong { id, known: known.join(", ") }
        })
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Spot)> {
        self.0.iter().map(|(id, spot)| (*id, spot))
    }
}

impl FromStr for Peers {
    type Err = PeersError;

    fn from_str(text: &str) -> Result<Self, PeersError> {
        let replica = |word: &str| {
            let (id, address) = word.split_once('=')?;
            let (id, address) = (id.trim().parse().ok().filter(|id| *id > 0)?, address.trim());
            // The scheme may be left out.
            let whole = if address.contains("://") { address.to_owned() } else { format!("tcp://{address}") };
            Some((id, whole.parse::<Spot>().ok()?))
        };
        let replicas = text.split(',').map(|word| replica(word).ok_or_else(|| PeersError::Form(word.to_owned())));
        Self::new(replicas.collect::<Result<Vec<_>, _>>()?)
    }
}

impl std::fmt::Display for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (id, address)) in self.0.iter().enumerate() {
            write!(f, "{}{id}={address}", if place > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_as_they_are_written() {
        let peers: Peers = "2=tcp://10.0.0.2:7400, 1=127.0.0.1:7400,10=unix:///run/x.sock".parse().unwrap();
        assert_eq!(peers.to_string(), "1=tcp://127.0.0.1:7400,2=tcp://10.0.0.2:7400,10=unix:///run/x.sock");
        assert_eq!(peers.to_string().parse(), Ok(peers.clone()));
        assert_eq!(peers.spot(2).unwrap().to_string(), "tcp://10.0.0.2:7400");
        let named: Peers = "1=kv-1.example:7400,2=tcp://kv-2:7400".parse().unwrap();
        assert_eq!(named.to_string(), "1=tcp://kv-1.example:7400,2=tcp://kv-2:7400");
        assert_eq!(named.spot(2).unwrap().clients().host(), Some("kv-2"));
    }

    #[test]
    fn what_can_not_be_meant_is_refused_with_a_remedy() {
        let error = |text: &str| text.parse::<Peers>().unwrap_err();
        for odd in
            ["", "1", "a=1.1.1.1:1", "0=1.1.1.1:1", "1=", "1=tcp://", "1=tcp://a", "1=dns:///a:1", "1=1.1.1.1:1,"]
        {
            assert!(matches!(error(odd), PeersError::Form(_)), "{odd}");
        }
        assert_eq!(
            error("1=1.1.1.1:1,1=1.1.1.2:1").to_string(),
            "replica 1 is named twice; give each a number of its own"
        );
        assert_eq!(
            error("1=1.1.1.1:1,2=tcp://1.1.1.1:1").to_string(),
            "replicas 1 and 2 have the same address, tcp://1.1.1.1:1; give each one of its own"
        );
        assert_eq!(error("1=1.1.1.1:0"), PeersError::Port(1));
        let peers: Peers = "1=1.1.1.1:1,2=1.1.1.2:1".parse().unwrap();
        assert_eq!(
            peers.spot(3).unwrap_err().to_string(),
            "replica 3 is not among the peers, which are 1, 2; name it there, or another one with --id"
        );
    }
}
