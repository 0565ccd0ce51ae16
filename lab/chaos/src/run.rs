//! A run: the group is started, put under load, hit as the plan says, put to the test after each round and in the end.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use greenwave::Context as Budget;
use greenwave_bench::progress::Progress;
use greenwave_services::replicated::client::Freshness;

use crate::checker::Found;
use crate::checkpoint::{self, Passed};
use crate::group::Group;
use crate::history::{Ask, Count, Outcome};
use crate::inject::{self, Active};
use crate::load::{self, Load, Shared};
use crate::network::Spoiled;
use crate::plan::{Plan, Round};
use crate::record::Record;
use crate::replica::Program;

/// How long a group may take to begin.
const BEGINNING: Duration = Duration::from_secs(60);

/// What a run is of.
pub(crate) struct Setting {
    /// What is to happen.
    pub(crate) plan: Plan,
    /// How many replicas there are.
    pub(crate) replicas: usize,
    /// The command, and the one for every other rolling restart.
    pub(crate) programs: [Program; 2],
    /// Where logs and histories go.
    pub(crate) folder: PathBuf,
    /// How clients read.
    pub(crate) reads: Freshness,
    /// Whether the round that is under way is the last.
    pub(crate) is_to_end: Arc<AtomicBool>,
}

/// What came of a run.
pub(crate) struct Summary {
    /// Calls that were made.
    pub(crate) accepted: u64,
    /// What became of them.
    pub(crate) count: Count,
    /// What the checkpoints found, one after each round.
    pub(crate) passed: Vec<Passed>,
    /// Keys of all rounds, and pairs, once all was read in the end.
    pub(crate) keys: Found,
    /// What was done to packets.
    pub(crate) spoiled: Spoiled,
    /// Faults that couldn't be made, with why.
    pub(crate) passed_over: Vec<String>,
    /// What shouldn't be.
    pub(crate) findings: Vec<String>,
}

/// Runs all of it.
///
/// # Errors
/// When the machine doesn't have what it takes, or the group doesn't begin.
pub(crate) fn run(setting: &Setting, progress: &mut Progress) -> anyhow::Result<Summary> {
    let Setting { plan, replicas, programs, folder, reads, is_to_end } = setting;
    progress.step("the group begins");
    let mut group = Group::new(*replicas, plan.seed, programs.clone(), folder)?;
    for replica in &mut group.replicas {
        replica.start(0)?;
    }
    group
        .probe(BEGINNING)
        .map_err(|why| anyhow::anyhow!("the group doesn't begin: {why}; see {}", folder.display()))?;
    let load = Load::start(*replicas, plan.seed, *reads)?;
    let (mut events, mut record) = (Events::new(folder)?, Record::new(folder)?);
    let (mut passed, mut passed_over) = (Vec::new(), Vec::new());
    for (number, round) in plan.rounds.iter().enumerate() {
        progress.step(format!("round {}", number + 1));
        events.tell(&format!("round {}", number + 1))?;
        load.shared.round.store(number, Ordering::Relaxed);
        load.shared.resume();
        let before = load.shared.found();
        hit(round, &mut group, &load.shared, &mut events, &mut passed_over, progress)?;
        progress.show(0.9, 0);
        events.tell("all is mended")?;
        passed.push(checkpoint::check(&mut group, &load.shared));
        // A part of the history ends where no call is open.
        if load.shared.is_at_rest() {
            record.take(&load.shared, &format!("violated-{}.txt", number + 1))?;
        }
        for finding in &load.shared.findings()[before..] {
            events.tell(&format!("found: {finding}"))?;
            eprintln!("round {}: {finding}", number + 1);
        }
        if is_to_end.load(Ordering::Relaxed) {
            break;
        }
    }
    progress.step("everything is read and searched");
    load.shared.resume();
    let shared = load.stop();
    read_all(passed.len(), *replicas, &shared)?;
    record.end(&shared)?;
    let spoiled = group.network.spoiled();
    for replica in &group.replicas {
        search_log(&replica.log(), &shared)?;
    }
    drop(group);
    let accepted = shared.accepted.load(Ordering::Relaxed);
    let (count, keys) = (record.count(), record.keys());
    Ok(Summary { accepted, count, passed, keys, spoiled, passed_over, findings: shared.findings() })
}

/// Has the faults of a round happen.
fn hit(
    round: &Round,
    group: &mut Group,
    shared: &Shared,
    events: &mut Events,
    passed_over: &mut Vec<String>,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (mut to_come, mut active): (Vec<_>, Vec<Active>) = (round.faults.iter().rev().collect(), Vec::new());
    let end = round.faults.iter().map(|fault| fault.after + fault.lasts).max().unwrap_or_default();
    loop {
        let next_end = active.iter().map(Active::ends).min();
        let next_begin = to_come.last().map(|fault| fault.after);
        let Some(next) = next_end.into_iter().chain(next_begin).min() else { return Ok(()) };
        thread::sleep(next.saturating_sub(begun.elapsed()));
        progress.show(0.9 * next.as_secs_f64() / end.as_secs_f64(), 0);
        if next_begin == Some(next)
            && let Some(fault) = to_come.pop()
        {
            match Active::begin(fault, group, shared) {
                Ok(begun) => {
                    let hit: Vec<usize> = begun.targets().iter().map(|node| node + 1).collect();
                    events.tell(&format!("begins: {fault}: replicas {hit:?}"))?;
                    active.push(begun);
                }
                Err(error) => {
                    events.tell(&format!("passed over: {fault}: {error:#}"))?;
                    passed_over.push(format!("{fault}: {error:#}"));
                }
            }
        } else if let Some(at) = active.iter().position(|fault| fault.ends() == next) {
            let ended = active.remove(at);
            let fault = ended.fault().clone();
            ended.end(group, &active, shared).with_context(|| format!("can't be mended: {fault}"))?;
            events.tell(&format!("ends: {fault}"))?;
        }
        inject::apply(active.iter(), group);
    }
}

/// Reads every key of all rounds, as calls of the history: what was acknowledged has to be there in the end.
fn read_all(rounds: usize, replicas: usize, shared: &Shared) -> anyhow::Result<()> {
    let mut store = load::client(replicas)?;
    for round in 0..rounds {
        let ask = Ask::Scan { keys: load::keys(round) };
        let context = Budget::with_deadline(Duration::from_secs(30));
        let read =
            shared.call(load::CLIENTS + 2, ask, |ask| load::make(&mut store, &context, ask, Freshness::Linearizable));
        if !matches!(read, Outcome::Rows(_)) {
            shared.find(format!("round {} can't be read in the end: {read:?}", round + 1));
        }
    }
    Ok(())
}

/// What a replica says when it is broken, whatever else is as it should be.
fn search_log(path: &Path, shared: &Shared) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        // Damage that the rows' engine panics on is caught, and the rows are made again.
        let is_caught = ["/fjall-", "/lsm-tree-"].iter().any(|engine| line.contains(engine));
        if line.contains("panicked at") && !is_caught {
            shared.find(format!("{}: {line}", path.display()));
        }
    }
    Ok(())
}

/// What happened when, for those who read the logs.
struct Events {
    file: File,
    began: Instant,
}

impl Events {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("events.txt");
        let file = File::create(&path).with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self { file, began: Instant::now() })
    }

    fn tell(&mut self, what: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.file, "{:>9.3} s  {what}", self.began.elapsed().as_secs_f64())?)
    }
}
