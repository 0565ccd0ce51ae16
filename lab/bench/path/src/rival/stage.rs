//! A process that serves a stage of a service behind a gate.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use greenwave::{Address, AdmissionConfig, Order, Router, Server, ServerConfig, Wait};
use greenwave_bench::process;
use greenwave_services::recommend::store::Stage;
use greenwave_services::recommend::{StageConfig, StageRole, stage_router};
use greenwave_services::search::shard::Depth;
use greenwave_services::search::{AggregatorConfig, ShardConfig, aggregator_router, shard_router};

use super::gate::{Gate, Rule};
use crate::fleet;

/// What is served, as the benchmark says it to the processes that it starts.
#[derive(Args, Clone, Debug)]
pub(crate) struct StageArgs {
    /// The gate.
    #[arg(long)]
    pub(crate) rule: Rule,
    /// By how much a controlled delay is longer than as published.
    #[arg(long, default_value_t = 1)]
    pub(crate) times: u32,
    /// profile, history, recommendation, shard or aggregator.
    #[arg(long)]
    pub(crate) stage: String,
    /// Where the stores or the index are.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Which shard.
    #[arg(long, default_value_t = 0)]
    pub(crate) shard: usize,
    /// The stage behind, or the shards.
    #[arg(long, value_delimiter = ',')]
    pub(crate) behind: Vec<Address>,
    /// The core that it runs on.
    #[arg(long, default_value_t = 0)]
    pub(crate) core: usize,
}

impl StageArgs {
    /// The words that say it.
    pub(crate) fn words(&self) -> Vec<String> {
        let rule = clap::ValueEnum::to_possible_value(&self.rule).map(|rule| rule.get_name().to_owned());
        let mut words = vec![
            format!("--rule={}", rule.unwrap_or_default()),
            format!("--times={}", self.times),
            format!("--stage={}", self.stage),
            format!("--data={}", self.data.display()),
            format!("--shard={}", self.shard),
            format!("--core={}", self.core),
        ];
        if !self.behind.is_empty() {
            let behind: Vec<String> = self.behind.iter().map(ToString::to_string).collect();
            words.push(format!("--behind={}", behind.join(",")));
        }
        words
    }

    /// Serves until standard input ends.
    pub(crate) fn serve(self) -> Result<()> {
        fleet::pin(self.core);
        let (rule, times) = (self.rule, self.times);
        let (config, router) = self.router()?;
        let gate = Gate::new(rule, times);
        let router = router.intercept(move |context, next| gate.pass(context, |context| next.run(context)));
        let server = Server::start(config, router)?;
        process::say_listening(&server.addresses()[0]);
        process::answer_all(|_| Ok(None))
    }

    /// The handlers that all systems have, and a server that refuses what is late.
    fn router(self) -> Result<(ServerConfig, Router)> {
        let Self { stage, data, shard, behind, core, .. } = self;
        let server = ServerConfig::default()
            .name(stage.clone())
            .listen(["tcp://127.0.0.1:0".parse::<Address>().context("the loopback address")?])
            .wait(Wait::Block)
            .cores([core])
            .order(Order::ProcessorSharing)
            .admission(AdmissionConfig::default().enabled(false))
            .coroutines(MOST_BEGUN);
        let next = || behind.first().cloned().context("it has no stage behind it");
        let role = match stage.as_str() {
            "shard" => {
                let shard =
                    ShardConfig { index: data, shard, depth: Depth::default(), adapt: false, server: server.clone() };
                return Ok((server, shard_router(&shard)?));
            }
            "aggregator" => {
                let shards = behind.into_iter().map(|shard| vec![shard]).collect();
                let unit = greenwave::AggregatorConfig::default();
                let config = AggregatorConfig { shards, unit, server: server.clone() };
                return Ok((server, aggregator_router(config)?));
            }
            name if name == Stage::Profile.name() => StageRole::Profile { next: next()? },
            name if name == Stage::History.name() => StageRole::History { next: next()? },
            name if name == Stage::Recommendation.name() => StageRole::Recommendation,
            other => bail!("no stage is called `{other}`"),
        };
        let config = StageConfig { store: data, stage: role, adapt: false, server: server.clone() };
        Ok((server, stage_router(config)?))
    }
}

/// Who waits at the gate has begun, as far as the server is concerned.
const MOST_BEGUN: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        stage: StageArgs,
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        let behind = ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"].map(|it| it.parse().unwrap()).to_vec();
        let (stage, data) = ("aggregator".to_owned(), PathBuf::from("/a b"));
        let said = StageArgs { rule: Rule::CodelLifo, times: 3, stage, data, shard: 7, behind, core: 1 };
        let words = said.words();
        let heard = Cli::parse_from([String::new()].into_iter().chain(words.clone())).stage;
        assert_eq!((heard.words(), heard.behind), (words, said.behind));
    }
}
