//! What can go wrong, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use greenwave_policy::FlowRuleError;

/// Why the agent can't do what it was asked to. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The kernel doesn't let this process load or attach programs.
    #[error("the kernel refuses {what}: {cause}; run the agent as root, or with CAP_BPF and CAP_NET_ADMIN")]
    NotPermitted {
        /// What was refused.
        what: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
    /// No device was named.
    #[error("no device is named; name the host's side of each guest's, such as --dev tap0 or --dev 'veth*'")]
    NoDevice,
    /// There is no such device in this network namespace.
    #[error("there is no device `{0}` in this network namespace; see `ip link`")]
    UnknownDevice(String),
    /// Not the name of a device, nor a pattern of names.
    #[error("`{0}` is no name of a device: 1 to 15 characters, no slash and no space, and a * at the end at most")]
    DeviceName(String),
    /// A device is named for two purposes that exclude each other.
    #[error("device `{0}` is named twice; name each once")]
    NamedTwice(String),
    /// A device whose packets begin with neither an Ethernet nor an IP header.
    #[error(
        "device `{name}` has link type {kind}, and packets on it are not understood; name an Ethernet or tun device"
    )]
    LinkType {
        /// The device.
        name: String,
        /// Its type, as in `linux/if_arp.h`.
        kind: u16,
    },
    /// Another agent is at work there.
    #[error("another agent, process {pid}, is at work on `{device}`; end it first, or leave the device to it")]
    InUse {
        /// The device.
        device: String,
        /// The other agent; 0 if that isn't known.
        pid: u32,
    },
    /// The kernel has no hook for classifiers.
    #[error(
        "this kernel has no hook for a classifier on `{device}`: TCX: {tcx}; clsact: {clsact}; \
         needed is Linux 6.6, or one built with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF"
    )]
    NoHook {
        /// The device.
        device: String,
        /// Why not by TCX.
        tcx: String,
        /// Why not by clsact.
        clsact: String,
    },
    /// The kernel doesn't take the program.
    #[error("the kernel doesn't take the classifier: {0}; needed is Linux 5.12 or later with eBPF")]
    Program(String),
    /// The rule can't be meant.
    #[error(transparent)]
    Rule(#[from] FlowRuleError),
    /// A flow table that is too small or too large.
    #[error("flows: {0}; allowed are 256 to 4194304")]
    Flows(u32),
    /// A time that is too short or too long.
    #[error("idle: {0:?}; allowed are 1 s to 1 h, such as 30s")]
    Idle(std::time::Duration),
    /// Not a DSCP.
    #[error("`{0}` is no DSCP; allowed are ef, cs0 to cs7, af11 to af43, 0 to 63, and keep")]
    Dscp(String),
    /// Both bands would look alike.
    #[error("small and large flows would have the same DSCP; choose two, or `keep`")]
    SameDscp,
    /// The agent's own files can't be written or read.
    #[error("can't use {path}: {cause}; run as root, or name another folder with --state")]
    State {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The address for metrics can't be had.
    #[error("can't serve metrics at {address}: {cause}; name another address with --metrics")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// No agent runs in this network namespace.
    #[error("no agent runs in this network namespace; to start one: greenwave agent --dev DEVICE")]
    NotRunning,
    /// An agent is there and doesn't answer as it should.
    #[error("the agent at {path} doesn't answer: {cause}; end it, then `greenwave agent off`")]
    Silent {
        /// Its socket.
        path: PathBuf,
        /// What went wrong.
        cause: io::Error,
    },
    /// The system refuses something that every agent needs.
    #[error("the system refuses {what}: {cause}; the agent can't do without")]
    System {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
}

impl AgentError {
    /// What the system refused: for lack of a permission, or for another reason.
    pub(super) fn refused(what: &'static str, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { what, cause },
            _ => Self::System { what, cause },
        }
    }
}
