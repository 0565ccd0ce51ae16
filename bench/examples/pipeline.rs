//! A chain of two stages in this process, each a thread with a ready queue, driven under several orders of service.
//!
//! `cargo run --release -p greenwave-bench --example pipeline -- report.html` writes the page. The work is real (it
//! hashes), and so is the waiting; there is no network, which is why it suits trying out a report and little else.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::capacity::{self, Trial};
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::progress::Progress;
use greenwave_bench::report::{Data, Run, Service, System, page};
use greenwave_bench::result::Results;
use greenwave_bench::target::{Answer, Payloads, Reply, Request, StageReceipt, Target};
use greenwave_bench::{clock, result};
use greenwave_policy::{Budget, Deadline, Order, ReadyQueue, ServiceTimes, Time, Urgency};

const LOADS: [f64; 3] = [0.7, 0.9, 1.3];
const STAGES: [(&str, u32); 2] = [("profile", 3), ("history", 5)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).map_or_else(|| result::bench_folder().join("pipeline.html"), PathBuf::from);
    let seconds = std::env::args().nth(2).map_or(Ok(3), |text| text.parse())?;
    let [ms, time] = [Duration::from_millis(1), Duration::from_secs(seconds)];
    let classes = Classes::new(vec![
        Class::new("tight", 0.3, 8 * ms),
        Class::new("normal", 0.5, 40 * ms),
        Class::new("loose", 0.2, 250 * ms),
    ])?;
    let systems = [
        ("fifo", Order::Fcfs, false, "in order of arrival, nothing refused"),
        ("edf", Order::EarliestDeadline, true, "earliest deadline first, hopeless work refused"),
        ("least-laxity", Order::LeastLaxity, true, "least time to spare first, hopeless work refused"),
        ("oldest-first", Order::OldestFirst, true, "by birth of the request, hopeless work refused"),
        ("stage-laxity", Order::StageLaxity, true, "by the time to spare in each stage, hopeless work refused"),
    ];
    let mut progress = Progress::new(1 + systems.len() * LOADS.len());
    progress.step("capacity");
    let trial = Trial { in_flight: 16, ..Trial::default() };
    let target = &mut Pipeline::start(Order::Fcfs, false);
    let capacity = capacity::measure(&trial, &classes, target, &mut Work, &mut progress)?.per_second;

    let mut results = Results::new("pipeline");
    results.push("pipeline/capacity", "fifo", "capacity_per_s", capacity);
    let mut runs = Vec::new();
    for load in LOADS {
        for (name, order, refuses, _) in systems {
            progress.step(format!("{name} at {load}"));
            let arrivals = Arrivals::Poisson { per_second: load * capacity };
            let plan = Plan::new(arrivals, classes.clone(), time);
            let measured = load::run(&plan, &mut Pipeline::start(order, refuses), &mut Work, &mut progress);
            results.push_load(&format!("pipeline/load-{load}"), name, &measured);
            runs.push(Run::new(name, load, &measured));
        }
    }
    drop(progress);
    println!("{}", results.table(&["p50_ms", "p99_ms", "missed_share", "tight/missed_share", "goodput_per_s"]));

    let mut data = Data::new("Two stages under five orders of service", "What the order of service does to answers.");
    data.systems = systems.map(|(name, _, _, about)| System { name: name.into(), about: about.into() }).to_vec();
    let about = "Two threads that hash, with a queue in front of each.".to_owned();
    data.services.push(Service { name: "Pipeline".into(), about, capacity_per_s: capacity, runs });
    data.method.push("Open loop with Poisson arrivals, one generator thread, everything in one process.".into());
    result::write(&path, &page(&data))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Messages say how much work they are: one in ten is eight times as long.
struct Work;

impl Payloads for Work {
    fn payload(&mut self, _class: usize, sequence: u64) -> &[u8] {
        if sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 == 0 { &[8] } else { &[1] }
    }
}

struct Job {
    tag: u64,
    born: Time,
    deadline: Deadline,
    rounds: u32,
    answer: Answer,
    receipts: Vec<Receipt>,
}

struct Receipt {
    arrived: Time,
    begun: Time,
    ended: Time,
}

struct Pipeline {
    jobs: Sender<(Time, Job)>,
    answers: Receiver<(Time, Job)>,
    waiting: Option<(Time, Job)>,
}

impl Pipeline {
    fn start(order: Order, refuses: bool) -> Self {
        let (jobs, mut upstream) = channel();
        for (_, weight) in STAGES {
            let (downstream, next) = channel();
            let from = std::mem::replace(&mut upstream, next);
            thread::spawn(move || stage(order, refuses, weight, &from, &downstream));
        }
        Self { jobs, answers: upstream, waiting: None }
    }
}

/// Serves until the generator is gone.
fn stage(order: Order, refuses: bool, weight: u32, from: &Receiver<(Time, Job)>, to: &Sender<(Time, Job)>) {
    let mut queue = ReadyQueue::new(order);
    let mut learned = ServiceTimes::new();
    loop {
        let first = if queue.is_empty() { from.recv().ok() } else { None };
        if first.is_none() && queue.is_empty() {
            return;
        }
        for (arrived, job) in first.into_iter().chain(from.try_iter()) {
            let here = learned.mean().unwrap_or_default() * job.rounds;
            let urgency = Urgency { arrived, birth: job.born, deadline: job.deadline, here, ahead: here };
            queue.push(arrived, urgency, job);
        }
        let Some((urgency, mut job)) = queue.pop(clock::now()) else { continue };
        let begun = clock::now();
        if refuses && job.answer == Answer::Ok && job.deadline.is_past(begun + urgency.here) {
            job.answer = Answer::Miss("refused");
        }
        if job.answer == Answer::Ok {
            (0..job.rounds).for_each(|_| work(weight));
        }
        let ended = clock::now();
        learned.observe(ended.since(begun) / job.rounds);
        job.receipts.push(Receipt { arrived: urgency.arrived, begun, ended });
        if to.send((ended, job)).is_err() {
            return;
        }
    }
}

fn work(weight: u32) {
    let mut hasher = DefaultHasher::new();
    for round in 0..weight * 4000 {
        black_box(round).hash(&mut hasher);
    }
    black_box(hasher.finish());
}

impl Target for Pipeline {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let now = self.now();
        let left = Budget::expected(request.expires().since(now));
        let rounds = request.payload.first().map_or(1, |&rounds| rounds.into());
        let (answer, receipts) = (Answer::Ok, Vec::with_capacity(STAGES.len()));
        let deadline = Deadline::at(now, left);
        let job = Job { tag: request.tag, born: request.scheduled, deadline, rounds, answer, receipts };
        self.jobs.send((now, job)).map_err(|_| "gone")
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        for (_, job) in self.waiting.take().into_iter().chain(self.answers.try_iter()) {
            let received = clock::now();
            let stages = job.receipts.iter().zip(STAGES).map(|(receipt, (name, _))| StageReceipt {
                name,
                depth: 0,
                sent: receipt.arrived.since(job.born),
                network: Duration::ZERO,
                queue: receipt.begun.since(receipt.arrived),
                service: receipt.ended.since(receipt.begun),
                total: receipt.ended.since(receipt.arrived),
            });
            let stages: Vec<_> = stages.collect();
            sink(Reply { tag: job.tag, received, answer: job.answer, stages: &stages });
        }
    }

    fn wait(&mut self, until: Time) {
        if self.waiting.is_none() {
            self.waiting = self.answers.recv_timeout(until.since(clock::now())).ok();
        }
    }
}
