//! The search service's servers: a shard, and the aggregator in front of all shards.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use greenwave::{
    Address, Aggregator, Channel, ChannelConfig, Code, Context, Partial, Router, Server, ServerConfig, ServerHandle,
    Status,
};
use prost::Message;

use crate::proto::search as proto;
use crate::serving::{Adapt, ServeError, limit_or_default};

use super::aggregate::{Merged, Merger};
use super::shard::{Answer, Depth, Query, QueryError, Shard};

/// How a shard is served.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// The directory of the index.
    pub index: PathBuf,
    /// Which of its shards, from 0.
    pub shard: usize,
    /// How many candidates are worth reading.
    pub depth: Depth,
    /// Whether fewer are read when the budget is short.
    pub adapt: bool,
    /// The server.
    pub server: ServerConfig,
}

/// Serves one shard.
///
/// # Errors
/// When the index isn't there, or the server can't start.
pub fn serve_shard(config: ShardConfig) -> Result<ServerHandle, ServeError> {
    let router = shard_router(&config)?;
    Ok(Server::start(config.server, router)?)
}

/// The methods of a shard, for a server that runs something around them.
///
/// # Errors
/// When the index isn't there.
pub fn shard_router(config: &ShardConfig) -> Result<Router, ServeError> {
    let shard = Shard::open(&config.index, config.shard, config.depth)?;
    let served = ServedShard { shard, adapt: Adapt(config.adapt) };
    Ok(proto::SearchShardServer::new(Arc::new(served)).into())
}

struct ServedShard {
    shard: Shard,
    adapt: Adapt,
}

impl proto::SearchShard for ServedShard {
    fn query(&self, context: &Context, request: proto::QueryRequest) -> Result<proto::ShardReply, Status> {
        let query = parse(&request)?;
        let answer = self.adapt.work(context, Duration::ZERO, |pass| self.shard.answer(&query, pass))?;
        answer.map(proto::ShardReply::from).map_err(Status::from)
    }
}

/// How the aggregator is served.
#[derive(Clone, Debug)]
pub struct AggregatorConfig {
    /// The addresses of each shard's servers: the one that is asked, then its replicas.
    pub shards: Vec<Vec<Address>>,
    /// When branches are sent once more, and how much time is kept for merging.
    pub unit: greenwave::AggregatorConfig,
    /// The server.
    pub server: ServerConfig,
}

/// Serves the aggregator. It starts whether or not the shards are there; those that aren't are missing in the answers.
///
/// # Errors
/// When the server can't start.
pub fn serve_aggregator(config: AggregatorConfig) -> Result<ServerHandle, ServeError> {
    let server = config.server.clone();
    Ok(Server::start(server, aggregator_router(config)?)?)
}

/// The methods of the aggregator, for a server that runs something around them. Of the server's configuration it takes what
/// holds for calls of the shards.
///
/// # Errors
/// When a setting of a channel can't be meant.
pub fn aggregator_router(config: AggregatorConfig) -> Result<Router, ServeError> {
    let AggregatorConfig { shards, unit, server } = config;
    let channel = ChannelConfig::of(&server);
    let mut channels = Vec::with_capacity(shards.len());
    for replicas in shards {
        let open = |address| Channel::new(address, channel.clone());
        channels.push(replicas.into_iter().map(open).collect::<Result<Vec<_>, _>>()?);
    }
    let front = Front { shards: channels, aggregator: Aggregator::new(unit) };
    Ok(proto::SearchServer::new(Arc::new(front)).into())
}

/// The aggregator: what a query is split over.
struct Front {
    shards: Vec<Vec<Channel>>,
    aggregator: Aggregator,
}

impl proto::Search for Front {
    fn query(&self, context: &Context, request: proto::QueryRequest) -> Result<proto::QueryReply, Status> {
        let query = parse(&request)?;
        let bytes = request.encode_to_vec();
        let unit_context = self.within(context);
        let mut unit = self.aggregator.unit(&unit_context);
        for replicas in &self.shards {
            unit = unit.branch_with_replicas(
                replicas.iter().cloned(),
                proto::search_shard_methods::QUERY_ID,
                bytes.clone(),
            );
        }
        let partial = unit.gather();
        Ok(reply(merge(&partial, query.limit)?, self.shards.len()))
    }
}

impl Front {
    /// What the shards are given: less than the aggregator has, so that an answer without the late ones is in time.
    fn within(&self, context: &Context) -> Context {
        match context.budget().remaining() {
            Some(left) => context.tighten(left - (left / 10).min(WAY_BACK)),
            None => context.clone(),
        }
    }
}

/// The most that is kept back of a budget for noticing that it was reached and for the way back.
const WAY_BACK: Duration = Duration::from_millis(1);

/// Merges what has come; if that is nothing at all, the first shard's failure stands for all.
fn merge(partial: &Partial<'_>, limit: usize) -> Result<Merged, Status> {
    let mut merger = Merger::new();
    let mut answered = 0;
    for (shard, reply) in partial.replies() {
        match proto::ShardReply::decode(&*reply.body) {
            Ok(reply) => {
                answered += 1;
                merger.add(reply);
            }
            Err(error) => merger.missing(number(shard), format!("its answer is broken: {error}")),
        }
    }
    for (shard, status) in partial.missing() {
        merger.missing(number(shard), status.to_string());
    }
    match partial.missing().next() {
        Some((_, status)) if answered == 0 => Err(status.clone()),
        _ => Ok(merger.finish(limit)),
    }
}

fn reply(merged: Merged, shards: usize) -> proto::QueryReply {
    let Merged { hits, matching, precision, missing, .. } = merged;
    proto::QueryReply { hits, matching, precision: Some(precision), shards: number(shards), missing }
}

fn parse(request: &proto::QueryRequest) -> Result<Query, Status> {
    Query::parse(&request.text, limit_or_default(request.limit)).map_err(Status::from)
}

fn number(shard: usize) -> u32 {
    u32::try_from(shard).unwrap_or(u32::MAX)
}

impl From<QueryError> for Status {
    fn from(error: QueryError) -> Self {
        let code = match error {
            QueryError::NoWord | QueryError::TooManyWords | QueryError::Limit { .. } => Code::InvalidArgument,
            QueryError::Engine(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Answer> for proto::ShardReply {
    fn from(answer: Answer) -> Self {
        Self { hits: answer.hits, matching: answer.matching, precision: Some(answer.precision) }
    }
}
