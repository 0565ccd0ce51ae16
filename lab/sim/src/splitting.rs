//! What a service waits for whose parallel units are wider than they were when it was recorded, or narrower.
//!
//! A unit waits for the slowest of its branches, and the wider it is, the less each of them has to do: as much as all of them
//! together had, divided among as many as there are. What a branch takes beside that (the wire, queues) is the same for each,
//! so at some width a unit takes longer again, and each further branch costs whoever asks it some time.
//!
//! The model says by how much a quantile of the slowest branch changes with the width, and what was recorded of all waits is
//! changed by that. So with the width that was recorded a method waits as it did, however alike the branches of a request are.

use crate::cores::{Load, Method, PlanError, Sample, Work};
use crate::recording::{MethodRecord, Recording, RecordingError, Spans};
use std::time::Duration;

/// The most branches.
pub const MOST_BRANCHES: usize = 1024;

/// A distribution is told by so many values of its lower half, then by as many of the half of what is left, and so on.
const STEPS: usize = 32;
const HALVES: i32 = 16;

/// Waits are changed in so many pieces.
const PIECES: u64 = 4096;

/// Values, and which share of all each stands for.
type Shares = Vec<(f64, f64)>;

/// A parallel unit as it was recorded.
struct Unit {
    /// Branches of a request.
    width: f64,
    /// How long a branch's handlers ran, and the rest of its round trip, in nanoseconds.
    service: Shares,
    around: Shares,
    /// What the method's other calls took of a request, on average.
    others: f64,
}

impl Recording {
    /// How many branches requests had, of the method whose requests had most; `None` if no method has a parallel unit.
    #[must_use]
    pub fn branches(&self) -> Option<f64> {
        self.methods.iter().filter_map(Unit::of).map(|unit| unit.width).max_by(f64::total_cmp)
    }

    /// As [`load`](Self::load), with parallel units of so many branches. Each that is added costs whoever asks it so much,
    /// and each that is left out saves it.
    ///
    /// # Errors
    /// If nothing was recorded, or there are no branches, or too many.
    pub fn load_split(&self, turn: Duration, branches: usize, each: Duration) -> Result<Load, RecordingError> {
        if !(1..=MOST_BRANCHES).contains(&branches) {
            let what = format!("{branches} branches; allowed: 1 to {MOST_BRANCHES}");
            return Err(RecordingError::Value { place: "a parallel unit".to_owned(), what });
        }
        let load = self.load(turn)?;
        let split = |method: &Method| -> Result<Method, PlanError> {
            let recorded = self.methods.iter().find(|of| of.name == method.name);
            let Some((recorded, unit)) = recorded.and_then(|of| Unit::of(of).map(|unit| (of, unit))) else {
                return Ok(method.clone());
            };
            let more = (branches as f64 - unit.width) * each.as_nanos() as f64;
            let longer = |nanos: u64| (nanos as f64 + more).max(1.0) as u64;
            let work = match method.work {
                Work::Measured(sample) => Work::Measured(sample.map(longer).keep()),
                work => work,
            };
            let behind = unit.waits(&recorded.waiting, branches as f64).map(|sample| Work::Measured(sample.keep()));
            Ok(Method { work, behind, ..method.clone() })
        };
        let methods: Result<Vec<Method>, PlanError> = load.methods().iter().map(split).collect();
        Ok(Load::new(methods?)?)
    }
}

impl Unit {
    fn of(method: &MethodRecord) -> Option<Self> {
        let branches = || method.stages.iter().filter(|stage| stage.branches && stage.calls > 0);
        // Branches of one request may be stages of several names.
        let requests = branches().map(|stage| stage.requests).max().filter(|requests| *requests > 0)?;
        let calls: u64 = branches().map(|stage| stage.calls).sum();
        let pooled = |of: fn(&crate::recording::StageRecord) -> &Spans| {
            Some(shares(&Sample::new(branches().flat_map(|stage| of(stage).iter().copied()).collect())?))
        };
        let others = method.stages.iter().filter(|stage| !stage.branches);
        let others = others.map(|stage| total(&stage.service) + total(&stage.around)).sum::<f64>();
        Some(Self {
            width: calls as f64 / requests as f64,
            service: pooled(|stage| &stage.service)?,
            around: pooled(|stage| &stage.around)?,
            others: others / requests as f64,
        })
    }

    /// How long the method waits with so many branches, by how long it waited with as many as were recorded.
    fn waits(&self, waited: &Spans, branches: f64) -> Option<Sample> {
        let waited = Sample::new(waited.clone())?;
        let (before, after) = (self.each(self.width), self.each(branches));
        // A share of the slowest branches is within what its root of each is.
        let slowest = |each: &Shares, share: f64, branches: f64| within(each, share.powf(1.0 / branches)) + self.others;
        let all = waited.count() as f64;
        let (mut rank, mut changed) = (0, Vec::new());
        for (nanos, count) in waited.spans() {
            // Of many that are alike, each has its rank.
            let piece = (waited.count() / PIECES).max(1);
            for from in (0..count).step_by(piece as usize) {
                let count = piece.min(count - from);
                let share = (rank as f64 + count as f64 / 2.0) / all;
                rank += count;
                let by = slowest(&after, share, branches) / slowest(&before, share, self.width).max(1.0);
                changed.push(((nanos as f64 * by) as u64, count));
            }
        }
        Sample::new(changed)
    }

    /// What each of so many branches takes: sorted, each with the share that is within it.
    fn each(&self, branches: f64) -> Shares {
        let less = self.width / branches;
        let mut sums: Shares = Vec::with_capacity(self.service.len() * self.around.len());
        for (service, one) in &self.service {
            sums.extend(self.around.iter().map(|(around, other)| (service * less + around, one * other)));
        }
        sums.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut within = 0.0;
        sums.iter_mut().for_each(|(_, share)| {
            within += *share;
            *share = within;
        });
        sums
    }
}

/// What a share of sorted values is within.
fn within(values: &Shares, share: f64) -> f64 {
    let place = values.partition_point(|(_, within)| *within < share);
    values[place.min(values.len() - 1)].0
}

fn shares(sample: &Sample) -> Shares {
    let mut told = Vec::new();
    for half in 0..HALVES {
        // From what the halves before have left to the middle of that.
        let (from, each) = (1.0 - 0.5_f64.powi(half), 0.5_f64.powi(half + 1) / STEPS as f64);
        told.extend((0..STEPS).map(|step| (sample.quantile(from + (step as f64 + 0.5) * each) as f64, each)));
    }
    told.push((sample.quantile(1.0) as f64, 0.5_f64.powi(HALVES)));
    told
}

fn total(spans: &Spans) -> f64 {
    spans.iter().map(|(nanos, count)| *nanos as f64 * *count as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(waiting: &str, branches: u64, around: &str) -> Recording {
        let calls = 1000 * branches;
        let text = format!(
            "greenwave_recording = 1\nseconds = 1.0\n[server]\nname = 'a'\nthreads = 1\norder = 'fcfs'\nquantum_ns = 0\n\
             probes = false\n[[method]]\nname = 'a.B/C'\ncalls = 1000\nservice = [[20000, 1000]]\nwaiting = {waiting}\n\
             [[method.stage]]\nname = 'shard'\nbranches = true\nrequests = 1000\ncalls = {calls}\n\
             service = [[800000, {calls}]]\naround = {around}\n"
        );
        Recording::parse(&text).unwrap()
    }

    fn waits(recording: &Recording, branches: usize) -> f64 {
        let load = recording.load_split(Duration::ZERO, branches, Duration::from_micros(5)).unwrap();
        load.methods()[0].behind.unwrap().mean_ns()
    }

    #[test]
    fn branches_share_the_work_and_what_is_around_it_stays() {
        let recording = recorded("[[900000, 1000]]", 4, "[[100000, 4000]]");
        assert_eq!(recording.branches(), Some(4.0));
        assert!((waits(&recording, 4) - 900e3).abs() < 1.0, "as it was recorded");
        assert!((waits(&recording, 8) - 500e3).abs() < 2.0, "{}", waits(&recording, 8));
        assert!((waits(&recording, 2) - 1700e3).abs() < 2.0, "{}", waits(&recording, 2));
        let own = |branches| {
            recording.load_split(Duration::ZERO, branches, Duration::from_micros(5)).unwrap().methods()[0]
                .work
                .mean_ns()
        };
        assert_eq!((own(4), own(8), own(1)), (20e3, 40e3, 5e3));
        let told = recording.load_split(Duration::ZERO, 0, Duration::ZERO).unwrap_err().to_string();
        assert!(told.contains("0 branches; allowed: 1 to 1024"), "{told}");
    }

    /// Each branch may be the slow one.
    #[test]
    fn the_wider_the_more_often_a_branch_is_slow() {
        let recording = recorded("[[901000, 980], [10800000, 20]]", 2, "[[100000, 1980], [10000000, 20]]");
        let slow = |branches: usize| {
            let load = recording.load_split(Duration::ZERO, branches, Duration::ZERO).unwrap();
            let Some(Work::Measured(sample)) = load.methods()[0].behind else { panic!("no waits") };
            sample.spans().filter(|(nanos, _)| *nanos > 5_000_000).map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!(slow(2), 20);
        // 1 - 0.99^64 of all.
        assert!((460..490).contains(&slow(64)), "{}", slow(64));
        assert!(waits(&recording, 4) < waits(&recording, 2) && waits(&recording, 2) < waits(&recording, 64));
    }
}
