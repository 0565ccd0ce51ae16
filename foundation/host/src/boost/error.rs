//! Why threads could not be boosted, or what was done could not be undone.

use std::io;
use std::path::PathBuf;

use rustix::process::RawPid;

use super::SliceOutOfRange;

/// Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The slice can't be.
    #[error(transparent)]
    Slice(#[from] SliceOutOfRange),
    /// The kernel doesn't let a thread have a slice of its own: it was set, and what was read back is another one.
    #[error("this kernel gives threads no slice of their own ({found}); Linux 6.12 or later does")]
    Unsupported {
        /// What was seen.
        found: String,
    },
    /// There is no such process or thread.
    #[error("there is no {kind} {number}; see `ps -eLf`")]
    NoSuch {
        /// A process or a thread.
        kind: &'static str,
        /// Its number.
        number: RawPid,
    },
    /// The cgroup can't be read.
    #[error("no cgroup v2 at {}: {source}; name a folder below {}, such as system.slice/search.service", .path.display(), .mount.display())]
    Cgroup {
        /// Where it was looked for.
        path: PathBuf,
        /// Where cgroups v2 are mounted.
        mount: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There are no cgroups of version 2.
    #[error("no file system of type cgroup2 is mounted; select threads by --pid or --tid")]
    NoCgroups,
    /// No running QEMU has this name.
    #[error("no QEMU process is called `{name}`; running are: {running}; a process can be named by its number, too")]
    NoSuchVm {
        /// The name.
        name: String,
        /// Those that are.
        running: String,
    },
    /// The process has no thread that is called like a vCPU.
    #[error(
        "process {process} has no thread called `CPU n/KVM`; is it a QEMU? its threads have names if it was started \
         with -name NAME,debug-threads=on; or select them by --tid"
    )]
    NoVcpus {
        /// The process.
        process: RawPid,
    },
    /// `/proc` is not what it should be.
    #[error("can't read {path}: {source}; is /proc mounted?")]
    Proc {
        /// Which file of it.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was before can't be written down, or what was written can't be read, so it could not be undone.
    #[error("can't remember what was before in {}: {source}; name another file with --memory", .path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
