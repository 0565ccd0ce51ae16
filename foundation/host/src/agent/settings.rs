//! What the agent is asked to do.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use greenwave_policy::FlowRule;
use greenwave_policy::flow::Pace;

use super::error::AgentError;

/// What the agent is to do. The default names no device.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host's side of guests' devices: all that guests send is tagged.
    pub guests: Vec<DeviceName>,
    /// Devices by which the host itself sends: what no guest's device has tagged is tagged there.
    pub uplinks: Vec<DeviceName>,
    /// Devices on which tagged packets arrive: their priority on this host follows from their DSCP.
    pub trusted: Vec<DeviceName>,
    /// What makes a flow small.
    pub rule: FlowRule,
    /// What makes two packets one flow's.
    pub key: FlowKey,
    /// How many flows are known at most; those that were quiet for longest give way. About 160 bytes each.
    pub flows: u32,
    /// After which pause a flow is forgotten.
    pub idle: Duration,
    /// The tag of small flows.
    pub small: Dscp,
    /// The tag of large flows.
    pub large: Dscp,
    /// By which hook of the kernel.
    pub hook: Hook,
    /// Where metrics are served, as Prometheus reads them.
    pub metrics: Option<SocketAddr>,
    /// Where the agent keeps its socket and notes of what it changed.
    pub state: PathBuf,
}

impl Settings {
    /// Where agents keep their sockets and notes, unless they are told otherwise.
    pub const STATE: &str = "/run/greenwave/agent";

    /// Checks what can be checked before anything is done.
    pub(super) fn check(&self) -> Result<Pace, AgentError> {
        let pace = self.rule.pace()?;
        if !(256..=4_194_304).contains(&self.flows) {
            return Err(AgentError::Flows(self.flows));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.idle) {
            return Err(AgentError::Idle(self.idle));
        }
        if self.small == self.large && self.small != Dscp::KEEP {
            return Err(AgentError::SameDscp);
        }
        let named: Vec<_> = self.guests.iter().chain(&self.uplinks).chain(&self.trusted).collect();
        if named.is_empty() {
            return Err(AgentError::NoDevice);
        }
        let twice = named.iter().enumerate().find(|(at, name)| named[..*at].contains(name));
        twice.map_or(Ok(pace), |(_, name)| Err(AgentError::NamedTwice(name.to_string())))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            guests: Vec::new(),
            uplinks: Vec::new(),
            trusted: Vec::new(),
            rule: FlowRule::default(),
            key: FlowKey::Pair,
            flows: 65_536,
            idle: Duration::from_secs(30),
            small: Dscp::EF,
            large: Dscp::CS1,
            hook: Hook::Any,
            metrics: None,
            state: Self::STATE.into(),
        }
    }
}

/// What makes two packets one flow's. Packets of two guests never are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowKey {
    /// Source and target address, as in the paper.
    #[default]
    Pair,
    /// Addresses, protocol and ports: connections are judged one by one.
    FiveTuple,
}

/// By which hook of the kernel the classifier is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// TCX where the kernel has it, else clsact.
    #[default]
    Any,
    /// TCX (Linux 6.6): ends with the agent, however it ends.
    Tcx,
    /// A filter below the queueing discipline `clsact`: `tc` shows it, and if the agent is killed it stays until the
    /// next one starts or `agent off`.
    Clsact,
}

/// The name of a device, or a pattern of names: `veth*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName(String);

impl DeviceName {
    /// The beginning of the names, if it is a pattern.
    pub(super) fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('*')
    }

    /// The name, or the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DeviceName {
    type Err = AgentError;

    fn from_str(text: &str) -> Result<Self, AgentError> {
        let fixed = text.strip_suffix('*').unwrap_or(text);
        let odd = |it: char| it == '/' || it == '*' || it == ':' || it.is_whitespace() || it.is_control();
        let fits = fixed.len() < libc::IFNAMSIZ && !text.is_empty() && fixed != "." && fixed != "..";
        if !fits || fixed.contains(odd) {
            return Err(AgentError::DeviceName(text.chars().take(40).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tag in the IP header (RFC 2474), or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(Option<u8>);

impl Dscp {
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(Some(46));
    /// Class selector 1, once for what gives way to all else (RFC 3662).
    pub const CS1: Self = Self(Some(8));
    /// Packets keep what they have.
    pub const KEEP: Self = Self(None);

    /// Its place in the header's byte, if there is one.
    pub(super) fn byte(self) -> Option<u8> {
        self.0.map(|dscp| dscp << 2)
    }
}

impl FromStr for Dscp {
    type Err = AgentError;

    fn from_str(text: &str) -> Result<Self, AgentError> {
        let name = text.to_ascii_lowercase();
        let digits = |prefix: &str| name.strip_prefix(prefix).map(str::as_bytes);
        let number = match (name.as_str(), digits("cs"), digits("af")) {
            ("keep", ..) => return Ok(Self::KEEP),
            ("ef", ..) => Some(46),
            ("be", ..) => Some(0),
            (_, Some([class @ b'0'..=b'7']), _) => Some((class - b'0') << 3),
            (_, _, Some([class @ b'1'..=b'4', drop @ b'1'..=b'3'])) => Some((class - b'0') << 3 | (drop - b'0') << 1),
            _ => name.parse().ok().filter(|number| *number < 64),
        };
        number.map(|number| Self(Some(number))).ok_or_else(|| AgentError::Dscp(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_name_or_the_beginning_of_names() {
        for text in ["tap0", "veth*", "*", "a2345678901234*", "br-lan.7", "a23456789012345"] {
            assert_eq!(text.parse::<DeviceName>().unwrap().to_string(), text);
        }
        for text in ["", "a/b", "a b", "a*b", "**", "a234567890123456", ".", "..", "a\0", "eth0:1"] {
            let error = text.parse::<DeviceName>().unwrap_err();
            assert!(matches!(error, AgentError::DeviceName(_)), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_dscp_has_names_and_numbers() {
        for (text, byte) in [
            ("ef", Some(0xb8)),
            ("EF", Some(0xb8)),
            ("cs1", Some(0x20)),
            ("cs7", Some(0xe0)),
            ("af11", Some(0x28)),
            ("af43", Some(0x98)),
            ("0", Some(0)),
            ("63", Some(0xfc)),
            ("keep", None),
        ] {
            assert_eq!(text.parse::<Dscp>().unwrap().byte(), byte, "{text}");
        }
        for text in ["", "64", "-1", "cs8", "cs", "af14", "af51", "af1", "af111", "256", "ff"] {
            assert!(matches!(text.parse::<Dscp>(), Err(AgentError::Dscp(_))), "{text:?}");
        }
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused_before_anything_is_done() {
        let good = Settings { guests: vec!["tap0".parse().unwrap()], ..Settings::default() };
        assert!(good.check().is_ok());
        let say = |settings: Settings| settings.check().unwrap_err().to_string();
        let rule = FlowRule { rate: 1, ..FlowRule::default() };
        assert!(say(Settings { rule, ..good.clone() }).starts_with("rate: 1 bit/s; allowed are"));
        let rule = FlowRule { burst: 0, ..FlowRule::default() };
        assert!(say(Settings { rule, ..good.clone() }).starts_with("burst: 0 bytes; allowed are"));
        assert!(say(Settings { flows: 1, ..good.clone() }).starts_with("flows: 1; allowed are"));
        assert!(say(Settings { idle: Duration::ZERO, ..good.clone() }).starts_with("idle: 0ns; allowed are"));
        assert!(say(Settings { large: Dscp::EF, ..good.clone() }).contains("the same DSCP"));
        assert!(say(Settings { uplinks: good.guests.clone(), ..good.clone() }).contains("named twice"));
        assert!(say(Settings::default()).starts_with("no device is named"));
    }
}
