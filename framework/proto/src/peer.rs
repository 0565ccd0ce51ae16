//! Who calls.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who makes a call, as far as that is known: what its connection says, and what its credentials say if they were checked.
///
/// What a connection says is found out once, and shared by all of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    address: Option<SocketAddr>,
    names: Option<Arc<Names>>,
    subject: Option<Arc<str>>,
}

/// The names in a certificate.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    uris: Vec<String>,
    dns: Vec<String>,
}

impl Peer {
    /// Somebody of whom nothing is known.
    pub const UNKNOWN: Self = Self { address: None, names: None, subject: None };

    /// The other end of a connection; `None` where connections have no address of the Internet's.
    pub const fn at(address: Option<SocketAddr>) -> Self {
        Self { address, ..Self::UNKNOWN }
    }

    /// The same with the names in a certificate that was checked: URIs, and names of hosts.
    #[must_use]
    pub fn with_names(&self, uris: Vec<String>, dns: Vec<String>) -> Self {
        Self { names: Some(Arc::new(Names { uris, dns })), ..self.clone() }
    }

    /// The same with whom the credentials of a call are of: for whoever checks them.
    #[must_use]
    pub fn with_subject(&self, subject: impl Into<Arc<str>>) -> Self {
        Self { subject: Some(subject.into()), ..self.clone() }
    }

    /// Where its connection comes from: the client's address, or that of a proxy on the way. `None` over sockets of Unix,
    /// memory and fabrics, and for a request that was made in this process.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The URIs among the subject alternative names of its certificate; a SPIFFE ID is one.
    pub fn uris(&self) -> &[String] {
        self.names.as_deref().map_or(&[], |names| &names.uris)
    }

    /// The names of hosts among the subject alternative names of its certificate.
    pub fn dns_names(&self) -> &[String] {
        self.names.as_deref().map_or(&[], |names| &names.dns)
    }

    /// Its SPIFFE ID: the one URI of its certificate, if that is one. A certificate with several URIs has none (X.509-SVID, 2).
    pub fn spiffe_id(&self) -> Option<&str> {
        match self.uris() {
            [only] if only.starts_with("spiffe://") => Some(only),
            _ => None,
        }
    }

    /// Whether it has shown a certificate of an authority that is believed.
    pub fn has_certificate(&self) -> bool {
        self.names.is_some()
    }

    /// Whom the call's credentials are of, such as the `sub` of a token, once they were checked.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// By one name: the subject of the call's credentials, or else the first URI or name of a host in the certificate. `None`:
    /// nobody has proved anything.
    pub fn principal(&self) -> Option<&str> {
        self.subject().or_else(|| self.uris().first().or_else(|| self.dns_names().first()).map(String::as_str))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.principal(), self.address) {
            (Some(principal), Some(address)) => write!(f, "{principal} at {address}"),
            (Some(principal), None) => f.write_str(principal),
            (None, Some(address)) => write!(f, "somebody at {address}"),
            (None, None) => f.write_str("somebody"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(uris: &[&str], dns: &[&str]) -> Peer {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Peer::at(Some(([10, 0, 0, 1], 7).into())).with_names(owned(uris), owned(dns))
    }

    #[test]
    fn the_credentials_of_a_call_count_more_than_its_certificate_and_a_uri_more_than_a_host() {
        let cart = with(&["spiffe://shop/cart"], &["cart.shop"]);
        assert_eq!(cart.principal(), Some("spiffe://shop/cart"));
        assert_eq!(cart.with_subject("ada").principal(), Some("ada"));
        assert_eq!(cart.with_subject("ada").uris(), cart.uris());
        assert_eq!(with(&[], &["cart.shop"]).to_string(), "cart.shop at 10.0.0.1:7");
        assert_eq!(Peer::UNKNOWN.principal(), None);
        assert!(with(&[], &[]).has_certificate() && !Peer::UNKNOWN.has_certificate());
    }

    #[test]
    fn a_certificate_with_several_uris_has_no_spiffe_id() {
        assert_eq!(with(&["spiffe://shop/cart"], &[]).spiffe_id(), Some("spiffe://shop/cart"));
        assert_eq!(with(&["spiffe://shop/cart", "spiffe://shop/till"], &[]).spiffe_id(), None);
        assert_eq!(with(&["https://shop/cart"], &[]).spiffe_id(), None);
    }
}
