//! Boosting, and what undoes it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::RawPid;

use super::attributes::Attributes;
use super::memory::{Memory, Note, Open};
use super::support::Offered;
use super::thread::{self, Stat, Thread};
use super::{Error, Policy, Selection, Slice, offered};

/// What became of the threads that were meant.
#[derive(Debug, Default)]
pub struct Report {
    /// Those that have another slice now.
    pub changed: Vec<Thread>,
    /// How many had it already.
    pub already: usize,
    /// Those that were left alone, as their policy has no slices, or none that preempt.
    pub other_policy: Vec<(Thread, Policy)>,
    /// Those that were left alone by [`off`], as they have been given yet another slice since.
    pub changed_since: Vec<Thread>,
    /// Those that the system refused to change.
    pub denied: Vec<Denied>,
    /// How many ended meanwhile.
    pub gone: usize,
}

/// A thread that could not be changed. Those of others need CAP_SYS_NICE.
#[derive(Debug)]
pub struct Denied {
    /// Which.
    pub thread: Thread,
    /// The user whose process it is.
    pub owner: Option<u32>,
    /// What the system said.
    pub source: io::Error,
}

/// No process makes threads so quickly that the last ones inherit nothing after so many looks.
const LOOKS: usize = 64;

/// Gives the selected threads a slice. Threads that they create inherit it.
///
/// What one thread is refused doesn't keep the others from getting it: see [`Report::denied`].
///
/// # Errors
/// If nothing is selected, the kernel can't do it, or what was before can't be written down; no thread is changed then.
pub fn boost(selection: &Selection, slice: Slice, memory: &Memory) -> Result<Report, Error> {
    let kernel = offered()?;
    let mut threads = selection.threads()?;
    let mut memory = memory.open()?;
    let mut report = Report::default();
    let mut seen = HashSet::new();
    // A thread that was created while others were looked at may have inherited from one that was still to come.
    for _ in 0..LOOKS {
        threads.retain(|thread| seen.insert((thread.thread, thread.started)));
        if threads.is_empty() {
            break;
        }
        boost_these(threads, slice, kernel, &mut memory, &mut report)?;
        threads = selection.threads().unwrap_or_default();
    }
    Ok(report)
}

fn boost_these(
    threads: Vec<Thread>,
    slice: Slice,
    kernel: Offered,
    memory: &mut Open<'_>,
    report: &mut Report,
) -> Result<(), Error> {
    let mut due = Vec::new();
    for thread in threads {
        let Some(attributes) = look(&thread, report) else { continue };
        if attributes.policy() != Policy::Other {
            report.other_policy.push((thread, attributes.policy()));
        } else if attributes.slice() == slice.nanos() {
            report.already += 1;
        } else {
            let before = if kernel.is_default(attributes.slice()) { 0 } else { attributes.slice() };
            memory.book.note(&thread, before, slice.nanos());
            due.push((thread, attributes));
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    memory.save()?;
    let denied = report.denied.len();
    for (thread, attributes) in due {
        set(thread, attributes, slice.nanos(), report);
    }
    for Denied { thread, .. } in &report.denied[denied..] {
        memory.book.forget(thread);
    }
    if report.denied.len() > denied { memory.save() } else { Ok(()) }
}

/// Puts back what was before [`boost`]: for the selected threads, or for all that were boosted and all that they and
/// their processes have created since. A selected thread of which nothing is known gets the kernel's own slice.
///
/// # Errors
/// If nothing is selected, the kernel has no such slices, or the memory can't be read or written.
pub fn off(selection: Option<&Selection>, memory: &Memory) -> Result<Report, Error> {
    let kernel = offered()?;
    let mut memory = memory.open()?;
    let mut report = Report::default();
    let mut seen = HashSet::new();
    let mut done = Vec::new();
    for round in 0..LOOKS {
        let parents = parents()?;
        let boosted = memory.book.processes();
        let threads = match selection {
            Some(selection) if round == 0 => selection.threads()?,
            Some(selection) => selection.threads().unwrap_or_default(),
            None => related(&boosted, &parents),
        };
        let new: Vec<_> = threads.into_iter().filter(|it| seen.insert((it.thread, it.started))).collect();
        if new.is_empty() {
            break;
        }
        for thread in new {
            let relatives = relatives(thread.process, &boosted, &parents);
            put_back(&thread, relatives, selection.is_some(), kernel, &memory, &mut report);
            done.push(thread);
        }
    }
    // What is refused is still to be put back.
    let denied: HashSet<_> = report.denied.iter().map(|it| (it.thread.thread, it.thread.started)).collect();
    match selection {
        Some(_) => {
            done.retain(|thread| !denied.contains(&(thread.thread, thread.started)));
            done.iter().for_each(|thread| memory.book.forget(thread));
        }
        None => memory.book.forget_all_but(&denied),
    }
    memory.save()?;
    Ok(report)
}

/// Gives one thread what it had, if it still has what it was given.
fn put_back(
    thread: &Thread,
    relatives: &[Note],
    selected: bool,
    kernel: Offered,
    memory: &Open<'_>,
    report: &mut Report,
) {
    let Some(attributes) = look(thread, report) else { return };
    let note = memory.book.of(thread).copied();
    let has = attributes.slice();
    if attributes.policy() != Policy::Other {
        if note.is_some() || selected {
            report.other_policy.push((thread.clone(), attributes.policy()));
        }
        return;
    }
    let relative = relatives.iter().find(|it| it.is_inherited(thread, has));
    let before = match (note, relative) {
        (Some(note), _) if note.set == has => note.before,
        (None, Some(relative)) => relative.before,
        _ if kernel.is_default(has) => return report.already += 1,
        (Some(_), _) => return report.changed_since.push(thread.clone()),
        (None, _) if selected => 0,
        (None, _) => return,
    };
    set(thread.clone(), attributes, before, report);
}

/// What a thread has; if it is still there.
fn look(thread: &Thread, report: &mut Report) -> Option<Attributes> {
    match thread.attributes() {
        Ok(attributes) => Some(attributes),
        Err(error) if is_gone(&error) => {
            report.gone += 1;
            None
        }
        Err(source) => {
            report.denied.push(Denied { owner: owner(thread), thread: thread.clone(), source });
            None
        }
    }
}

fn set(thread: Thread, attributes: Attributes, nanos: u64, report: &mut Report) {
    match thread.apply(&attributes.with_slice(nanos)) {
        Ok(()) => report.changed.push(thread),
        Err(error) if is_gone(&error) => report.gone += 1,
        Err(source) => report.denied.push(Denied { owner: owner(&thread), thread, source }),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn owner(thread: &Thread) -> Option<u32> {
    fs::metadata(format!("/proc/{}", thread.process)).ok().map(|it| it.uid())
}

/// Every process with its parent.
fn parents() -> Result<HashMap<RawPid, RawPid>, Error> {
    Ok(thread::processes()?.filter_map(|process| Some((process, Stat::of_process(process)?.parent))).collect())
}

/// The threads of boosted processes, and of those that they have created.
fn related(boosted: &Boosted, parents: &HashMap<RawPid, RawPid>) -> Vec<Thread> {
    let theirs = parents.keys().filter(|process| !relatives(**process, boosted, parents).is_empty());
    theirs.flat_map(|process| thread::of_process(*process)).collect()
}

/// What was done to threads of this process, or of the nearest one above it.
fn relatives<'a>(process: RawPid, boosted: &'a Boosted, parents: &HashMap<RawPid, RawPid>) -> &'a [Note] {
    let mut process = process;
    // Numbers are used again while this is read, so that there might be a circle.
    for _ in 0..=parents.len() {
        if let Some(notes) = boosted.get(&process) {
            return notes;
        }
        let Some(parent) = parents.get(&process) else { break };
        process = *parent;
    }
    &[]
}

/// What was done to the threads of each process.
type Boosted = HashMap<RawPid, Vec<Note>>;
