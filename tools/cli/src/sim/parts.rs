//! What a server counted while it was called, in many short parts of the time, and the costs that come of it.
//!
//! Others use the machine at times, and it isn't always as fast. So parts are short, passes lie apart, and medians count.

use std::time::{Duration, Instant};

use greenwave::{Order, Snapshot, Wait};
use greenwave_bench::{clock, pin};
use greenwave_sim::calibration::{Calibration, Measured};

use super::spinning::Spinning;
use crate::problem::Problem;

/// How long each part of a pass takes, and how many there are of each kind.
const PART: Duration = Duration::from_millis(2);
const PARTS: usize = 10;

/// For how long it is watched at a time who else has a core, and how long a pause is at least: interrupts are shorter.
const WATCH: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_micros(10);

/// A handler that does nothing.
const ALONE: &[Duration] = &[Duration::ZERO];

/// Calls under way while a server is never idle.
const MANY: u64 = 64;

/// Calls that are sent together to see what each adds.
const TOGETHER: u64 = 32;

/// What handlers compute for then, so that it is the server that is waited for: by the server's pacing many short calls have a look
/// and a post together, and few long ones.
const SHORT: Duration = Duration::from_micros(3);
const LONG: Duration = Duration::from_micros(60);

/// By how many ends of connections calls come to a server whose handlers call itself, and by how many replies and calls go.
const ENDS: f64 = 3.0;

/// What was counted in all passes.
#[derive(Default)]
pub(super) struct Parts {
    /// Calls one at a time, to a server that looks on without sleeping, with what each took.
    lone: Vec<(Counted, Vec<f64>)>,
    /// The same of calls whose handler calls the server itself.
    chained: Vec<(Counted, Vec<f64>)>,
    /// Many calls at a time, each with long work, with short work, and with short work in each of two stages.
    few: Vec<Counted>,
    many: Vec<Counted>,
    asking: Vec<Counted>,
    /// What the caller took to send and to receive one call, and several together.
    one: Vec<(f64, f64)>,
    several: Vec<(f64, f64)>,
    /// What looks took that found nothing.
    empty: Vec<f64>,
    /// How long others had a core that somebody used, each time, and over how much time of cores it was seen.
    pauses: Vec<f64>,
    watched: Duration,
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

impl Parts {
    /// Another pass: watches who else has the cores, the caller's, on which this thread is, and `core`; then starts a server there,
    /// and counts for a fifth of a second.
    ///
    /// # Errors
    /// When a server can't be started, or a call fails.
    pub(super) fn pass(&mut self, core: usize) -> Result<(), Problem> {
        self.watch(core)?;
        self.count(&mut Spinning::start(core, Wait::Spin, Order::default(), None)?)
    }

    /// Watches for how long others take two cores: the caller's, on which this thread is, and the server's, which has nothing to do
    /// meanwhile but is no server's yet.
    ///
    /// # Errors
    /// When there is no thread for it.
    fn watch(&mut self, core: usize) -> Result<(), Problem> {
        let other = std::thread::Builder::new().spawn(move || pin::this_thread(core).map(|()| pauses()));
        self.pauses.extend(pauses());
        let others = other.map_err(Problem::failure)?.join().map_err(|_| Problem::failure("a thread has died"))?;
        self.pauses.extend(others.map_err(Problem::failure)?);
        self.watched += 2 * WATCH;
        Ok(())
    }

    /// Counts what each kind of load asks of a server.
    ///
    /// # Errors
    /// When a call fails.
    fn count(&mut self, spinning: &mut Spinning) -> Result<(), Problem> {
        let before = spinning.server.counters();
        std::thread::sleep(PART);
        let idle = Counted::between(&before, &spinning.server.counters(), PART);
        self.empty.push(idle.look_ns / idle.looks);
        for (works, parts) in [(ALONE, &mut self.lone), (&[Duration::ZERO; 2], &mut self.chained)] {
            spinning.closed(PART, 1, works)?;
            for _ in 0..PARTS {
                parts.push(Counted::during(spinning, 1, works)?);
            }
        }
        for (works, parts) in
            [(&[LONG][..], &mut self.few), (&[SHORT], &mut self.many), (&[SHORT, SHORT], &mut self.asking)]
        {
            spinning.closed(PART, MANY, works)?;
            for _ in 0..PARTS {
                parts.push(Counted::during(spinning, MANY, works)?.0);
            }
        }
        for (calls, took) in [(1, &mut self.one), (TOGETHER, &mut self.several)] {
            let end = Instant::now() + 5 * PART;
            while Instant::now() < end {
                took.push(spinning.together(calls)?);
            }
        }
        Ok(())
    }

    /// The third of the parts in which calls took least: in others somebody else had the core, or the machine was slower.
    pub(super) fn calmest(mut self) -> Self {
        fn calm<T>(parts: &mut Vec<T>, each: impl Fn(&T) -> f64) {
            parts.sort_by(|one, other| each(one).total_cmp(&each(other)));
            parts.truncate(parts.len().div_ceil(3));
        }
        let each = |part: &Counted| part.wall / part.calls;
        [&mut self.lone, &mut self.chained].into_iter().for_each(|parts| calm(parts, |(part, _)| each(part)));
        [&mut self.few, &mut self.many, &mut self.asking].into_iter().for_each(|parts| calm(parts, each));
        [&mut self.one, &mut self.several].into_iter().for_each(|took| calm(took, |(send, receive)| send + receive));
        calm(&mut self.empty, |took| *took);
        self
    }

    /// The costs that come of it: what a look, a post and a call cost alone and each, by two loads under which the server is never
    /// idle, one with few calls to a look and a post, and one with many. Where it waits for calls, what its many looks that find
    /// nothing take would be all that is seen.
    pub(super) fn fit(&self, made: &mut Calibration) {
        let took: Vec<f64> = self.lone.iter().flat_map(|(_, took)| took.iter().copied()).collect();
        made.null_calls = histogram(&took);
        made.null_call_ns = Measured::of(took);
        made.look_empty_ns = Measured::of(self.empty.clone()).median;
        (made.look_ns, made.look_each_ns) =
            apart(&self.few, &self.many, |part| (part.calls / part.looks, part.look_ns / part.looks));
        (made.post_ns, made.post_each_ns) =
            apart(&self.few, &self.many, |part| (part.calls / part.posts, part.post_ns / part.posts));
        let round = apart(&self.few, &self.many, |part| (part.calls / part.looks, part.rest() / part.looks)).0.median;
        let short = SHORT.as_nanos() as f64;
        made.handler_ns = each(&self.many, |part| part.service_ns / part.calls - short);
        made.call_ns = each(&self.many, |part| (part.rest() - part.looks * round) / part.calls);
        // What a lone call takes longer is its round's.
        let alone = Measured::of(self.lone.iter().map(|(part, _)| part.service_ns / part.calls).collect());
        made.round_ns = round + (alone.median - made.handler_ns.median).max(0.0);
        self.fit_ends(made, round);
        self.fit_caller(made);
        made.pauses = histogram(&self.pauses);
        let free = self.watched.as_secs_f64() - self.pauses.iter().sum::<f64>() / 1e9;
        made.pauses_per_s = if free > 0.0 { self.pauses.len() as f64 / free } else { 0.0 };
    }

    /// What a call that a handler makes takes of its head beside what calls do, and what it adds to a look and to a post that there
    /// is one more end of a connection by which something comes or goes.
    fn fit_ends(&self, made: &mut Calibration, round: f64) {
        let more = |each: f64, alone: f64, counted: fn(&Counted) -> (f64, f64)| {
            let beyond =
                self.asking.iter().map(counted).map(|(carried, took)| (took - carried * each - alone).max(0.0));
            Measured::of(beyond.collect()).median / (ENDS - 1.0)
        };
        // Its server counts both stages' calls, and each request has a reply that a handler waits for, too.
        let look = |part: &Counted| (1.5 * part.calls / part.looks, part.look_ns / part.looks);
        let post = |part: &Counted| (1.5 * part.calls / part.posts, part.post_ns / part.posts);
        made.look_end_ns = more(made.look_each_ns, made.look_ns.median, look);
        made.post_end_ns = more(made.post_each_ns, made.post_ns.median, post);
        let known = 2.0 * (SHORT.as_nanos() as f64 + made.handler_ns.median + made.call_ns.median);
        let asks = each(&self.asking, |part| {
            (part.rest() + part.service_ns - part.looks * round) / (part.calls / 2.0) - known
        });
        // Alone, a call that a handler makes takes twice a look and a post, a call, and what it takes of its handler. What it takes
        // beyond that is the way to the server itself, of which each look pays half, whatever it finds.
        let took = |parts: &[(Counted, Vec<f64>)]| {
            Measured::of(parts.iter().flat_map(|(_, took)| took.clone()).collect()).median
        };
        let turns = 2.0 * (made.look_ns.median + made.look_each_ns + round + made.post_ns.median + made.post_each_ns);
        let hop = turns + made.call_ns.median + made.handler_ns.median + asks.median;
        let beyond = (took(&self.chained) - took(&self.lone) - hop).max(0.0);
        // By so many looks for each request it is in what asks take, too.
        let looks = each(&self.asking, |part| part.looks / (part.calls / 2.0)).median;
        made.own_ns = beyond / (2.0 - looks).max(1.0);
        made.ask_ns = (asks.median - looks * made.own_ns).max(0.0);
    }

    /// What calls take of the thread that makes them: one alone, and several together.
    fn fit_caller(&self, made: &mut Calibration) {
        let of = |took: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| took.iter().map(which).collect::<Vec<f64>>();
        let fit = |which: fn(&(f64, f64)) -> f64| {
            let [one, several] = [&self.one, &self.several].map(|took| Measured::of(of(took, which)).median);
            let each = ((several - one) / (TOGETHER - 1) as f64).max(0.0);
            (Measured::of(of(&self.one, which).into_iter().map(|took| (took - each).max(0.0)).collect()), each)
        };
        (made.send_ns, made.send_each_ns) = fit(|took| took.0);
        (made.receive_ns, made.receive_each_ns) = fit(|took| took.1);
    }
}

impl Counted {
    fn during(spinning: &mut Spinning, in_flight: u64, works: &[Duration]) -> Result<(Self, Vec<f64>), Problem> {
        let (began, before) = (Instant::now(), spinning.server.counters());
        let took = spinning.closed(PART, in_flight, works)?;
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

    /// What was neither a look, a post nor a handler.
    fn rest(&self) -> f64 {
        self.wall - self.look_ns - self.post_ns - self.service_ns
    }
}

/// How long others had this thread's core, each time.
fn pauses() -> Vec<f64> {
    let (began, mut pauses) = (clock::now(), Vec::new());
    let mut last = began;
    while last.since(began) < WATCH {
        let now = clock::now();
        let gap = now.since(last);
        if gap >= PAUSE {
            pauses.push(gap.as_nanos() as f64);
        }
        last = now;
    }
    pauses
}

/// The same of each part; below nothing, it is nothing.
fn each(parts: &[Counted], of: impl Fn(&Counted) -> f64) -> Measured {
    Measured::of(parts.iter().map(|part| of(part).max(0.0)).collect())
}

/// What is alone, and what each adds, of how many there were and what it took: it took `alone + many * each`.
fn apart(few: &[Counted], many: &[Counted], pair: fn(&Counted) -> (f64, f64)) -> (Measured, f64) {
    let median = |parts: &[Counted], of: fn(&(f64, f64)) -> f64| {
        Measured::of(parts.iter().map(pair).map(|pair| of(&pair)).collect()).median
    };
    let (carried, took) = (median(few, |pair| pair.0), median(few, |pair| pair.1));
    let more = median(many, |pair| pair.0) - carried;
    // Where there are hardly more, nothing tells them apart.
    let each = if more > 1.0 { (median(many, |pair| pair.1) - took) / more } else { 0.0 };
    let each = each.clamp(0.0, took / carried.max(1.0));
    (Measured::of(few.iter().map(pair).map(|(carried, took)| (took - carried * each).max(0.0)).collect()), each)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_within_some_hundredths() {
        assert_eq!(histogram(&[7.0, 7.0, 1000.0, 1001.0]), [(7, 2), (992, 2)]);
        assert!((0..1_000_000).step_by(777).all(|nanos| nanos - round(nanos) <= nanos / 32));
    }

    /// Parts as a server counts them that has given costs.
    fn parts() -> Parts {
        // Works, stages, calls to a look, and what a look and a post cost alone there.
        let part = |work: f64, stages: f64, batch: f64, [look, post]: [f64; 2]| {
            let (calls, requests) = (400.0 * stages, 400.0);
            let events = if stages > 1.0 { 1.5 * calls } else { calls };
            let looks = calls / batch;
            let service_ns = calls * (work + 120.0) + (stages - 1.0) * requests * 900.0;
            let (look_ns, post_ns) = (looks * look + events * 40.0, looks * post + events * 90.0);
            let rest = looks * 200.0 + calls * 50.0 + (stages - 1.0) * requests * 300.0;
            let wall = look_ns + post_ns + service_ns + rest;
            Counted { wall, calls, looks, look_ns, posts: looks, post_ns, service_ns }
        };
        let own = [1000.0, 4000.0];
        Parts {
            lone: vec![(part(0.0, 1.0, 1.0, own), vec![20_000.0; 9]); 3],
            // By the way to the server itself 2 us longer than two turns and what asks take.
            chained: vec![
                (
                    part(0.0, 2.0, 1.0, own),
                    vec![20_000.0 + 2.0 * (1040.0 + 200.0 + 4090.0) + 170.0 + 1200.0 + 2000.0; 9]
                );
                3
            ],
            few: vec![part(60_000.0, 1.0, 2.0, own); 3],
            many: vec![part(3000.0, 1.0, 30.0, own); 3],
            asking: vec![part(3000.0, 2.0, 20.0, [1500.0, 10_000.0]); 3],
            one: vec![(5000.0 + 100.0, 1000.0 + 50.0); 3],
            several: vec![(5000.0 + 3200.0, 1000.0 + 1600.0); 3],
            empty: vec![50.0; 3],
            pauses: vec![1e6, 2e6],
            watched: Duration::from_millis(203),
        }
    }

    #[test]
    fn costs_are_those_that_the_server_has() {
        let mut made = Calibration::new(String::new(), false);
        parts().fit(&mut made);
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1.0, "{value} for {expected}");
        near(made.look_ns.median, 1000.0);
        near(made.look_each_ns, 40.0);
        near(made.look_empty_ns, 50.0);
        near(made.post_ns.median, 4000.0);
        near(made.post_each_ns, 90.0);
        near(made.handler_ns.median, 120.0);
        near(made.call_ns.median, 50.0);
        near(made.round_ns, 200.0);
        near(made.look_end_ns, 250.0);
        near(made.post_end_ns, 3000.0);
        // A look has ten requests of two calls each.
        near(made.own_ns, 2000.0 / 1.9);
        near(made.ask_ns, 1200.0 - 0.1 * 2000.0 / 1.9);
        near(made.send_ns.median, 5000.0);
        near(made.send_each_ns, 100.0);
        near(made.receive_ns.median, 1000.0);
        near(made.receive_each_ns, 50.0);
        near(made.null_call_ns.median, 20_000.0);
        near(made.pauses_per_s, 10.0);
        assert_eq!(made.pauses.iter().map(|(_, count)| count).sum::<u64>(), 2);
    }

    #[test]
    fn the_calmest_parts_count() {
        let mut disturbed = parts();
        disturbed.many[0].wall *= 3.0;
        disturbed.one[1] = (90_000.0, 1000.0);
        let calm = disturbed.calmest();
        assert_eq!((calm.many.len(), calm.one.as_slice()), (1, &[(5100.0, 1050.0)][..]));
        assert!((calm.many[0].wall - parts().many[0].wall).abs() < 1.0);
    }
}
