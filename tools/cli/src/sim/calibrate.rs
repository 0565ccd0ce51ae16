//! `greenwave sim calibrate`: what the runtime costs on this machine.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use greenwave::{Order, Wait};
use greenwave_bench::machine::Machine;
use greenwave_bench::progress::Progress;
use greenwave_quanta::{Coroutine, StackPool, StackSize, is_instrumented, probed, suspend};
use greenwave_sim::calibration::{BETWEEN_PROBES, Calibration, Measured, StretchBy};

use super::parts::Parts;
use super::spinning::{Spinning, take_cores};
use crate::problem::Problem;
use crate::quantity;
use crate::tune::disk;

/// Measure what the runtime costs on this machine, for simulations to go by
#[derive(Args)]
#[command(after_help = "\
Takes some seconds, and two cores: a server's, and its caller's. Medians are what simulations go by; beside them is what nine
tenths lay between. What else runs meanwhile is measured too, so measure on a machine that is otherwise idle.

By how much work takes longer for its probes, once `cargo quanta` has built a service, follows from what a probe takes and from how
far apart the pass puts them in a loop: 64 simple instructions, each of which waits for the one before it. If `cargo quanta` has
built this command, the same work with probes and without is timed in place of that. --stretch says it instead.

A file for `greenwave sim` takes its costs from it with
  [cores]
  scheme = \"heads\"
  costs = { file = \"machine.toml\" }

Examples:
  greenwave sim calibrate -o machine.toml
  greenwave sim calibrate --data /var/lib/kv -o machine.toml        the disk below that directory
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --load 50k/s")]
pub(super) struct Calibrate {
    /// Where it is written to; without it, it is printed
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure syncs of the disk by a file in this directory that is removed again [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// By how much work takes longer for its probes, as `cargo xtask bench preempt` measures it of programs: 0.03, or 3% [default: by
    /// what a probe takes]
    #[arg(long, value_name = "SHARE", value_parser = quantity::share)]
    stretch: Option<f64>,
}

/// How long each thing is measured that isn't a server's.
const TIME: Duration = Duration::from_millis(300);

/// Passes over what a server costs.
const PASSES: usize = 12;

/// How many rounds or syscalls are one sample.
const BATCH: u32 = 1000;

impl Calibrate {
    pub(super) fn run(self) -> Result<(), Problem> {
        if let Some(stretch) = self.stretch.filter(|stretch| *stretch > 1.0) {
            return Err(Problem::wrong_use(format!("--stretch is {stretch}; allowed: 0 to 1")));
        }
        let mut made = Calibration::new(Machine::this().describe(), is_instrumented());
        let core = take_cores()?;
        let mut progress = Progress::new(5);
        progress.step("switches between coroutines");
        made.switch_ns = Measured::of(switches()?);
        progress.step("probes");
        made.probe_ns = Measured::of(probes());
        made.instruction_ns = Measured::of(instructions());
        (made.stretch, made.stretch_by) = match self.stretch {
            Some(stretch) => (stretch, StretchBy::Said),
            None if is_instrumented() => (timed(), StretchBy::Timing),
            None => (made.stretch_of_probes(), StretchBy::Probes),
        };
        progress.step("a server and who calls it");
        let mut parts = Parts::default();
        for pass in 0..PASSES {
            parts.pass(core)?;
            progress.show((pass + 1) as f64 / PASSES as f64, 0);
        }
        parts.calmest().fit(&mut made);
        progress.step("a server that sleeps");
        let mut sleeping = Spinning::start(core, Wait::Block, Order::default(), None)?;
        sleeping.closed(TIME / 3, 1, &[Duration::ZERO])?;
        let woken = sleeping.closed(TIME, 1, &[Duration::ZERO])?;
        drop(sleeping);
        let more = |took: f64| (took - made.null_call_ns.median).max(0.0);
        made.wake_ns = Measured::of(woken.into_iter().map(more).collect());
        progress.step("syncs of the disk");
        let directory = self.data.unwrap_or_else(std::env::temp_dir);
        let refused = |error| {
            let problem = Problem::failure(format!("the disk can't be measured: {error}")).at(directory.display());
            problem.remedy("name a directory with --data that can be written")
        };
        let syncs = disk::small_syncs(&directory).map_err(refused)?;
        made.sync_ns = Measured::of(syncs.iter().map(|took| took.as_nanos() as f64).collect());
        drop(progress);
        super::write(self.out.as_ref(), &made.to_text())?;
        told(&made);
        Ok(())
    }
}

/// What it takes to a coroutine and back.
fn switches() -> Result<Vec<f64>, Problem> {
    let stack = StackPool::new(StackSize::default(), 1).take().map_err(Problem::failure)?;
    let mut coroutine = Coroutine::new(stack, || while suspend().is_ok() {});
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < TIME || samples.is_empty() {
        let since = Instant::now();
        for _ in 0..BATCH {
            black_box(coroutine.resume());
        }
        samples.push(since.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    Ok(samples)
}

/// What a probe does as a rule: takes something from what the thread may still do, and sees whether anything is left. Made by hand,
/// so that it is the same in any build.
fn probes() -> Vec<f64> {
    thread_local!(static LEFT: std::cell::Cell<i64> = const { std::cell::Cell::new(i64::MAX) });
    let time = |probe: bool| {
        let since = Instant::now();
        for step in 0..BATCH {
            black_box(step);
            if probe {
                let left = LEFT.get() - i64::from(black_box(1_u8));
                LEFT.set(left);
                if left < 0 {
                    black_box(left);
                }
            }
        }
        since.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    let (mut samples, began) = (Vec::new(), Instant::now());
    while began.elapsed() < TIME / 3 || samples.is_empty() {
        let (without, with) = (time(black_box(false)), time(black_box(true)));
        samples.push((with - without).max(0.0));
    }
    samples
}

/// What a simple instruction takes that waits for the one before it.
fn instructions() -> Vec<f64> {
    /// Shifts and exclusive ors of a step.
    const OF_STEP: u32 = 6;
    let (mut samples, began) = (Vec::new(), Instant::now());
    let mut state = black_box(1_u64);
    while began.elapsed() < TIME / 3 || samples.is_empty() {
        let since = Instant::now();
        for _ in 0..BATCH {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        state = black_box(state);
        samples.push(since.elapsed().as_nanos() as f64 / f64::from(BATCH * OF_STEP));
    }
    samples
}

/// By how much work takes longer with probes than without, in a program that has them: 0 to 1.
fn timed() -> f64 {
    let (mut ratios, began) = (Vec::new(), Instant::now());
    while began.elapsed() < TIME || ratios.is_empty() {
        let time = |work: fn(u64) -> u64| {
            let since = Instant::now();
            black_box(work(black_box(u64::from(BATCH))));
            since.elapsed().as_nanos() as f64
        };
        let (with, without) = (time(probed::with_probes), time(probed::without_probes));
        ratios.push(with / without.max(1.0));
    }
    (Measured::of(ratios).median - 1.0).clamp(0.0, 1.0)
}

/// What was measured, on standard error.
fn told(made: &Calibration) {
    tell!("{}", made.machine);
    let spread = |of: &Measured| of.high > 3.0 * of.median;
    if [&made.look_ns, &made.post_ns, &made.null_call_ns].into_iter().any(spread) {
        tell!("warning: others used the machine meanwhile, as the spreads show; calibrate again when it is idle");
    }
    let line = |name: &str, measured: &Measured| {
        let Measured { median, low, high, count } = *measured;
        tell!("  {name:<34} {median:>9.0} ns  ({low:.0} to {high:.0}, {count} samples)");
    };
    line("switch to a coroutine and back", &made.switch_ns);
    tell!("  {:<34} {:>9.2} ns  (by hand)", "probe", made.probe_ns.median);
    tell!("  {:<34} {:>9.2} ns", "instruction that waits for another", made.instruction_ns.median);
    let by = match made.stretch_by {
        StretchBy::Said => "as was said".to_owned(),
        StretchBy::Probes => format!("a probe every {BETWEEN_PROBES} instructions"),
        StretchBy::Timing => "the same work with probes and without".to_owned(),
    };
    tell!("  {:<34} {:>9.2} %  ({by})", "work is longer for its probes by", 100.0 * made.stretch);
    line("look of the event loop", &made.look_ns);
    tell!("  {:<34} {:>9.0} ns", "look that finds nothing", made.look_empty_ns);
    line("post of the event loop", &made.post_ns);
    tell!("  {:<34} {:>9.0} and {:.0} ns", "each call adds to look and post", made.look_each_ns, made.post_each_ns);
    line("rest of a call", &made.call_ns);
    tell!("  {:<34} {:>9.0} ns", "a handler's own call adds", made.ask_ns);
    tell!("  {:<34} {:>9.0} and {:.0} ns", "another end adds to look and post", made.look_end_ns, made.post_end_ns);
    tell!("  {:<34} {:>9.0} and {:.0} ns", "rest of a turn, and for itself", made.round_ns, made.own_ns);
    line("handler that does nothing", &made.handler_ns);
    line("null call over TCP", &made.null_call_ns);
    line("its caller's send", &made.send_ns);
    line("its caller's receive", &made.receive_ns);
    tell!(
        "  {:<34} {:>9.0} and {:.0} ns",
        "each call adds to send and receive",
        made.send_each_ns,
        made.receive_each_ns
    );
    line("waking a server that sleeps", &made.wake_ns);
    line("sync of 4 KiB", &made.sync_ns);
    let others: f64 = made.pauses.iter().map(|(nanos, count)| *nanos as f64 * *count as f64).sum();
    let count: u64 = made.pauses.iter().map(|(_, count)| count).sum();
    let mean = others / count.max(1) as f64;
    let share = made.pauses_per_s * mean / (1e9 + made.pauses_per_s * mean);
    tell!(
        "  {:<34} {:>9.0} ns, {:.0} times a second: {:.2} % of a core",
        "others take a core for",
        mean,
        made.pauses_per_s,
        100.0 * share
    );
}
