//! Where a replica is reached: at an address, or at a host's name and a port.

use greenwave_rpc::{ParseTargetError, Target};
use greenwave_verbs::Address;
use std::fmt;
use std::str::FromStr;

/// Where a replica is reached, as it is written into a group's membership.
///
/// A name, `tcp://kv-1.example:7400`, stands for one host. Its address may change: [`Lookup`](crate::Lookup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This address.
    Address(Address),
    /// This port of the host of this name.
    Host {
        /// The host's name, of at most 253 bytes.
        name: String,
        /// The port, 1 and more.
        port: u16,
    },
}

/// A text that says no place of a replica.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It is nowhere to call.
    #[error(transparent)]
    Target(#[from] ParseTargetError),
    /// It is somewhere else.
    #[error("`{0}` is no place of one replica; write tcp://10.0.0.1:7400 or tcp://kv-1.example:7400")]
    Other(String),
}

impl Place {
    /// The host's name, if it is known by name.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Address(_) => None,
            Self::Host { name, .. } => Some(name),
        }
    }

    /// The same as a channel's target.
    ///
    /// # Errors
    /// The name, which a caller may have made up, is none.
    pub fn target(&self) -> Result<Target, PlaceError> {
        match self {
            Self::Address(address) => Ok(address.clone().into()),
            Self::Host { .. } => Ok(self.to_string().parse()?),
        }
    }
}

impl From<Address> for Place {
    fn from(address: Address) -> Self {
        Self::Address(address)
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let other = || PlaceError::Other(text[..text.floor_char_boundary(300)].to_owned());
        if let Ok(address) = text.parse::<Address>() {
            return if address.is_grpc() { Err(other()) } else { Ok(Self::Address(address)) };
        }
        let target: Target = text.parse()?;
        // A list is several replicas, a name without a port a service's, and one with a DNS server not for the system to find.
        let name = target.name().filter(|_| text.starts_with("tcp://")).ok_or_else(other)?;
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).ok_or_else(other)?;
        Ok(Self::Host { name: name.to_owned(), port })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host { name, port } => write!(f, "tcp://{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["tcp://10.0.0.1:7400", "tcp://[::1]:7400", "unix:///run/kv.sock", "tcp://kv-1.example:7400"] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!(place.target().unwrap().to_string().replace("greenwave", "tcp"), text);
        }
        assert_eq!("tcp://kv-1.example.:7400".parse::<Place>().unwrap().host(), Some("kv-1.example"));
    }

    #[test]
    fn what_is_not_one_replica_is_refused() {
        for text in [
            "tcp://10.0.0.1:7400,10.0.0.2:7400",
            "greenwave://kv.example",
            "greenwave://kv.example:7400",
            "dns:///kv.example:7400",
            "grpc://10.0.0.1:7400",
            "grpc://kv.example:7400",
            "tcp://kv.example",
            "tcp://kv.example:0",
            "tcp://k v:1",
            "kv.example:7400",
            "",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
