//! One window: a plan, run by a system.
//!
//! The protocol of the two threads:
//! 1. The worker gets ready, so that its stacks are there and touched; then both wait for one another.
//! 2. The dispatcher gives each job at its time, or as soon after it as there is room, and closes the ring after the last.
//! 3. A job that ends writes the time into its own slot of `ENDS`, which nobody else writes to.
//! 4. The worker ends when the ring is closed and everything is finished, or at the time at which both give up.
//! 5. The slots are read when the worker has been joined.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use greenwave_bench::pin::Cores;
use greenwave_bench::{clock, pin};
use greenwave_policy::{Budget, Deadline, Order, Time, Urgency};
use greenwave_quanta::ring::{Consumer, ring};
use greenwave_quanta::scheduler::Event;
use greenwave_quanta::{Quantum, StackSize, Worker};

use crate::interruptions;
use crate::plan::Plan;
use crate::system::{DEADLINE, System};
use crate::task::Task;
use crate::tokio_worker;

/// Jobs that a worker takes from the ring before one of them has to be finished: more than ever are there at a load that
/// it can serve, and few enough that their stacks stay in the cache.
const MOST: usize = 256;

/// Room in the ring.
const RING: usize = 1024;

/// Jobs of the longest plan.
const LONGEST: usize = 1 << 21;

/// How long after the last job is due unfinished ones are waited for, at least.
const DRAIN: Duration = Duration::from_millis(100);

/// How long after that the worker may take to end: what it had begun it finishes.
const STUCK: Duration = Duration::from_secs(10);

/// When the job in each slot ended, in nanoseconds of the clock; 0 if it didn't, [`FAILED`] if its work couldn't be done.
static ENDS: OnceLock<Vec<AtomicU64>> = OnceLock::new();

const FAILED: u64 = u64::MAX;

/// What became of a plan's jobs.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// For each job, in the plan's order: how long after its scheduled time it ended; `None` if it didn't.
    pub(crate) latencies: Vec<Option<Duration>>,
    /// From the start to the end of the last.
    pub(crate) took: Duration,
    /// How often the kernel took the core away from one of the two threads, from the start until both had ended.
    pub(crate) interruptions: u64,
}

impl Outcome {
    /// Jobs ended a second, over the whole time that it took.
    pub(crate) fn per_second(&self) -> f64 {
        let ended = self.latencies.iter().flatten().count() as f64;
        ended / self.took.max(Duration::from_nanos(1)).as_secs_f64()
    }
}

/// A job as the worker sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedJob {
    pub(crate) task: Task,
    slot: u32,
    class: u8,
    scheduled: Time,
}

impl greenwave_quanta::Job for QueuedJob {
    fn run(self) {
        let done = self.task.run();
        let end = if done.is_ok() { clock::now().as_nanos() } else { FAILED };
        if let Some(slot) = ends().get(self.slot as usize) {
            slot.store(end, Ordering::Relaxed);
        }
    }

    fn kind(&self) -> Option<usize> {
        Some(self.class.into())
    }
}

/// Runs a plan, with the dispatcher on the first of the cores and the worker on the second.
///
/// # Errors
/// When a thread can't be pinned, a job's work can't be done, or there is no memory for stacks.
pub(crate) fn run(plan: &Plan, system: System, cores: Cores) -> anyhow::Result<Outcome> {
    // The slots are the process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _others_wait = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let jobs = plan.arrivals.len();
    ensure!(jobs <= LONGEST, "a window of {jobs} jobs; at most {LONGEST} are possible, so make it shorter");
    ends()[..jobs].iter().for_each(|end| end.store(0, Ordering::Relaxed));
    pin::this_thread(cores.server)?;
    let shared = Shared { ready: Barrier::new(2), closed: AtomicBool::new(false), give_up: AtomicU64::new(u64::MAX) };
    let (shared, service) = (&shared, &plan.service[..]);
    let (start, interruptions) = thread::scope(|scope| {
        let (worker, dispatched) = match system.order() {
            Some((order, quantum)) => {
                let (mut sender, inbox) = ring(RING);
                let ready = move || ready_worker(order, quantum);
                let worker = scope
                    .spawn(move || on_core(cores.client, shared, ready, |worker| work(worker, inbox, shared, service)));
                (worker, dispatch(plan, shared, |job| sender.push(job)))
            }
            None => {
                let (sender, inbox) = tokio_worker::channel();
                let worker =
                    scope.spawn(move || on_core(cores.client, shared, || (), |()| tokio_worker::work(inbox, shared)));
                (worker, dispatch(plan, shared, |job| sender.send(job).map_err(|back| back.0)))
            }
        };
        await_end(&worker, shared, system);
        let of_worker = worker.join().unwrap_or_else(|_| bail!("the worker's thread panicked"))?;
        anyhow::Ok((dispatched.0, dispatched.1 + of_worker))
    })?;
    outcome(plan, start, interruptions)
}

/// Gets ready on a core and works when the dispatcher is ready too; how often it was interrupted.
fn on_core<W>(
    core: usize,
    shared: &Shared,
    ready: impl FnOnce() -> W,
    work: impl FnOnce(W) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let pinned = pin::this_thread(core);
    let worker = ready();
    shared.ready.wait();
    let before = interruptions::of_this_thread();
    pinned.and_then(|()| work(worker)).map(|()| interruptions::of_this_thread() - before)
}

/// What the two threads share beside the ring.
pub(crate) struct Shared {
    ready: Barrier,
    closed: AtomicBool,
    give_up: AtomicU64,
}

impl Shared {
    /// Whether no job will come any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether it is too late to finish anything.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now.as_nanos() > self.give_up.load(Ordering::Relaxed)
    }
}

/// Gives every job at its time; returns when the first could have been due, and how often it was interrupted.
fn dispatch(plan: &Plan, shared: &Shared, mut give: impl FnMut(QueuedJob) -> Result<(), QueuedJob>) -> (Time, u64) {
    shared.ready.wait();
    let before = interruptions::of_this_thread();
    let start = clock::now() + Duration::from_millis(1);
    let work: Duration = plan.arrivals.iter().map(|arrival| plan.service[usize::from(arrival.class)]).sum();
    // Ten times as long as all the work takes that could be left.
    let patience = if plan.length.is_zero() { 10 * work } else { plan.length };
    let give_up = start + plan.length + DRAIN.max(patience);
    shared.give_up.store(give_up.as_nanos(), Ordering::Relaxed);
    'all: for (slot, arrival) in plan.arrivals.iter().enumerate() {
        let scheduled = start + arrival.at;
        let mut now = clock::now();
        while now < scheduled {
            spin_loop();
            now = clock::now();
        }
        let mut job = QueuedJob { task: arrival.task, slot: slot as u32, class: arrival.class, scheduled };
        while let Err(back) = give(job) {
            job = back;
            spin_loop();
            if shared.is_over(clock::now()) {
                break 'all;
            }
        }
    }
    shared.closed.store(true, Ordering::Release);
    (start, interruptions::of_this_thread() - before)
}

/// Waits until the worker has ended. One that has not long after it was to give up never will, and the process ends: it
/// is stuck in the kernel, in a lock whose holder it has preempted.
fn await_end<T>(worker: &ScopedJoinHandle<'_, T>, shared: &Shared, system: System) {
    let end = Time::from_nanos(shared.give_up.load(Ordering::Relaxed)) + STUCK;
    while !worker.is_finished() {
        if clock::now() > end {
            eprintln!(
                "error: the worker is stuck ({}); were all its waits for locks built by cargo quanta?",
                system.name()
            );
            std::process::exit(1);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A worker whose stacks are there: as many as may be needed have been entered at the same time.
fn ready_worker(order: Order, quantum: Quantum) -> Worker<QueuedJob> {
    let mut worker = Worker::new(order, quantum, StackSize::at_least(128 << 10), MOST);
    let touch = QueuedJob { task: Task::GiveWay, slot: u32::MAX, class: 0, scheduled: Time::ZERO };
    (0..MOST).for_each(|_| _ = worker.add(worker.now(), Urgency::default(), touch));
    let mut entered = Vec::with_capacity(MOST);
    while worker.unfinished() > 0 {
        match worker.run_one(worker.now()) {
            Event::Suspended(job) => entered.push(job),
            // All are in.
            Event::Idle => entered.drain(..).for_each(|job| worker.resume(Time::ZERO, job)),
            _ => {}
        }
    }
    worker
}

fn work(
    mut worker: Worker<QueuedJob>,
    mut inbox: Consumer<QueuedJob>,
    shared: &Shared,
    service: &[Duration],
) -> anyhow::Result<()> {
    let mut steps = 0_u32;
    worker.clock();
    loop {
        while worker.unfinished() < MOST
            && let Some(job) = inbox.pop()
        {
            worker.add(worker.now(), urgency(&job, service), job);
        }
        steps = steps.wrapping_add(1);
        match worker.run_one(worker.now()) {
            Event::Idle => {
                let now = worker.clock();
                let finished = shared.is_closed() && inbox.is_empty() && worker.unfinished() == 0;
                if finished || shared.is_over(now) {
                    return Ok(());
                }
                spin_loop();
            }
            Event::Suspended(job) => worker.resume(worker.now(), job),
            Event::Panicked(_, message) => bail!("a job panicked: {message}"),
            Event::NoStack(_, error) => return Err(error).context("no stack for a job; raise vm.max_map_count"),
            Event::Preempted(_) | Event::Finished(_) | Event::Waits(_) => {
                if steps.is_multiple_of(1024) && shared.is_over(worker.now()) {
                    return Ok(());
                }
            }
        }
    }
}

fn urgency(job: &QueuedJob, service: &[Duration]) -> Urgency {
    let here = service[usize::from(job.class)];
    let deadline = Deadline::at(job.scheduled, Budget::expected(here * DEADLINE));
    Urgency { arrived: job.scheduled, birth: job.scheduled, deadline, here, ..Urgency::default() }
}

fn outcome(plan: &Plan, start: Time, interruptions: u64) -> anyhow::Result<Outcome> {
    let mut last = start;
    let mut latencies = Vec::with_capacity(plan.arrivals.len());
    for (arrival, end) in plan.arrivals.iter().zip(ends()) {
        let end = end.load(Ordering::Relaxed);
        ensure!(end != FAILED, "a job couldn't read its store; is there room in {}?", std::env::temp_dir().display());
        let end = (end > 0).then(|| Time::from_nanos(end));
        last = last.max(end.unwrap_or(start));
        latencies.push(end.map(|end| end.since(start + arrival.at)));
    }
    Ok(Outcome { latencies, took: last.since(start), interruptions })
}

fn ends() -> &'static [AtomicU64] {
    ENDS.get_or_init(|| (0..LONGEST).map(|_| AtomicU64::new(0)).collect())
}
