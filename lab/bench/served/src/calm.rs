//! Which calls were made while the machine was calm.
//!
//! A virtual machine's core is taken away by its host for milliseconds at a time, several times a second where both cores
//! are busy: more than one call in a hundred is late for that reason alone, and a p99 would be the host's. So the
//! processor time of both sides, the server's and the load generator's, is read every [`EVERY`]: by a call where the
//! server is ours and spoken to in our own protocol, else by a thread of the server's process on the same core, which is the
//! same for all servers of gRPC that never sleep. Where one side had less than passed, calls don't count that were due then,
//! shortly before, or until what was held up has been made up for. That goes by the clocks alone and not by what became of
//! calls; the figures of all calls are in the results too.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use greenwave_bench::classes::Classes;
use greenwave_bench::clock;
use greenwave_bench::measured::{LATE, Tally, UNANSWERED};
use greenwave_bench::process::{self, ServerProcess};
use greenwave_bench::target::{Answer, Reply, Request, Target};
use greenwave_policy::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::target::Served;

/// How often processor time is read.
pub(crate) const EVERY: Duration = Duration::from_millis(1);
/// A thread that lacks more than this of its time between two readings had its core taken away. Interrupts take less.
const LACK: Duration = Duration::from_micros(100);
/// How long before that calls don't count either: they may have been under way.
const BEFORE: Duration = Duration::from_millis(5);
/// How long after that they don't, at least.
const AFTER: Duration = Duration::from_millis(1);

/// What a thread, or a process, that never sleeps had of its core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at: Time,
    /// Its processor time.
    pub(crate) cpu: Duration,
}

/// A span of time in which a thread had no core for so long.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outage {
    from: Time,
    to: Time,
    lacked: Duration,
}

/// The processor time of the calling thread.
pub(crate) fn processor_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// What a server is asked for its readings, and what its answer begins with.
const READINGS: &str = "readings";

/// Notes what processor time this process has had, tells it when asked, and ends the process when its standard input ends.
/// All threads of the process have to be on one core, which is the calling thread's, and never to sleep all at once.
pub(crate) fn note_readings() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&noted);
    thread::spawn(move || {
        loop {
            thread::sleep(EVERY);
            // What another thread has had is known to the nanosecond only while it doesn't run.
            let reading = Reading { at: clock::now(), cpu: time_of(ClockId::ProcessCPUTime) };
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
        }
    });
    thread::spawn(move || {
        let told = process::answer_all(|question| {
            anyhow::ensure!(question == READINGS, "`{question}`: nothing else is known than {READINGS}");
            let readings = std::mem::take(&mut *noted.lock().unwrap_or_else(PoisonError::into_inner));
            let words = readings.iter().map(|Reading { at, cpu }| format!(" {} {}", at.as_nanos(), cpu.as_nanos()));
            Ok(Some(format!("{READINGS}{}", words.collect::<String>())))
        });
        let failed = told.inspect_err(|error| eprintln!("{error:#}")).is_err();
        std::process::exit(i32::from(failed));
    });
}

/// What a server has noted by [`note_readings`].
pub(crate) fn ask(server: &mut ServerProcess) -> anyhow::Result<Vec<Reading>> {
    let line = server.ask(READINGS, |line| line.starts_with(READINGS))?;
    parsed(&line).with_context(|| format!("the server's readings can't be read: {line}"))
}

fn parsed(line: &str) -> Option<Vec<Reading>> {
    let words: Vec<u64> = line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
    let (pairs, rest) = words.as_chunks();
    let reading = |&[at, cpu]: &[u64; 2]| Reading { at: Time::from_nanos(at), cpu: Duration::from_nanos(cpu) };
    rest.is_empty().then(|| pairs.iter().map(reading).collect())
}

/// A target all of whose calls are noted.
pub(crate) struct Recorder<'a> {
    target: &'a mut dyn Served,
    calls: Vec<Call>,
    /// For each slot of the generator's tags the call that has it.
    slots: Vec<usize>,
    own: Vec<Reading>,
}

struct Call {
    tag: u64,
    class: usize,
    due: Time,
    end: Option<(Time, Answer)>,
}

impl<'a> Recorder<'a> {
    /// With room for so many calls: to make room while calls are due takes milliseconds where there are many.
    pub(crate) fn new(target: &'a mut dyn Served, calls: usize) -> Self {
        Self { target, calls: Vec::with_capacity(calls), slots: Vec::new(), own: Vec::new() }
    }

    /// What became of the calls of each class that were due from `from` on while it was calm, and which share of all they
    /// are. Work that is held up at this load is made up for in as long again as the rest of the capacity takes.
    ///
    /// # Errors
    /// When the server doesn't say when it had its core.
    pub(crate) fn calm(
        self,
        from: Time,
        load: f64,
        classes: &Classes,
        server: &mut ServerProcess,
    ) -> anyhow::Result<(Vec<Tally>, f64)> {
        let servers = self.target.readings(server)?;
        let outages: Vec<Outage> = outages(&self.own).chain(outages(&servers)).collect();
        let spans: Vec<(Time, Time)> = outages.iter().map(|outage| outage.disturbs(load)).collect();
        let mut tallies = vec![Tally::default(); classes.as_slice().len()];
        let (mut all, mut calm) = (0_usize, 0_usize);
        for call in self.calls.iter().filter(|call| call.due >= from) {
            all += 1;
            if !spans.iter().any(|(begin, end)| (*begin..=*end).contains(&call.due)) {
                calm += 1;
                settle(&mut tallies[call.class], call, classes.as_slice()[call.class].deadline);
            }
        }
        Ok((tallies, calm as f64 / all.max(1) as f64))
    }

    /// When the first call was due.
    pub(crate) fn begin(&self) -> Option<Time> {
        self.calls.first().map(|call| call.due)
    }
}

impl Target for Recorder<'_> {
    fn now(&self) -> Time {
        self.target.now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let slot = slot(request.tag);
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, usize::MAX);
        }
        self.slots[slot] = self.calls.len();
        self.calls.push(Call { tag: request.tag, class: request.class_index, due: request.scheduled, end: None });
        self.target.submit(request)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        let now = self.target.now();
        if self.own.last().is_none_or(|last| now.since(last.at) >= EVERY) {
            self.own.push(Reading { at: now, cpu: processor_time() });
            self.target.read();
        }
        let Self { target, calls, slots, .. } = self;
        target.poll(&mut |reply| {
            let call = slots.get(slot(reply.tag)).and_then(|at| calls.get_mut(*at));
            if let Some(call) = call.filter(|call| call.tag == reply.tag) {
                call.end = Some((reply.received, reply.answer));
            }
            sink(reply);
        });
    }

    fn wait(&mut self, until: Time) {
        let reading = self.own.last().map_or(until, |last| last.at + EVERY);
        self.target.wait(until.min(reading));
    }
}

impl Outage {
    /// The span in which calls were due that don't count.
    fn disturbs(&self, load: f64) -> (Time, Time) {
        // Half as much again, as work comes at random.
        let made_up = self.lacked.mul_f64(1.5 * load / (1.0 - load).max(0.05));
        let before = Time::from_nanos(self.from.as_nanos().saturating_sub(BEFORE.as_nanos() as u64));
        (before, self.to + AFTER.max(made_up))
    }
}

/// Where a thread lacked time between two readings.
fn outages(readings: &[Reading]) -> impl Iterator<Item = Outage> {
    readings.windows(2).filter_map(|pair| {
        let [from, to] = [pair[0], pair[1]];
        let lacked = to.at.since(from.at).saturating_sub(to.cpu.saturating_sub(from.cpu));
        (lacked > LACK).then_some(Outage { from: from.at, to: to.at, lacked })
    })
}

fn settle(tally: &mut Tally, call: &Call, deadline: Duration) {
    let took = |received: Time| received.since(call.due);
    match call.end {
        Some((received, Answer::Ok)) => tally.settle(Some(took(received)), (took(received) > deadline).then_some(LATE)),
        Some((_, Answer::Miss(name))) => tally.settle(None, Some(name)),
        None => tally.settle(None, Some(UNANSWERED)),
    }
}

/// The generator uses the low half of its tags again.
fn slot(tag: u64) -> usize {
    (tag & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: u64, cpu: u64) -> Reading {
        Reading { at: Time::from_nanos(at * 1000), cpu: Duration::from_micros(cpu) }
    }

    #[test]
    fn a_thread_that_had_less_than_passed_had_its_core_taken_away() {
        let readings = [reading(1000, 500), reading(2000, 1490), reading(6000, 2490), reading(7000, 3490)];
        let found: Vec<Outage> = outages(&readings).collect();
        let lacked = Duration::from_millis(3);
        assert_eq!(found, [Outage { from: readings[1].at, to: readings[2].at, lacked }]);
    }

    #[test]
    fn readings_are_understood_as_they_are_told() {
        assert_eq!(
            parsed("readings 1000000 500000 2000000 1490000"),
            Some(vec![reading(1000, 500), reading(2000, 1490)])
        );
        assert_eq!(parsed("readings"), Some(Vec::new()));
        assert_eq!([parsed("readings 1"), parsed("readings 1 x")], [None, None]);
    }

    #[test]
    fn what_was_held_up_spoils_the_more_the_higher_the_load() {
        let [from, to] = [10_000_000, 14_000_000].map(Time::from_nanos);
        let outage = Outage { from, to, lacked: Duration::from_millis(2) };
        assert_eq!(outage.disturbs(0.5), (Time::from_nanos(5_000_000), to + Duration::from_millis(3)));
        assert!(outage.disturbs(0.9).1 > to + Duration::from_millis(26));
        assert_eq!(Outage { lacked: Duration::from_micros(200), ..outage }.disturbs(0.5).1, to + AFTER);
    }

    #[test]
    fn only_answers_in_time_are_good() {
        let due = Time::from_nanos(1000);
        let call = |end| Call { tag: 0, class: 0, due, end };
        let mut tally = Tally::default();
        let deadline = Duration::from_micros(5);
        settle(&mut tally, &call(Some((due + deadline, Answer::Ok))), deadline);
        settle(&mut tally, &call(Some((due + 2 * deadline, Answer::Ok))), deadline);
        settle(&mut tally, &call(Some((due, Answer::Miss("refused")))), deadline);
        settle(&mut tally, &call(None), deadline);
        assert_eq!((tally.scheduled, tally.good, tally.missed(), tally.results.count()), (4, 1, 3, 2));
    }
}
