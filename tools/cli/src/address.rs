//! Addresses as people write them on a command line.

use std::net::{IpAddr, ToSocketAddrs};

use greenwave::{Address, Target};

/// A server as it was written: where it is, and what it was called.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: Address,
    /// The host's name, if it was written by name.
    pub(crate) host: Option<String>,
}

/// Reads where one server is, or several that can answer the same calls. `tcp://` may be left out.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let is_bare = !text.contains("://") && text.contains(':');
    let whole = if is_bare { format!("tcp://{text}") } else { text.to_owned() };
    if cfg!(feature = "resolver") || text.contains(',') {
        return whole.parse::<Target>().map_err(|error| error.to_string());
    }
    parse(text).map(Target::from)
}

/// Reads where a server is.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    let address = parse(text)?;
    let host = text.rsplit('/').next().and_then(|authority| authority.rsplit_once(':')).map(|(host, _)| host);
    let named = address.socket().and(host);
    let host = named.filter(|host| !host.starts_with('[') && host.parse::<IpAddr>().is_err());
    Ok(Place { address, host: host.map(str::to_owned) })
}

/// Reads an address. The host of a TCP address, or of one of gRPC, may be a name, and `tcp://` may be left out.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    let refused = match text.parse() {
        Ok(address) => return Ok(address),
        Err(error) => error,
    };
    let (host, made): (_, fn(_) -> _) = match text.split_once("://") {
        Some(("tcp", host)) => (host, Address::Tcp),
        Some(("grpc", host)) => (host, Address::Grpc),
        Some(("grpcs", host)) => (host, Address::Grpcs),
        None if text.contains(':') => (text, Address::Tcp),
        // Memory is for tests: no other process can be reached there.
        _ => {
            return Err(refused
                .to_string()
                .replace(", unix:///run/shop.sock or memory://shop", " or unix:///run/shop.sock"));
        }
    };
    let mut found = host.to_socket_addrs().map_err(|error| format!("can't find {host}: {error}"))?;
    found.next().map(made).ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_a_tcp_address_may_be_left_out() {
        assert_eq!(parse("127.0.0.1:7100").unwrap().to_string(), "tcp://127.0.0.1:7100");
        assert_eq!(parse("tcp://[::1]:1").unwrap().to_string(), "tcp://[::1]:1");
    }

    #[test]
    fn several_servers_are_a_list_and_the_scheme_may_be_left_out_there_too() {
        let listed = target("127.0.0.1:7100,127.0.0.2:7100").unwrap();
        assert_eq!(listed.to_string(), "tcp://127.0.0.1:7100,tcp://127.0.0.2:7100");
        assert_eq!(target("127.0.0.1:7100").unwrap().to_string(), "tcp://127.0.0.1:7100");
        assert!(target("7100").unwrap_err().contains("tcp://"));
        #[cfg(feature = "resolver")]
        assert_eq!(target("localhost:7100").unwrap().name(), Some("localhost"));
    }

    #[test]
    fn a_host_may_have_a_name() {
        assert!(matches!(parse("tcp://localhost:7100"), Ok(Address::Tcp(found)) if found.ip().is_loopback()));
    }

    #[test]
    fn a_host_s_name_is_kept_and_an_address_is_none() {
        for (text, host) in [
            ("localhost:7100", Some("localhost")),
            ("tcp://localhost:7100", Some("localhost")),
            ("grpcs://localhost:7100", Some("localhost")),
            ("tcp://127.0.0.1:7100", None),
            ("tcp://[::1]:7100", None),
            ("unix:///tmp/a:b", None),
        ] {
            assert_eq!(place(text).unwrap().host.as_deref(), host, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in ["", "7100", "http://127.0.0.1:80"] {
            assert!(parse(text).unwrap_err().contains("tcp://127.0.0.1:7000"), "{text}");
        }
    }
}
