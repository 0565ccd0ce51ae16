//! `greenwave serve search`: index, shards, aggregator.
//!
//! Each shard is a process, the aggregator is this one. At the end the aggregator finishes what it accepted, while the
//! shards still answer; then the shards end. A shard that dies is reported and missing in the answers from then on.

use std::path::PathBuf;

use greenwave_services::search::corpus::CorpusConfig;
use greenwave_services::search::index::{self, IndexConfig, IndexError};
use greenwave_services::search::{AggregatorConfig, ShardConfig, serve_aggregator};

use super::children::{Children, News};
use super::events::{self, Ending};
use super::flags::{SearchFlags, gather};
use super::here::{self, Facts};
use super::{FREE_PORT, Indexing, Keys};
use crate::problem::Problem;
use crate::{data, samples};

/// What the aggregator alone is told.
const AGGREGATOR: [&str; 9] =
    ["listen", "instance", "name", "hedge_ratio", "hedge_after", "aggregation", "tls_cert", "tls_key", "tls_client_ca"];

/// What the shards alone are told.
const SHARD: [&str; 4] = ["depth_least", "depth_one_in", "depth_most", "adapt"];

/// Serves until it is told to end.
pub(super) fn run(flags: &SearchFlags) -> Result<(), Problem> {
    let (keys, ending) = gather(flags, &flags.run, "tcp://127.0.0.1:7100")?;
    let plan = Plan::new(keys, ending)?;
    plan.ensure_index()?;
    plan.serve()
}

/// What is to be served, checked before any work is done.
struct Plan {
    corpus: CorpusConfig,
    index: IndexConfig,
    aggregator: Keys,
    shard: Keys,
    ending: Ending,
}

impl Plan {
    fn new(mut keys: Keys, ending: Ending) -> Result<Self, Problem> {
        let root = samples::corpus(keys.take("dir"))?;
        let kept = keys.take("data").map(PathBuf::from).map_or_else(|| data::folder("search", &root), Ok)?;
        let mut index = IndexConfig::new(kept);
        let fits = |shards: &usize| (1..=IndexConfig::MOST_SHARDS).contains(shards);
        let shards = keys.take_as("shards", "1 to 256", |text| text.parse().ok().filter(fits))?;
        index.shards = shards.unwrap_or(index.shards);
        let mut corpus = CorpusConfig::new(root);
        if let Some(extensions) = keys.take("extensions") {
            let extensions = extensions.split(',').map(|it| it.trim().trim_start_matches('.')).filter(|it| *it != "*");
            corpus.extensions = extensions.map(str::to_owned).collect();
        }
        let mib = keys.take_as("max_mib", "a number above 0", |text| text.parse().ok().filter(|mib| *mib > 0))?;
        corpus.max_bytes = mib.map_or(corpus.max_bytes, |mib: u64| mib.saturating_mul(1 << 20));
        let aggregator = keys.only(|key| !SHARD.contains(&key));
        let mut shard = keys.only(|key| !AGGREGATOR.contains(&key));
        shard.put("listen", FREE_PORT);
        shard.put("index", index.directory.display().to_string());
        let plan = Self { corpus, index, aggregator, shard, ending };
        plan.check()?;
        Ok(plan)
    }

    /// Reads the settings as the processes will.
    fn check(&self) -> Result<(), Problem> {
        Facts::of(&self.shard(0).read(ShardConfig::from_settings)?.server)?;
        Facts::of(&self.aggregator(&["tcp://127.0.0.1:1".to_owned()])?.server)?;
        Ok(())
    }

    fn ensure_index(&self) -> Result<(), Problem> {
        let indexing = Indexing::of(&self.corpus.root);
        let made = index::ensure(&self.corpus, &self.index, &|progress| indexing.show(progress));
        let (contents, outcome) = made.map_err(|error| match error {
            IndexError::Corpus(_) => Problem::wrong_use(error),
            _ => Problem::failure(error),
        })?;
        indexing.finish(&contents, outcome, &self.index.directory);
        Ok(())
    }

    fn serve(&self) -> Result<(), Problem> {
        let (sender, events) = events::listen(self.ending)?;
        let mut children = Children::new(sender)?;
        for shard in 0..self.index.shards {
            let mut keys = self.shard(shard);
            keys.put("drain", format!("{}ms", self.ending.limit.as_millis()));
            children.start(&format!("shard-{shard:02}"), ["search-shard".into()].into_iter().chain(keys.options()))?;
        }
        let Some(mut listening) = children.await_listening(self.index.shards, &events)? else { return Ok(()) };
        listening.sort_by_key(|shard| shard.child);
        listening.iter().for_each(|shard| tell!("{}", shard.line));
        let shards: Vec<_> = listening.iter().map(|shard| shard.address.to_string()).collect();
        let config = self.aggregator(&shards)?;
        let facts = Facts::of(&config.server)?;
        let server = serve_aggregator(config).map_err(|error| here::problem(&error))?;
        facts.announce(&server);
        loop {
            match children.next(&events, None) {
                Some(News::Died(problem)) => tell!("warning: {problem}; answers lack its part of the index"),
                Some(News::Drain) => {
                    here::drain(server, &facts.name, self.ending);
                    let shards: Vec<_> = (0..self.index.shards).collect();
                    children.drain(&shards, self.ending.limit, &events);
                    return Ok(());
                }
                Some(News::Stop) => return Ok(()),
                Some(News::Listening(_) | News::Ended) | None => {}
            }
        }
    }

    fn shard(&self, shard: usize) -> Keys {
        let mut keys = self.shard.clone();
        keys.put("shard", shard.to_string());
        keys.turn_cores(shard + 1);
        keys
    }

    fn aggregator(&self, shards: &[String]) -> Result<AggregatorConfig, Problem> {
        let mut keys = self.aggregator.clone();
        keys.put("shards", shards.join(","));
        keys.read(AggregatorConfig::from_settings)
    }
}
