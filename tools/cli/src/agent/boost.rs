//! `greenwave agent boost`: threads that must answer on time get a short slice of the processor.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use greenwave_host::boost::{self, Memory, Report, Selection, Slice, ThreadStatus, Vm};

use crate::problem::Problem;

/// Give threads a short slice, so that they preempt those with a longer one when they wake
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Boost {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    which: Which,
    /// How long the slice is, 0.1 to 100 ms
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = slice)]
    slice: Slice,
    #[command(flatten)]
    remembered: Remembered,
}

#[derive(Subcommand)]
enum Command {
    Status(Status),
    Off(Off),
}

/// Show the threads that have a slice of their own, on the whole host or those selected
#[derive(Args)]
struct Status {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remembered: Remembered,
}

/// Put back what was before, for all that was boosted or for those selected
#[derive(Args)]
struct Off {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    remembered: Remembered,
}

#[derive(Args)]
#[group(multiple = false)]
struct Which {
    /// All threads of a process
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
    /// One thread
    #[arg(long, value_name = "TID")]
    tid: Option<i32>,
    /// All threads of a cgroup v2 and of those below it, such as system.slice/search.service
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// The virtual processors of a QEMU, by the machine's name or the process' number
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
}

#[derive(Args)]
struct Remembered {
    /// Where it is written down what threads had before [default: boost.json in /run/greenwave; in
    /// XDG_RUNTIME_DIR/greenwave if you aren't root]
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
}

const EXAMPLES: &str = "\
A thread with a short slice preempts one with a longer slice when it wakes; it gets no more of the processor than before.
Threads and processes that a boosted thread creates inherit the slice. Nice values, policies and flags stay as they are.
Your own threads need no privilege, others' need CAP_SYS_NICE. Linux 6.12 or later.

Examples:
  greenwave agent boost --pid 4711
  greenwave agent boost --cgroup system.slice/search.service --slice 100us
  greenwave agent boost --vm web
  greenwave agent boost status
  greenwave agent boost off --pid 4711";

impl Boost {
    /// Boosts, shows or undoes.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match self.command {
            Some(Command::Status(status)) => status.run(),
            Some(Command::Off(off)) => off.run(),
            None => {
                let which = self.which.selection().ok_or_else(|| {
                    Problem::wrong_use("nobody is named to be boosted").remedy("--pid, --tid, --cgroup or --vm")
                })?;
                let report = boost::boost(&which, self.slice, &self.remembered.memory()).map_err(failed)?;
                told(&report, &format!("boosted to {}", self.slice), "had that already")
            }
        }
    }
}

impl Status {
    fn run(&self) -> Result<(), Problem> {
        let threads = boost::status(self.which.selection().as_ref(), &self.remembered.memory()).map_err(failed)?;
        let default = boost::offered().map_err(failed)?.default;
        if self.json {
            let threads: Vec<_> = threads.iter().map(json).collect();
            show!("{}", serde_json::json!({ "default_slice_us": micros(default), "threads": threads }));
            return Ok(());
        }
        if threads.is_empty() {
            show!("no thread has a slice of its own; the kernel's is {default:?}");
            return Ok(());
        }
        show!("{:>8} {:>8} {:>10} {:>5} {:<8} {:<8} NAME", "PID", "TID", "SLICE", "NICE", "POLICY", "BY");
        for ThreadStatus { thread, slice, nice, policy, remembered } in &threads {
            let by = if *remembered { "boost" } else { "-" };
            let (process, number, name) = (thread.process, thread.thread, &thread.name);
            show!("{process:>8} {number:>8} {:>10} {nice:>5} {policy:<8} {by:<8} {name}", format!("{slice:?}"));
        }
        Ok(())
    }
}

impl Off {
    fn run(&self) -> Result<(), Problem> {
        let report = boost::off(self.which.selection().as_ref(), &self.remembered.memory()).map_err(failed)?;
        told(&report, "put back", "had the kernel's own already")
    }
}

impl Which {
    fn selection(&self) -> Option<Selection> {
        let process = self.pid.map(Selection::Process);
        let thread = || self.tid.map(Selection::Thread);
        let cgroup = || self.cgroup.clone().map(Selection::Cgroup);
        let vm = || self.vm.as_deref().map(|vm| Selection::Vm(Vm::from(vm)));
        process.or_else(thread).or_else(cgroup).or_else(vm)
    }
}

impl Remembered {
    fn memory(&self) -> Memory {
        self.memory.clone().map_or_else(Memory::usual, Memory::at)
    }
}

fn slice(text: &str) -> Result<Slice, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 200us or 1ms"))?;
    Slice::try_from(time).map_err(|error| error.to_string())
}

/// Says what became of the threads: how many were changed on standard output, what was not on standard error.
fn told(report: &Report, done: &str, before: &str) -> Result<(), Problem> {
    let Report { changed, already, other_policy, changed_since, denied, gone } = report;
    let mut said = vec![format!("{} {done}", counted(changed.len()))];
    if *already > 0 {
        said.push(format!("{already} {before}"));
    }
    if *gone > 0 {
        said.push(format!("{gone} ended meanwhile"));
    }
    show!("{}", said.join(", "));
    for (thread, policy) in other_policy {
        tell!("left alone: {} ({}) has the policy {policy}, where slices mean nothing", thread.thread, thread.name);
    }
    for thread in changed_since {
        tell!("left alone: {} ({}) was given another slice since", thread.thread, thread.name);
    }
    let Some(first) = denied.first() else { return Ok(()) };
    let owner = first.owner.map_or_else(|| "another user".to_owned(), |user| format!("user {user}"));
    let what = format!("{} could not be {done}: {}", counted(denied.len()), first.source);
    Err(Problem::failure(what)
        .at(format!("thread {} ({}) of {owner}", first.thread.thread, first.thread.name))
        .remedy("run it as that user, as root, or with CAP_SYS_NICE"))
}

fn counted(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

fn failed(error: boost::Error) -> Problem {
    match error {
        boost::Error::Slice(_) => Problem::wrong_use(error),
        _ => Problem::failure(error),
    }
}

fn json(status: &ThreadStatus) -> serde_json::Value {
    serde_json::json!({
        "process": status.thread.process,
        "thread": status.thread.thread,
        "name": status.thread.name,
        "slice_us": micros(status.slice),
        "nice": status.nice,
        "policy": status.policy.to_string(),
        "remembered": status.remembered,
    })
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
