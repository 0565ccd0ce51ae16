//! How batches and windows are sized, set on all replicas of a running group and read back.

use std::time::Duration;

use greenwave::{Context, Status};
use greenwave_policy::replication::Setting;
use greenwave_services::proto::replicated::{InspectReply, Member};
use greenwave_services::replicated::peers::Place;
use greenwave_services::replicated::tuning::{Sizing, setting_from_proto, sizing_from_proto};
use serde_json::{Value, json};

use super::json::{setting_json, sizing_of};
use crate::problem::Problem;
use crate::replicas::Group;

/// How long a replica that doesn't lead may take.
const EACH: Duration = Duration::from_secs(2);

/// What was set, and where.
pub(super) struct Applied {
    sizing: Sizing,
    leader: u64,
    /// What the leader says is in force.
    in_force: Setting,
    done: Vec<u64>,
    /// Replicas that don't have it, and why.
    missed: Vec<(u64, String)>,
}

/// Sets it on the leader, and then on the others, so that whoever leads next keeps it.
///
/// # Errors
/// When the leader can't be asked, or doesn't have it afterwards.
pub(super) fn to(group: &mut Group, sizing: Sizing) -> Result<Applied, Problem> {
    let before = group.leader()?;
    let (leading, others): (Vec<_>, Vec<_>) = before.members.iter().partition(|member| member.replica == before.leader);
    let Some(leading) = leading.first() else {
        return Err(Problem::failure("the leader doesn't belong to the group any more").remedy("ask again"));
    };
    let patience = group.context.clone();
    set(group, &patience, leading, sizing).map_err(|why| {
        let problem = Problem::failure(format!("the leader, replica {}, doesn't have it: {why}", leading.replica));
        problem.at(&leading.address).remedy("nothing was set on the others; ask again")
    })?;
    let mut applied = Applied {
        sizing,
        leader: leading.replica,
        in_force: Setting::FIRST,
        done: vec![leading.replica],
        missed: Vec::new(),
    };
    for other in others {
        let patience = group.context.tighten(EACH);
        match set(group, &patience, other, sizing) {
            Ok(()) => applied.done.push(other.replica),
            Err(why) => applied.missed.push((other.replica, why.to_string())),
        }
    }
    applied.done.sort_unstable();
    applied.confirm(&group.leader()?)?;
    Ok(applied)
}

/// Sets it on one replica, and reads it back.
fn set(group: &mut Group, context: &Context, member: &Member, sizing: Sizing) -> Result<(), Status> {
    let internal = |what: String| Status::new(greenwave::Code::Internal, what);
    let place: Place = member.address.parse().map_err(|_| internal("its address can't be read".to_owned()))?;
    group.client.resize(context, &place, sizing)?;
    let told = group.client.inspect(context, &place)?;
    match sizing_from_proto(told.sizing.as_ref()) {
        Ok(found) if found == sizing => Ok(()),
        Ok(found) => Err(internal(format!("it has {found:?}; does somebody else set it, too?"))),
        Err(error) => Err(internal(format!("what it says of its sizes can't be: {error}"))),
    }
}

impl Applied {
    /// Whoever leads now has it.
    fn confirm(&mut self, now: &InspectReply) -> Result<(), Problem> {
        let has = sizing_from_proto(now.sizing.as_ref()) == Ok(self.sizing);
        let in_force = setting_from_proto(now.setting.as_ref());
        match in_force {
            Ok(in_force) if has => {
                (self.leader, self.in_force) = (now.replica, in_force);
                Ok(())
            }
            _ => {
                let problem = Problem::failure(format!("replica {} leads now, and doesn't have it", now.replica));
                Err(problem.remedy("run this again"))
            }
        }
    }

    /// Says what was set, and where it wasn't.
    pub(super) fn show(&self) {
        let done = self.done.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let (batch, window) = (self.in_force.batch_bytes(), self.in_force.window_bytes());
        match self.sizing {
            Sizing::Fixed(_) => {
                show!(
                    "applied       to replicas {done}; replica {} leads, and has batches of {batch} B, windows of {window} B",
                    self.leader
                );
                tell!(
                    "a replica that is started again has what its own command says: --batch-bytes {batch} --window-bytes {window}"
                );
                tell!(
                    "nothing is measured while sizes are fixed; --apply auto gives them back to the group's controller"
                );
            }
            Sizing::Auto(aim) => {
                show!(
                    "applied       to replicas {done}; the controller of replica {}, which leads, sizes for {}",
                    self.leader,
                    super::aim(aim)
                );
                tell!("a replica that is started again has what its own command says");
            }
        }
        for (replica, why) in &self.missed {
            tell!("warning: replica {replica} keeps what it had: {why}; run this again when it is there");
        }
    }

    pub(super) fn json(&self) -> Value {
        let missed = self.missed.iter().map(|(replica, why)| json!({ "replica": replica, "why": why }));
        json!({
            "sizing": sizing_of(self.sizing),
            "leader": self.leader,
            "in_force": setting_json(self.in_force),
            "replicas": self.done,
            "missed": missed.collect::<Vec<_>>(),
        })
    }
}
