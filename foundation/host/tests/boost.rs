//! Boosting, on real threads: which ones are meant, what they inherit, and what is put back.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use greenwave_host::boost::{Error, Memory, Selection, Slice, Vm, boost, off, offered, status};
use rustix::thread::gettid;

/// A thread that does what it's told to, and ends with this.
struct Worker {
    thread: i32,
    orders: Sender<Box<dyn FnOnce() + Send>>,
    end: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(name: &str) -> Self {
        let ((orders, given), (tell, told)) = (channel::<Box<dyn FnOnce() + Send>>(), channel());
        let thread = std::thread::Builder::new().name(name.into());
        let end = thread.spawn(move || {
            tell.send(gettid().as_raw_nonzero().get()).unwrap();
            given.into_iter().for_each(|order| order());
        });
        Self { thread: told.recv().unwrap(), orders, end: Some(end.unwrap()) }
    }

    /// A thread that this one starts.
    fn child(&self) -> Self {
        let (tell, told): (_, Receiver<Self>) = channel();
        self.orders.send(Box::new(move || tell.send(Self::start("child")).unwrap())).unwrap();
        told.recv().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = channel().0;
        let _whatever_it_did = self.end.take().map(JoinHandle::join);
    }
}

/// A memory of a test's own, so that tests don't undo each other's boosts.
fn memory() -> (tempfile::TempDir, Memory) {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::at(folder.path().join("boost.json"));
    (folder, memory)
}

fn slice_of(thread: i32, memory: &Memory) -> Option<Duration> {
    Some(status(Some(&Selection::Thread(thread)), memory).unwrap().first()?.slice)
}

/// Where the kernel has no slices of a thread's own, it says so, and there is nothing else to show.
fn supported() -> bool {
    match offered() {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            eprintln!("passed over: {error}");
            false
        }
    }
}

/// All threads here are of one process, and what one test boosts isn't another's to look at.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHORT: Slice = Slice::SHORT;

#[test]
fn one_thread_of_many_is_boosted_and_what_it_creates_inherits_until_both_are_put_back() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let (_folder, memory) = memory();
    let (boosted, other) = (Worker::start("boosted"), Worker::start("other"));
    let report = boost(&Selection::Thread(boosted.thread), SHORT, &memory).unwrap();
    assert_eq!((report.changed.len(), report.changed[0].name.as_str()), (1, "boosted"));
    let child = boosted.child();
    for (thread, slice) in [(&boosted, Some(SHORT)), (&child, Some(SHORT)), (&other, None)] {
        assert_eq!(slice_of(thread.thread, &memory), slice.map(Slice::duration));
    }
    let report = off(None, &memory).unwrap();
    let mut back: Vec<_> = report.changed.iter().map(|it| it.name.as_str()).collect();
    back.sort_unstable();
    assert_eq!(back, ["boosted", "child"]);
    assert_eq!((slice_of(boosted.thread, &memory), slice_of(child.thread, &memory)), (None, None));
}

#[test]
fn what_inherits_from_a_thread_that_has_ended_is_put_back_all_the_same() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let (_folder, memory) = memory();
    let parent = Worker::start("parent");
    boost(&Selection::Thread(parent.thread), SHORT, &memory).unwrap();
    let child = parent.child();
    drop(parent);
    // Another boost is written down meanwhile.
    let other = Worker::start("other");
    boost(&Selection::Thread(other.thread), SHORT, &memory).unwrap();
    off(None, &memory).unwrap();
    assert_eq!(slice_of(child.thread, &memory), None);
}

#[test]
fn a_slice_that_a_thread_had_before_comes_back_and_one_that_it_was_given_since_stays() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let slice = |micros| Slice::try_from(Duration::from_micros(micros)).unwrap();
    let ((_folder, ours), (_other_folder, others)) = (memory(), memory());
    let (has, gets) = (Worker::start("has"), Worker::start("gets"));
    boost(&Selection::Thread(has.thread), slice(3000), &others).unwrap();
    for thread in [&has, &gets] {
        boost(&Selection::Thread(thread.thread), SHORT, &ours).unwrap();
    }
    boost(&Selection::Thread(gets.thread), slice(5000), &others).unwrap();
    let report = off(None, &ours).unwrap();
    assert_eq!(slice_of(has.thread, &ours), Some(Duration::from_micros(3000)));
    assert_eq!(slice_of(gets.thread, &ours), Some(Duration::from_micros(5000)));
    assert_eq!((report.changed.len(), report.changed_since.len()), (1, 1));
    off(Some(&Selection::Thread(gets.thread)), &ours).unwrap();
    assert_eq!(slice_of(gets.thread, &ours), None, "whoever names a thread means it");
}

#[test]
fn virtual_processors_are_the_threads_with_their_names_and_no_others() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let (_folder, memory) = memory();
    let (vcpus, helper) = (["CPU 0/KVM", "CPU 1/KVM"].map(Worker::start), Worker::start("IO iothread"));
    let here = std::process::id() as i32;
    let report = boost(&Selection::Vm(Vm::Process(here)), SHORT, &memory).unwrap();
    let boosted: Vec<_> = report.changed.iter().map(|it| it.thread).collect();
    assert!(vcpus.iter().all(|it| boosted.contains(&it.thread)) && boosted.len() == 2, "{boosted:?}");
    assert_eq!(slice_of(helper.thread, &memory), None);
    off(None, &memory).unwrap();
}

#[test]
fn a_machine_is_found_by_its_name_and_told_apart_from_one_without_threads_of_that_kind() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let (_folder, memory) = memory();
    let name = format!("guest=test-{},debug-threads=on", std::process::id());
    let mut shell = Command::new("sh")
        .arg0("qemu-system-none")
        .args(["-c", "read word", "sh", "-name", &name])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let by_name = Selection::Vm(Vm::from(format!("test-{}", std::process::id()).as_str()));
    let refused = boost(&by_name, SHORT, &memory).unwrap_err();
    assert!(matches!(refused, Error::NoVcpus { process } if process == shell.id() as i32), "{refused}");
    let other = boost(&Selection::Vm(Vm::from("no-such")), SHORT, &memory).unwrap_err().to_string();
    assert!(other.contains(&format!("test-{}", std::process::id())), "{other}");
    drop(shell.stdin.take());
    shell.wait().unwrap();
}

/// A cgroup of a test's own, with one below that has threads of its own; none where one can't be made.
struct Groups {
    outer: PathBuf,
    threaded: PathBuf,
}

impl Groups {
    fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = words.find(|words| words.get(2) == Some(&"cgroup2"))?[1].to_owned();
        let outer = Path::new(&mount).join(format!("greenwave-test-{}", std::process::id()));
        let groups = Self { threaded: outer.join("threads"), outer };
        fs::create_dir(&groups.outer).ok()?;
        fs::create_dir(&groups.threaded).ok()?;
        fs::write(groups.threaded.join("cgroup.type"), "threaded").ok()?;
        Some(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir(&self.threaded).and_then(|()| fs::remove_dir(&self.outer));
    }
}

#[test]
fn a_cgroup_is_all_threads_in_it_and_below_even_where_those_of_a_process_are_apart() {
    let (_folder, memory) = memory();
    let Some(groups) = Groups::make() else {
        eprintln!("passed over: no cgroup can be made here; it takes root");
        return;
    };
    let _alone = alone();
    if !supported() {
        return;
    }
    let mut shell = Command::new("sh").args(["-c", "read word"]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = shell.id() as i32;
    fs::write(groups.outer.join("cgroup.procs"), pid.to_string()).unwrap();
    fs::write(groups.threaded.join("cgroup.threads"), pid.to_string()).unwrap();
    for path in [groups.outer.clone(), Path::new("/").join(groups.outer.file_name().unwrap())] {
        let report = boost(&Selection::Cgroup(path.clone()), SHORT, &memory).unwrap();
        let boosted: Vec<_> = report.changed.iter().map(|it| it.thread).collect();
        assert_eq!(boosted, [pid]);
        off(Some(&Selection::Cgroup(path)), &memory).unwrap();
        assert_eq!(slice_of(pid, &memory), None);
    }
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // An empty one is no error: a service may be about to start.
    assert!(boost(&Selection::Cgroup(groups.outer.clone()), SHORT, &memory).unwrap().changed.is_empty());
}

#[test]
fn a_process_that_creates_threads_all_the_while_is_boosted_to_the_last_one() {
    let _alone = alone();
    if !supported() {
        return;
    }
    let (_folder, memory) = memory();
    let (parent, stop) = (Worker::start("parent"), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let create = move || {
        while !stopped.load(Ordering::Acquire) {
            drop(Worker::start("brief"));
        }
    };
    parent.orders.send(Box::new(create)).unwrap();
    boost(&Selection::Process(std::process::id() as i32), SHORT, &memory).unwrap();
    stop.store(true, Ordering::Release);
    let child = parent.child();
    for worker in [&parent, &child] {
        assert_eq!(slice_of(worker.thread, &memory), Some(SHORT.duration()));
    }
    off(None, &memory).unwrap();
    let left = status(Some(&Selection::Process(std::process::id() as i32)), &memory).unwrap();
    assert!(left.is_empty(), "{left:?}");
}
