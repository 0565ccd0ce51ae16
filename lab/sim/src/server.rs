//! One core of a server that preempts: arrivals, a ready queue, quanta, what a switch costs.
//!
//! The queue is [`ReadyQueue`], who is let in says [`Admission`], and what calls take is learned by [`ServiceTimes`] and
//! [`Margin`], which counts where the queue [stands](StandingQueue), as in the server: a method's quantiles are computed anew after
//! every sixteenth call. Left out are the network
//! and a stage's own calls.

use crate::cores::{Paused, Pauses};
use crate::seed::{Seed, Stream};
use greenwave_policy::{
    Admission, AdmissionConfig, Budget, Deadline, Margin, Order, ReadyQueue, ServiceTimes, StandingQueue, Time,
    Urgency, Verdict,
};
use std::fmt;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// What calls there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// 99.5 % of 0.5 us, 0.5 % of 500 us.
    ExtremeBimodal,
    /// Half of 1 us, half of 100 us.
    HighBimodal,
    /// TPC-C's five transactions, of 5.7 to 100 us.
    TpcC,
    /// One method, exponential with a mean of 1 us.
    Exponential,
    /// One method whose times nobody can tell beforehand: bounded Pareto, 0.7 us to 10 ms. Short is below 20 us.
    Pareto,
}

/// What deadlines calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// None.
    None,
    /// 20 ms.
    Same,
    /// Short calls 20 ms, long ones 500 ms.
    ByClass,
    /// Long calls are urgent, four times their work and a millisecond; short ones have 100 ms.
    Inverted,
    /// A fifth three times the longest method's work, half 20 ms, the others 200 ms.
    Random,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ExtremeBimodal, Self::HighBimodal, Self::TpcC, Self::Exponential, Self::Pareto];

    /// Each method's share and mean.
    fn methods(self) -> &'static [(f64, Duration)] {
        const fn ns(nanos: u64) -> Duration {
            Duration::from_nanos(nanos)
        }
        const EXTREME: &[(f64, Duration)] = &[(0.995, ns(500)), (0.005, ns(500_000))];
        const HIGH: &[(f64, Duration)] = &[(0.5, ns(1000)), (0.5, ns(100_000))];
        const TPCC: &[(f64, Duration)] =
            &[(0.44, ns(5700)), (0.04, ns(6000)), (0.44, ns(20_000)), (0.04, ns(88_000)), (0.04, ns(100_000))];
        const EXPONENTIAL: &[(f64, Duration)] = &[(1.0, ns(1000))];
        // The mean of this distribution, to three digits.
        const PARETO: &[(f64, Duration)] = &[(1.0, ns(2850))];
        match self {
            Self::ExtremeBimodal => EXTREME,
            Self::HighBimodal => HIGH,
            Self::TpcC => TPCC,
            Self::Exponential => EXPONENTIAL,
            Self::Pareto => PARETO,
        }
    }

    /// The mean of all.
    fn mean(self) -> Duration {
        self.methods().iter().map(|(share, mean)| mean.mul_f64(*share)).sum()
    }

    fn draw(self, stream: &mut Stream) -> (usize, Duration) {
        let mut rank = stream.unit();
        let methods = self.methods();
        let method = methods.iter().position(|(share, _)| {
            rank -= share;
            rank < 0.0
        });
        let method = method.unwrap_or(methods.len() - 1);
        let work = match self {
            Self::Exponential => stream.exponential(US).max(Duration::from_nanos(1)),
            Self::Pareto => {
                let (least, most, alpha, unit) = (700_f64, 1e7_f64, 1.3_f64, stream.unit());
                let (low, high) = (least.powf(alpha), most.powf(alpha));
                Duration::from_nanos((-(unit * high - unit * low - high) / (high * low)).powf(-1.0 / alpha) as u64)
            }
            _ => methods[method].1,
        };
        (method, work)
    }

    fn is_long(self, method: usize, work: Duration) -> bool {
        match self {
            Self::TpcC => method >= 3,
            Self::Pareto => work > 20 * US,
            _ => method > 0,
        }
    }
}

impl Deadlines {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Same, Self::ByClass, Self::Inverted, Self::Random];

    fn draw(self, mix: Mix, is_long: bool, work: Duration, stream: &mut Stream) -> Budget {
        let longest = mix.methods().iter().map(|(_, mean)| *mean).max().unwrap_or_default();
        let unit = stream.unit();
        let span = match (self, is_long) {
            (Self::None, _) => return Budget::UNLIMITED,
            (Self::Same, _) | (Self::ByClass, false) => 20 * MS,
            (Self::ByClass, true) => 500 * MS,
            (Self::Inverted, true) => MS + 4 * work,
            (Self::Inverted, false) => 100 * MS,
            (Self::Random, _) if unit < 0.2 => 3 * longest,
            (Self::Random, _) if unit < 0.7 => 20 * MS,
            (Self::Random, _) => 200 * MS,
        };
        Budget::expected(span)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ExtremeBimodal => "extreme",
            Self::HighBimodal => "high",
            Self::TpcC => "tpcc",
            Self::Exponential => "exponential",
            Self::Pareto => "pareto",
        })
    }
}

impl fmt::Display for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Same => "same",
            Self::ByClass => "by-class",
            Self::Inverted => "inverted",
            Self::Random => "random",
        })
    }
}

/// How the core is run.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Whose turn it is.
    pub order: Order,
    /// How long a turn is; `None`: to the call's end.
    pub quantum: Option<Duration>,
    /// What it costs to change to another call.
    pub switch: Duration,
    /// Who is let in.
    pub admission: AdmissionConfig,
    /// When others have the core.
    pub pauses: Option<Pauses>,
}

/// What became of the calls of one class.
#[derive(Clone, Debug, Default)]
pub struct Class {
    latencies: Vec<Duration>,
    /// How many were answered too late.
    pub late: usize,
    /// How many were refused.
    pub refused: usize,
}

impl Class {
    /// The latency that a share of `quantile` stays within; zero if there was no call.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * quantile.clamp(0.0, 1.0)) as usize).copied().unwrap_or_default()
    }

    /// How many there were.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.latencies.len() + self.refused
    }

    /// How many weren't answered in time.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.late + self.refused
    }
}

struct Call {
    arrived: Time,
    deadline: Deadline,
    method: usize,
    work: Duration,
    had: Duration,
    /// What it had left when it began, if it has.
    began: Option<Budget>,
}

/// What is known of a method, by the server's defaults.
struct Learned {
    times: ServiceTimes,
    estimate: Duration,
    /// What a call takes that nothing holds up.
    least: Duration,
    margin: Margin,
    admission: Admission,
}

impl Learned {
    fn new(config: AdmissionConfig) -> Self {
        Self {
            times: ServiceTimes::new(),
            estimate: Duration::ZERO,
            least: Duration::ZERO,
            margin: Margin::new(0.01),
            admission: Admission::new(config),
        }
    }

    fn observe(&mut self, call: &Call, now: Time, stands: bool) {
        if stands {
            self.margin.observe(call.deadline.is_past(now), self.least, call.began.and_then(Budget::remaining));
        }
        self.times.observe(call.work);
        if self.times.count().is_multiple_of(16) {
            let quantile = |share| self.times.quantile(share).unwrap_or_default();
            (self.estimate, self.least) = (quantile(0.5), quantile(0.1));
        }
    }

    /// What a call has to have left when it begins, once that is known.
    fn needed(&self, stands: bool) -> Option<Duration> {
        let needed = || if stands { self.margin.needed(self.least) } else { self.least };
        (self.estimate > Duration::ZERO).then(needed)
    }

    /// Of a call that has come or, if so much `whole` was left when it did, has come up.
    fn admits(&mut self, call: &Call, now: Time, whole: Option<Budget>, queued: usize, stands: bool) -> bool {
        let (budget, needed) = (call.deadline.budget(now), self.needed(stands));
        let verdict = match whole {
            None => self.admission.decide(now, budget, needed, queued),
            Some(whole) => self.admission.recheck(now, budget, whole, needed, queued),
        };
        verdict == Verdict::Admit
    }

    fn urgency(&self, call: &Call, stands: bool) -> Urgency {
        let (arrived, deadline) = (call.arrived, call.deadline);
        let here = self.times.remaining(self.estimate, call.had.into());
        let needed = match call.began {
            Some(_) => Duration::ZERO,
            None => self.admission.config().needed(deadline.budget(arrived), self.needed(stands)),
        };
        Urgency { arrived, birth: arrived, deadline, here, ahead: Duration::ZERO, needed }
    }
}

/// Serves so many calls at this share of the core's capacity, and says what became of the short and of the long ones. The
/// first tenth, in which estimates are learned, doesn't count.
#[must_use]
pub fn serve(core: Core, mix: Mix, deadlines: Deadlines, load: f64, calls: usize, seed: Seed) -> [Class; 2] {
    let [mut gaps, mut works, mut budgets, pauses] =
        ["gaps", "works", "budgets", "pauses"].map(|name| seed.stream(name, 0));
    let gap = mix.mean().div_f64(load);
    let mut arrivals = (0..calls).scan(Time::ZERO, |at, _| {
        *at = *at + gaps.exponential(gap);
        let (method, work) = mix.draw(&mut works);
        let budget = deadlines.draw(mix, mix.is_long(method, work), work, &mut budgets);
        let deadline = Deadline::at(*at, budget);
        Some(Call { arrived: *at, deadline, method, work, had: Duration::ZERO, began: None })
    });
    let mut next = arrivals.next();
    let mut pauses = Paused::new(core.pauses, pauses);
    // When something that takes so long is over.
    let mut end = |now: Time, takes: Duration| {
        let takes = u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(pauses.end(now.as_nanos(), takes))
    };
    let mut queue = ReadyQueue::new(core.order).with_most(core.admission.max_queue);
    let mut learned: Vec<Learned> = mix.methods().iter().map(|_| Learned::new(core.admission)).collect();
    let (mut now, mut classes, mut over) = (Time::ZERO, [Class::default(), Class::default()], 0);
    let mut count = |call: &Call, answered: Option<Time>| {
        over += 1;
        if over <= calls / 10 {
            return;
        }
        let class = &mut classes[usize::from(mix.is_long(call.method, call.work))];
        match answered {
            Some(now) => {
                class.latencies.push(now.since(call.arrived));
                class.late += usize::from(call.deadline.is_past(now));
            }
            None => class.refused += 1,
        }
    };
    let mut running: Option<Call> = None;
    let mut standing = StandingQueue::new(StandingQueue::INTERVAL);
    loop {
        if queue.is_empty() {
            standing.emptied(now);
        }
        let stands = standing.stands(now);
        while let Some(call) = next.take_if(|call| call.arrived <= now) {
            next = arrivals.next();
            let own = &mut learned[call.method];
            let most = core.admission.max_queue;
            if queue.len() >= most {
                let shed = queue.shed(
                    most.div_ceil(AdmissionConfig::SHED),
                    own.estimate * AdmissionConfig::LONGER,
                    |call: &Call| call.began.is_none(),
                );
                shed.iter().for_each(|(_, call)| count(call, None));
            }
            if own.admits(&call, now, None, queue.len(), stands) {
                queue.push(now, own.urgency(&call, stands), call);
            } else {
                count(&call, None);
            }
        }
        if let Some(call) = running.take_if(|call| !queue.goes_on(now, &learned[call.method].urgency(call, stands))) {
            queue.preempted(now, learned[call.method].urgency(&call, stands), call);
        }
        let mut call = match running.take() {
            Some(call) => call,
            None => {
                let first = if core.quantum.is_some() { queue.pop_due(now) } else { queue.pop(now) };
                let Some((_, mut call)) = first else {
                    let Some(call) = &next else { break };
                    now = end(call.arrived, Duration::ZERO);
                    continue;
                };
                if call.began.is_none() {
                    let whole = call.deadline.budget(call.arrived);
                    if !learned[call.method].admits(&call, now, Some(whole), queue.len(), stands) {
                        count(&call, None);
                        continue;
                    }
                    call.began = Some(call.deadline.budget(now));
                }
                now = end(now, core.switch);
                call
            }
        };
        let left = call.work - call.had;
        let slice = core.quantum.map_or(left, |quantum| left.min(quantum));
        now = end(now, slice);
        call.had += slice;
        if call.had < call.work {
            running = Some(call);
            continue;
        }
        learned[call.method].observe(&call, now, stands);
        count(&call, Some(now));
    }
    classes.iter_mut().for_each(|class| class.latencies.sort_unstable());
    classes
}
