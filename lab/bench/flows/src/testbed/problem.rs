//! What goes wrong with namespaces, links and queues.

use std::io;
use std::path::PathBuf;

/// Why the testbed can't do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Namespaces, links and queues are made by root alone.
    #[error("network namespaces can't be made by user {user}; run it as root")]
    NotRoot {
        /// Who tried.
        user: u32,
    },
    /// There is no such program.
    #[error("`{tool}` can't be run ({source}); install iproute2")]
    Tool {
        /// Its name.
        tool: String,
        /// What was wrong.
        source: io::Error,
    },
    /// `ip` or `tc` refused.
    #[error(
        "`{command}` failed: {said}; the kernel needs namespaces, veth, bridge and HTB, and root needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Refused {
        /// As one would type it; of a batch, its lines.
        command: String,
        /// What it printed.
        said: String,
    },
    /// A namespace can't be entered or left.
    #[error("namespace {name} can't be entered: {source}; bring the testbed up again")]
    Namespace {
        /// Its name.
        name: String,
        /// What was wrong.
        source: io::Error,
    },
    /// A process can't be pinned to its core.
    #[error("nothing can be started in {name}: {why}")]
    Cores {
        /// The namespace.
        name: String,
        /// What was wrong.
        why: String,
    },
    /// The kernel doesn't turn a feature of a device on.
    #[error("{device} can't have {feature} ({source}); Linux has it from 5.13 on, with CONFIG_ETHTOOL_NETLINK")]
    Feature {
        /// In its namespace.
        device: String,
        /// By the kernel's name.
        feature: &'static str,
        /// What was wrong.
        source: io::Error,
    },
    /// There is no place for files.
    #[error("{folder} can't be made: {source}", folder = folder.display())]
    Folder {
        /// Where.
        folder: PathBuf,
        /// What was wrong.
        source: io::Error,
    },
    /// A process in a namespace can't be started.
    #[error("{program} can't be started in {name}: {source}")]
    Start {
        /// What was to run.
        program: String,
        /// Where.
        name: String,
        /// What was wrong.
        source: io::Error,
    },
    /// There is one already.
    #[error("{name} is up already; take it down first: `greenwave-flows testbed down --name {name}`")]
    IsUp {
        /// Its name.
        name: String,
    },
    /// A name that would clash with others, or that the kernel won't have.
    #[error("`{name}` can't be the name of a testbed; use up to 12 lower case letters and digits, a letter first")]
    Name {
        /// What was asked for.
        name: String,
    },
}
