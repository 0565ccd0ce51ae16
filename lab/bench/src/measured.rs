//! What a run of load showed.

use std::collections::BTreeMap;
use std::time::Duration;

use greenwave_policy::Time;

use crate::classes::{Class, Classes};
use crate::latencies::Latencies;
use crate::stages::{Reservoir, Sample, StageTallies, StageTally};
use crate::target::{Answer, Reply};

/// The name under which answers after the deadline are counted.
pub const LATE: &str = "late";
/// The name under which requests are counted that had no answer when the drain time was over.
pub const UNANSWERED: &str = "unanswered";
/// The name under which requests are counted that the generator was too far behind to send.
pub const UNSENT: &str = "unsent";
/// A request that is sent later than this behind its time is sent late.
pub const LAG: Duration = Duration::from_micros(100);

/// The requests of one class, or of all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that were due in the measured time.
    pub scheduled: u64,
    /// Requests answered with a result within their deadline.
    pub good: u64,
    /// All others, by what became of them.
    pub misses: BTreeMap<&'static str, u64>,
    /// From the scheduled send to the result, late results included. Requests without a result have no part in it, so
    /// read it beside [`missed_share`](Self::missed_share), or take [`quantile_of_all`](Self::quantile_of_all).
    pub results: Latencies,
}

impl Tally {
    /// How many requests weren't answered with a result within their deadline.
    pub fn missed(&self) -> u64 {
        self.misses.values().sum()
    }

    /// The share of requests that weren't answered with a result within their deadline; 0 without requests.
    pub fn missed_share(&self) -> f64 {
        if self.scheduled == 0 { 0.0 } else { self.missed() as f64 / self.scheduled as f64 }
    }

    /// The time within which a share `q` of all requests got a result; `None` if fewer ever did.
    pub fn quantile_of_all(&self, q: f64) -> Option<Duration> {
        let rank = q * self.scheduled as f64;
        let results = self.results.count() as f64;
        (rank <= results).then(|| self.results.quantile(rank / results)).flatten()
    }

    /// Counts a request, by the time to its result if there was one, and what kind of miss it is if it's one.
    pub fn settle(&mut self, result_after: Option<Duration>, miss: Option<&'static str>) {
        self.scheduled += 1;
        result_after.into_iter().for_each(|latency| self.results.record(latency));
        match miss {
            None => self.good += 1,
            Some(name) => *self.misses.entry(name).or_default() += 1,
        }
    }

    /// Adds all requests of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.good += other.good;
        self.results.merge(&other.results);
        for (name, count) in &other.misses {
            *self.misses.entry(name).or_default() += count;
        }
    }
}

/// The requests that were due in one interval of the run.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// How many there were.
    pub scheduled: u64,
    /// Those answered with a result within their deadline.
    pub good: u64,
}

/// Service time by what it was good for, as far as receipts tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// On all requests.
    pub all: Duration,
    /// On requests that missed.
    pub wasted: Duration,
    /// Requests without a receipt: what was spent on them is in neither figure.
    pub unknown: u64,
}

impl Work {
    /// The share of service time spent on requests that missed; `None` without receipts.
    pub fn wasted_share(&self) -> Option<f64> {
        (!self.all.is_zero()).then(|| self.wasted.as_secs_f64() / self.all.as_secs_f64())
    }
}

/// What a run of load showed.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How long it was measured, warm-up and drain excluded.
    pub time: Duration,
    /// All requests.
    pub total: Tally,
    /// The requests of each class.
    pub classes: Vec<(Class, Tally)>,
    /// The run cut into intervals, by the time at which requests were due.
    pub series: Vec<Interval>,
    /// How long an interval is.
    pub interval: Duration,
    /// What each stage spent.
    pub stages: Vec<StageTally>,
    /// Some whole requests, chosen evenly.
    pub samples: Vec<Sample>,
    /// What the service time was good for.
    pub work: Work,
    /// The longest that a request was sent behind its time. It's part of the latencies.
    pub max_send_lag: Duration,
    /// Requests that were sent more than [`LAG`] behind their time: more than a few, and the generator is too slow for
    /// what it is to offer.
    pub sent_late: u64,
    /// Answers to nothing that was asked, or to something that was answered before.
    pub strays: u64,
}

impl Measured {
    /// Requests due per second.
    pub fn offered_per_s(&self) -> f64 {
        self.total.scheduled as f64 / self.time.as_secs_f64()
    }

    /// Results within their deadline, per second.
    pub fn goodput_per_s(&self) -> f64 {
        self.total.good as f64 / self.time.as_secs_f64()
    }

    /// Adds a further run of the same load: the figures are then those of all requests of both.
    pub fn append(&mut self, further: Self) {
        self.time += further.time;
        self.total.merge(&further.total);
        for (class, tally) in &further.classes {
            match self.classes.iter_mut().find(|(known, _)| known.name == class.name) {
                Some((_, known)) => known.merge(tally),
                None => self.classes.push((class.clone(), tally.clone())),
            }
        }
        for stage in further.stages {
            match self.stages.iter_mut().find(|known| known.depth == stage.depth && known.name == stage.name) {
                Some(known) => known.merge(&stage),
                None => self.stages.push(stage),
            }
        }
        self.series.extend(further.series);
        self.samples.extend(further.samples);
        self.work.all += further.work.all;
        self.work.wasted += further.work.wasted;
        self.work.unknown += further.work.unknown;
        self.max_send_lag = self.max_send_lag.max(further.max_send_lag);
        self.sent_late += further.sent_late;
        self.strays += further.strays;
    }
}

/// The end of one request.
pub(crate) struct Settled<'a> {
    pub(crate) class: usize,
    pub(crate) deadline: Duration,
    pub(crate) scheduled: Time,
    pub(crate) end: End<'a>,
}

pub(crate) enum End<'a> {
    Replied(Reply<'a>),
    /// No reply came, for the reason of this name.
    Lost(&'static str),
}

impl Settled<'_> {
    /// The time to the result, if there was one.
    fn result_after(&self) -> Option<Duration> {
        match &self.end {
            End::Replied(reply) if reply.answer == Answer::Ok => Some(reply.received.since(self.scheduled)),
            _ => None,
        }
    }

    /// What kind of miss it is, if it's one.
    fn miss(&self) -> Option<&'static str> {
        match &self.end {
            End::Lost(name) => Some(name),
            End::Replied(Reply { answer: Answer::Miss(name), .. }) => Some(name),
            End::Replied(reply) => (reply.received.since(self.scheduled) > self.deadline).then_some(LATE),
        }
    }
}

/// Gathers what becomes [`Measured`].
pub(crate) struct Gathering {
    begin: Time,
    stages: StageTallies,
    samples: Reservoir,
    pub(crate) measured: Measured,
}

impl Gathering {
    /// Gathers from `begin` on, for `time`.
    pub(crate) fn new(classes: &Classes, begin: Time, time: Duration, interval: Duration, samples: Reservoir) -> Self {
        let measured = Measured {
            time,
            total: Tally::default(),
            classes: classes.as_slice().iter().map(|class| (class.clone(), Tally::default())).collect(),
            series: Vec::new(),
            interval,
            stages: Vec::new(),
            samples: Vec::new(),
            work: Work::default(),
            max_send_lag: Duration::ZERO,
            sent_late: 0,
            strays: 0,
        };
        Self { begin, stages: StageTallies::default(), samples, measured }
    }

    /// Notes that a request is sent now.
    pub(crate) fn sent(&mut self, scheduled: Time, now: Time) {
        let (lag, measured) = (now.since(scheduled), &mut self.measured);
        measured.max_send_lag = measured.max_send_lag.max(lag);
        measured.sent_late += u64::from(scheduled >= self.begin && lag > LAG);
    }

    /// Notes the end of a request, unless it was due during the warm-up.
    pub(crate) fn settle(&mut self, settled: &Settled<'_>) {
        if settled.scheduled < self.begin {
            return;
        }
        self.measured.classes[settled.class].1.settle(settled.result_after(), settled.miss());
        self.settle_interval(settled);
        self.settle_receipts(settled);
    }

    pub(crate) fn finish(self) -> Measured {
        let Self { stages, samples, mut measured, .. } = self;
        measured.classes.iter().for_each(|(_, tally)| measured.total.merge(tally));
        Measured { stages: stages.into_tallies(), samples: samples.into_samples(), ..measured }
    }

    fn settle_interval(&mut self, settled: &Settled<'_>) {
        let Measured { series, interval, .. } = &mut self.measured;
        let offset = settled.scheduled.since(self.begin).as_nanos();
        let index = (offset / interval.as_nanos().max(1)) as usize;
        if series.len() <= index {
            series.resize_with(index + 1, Interval::default);
        }
        let interval = &mut series[index];
        interval.scheduled += 1;
        interval.good += u64::from(settled.miss().is_none());
    }

    fn settle_receipts(&mut self, settled: &Settled<'_>) {
        let reply = match &settled.end {
            End::Replied(reply) if !reply.stages.is_empty() => reply,
            _ => {
                self.measured.work.unknown += 1;
                return;
            }
        };
        self.stages.record(reply.stages);
        let service: Duration = reply.stages.iter().map(|stage| stage.service).sum();
        self.measured.work.all += service;
        if settled.miss().is_some() {
            self.measured.work.wasted += service;
        }
        let class = &self.measured.classes[settled.class].0;
        self.samples.offer(|| Sample {
            class: class.name.clone(),
            deadline: settled.deadline,
            latency: reply.received.since(settled.scheduled),
            answered: reply.answer == Answer::Ok,
            stages: reply.stages.iter().map(Into::into).collect(),
        });
    }
}
