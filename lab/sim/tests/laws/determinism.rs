//! A small system of everything there is: the same seed gives the same run, another one another, and a component that
//! is added leaves the others' chance alone.

use greenwave_policy::Time;
use greenwave_sim::{Bandwidth, Cpu, CpuCost, Disk, DiskRule, Event, LinkRule, Network, Seed, Simulation, Trace};
use std::time::Duration;

enum GroupEvent {
    Arrives { at: usize, number: u64 },
    Worked { at: usize, number: u64 },
    Synced { at: usize },
}

impl Event for GroupEvent {
    fn trace(&self, trace: &mut Trace) {
        match *self {
            Self::Arrives { at, number } => trace.number(0).number(at as u64).number(number),
            Self::Worked { at, number } => trace.number(1).number(at as u64).number(number),
            Self::Synced { at } => trace.number(2).number(at as u64),
        };
    }
}

/// Messages go round: received, worked on, synced, sent on to somebody. What happened, as a hash and a count of
/// messages; and the instants at which node 1 received something from node 0's first message.
fn run(seed: u64, nodes: usize) -> (u64, usize, Time) {
    let seed = Seed::new(seed);
    let rule = LinkRule {
        jitter: Duration::from_millis(2),
        bandwidth: Bandwidth::bits_per_s(10_000_000),
        loss: 0.01,
        ..LinkRule::delay(Duration::from_millis(3))
    };
    let mut network = Network::new(nodes, seed, rule);
    let mut route = seed.stream("route", 0);
    let mut simulation = Simulation::new();
    let cost = CpuCost { per_message: Duration::from_micros(20), per_byte_ns: 1.0 };
    let mut cpus = vec![Cpu::new(2); nodes];
    let mut disks = vec![Disk::new(DiskRule::sync(Duration::from_millis(1)), Seed::new(7).stream("disk", 0)); nodes];
    let (mut received, mut first) = (0, Time::MAX);
    let send = |simulation: &mut Simulation<_>, network: &mut Network, from, to, number: u64| {
        if let Some(arrival) = network.send(simulation.now(), from, to, 100 + number).arrival() {
            simulation.at(arrival, GroupEvent::Arrives { at: to, number });
        }
    };
    for number in 0..20 {
        send(&mut simulation, &mut network, 0, 1, number);
    }
    while let Some(event) = simulation.next_until(Time::from_nanos(500_000_000)) {
        let now = simulation.now();
        match event {
            GroupEvent::Arrives { at, number } => {
                received += 1;
                first = first.min(now);
                let done = cpus[at].work(now, cost.of(100 + number));
                simulation.at(done, GroupEvent::Worked { at, number });
            }
            GroupEvent::Worked { at, number } => {
                if let Some(end) = disks[at].write(now, number, 100) {
                    simulation.at(end, GroupEvent::Synced { at });
                }
            }
            GroupEvent::Synced { at } => {
                let (synced, next) = disks[at].finish(now).expect("a sync ends when it said");
                if let Some(end) = next {
                    simulation.at(end, GroupEvent::Synced { at });
                }
                for number in synced.writes {
                    let to = route.below(nodes as u64) as usize;
                    send(&mut simulation, &mut network, at, to, number);
                }
            }
        }
    }
    (simulation.hash(), received, first)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let runs: Vec<_> = (0..20).map(|seed| run(seed, 3)).collect();
    let again: Vec<_> = (0..20).map(|seed| run(seed, 3)).collect();
    assert_eq!(runs, again);
    assert!(runs.iter().all(|&(_, received, _)| received > 500), "{runs:?}");
    let hashes: std::collections::HashSet<_> = runs.iter().map(|&(hash, ..)| hash).collect();
    assert_eq!(hashes.len(), 20, "different seeds, different runs");
}

/// The link from 0 to 1 draws the same, with more nodes around it.
#[test]
fn what_is_added_leaves_the_others_chance_alone() {
    for seed in 0..20 {
        assert_eq!(run(seed, 3).2, run(seed, 7).2);
    }
}
