//! Where a server is that is called over HTTP, and by what.
//!
//! All of it stands in the address, so that addresses can be compared with one another: `grpc-web+h2+https://shop.example`.

use std::fmt;

use http::Uri;

/// What is said over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Connect,
    GrpcWeb,
}

/// What messages are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Proto,
}

/// Which HTTP carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// A server, and how it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was written.
    text: String,
    pub(crate) protocol: Protocol,
    pub(crate) format: Format,
    /// `None`: what is agreed on within TLS.
    pub(crate) version: Option<Version>,
    pub(crate) secured: bool,
    /// A name or an IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The host, and the port if one was written.
    pub(crate) authority: String,
    /// What precedes the names of methods: empty, or `/api`.
    pub(crate) prefix: String,
}

const EXAMPLE: &str =
    "such as http://127.0.0.1:7000, https://shop.example or grpc-web+h2+https://shop.example:7000/api";

impl Address {
    /// Reads an address; `None`: it is none of HTTP.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        let (scheme, _) = text.split_once("://")?;
        let (words, carrier) =
            scheme.rsplit_once('+').map_or((None, scheme), |(words, carrier)| (Some(words), carrier));
        let secured = match carrier {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Some(Self::read(text, words, secured).map_err(|why| format!("`{text}`: {why}; {EXAMPLE}")))
    }

    fn read(text: &str, words: Option<&str>, secured: bool) -> Result<Self, String> {
        let [mut protocol, mut format, mut version] = [None; 3];
        for word in words.into_iter().flat_map(|words| words.split('+')) {
            let said = match word {
                "connect" | "grpc-web" => &mut protocol,
                "json" | "proto" => &mut format,
                "h1" | "h2" => &mut version,
                _ => return Err(format!("`{word}` is none of connect, grpc-web, json, proto, h1 and h2")),
            };
            if let Some(before) = said.replace(word) {
                return Err(format!("`{before}` and `{word}` can't both be"));
            }
        }
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let authority = uri.authority().ok_or("there is no host")?;
        if authority.as_str().contains('@') || uri.query().is_some() || authority.host().is_empty() {
            return Err("there is to be a host, a port perhaps, and a path perhaps".to_owned());
        }
        // What isn't a number is no port, but a part of the host.
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => None,
            _ => Some(authority.port_u16().filter(|port| *port > 0).ok_or("the port is no number from 1 to 65535")?),
        };
        let protocol = if protocol == Some("grpc-web") { Protocol::GrpcWeb } else { Protocol::Connect };
        let format = match (format, protocol) {
            (Some("proto"), _) | (None, Protocol::GrpcWeb) => Format::Proto,
            _ => Format::Json,
        };
        let version = match version {
            Some("h2") => Some(Version::Http2),
            None if secured => None,
            _ => Some(Version::Http1),
        };
        Ok(Self {
            text: text.to_owned(),
            protocol,
            format,
            version,
            secured,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: port.unwrap_or(if secured { 443 } else { 80 }),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// What it is called by, in words.
    pub(crate) fn spoken(&self) -> &'static str {
        match self.protocol {
            Protocol::Connect => "Connect",
            Protocol::GrpcWeb => "gRPC-Web",
        }
    }
}

/// As it was written.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        Address::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_plain_address_is_connect_with_json_over_http_1() {
        let address = read("http://127.0.0.1:7000");
        assert_eq!((address.protocol, address.format), (Protocol::Connect, Format::Json));
        assert_eq!((address.version, address.secured), (Some(Version::Http1), false));
        assert_eq!((&*address.host, address.port, &*address.prefix), ("127.0.0.1", 7000, ""));
        let secured = read("https://shop.example/api/");
        assert_eq!((secured.version, secured.secured, secured.port), (None, true, 443));
        assert_eq!((&*secured.authority, &*secured.prefix), ("shop.example", "/api"));
        assert_eq!((read("http://[::1]:7000").host.as_str(), read("http://a").port), ("::1", 80));
    }

    #[test]
    fn words_before_it_say_what_else() {
        let web = read("grpc-web+h2+https://shop.example:7000");
        assert_eq!((web.protocol, web.format, web.version), (Protocol::GrpcWeb, Format::Proto, Some(Version::Http2)));
        assert_eq!(read("json+grpc-web+http://a").format, Format::Json);
        assert_eq!(read("proto+http://a").format, Format::Proto);
        assert_eq!(read("connect+h1+https://a").version, Some(Version::Http1));
        assert_eq!(read("h2+http://a:1").to_string(), "h2+http://a:1");
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for (text, part) in [
            ("h3+http://a", "`h3` is none of connect"),
            ("h1+h2+http://a", "`h1` and `h2` can't both be"),
            ("+http://a", "none of"),
            ("http://", ""),
            ("http://a:0", "no number from 1 to 65535"),
            ("http://a:99999", "no number from 1 to 65535"),
            ("http://a:", "no number from 1 to 65535"),
            ("http://me@a", "there is to be a host"),
            ("http://a?b", "there is to be a host"),
            ("http://a b", ""),
        ] {
            let told = Address::parse(text).unwrap().unwrap_err();
            assert!(told.contains(part) && told.contains("such as http://127.0.0.1:7000"), "{told}");
        }
        assert!(["tcp://a", "httpx://a", "a:1"].iter().all(|other| Address::parse(other).is_none()));
    }
}
