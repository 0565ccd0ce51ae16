//! The aggregator's own work: one ranking out of the answers of many shards, and a word on those that are missing.
//!
//! A passage that stands in several files (vendored code, two versions of a crate) is shown once, with the number of
//! its copies.

use std::cmp::Ordering;
use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::proto::search::{Hit, MissingShard, Precision, ShardReply};

/// Answers on their way to one ranking.
#[derive(Debug, Default)]
pub struct Merger {
    hits: Vec<Hit>,
    answered: u32,
    matching: u64,
    precision: Precision,
    missing: Vec<MissingShard>,
}

impl Merger {
    /// Nothing was answered yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the answer of one shard.
    pub fn add(&mut self, reply: ShardReply) {
        self.answered += 1;
        self.matching += reply.matching;
        self.precision = self.precision.and(reply.precision.unwrap_or_default());
        self.hits.extend(reply.hits);
    }

    /// Takes note that a shard didn't answer.
    pub fn missing(&mut self, shard: u32, why: impl Into<String>) {
        self.missing.push(MissingShard { shard, why: why.into() });
    }

    /// Ranks what there is and keeps the best `limit`.
    pub fn finish(self, limit: usize) -> Merged {
        let Self { mut hits, answered, matching, precision, missing } = self;
        hits.sort_by(|a, b| order(b, a));
        Merged { hits: without_copies(hits, limit), answered, matching, precision, missing }
    }
}

/// What an aggregation came to.
#[derive(Debug, PartialEq)]
pub struct Merged {
    /// The best sections of all shards that answered, best first, each with how many more there are with its passage.
    pub hits: Vec<Hit>,
    /// How many shards answered.
    pub answered: u32,
    /// How many sections match at most.
    pub matching: u64,
    /// Candidates read of those worth reading, by the shards that answered.
    pub precision: Precision,
    /// The shards that didn't answer.
    pub missing: Vec<MissingShard>,
}

/// By score; hits with the same score by name, so that the same answers make the same ranking.
fn order(a: &Hit, b: &Hit) -> Ordering {
    let score = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
    score.then_with(|| (&b.file, b.line).cmp(&(&a.file, a.line)))
}

fn without_copies(hits: Vec<Hit>, limit: usize) -> Vec<Hit> {
    let mut first: HashMap<u64, usize> = HashMap::new();
    let mut found: Vec<Hit> = Vec::new();
    for hit in hits {
        let passage = (!hit.passage.is_empty()).then(|| xxh3_64(hit.passage.as_bytes()));
        match passage.and_then(|passage| first.get(&passage)) {
            Some(place) => found[*place].copies = found[*place].copies.saturating_add(1),
            None if found.len() < limit => {
                first.extend(passage.map(|passage| (passage, found.len())));
                found.push(hit);
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(file: &str, score: f32, passage: &str) -> Hit {
        Hit { file: file.to_owned(), line: 1, score, passage: passage.to_owned(), copies: 0 }
    }

    fn answer(hits: Vec<Hit>, examined: u32) -> ShardReply {
        ShardReply { hits, matching: 10, precision: Some(Precision { examined, wanted: 20 }) }
    }

    #[test]
    fn the_best_of_all_shards_come_first() {
        let mut merger = Merger::new();
        merger.add(answer(vec![hit("a", 3.0, "x"), hit("b", 1.0, "y")], 20));
        merger.add(answer(vec![hit("c", 2.0, "z")], 20));
        let merged = merger.finish(2);
        let files: Vec<_> = merged.hits.iter().map(|found| found.file.as_str()).collect();
        assert_eq!(files, ["a", "c"]);
        assert_eq!((merged.answered, merged.matching), (2, 20));
    }

    #[test]
    fn what_is_missing_is_said_and_precision_adds_up() {
        let mut merger = Merger::new();
        merger.add(answer(vec![], 5));
        merger.add(answer(vec![], 20));
        merger.missing(7, "no answer within the budget");
        let merged = merger.finish(10);
        assert_eq!(merged.precision, Precision { examined: 25, wanted: 40 });
        assert_eq!(merged.missing, [MissingShard { shard: 7, why: "no answer within the budget".to_owned() }]);
    }

    #[test]
    fn a_passage_that_stands_in_several_files_is_shown_once() {
        let mut merger = Merger::new();
        merger.add(answer(vec![hit("v1/a", 2.0, "same"), hit("b", 1.0, "")], 20));
        merger.add(answer(vec![hit("v2/a", 2.0, "same"), hit("c", 1.0, "")], 20));
        let merged = merger.finish(10);
        let shown: Vec<_> = merged.hits.iter().map(|found| (found.file.as_str(), found.copies)).collect();
        assert_eq!(shown, [("v1/a", 1), ("b", 0), ("c", 0)]);
    }

    #[test]
    fn copies_beyond_the_limit_still_count() {
        let mut merger = Merger::new();
        merger.add(answer(vec![hit("a", 3.0, "p"), hit("b", 2.0, "q"), hit("c", 1.0, "p")], 20));
        let merged = merger.finish(1);
        assert_eq!((merged.hits.len(), merged.hits[0].copies), (1, 1));
    }
}
