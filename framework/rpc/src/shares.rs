//! Whose calls are whose, and how much of a server each may have.

use greenwave_policy::Shares;
use greenwave_proto::context::said_of;
use greenwave_proto::{ConfigError, Peer};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

/// How a server divides its time among those who call it, where more is asked for than it can serve.
///
/// Each *tenant* gets the part of the time that its weight is of the weights of all whose calls are there; what one leaves, the
/// others have. A call's tenant is who makes it: what [`Peer::principal`] says, or else the address of its connection; or whom a
/// proxy that is trusted says it is of. `docs/shares.md` has the whole of it.
///
/// ```
/// # use greenwave_rpc::{ServerConfig, ShareConfig};
/// let shares = ShareConfig::new()
///     .weight("spiffe://shop.example/cart", 5)
///     .tenant_from("x-tenant", ["spiffe://shop.example/gateway"]);
/// let config = ServerConfig::default().shares(shares);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ShareConfig {
    weights: Vec<(String, u32)>,
    metadata: Option<String>,
    /// Those that are believed: by what they have proved to be, and by where they are.
    proxies: Vec<String>,
    addresses: Vec<IpAddr>,
    /// So that nobody can bring about another's key; the same for all threads of a server.
    hasher: RandomState,
}

/// The longest name of a tenant that metadata may say, in bytes.
const LONGEST: usize = 256;

impl ShareConfig {
    /// All tenants weigh 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A tenant weighs so much, 1 to a million: by its principal or by the name that a proxy says. An address of the Internet's
    /// stands for those of whom nothing else is known.
    #[must_use]
    pub fn weight(mut self, tenant: impl Into<String>, weight: u32) -> Self {
        self.weights.push((tenant.into(), weight));
        self
    }

    /// Metadata of this name say whose a call is, up to 256 bytes, if they come from one of these: by its principal, or, where it
    /// has proved nothing, by its address. From all others they are not believed.
    #[must_use]
    pub fn tenant_from<N: Into<String>>(
        mut self,
        metadata: impl Into<String>,
        proxies: impl IntoIterator<Item = N>,
    ) -> Self {
        self.metadata = Some(metadata.into());
        (self.proxies, self.addresses) = (Vec::new(), Vec::new());
        for proxy in proxies {
            let proxy = proxy.into();
            match proxy.parse::<IpAddr>() {
                Ok(address) => self.addresses.push(address.to_canonical()),
                Err(_) => self.proxies.push(proxy),
            }
        }
        self
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (tenant, weight) in &self.weights {
            let fits = (1..=Shares::HEAVIEST).contains(weight) && (1..=2048).contains(&tenant.len());
            let given = || format!("{tenant:?} with {weight}");
            ConfigError::unless(fits, "share", given(), "a name, and a weight of 1 to 1000000")?;
        }
        let names: HashSet<&str> = self.weights.iter().map(|(tenant, _)| &**tenant).collect();
        ConfigError::unless(names.len() == self.weights.len(), "share", "a tenant twice", "each tenant once")?;
        let most = Shares::MOST - 1;
        ConfigError::unless(self.weights.len() <= most, "share", self.weights.len(), "1023 tenants at most")?;
        if let Some(name) = &self.metadata {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
            let is_name = (1..=255).contains(&name.len()) && name.bytes().all(is_plain);
            let example = "a name of 1 to 255 lower-case letters, digits, `-`, `_` and `.`, such as x-tenant";
            ConfigError::unless(is_name, "tenant_from", format!("{name:?}"), example)?;
            let believed = self.proxies.len() + self.addresses.len();
            let example = "1 to 256 principals or addresses of proxies that are believed";
            ConfigError::unless((1..=256).contains(&believed), "tenant_trust", believed, example)?;
            let is_said = self.proxies.iter().all(|proxy| (1..=2048).contains(&proxy.len()));
            ConfigError::unless(is_said, "tenant_trust", "an empty one, or one of more than 2048 bytes", example)?;
        }
        Ok(())
    }

    /// The accounts of a thread.
    pub(crate) fn accounts(&self) -> Shares {
        let keyed = self.weights.iter().map(|(tenant, weight)| {
            (tenant.parse().map_or_else(|_| self.named(tenant.as_bytes()), |address| self.at(address)), *weight)
        });
        Shares::new(&keyed.collect::<Vec<_>>())
    }

    /// Who makes a call that came over this peer's connection, or whose credentials say that it is this peer's.
    pub(crate) fn tenant(&self, peer: &Peer, metadata: Option<&[u8]>) -> u64 {
        if let Some(name) = &self.metadata
            && metadata.is_some()
            && self.believes(peer)
            && let Some(said) = said_of(metadata, name).filter(|said| (1..=LONGEST).contains(&said.len()))
        {
            return self.named(said);
        }
        match (peer.principal(), peer.address()) {
            (Some(principal), _) => self.named(principal.as_bytes()),
            (None, Some(address)) => self.at(address.ip()),
            (None, None) => self.key(2, &[]),
        }
    }

    fn believes(&self, peer: &Peer) -> bool {
        match (peer.principal(), peer.address()) {
            (Some(principal), _) => self.proxies.iter().any(|proxy| proxy == principal),
            (None, Some(address)) => self.addresses.contains(&address.ip().to_canonical()),
            (None, None) => false,
        }
    }

    fn named(&self, name: &[u8]) -> u64 {
        self.key(0, name)
    }

    /// Of IPv6 the network counts, as whoever has an address there has them all.
    fn at(&self, address: IpAddr) -> u64 {
        match address.to_canonical() {
            IpAddr::V4(address) => self.key(1, &address.octets()),
            IpAddr::V6(address) => {
                self.key(1, &Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).octets())
            }
        }
    }

    /// Never 0, which stands for those who have no place of their own.
    fn key(&self, kind: u8, name: &[u8]) -> u64 {
        self.hasher.hash_one((kind, name)) | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::wire::push_meta;

    fn from(address: [u8; 4]) -> Peer {
        Peer::at(Some((address, 7).into()))
    }

    fn saying(name: &str, value: &str) -> Vec<u8> {
        let mut entries = Vec::new();
        push_meta(&mut entries, name, value.as_bytes()).unwrap();
        entries
    }

    #[test]
    fn a_tenant_is_who_is_proved_or_else_where_the_connection_comes_from() {
        let shares = ShareConfig::new();
        let key = |peer: &Peer| shares.tenant(peer, None);
        let ada = from([10, 0, 0, 1]).with_subject("ada");
        assert_eq!(key(&ada), key(&from([10, 0, 0, 2]).with_subject("ada")));
        assert_ne!(key(&ada), key(&from([10, 0, 0, 1])));
        assert_ne!(key(&from([10, 0, 0, 1])), key(&from([10, 0, 0, 2])));
        assert_eq!(key(&Peer::UNKNOWN), key(&Peer::UNKNOWN));
        // Whoever has an address of a network of IPv6 has them all.
        let v6 = |last: &str| Peer::at(Some((last.parse::<Ipv6Addr>().unwrap(), 7).into()));
        assert_eq!(key(&v6("2001:db8::1")), key(&v6("2001:db8::2:3")));
        assert_ne!(key(&v6("2001:db8::1")), key(&v6("2001:db8:0:1::1")));
    }

    #[test]
    fn what_metadata_say_counts_only_from_those_that_are_believed() {
        let shares = ShareConfig::new().tenant_from("x-tenant", ["spiffe://shop/gateway", "10.0.0.9"]);
        let said = saying("x-tenant", "ada");
        let gateway = Peer::UNKNOWN.with_subject("spiffe://shop/gateway");
        let ada = shares.tenant(&Peer::UNKNOWN.with_subject("ada"), None);
        assert_eq!(shares.tenant(&gateway, Some(&said)), ada);
        assert_eq!(shares.tenant(&from([10, 0, 0, 9]), Some(&said)), ada);
        // Whoever is called what an address is written as is not there.
        let named = Peer::UNKNOWN.with_subject("10.0.0.9");
        for other in [from([10, 0, 0, 8]), from([10, 0, 0, 9]).with_subject("eve"), named, Peer::UNKNOWN] {
            assert_eq!(shares.tenant(&other, Some(&said)), shares.tenant(&other, None));
        }
        for nothing in [saying("x-tenants", "ada"), saying("x-tenant", ""), saying("x-tenant", &"a".repeat(257))] {
            assert_eq!(shares.tenant(&gateway, Some(&nothing)), shares.tenant(&gateway, None));
        }
    }

    #[test]
    fn weights_are_by_name_or_by_address_and_within_their_range() {
        let shares = ShareConfig::new().weight("ada", 3).weight("10.0.0.1", 2);
        assert_eq!(shares.validate(), Ok(()));
        let mut accounts = shares.accounts();
        let before = accounts.tenants();
        accounts.tenant(shares.tenant(&Peer::UNKNOWN.with_subject("ada"), None));
        accounts.tenant(shares.tenant(&from([10, 0, 0, 1]), None));
        assert_eq!(accounts.tenants(), before, "both have their places");
        for wrong in [
            shares.clone().weight("eve", 0),
            shares.clone().weight("", 1),
            shares.clone().weight("eve", 1_000_001),
            shares.clone().weight("ada", 4),
            shares.clone().tenant_from("X-Tenant", ["a"]),
            shares.clone().tenant_from("x-tenant", ["a", ""]),
            shares.clone().tenant_from("", ["a"]),
            shares.tenant_from("x-tenant", [""; 0]),
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
