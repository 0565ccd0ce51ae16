//! What calls take, method by method, for as long as somebody asks for it: `greenwave.Meta/Recorded`.
//!
//! Protocol:
//! 1. Who asks renews a lease of [`LEASE`]. Nothing is recorded without one, so nobody has to say that it is enough.
//! 2. While it lasts each thread writes what the calls that it ended have taken into a book of its own. It never waits for the
//!    book: where somebody reads it, the call is counted as unrecorded.
//! 3. Who asks copies the books, each in a critical section, so that no handler is preempted with a book in hand. Text is made of
//!    the copies.
//!
//! Books only grow, so two answers tell of the time between them. What they may take is bounded: [`METHODS_MOST`] methods, and
//! [`STAGES_MOST`] stages behind them, each with two histograms of 9 KiB.

use crate::config::ServerConfig;
use crate::receipt::{Receipt, StageReceipt};
use crate::wire::StageName;
use greenwave_policy::{Span, Time};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// How long calls are recorded after somebody has asked.
const LEASE: Duration = Duration::from_secs(10);

/// How many methods a thread records.
const METHODS_MOST: usize = 64;

/// How many stages behind all of its methods.
const STAGES_MOST: usize = 64;

/// The version of the text.
const VERSION: u32 = 1;

/// The books of all threads of a server.
pub(super) struct Recording {
    /// When the lease ends, in nanoseconds of the monotonic clock; 0: there is none.
    until: AtomicU64,
    books: Box<[Mutex<Book>]>,
    /// Calls whose book was being read.
    missed: AtomicU64,
    /// What the text begins with.
    about: String,
}

/// A thread's part in it.
#[derive(Clone)]
pub(super) struct Recorder {
    recording: Arc<Recording>,
    thread: usize,
}

/// What a call that is over has taken.
pub(super) struct Taken<'a> {
    pub(super) method: usize,
    /// Whether its handler has begun.
    pub(super) begun: bool,
    pub(super) failed: bool,
    pub(super) service: Span,
    pub(super) receipt: &'a Receipt,
}

/// What a thread has recorded.
#[derive(Clone, Default)]
struct Book {
    methods: Vec<Method>,
    stages: usize,
    unrecorded: u64,
}

#[derive(Clone)]
struct Method {
    method: usize,
    calls: u64,
    failed: u64,
    refused: u64,
    queue: u64,
    service: Spans,
    /// How long calls waited for calls of their own.
    waiting: Option<Spans>,
    stages: Vec<Stage>,
}

/// A stage that handlers of a method called.
#[derive(Clone)]
struct Stage {
    name: StageName,
    is_branch: bool,
    /// Calls of the method that called it.
    requests: u64,
    calls: u64,
    service: Spans,
    /// The rest of round trips: the wire, queues, waits.
    around: Spans,
}

impl Recording {
    /// Nothing yet, for a server of so many threads, of which so many are heads.
    pub(super) fn new(config: &ServerConfig, threads: usize, heads: usize) -> Arc<Self> {
        let quantum = config.quantum.filter(|_| greenwave_quanta::is_instrumented());
        let running = if threads > heads { threads - heads } else { heads };
        let about = format!(
            "[server]\nname = {}\nthreads = {running}\norder = \"{}\"\nquantum_ns = {}\nprobes = {}\n",
            quoted(config.stage()),
            config.order,
            quantum.map_or(0, |quantum| quantum.as_nanos()),
            greenwave_quanta::is_instrumented(),
        );
        let books = (0..threads).map(|_| Mutex::default()).collect();
        Arc::new(Self { until: AtomicU64::new(0), books, missed: AtomicU64::new(0), about })
    }

    /// A thread's part.
    pub(super) fn recorder(self: &Arc<Self>, thread: usize) -> Recorder {
        Recorder { recording: Arc::clone(self), thread }
    }

    /// Renews the lease, and tells what was recorded so far of the methods with these names.
    pub(super) fn ask(&self, now: Time, name: impl Fn(usize) -> Option<&'static str>) -> String {
        self.until.store((now + LEASE).as_nanos(), Ordering::Relaxed);
        let mut all = Book::default();
        for book in &self.books {
            let copy = greenwave_quanta::critical(|| book.lock().unwrap_or_else(PoisonError::into_inner).clone());
            all.merge(copy);
        }
        let mut text = format!("greenwave_recording = {VERSION}\nat_ns = {}\n", now.as_nanos());
        let unrecorded = all.unrecorded + self.missed.load(Ordering::Relaxed);
        write(&mut text, format_args!("unrecorded = {unrecorded}\n{}", self.about));
        for method in &all.methods {
            if let Some(name) = name(method.method) {
                method.write(&mut text, name);
            }
        }
        text
    }
}

impl Recorder {
    /// Whether anything is recorded.
    #[inline]
    pub(super) fn is_on(&self, now: Time) -> bool {
        self.recording.until.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Notes a call.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&self, taken: &Taken<'_>) {
        let Some(book) = self.recording.books.get(self.thread) else { return };
        match book.try_lock() {
            Ok(mut book) => book.note(taken),
            Err(TryLockError::Poisoned(book)) => book.into_inner().note(taken),
            Err(TryLockError::WouldBlock) => _ = self.recording.missed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Book {
    fn note(&mut self, taken: &Taken<'_>) {
        let at = match self.methods.iter().position(|of| of.method == taken.method) {
            Some(at) => at,
            None if self.methods.len() < METHODS_MOST => {
                self.methods.push(Method::new(taken.method));
                self.methods.len() - 1
            }
            None => return self.unrecorded += 1,
        };
        let method = &mut self.methods[at];
        if !taken.begun {
            method.refused += 1;
            return;
        }
        method.calls += 1;
        method.failed += u64::from(taken.failed);
        method.queue = method.queue.saturating_add(Span::from(taken.receipt.queue).as_nanos());
        method.service.add(taken.service.as_nanos());
        if taken.receipt.children.is_empty() {
            // Those before the first that called others had nothing to wait for.
            return method.waiting.iter_mut().for_each(|waiting| waiting.add(0));
        }
        let before = method.calls - 1;
        let waiting = method.waiting.get_or_insert_with(|| Spans::zeros(before));
        waiting.add(Span::from(taken.receipt.waiting()).as_nanos());
        let mut called: u64 = 0;
        for child in taken.receipt.children.iter().filter(|child| child.depth == 0) {
            let is_it = |stage: &Stage| stage.name == child.stage && stage.is_branch == child.branch.is_some();
            let stage = match method.stages.iter().position(is_it) {
                Some(stage) => stage,
                None if self.stages < STAGES_MOST => {
                    self.stages += 1;
                    method.stages.push(Stage::new(child));
                    method.stages.len() - 1
                }
                None => continue,
            };
            let bit = 1_u64 << stage.min(63);
            let of = &mut method.stages[stage];
            of.requests += u64::from(called & bit == 0);
            called |= bit;
            of.calls += 1;
            of.service.add(Span::from(child.service).as_nanos());
            of.around.add(Span::from(child.round_trip().saturating_sub(child.service)).as_nanos());
        }
    }

    fn merge(&mut self, other: Self) {
        self.unrecorded += other.unrecorded;
        for method in other.methods {
            match self.methods.iter_mut().find(|of| of.method == method.method) {
                Some(of) => of.merge(method),
                None => self.methods.push(method),
            }
        }
    }
}

impl Method {
    fn new(method: usize) -> Self {
        let (waiting, stages) = (None, Vec::new());
        Self { method, calls: 0, failed: 0, refused: 0, queue: 0, service: Spans::new(), waiting, stages }
    }

    fn merge(&mut self, other: Self) {
        let before = [self.calls, other.calls];
        self.calls += other.calls;
        self.failed += other.failed;
        self.refused += other.refused;
        self.queue = self.queue.saturating_add(other.queue);
        self.service.merge(&other.service);
        if self.waiting.is_some() || other.waiting.is_some() {
            let mine = self.waiting.get_or_insert_with(|| Spans::zeros(before[0]));
            mine.merge(&other.waiting.unwrap_or_else(|| Spans::zeros(before[1])));
        }
        for stage in other.stages {
            let is_it = |of: &&mut Stage| of.name == stage.name && of.is_branch == stage.is_branch;
            match self.stages.iter_mut().find(is_it) {
                Some(of) => {
                    of.requests += stage.requests;
                    of.calls += stage.calls;
                    of.service.merge(&stage.service);
                    of.around.merge(&stage.around);
                }
                None => self.stages.push(stage),
            }
        }
    }

    fn write(&self, text: &mut String, name: &str) {
        let Self { calls, failed, refused, queue, .. } = self;
        write(text, format_args!("\n[[method]]\nname = {}\ncalls = {calls}\nfailed = {failed}\n", quoted(name)));
        write(text, format_args!("refused = {refused}\nqueue_ns = {queue}\n"));
        self.service.write(text, "service");
        if let Some(waiting) = &self.waiting {
            waiting.write(text, "waiting");
        }
        for stage in &self.stages {
            let Stage { name, is_branch, requests, calls, .. } = stage;
            write(text, format_args!("[[method.stage]]\nname = {}\nbranches = {is_branch}\n", quoted(name.as_str())));
            write(text, format_args!("requests = {requests}\ncalls = {calls}\n"));
            stage.service.write(text, "service");
            stage.around.write(text, "around");
        }
    }
}

impl Stage {
    fn new(child: &StageReceipt) -> Self {
        let (name, is_branch) = (child.stage, child.branch.is_some());
        Self { name, is_branch, requests: 0, calls: 0, service: Spans::new(), around: Spans::new() }
    }
}

/// How many spans were how long, in nanoseconds: within 1/64 up to 18 minutes, in 9 KiB.
#[derive(Clone)]
struct Spans(Box<[u64]>);

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
const BITS: u32 = 40;

impl Spans {
    fn new() -> Self {
        Self(vec![0; (BITS - STEP_BITS + 1) as usize * STEPS].into())
    }

    /// So many that took no time.
    fn zeros(count: u64) -> Self {
        let mut zeros = Self::new();
        zeros.0[0] = count;
        zeros
    }

    fn add(&mut self, nanos: u64) {
        let nanos = nanos.min((1 << BITS) - 1);
        let octave = (64 - STEP_BITS).saturating_sub(nanos.leading_zeros());
        let bucket = match octave {
            0 => nanos as usize,
            _ => octave as usize * STEPS + ((nanos >> (octave - 1)) as usize & (STEPS - 1)),
        };
        self.0[bucket] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&*other.0).for_each(|(count, other)| *count += other);
    }

    /// The middle of a bucket.
    fn middle(bucket: usize) -> u64 {
        let (octave, step) = (bucket / STEPS, (bucket % STEPS) as u64);
        if octave == 0 {
            return step;
        }
        let width = 1_u64 << (octave - 1);
        (STEPS as u64 + step) * width + width / 2
    }

    /// Pairs of nanoseconds and how many there are.
    fn write(&self, text: &mut String, key: &str) {
        let some = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        let pairs: Vec<_> = some.map(|(bucket, count)| format!("[{}, {count}]", Self::middle(bucket))).collect();
        write(text, format_args!("{key} = [{}]\n", pairs.join(", ")));
    }
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => write(&mut quoted, format_args!("\\u{:04X}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn write(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _writing_to_a_string_never_fails = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    const fn us(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    fn recording() -> Arc<Recording> {
        Recording::new(&ServerConfig::default().name("a \"b\""), 2, 2)
    }

    fn child(branch: u16, service: u64) -> StageReceipt {
        StageReceipt {
            stage: StageName::UNNAMED,
            branch: Some(branch),
            depth: 0,
            sent_after: Duration::ZERO,
            network: us(10),
            queue: Duration::ZERO,
            service: us(service),
            total: us(service),
            status: Code::Ok,
        }
    }

    fn note(recorder: &Recorder, method: usize, service: u64, receipt: &Receipt) {
        recorder.note(&Taken { method, begun: true, failed: false, service: us(service).into(), receipt });
    }

    #[test]
    fn nothing_is_recorded_until_somebody_asks_and_some_seconds_after() {
        let recording = recording();
        let recorder = recording.recorder(0);
        let start = Time::ZERO + Duration::from_secs(1);
        assert!(!recorder.is_on(start));
        recording.ask(start, |_| None);
        assert!(recorder.is_on(start + LEASE / 2) && !recorder.is_on(start + LEASE));
    }

    #[test]
    fn what_threads_have_noted_is_told_together() {
        let recording = recording();
        let leaf = Receipt { queue: us(3), service: us(5), total: us(8), ..Receipt::default() };
        let parent = Receipt { total: us(60), children: vec![child(0, 20), child(1, 30)], ..leaf.clone() };
        note(&recording.recorder(0), 4, 5, &leaf);
        note(&recording.recorder(1), 4, 5, &parent);
        let refused = Taken { method: 4, begun: false, failed: true, service: Span::ZERO, receipt: &leaf };
        recording.recorder(1).note(&refused);
        let text = recording.ask(Time::ZERO, |method| (method == 4).then_some("a.B/C"));
        for part in [
            "name = \"a \\\"b\\\"\"",
            "name = \"a.B/C\"\ncalls = 2\nfailed = 0\nrefused = 1\nqueue_ns = 6000",
            "service = [[5056, 2]]",
            "waiting = [[0, 1], [51712, 1]]",
            "branches = true\nrequests = 1\ncalls = 2",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }

    #[test]
    fn what_it_holds_is_bounded() {
        let recording = recording();
        let recorder = recording.recorder(0);
        (0..200).for_each(|method| note(&recorder, method, 1, &Receipt::default()));
        let book = recording.books[0].lock().unwrap();
        assert_eq!((book.methods.len(), book.unrecorded), (METHODS_MOST, 200 - METHODS_MOST as u64));
    }

    #[test]
    fn a_span_is_known_within_its_bucket() {
        for nanos in [0, 1, 31, 32, 500, 4097, 500_000, 1 << 39, u64::MAX] {
            let mut spans = Spans::new();
            spans.add(nanos);
            let bucket = spans.0.iter().position(|count| *count > 0).unwrap();
            let nanos = nanos.min((1 << BITS) - 1);
            assert!(Spans::middle(bucket).abs_diff(nanos) <= nanos / 63, "{nanos}");
        }
    }
}
