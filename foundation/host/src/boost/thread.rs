//! Threads of this host, as `/proc` shows them.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, RawPid};

use super::attributes::Attributes;
use super::{Error, Memory, Policy, Selection, offered};

/// A thread that was there when it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The number of its process.
    pub process: RawPid,
    /// Its own number.
    pub thread: RawPid,
    /// What it calls itself. It may be anything.
    pub name: String,
    /// When it began, in the kernel's ticks since the machine did. With its number it names one thread and no other.
    pub(super) started: u64,
    /// Whether it is one of the kernel's own.
    kernel: bool,
}

/// A thread with a slice of its own.
#[derive(Clone, Debug)]
pub struct ThreadStatus {
    /// Which.
    pub thread: Thread,
    /// Its slice.
    pub slice: Duration,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// Its policy, which is one that has slices.
    pub policy: Policy,
    /// Whether [`boost`](super::boost) gave it the slice; not if it inherited it, or has it from elsewhere.
    pub remembered: bool,
}

/// The threads that have a slice other than the kernel's own, of a selection or on the whole host.
///
/// # Errors
/// If the selection is of nothing, the kernel has no such slices, or what was remembered can't be read.
pub fn status(selection: Option<&Selection>, memory: &Memory) -> Result<Vec<ThreadStatus>, Error> {
    let kernel = offered()?;
    let book = memory.read()?;
    let mut found = Vec::new();
    let mut look = |thread: Thread| {
        let Ok(attributes) = thread.attributes() else { return };
        let has_slice = matches!(attributes.policy(), Policy::Other | Policy::Batch) && attributes.slice() != 0;
        if has_slice && !kernel.is_default(attributes.slice()) {
            found.push(ThreadStatus {
                slice: Duration::from_nanos(attributes.slice()),
                nice: attributes.nice(),
                policy: attributes.policy(),
                remembered: book.of(&thread).is_some(),
                thread,
            });
        }
    };
    match selection {
        Some(selection) => selection.threads()?.into_iter().for_each(look),
        // The kernel's own threads that have slept since it counted its processors have a slice from before.
        None => processes()?.flat_map(of_process).filter(|thread| !thread.kernel).for_each(&mut look),
    }
    Ok(found)
}

impl Thread {
    /// The thread of this number in a process, if there is one.
    pub(super) fn find(process: RawPid, thread: RawPid) -> Option<Self> {
        let Stat { name, started, kernel, .. } = Stat::read(&format!("/proc/{process}/task/{thread}/stat"))?;
        Some(Self { process, thread, name, started, kernel })
    }

    pub(super) fn attributes(&self) -> io::Result<Attributes> {
        Attributes::of(pid(self.thread).ok_or(Errno::SRCH)?)
    }

    pub(super) fn apply(&self, attributes: &Attributes) -> io::Result<()> {
        attributes.apply(pid(self.thread).ok_or(Errno::SRCH)?)
    }
}

/// A thread's or a process' number as the system's calls take it.
fn pid(number: RawPid) -> Option<Pid> {
    if number > 0 { Pid::from_raw(number) } else { None }
}

/// The numbers of all processes.
pub(super) fn processes() -> Result<impl Iterator<Item = RawPid>, Error> {
    let listed = fs::read_dir("/proc").map_err(|source| Error::Proc { path: "/proc".into(), source })?;
    Ok(numbers(listed))
}

/// The threads of a process; none if it is gone.
pub(super) fn of_process(process: RawPid) -> impl Iterator<Item = Thread> {
    let listed = fs::read_dir(format!("/proc/{process}/task")).into_iter();
    listed.flat_map(numbers).filter_map(move |thread| Thread::find(process, thread))
}

/// The process that a thread belongs to.
pub(super) fn process_of(thread: RawPid) -> Option<RawPid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// In the flags of a thread: it is one of the kernel's own (`include/linux/sched.h`).
const PF_KTHREAD: u32 = 0x0020_0000;

/// What is needed of a `stat` file of a process or a thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) parent: RawPid,
    pub(super) started: u64,
    kernel: bool,
}

impl Stat {
    /// That of a process.
    pub(super) fn of_process(process: RawPid) -> Option<Self> {
        Self::read(&format!("/proc/{process}/stat"))
    }

    fn read(path: &str) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&fs::read(path).ok()?))
    }

    /// `proc_pid_stat(5)`. The name stands in parentheses and may have any itself, so the last one counts.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
        let mut fields = after.split_whitespace();
        // The state is the third field, the parent the fourth, the flags the ninth, the start the 22nd.
        let parent = fields.nth(1)?.parse().ok()?;
        let flags: u32 = fields.nth(4)?.parse().ok()?;
        let started = fields.nth(12)?.parse().ok()?;
        Some(Self { name, parent, started, kernel: flags & PF_KTHREAD != 0 })
    }
}

fn numbers(listed: fs::ReadDir) -> impl Iterator<Item = RawPid> {
    listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_may_look_like_what_follows_it() {
        let rest = "S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8128 4096 1 0";
        let expected = Stat { name: "a) R 1 (b?".into(), parent: 7, started: 8128, kernel: false };
        assert_eq!(Stat::parse(&format!("42 (a) R 1 (b\n) {rest}")), Some(expected));
    }

    #[test]
    fn the_thread_that_runs_this_is_found_with_its_process() {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        let process = process_of(me).unwrap();
        assert_eq!(process, std::process::id() as RawPid);
        let found = Thread::find(process, me).unwrap();
        assert!(of_process(process).any(|thread| thread == found) && processes().unwrap().any(|it| it == process));
        assert_eq!(Thread::find(process, 0), None);
    }

    proptest! {
        #[test]
        fn whatever_a_stat_file_says_it_is_parsed_or_refused(text in ".*") {
            let _parsed_or_not = Stat::parse(&text);
        }
    }
}
