//! `greenwave serve`: the three services, as one command each or process by process.
//!
//! `serve search` and `serve recommend` derive what they need from a directory and start the processes of the service.
//! `serve search-shard`, `serve search-aggregator` and `serve recommend-stage` are those processes, for when they are
//! to run on machines of their own. `serve kv` is one process, with a store of its own or as a replica of a group;
//! `cluster kv` runs all replicas of one.
//!
//! Every process prints a line when it listens, and ends on SIGTERM and SIGINT once it has finished what it accepted.

mod children;
mod cluster;
mod events;
mod flags;
mod here;
mod indexing;
mod keys;
mod kv;
mod recommend;
mod search;

use clap::{Args, Subcommand};
use greenwave_services::recommend::{StageConfig, serve_stage};
use greenwave_services::search::{AggregatorConfig, ShardConfig, serve_aggregator, serve_shard};

use crate::problem::Problem;
pub(crate) use cluster::Cluster;
use flags::{AggregatorFlags, KvFlags, RecommendFlags, SearchFlags, ShardFlags, StageFlags};
pub(crate) use indexing::Indexing;
use keys::Keys;

/// Serve full-text search, recommendations, or a store of keys and values
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    #[command(subcommand)]
    service: Service,
}

#[derive(Subcommand)]
enum Service {
    Search(Box<SearchFlags>),
    Recommend(Box<RecommendFlags>),
    Kv(Box<KvFlags>),
    SearchShard(Box<ShardFlags>),
    SearchAggregator(Box<AggregatorFlags>),
    RecommendStage(Box<StageFlags>),
}

/// Where the processes of a service listen, unless they are told.
const FREE_PORT: &str = "tcp://127.0.0.1:0";

const EXAMPLES: &str = "\
Examples:
  greenwave serve search --dir ~/notes
  greenwave serve recommend --listen tcp://127.0.0.1:0 --order edf";

impl Serve {
    /// Serves until it is told to end.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match self.service {
            Service::Search(flags) => search::run(&flags),
            Service::Recommend(flags) => recommend::run(&flags),
            Service::Kv(flags) => kv::run(&flags),
            Service::SearchShard(flags) => {
                let (keys, ending) = flags::gather(&*flags, &flags.run, FREE_PORT)?;
                let config = keys.read(ShardConfig::from_settings)?;
                here::serve(&config.server.clone(), ending, || serve_shard(config))
            }
            Service::SearchAggregator(flags) => {
                let (keys, ending) = flags::gather(&*flags, &flags.run, FREE_PORT)?;
                let config = keys.read(AggregatorConfig::from_settings)?;
                here::serve(&config.server.clone(), ending, || serve_aggregator(config))
            }
            Service::RecommendStage(flags) => {
                let (keys, ending) = flags::gather(&*flags, &flags.run, FREE_PORT)?;
                let config = keys.read(StageConfig::from_settings)?;
                here::serve(&config.server.clone(), ending, || serve_stage(config))
            }
        }
    }
}
