//! Endpoints that are stalled, busier than others, or asleep, over every carrier.

mod hosts;

use greenwave_verbs::{Address, Close, EndpointId, VerbsError};
use hosts::site::{Site, over_every_carrier};
use hosts::{Host, Seen, connect, until};

over_every_carrier! {
    a_peer_that_never_reads_stops_the_sender_until_it_reads
    an_endpoint_that_was_busy_alone_is_like_any_other
    a_busy_endpoint_is_written_when_its_peer_reads_again
    two_threads_that_spin_and_sleep_by_turns_lose_nothing
}

fn a_peer_that_never_reads_stops_the_sender_until_it_reads(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    stall_and_resume(site, &mut server, (&mut client, at_client));
}

fn stall_and_resume(site: &Site, server: &mut Host, (client, at_client): (&mut Host, EndpointId)) {
    server.log.clear();
    client.log.clear();
    let chunk = vec![7; site.config.chunk_bytes];
    let (mut posted, mut fruitless) = (0, 0);
    // The client alone takes turns. What it may post ends once the buffers between the two are full.
    while fruitless < 1000 {
        fruitless += 1;
        while client.queue.send_room(at_client) > 0 {
            client.queue.post_send(at_client, &[&chunk]).unwrap();
            posted += 1;
            fruitless = 0;
        }
        client.turn();
        assert!(posted < 1 << 16, "a peer that doesn't read costs memory without bound");
    }
    assert!(matches!(client.queue.post_send(at_client, &[b"x"]), Err(VerbsError::NoRoom { .. })));
    client.log.clear();
    until([server, client], |[server, client]| client.is_writable(at_client) && server.chunks().len() == posted);
    assert!(client.queue.send_room(at_client) >= site.config.chunk_bytes);
    assert!(server.chunks().iter().all(|received| *received == chunk));
}

fn an_endpoint_that_was_busy_alone_is_like_any_other(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    let address = match &site.address {
        Address::Unix(path) => Address::Unix(path.with_extension("other")),
        other => other.clone(),
    };
    let other = connect(&mut server, &mut client, &address);
    for _ in 0..3 {
        keep_busy((&mut server, at_server), (&mut client, at_client), 200);
        // Others are heard all the same,
        keep_busy((&mut server, other.0), (&mut client, other.1), 200);
        // silence doesn't make it deaf,
        keep_busy((&mut server, at_server), (&mut client, at_client), 1);
        keep_busy((&mut server, at_server), (&mut client, at_client), 200);
        // and its arrivals end a wait.
        client.queue.post_send(at_client, &[b"wake up"]).unwrap();
        client.queue.submit();
        server.log.clear();
        while server.chunks().is_empty() {
            server.queue.wait(server.now(), None);
            server.turn();
        }
    }
    keep_busy((&mut server, at_server), (&mut client, at_client), 200);
    client.queue.close(at_client, Close::Flush);
    until([&mut server, &mut client], |[server, client]| {
        server.closed(at_server).is_some() && client.closed(at_client).is_some()
    });
}

fn a_busy_endpoint_is_written_when_its_peer_reads_again(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    keep_busy((&mut server, at_server), (&mut client, at_client), 200);
    stall_and_resume(site, &mut server, (&mut client, at_client));
}

/// Sends one chunk there and back, so often that a queue may treat the two ends specially.
fn keep_busy(server: (&mut Host, EndpointId), client: (&mut Host, EndpointId), rounds: usize) {
    let ((server, at_server), (client, at_client)) = (server, client);
    server.log.clear();
    client.log.clear();
    for round in 1..=rounds {
        client.queue.post_send(at_client, &[b"ping"]).unwrap();
        until([server, client], |[server, _]| server.chunks().len() == round);
        server.queue.post_send(at_server, &[b"pong"]).unwrap();
        until([server, client], |[_, client]| client.chunks().len() == round);
    }
}

fn has_closed(log: &[Seen], endpoint: EndpointId) -> bool {
    log.iter().any(|seen| matches!(seen, Seen::Closed(closed, ..) if *closed == endpoint))
}

fn two_threads_that_spin_and_sleep_by_turns_lose_nothing(site: &Site, mut server: Host, mut client: Host) {
    const CHUNKS: usize = 4000;
    let (_, address) = server.listen(&site.address);
    let echo = std::thread::spawn(move || {
        let mut ended = 0;
        while ended < 3 {
            spin_then_sleep(&mut server);
            let log = std::mem::take(&mut server.log);
            for seen in &log {
                match seen {
                    // The client goes when it has enough, and what was too much may come together with its end.
                    Seen::Received(endpoint, _) if has_closed(&log, *endpoint) => {}
                    Seen::Received(endpoint, chunk) => server.queue.post_send(*endpoint, &[chunk]).unwrap(),
                    Seen::Closed(..) => ended += 1,
                    _ => {}
                }
            }
        }
    });
    let endpoints = [(); 3].map(|()| client.connect(&address));
    let (mut posted, mut answered) = ([0_usize; 3], [0_usize; 3]);
    while answered.iter().sum::<usize>() < CHUNKS {
        // One of them alone for a while, then two by turns, then all three; some chunks alone, some in batches.
        let round: usize = answered.iter().sum();
        let busy = 1 + round / 500 % 3;
        for which in 0..busy {
            let batch = if round.is_multiple_of(7) { 5 } else { 1 };
            while posted[which] < answered[which] + batch {
                client.queue.post_send(endpoints[which], &[&posted[which].to_le_bytes()]).unwrap();
                posted[which] += 1;
            }
        }
        spin_then_sleep(&mut client);
        for seen in std::mem::take(&mut client.log) {
            if let Seen::Received(endpoint, chunk) = seen {
                let which = endpoints.iter().position(|id| *id == endpoint).unwrap();
                assert_eq!(chunk, answered[which].to_le_bytes());
                answered[which] += 1;
            }
        }
    }
    endpoints.iter().for_each(|endpoint| client.queue.close(*endpoint, Close::Flush));
    until([&mut client], |[client]| endpoints.iter().all(|endpoint| client.closed(*endpoint).is_some()));
    echo.join().unwrap();
}

/// Polls until something is found, and sleeps in between if that takes long. A host that sleeps for ever has lost
/// what would have woken it; the limit ends the test then.
fn spin_then_sleep(host: &mut Host) {
    let limit = std::time::Duration::from_secs(20);
    for polls in 0.. {
        if host.turn() > 0 {
            return;
        }
        if polls % 300 == 299 {
            let asleep = std::time::Instant::now();
            host.queue.wait(host.now(), Some(limit));
            assert!(asleep.elapsed() < limit, "nothing woke it");
        }
    }
}
