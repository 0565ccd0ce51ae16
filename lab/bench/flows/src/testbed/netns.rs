//! The namespaces of a testbed.

use std::process::{Child, Command};

use greenwave_bench::netns;
pub(super) use greenwave_bench::netns::{inhabitants, names};
use greenwave_bench::pin;

use super::{Problem, tool};

/// Whether there is one of this name.
pub(super) fn exists(name: &str) -> bool {
    netns::path(name).exists()
}

/// Removes namespaces, and first ends what still runs in them; none of them need exist.
pub(super) fn remove<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Problem> {
    let mut failed = Ok(());
    for name in names.into_iter().filter(|name| exists(name)) {
        netns::end_inhabitants(name);
        failed = failed.and(tool::ip(None, &[format!("netns delete {name}")]));
    }
    failed
}

/// Starts a process in a namespace, pinned to a core with all its threads if one is given.
///
/// Both are passed on by the thread that starts it, so no code has to run between fork and exec.
pub(super) fn spawn(name: &str, core: Option<usize>, command: &mut Command) -> Result<Child, Problem> {
    let cores = core.as_slice();
    let child = pin::with(cores, || within(name, || command.spawn()))
        .map_err(|why| Problem::Cores { name: name.to_owned(), why: format!("{why:#}") })?;
    let program = || command.get_program().to_string_lossy().into_owned();
    child?.map_err(|source| Problem::Start { program: program(), name: name.to_owned(), source })
}

/// Does something with the calling thread in a namespace, and comes back.
pub(super) fn within<T>(name: &str, job: impl FnOnce() -> T) -> Result<T, Problem> {
    netns::within(name, job).map_err(|source| Problem::Namespace { name: name.to_owned(), source })
}
