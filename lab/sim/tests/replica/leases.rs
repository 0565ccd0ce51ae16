//! Leases on clocks that go at different rates: a leader that reads without asking anybody, is cut off, and has a slow
//! clock, beside others with true ones, who elect the next leader.

use greenwave_policy::{Deadline, Time};
use greenwave_replica::core::{CoreConfig, Input, Outcome, Reads};
use greenwave_replica::{NodeId, Session, Ticket};
use greenwave_sim::link::{Bandwidth, LinkRule};
use greenwave_sim::replica::group::{Group, GroupRule, Told, Work};
use greenwave_sim::replica::history::Call;
use greenwave_sim::replica::kv::{Kv, command};
use greenwave_sim::{Event, Seed, Trace};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const KEY: u64 = 1;

#[derive(Debug)]
struct Nothing;

impl Event for Nothing {
    fn trace(&self, _: &mut Trace) {}
}

struct Duel {
    group: Group<Kv, Nothing>,
    tickets: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// The leader read on its own after it was cut off.
    alone: bool,
    /// It did so after another one had acknowledged a write.
    stale: bool,
}

impl Duel {
    fn new(seed: u64, drift: u32) -> Self {
        let mut core = CoreConfig::new(NodeId::new(1).unwrap());
        core.reads = Reads::Lease { drift };
        let rule = GroupRule {
            replicas: 3,
            core,
            link: LinkRule::delay(MS / 5),
            interface: Bandwidth::UNLIMITED,
            framing: 0.0,
            disk: greenwave_sim::disk::DiskRule::sync(MS / 5),
            leader: Work::FREE,
            follower: Work::FREE,
            command_bytes: 64,
            watched: true,
        };
        Self { group: Group::new(rule, Seed::new(seed)).unwrap(), tickets: 0 }
    }

    /// Goes on for so long; what was told meanwhile.
    fn run(&mut self, span: Duration) -> Vec<Told> {
        let end = self.group.now() + span;
        let mut told = Vec::new();
        loop {
            let step = self.group.step(end);
            told.extend(std::iter::from_fn(|| self.group.told()));
            if matches!(step, greenwave_sim::replica::group::Step::End) {
                // Nothing else may have happened up to then.
                self.group.at(end, Nothing);
                self.group.step(end);
                return told;
            }
        }
    }

    fn give(&mut self, node: usize, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.group.give(node, Duration::ZERO, input(ticket));
        ticket
    }

    fn read(&mut self, node: usize) -> Ticket {
        self.give(node, |ticket| Input::Read { ticket, deadline: Deadline::NEVER })
    }

    /// A write at whoever leads beside `node`, until one is acknowledged.
    fn write_beside(&mut self, node: usize, value: u64) {
        let until = self.group.now() + Duration::from_secs(20);
        loop {
            assert!(self.group.now() < until, "nobody is elected");
            let Some(leader) = self.group.leader().filter(|leader| *leader != node) else {
                self.run(MS / 2);
                continue;
            };
            let put = command(KEY, Call::Put(value)).into();
            let deadline = Deadline::NEVER;
            let put = |ticket| Input::Submit { ticket, session: Session::NONE, command: put, deadline };
            let ticket = self.give(leader, put);
            let done = |told: &Told| told.ticket == ticket && matches!(told.outcome, Some(Outcome::Applied(_)));
            for _ in 0..20 {
                if self.run(MS / 2).iter().any(done) {
                    return;
                }
            }
        }
    }

    /// The leader's clock goes slower by so many parts per thousand.
    fn fight(&mut self, slower: u32) -> Verdict {
        self.write_beside(usize::MAX, 1);
        let leader = self.group.leader().unwrap();
        self.group.go(leader, 1000 - slower);
        self.run(500 * MS);
        // The lease begins with a read that asks the others.
        let asked = self.read(leader);
        assert!(self.run(20 * MS).iter().any(|told| told.ticket == asked && told.outcome.is_none()));
        for other in (0..3).filter(|other| *other != leader) {
            self.group.network.cut(leader, other);
            self.group.network.cut(other, leader);
        }
        let is_read = |told: &[Told], ticket| told.iter().any(|told| told.ticket == ticket && told.outcome.is_none());
        let asked = self.read(leader);
        let alone = is_read(&self.run(20 * MS), asked);
        self.write_beside(leader, 2);
        let asked = self.read(leader);
        let told = self.run(MS / 100);
        let seen = self.group.machine(leader).and_then(|machine| machine.value(KEY));
        assert!(self.group.violation().is_none() && self.group.now() > Time::ZERO);
        Verdict { alone, stale: is_read(&told, asked) && seen != Some(2) }
    }
}

/// As long as rates differ by no more than what leases leave as a margin, no read is stale, though leaders read alone.
#[test]
fn leases_hold_while_rates_differ_by_no_more_than_the_drift() {
    for (drift, slower) in [(0, 0), (20, 20), (100, 100), (300, 300), (499, 499)] {
        for seed in 0..60 {
            let verdict = Duel::new(seed, drift).fight(slower);
            assert_eq!(verdict, Verdict { alone: true, stale: false }, "drift {drift}, seed {seed}");
        }
    }
}

/// A lease that leaves less of a margin than the clocks need is found.
#[test]
fn leases_without_a_margin_are_found() {
    let stale = |drift, slower| (0..60).filter(|seed| Duel::new(*seed, drift).fight(slower).stale).count();
    assert!(stale(0, 499) > 10, "{} of 60", stale(0, 499));
    assert!(stale(0, 300) > 0);
}
