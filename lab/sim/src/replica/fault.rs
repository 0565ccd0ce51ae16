//! What goes wrong with a group, and when: a plan that is drawn from a seed before the run.

use crate::disk::DiskFault;
use crate::seed::Stream;
use crate::trace::Trace;
use greenwave_policy::Time;
use std::time::Duration;

/// Something that goes wrong with a replica or between replicas, or that somebody does to the group. Replicas are
/// numbered from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process ends at once, as by `kill -9` and a power cut together: what wasn't synced is lost, or some of it.
    Kill(usize),
    /// Its process starts again, from what is on its disk. Nothing if it runs.
    Restart(usize),
    /// Nothing passes between these and the others.
    Partition(Vec<usize>),
    /// Nothing passes from one to the other; what goes the other way does.
    Cut(usize, usize),
    /// Everything passes again.
    Heal,
    /// Its clock jumps forward.
    Forward(usize, Duration),
    /// Its clock jumps back.
    Back(usize, Duration),
    /// Its clock goes so many thousandths of a second in a second from now on.
    Rate(usize, u32),
    /// Its disk takes so many times longer.
    Slow(usize, u32),
    /// A write or a sync of its disk fails. Then its process has to end, and is started again later.
    Disk(usize, DiskFault),
    /// Its process stands still so long.
    Pause(usize, Duration),
    /// The leader is asked to hand over to it.
    Transfer(usize),
    /// The leader is asked to take it out of the group, or in if it is out.
    Toggle(usize),
    /// It takes a snapshot and drops the log before.
    Snapshot(usize),
    /// Its disk is lost and it starts again on an empty one; unless another one has lost its own and hasn't been taken in
    /// anew, or the group hasn't begun.
    Wipe(usize),
    /// The leader is asked to take out one that has lost its disk and to take it in anew.
    Rejoin(usize),
}

impl Fault {
    /// Puts it into a trace.
    pub fn trace(&self, trace: &mut Trace) {
        trace.bytes(format!("{self:?}").as_bytes());
    }
}

/// How a plan is made.
#[derive(Clone, Copy, Debug)]
pub struct PlanRule {
    /// Replicas in the group.
    pub replicas: usize,
    /// Until when faults happen. At that instant everything is mended.
    pub until: Time,
    /// The mean time between two faults.
    pub every: Duration,
    /// Whether replicas are taken out and in; otherwise some may lose their disks.
    pub membership: bool,
}

/// Draws what goes wrong, in the order of time. Each fault that lasts has an end in the plan; what is left at the end
/// of the plan is for whoever runs it to mend.
///
/// A run has a few kinds of faults and not all of them, so that rare pairs meet often in some runs.
#[must_use]
pub fn plan(rule: &PlanRule, stream: &mut Stream) -> Vec<(Time, Fault)> {
    let kinds: Vec<u64> = (0..KINDS).filter(|_| stream.chance(0.4)).collect();
    let mut plan = Vec::new();
    let mut now = Time::ZERO + stream.exponential(rule.every);
    while now < rule.until && !kinds.is_empty() {
        let kind = stream.pick(&kinds).copied().unwrap_or(0);
        for (after, fault) in draw(kind, rule, stream) {
            plan.push((now + after, fault));
        }
        now = now + stream.exponential(rule.every);
    }
    plan.retain(|&(at, _)| at < rule.until);
    plan.sort_by_key(|&(at, _)| at);
    plan
}

const KINDS: u64 = 14;

fn draw(kind: u64, rule: &PlanRule, stream: &mut Stream) -> Vec<(Duration, Fault)> {
    const MS: Duration = Duration::from_millis(1);
    let any = |stream: &mut Stream| stream.below(rule.replicas as u64) as usize;
    let node = any(stream);
    let lasting = stream.span_between(50 * MS, 1500 * MS);
    let soon = stream.span_between(MS, 100 * MS);
    let none = Duration::ZERO;
    match kind {
        0 => vec![(none, Fault::Kill(node)), (lasting, Fault::Restart(node))],
        // Restarts in a loop: it hardly comes up.
        1 => (0..4)
            .flat_map(|turn| [(soon * (2 * turn), Fault::Kill(node)), (soon * (2 * turn + 1), Fault::Restart(node))])
            .collect(),
        // All at once, as when the power of a room fails.
        2 => (0..rule.replicas).flat_map(|node| [(none, Fault::Kill(node)), (soon, Fault::Restart(node))]).collect(),
        3 => {
            let side = (0..rule.replicas).filter(|_| stream.chance(0.5)).collect();
            vec![(none, Fault::Partition(side)), (lasting, Fault::Heal)]
        }
        4 => {
            let from = any(stream);
            vec![(none, Fault::Cut(from, node)), (lasting, Fault::Heal)]
        }
        // It hears no other replica, or none hears it, or both; but clients reach it and all others.
        5 => {
            let (deaf, mute) = stream.pick(&[(true, false), (false, true), (true, true)]).copied().unwrap_or_default();
            let cuts = (0..rule.replicas).filter(|&other| other != node).flat_map(|other| {
                let cuts = [(deaf, Fault::Cut(other, node)), (mute, Fault::Cut(node, other))];
                cuts.into_iter().filter(|(is, _)| *is).map(|(_, cut)| (none, cut))
            });
            cuts.chain([(lasting, Fault::Heal)]).collect()
        }
        6 => {
            let by = stream.span_between(10 * MS, 2_000 * MS);
            vec![(none, if stream.chance(0.5) { Fault::Forward(node, by) } else { Fault::Back(node, by) })]
        }
        7 => vec![(none, Fault::Slow(node, 100)), (lasting, Fault::Slow(node, 1))],
        8 => {
            let faults = [DiskFault::Write, DiskFault::Sync, DiskFault::Full];
            let fault = stream.pick(&faults).copied().unwrap_or(DiskFault::Sync);
            vec![(none, Fault::Disk(node, fault)), (lasting, Fault::Restart(node))]
        }
        9 => vec![(none, Fault::Transfer(node))],
        12 => {
            let rates = [200, 500, 900, 1100, 2000, 5000];
            let rate = stream.pick(&rates).copied().unwrap_or(1000);
            vec![(none, Fault::Rate(node, rate)), (lasting, Fault::Rate(node, 1000))]
        }
        13 if !rule.membership => vec![(none, Fault::Wipe(node)), (lasting, Fault::Rejoin(node))],
        10 if rule.membership => vec![(none, Fault::Toggle(node)), (lasting, Fault::Toggle(node))],
        10 => vec![(none, Fault::Pause(node, lasting))],
        _ => vec![(none, Fault::Snapshot(node)), (soon, Fault::Pause(node, soon))],
    }
}
