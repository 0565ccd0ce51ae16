//! What can carry connections: io_uring, epoll, libfabric.

use greenwave::{Choice, VerbsError};
use greenwave_verbs::{QueueConfig, open};

use super::finding::Finding;
use super::machine::Machine;

/// Why a completion queue can't be had.
pub(super) struct Refusal {
    said: String,
    /// What to do about it, if that has nothing to do with the kind of queue.
    remedy: Option<String>,
}

impl From<VerbsError> for Refusal {
    fn from(error: VerbsError) -> Self {
        match error {
            VerbsError::Descriptors { doing, remedy, source } => {
                Self { said: format!("{doing}: {source}"), remedy: Some(remedy) }
            }
            VerbsError::Unavailable { source, .. } => Self { said: source.to_string(), remedy: None },
            other => Self { said: other.to_string(), remedy: None },
        }
    }
}

#[cfg(test)]
impl From<&str> for Refusal {
    fn from(said: &str) -> Self {
        Self { said: said.into(), remedy: None }
    }
}

impl Refusal {
    fn remedy(&self, otherwise: &str) -> String {
        self.remedy.clone().unwrap_or_else(|| otherwise.into())
    }
}

/// What came of opening a completion queue of each kind.
pub(super) struct Opened {
    uring: Result<(), Refusal>,
    epoll: Result<(), Refusal>,
}

impl Opened {
    /// Tries it.
    pub(super) fn here() -> Self {
        let attempt = |backend| {
            let config = QueueConfig { backend, ..QueueConfig::default() };
            open(&config).map(drop).map_err(Refusal::from)
        };
        Self { uring: attempt(Choice::Uring), epoll: attempt(Choice::Epoll) }
    }

    /// Whether a server can run.
    pub(super) fn any(&self) -> bool {
        self.uring.is_ok() || self.epoll.is_ok()
    }
}

#[cfg(test)]
impl Default for Opened {
    fn default() -> Self {
        Self { uring: Err("not tried".into()), epoll: Err("not tried".into()) }
    }
}

pub(super) fn findings(machine: &Machine, opened: &Opened) -> Vec<Finding> {
    vec![uring(machine, &opened.uring), epoll(&opened.epoll), fabric(machine)]
}

fn uring(machine: &Machine, opened: &Result<(), Refusal>) -> Finding {
    const NAME: &str = "io_uring";
    const SLOWER: &str = "connections go over epoll: a read for each connection that has something";
    let disabled = machine.number("/proc/sys/kernel/io_uring_disabled").unwrap_or(0);
    let kernel = machine.kernel();
    match opened {
        // Buffer rings and receives that go on by themselves are asked for when a queue is opened.
        Ok(()) if kernel.is_some_and(|kernel| kernel < (6, 1)) => Finding::limited(
            NAME,
            "works, with provided buffer rings and multishot receives, without deferred task runs",
            "the kernel interrupts the polling thread for completions",
            "Linux 6.1 or later",
        ),
        Ok(()) => Finding::ok(NAME, "works, with provided buffer rings, multishot receives and deferred task runs"),
        Err(Refusal { said, remedy: Some(remedy) }) => Finding::missing(NAME, said, SLOWER, remedy),
        Err(Refusal { said, .. }) if disabled == 2 => {
            Finding::missing(NAME, said, SLOWER, "sysctl kernel.io_uring_disabled=0, which is 2: nobody may use it")
        }
        Err(Refusal { said, .. }) if disabled == 1 => Finding::missing(
            NAME,
            said,
            SLOWER,
            "sysctl kernel.io_uring_disabled=0, which is 1: only CAP_SYS_ADMIN and the group of kernel.io_uring_group may",
        ),
        Err(Refusal { said, .. }) if kernel.is_some_and(|kernel| kernel < (6, 0)) => {
            Finding::missing(NAME, said, SLOWER, "Linux 6.0 or later, better 6.1")
        }
        Err(Refusal { said, .. }) => {
            Finding::missing(NAME, said, SLOWER, "if this is a container, allow io_uring in its seccomp profile")
        }
    }
}

fn epoll(opened: &Result<(), Refusal>) -> Finding {
    match opened {
        Ok(()) => Finding::ok("epoll", "works; what clients that share a connection use in any case"),
        Err(error) => Finding::missing(
            "epoll",
            &error.said,
            "channels that threads share can't be had",
            error.remedy("in a container, allow epoll and eventfd in its seccomp profile"),
        ),
    }
}

/// Whether this binary was built with the backend over libfabric. The backend's crate feature belongs here.
const FABRIC_COMPILED_IN: bool = cfg!(feature = "fabric");

fn fabric(machine: &Machine) -> Finding {
    const NAME: &str = "libfabric";
    const LOST: &str = "no shared memory between processes, no RDMA: connections go over sockets";
    match (FABRIC_COMPILED_IN, library(machine)) {
        (true, Some(found)) => Finding::ok(NAME, format!("{found}; {}", providers(machine))),
        (true, None) => {
            Finding::missing(NAME, "no libfabric.so.1", LOST, "install it, such as with apt install libfabric1")
        }
        (false, Some(found)) => {
            let found = format!("{found}, which this binary doesn't use; {}", providers(machine));
            Finding::missing(
                NAME,
                found,
                LOST,
                "cargo install greenwave-cli --features fabric, with libfabric-dev installed",
            )
        }
        (false, None) => {
            Finding::missing(NAME, "not in this binary, no libfabric.so.1", LOST, "none needed for sockets")
        }
    }
}

const LIBRARY: &str = "libfabric.so.1";
const FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/local/lib",
    "/opt/amazon/efa/lib64",
];

/// Where the library is, without loading it.
fn library(machine: &Machine) -> Option<String> {
    let paths = FOLDERS.map(|folder| format!("{folder}/{LIBRARY}"));
    paths.into_iter().find(|path| machine.exists(path)).or_else(|| {
        let cache = machine.bytes("/etc/ld.so.cache")?;
        let cached = cache.windows(LIBRARY.len()).any(|window| window == LIBRARY.as_bytes());
        cached.then(|| format!("{LIBRARY}, known to the loader"))
    })
}

/// The providers that are libraries of their own; those within libfabric are for the backend to ask.
fn providers(machine: &Machine) -> String {
    let files = FOLDERS.iter().flat_map(|folder| machine.names(&format!("{folder}/libfabric")));
    let providers: Vec<String> =
        files.filter_map(|name| Some(name.strip_prefix("lib")?.strip_suffix("-fi.so")?.to_owned())).collect();
    if providers.is_empty() { "no separate providers".into() } else { format!("providers {}", providers.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::machine::with as machine;
    use super::*;

    #[test]
    fn what_forbids_io_uring_is_named() {
        let refused = Err("not permitted".into());
        for (disabled, kernel, remedy) in [
            ("2\n", "6.8.0", "nobody"),
            ("1\n", "6.8.0", "io_uring_group"),
            ("0", "5.15.0", "6.0"),
            ("0", "6.8.0", "seccomp"),
        ] {
            let files = [("proc/sys/kernel/io_uring_disabled", disabled), ("proc/sys/kernel/osrelease", kernel)];
            let (_root, machine) = machine(&files);
            let found = uring(&machine, &refused);
            assert_eq!(found.status, Status::Missing);
            assert!(found.remedy.as_ref().unwrap().contains(remedy), "{found}");
        }
    }

    #[test]
    fn a_kernel_without_deferred_task_runs_is_a_limit() {
        let (_root, machine) = machine(&[("proc/sys/kernel/osrelease", "6.0.12")]);
        assert_eq!(uring(&machine, &Ok(())).status, Status::Limited);
    }

    #[test]
    fn libfabric_is_found_in_folders_and_in_the_loaders_cache() {
        let (_root, none) = machine(&[]);
        assert_eq!(library(&none), None);
        let (_root, cached) = machine(&[("etc/ld.so.cache", "\0x\0libfabric.so.1\0/opt/\0")]);
        assert!(library(&cached).unwrap().contains("loader"));
        let files = [("usr/lib64/libfabric.so.1", ""), ("usr/lib64/libfabric/libefa-fi.so", "")];
        let (_root, there) = machine(&files);
        assert_eq!(library(&there).unwrap(), "/usr/lib64/libfabric.so.1");
        assert_eq!(providers(&there), "providers efa");
    }
}
