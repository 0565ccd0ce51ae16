//! Whatever the two sides do, and in whatever order, a queue keeps to its contract.

mod hosts;

use std::collections::HashMap;
use std::time::Duration;

use greenwave_verbs::memory::Network;
use greenwave_verbs::{Choice, Close, CloseReason, EndpointId, QueueConfig};
use hosts::{Host, Seen, until};
use proptest::prelude::*;

/// What one side does next. Connections are chosen by number, modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect,
    Post { side: usize, connection: usize, length: usize },
    Submit { side: usize },
    Poll { side: usize },
    Wait { side: usize },
    Close { side: usize, connection: usize, how: Close },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let how = prop_oneof![Just(Close::Flush), Just(Close::Abort)];
    let step = prop_oneof![
        1 => Just(Step::Connect),
        12 => (0..2_usize, 0..8_usize, 1..=300_usize)
            .prop_map(|(side, connection, length)| Step::Post { side, connection, length }),
        6 => (0..2_usize).prop_map(|side| Step::Submit { side }),
        8 => (0..2_usize).prop_map(|side| Step::Poll { side }),
        2 => (0..2_usize).prop_map(|side| Step::Wait { side }),
        1 => (0..2_usize, 0..8_usize, how).prop_map(|(side, connection, how)| Step::Close { side, connection, how }),
    ];
    prop::collection::vec(step, 1..150)
}

/// One side's view of its connections.
#[derive(Default)]
struct Side {
    /// In the order in which they came up; each begins by sending its number, so that the two views can be matched.
    endpoints: Vec<EndpointId>,
    posted: HashMap<EndpointId, Vec<Vec<u8>>>,
    closed_by_us: HashMap<EndpointId, Close>,
}

struct Outcome {
    received: Vec<Vec<u8>>,
    end: Option<CloseReason>,
}

fn outcome(host: &Host, endpoint: EndpointId) -> Outcome {
    let received = host.log.iter().filter_map(|seen| match seen {
        Seen::Received(id, chunk) if *id == endpoint => Some(chunk.clone()),
        _ => None,
    });
    Outcome { received: received.collect(), end: host.closed(endpoint) }
}

fn run(config: &QueueConfig, address: &str, steps: &[Step]) -> Result<(), TestCaseError> {
    let (Some(server), Some(client)) = (Host::new(config), Host::new(config)) else { return Ok(()) };
    let mut hosts = [server, client];
    let mut sides = [Side::default(), Side::default()];
    let (_, address) = hosts[0].listen(&address.parse().unwrap());
    for &step in steps {
        match step {
            Step::Connect => {
                let endpoint = hosts[1].connect(&address);
                sides[1].endpoints.push(endpoint);
                // The number by which the server's view is matched to this one.
                let number = sides[1].endpoints.len() as u32 - 1;
                hosts[1].queue.post_send(endpoint, &[&number.to_le_bytes()]).unwrap();
            }
            Step::Post { side, connection, length } => {
                let Some(endpoint) = pick(&sides[side], connection) else { continue };
                let chunk = vec![sides[side].posted.len() as u8 ^ length as u8; length];
                let room = hosts[side].queue.send_room(endpoint);
                let posted = hosts[side].queue.post_send(endpoint, &[&chunk]);
                prop_assert_eq!(posted.is_ok(), room > 0, "room means that a chunk may be posted");
                if posted.is_ok() {
                    sides[side].posted.entry(endpoint).or_default().push(chunk);
                }
            }
            Step::Submit { side } => hosts[side].queue.submit(),
            Step::Poll { side } => drop(hosts[side].turn()),
            Step::Wait { side } => {
                let now = hosts[side].now();
                hosts[side].queue.wait(now, Some(Duration::ZERO));
            }
            Step::Close { side, connection, how } => {
                let Some(endpoint) = pick(&sides[side], connection) else { continue };
                hosts[side].queue.close(endpoint, how);
                let first = sides[side].closed_by_us.entry(endpoint).or_insert(how);
                // An abort ends a flush that isn't done.
                *first = if how == Close::Abort { how } else { *first };
            }
        }
        sides[0].endpoints = accepted(&hosts[0]);
    }
    settle(&mut hosts, &sides);
    check(&hosts, &sides)
}

fn pick(side: &Side, connection: usize) -> Option<EndpointId> {
    side.endpoints.get(connection % side.endpoints.len().max(1)).copied()
}

fn accepted(server: &Host) -> Vec<EndpointId> {
    let accepted = server.log.iter().filter_map(|seen| match seen {
        Seen::Accepted(endpoint) => Some(*endpoint),
        _ => None,
    });
    accepted.collect()
}

/// Closes everything that is open, and waits until both sides have heard of every end.
fn settle(hosts: &mut [Host; 2], sides: &[Side; 2]) {
    let [server, client] = hosts;
    for endpoint in &sides[1].endpoints {
        client.queue.close(*endpoint, Close::Flush);
    }
    let aborted = |endpoint: &EndpointId| sides[1].closed_by_us.get(endpoint) == Some(&Close::Abort);
    until([server, client], |[server, client]| {
        let ended = |host: &Host, endpoint: &EndpointId| host.closed(*endpoint).is_some();
        sides[1].endpoints.iter().all(|endpoint| aborted(endpoint) || ended(client, endpoint))
            && accepted(server)
                .iter()
                .all(|endpoint| sides[0].closed_by_us.get(endpoint) == Some(&Close::Abort) || ended(server, endpoint))
    });
    server.idle();
    client.idle();
}

fn check(hosts: &[Host; 2], sides: &[Side; 2]) -> Result<(), TestCaseError> {
    for (side, host) in hosts.iter().enumerate() {
        let mut over = Vec::new();
        for seen in &host.log {
            let endpoint = match seen {
                Seen::Closed(id, _) | Seen::Received(id, _) | Seen::Writable(id) | Seen::Connected(id) => *id,
                _ => continue,
            };
            prop_assert!(!over.contains(&endpoint), "side {side}: {seen:?} after the end");
            if matches!(seen, Seen::Closed(..)) {
                over.push(endpoint);
            }
        }
    }
    for at_server in accepted(&hosts[0]) {
        let heard = outcome(&hosts[0], at_server);
        let Some((first, chunks)) = heard.received.split_first() else { continue };
        let number = u32::from_le_bytes(first.as_slice().try_into().expect("the first chunk is the number"));
        let at_client = sides[1].endpoints[number as usize];
        let nothing = Vec::new();
        let posted = sides[1].posted.get(&at_client).unwrap_or(&nothing);
        prop_assert!(posted.starts_with(chunks), "the server heard what was not said");
        let answered = outcome(&hosts[1], at_client);
        let answers = sides[0].posted.get(&at_server).unwrap_or(&nothing);
        prop_assert!(answers.starts_with(&answered.received), "the client heard what was not said");
        let server_closed = sides[0].closed_by_us.contains_key(&at_server);
        if !server_closed && answered.end == Some(CloseReason::Flushed) {
            prop_assert_eq!(posted.len(), chunks.len(), "a flush lost something");
            prop_assert_eq!(heard.end, Some(CloseReason::PeerClosed));
        }
    }
    Ok(())
}

fn config(backend: Choice) -> QueueConfig {
    QueueConfig { backend, chunk_bytes: 300, receive_buffers: 4, entries: 8, backlog_bytes: 2000, ..Default::default() }
}

proptest! {
    #[test]
    fn over_uring(steps in steps()) {
        run(&config(Choice::Uring), "tcp://127.0.0.1:0", &steps)?;
    }

    #[test]
    fn over_epoll(steps in steps()) {
        run(&config(Choice::Epoll), "tcp://127.0.0.1:0", &steps)?;
    }

    #[cfg(feature = "fabric")]
    #[test]
    fn over_shared_memory(steps in steps()) {
        run(&config(Choice::Fabric), "fabric+shm://", &steps)?;
    }

    #[cfg(feature = "fabric")]
    #[test]
    fn over_a_fabric_of_tcp(steps in steps()) {
        run(&config(Choice::Fabric), "fabric+tcp://127.0.0.1:0", &steps)?;
    }

    #[test]
    fn over_memory(steps in steps(), seed: u64) {
        run(&config(Choice::Memory(Network::new(seed))), "memory://", &steps)?;
    }
}
