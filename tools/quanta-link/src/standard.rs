//! The standard library that is linked: its machine code is used as it is, and what safety depends on must be in it.
//!
//! A job that waits suspends, because the standard library waits by the C library's `syscall`, which is led to the runtime.
//! Were there another way into the kernel, a worker would sleep on a lock whose owner it alone can run. And its
//! thread-locals are those that [`locals`](crate::locals) knows. Whatever else a release of Rust does is refused.

use crate::locals::{FOLLOW, STAY};
use crate::module::{is_within, path_of};
use crate::objects::{Symbols, members};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The functions in which it waits: parts of their mangled names, in this order.
const WAITS: [&[&str]; 6] = [
    &["5mutex5futex", "5Mutex14lock_contended"],
    &["6rwlock5futex", "6RwLock14read_contended"],
    &["6rwlock5futex", "6RwLock15write_contended"],
    &["7condvar5futex", "7Condvar4wait"],
    &["4once5futex", "4Once4wait"],
    &["6thread", "4park"],
];

const PLACES: &str = "
.section .text.__quanta_standard, \"ax\", @progbits
.globl __quanta_standard
.hidden __quanta_standard
.type __quanta_standard, @function
__quanta_standard:
xorl %eax, %eax
leaq __quanta_credit@tpoff(%rax), %rcx
leaq {id}@tpoff(%rax), %rdx
leaq {current}@tpoff(%rax), %rax
subq %rcx, %rdx
subq %rcx, %rax
ret
";

/// What was found of it.
#[derive(Debug, Default)]
pub(crate) struct Standard {
    path: PathBuf,
    /// The mangled names of its thread-locals.
    pub(crate) thread_locals: BTreeSet<String>,
    /// The functions that it takes from others.
    foreign: BTreeSet<String>,
    /// Its functions that call `syscall`.
    callers: BTreeSet<String>,
    /// Whether it is a library that is loaded.
    is_loaded: bool,
}

impl Standard {
    /// Looks for it in the linker's arguments. Programs without it have nothing of it.
    pub(crate) fn find(arguments: &[OsString]) -> Result<Self> {
        let named = |argument: &&OsString, extension: &str| {
            let path = Path::new(argument);
            let is_it = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("libstd-"));
            is_it && path.extension().is_some_and(|one| one == extension)
        };
        if let Some(path) = arguments.iter().find(|one| named(one, "rlib")) {
            return Self::read(Path::new(path)).with_context(|| format!("in {}", path.display()));
        }
        let loaded = arguments.iter().any(|one| named(&one, "so") || one.to_string_lossy().starts_with("-lstd-"));
        Ok(Self { is_loaded: loaded, ..Self::default() })
    }

    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).context("can't read it")?;
        let mut symbols = Symbols::default();
        for (_, data) in members(&bytes)?.context("it is an archive that only names files")? {
            symbols.add(data)?;
        }
        let Symbols { thread_locals, foreign, callers } = symbols;
        Ok(Self { path: path.to_path_buf(), thread_locals, foreign, callers, is_loaded: false })
    }

    /// A function that tells the runtime where `CURRENT` and `ID` are, from the thread's state on.
    pub(crate) fn places(&self) -> String {
        let named = |path| self.thread_locals.iter().find(|name| is_within(&path_of(name), path));
        let [Some(current), Some(id)] = STAY.map(named) else { return String::new() };
        PLACES.replace("{current}", current).replace("{id}", id)
    }

    /// Refuses one that has not all that the safety of preempted code depends on.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_loaded {
            bail!(
                "the standard library is linked as a library that is loaded, whose waits would hold up all jobs of a thread; \
                 leave out `-C prefer-dynamic`"
            );
        }
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        if let Some(lacking) = self.lacking() {
            bail!(
                "{} {lacking}, on which the safety of preempted code depends: use Rust 1.95, or a cargo quanta that was made \
                 for this release",
                self.path.display()
            );
        }
        Ok(())
    }

    fn lacking(&self) -> Option<String> {
        let calls =
            ["syscall", "sched_yield", "clock_nanosleep"].into_iter().find(|name| !self.foreign.contains(*name));
        if let Some(name) = calls {
            return Some(format!("doesn't call the C library's `{name}`"));
        }
        let waits = |parts: &[&str]| {
            self.callers.iter().any(|name| {
                let mut rest = Some(name.as_str());
                parts.iter().for_each(|part| rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest));
                rest.is_some()
            })
        };
        if let Some(parts) = WAITS.iter().find(|parts| !waits(parts)) {
            return Some(format!("has no function `{}` that waits by `syscall`", parts.join("...")));
        }
        let paths: Vec<_> = self.thread_locals.iter().map(|name| path_of(name)).collect();
        let known = FOLLOW.into_iter().chain(STAY).find(|known| !paths.iter().any(|path| is_within(path, known)));
        known.map(|known| format!("has no thread-local `{known}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The toolchain's own.
    fn own() -> Standard {
        let said = Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap().stdout;
        let folder = PathBuf::from(String::from_utf8(said).unwrap().trim());
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().into_os_string());
        Standard::find(&files.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_toolchains_own_has_what_safety_depends_on() {
        let own = own();
        own.check().unwrap();
        assert!(own.thread_locals.len() >= 9, "{:?}", own.thread_locals);
        assert!(own.places().contains("7current7CURRENT@tpoff") && own.places().contains("2id2ID@tpoff"));
    }

    #[test]
    fn one_that_waits_in_another_way_is_refused_by_the_name_of_what_it_lacks() {
        let lacking = |change: fn(&mut Standard)| {
            let mut own = own();
            change(&mut own);
            own.check().unwrap_err().to_string()
        };
        assert!(lacking(|own| _ = own.foreign.remove("syscall")).contains("`syscall`"));
        assert!(lacking(|own| _ = own.foreign.remove("sched_yield")).contains("`sched_yield`"));
        assert!(lacking(|own| _ = own.foreign.remove("clock_nanosleep")).contains("`clock_nanosleep`"));
        assert!(lacking(|own| own.callers.retain(|name| !name.contains("park"))).contains("park"));
        assert!(lacking(|own| own.callers.retain(|name| !name.contains("lock_contended"))).contains("lock_contended"));
        assert!(lacking(|own| own.thread_locals.retain(|name| !name.contains("CONTEXT"))).contains("CONTEXT"));
        assert!(lacking(|own| own.is_loaded = true).contains("prefer-dynamic"));
    }

    #[test]
    fn programs_without_it_are_linked() {
        Standard::find(&["-o".into(), "a".into()]).unwrap().check().unwrap();
    }
}
