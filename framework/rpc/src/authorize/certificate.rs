//! Leave for those whose certificate has a name.

use super::{Authorize, AuthorizeRequest, Denied, Grant};
use greenwave_proto::Peer;
use std::str::FromStr;

/// Lets those call whose certificate has one of some names (mutual TLS). Whose certificates are believed is the server's TLS to say.
///
/// A name is a URI (`spiffe://shop.example/cart`), all SPIFFE IDs of a trust domain or of a path in it
/// (`spiffe://shop.example/*`, `spiffe://shop.example/till/*`), or a name of a host (`cart.shop.example`). Those of hosts are the
/// same in upper and lower case, and never wildcards.
#[derive(Clone, Debug)]
pub struct CertificateNames {
    names: Vec<NamePattern>,
    covers_meta: bool,
}

/// Which names of certificates are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamePattern {
    Uri(String),
    /// All SPIFFE IDs that begin so; it ends with a slash.
    Within(String),
    Dns(String),
}

/// What can't be a name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name in a certificate; write a URI, the name of a host, or spiffe://TRUST-DOMAIN/PATH/* for all SPIFFE IDs below"
)]
pub struct NamePatternError(String);

impl CertificateNames {
    /// Those with one of these names.
    ///
    /// # Errors
    /// One of them is no name.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, NamePatternError> {
        let names = names.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { names, covers_meta: false })
    }

    /// Whether they may ask the server about itself, too; see [`Authorize::covers_meta`]. As a rule they may not.
    #[must_use]
    pub fn covering_meta(self, covers_meta: bool) -> Self {
        Self { covers_meta, ..self }
    }
}

impl Authorize for CertificateNames {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        if !call.peer().has_certificate() {
            return Err(Denied::no_credentials("a client certificate"));
        }
        match self.names.iter().any(|name| name.is_of(call.peer())) {
            true => Ok(Grant::to_peer()),
            false => Err(Denied::not_allowed(call)),
        }
    }

    fn covers_meta(&self) -> bool {
        self.covers_meta
    }
}

impl NamePattern {
    pub(super) fn is_of(&self, peer: &Peer) -> bool {
        match self {
            // A SPIFFE ID counts where it is the only URI.
            Self::Uri(uri) if uri.starts_with(SPIFFE) => peer.spiffe_id() == Some(uri),
            Self::Uri(uri) => peer.uris().contains(uri),
            Self::Within(prefix) => {
                peer.spiffe_id().is_some_and(|id| id.strip_prefix(&**prefix).is_some_and(|rest| !rest.is_empty()))
            }
            Self::Dns(name) => peer.dns_names().iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }
}

pub(super) const SPIFFE: &str = "spiffe://";

impl FromStr for NamePattern {
    type Err = NamePatternError;

    fn from_str(text: &str) -> Result<Self, NamePatternError> {
        let wrong = || NamePatternError(text.to_owned());
        let is_plain =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
        if let Some(path) = text.strip_prefix(SPIFFE) {
            let (domain, _) = path.split_once('/').ok_or_else(wrong)?;
            let name = text.strip_suffix('*').filter(|name| name.ends_with('/'));
            if domain.is_empty() || !is_plain(name.unwrap_or(text)) {
                return Err(wrong());
            }
            return Ok(name.map_or_else(|| Self::Uri(text.to_owned()), |name| Self::Within(name.to_owned())));
        }
        if !is_plain(text) {
            return Err(wrong());
        }
        if text.contains("://") {
            return Ok(Self::Uri(text.to_owned()));
        }
        let is_host = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        if is_host { Ok(Self::Dns(text.to_owned())) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uris: &[&str], dns: &[&str]) -> Peer {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Peer::UNKNOWN.with_names(owned(uris), owned(dns))
    }

    fn is_of(pattern: &str, peer: &Peer) -> bool {
        pattern.parse::<NamePattern>().unwrap().is_of(peer)
    }

    #[test]
    fn a_name_is_of_those_that_have_it_and_of_no_longer_and_no_shorter_one() {
        let cart = peer(&["spiffe://shop/till/cart"], &["Cart.Shop"]);
        for (pattern, expected) in [
            ("spiffe://shop/till/cart", true),
            ("spiffe://shop/till/*", true),
            ("spiffe://shop/*", true),
            ("spiffe://shop/till/cart/*", false),
            ("spiffe://shop/til/*", false),
            ("spiffe://sho/*", false),
            ("spiffe://shop/till", false),
            ("spiffe://shop/till/cartel", false),
            ("cart.shop", true),
            ("shop", false),
        ] {
            assert_eq!(is_of(pattern, &cart), expected, "{pattern}");
        }
        assert!(is_of("https://shop/", &peer(&["https://shop/", "https://other/"], &[])));
        assert!(!is_of("spiffe://shop/a", &peer(&["spiffe://shop/a", "spiffe://shop/b"], &[])), "which of them is it?");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in [
            "",
            "*",
            "*.shop",
            "spiffe://",
            "spiffe://*",
            "spiffe://shop",
            "spiffe://s*/a",
            "spiffe://shop/a*",
            "a b",
            "a/b",
        ] {
            assert!(wrong.parse::<NamePattern>().is_err(), "{wrong}");
        }
    }
}
