//! `greenwave serve search`: index, shards, aggregator.
//!
//! Each shard is a process, the aggregator is this one. At the end the aggregator finishes what it accepted, while the
//! shards still answer; then the shards end. A shard that dies is reported and missing in the answers from then on.

use greenwave::Address;
use greenwave_services::search::corpus::CorpusConfig;
use greenwave_services::search::index::{self, IndexConfig, IndexError};
use greenwave_services::search::shard::Depth;
use greenwave_services::search::{AggregatorConfig, ShardConfig, serve_aggregator};

use super::children::Children;
use super::events;
use super::here::{self, Facts};
use super::server::{here, usual, with};
use super::settings::{AggregatorSettings, SearchSettings, ShardSettings};
use super::values::{Count, List, Share, Word};
use super::{Indexing, Service, needed};
use crate::problem::Problem;
use crate::{data, samples};

impl ShardSettings {
    /// How the shard is served.
    pub(super) fn config(&self) -> Result<ShardConfig, Problem> {
        let shard = needed(self.shard, "shard", "0 to 255")?.usize();
        let (depth, usual_depth) = (&self.depth, Depth::default());
        Ok(ShardConfig {
            index: needed(self.index.clone(), "index", "the directory of an index")?,
            shard,
            depth: Depth {
                least: depth.depth_least.map_or(usual_depth.least, Count::usize),
                one_in: depth.depth_one_in.map_or(usual_depth.one_in, Count::usize),
                most: depth.depth_most.map_or(usual_depth.most, Count::usize),
            },
            adapt: self.adapt.is_on(),
            server: self.server.config(usual(format!("shard-{shard:02}"), 0))?,
        })
    }
}

impl AggregatorSettings {
    /// How the aggregator is served, and which shards it asks.
    pub(super) fn config(&self) -> Result<AggregatorConfig, Problem> {
        const SHARDS: &str = "addresses of the shards in their order, with commas between";
        let List(shards) = needed(self.shards.clone(), "shards", SHARDS)?;
        let shards = shards.into_iter().map(|List(replicas)| replicas).collect();
        let unit = greenwave::AggregatorConfig::default();
        let unit = with(unit, self.unit.hedge_ratio, |it, Share(share)| it.hedge_ratio(share));
        let unit = with(unit, self.unit.hedge_after, |it, Word(time)| it.hedge_after(*time));
        let unit = with(unit, self.unit.aggregation, |it, Word(time)| it.aggregation(*time));
        Ok(AggregatorConfig { shards, unit, server: self.server.config(usual("aggregator", 0))? })
    }
}

/// Serves until it is told to end.
pub(super) fn run(said: &SearchSettings) -> Result<(), Problem> {
    let plan = Plan::new(said)?;
    plan.ensure_index()?;
    plan.serve()
}

/// What is to be served, checked before any work is done.
struct Plan<'a> {
    said: &'a SearchSettings,
    corpus: CorpusConfig,
    index: IndexConfig,
}

impl<'a> Plan<'a> {
    fn new(said: &'a SearchSettings) -> Result<Self, Problem> {
        let root = samples::corpus(said.dir.as_ref())?;
        let mut index = IndexConfig::new(said.data.clone().map_or_else(|| data::folder("search", &root), Ok)?);
        index.shards = said.shards.map_or(index.shards, Count::usize);
        let mut corpus = CorpusConfig::new(root);
        if let Some(List(extensions)) = &said.extensions {
            let extensions = extensions.iter().map(|it| it.trim_start_matches('.')).filter(|it| *it != "*");
            corpus.extensions = extensions.map(str::to_owned).collect();
        }
        corpus.max_bytes = said.max_mib.map_or(corpus.max_bytes, |mib| (mib.usize() as u64).saturating_mul(1 << 20));
        let plan = Self { said, corpus, index };
        Facts::of(&plan.shard(0).config()?.server)?;
        Facts::of(&plan.aggregator(vec![here(1)]).config()?.server)?;
        Ok(plan)
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
        let ending = self.said.server.ending(false);
        let (sender, events) = events::listen(ending)?;
        let mut children = Children::new(sender)?;
        for shard in 0..self.index.shards {
            let service = Service::SearchShard(Box::new(self.shard(shard)));
            children.start(&format!("shard-{shard:02}"), &service)?;
        }
        let Some(listening) = children.await_listening(self.index.shards, &events)? else { return Ok(()) };
        listening.iter().for_each(|shard| tell!("{}", shard.line));
        let shards = listening.into_iter().map(|shard| shard.address).collect();
        let config = self.aggregator(shards).config()?;
        let facts = Facts::of(&config.server)?;
        let server = serve_aggregator(config).map_err(|error| here::problem(&error))?;
        facts.announce(&server);
        let drain = children.watch(&events, |problem| {
            tell!("warning: {problem}; answers lack its part of the index");
            Ok(())
        })?;
        if drain {
            here::drain(server, &facts.name, ending);
            children.drain(0..self.index.shards, ending.limit, &events);
        }
        Ok(())
    }

    fn shard(&self, shard: usize) -> ShardSettings {
        let SearchSettings { depth, adapt, server, .. } = self.said.clone();
        let server = server.behind(shard + 1);
        ShardSettings {
            index: Some(self.index.directory.clone()),
            shard: Count::new(shard as u64),
            depth,
            adapt,
            server,
        }
    }

    fn aggregator(&self, shards: Vec<Address>) -> AggregatorSettings {
        let SearchSettings { unit, mut server, .. } = self.said.clone();
        server.listen.get_or_insert_with(|| List(vec![here(7100)]));
        let shards = shards.into_iter().map(|shard| List(vec![shard])).collect();
        AggregatorSettings { shards: Some(List(shards)), unit, server }
    }
}
