//! Which threads are meant: those of a process, of a cgroup, of a virtual machine, or one.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::RawPid;

use super::Error;
use super::thread::{self, Thread};

/// Threads by what they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All threads of a process.
    Process(RawPid),
    /// One thread.
    Thread(RawPid),
    /// All threads of a cgroup v2 and of those below it, threaded ones as well. The path is absolute or below the place
    /// where cgroups are mounted.
    Cgroup(PathBuf),
    /// The vCPU threads of a QEMU.
    Vm(Vm),
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vm {
    /// What its QEMU was told that it is called: `-name NAME` or `-name guest=NAME`.
    Name(String),
    /// The number of its QEMU's process.
    Process(RawPid),
}

impl From<&str> for Vm {
    /// A number is that of a process.
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Process)
    }
}

impl Selection {
    /// The threads that there are now.
    pub(super) fn threads(&self) -> Result<Vec<Thread>, Error> {
        match self {
            Self::Process(process) => of_process(*process),
            Self::Thread(number) => {
                let found = thread::process_of(*number).and_then(|process| Thread::find(process, *number));
                found.map(|found| vec![found]).ok_or(Error::NoSuch { kind: "thread", number: *number })
            }
            Self::Cgroup(path) => of_cgroup(path),
            Self::Vm(vm) => {
                let process = match vm {
                    Vm::Process(process) => *process,
                    Vm::Name(name) => vm_called(name)?,
                };
                let mut threads = of_process(process)?;
                threads.retain(|thread| is_vcpu(&thread.name));
                if threads.is_empty() { Err(Error::NoVcpus { process }) } else { Ok(threads) }
            }
        }
    }
}

fn of_process(process: RawPid) -> Result<Vec<Thread>, Error> {
    let threads: Vec<_> = thread::of_process(process).collect();
    // `/proc` knows threads by their own numbers, too, and shows what their processes have.
    let is_process = process > 0 && thread::process_of(process) == Some(process);
    if threads.is_empty() || !is_process {
        return Err(Error::NoSuch { kind: "process", number: process });
    }
    Ok(threads)
}

/// The name that QEMU gives the thread that runs a virtual processor.
fn is_vcpu(name: &str) -> bool {
    let number = name.strip_prefix("CPU ").and_then(|rest| rest.split_once('/'));
    number.is_some_and(|(number, how)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && matches!(how, "KVM" | "TCG")
    })
}

fn vm_called(name: &str) -> Result<RawPid, Error> {
    let mut running = Vec::new();
    for process in thread::processes()? {
        let Ok(line) = fs::read(format!("/proc/{process}/cmdline")) else { continue };
        match vm_name(&line) {
            Some(found) if found == name => return Ok(process),
            Some(found) => running.push(found),
            None => {}
        }
    }
    running.sort_unstable();
    let running = if running.is_empty() { "none".into() } else { running.join(", ") };
    Err(Error::NoSuchVm { name: name.to_owned(), running })
}

/// The name of the machine in a QEMU's command line; none if it is none or has no name.
fn vm_name(line: &[u8]) -> Option<String> {
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let program = Path::new(words.first()?.as_ref()).file_name()?.to_str()?.to_owned();
    if !(program.starts_with("qemu") || program == "kvm") {
        return None;
    }
    let at = words.iter().position(|word| word == "-name" || word == "--name")?;
    // A name without a key may only come first.
    let parts: Vec<_> = words.get(at + 1)?.split(',').collect();
    let named = parts.iter().find_map(|part| part.strip_prefix("guest="));
    let name = named.or_else(|| parts.first().copied().filter(|part| !part.contains('=')))?;
    (!name.is_empty()).then(|| name.chars().filter(|char| !char.is_control()).collect())
}

fn of_cgroup(path: &Path) -> Result<Vec<Thread>, Error> {
    let mount = mount()?;
    let path =
        if path.starts_with(&mount) { path.to_owned() } else { mount.join(path.strip_prefix("/").unwrap_or(path)) };
    let refused = |source| Error::Cgroup { path: path.clone(), mount: mount.clone(), source };
    let mut numbers = HashSet::new();
    gather(&path, &mut numbers).map_err(refused)?;
    let mut waiting = below(&path);
    while let Some(folder) = waiting.pop() {
        // One that has been removed since has no threads.
        if gather(&folder, &mut numbers).is_ok() {
            waiting.extend(below(&folder));
        }
    }
    let found = |number: RawPid| Thread::find(thread::process_of(number)?, number);
    Ok(numbers.into_iter().filter_map(found).collect())
}

fn gather(folder: &Path, into: &mut HashSet<RawPid>) -> io::Result<()> {
    let text = fs::read_to_string(folder.join("cgroup.threads"))?;
    // Threads of another PID namespace are 0.
    into.extend(text.lines().filter_map(|line| line.parse::<RawPid>().ok()).filter(|number| *number > 0));
    Ok(())
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Where cgroups v2 are mounted, which may be beside those of the first version.
fn mount() -> Result<PathBuf, Error> {
    const PATH: &str = "/proc/self/mounts";
    let mounts = fs::read_to_string(PATH).map_err(|source| Error::Proc { path: PATH.into(), source })?;
    let mut places = mounts.lines().map(|line| line.split(' ')).filter_map(|mut words| {
        let place = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| PathBuf::from(place))
    });
    places.next().ok_or(Error::NoCgroups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpu_threads_are_known_by_the_names_that_qemu_gives_them() {
        for name in ["CPU 0/KVM", "CPU 127/KVM", "CPU 3/TCG"] {
            assert!(is_vcpu(name), "{name}");
        }
        for name in ["qemu-system-x86", "IO iothread1", "CPU /KVM", "CPU 0", "CPU x/KVM", "CPU 0/KVM2", "worker"] {
            assert!(!is_vcpu(name), "{name}");
        }
    }

    #[test]
    fn a_machines_name_stands_in_its_command_line_in_either_form() {
        for (line, name) in [
            ("/usr/bin/qemu-system-x86_64\0-name\0guest=web,debug-threads=on\0-S", Some("web")),
            ("qemu-kvm\0-m\0big\0-name\0web", Some("web")),
            ("qemu-kvm\0-name\0web,process=other", Some("web")),
            ("qemu-kvm\0-name\0process=other", None),
            ("qemu-kvm\0-name", None),
            ("less\0-name\0web", None),
            ("", None),
        ] {
            assert_eq!(vm_name(line.as_bytes()).as_deref(), name, "{line:?}");
        }
    }

    #[test]
    fn a_machine_is_named_by_its_name_or_its_number() {
        assert_eq!(Vm::from("web"), Vm::Name("web".into()));
        assert_eq!(Vm::from("4711"), Vm::Process(4711));
    }
}
