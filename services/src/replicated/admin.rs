//! How a group is run, as methods of each of its replicas' servers.

use std::sync::Arc;

use greenwave::{Code, Context, Status};
use greenwave_replica::core::Inspection;
use greenwave_replica::{Change, NodeId, Peer};

use super::member::{Asked, for_clients, hint};
use super::operators::Operators;
use super::spot::Spot;
use super::{elsewhere, tuning};
use crate::proto::replicated as proto;
use proto::change_request::Change as Wanted;

/// The methods that change a group and look into it, at one replica.
pub(super) struct Administration {
    pub(super) asked: Arc<Asked>,
    pub(super) operators: Operators,
}

impl proto::Admin for Administration {
    fn inspect(&self, context: &Context, request: proto::InspectRequest) -> Result<proto::InspectReply, Status> {
        self.operators.check(context.peer())?;
        let inspection = self.asked.wait(|replica| replica.inspect(context))?;
        let standing = inspection.figures.status;
        if request.leader_only && standing.leader != NodeId::new(self.asked.id) {
            let address = |leader: NodeId| Some((leader.number(), for_clients(inspection.membership.address(leader)?)));
            let leader = standing.leader.and_then(address);
            return Err(elsewhere::not_leader(self.asked.id, hint(&leader)));
        }
        Ok(reply(self.asked.id, &inspection))
    }

    fn change(&self, context: &Context, request: proto::ChangeRequest) -> Result<proto::ChangeReply, Status> {
        self.operators.check(context.peer())?;
        let change = match request.change.ok_or_else(|| wrong("no change is said"))? {
            Wanted::AddVoter(joining) => Change::AddVoter(peer(joining)?),
            Wanted::AddLearner(joining) => Change::AddLearner(peer(joining)?),
            Wanted::Remove(replica) => Change::Remove(node(replica)?),
        };
        self.asked.wait(|replica| replica.change(context, vec![change])).map(|()| proto::ChangeReply {})
    }

    fn transfer(&self, context: &Context, request: proto::TransferRequest) -> Result<proto::TransferReply, Status> {
        self.operators.check(context.peer())?;
        let to = node(request.to)?;
        self.asked.wait(|replica| replica.transfer(context, to)).map(|()| proto::TransferReply {})
    }

    fn resize(&self, context: &Context, request: proto::ResizeRequest) -> Result<proto::ResizeReply, Status> {
        self.operators.check(context.peer())?;
        let sizing = tuning::sizing_from_proto(request.sizing.as_ref()).map_err(|error| wrong(error.to_string()))?;
        self.asked.wait(|replica| replica.resize(sizing)).map(|()| proto::ResizeReply {})
    }
}

fn reply(replica: u64, inspection: &Inspection) -> proto::InspectReply {
    let Inspection { figures, membership, sizing, setting, others, environment, in_system, answered } = inspection;
    let member = |node: NodeId| {
        let other = others.iter().find(|other| other.node == node);
        proto::Member {
            replica: node.number(),
            address: membership.address(node).map(for_clients).unwrap_or_default(),
            peer_address: membership.address(node).map(for_peers).unwrap_or_default(),
            votes: membership.is_voter(node),
            matched: other.map_or(0, |other| other.matched.0),
            sent: other.map_or(proto::Sent::Unknown, |other| tuning::sent_to_proto(other.sent)).into(),
        }
    };
    proto::InspectReply {
        replica,
        leader: figures.status.leader.map_or(0, NodeId::number),
        term: figures.status.term.0,
        last: figures.last.0,
        committed: figures.committed.0,
        applied: figures.applied.0,
        members: membership.nodes().map(member).collect(),
        changing: membership.is_joint(),
        sizing: Some(tuning::sizing_to_proto(*sizing)),
        setting: Some(tuning::setting_to_proto(*setting)),
        environment: environment.as_ref().map(tuning::environment_to_proto),
        in_system: *in_system as u64,
        answered: *answered,
    }
}

fn for_peers(address: &str) -> String {
    address.parse::<Spot>().map_or_else(|_| address.to_owned(), |spot| spot.peers().to_string())
}

fn node(replica: u64) -> Result<NodeId, Status> {
    NodeId::new(replica).ok_or_else(|| wrong("a replica's number is 1 or more"))
}

/// An address that the others couldn't read would be a member that nobody reaches.
fn peer(joining: proto::Joining) -> Result<Peer, Status> {
    let proto::Joining { replica, address } = joining;
    let address = address.parse::<Spot>().map_err(|error| wrong(error.to_string()))?.to_string();
    Ok(Peer::new(node(replica)?, address))
}

fn wrong(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}
