//! The names in a certificate.

/// The names that a peer has proved to have, by a certificate of an authority that is believed: its subject alternative names
/// (RFC 5280, 4.2.1.6). The common name is no name: it says nothing of what kind of a name it is.
///
/// At most 64 of each kind are kept, and none of more than 2048 bytes (the most that a SPIFFE ID may have).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// Those that are URIs, as SPIFFE has them: `spiffe://shop.example/cart`.
    pub uris: Vec<String>,
    /// Those that are names of hosts, which may be wildcards.
    pub dns: Vec<String>,
}

/// As many names of a kind are kept, and of this many bytes, at most.
#[cfg(feature = "tls")]
pub(super) const MOST: (usize, usize) = (64, 2048);

/// The names in a certificate that was checked.
#[cfg(feature = "tls")]
pub(super) fn names_of(certificate: &rustls::pki_types::CertificateDer<'_>) -> CertificateNames {
    fn kept<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
        names.filter(|name| name.len() <= MOST.1).take(MOST.0).map(str::to_owned).collect()
    }
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(own) => CertificateNames { uris: kept(own.valid_uri_names()), dns: kept(own.valid_dns_names()) },
        // Whoever checked it has read it too.
        Err(_) => CertificateNames::default(),
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};
    use rustls::pki_types::CertificateDer;

    fn names(names: Vec<SanType>) -> CertificateNames {
        let mut certificate = CertificateParams::new(Vec::new()).unwrap();
        certificate.subject_alt_names = names;
        let made = certificate.self_signed(&KeyPair::generate().unwrap()).unwrap();
        names_of(made.der())
    }

    #[test]
    fn uris_and_names_of_hosts_are_told_and_nothing_else() {
        let said = ["spiffe://shop/cart", "https://shop.example/"];
        let mut all: Vec<_> = said.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        all.push(SanType::DnsName("cart.shop.example".try_into().unwrap()));
        all.push(SanType::Rfc822Name("ada@shop.example".try_into().unwrap()));
        all.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let CertificateNames { uris, dns } = names(all);
        assert_eq!((uris, dns), (said.map(str::to_owned).to_vec(), vec!["cart.shop.example".to_owned()]));
    }

    #[test]
    fn how_many_names_are_kept_and_how_long_is_bounded() {
        let uri = |text: String| SanType::URI(text.try_into().unwrap());
        let many = names((0..100).map(|number| uri(format!("spiffe://shop/{number}"))).collect());
        assert_eq!(many.uris.len(), 64);
        let long = format!("spiffe://shop/{}", "x".repeat(2048));
        assert_eq!(names(vec![uri(long), uri("spiffe://shop/a".to_owned())]).uris, ["spiffe://shop/a"]);
    }

    proptest::proptest! {
        #[test]
        fn bytes_that_are_no_certificate_have_no_names(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(names_of(&CertificateDer::from(bytes)), CertificateNames::default());
        }
    }
}
