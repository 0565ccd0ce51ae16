//! What the leader of a running group has measured, and what load it has.

use std::time::{Duration, Instant};

use greenwave_policy::replication::{Aim, Environment, Load, Setting};
use greenwave_services::proto::replicated::InspectReply;
use greenwave_services::replicated::tuning::{Sizing, environment_from_proto, setting_from_proto, sizing_from_proto};

use crate::problem::Problem;
use crate::replicas::Group;

/// How far two looks at the load are apart.
const LOOK: Duration = Duration::from_millis(40);

/// What was seen of a group.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) leader: u64,
    /// What its controller thinks the group runs on.
    pub(super) environment: Environment,
    /// What its controller aims at.
    pub(super) aim: Aim,
    /// What is in force.
    pub(super) setting: Setting,
    /// Commands answered a second, and open on average.
    pub(super) ops_per_s: f64,
    pub(super) in_system: f64,
}

/// Watches the leader for a while.
///
/// # Errors
/// When there is none, its sizes are fixed, it has seen too little, or loses the lead.
pub(super) fn watch(group: &mut Group, span: Duration) -> Result<Measured, Problem> {
    let first = group.leader()?;
    known(&first)?;
    let began = Instant::now();
    let (mut last, mut open, mut looks) = (first.clone(), first.in_system, 1_u64);
    while began.elapsed() < span {
        // The load is what is open at one moment after another.
        std::thread::sleep(LOOK.min(span.saturating_sub(began.elapsed())));
        last = group.leader()?;
        open += last.in_system;
        looks += 1;
        if (last.replica, last.term) != (first.replica, first.term) {
            let problem = Problem::failure("the lead changed while the group was watched");
            return Err(problem.remedy("ask again when the group has come to rest"));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let Some(answered) = last.answered.checked_sub(first.answered) else {
        let problem = Problem::failure("the group's sizes were set anew while it was watched");
        return Err(problem.remedy("ask again in some seconds"));
    };
    Ok(Measured {
        leader: last.replica,
        environment: known(&last)?,
        aim: match sizing_from_proto(last.sizing.as_ref()).map_err(|error| odd(&error))? {
            Sizing::Auto(aim) => aim,
            Sizing::Fixed(_) => Aim::Throughput,
        },
        setting: setting_from_proto(last.setting.as_ref()).map_err(|error| odd(&error))?,
        ops_per_s: answered as f64 / seconds,
        in_system: open as f64 / looks as f64,
    })
}

impl Measured {
    /// The load as it was seen: clients that don't think, as many as commands were open.
    ///
    /// # Errors
    /// There was none.
    pub(super) fn load(&self) -> Result<Load, Problem> {
        if self.ops_per_s <= 0.0 {
            let problem = Problem::failure("no command was answered while the group was watched");
            return Err(problem.at(format!("replica {}", self.leader)).remedy(
                "say which load it is to be tuned for (--clients, --rate or --saturated), or ask again under load",
            ));
        }
        let clients = self.in_system.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        Ok(Load::Closed { clients, think: Duration::ZERO })
    }
}

/// The environment, or why there is none.
fn known(told: &InspectReply) -> Result<Environment, Problem> {
    let at = format!("replica {}", told.replica);
    if let Some(environment) = &told.environment {
        return environment_from_proto(environment).map_err(|error| odd(&error));
    }
    let (what, remedy) = match sizing_from_proto(told.sizing.as_ref()).map_err(|error| odd(&error))? {
        Sizing::Fixed(_) => (
            "the group's batches and windows are fixed, so its leader measures nothing",
            "have it measure again with --apply auto and ask once it has had some seconds of load, or tell a --preset",
        ),
        Sizing::Auto(_) if told.members.iter().filter(|member| member.votes).count() < 2 => (
            "a group of one replica has nobody to measure the way to",
            "tell its environment without --peers, with --replicas 1",
        ),
        Sizing::Auto(_) => (
            "the group's leader has seen too little to know what it runs on",
            "put your load on the group for some seconds, and ask again; or tell a --preset",
        ),
    };
    Err(Problem::failure(what).at(at).remedy(remedy))
}

fn odd(error: &dyn std::fmt::Display) -> Problem {
    Problem::failure(format!("what the leader says can't be: {error}")).remedy("check the versions of both")
}
