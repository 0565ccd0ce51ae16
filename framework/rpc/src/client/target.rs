//! Where a channel leads: an address, several of them, or a name that stands for them.

use greenwave_verbs::Address;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Where a channel leads.
///
/// | text | what it stands for |
/// |---|---|
/// | `tcp://10.0.0.1:7000`, `unix:///run/kv.sock`, any other [`Address`] | that address |
/// | `tcp://10.0.0.1:7000,10.0.0.2:7000` | these addresses |
/// | `greenwave://kv.example:7000`, `tcp://kv.example:7000` | the name's addresses, A or AAAA, at this port |
/// | `greenwave://kv.example` | the targets and ports of its SRV records, `_greenwave._tcp.kv.example` |
/// | `greenwave://_rpc._tcp.kv.example` | those of the SRV records of just this name |
/// | `grpc://10.0.0.1:7000`, `grpc://kv.example:7000`, `grpcs://kv.example:443` | servers of gRPC, without and with TLS: an address or a list, the name's addresses, or without a port the targets of `_grpc._tcp.kv.example` |
/// | `dns:///kv.example:7000`, `dns://10.0.0.53/kv.example:7000` | the same, as gRPC writes it; asked of this DNS server |
///
/// An IPv6 address stands in brackets: `tcp://[::1]:7000`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Address(Address),
    /// At least two.
    Addresses(Vec<Address>),
    Name(Name),
}

impl Kind {
    /// Those that are known without a question.
    pub(super) fn addresses(&self) -> &[Address] {
        match self {
            Self::Address(address) => std::slice::from_ref(address),
            Self::Addresses(addresses) => addresses,
            Self::Name(_) => &[],
        }
    }
}

/// A name to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    /// As it was written.
    pub(super) host: String,
    /// `None`: the records say it, they are SRV records.
    pub(super) port: Option<u16>,
    /// The DNS server to be asked; `None`: those of the system.
    pub(super) server: Option<SocketAddr>,
    /// What its servers speak.
    pub(super) protocol: Protocol,
}

/// What the servers of a name speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    Greenwave,
    Grpc,
    Grpcs,
}

impl Protocol {
    /// A server of it at this socket.
    pub(super) fn at(self, socket: SocketAddr) -> Address {
        match self {
            Self::Greenwave => Address::Tcp(socket),
            Self::Grpc => Address::Grpc(socket),
            Self::Grpcs => Address::Grpcs(socket),
        }
    }

    /// The scheme of names.
    fn scheme(self) -> &'static str {
        match self {
            Self::Greenwave => "greenwave",
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
        }
    }
}

/// So many servers a channel has at most.
pub(super) const SERVERS_MOST: usize = 256;
/// A name's bytes and a label's (RFC 1035, section 2.3.4), as text without the last dot.
const NAME_MOST: usize = 253;
const LABEL_MOST: usize = 63;
const DNS_PORT: u16 = 53;

impl Target {
    pub(super) fn kind(&self) -> &Kind {
        &self.0
    }

    /// The address, if it is one alone.
    pub fn address(&self) -> Option<&Address> {
        match &self.0 {
            Kind::Address(address) => Some(address),
            Kind::Addresses(_) | Kind::Name(_) => None,
        }
    }

    /// Whether all that is there speaks gRPC.
    pub(super) fn is_all_grpc(&self) -> bool {
        match &self.0 {
            Kind::Name(_) => self.is_grpc(),
            addresses => addresses.addresses().iter().all(Address::is_grpc),
        }
    }

    /// Whether what is there speaks gRPC.
    pub fn is_grpc(&self) -> bool {
        match &self.0 {
            Kind::Name(name) => name.protocol != Protocol::Greenwave,
            addresses => addresses.addresses().iter().any(Address::is_grpc),
        }
    }

    /// What a server of gRPC is asked for by, where that is a name: the name and its port, if it has one.
    pub(super) fn authority(&self) -> Option<String> {
        let Kind::Name(Name { host, port, .. }) = &self.0 else { return None };
        let host = host.trim_end_matches('.');
        Some(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }

    /// The name, if it is one: what a certificate of its servers would be for.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Name(name) => Some(name.host.trim_end_matches('.')),
            Kind::Address(_) | Kind::Addresses(_) => None,
        }
    }

    /// Several addresses, 1 to 256, of servers that can answer the same calls.
    ///
    /// # Errors
    /// None, or too many.
    pub fn addresses(addresses: impl Into<Vec<Address>>) -> Result<Self, ParseTargetError> {
        let mut addresses: Vec<Address> = addresses.into();
        let mut seen = std::collections::HashSet::new();
        addresses.retain(|address| seen.insert(address.clone()));
        let refuse = |reason| Err(ParseTargetError { text: format!("{} addresses", seen.len()), reason });
        match addresses.len() {
            0 => refuse("no address is none to lead to; give at least one"),
            1 => Ok(Self(Kind::Address(addresses.remove(0)))),
            2..=SERVERS_MOST => Ok(Self(Kind::Addresses(addresses))),
            _ => refuse("there are more than 256 addresses; put the servers behind several names"),
        }
    }
}

impl From<Address> for Target {
    fn from(address: Address) -> Self {
        Self(Kind::Address(address))
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || text[..text.floor_char_boundary(300)].to_owned();
        parse(text).map_err(|reason| ParseTargetError { text: shown(), reason })
    }
}

fn parse(text: &str) -> Result<Target, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or(
        "there is no scheme; write tcp://10.0.0.1:7000, \
         greenwave://kv.example:7000 or unix:///run/kv.sock",
    )?;
    let is_list = match scheme {
        "tcp" | "greenwave" | "grpc" | "grpcs" => rest.contains(','),
        _ => rest.split(',').skip(1).any(|part| part.contains("://")),
    };
    if is_list {
        let part = |part: &str| match part.contains("://") {
            true => parse(part),
            false => parse(&format!("{scheme}://{part}")),
        };
        let address = |text| match part(text)?.0 {
            Kind::Address(address) => Ok(address),
            _ => Err("a list holds addresses, not names; give a name alone, or its addresses"),
        };
        // One more than may be, so that too many are noticed.
        let parts: Result<Vec<Address>, _> = text.split(',').take(SERVERS_MOST + 1).map(address).collect();
        let parts = parts?;
        return Target::addresses(parts).map_err(|error| error.reason);
    }
    match scheme {
        "greenwave" | "tcp" => {
            let kind = place(rest, None, Protocol::Greenwave)?;
            let srv = matches!(&kind, Kind::Name(Name { port: None, .. }));
            match scheme == "tcp" && srv {
                true => Err("there is no port; write tcp://NAME:7000, or greenwave://NAME if SRV records say it"),
                false => Ok(Target(kind)),
            }
        }
        "grpc" => place(rest, None, Protocol::Grpc).map(Target),
        "grpcs" => place(rest, None, Protocol::Grpcs).map(Target),
        "dns" => {
            let (server, name) = rest.split_once('/').ok_or(
                "after dns:// comes a DNS server or nothing, then / and \
                 the name: dns:///kv.example:7000",
            )?;
            let server = match server {
                "" => None,
                _ => Some(dns_server(server).ok_or(
                    "the DNS server is no IP address, or one and a port; write \
                     dns://10.0.0.53/kv.example:7000",
                )?),
            };
            place(name, server, Protocol::Greenwave).map(Target)
        }
        _ => {
            let wrong = "it is no address; write tcp://10.0.0.1:7000, greenwave://kv.example:7000, \
                 unix:///run/kv.sock, memory://kv or fabric://10.0.0.1:7000";
            text.parse().map(|address| Target(Kind::Address(address))).map_err(|_| wrong)
        }
    }
}

fn dns_server(text: &str) -> Option<SocketAddr> {
    let ip = || text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    text.parse().ok().or_else(|| Some(SocketAddr::new(ip().ok()?, DNS_PORT))).filter(|server| server.port() != 0)
}

/// What stands behind the scheme: an IP address and a port, or a name with or without one.
fn place(rest: &str, server: Option<SocketAddr>, protocol: Protocol) -> Result<Kind, &'static str> {
    const PORT_0: &str = "no server listens at port 0; give the port that it listens at, 1 to 65535";
    if let Ok(socket) = rest.parse::<SocketAddr>() {
        return if socket.port() == 0 { Err(PORT_0) } else { Ok(Kind::Address(protocol.at(socket))) };
    }
    if rest.parse::<IpAddr>().is_ok() || rest.starts_with('[') {
        return Err("an IP address needs a port, and if it is of IPv6 brackets: 10.0.0.1:7000, [::1]:7000");
    }
    let (host, port) = match rest.split_once(':') {
        Some((_, port)) if port.contains(':') => return Err("an IPv6 address stands in brackets: [::1]:7000"),
        Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| "the port is no number from 1 to 65535")?)),
        None => (rest, None),
    };
    check_name(host)?;
    match port {
        Some(0) => Err(PORT_0),
        Some(_) if host.starts_with('_') => {
            Err("the SRV records of a name that begins with _ say the port; leave it out")
        }
        _ => Ok(Kind::Name(Name { host: host.to_owned(), port, server, protocol })),
    }
}

fn check_name(host: &str) -> Result<(), &'static str> {
    let labels = host.strip_suffix('.').unwrap_or(host);
    if labels.is_empty() {
        return Err("there is no name");
    }
    if labels.len() > NAME_MOST {
        return Err("the name has more than 253 bytes");
    }
    for label in labels.split('.') {
        if !(1..=LABEL_MOST).contains(&label.len()) {
            return Err("each part of a name between dots has 1 to 63 bytes");
        }
        if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(
                "a name is of letters, digits, - and _ ; write other letters in their form that begins with xn--",
            );
        }
    }
    let last = labels.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the last part is a number, so it is no name, and no IP address either; write 10.0.0.1:7000");
    }
    Ok(())
}

#[cfg(any(test, feature = "resolver"))]
impl Name {
    /// The name whose SRV records are asked for; `None` if it is addresses that are asked for.
    pub(super) fn srv(&self) -> Option<String> {
        let own = self.host.starts_with('_');
        self.port
            .is_none()
            .then(|| if own { self.host.clone() } else { format!("_{}._tcp.{}", self.protocol.srv(), self.host) })
    }
}

#[cfg(any(test, feature = "resolver"))]
impl Protocol {
    /// The service whose SRV records are asked for (RFC 2782).
    fn srv(self) -> &'static str {
        match self {
            Self::Greenwave => "greenwave",
            Self::Grpc | Self::Grpcs => "grpc",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Address(address) => address.fmt(f),
            Kind::Addresses(addresses) => addresses.iter().enumerate().try_for_each(|(at, address)| match at {
                0 => address.fmt(f),
                _ => write!(f, ",{address}"),
            }),
            Kind::Name(Name { host, port, server, protocol }) => {
                match server {
                    Some(server) => write!(f, "dns://{server}/{host}")?,
                    None => write!(f, "{}://{host}", protocol.scheme())?,
                }
                port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
        }
    }
}

/// A text that is no [`Target`], or addresses that make none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is nowhere to call: {reason}")]
pub struct ParseTargetError {
    text: String,
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_target_reads_back_as_it_was_written() {
        for text in [
            "tcp://10.0.0.1:7000",
            "tcp://[::1]:7000",
            "unix:///run/kv,1.sock",
            "memory://kv",
            "fabric+shm://kv",
            "tcp://10.0.0.1:7000,tcp://[::1]:7000",
            "unix:///a.sock,unix:///b.sock",
            "greenwave://kv.example:7000",
            "greenwave://kv.example",
            "greenwave://kv",
            "greenwave://_rpc._tcp.kv.default.svc.cluster.local.",
            "dns://10.0.0.53:53/kv.example:7000",
            "grpc://10.0.0.1:7000",
            "grpc://10.0.0.1:7000,grpc://[::1]:7000",
            "grpcs://kv.example:443",
            "grpc://kv.example",
        ] {
            assert_eq!(target(text).to_string(), text);
        }
    }

    #[test]
    fn what_means_the_same_is_the_same() {
        for (one, other) in [
            ("tcp://kv.example:7000", "greenwave://kv.example:7000"),
            ("dns:///kv.example:7000", "greenwave://kv.example:7000"),
            ("dns://10.0.0.53/kv", "dns://10.0.0.53:53/kv"),
            ("dns://[::1]/kv", "dns://[::1]:53/kv"),
            ("greenwave://10.0.0.1:7000", "tcp://10.0.0.1:7000"),
            ("tcp://10.0.0.1:7000,10.0.0.2:7000,10.0.0.1:7000", "tcp://10.0.0.1:7000,tcp://10.0.0.2:7000"),
            ("tcp://10.0.0.1:7000,10.0.0.1:7000", "tcp://10.0.0.1:7000"),
        ] {
            assert_eq!(target(one), target(other));
        }
    }

    #[test]
    fn srv_records_are_asked_for_where_there_is_no_port() {
        let srv = |text: &str| match target(text).0 {
            Kind::Name(name) => name.srv(),
            other => panic!("{other:?}"),
        };
        assert_eq!(srv("grpc://kv.example").as_deref(), Some("_grpc._tcp.kv.example"));
        assert_eq!(srv("greenwave://kv.example:7000"), None);
        assert_eq!(srv("greenwave://kv.example").as_deref(), Some("_greenwave._tcp.kv.example"));
        assert_eq!(srv("dns:///_rpc._tcp.kv").as_deref(), Some("_rpc._tcp.kv"));
    }

    #[test]
    fn what_is_no_target_is_refused_with_a_reason_and_a_remedy() {
        let long = format!("greenwave://{}:1", vec!["abcdefghi"; 26].join("."));
        let label = format!("greenwave://{}.example:1", "x".repeat(64));
        let many =
            format!("tcp://{}", (0..300).map(|port| format!("10.0.0.1:{}", port + 1)).collect::<Vec<_>>().join(","));
        for (text, reason) in [
            ("kv.example:7000", "no scheme"),
            ("http://kv.example:80", "no address"),
            ("tcp://kv.example", "no port"),
            ("tcp://kv.example:0", "port 0"),
            ("tcp://10.0.0.1:0", "port 0"),
            ("greenwave://kv.example:70000", "1 to 65535"),
            ("greenwave://kv.example:", "1 to 65535"),
            ("greenwave://::1:7000", "brackets"),
            ("greenwave://::1", "brackets"),
            ("greenwave://[::1]", "needs a port"),
            ("greenwave://[::1]]:7", "needs a port"),
            ("greenwave://10.0.0.1", "needs a port"),
            ("tcp://10.0.0.256:7000", "a number"),
            ("greenwave://", "no name"),
            ("greenwave://.", "no name"),
            ("greenwave://a..b:1", "1 to 63"),
            ("greenwave://k v:1", "letters"),
            ("greenwave://bücher.example:1", "xn--"),
            ("greenwave://_rpc._tcp.kv:7000", "leave it out"),
            ("dns://kv.example:7000", "dns:///"),
            ("dns://resolver/kv.example:7000", "no IP address"),
            ("tcp://10.0.0.1:7000,kv.example:7000", "not names"),
            ("tcp://10.0.0.1:7000,", "no name"),
            (&long, "253"),
            (&label, "1 to 63"),
            (&many, "more than 256"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.len() < 500);
        }
        assert!(Target::addresses([]).unwrap_err().to_string().contains("at least one"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_that_reads_back_or_is_refused(text in "(tcp|dns|greenwave|unix)://[a-z0-9_.:,/\\[\\]é-]{0,40}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }
    }
}
