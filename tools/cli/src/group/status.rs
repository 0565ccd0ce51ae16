//! Who belongs to the group, who leads, and how far each is: the leader's account, and each one's own.

use std::time::Duration;

use greenwave::Status;
use greenwave_services::proto::replicated::{InspectReply, Member};
use greenwave_services::replicated::peers::Place;
use greenwave_services::replicated::tuning::{Sizing, sizing_from_proto};
use serde_json::{Value, json};

use super::membership::sent;
use crate::problem::Problem;
use crate::replicas::Group;
use crate::tune;

/// How long each replica may take to answer.
const EACH: Duration = Duration::from_secs(2);

/// Shows it; an error if nobody leads.
pub(super) fn show(group: &mut Group, json: bool) -> Result<(), Problem> {
    let now = group.leader()?;
    let own: Vec<Result<InspectReply, Status>> = now.members.iter().map(|member| ask(group, member)).collect();
    if json {
        let members: Vec<Value> = now.members.iter().zip(&own).map(|(member, own)| object(&now, member, own)).collect();
        show!("{}", json!({ "leader": now.leader, "term": now.term, "changing": now.changing, "members": members }));
        return Ok(());
    }
    for (member, own) in now.members.iter().zip(&own) {
        show!("replica {} {} {}", member.replica, member.address, line(&now, member, own));
    }
    if now.changing {
        tell!("a change of several replicas is halfway; it ends when a majority of the old and of the new ones runs");
    }
    Ok(())
}

fn ask(group: &mut Group, member: &Member) -> Result<InspectReply, Status> {
    let place: Place = member.address.parse().map_err(|_| Status::new(greenwave::Code::Internal, "no address"))?;
    group.client.inspect(&group.context.tighten(EACH), &place)
}

fn line(now: &InspectReply, member: &Member, own: &Result<InspectReply, Status>) -> String {
    let role = match member {
        member if member.replica == now.leader => format!("leads, term {}", now.term),
        member => {
            let votes = if member.votes { "votes" } else { "follows, without a vote" };
            format!("{votes}, has {} of {} entries, {}", member.matched, now.committed, sent(member.sent()))
        }
    };
    match own {
        Ok(own) => format!("{role}, applied {}; {}", own.applied, sizes(own)),
        Err(status) => format!("{role}; it doesn't answer: {status}"),
    }
}

/// How a replica sizes batches and windows, and what is in force.
fn sizes(own: &InspectReply) -> String {
    let chosen = match sizing_from_proto(own.sizing.as_ref()) {
        Ok(Sizing::Fixed(_)) => "sizes fixed".to_owned(),
        Ok(Sizing::Auto(aim)) => format!("sizes by its controller, for {}", tune::aim(aim)),
        Err(error) => format!("sizes unknown ({error})"),
    };
    let force = own.setting.as_ref().filter(|_| own.leader == own.replica);
    let force = force.map(|setting| format!(": batch {} B, window {} B", setting.batch_bytes, setting.window_bytes));
    chosen + &force.unwrap_or_default()
}

fn object(now: &InspectReply, member: &Member, own: &Result<InspectReply, Status>) -> Value {
    let own = own.as_ref().ok();
    let others = member.replica != now.leader;
    json!({
        "replica": member.replica,
        "address": member.address,
        "leads": !others,
        "votes": member.votes,
        "matched": others.then_some(member.matched),
        "sent": others.then(|| member.sent().as_str_name().to_lowercase()),
        "answers": own.is_some(),
        "committed": own.map(|own| own.committed),
        "applied": own.map(|own| own.applied),
        "sizing": own.map(tune::sizing_json),
    })
}
