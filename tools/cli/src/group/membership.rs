//! Who belongs to the group and who leads it, changed and read back.

use std::time::Duration;

use greenwave::{Code, Context};
use greenwave_services::proto::replicated::change_request::Change;
use greenwave_services::proto::replicated::{InspectReply, Joining, Member, Sent};
use greenwave_services::replicated::client::StoreClientError;
use greenwave_services::replicated::peers::{Peers, Place, Spot};

use crate::problem::Problem;
use crate::replicas::Group;

/// How often it is looked how far a new replica is. One that is less than this behind has caught up.
const LOOK: Duration = Duration::from_millis(50);

/// How long reading back may take after the deadline.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Looks between two lines about how far a new replica is.
const LOOKS_PER_LINE: u32 = 40;

/// Adds a replica, written as its number and its address.
pub(super) fn add(group: &mut Group, replica: &str, learner: bool) -> Result<(), Problem> {
    let joining = joining(replica)?;
    let number = joining.replica;
    let before = group.leader()?;
    let known = check_joining(&before, &joining)?;
    if known.is_none() {
        let follows = |now: &InspectReply| member(now, number).is_some();
        change(group, Change::AddLearner(joining.clone()), follows)?;
    }
    match known {
        Some(true) if learner => {
            let problem = Problem::wrong_use(format!("replica {number} votes already"));
            return Err(problem.remedy("remove it, empty its directory, and add it again"));
        }
        Some(true) => {}
        _ if learner => {}
        _ => {
            await_caught_up(group, number)?;
            let votes = |now: &InspectReply| member(now, number).is_some_and(|member| member.votes);
            change(group, Change::AddVoter(joining), votes)?;
        }
    }
    let now = group.leader()?;
    let does = if learner { "follows and doesn't vote" } else { "votes" };
    show!("replica {number} {does}; the group: {}", listed(&now));
    Ok(())
}

/// Removes a replica.
pub(super) fn remove(group: &mut Group, number: u64) -> Result<(), Problem> {
    let before = group.leader()?;
    if member(&before, number).is_none() {
        return Err(no_member(&before, number));
    }
    if before.leader == number {
        let Some(heir) = heir(&before) else {
            let problem = Problem::wrong_use(format!("replica {number} leads, and there is no other voter"));
            return Err(problem.remedy("add another replica first"));
        };
        tell!("replica {number} leads; it hands over to replica {heir} first");
        hand_over(group, heir)?;
    }
    let now = change(group, Change::Remove(number), |now| member(now, number).is_none())?;
    show!("replica {number} has left; the group: {}", listed(&now));
    tell!("stop its process; before it is added again, under this number or another one, empty its directory");
    Ok(())
}

/// Hands over the lead.
pub(super) fn transfer(group: &mut Group, to: Option<u64>) -> Result<(), Problem> {
    let before = group.leader()?;
    let to = match to {
        None => heir(&before).ok_or_else(|| {
            Problem::wrong_use("there is no other voter to hand over to").remedy("add a replica first")
        })?,
        Some(to) if to == before.leader => {
            show!("replica {to} leads already, term {}", before.term);
            return Ok(());
        }
        Some(to) => match member(&before, to) {
            None => return Err(no_member(&before, to)),
            Some(member) if !member.votes => {
                let problem = Problem::wrong_use(format!("replica {to} doesn't vote, and can't lead"));
                let address = &member.address;
                return Err(problem.remedy(format!("make it a voter with `greenwave group add {to}={address}`")));
            }
            Some(_) => to,
        },
    };
    let now = hand_over(group, to)?;
    show!("replica {to} leads, term {}", now.term);
    Ok(())
}

/// The members as people list them.
pub(super) fn listed(now: &InspectReply) -> String {
    let name = |member: &Member| {
        let learns = if member.votes { "" } else { " (follows)" };
        format!("{}={}{learns}", member.replica, member.address)
    };
    now.members.iter().map(name).collect::<Vec<_>>().join(",")
}

fn member(now: &InspectReply, number: u64) -> Option<&Member> {
    now.members.iter().find(|member| member.replica == number)
}

fn no_member(now: &InspectReply, number: u64) -> Problem {
    Problem::wrong_use(format!("replica {number} isn't in the group")).remedy(format!("there are: {}", listed(now)))
}

fn joining(text: &str) -> Result<Joining, Problem> {
    let wrong = |what: &dyn std::fmt::Display| Problem::wrong_use(what).remedy("see --help");
    let peers: Peers = text.parse().map_err(|error| wrong(&error))?;
    let mut peers = peers.iter();
    match (peers.next(), peers.next()) {
        (Some((replica, spot)), None) => Ok(Joining { replica, address: spot.to_string() }),
        _ => Err(wrong(&"several replicas are named; add them one after the other")),
    }
}

/// Whether the replica votes already, if it belongs to the group.
fn check_joining(now: &InspectReply, joining: &Joining) -> Result<Option<bool>, Problem> {
    let Joining { replica, address } = joining;
    let taken = now.members.iter().find(|member| member.replica != *replica && is_at(member, address));
    if let Some(taken) = taken {
        let problem = Problem::wrong_use(format!("replica {} is reached at {address} already", taken.replica));
        return Err(problem.remedy("name the new replica's own address"));
    }
    match member(now, *replica) {
        None => Ok(None),
        Some(member) if is_at(member, address) => Ok(Some(member.votes)),
        Some(member) => {
            let what = format!("replica {replica} belongs to the group already, at {}", member.address);
            Err(Problem::wrong_use(what).remedy("remove that one first, or give the new one another number"))
        }
    }
}

/// Whether clients reach a member there.
fn is_at(member: &Member, address: &str) -> bool {
    address.parse::<Spot>().is_ok_and(|spot| spot.clients().to_string() == member.address)
}

/// Makes a change, and makes sure that it is made, whatever was heard of it.
fn change(group: &mut Group, change: Change, holds: impl Fn(&InspectReply) -> bool) -> Result<InspectReply, Problem> {
    let made = group.client.change(&group.context, change);
    let now = group.client.inspect_leader(&Context::with_deadline(AFTERWARDS));
    match (made, now) {
        (_, Ok(now)) if holds(&now) => Ok(now),
        (Err(error), _) | (Ok(()), Err(error)) => Err(group.problem(&error)),
        (Ok(()), Ok(now)) => {
            let problem = Problem::failure("the change was made, and another one has undone it since");
            Err(problem.remedy(format!("somebody else changes the group, too; it is now {}", listed(&now))))
        }
    }
}

/// Waits until a learner has all but what came in the last moment.
fn await_caught_up(group: &mut Group, number: u64) -> Result<(), Problem> {
    let mut committed = group.leader()?.committed;
    for look in 1.. {
        // Nothing tells when a replica has caught up, so it is looked at again and again.
        std::thread::sleep(LOOK.min(group.context.budget().remaining().unwrap_or(LOOK)));
        let now = group.client.inspect_leader(&Context::with_deadline(AFTERWARDS));
        let now = now.map_err(|error| group.problem(&error).remedy(AGAIN))?;
        let Some(member) = member(&now, number) else {
            return Err(Problem::failure(format!("replica {number} was removed while it caught up")));
        };
        if member.votes || member.matched >= committed && is_there(group, member) {
            return Ok(());
        }
        let stands = format!("it has {} of {} entries, and {}", member.matched, now.committed, sent(member.sent()));
        if group.context.is_spent() {
            let problem = Problem::failure(format!("replica {number} hasn't caught up and doesn't vote: {stands}"));
            return Err(problem.at(&member.address).remedy(AGAIN));
        }
        if look % LOOKS_PER_LINE == 0 {
            tell!("replica {number} catches up: {stands}");
        }
        committed = now.committed;
    }
    Ok(())
}

/// Whether a replica takes what it is sent. While there is nothing to send the leader doesn't know, so it is asked itself.
fn is_there(group: &mut Group, member: &Member) -> bool {
    let ask = |place: Place| group.client.inspect(&Context::with_deadline(AFTERWARDS), &place).is_ok();
    member.sent() == Sent::Entries || member.address.parse().is_ok_and(ask)
}

const AGAIN: &str = "see that it runs, with --join, and run this again, which goes on where it was; or take it out with \
                     `greenwave group remove`";

/// What the leader sends to a replica.
pub(super) const fn sent(sent: Sent) -> &'static str {
    match sent {
        Sent::Unknown => "nobody knows what it is sent",
        Sent::Question => "is asked how far it is",
        Sent::Entries => "is sent what comes",
        Sent::Snapshot => "is sent a snapshot",
    }
}

/// The other voter that has most of the log, one that is there if there is one.
fn heir(now: &InspectReply) -> Option<u64> {
    let others = now.members.iter().filter(|member| member.votes && member.replica != now.leader);
    others.max_by_key(|member| (member.sent() == Sent::Entries, member.matched)).map(|member| member.replica)
}

fn hand_over(group: &mut Group, to: u64) -> Result<InspectReply, Problem> {
    let handed_over = group.client.transfer(&group.context, to);
    let now = group.client.inspect_leader(&Context::with_deadline(AFTERWARDS));
    match (handed_over, now) {
        (_, Ok(now)) if now.leader == to => Ok(now),
        (Err(StoreClientError::Refused(status)), _) if status.code == Code::FailedPrecondition => {
            let problem = Problem::failure(format!("replica {to} didn't take the lead: {status}"));
            Err(problem.remedy("see with `greenwave group status` whether it runs and has caught up"))
        }
        (Err(error), _) | (Ok(()), Err(error)) => Err(group.problem(&error)),
        (Ok(()), Ok(now)) => {
            let what = format!("replica {to} took the lead, and replica {} has it now", now.leader);
            Err(Problem::failure(what).remedy("run this again if that isn't wanted"))
        }
    }
}
