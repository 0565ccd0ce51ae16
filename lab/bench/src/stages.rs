//! Where the time went, stage by stage, gathered from receipts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrivals::Seeded;
use crate::latencies::Latencies;
use crate::target::StageReceipt;

/// What one stage spent on the requests of a run.
#[derive(Clone, Debug)]
pub struct StageTally {
    /// The stage.
    pub name: String,
    /// How many calls lie between it and the client's own call.
    pub depth: u8,
    /// Time on the way, there and back.
    pub network: Latencies,
    /// Time in its queues.
    pub queue: Latencies,
    /// Time at work.
    pub service: Latencies,
    /// Time there: in its queues and at work, without waits for other stages.
    pub here: Latencies,
}

impl StageTally {
    fn new(receipt: &StageReceipt<'_>) -> Self {
        Self {
            name: receipt.name.to_owned(),
            depth: receipt.depth,
            network: Latencies::new(),
            queue: Latencies::new(),
            service: Latencies::new(),
            here: Latencies::new(),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.network.merge(&other.network);
        self.queue.merge(&other.queue);
        self.service.merge(&other.service);
        self.here.merge(&other.here);
    }

    fn record(&mut self, receipt: &StageReceipt<'_>) {
        self.network.record(receipt.network);
        self.queue.record(receipt.queue);
        self.service.record(receipt.service);
        self.here.record(receipt.queue + receipt.service);
    }
}

/// One whole request with all its receipts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The name of its class.
    pub class: String,
    /// Its expected deadline.
    pub deadline: Duration,
    /// From the scheduled send to the answer.
    pub latency: Duration,
    /// Whether the answer was a result.
    pub answered: bool,
    /// The receipts, in the order in which the stages saw the request.
    pub stages: Vec<SampledStage>,
}

/// A receipt of a sampled request; the times are those of [`StageReceipt`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of StageReceipt")]
pub struct SampledStage {
    pub name: String,
    pub depth: u8,
    pub sent: Duration,
    pub network: Duration,
    pub queue: Duration,
    pub service: Duration,
    pub total: Duration,
}

impl From<&StageReceipt<'_>> for SampledStage {
    fn from(receipt: &StageReceipt<'_>) -> Self {
        let StageReceipt { name, depth, sent, network, queue, service, total } = *receipt;
        Self { name: name.to_owned(), depth, sent, network, queue, service, total }
    }
}

/// An even sample of a stream of unknown length: reservoir sampling (Vitter 1985, algorithm R).
#[derive(Clone, Debug)]
pub(crate) struct Reservoir {
    room: usize,
    seen: usize,
    random: Seeded,
    kept: Vec<Sample>,
}

impl Reservoir {
    pub(crate) fn new(room: usize, seed: u64) -> Self {
        Self { room, seen: 0, random: Seeded::new(seed), kept: Vec::with_capacity(room) }
    }

    /// Offers a sample, which is only made if it's kept.
    pub(crate) fn offer(&mut self, sample: impl FnOnce() -> Sample) {
        self.seen += 1;
        if self.kept.len() < self.room {
            self.kept.push(sample());
        } else if let Some(slot) = self.kept.get_mut(self.random.below(self.seen)) {
            *slot = sample();
        }
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.kept
    }
}

/// The tallies of all stages that receipts speak of, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageTallies(Vec<StageTally>);

impl StageTallies {
    pub(crate) fn record(&mut self, receipts: &[StageReceipt<'_>]) {
        for (guess, receipt) in receipts.iter().enumerate() {
            let index = self.index(guess, receipt);
            self.0[index].record(receipt);
        }
    }

    pub(crate) fn into_tallies(self) -> Vec<StageTally> {
        self.0
    }

    /// Receipts mostly come in the same order, so the place in the receipt is tried first.
    fn index(&mut self, guess: usize, receipt: &StageReceipt<'_>) -> usize {
        let is_it = |stage: &StageTally| stage.depth == receipt.depth && stage.name == receipt.name;
        if self.0.get(guess).is_some_and(is_it) {
            return guess;
        }
        self.0.iter().position(is_it).unwrap_or_else(|| {
            self.0.push(StageTally::new(receipt));
            self.0.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(name: &str, depth: u8, micros: u64) -> StageReceipt<'_> {
        let time = Duration::from_micros(micros);
        StageReceipt { name, depth, sent: time, network: time, queue: time, service: time, total: time }
    }

    #[test]
    fn receipts_find_their_stage_in_whatever_order_they_come() {
        let mut tallies = StageTallies::default();
        tallies.record(&[receipt("front", 0, 1), receipt("back", 1, 2)]);
        tallies.record(&[receipt("back", 1, 3), receipt("front", 0, 4)]);
        let tallies = tallies.into_tallies();
        assert_eq!(tallies.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), ["front", "back"]);
        assert!(tallies.iter().all(|stage| stage.service.count() == 2));
        assert_eq!(tallies[1].queue.max().map(|max| max.as_micros()), Some(3));
    }

    #[test]
    fn a_reservoir_keeps_early_and_late_samples_alike() {
        let mut reservoir = Reservoir::new(100, 1);
        for number in 0..10_000u64 {
            reservoir.offer(|| Sample {
                class: String::new(),
                deadline: Duration::ZERO,
                latency: Duration::from_nanos(number),
                answered: true,
                stages: vec![],
            });
        }
        let kept = reservoir.into_samples();
        let early = kept.iter().filter(|sample| sample.latency < Duration::from_nanos(5000)).count();
        assert_eq!(kept.len(), 100);
        assert!((30..70).contains(&early), "{early} of 100 from the first half");
    }
}
