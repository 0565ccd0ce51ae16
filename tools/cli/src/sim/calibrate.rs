//! `greenwave sim calibrate`: what the runtime costs on this machine.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use greenwave::{Order, Snapshot, Wait};
use greenwave_bench::machine::Machine;
use greenwave_bench::progress::Progress;
use greenwave_quanta::{Coroutine, StackPool, StackSize, is_instrumented, suspend};
use greenwave_sim::calibration::{Calibration, Measured};
use greenwave_sim::cores::Costs;

use super::spinning::{Spinning, take_cores};
use crate::problem::Problem;
use crate::quantity;
use crate::tune::disk;

/// Measure what the runtime costs on this machine, for simulations to go by
#[derive(Args)]
#[command(after_help = "\
Takes some seconds, and two cores: a server's, and its caller's. Medians are what simulations go by; beside them is what nine
tenths lay between. What else runs meanwhile is measured too, so measure on a machine that is otherwise idle.

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
    /// By how much work takes longer for its probes, as `cargo xtask bench preempt` measures it of programs: 0.03, or 3%
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = quantity::share)]
    stretch: f64,
}

/// How long each thing is measured.
const TIME: Duration = Duration::from_millis(300);

/// Into how many parts of a time what a server counts is divided. The third that is calmest counts: a thread that others keep from
/// its core is kept from it for some milliseconds.
const PARTS: usize = 150;

/// A handler that does nothing.
const ALONE: &[Duration] = &[Duration::ZERO];

/// Calls under way while a server is never idle.
const MANY: u64 = 64;

/// What handlers compute for then, so that it is the server that is waited for: by the server's pacing many short calls have a look
/// and a post together, and few long ones.
const SHORT: Duration = Duration::from_micros(3);
const LONG: Duration = Duration::from_micros(60);

/// How many rounds or syscalls are one sample.
const BATCH: u32 = 1000;

impl Calibrate {
    pub(super) fn run(self) -> Result<(), Problem> {
        if self.stretch > 1.0 {
            return Err(Problem::wrong_use(format!("--stretch is {}; allowed: 0 to 1", self.stretch)));
        }
        let mut made = Calibration::new(Machine::this().describe(), is_instrumented());
        let core = take_cores()?;
        let mut progress = Progress::new(6);
        made.stretch = self.stretch;
        progress.step("switches between coroutines");
        made.switch_ns = Measured::of(switches()?);
        progress.step("probes");
        made.probe_ns = Measured::of(probes());
        progress.step("calls that do nothing, one at a time");
        let mut spinning = Spinning::start(core, Wait::Spin, Order::default(), None)?;
        spinning.closed(TIME / 3, 1, ALONE)?;
        let alone = empty_look(&spinning);
        let lone = Lone::measure(&mut spinning)?;
        progress.step("a server that is never idle");
        let few = Crowd::measure(&mut spinning, &[LONG])?;
        let many = Crowd::measure(&mut spinning, &[SHORT])?;
        let asking = Crowd::measure(&mut spinning, &[SHORT, SHORT])?;
        drop(spinning);
        fit(&mut made, alone, &lone, &few, &many);
        made.ask_ns = ask(&made.costs(), &asking);
        progress.step("a server that sleeps");
        let mut sleeping = Spinning::start(core, Wait::Block, Order::default(), None)?;
        sleeping.closed(TIME / 3, 1, ALONE)?;
        let woken = sleeping.closed(TIME, 1, ALONE)?;
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

/// Calls one at a time, to a server that looks on without sleeping.
struct Lone {
    took: Vec<f64>,
    parts: Vec<Counted>,
}

/// Many calls at a time, each with work.
struct Crowd {
    parts: Vec<Counted>,
}

/// What a server counted for some calls.
#[derive(Clone, Copy)]
struct Counted {
    wall: f64,
    calls: f64,
    looks: f64,
    look_ns: f64,
    posts: f64,
    post_ns: f64,
    service_ns: f64,
}

impl Lone {
    fn measure(spinning: &mut Spinning) -> Result<Self, Problem> {
        let parts: Result<Vec<_>, _> = (0..PARTS).map(|_| Counted::during(spinning, 1, ALONE)).collect();
        let (parts, took): (Vec<_>, Vec<_>) = calm(parts?, |(counted, _)| counted).into_iter().unzip();
        Ok(Self { took: took.concat(), parts })
    }
}

impl Crowd {
    fn measure(spinning: &mut Spinning, works: &[Duration]) -> Result<Self, Problem> {
        spinning.closed(TIME / 3, MANY, works)?;
        let parts = (0..PARTS).map(|_| Counted::during(spinning, MANY, works).map(|(counted, _)| counted));
        Ok(Self { parts: calm(parts.collect::<Result<_, _>>()?, |counted| counted) })
    }

    fn each(&self, pair: impl Fn(&Counted) -> (f64, f64)) -> Vec<(f64, f64)> {
        self.parts.iter().map(pair).collect()
    }
}

impl Counted {
    fn during(spinning: &mut Spinning, in_flight: u64, works: &[Duration]) -> Result<(Self, Vec<f64>), Problem> {
        let (began, before) = (Instant::now(), spinning.server.counters());
        let took = spinning.closed(TIME / PARTS as u32, in_flight, works)?;
        Ok((Self::between(&before, &spinning.server.counters(), began.elapsed()), took))
    }

    fn between(before: &Snapshot, after: &Snapshot, wall: Duration) -> Self {
        let more = |of: fn(&Snapshot) -> u64| of(after).wrapping_sub(of(before)) as f64;
        Self {
            wall: wall.as_nanos() as f64,
            calls: more(|it| it.calls).max(1.0),
            looks: more(|it| it.looks).max(1.0),
            look_ns: more(|it| it.look_nanos),
            posts: more(|it| it.posts).max(1.0),
            post_ns: more(|it| it.post_nanos),
            service_ns: more(|it| it.service_nanos),
        }
    }
}

/// The third of the parts in which calls took least: in others somebody else had the core.
fn calm<T>(mut parts: Vec<T>, counted: impl Fn(&T) -> &Counted) -> Vec<T> {
    let each = |part: &T| counted(part).wall / counted(part).calls;
    parts.sort_by(|one, other| each(one).total_cmp(&each(other)));
    parts.truncate(parts.len().div_ceil(3));
    parts
}

/// What a look takes that finds nothing.
fn empty_look(spinning: &Spinning) -> f64 {
    let before = spinning.server.counters();
    std::thread::sleep(TIME / 3);
    let counted = Counted::between(&before, &spinning.server.counters(), TIME / 3);
    counted.look_ns / counted.looks
}

/// What a look, a post and a call cost alone and each: by two loads under which the server is never idle, one with few calls to a
/// look and a post, and one with many. Where it waits for calls, what its many looks that find nothing take would be all that is
/// seen.
fn fit(made: &mut Calibration, empty: f64, lone: &Lone, few: &Crowd, many: &Crowd) {
    made.null_call_ns = Measured::of(lone.took.clone());
    made.null_calls = histogram(&lone.took);
    made.look_empty_ns = empty;
    made.handler_ns = Measured::of(lone.parts.iter().map(|part| part.service_ns / part.calls).collect());
    let looks = |of: &Crowd| of.each(|part| (part.calls / part.looks, part.look_ns / part.looks));
    let posts = |of: &Crowd| of.each(|part| (part.calls / part.posts, part.post_ns / part.posts));
    (made.look_ns, made.look_each_ns) = apart(&looks(few), &looks(many));
    (made.post_ns, made.post_each_ns) = apart(&posts(few), &posts(many));
    let rest = |part: &Counted| ((part.wall - part.look_ns - part.post_ns - part.service_ns) / part.calls).max(0.0);
    made.call_ns = Measured::of(many.parts.iter().map(rest).collect());
}

/// What a call that a handler makes takes of its head beside what calls do, looks and posts among them: what is left of calls with
/// two stages. By costs that don't have it yet.
fn ask(costs: &Costs, asking: &Crowd) -> f64 {
    let nanos = |span: Duration| span.as_nanos() as f64;
    let known = 2.0 * nanos(SHORT) + costs.call_ns(2);
    let rest = |part: &Counted| {
        let alone = part.looks * nanos(costs.event_loop.look) + part.posts * nanos(costs.event_loop.post);
        // Its server counts both stages' calls.
        (part.wall - alone) / (part.calls / 2.0) - known
    };
    Measured::of(asking.parts.iter().map(rest).collect()).median.max(0.0)
}

/// What is alone, and what each adds, of pairs of how many there were and what it took: it took `alone + many * each`.
fn apart(few: &[(f64, f64)], many: &[(f64, f64)]) -> (Measured, f64) {
    let median = |pairs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| Measured::of(pairs.iter().map(of).collect()).median;
    let (carried, took) = (median(few, |pair| pair.0), median(few, |pair| pair.1));
    let more = median(many, |pair| pair.0) - carried;
    // Where there are hardly more, nothing tells them apart.
    let each = if more > 1.0 { (median(many, |pair| pair.1) - took) / more } else { 0.0 };
    let each = each.clamp(0.0, took / carried.max(1.0));
    (Measured::of(few.iter().map(|(carried, took)| (took - carried * each).max(0.0)).collect()), each)
}

/// Lengths and how many there are, within some hundredths.
fn histogram(took: &[f64]) -> Vec<(u64, u64)> {
    let mut spans: Vec<u64> = took.iter().map(|nanos| round(*nanos as u64)).collect();
    spans.sort_unstable();
    spans.chunk_by(|one, next| one == next).map(|alike| (alike[0], alike.len() as u64)).collect()
}

/// To six binary digits.
fn round(nanos: u64) -> u64 {
    let shift = (64 - nanos.leading_zeros()).saturating_sub(6);
    (nanos >> shift) << shift
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
    tell!(
        "  {:<34} {:>9.1} ns  (by hand; work is taken to be {:.1} % longer)",
        "probe",
        made.probe_ns.median,
        100.0 * made.stretch
    );
    line("look of the event loop", &made.look_ns);
    tell!("  {:<34} {:>9.0} ns", "look that finds nothing", made.look_empty_ns);
    line("post of the event loop", &made.post_ns);
    tell!("  {:<34} {:>9.0} and {:.0} ns", "each call adds to look and post", made.look_each_ns, made.post_each_ns);
    line("rest of a call", &made.call_ns);
    tell!("  {:<34} {:>9.0} ns", "a handler's own call adds", made.ask_ns);
    line("handler that does nothing", &made.handler_ns);
    line("null call over TCP", &made.null_call_ns);
    line("waking a server that sleeps", &made.wake_ns);
    line("sync of 4 KiB", &made.sync_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_within_some_hundredths() {
        assert_eq!(histogram(&[7.0, 7.0, 1000.0, 1001.0]), [(7, 2), (992, 2)]);
        assert!((0..1_000_000).step_by(777).all(|nanos| nanos - round(nanos) <= nanos / 32));
    }

    #[test]
    fn what_is_alone_and_each_is_told_apart() {
        let part = |calls: f64, batch: f64| Counted {
            wall: 1e6,
            calls,
            looks: calls / batch,
            look_ns: calls / batch * 1000.0 + calls * 40.0,
            posts: calls / batch,
            post_ns: calls / batch * 4000.0 + calls * 90.0,
            service_ns: calls * 120.0,
        };
        let lone = Lone { took: vec![20_000.0; 9], parts: vec![part(50.0, 1.0); 3] };
        let crowd = |batch| Crowd { parts: vec![part(400.0, batch); 3] };
        let mut made = Calibration::new(String::new(), false);
        fit(&mut made, 50.0, &lone, &crowd(2.0), &crowd(30.0));
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1.0, "{value} for {expected}");
        near(made.look_ns.median, 1000.0);
        near(made.look_each_ns, 40.0);
        near(made.post_ns.median, 4000.0);
        near(made.post_each_ns, 90.0);
        near(made.handler_ns.median, 120.0);
        let mut asking = part(400.0, 8.0);
        let costs = made.costs();
        let rest = 1e6 - 50.0 * 5000.0;
        let known = 6000.0 + 3.0 * 130.0 + 3.0 * costs.switch.as_nanos() as f64 + 2.0 * costs.io.as_nanos() as f64;
        near(ask(&costs, &Crowd { parts: vec![asking; 3] }), (rest / 200.0 - known).max(0.0));
        asking.wall += 200.0 * 10_000.0;
        near(ask(&costs, &Crowd { parts: vec![asking; 3] }), (rest / 200.0 - known + 10_000.0).max(0.0));
    }
}
