//! A replica's rows alone, on a disk that is cut from power: whether what a start finds is the whole of what was applied up
//! to some entry.
//!
//! The process under test applies entries that follow from their number ([`entry`]), so both sides know what has to be there.
//! It is killed in the middle of that, again and again, with or without the power, with a disk that is full or whose syncs
//! fail. Thousands of starts take minutes, where those of a whole group take hours.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Cursor, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use greenwave_bench::progress::Progress;
use greenwave_replica::{Index, StateMachine as _};
use greenwave_services::proto::replicated as proto;
use greenwave_services::replicated::machine::{self, Store};
use greenwave_services::replicated::member;
use prost::Message as _;
use prost::bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

use crate::disk::{Disk, Ills, Kept};

/// Different keys.
const KEYS: u64 = 300;

/// Bytes of the longest value, beside its entry's number.
const LONGEST: u64 = 6000;

/// How long it may take to open what it finds.
const OPENING: Duration = Duration::from_secs(20);

/// How the process under test ends when its store can't go on.
const STOPPED: u8 = 3;

/// How it ends when it finds something other than what was applied.
const WRONG: u8 = 4;

/// What it says when it has looked at all that it found.
const CHECKED: &str = "checked";

/// Which key entry `index` writes, and how long its value is.
fn entry(index: u64) -> (u64, usize) {
    let mut draw = ChaCha8Rng::seed_from_u64(index);
    let key = u64::from(draw.next_u32()) % KEYS;
    let length = u64::from(draw.next_u32()) % LONGEST;
    (key, length as usize)
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

fn value(index: u64) -> Vec<u8> {
    let mut value = index.to_le_bytes().to_vec();
    value.resize(8 + entry(index).1, index as u8);
    value
}

/// Which entry wrote each key last.
#[derive(Default)]
struct Model {
    at: u64,
    last: BTreeMap<u64, u64>,
}

impl Model {
    fn advance(&mut self, to: u64) {
        for index in self.at + 1..=to {
            self.last.insert(entry(index).0, index);
        }
        self.at = self.at.max(to);
    }

    /// As a replica's snapshot has it.
    fn snapshot(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (&number, &index) in &self.last {
            machine::write_row(&key(number), &value(index), &mut bytes)?;
        }
        machine::write_end(&mut bytes)?;
        Ok(bytes)
    }

    /// What the rows lack.
    fn check(&self, store: &Store) -> anyhow::Result<()> {
        let mut wrong = Vec::new();
        let reader = store.reader();
        let mut found = 0;
        reader.range(b"", None, |_, _| {
            found += 1;
            true
        })?;
        for (&number, &index) in &self.last {
            let row = reader.get(&key(number))?;
            if row.as_deref() != Some(&value(index)[..]) {
                let has = row.as_deref().and_then(|row| Some(u64::from_le_bytes(row.get(..8)?.try_into().ok()?)));
                wrong.push(format!("key {number} has {has:?} in place of {index}"));
            }
        }
        ensure!(
            wrong.is_empty() && found == self.last.len(),
            "applied up to {}, {} rows of {} are there; {}",
            self.at,
            found,
            self.last.len(),
            wrong.join(", ")
        );
        Ok(())
    }
}

/// The process under test: opens what is in `directory`, says what it found, and goes on until it is killed.
///
/// # Errors
/// When the store can't be opened, or be given a snapshot.
pub(crate) fn apply(directory: &Path, log_start: u64, seed: u64) -> anyhow::Result<u8> {
    let mut draw = ChaCha8Rng::seed_from_u64(seed);
    let mut store = member::open_rows(directory)?;
    let mark = member::failure_mark(directory);
    // As the log does.
    fs::create_dir_all(directory.join("log"))?;
    mark.prepare()?;
    let mut model = Model::default();
    model.advance(store.applied().0);
    println!("opened {}", model.at);
    if let Err(wrong) = model.check(&store) {
        eprintln!("{wrong}");
        return Ok(WRONG);
    }
    println!("{CHECKED}");
    if model.at < log_start {
        model.advance(log_start);
        store.restore(Index(log_start), &[], &mut Cursor::new(model.snapshot()?)).inspect_err(|_| mark.set())?;
        println!("restored {log_start}");
    }
    let is_sent_snapshots = draw.next_u32().is_multiple_of(4);
    loop {
        let done = match draw.next_u32() % 400 {
            0..2 => store.view().map(|_| println!("viewed {}", model.at)),
            2 if is_sent_snapshots => {
                model.advance(model.at + 50);
                let at = Index(model.at);
                store.restore(at, &[], &mut Cursor::new(model.snapshot()?)).map(|()| println!("restored {at}"))
            }
            _ => {
                let to = model.at + 1 + u64::from(draw.next_u32() % 8);
                for index in model.at + 1..=to {
                    store.apply_shared(Index(index), put(index));
                }
                model.advance(to);
                store.commit(Index(to), &[])
            }
        };
        if let Err(error) = done {
            eprintln!("{error}");
            mark.set();
            return Ok(STOPPED);
        }
    }
}

fn put(index: u64) -> Bytes {
    let (key, value) = (Bytes::from(key(entry(index).0)), Bytes::from(value(index)));
    let put = proto::PutRequest { key, value, ..proto::PutRequest::default() };
    let command = proto::Command { change: Some(proto::command::Change::Put(put)) };
    command.encode_to_vec().into()
}

/// What is wrong with the disk while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    Full,
    SyncFails,
}

/// One start, and how it ended.
struct Start {
    /// What the process said.
    lines: Vec<String>,
    output: Output,
}

impl Start {
    /// What stands behind a word that the process said.
    fn numbers<'a>(&'a self, word: &'a str) -> impl Iterator<Item = u64> + 'a {
        self.lines.iter().filter_map(move |line| line.strip_prefix(word)?.parse().ok())
    }
}

/// Starts and kills the process under test until the time is over, and writes what happened to `log`.
///
/// # Errors
/// When a start found something other than what had been applied, or it can't be run.
pub(crate) fn run(seed: u64, time: Duration, log: &Path) -> anyhow::Result<()> {
    let mut draw = ChaCha8Rng::seed_from_u64(seed);
    let mut disk = Disk::new(0)?;
    let mut log = fs::File::create(log).with_context(|| format!("can't make {}", log.display()))?;
    let (begun, mut starts, mut kept_up_to) = (Instant::now(), 0_u64, 0);
    let mut ends = BTreeMap::<String, u64>::new();
    let mut progress = Progress::new(1);
    progress.step("starts");
    while begun.elapsed() < time {
        starts += 1;
        let trouble = match draw.next_u32() % 8 {
            0 => Trouble::Full,
            1 => Trouble::SyncFails,
            _ => Trouble::None,
        };
        let start = start(&disk, kept_up_to, trouble, &mut draw)?;
        let cut = match draw.next_u32() % 3 {
            0 => "kept the power",
            1 => {
                disk.cut(Kept::Nothing)?;
                "lost the power"
            }
            _ => {
                disk.cut(Kept::Some(draw.next_u64()))?;
                "lost the power, torn"
            }
        };
        let code = start.output.status.code();
        let how = code.map_or("killed".to_owned(), |code| format!("ended with {code}"));
        let said = String::from_utf8_lossy(&start.output.stderr);
        writeln!(log, "{starts}: {trouble:?}, {how}, {cut}; {} {}", start.lines.join(", "), said.trim())?;
        let opened = start.numbers("opened ").next();
        let is_made_anew = opened == Some(0);
        ensure!(
            code.is_none_or(|code| code != i32::from(WRONG) && (trouble != Trouble::None || code == i32::from(STOPPED))),
            "start {starts} of seed {seed} {how}: {}",
            said.trim()
        );
        ensure!(
            is_made_anew || opened.is_none_or(|opened| opened >= kept_up_to),
            "start {starts} of seed {seed} found less than entry {kept_up_to}, which was durable: {opened:?}"
        );
        *ends.entry(format!("{how}, {cut}")).or_default() += 1;
        kept_up_to = start.numbers("viewed ").chain(start.numbers("restored ")).max().unwrap_or(0).max(kept_up_to);
        progress.show(begun.elapsed().as_secs_f64() / time.as_secs_f64(), 0);
    }
    drop(progress);
    println!("rows: {starts} starts, {kept_up_to} entries, nothing found");
    for (how, times) in ends {
        println!("  {times:>6}  {how}");
    }
    Ok(())
}

/// Runs the process under test for a while, in the middle of which the trouble begins.
fn start(disk: &Disk, log_start: u64, trouble: Trouble, draw: &mut ChaCha8Rng) -> anyhow::Result<Start> {
    let mut command = Command::new(env::current_exe().context("can't tell where this program is")?);
    command.arg("apply").arg(disk.data()).args([log_start, draw.next_u64()].map(|number| number.to_string()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let said = listen(&mut child)?;
    let mut lines = Vec::new();
    // One in five is killed while it still opens what it found.
    if !draw.next_u32().is_multiple_of(5) {
        let begun = Instant::now();
        while lines.last().is_none_or(|line| line != CHECKED) {
            match said.recv_timeout(OPENING.saturating_sub(begun.elapsed())) {
                Ok(line) => lines.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    anyhow::bail!("it hadn't opened what was there within {OPENING:?}");
                }
            }
        }
    }
    let mut pause = || thread::sleep(Duration::from_millis(u64::from(draw.next_u32() % 200)));
    pause();
    match trouble {
        Trouble::None => {}
        Trouble::Full => disk.set(|ills| ills.full = true),
        Trouble::SyncFails => disk.set(|ills| ills.sync_fails = true),
    }
    pause();
    // It may have ended by itself.
    let _ = child.kill();
    let output = child.wait_with_output()?;
    disk.set(|ills| *ills = Ills::default());
    lines.extend(said);
    Ok(Start { lines, output })
}

/// The lines that a process says, until it ends.
fn listen(child: &mut Child) -> anyhow::Result<Receiver<String>> {
    let output = child.stdout.take().context("the process has no output")?;
    let (says, said) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if says.send(line).is_err() {
                return;
            }
        }
    });
    Ok(said)
}
