//! The recommend service's servers: one for each stage, each calling the next.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use greenwave::{Address, Channel, ChannelConfig, Code, Context, Router, Server, ServerConfig, ServerHandle, Status};

use crate::checkpoint::Precision;
use crate::proto::recommend as proto;
use crate::serving::{Adapt, Ahead, ServeError, limit_or_default};

use super::history::Histories;
use super::profile::{Profiles, ReadError};
use super::recommendation::{Recommendations, Request};
use super::store::Stage;

/// How a stage is served.
#[derive(Clone, Debug)]
pub struct StageConfig {
    /// The directory of the stores.
    pub store: PathBuf,
    /// Which stage, and where the next one is.
    pub stage: StageRole,
    /// Whether less is done when the budget is short.
    pub adapt: bool,
    /// The server.
    pub server: ServerConfig,
}

/// Which stage a server is; all but the last know where the next one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageRole {
    /// The first.
    Profile {
        /// Where the history stage is.
        next: Address,
    },
    /// The second.
    History {
        /// Where the recommendation stage is.
        next: Address,
    },
    /// The last.
    Recommendation,
}

/// Serves a stage.
///
/// # Errors
/// When its store wasn't built or is open elsewhere, or the server can't start.
pub fn serve_stage(config: StageConfig) -> Result<ServerHandle, ServeError> {
    let server = config.server.clone();
    Ok(Server::start(server, stage_router(config)?)?)
}

/// The methods of a stage, for a server that runs something around them. Of the server's configuration it takes what holds for
/// calls of the next stage.
///
/// # Errors
/// When its store wasn't built or is open elsewhere.
pub fn stage_router(config: StageConfig) -> Result<Router, ServeError> {
    let StageConfig { store, stage, adapt, server } = config;
    let channel = ChannelConfig::of(&server);
    let adapt = Adapt(adapt);
    let ahead = Ahead::unknown();
    Ok(match stage {
        StageRole::Profile { next } => {
            let next = proto::HistoryClient::new(Channel::new(next, channel)?);
            let stage = ProfileStage { profiles: Profiles::open(&store)?, next, ahead, adapt };
            proto::ProfileServer::new(Arc::new(stage)).into()
        }
        StageRole::History { next } => {
            let next = proto::RecommendationClient::new(Channel::new(next, channel)?);
            let stage = HistoryStage { histories: Histories::open(&store)?, next, ahead, adapt };
            proto::HistoryServer::new(Arc::new(stage)).into()
        }
        StageRole::Recommendation => {
            let stage = LastStage { recommendations: Recommendations::open(&store)?, adapt };
            proto::RecommendationServer::new(Arc::new(stage)).into()
        }
    })
}

struct ProfileStage {
    profiles: Profiles,
    next: proto::HistoryClient,
    ahead: Ahead,
    adapt: Adapt,
}

impl proto::Profile for ProfileStage {
    fn recommend(&self, context: &Context, request: proto::ProfileRequest) -> Result<proto::RecommendReply, Status> {
        let limit = checked_limit(request.limit)?;
        let work = self.adapt.work(context, self.ahead.expected(), |pass| self.profiles.of(&request.user, pass));
        let profile = work??;
        let next = proto::HistoryRequest { user: request.user, traits: profile.traits, has: profile.has, limit };
        Ok(through(Stage::Profile, profile.precision, self.ahead.noted(self.next.recommend(context, &next)?)))
    }
}

struct HistoryStage {
    histories: Histories,
    next: proto::RecommendationClient,
    ahead: Ahead,
    adapt: Adapt,
}

impl proto::History for HistoryStage {
    fn recommend(&self, context: &Context, request: proto::HistoryRequest) -> Result<proto::RecommendReply, Status> {
        let proto::HistoryRequest { user, traits, has, limit } = request;
        let of = user.split_once('@').map_or(user.as_str(), |(name, _)| name);
        let work = self.adapt.work(context, self.ahead.expected(), |pass| self.histories.like(&traits, of, pass));
        let history = work??;
        let next = proto::RecommendationRequest { traits, has, neighbours: history.neighbours, limit };
        Ok(through(Stage::History, history.precision, self.ahead.noted(self.next.recommend(context, &next)?)))
    }
}

struct LastStage {
    recommendations: Recommendations,
    adapt: Adapt,
}

impl proto::Recommendation for LastStage {
    fn recommend(
        &self,
        context: &Context,
        request: proto::RecommendationRequest,
    ) -> Result<proto::RecommendReply, Status> {
        let proto::RecommendationRequest { traits, has, neighbours, limit } = request;
        let request = Request { limit: limit_or_default(limit), traits, has, neighbours };
        let work = self.adapt.work(context, Duration::ZERO, |pass| self.recommendations.rank(&request, pass));
        let recommended = work??;
        let reply = proto::RecommendReply { crates: recommended.crates, stages: Vec::new() };
        Ok(through(Stage::Recommendation, recommended.precision, reply))
    }
}

/// Adds what a stage says of itself to the answer that passes through it.
fn through(stage: Stage, precision: Precision, mut reply: proto::RecommendReply) -> proto::RecommendReply {
    let Precision { examined, wanted } = precision;
    reply.stages.insert(0, proto::StagePrecision { stage: stage.name().to_owned(), examined, wanted });
    reply
}

/// Refuses at the first stage what the last one would refuse.
fn checked_limit(limit: u32) -> Result<u32, Status> {
    let given = limit_or_default(limit);
    if given > Recommendations::MOST {
        return Err(ReadError::TooMany { what: "crates are wanted", given, most: Recommendations::MOST }.into());
    }
    Ok(limit)
}

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Self {
        let code = match error {
            ReadError::NoSuchUser { .. } => Code::NotFound,
            ReadError::TooMany { .. } => Code::InvalidArgument,
            ReadError::Broken(_) => Code::DataLoss,
            ReadError::Engine(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}
