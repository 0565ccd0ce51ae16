//! What a queue with many connections says ahead of what it tells.

mod hosts;

use std::collections::HashSet;

use greenwave_verbs::{Choice, Event, QueueConfig};
use hosts::{Host, Seen, until};

fn host() -> Option<Host> {
    Host::new(&QueueConfig { backend: Choice::Uring, ..QueueConfig::default() })
}

/// Sends a chunk over each of so many connections. Over how many of them the server was told ahead that something comes.
fn told_ahead(connections: usize) -> Option<usize> {
    let (mut server, mut client) = (host()?, host()?);
    let (_, address) = server.listen(&"tcp://127.0.0.1:0".parse().unwrap());
    let all: Vec<_> = (0..connections).map(|_| client.connect(&address)).collect();
    until([&mut server, &mut client], |[server, client]| {
        let accepted = server.log.iter().filter(|seen| matches!(seen, Seen::Accepted(_))).count();
        accepted == connections && all.iter().all(|endpoint| client.is_connected(*endpoint))
    });
    for endpoint in &all {
        client.queue.post_send(*endpoint, &[b"a chunk"]).unwrap();
    }
    client.queue.submit();
    let (mut expected, mut received) = (HashSet::new(), HashSet::new());
    while received.len() < connections {
        client.turn();
        let (mut count, now) = (0, server.now());
        let found = server.queue.poll(now, &mut |event| match event {
            Event::Ahead { endpoint } => assert!(!received.contains(&endpoint) && expected.insert(endpoint)),
            Event::Received { endpoint, .. } => {
                assert!(received.insert(endpoint));
                count += 1;
            }
            _ => count += 1,
        });
        assert_eq!(found, count, "what is said ahead is not counted");
    }
    assert!(expected.is_subset(&received), "what is said ahead comes");
    Some(expected.len())
}

#[test]
fn what_comes_next_is_said_ahead_where_there_are_many_connections() {
    if let Some(told) = told_ahead(200) {
        assert!(told >= 100, "of 200 chunks that were there at once, {told} were told of ahead");
    }
}

#[test]
fn few_connections_are_told_of_at_once() {
    assert!(told_ahead(20).is_none_or(|told| told == 0));
}
