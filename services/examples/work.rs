//! How much work the services do, without a network: CPU time of each shard's query and of each stage.
//!
//! ```text
//! cargo run --release -p greenwave-services --example work -- [directory for the data]
//! ```
//!
//! The corpus is the local Cargo registry. Questions and users are those that the load generator asks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use greenwave_services::recommend::history::Histories;
use greenwave_services::recommend::profile::Profiles;
use greenwave_services::recommend::recommendation::{Recommendations, Request};
use greenwave_services::recommend::{self, store};
use greenwave_services::search::aggregate::Merger;
use greenwave_services::search::corpus::{CorpusConfig, cargo_registry};
use greenwave_services::search::index::{self, IndexConfig};
use greenwave_services::search::queries::Sampler;
use greenwave_services::search::shard::{Depth, Query, Shard};
use greenwave_services::search::vocabulary::Vocabulary;
use greenwave_services::{Checkpoint, Precision};
use rustix::time::{ClockId, clock_gettime};

const QUESTIONS: usize = 2000;
const USERS: usize = 2000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let data = named.unwrap_or_else(|| std::env::temp_dir().join("greenwave-work"));
    search(&data.join("search"))?;
    recommend(&data.join("recommend"))
}

fn search(directory: &std::path::Path) -> Result<(), Failure> {
    let began = Instant::now();
    let config = IndexConfig::new(directory);
    let (contents, outcome) = index::ensure(&CorpusConfig::new(cargo_registry()?), &config, &|_| {})?;
    println!("search: {outcome:?} in {:.1?}", began.elapsed());
    println!(
        "  {} files, {:.1} MiB, {} skipped, {} beyond the limit, {} sections in {} shards ({:?} to {:?})",
        contents.files,
        contents.bytes as f64 / f64::from(1 << 20),
        contents.skipped,
        contents.beyond,
        contents.sections.iter().sum::<u64>(),
        contents.sections.len(),
        contents.sections.iter().min(),
        contents.sections.iter().max(),
    );
    let vocabulary = Vocabulary::read(&index::open(directory)?.path)?;
    println!("  {} words, {} phrases", vocabulary.words.len(), vocabulary.phrases.len());
    let shards: Result<Vec<_>, _> =
        (0..config.shards).map(|shard| Shard::open(directory, shard, Depth::default())).collect();
    let shards = shards?;

    let mut sampler = Sampler::new(&vocabulary, 1).ok_or("no words")?;
    let mut spent = Spent::default();
    let mut precision = Precision::default();
    for _ in 0..QUESTIONS {
        let question = sampler.question().clone();
        let query = Query::parse(&question.text, 10)?;
        let mut merger = Merger::new();
        let mut whole = Duration::ZERO;
        for shard in &shards {
            let (answer, took) = timed(|| shard.answer(&query, &mut || Checkpoint::FREE));
            let answer = answer?;
            precision = precision.and(answer.precision);
            spent.add("shard query", took);
            spent.add(&format!("shard query, {}", question.kind), took);
            whole += took;
            merger.add(answer.into());
        }
        let (_, took) = timed(|| merger.finish(10));
        spent.add("aggregation", took);
        spent.add("whole query", whole + took);
        spent.add(&format!("whole query, {}", question.kind), whole + took);
    }
    println!("  {:.1} candidates a shard query", f64::from(precision.wanted) / (QUESTIONS * shards.len()) as f64);
    spent.print();
    Ok(())
}

fn recommend(directory: &std::path::Path) -> Result<(), Failure> {
    let began = Instant::now();
    let registry = cargo_registry()?;
    let (contents, outcomes) = store::ensure(&registry, directory)?;
    println!("recommend: {outcomes:?} in {:.1?}", began.elapsed());
    println!(
        "  {} crates, {} users, {} traits, {} holdings, {} skipped",
        contents.crates,
        contents.users,
        contents.traits,
        contents.holdings,
        contents.skipped.len()
    );
    let (profiles, histories) = (Profiles::open(directory)?, Histories::open(directory)?);
    let recommendations = Recommendations::open(directory)?;
    let mut sampler = recommend::sampler::Sampler::stored(directory, 1)?;
    let mut spent = Spent::default();
    let mut free = || Checkpoint::FREE;
    for _ in 0..USERS {
        let user = sampler.user().ok_or("no users")?.to_owned();
        let of = user.split('@').next().unwrap_or_default();
        let (profile, first) = timed(|| profiles.of(&user, &mut free));
        let profile = profile?;
        let (history, second) = timed(|| histories.like(&profile.traits, of, &mut free));
        let neighbours = history?.neighbours;
        let request = Request { traits: profile.traits, has: profile.has, neighbours, limit: 10 };
        let (recommended, third) = timed(|| recommendations.rank(&request, &mut free));
        recommended?;
        for (what, took) in [("1 profile", first), ("2 history", second), ("3 recommendation", third)] {
            spent.add(what, took);
        }
        spent.add("chain", first + second + third);
    }
    spent.print();
    Ok(())
}

/// Runs some work and says how much CPU time this thread spent on it.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = cpu();
    let result = work();
    (result, cpu() - began)
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[derive(Default)]
struct Spent(BTreeMap<String, Vec<Duration>>);

impl Spent {
    fn add(&mut self, what: &str, took: Duration) {
        self.0.entry(what.to_owned()).or_default().push(took);
    }

    fn print(self) {
        println!(
            "  {:28} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "CPU time, us", "count", "mean", "p50", "p95", "p99", "max"
        );
        for (what, mut times) in self.0 {
            times.sort_unstable();
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let at = |share: f64| us(times[((times.len() - 1) as f64 * share) as usize]);
            let mean = us(times.iter().sum::<Duration>()) / times.len() as f64;
            println!(
                "  {what:28} {:>8} {mean:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0}",
                times.len(),
                at(0.5),
                at(0.95),
                at(0.99),
                at(1.0)
            );
        }
    }
}
