//! The network in memory keeps virtual time, and does to chunks what it is told to.

mod hosts;

use std::num::NonZeroU32;
use std::time::Duration;

use greenwave_policy::Time;
use greenwave_verbs::memory::{Direction, Faults, Network};
use greenwave_verbs::{Choice, CloseReason, EndpointId, QueueConfig};
use hosts::Host;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

/// A client and a server named `shop` with one connection, and the time that they share.
struct World {
    network: Network,
    server: Host,
    client: Host,
    at_server: EndpointId,
    at_client: EndpointId,
    now: Time,
}

impl World {
    fn new(seed: u64) -> Self {
        let network = Network::new(seed);
        let config = QueueConfig { backend: Choice::Memory(network.clone()), ..QueueConfig::default() };
        let (mut server, mut client) = (Host::new(&config).unwrap(), Host::new(&config).unwrap());
        let address = "memory://shop".parse().unwrap();
        server.queue.listen(&address).unwrap();
        let at_client = client.queue.connect(&address).unwrap();
        server.poll_at(Time::ZERO);
        client.poll_at(Time::ZERO);
        let at_server = server.accepted().unwrap();
        assert!(client.is_connected(at_client));
        Self { network, server, client, at_server, at_client, now: Time::ZERO }
    }

    fn spoil(&self, faults: Faults) {
        self.network.set_faults("shop", Direction::ToListener, faults);
    }

    fn send(&mut self, chunk: &[u8]) {
        self.client.queue.post_send(self.at_client, &[chunk]).unwrap();
        self.client.queue.submit();
    }

    fn turn(&mut self) {
        self.server.poll_at(self.now);
        self.client.poll_at(self.now);
    }

    /// Goes from one due time to the next until nothing is under way.
    fn run(&mut self) {
        while let Some(due) = self.network.next_due() {
            self.now = self.now.max(due);
            self.turn();
        }
    }
}

#[test]
fn a_chunk_arrives_when_it_is_due_and_not_before() {
    let mut world = World::new(1);
    world.spoil(Faults { delay: 10 * MS, ..Faults::default() });
    world.now = Time::ZERO + 5 * MS;
    world.turn();
    world.send(b"later");
    let due = Time::ZERO + 15 * MS;
    assert_eq!(world.network.next_due(), Some(due));
    world.server.poll_at(Time::from_nanos(due.as_nanos() - 1));
    assert!(world.server.chunks().is_empty());
    world.server.poll_at(due);
    assert_eq!(world.server.chunks(), [b"later"]);
    assert_eq!(world.network.next_due(), None);
}

#[test]
fn a_connection_takes_both_delays_to_come_about() {
    let mut world = World::new(1);
    world.spoil(Faults { delay: 10 * MS, ..Faults::default() });
    world.network.set_faults("shop", Direction::FromListener, Faults { delay: 3 * MS, ..Faults::default() });
    world.client.log.clear();
    let endpoint = world.client.queue.connect(&"memory://shop".parse().unwrap()).unwrap();
    world.run();
    assert_eq!(world.now, Time::ZERO + 13 * MS);
    assert!(world.client.is_connected(endpoint));
}

#[test]
fn a_peer_that_trickles_takes_a_second_for_each_byte() {
    let mut world = World::new(1);
    world.spoil(Faults { bytes_per_second: NonZeroU32::new(1), ..Faults::default() });
    world.send(&[0; 3]);
    world.send(&[1; 2]);
    world.server.poll_at(Time::from_nanos(2_999_999_999));
    assert!(world.server.chunks().is_empty());
    world.run();
    assert_eq!(world.now, Time::from_nanos(5_000_000_000));
    assert_eq!(world.server.chunks(), [vec![0; 3], vec![1; 2]]);
}

#[test]
fn a_stalled_receiver_gets_everything_in_order_once_it_reads_again() {
    let mut world = World::new(1);
    world.network.set_window(1000);
    world.spoil(Faults { stall: true, ..Faults::default() });
    let mut posted = Vec::new();
    while world.client.queue.send_room(world.at_client) > 0 {
        posted.push(vec![posted.len() as u8; 900]);
        world.send(&vec![posted.len() as u8 - 1; 900]);
        world.turn();
        assert!(posted.len() < 1000, "a stalled receiver costs memory without bound");
    }
    assert!(world.server.chunks().is_empty());
    world.spoil(Faults::default());
    world.run();
    assert_eq!(world.server.chunks(), posted);
    assert!(world.client.is_writable(world.at_client));
}

#[test]
fn a_cut_connection_is_reset_at_both_ends_and_loses_what_was_under_way() {
    let mut world = World::new(1);
    world.send(b"lost");
    world.network.cut("shop");
    world.run();
    assert_eq!(world.server.closed(world.at_server), Some(CloseReason::Reset));
    assert_eq!(world.client.closed(world.at_client), Some(CloseReason::Reset));
    assert!(world.server.chunks().is_empty());
}

#[test]
fn a_connection_may_be_cut_after_so_many_chunks() {
    let mut world = World::new(1);
    world.spoil(Faults { cut_after: Some(2), ..Faults::default() });
    for chunk in [b"one", b"two"] {
        world.send(chunk);
        world.run();
    }
    world.send(b"not this one");
    world.run();
    assert_eq!(world.server.chunks(), [b"one", b"two"]);
    assert_eq!(world.server.closed(world.at_server), Some(CloseReason::Reset));
}

#[test]
fn every_chunk_is_duplicated_swapped_or_spoilt_if_the_probability_is_one() {
    let mut world = World::new(1);
    world.spoil(Faults { duplicate: 1.0, ..Faults::default() });
    world.send(b"twice");
    world.run();
    assert_eq!(world.server.chunks(), [b"twice", b"twice"]);

    world.server.log.clear();
    world.spoil(Faults { reorder: 1.0, ..Faults::default() });
    world.send(b"a");
    world.send(b"b");
    world.run();
    assert_eq!(world.server.chunks(), [b"b", b"a"]);

    world.server.log.clear();
    world.spoil(Faults { corrupt: 1.0, ..Faults::default() });
    world.send(&[0; 100]);
    world.run();
    let flipped: u32 = world.server.chunks().concat().iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(flipped, 1, "one bit is flipped");
}

proptest! {
    /// The same seed and the same calls give the same chunks, spoilt in the same way, at the same times.
    #[test]
    fn a_seed_decides_everything(seed: u64, chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 1..50)) {
        let faults = Faults { delay: MS, reorder: 0.3, duplicate: 0.3, corrupt: 0.3, ..Faults::default() };
        let outcomes = [(); 2].map(|()| {
            let mut world = World::new(seed);
            world.spoil(faults.clone());
            for chunk in &chunks {
                world.send(chunk);
                world.turn();
            }
            world.run();
            (world.now, world.server.chunks().concat())
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }

    /// Without faults that change chunks, what arrives is what was sent, however stalls, delays and turns fall.
    #[test]
    fn stalls_and_delays_lose_and_reorder_nothing(
        seed: u64,
        steps in prop::collection::vec((0_u8..4, 0_u64..5), 1..100),
    ) {
        let mut world = World::new(seed);
        world.network.set_window(40);
        let mut posted = Vec::new();
        for (kind, amount) in steps {
            match kind {
                0 => world.spoil(Faults { stall: amount % 2 == 0, delay: amount as u32 * MS, ..Faults::default() }),
                1 => world.now = world.now + amount as u32 * MS,
                2 => world.turn(),
                _ => {
                    let chunk = vec![posted.len() as u8; amount as usize * 4 + 1];
                    world.send(&chunk);
                    posted.push(chunk);
                }
            }
        }
        world.client.queue.close(world.at_client, greenwave_verbs::Close::Flush);
        world.spoil(Faults::default());
        world.run();
        prop_assert_eq!(world.server.chunks(), posted);
        prop_assert_eq!(world.server.closed(world.at_server), Some(CloseReason::PeerClosed));
    }
}

#[test]
fn a_sleeper_wakes_when_a_delayed_chunk_is_due() {
    let mut world = World::new(1);
    world.spoil(Faults { delay: 5 * MS, ..Faults::default() });
    world.send(b"soon");
    while world.server.chunks().is_empty() {
        let now = world.server.now();
        world.server.queue.wait(now, None);
        world.server.turn();
    }
    assert_eq!(world.server.chunks(), [b"soon"]);
}
