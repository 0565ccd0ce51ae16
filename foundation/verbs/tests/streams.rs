//! What the queues over sockets do with peers that are no queues, and with the sockets themselves.

mod hosts;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use greenwave_policy::Time;
use greenwave_verbs::{Address, Backend, Choice, Close, CloseReason, EndpointId, QueueConfig, VerbsError};
use hosts::{Host, Seen, connect, until};
use tempfile::TempDir;

const CHUNK_BYTES: usize = 4096;

/// A server that listens at a path, and what a test needs beside it.
struct Site {
    server: Host,
    config: QueueConfig,
    directory: TempDir,
}

impl Site {
    fn new(config: QueueConfig) -> Option<Self> {
        let config = QueueConfig { chunk_bytes: CHUNK_BYTES, ..config };
        Some(Self { server: Host::new(&config)?, config, directory: TempDir::new().unwrap() })
    }

    fn address(&self) -> Address {
        Address::Unix(self.directory.path().join("socket"))
    }

    /// A peer that writes what it likes.
    fn peer(&mut self) -> UnixStream {
        self.server.listen(&self.address());
        let peer = UnixStream::connect(self.directory.path().join("socket")).unwrap();
        until([&mut self.server], |[server]| server.accepted().is_some());
        peer
    }
}

fn over_both(test: impl Fn(Site)) {
    for backend in [Choice::Uring, Choice::Epoll] {
        if let Some(site) = Site::new(QueueConfig { backend, ..QueueConfig::default() }) {
            test(site);
        }
    }
}

fn framed(chunk: &[u8]) -> Vec<u8> {
    [&(chunk.len() as u32).to_le_bytes(), chunk].concat()
}

#[test]
fn chunks_that_trickle_in_byte_by_byte_arrive_whole() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let chunks = [b"drip".to_vec(), vec![1], b"drop".repeat(50)];
        for byte in chunks.iter().flat_map(|chunk| framed(chunk)) {
            peer.write_all(&[byte]).unwrap();
            site.server.turn();
        }
        until([&mut site.server], |[server]| server.chunks().len() == chunks.len());
        assert_eq!(site.server.chunks(), chunks);
    });
}

#[test]
fn a_write_may_end_anywhere_within_a_chunk() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let stream: Vec<u8> = (1..40_u8).flat_map(|length| framed(&vec![length; length.into()])).collect();
        for step in [3, 4, 5, 7, 64, stream.len()] {
            site.server.log.clear();
            for piece in stream.chunks(step) {
                peer.write_all(piece).unwrap();
                site.server.turn();
            }
            until([&mut site.server], |[server]| server.chunks().len() == 39);
            assert!((1..40).zip(site.server.chunks()).all(|(length, chunk)| *chunk == vec![length; length.into()]));
        }
    });
}

/// Who posts twice and does something long before its next poll isn't waited for: what it posted last is written, too.
#[test]
fn what_is_posted_after_a_write_needs_no_poll_to_be_written() {
    over_both(|mut site| {
        let mut peers = [site.peer(), UnixStream::connect(site.directory.path().join("socket")).unwrap()];
        let accepted = |server: &Host| -> Vec<EndpointId> {
            let endpoints = server.log.iter().filter_map(|seen| match seen {
                Seen::Accepted(endpoint) => Some(*endpoint),
                _ => None,
            });
            endpoints.collect()
        };
        until([&mut site.server], |[server]| accepted(server).len() == 2);
        let endpoints = accepted(&site.server);
        site.server.idle();
        // Of two connections each has a request of its own where there is a ring.
        for round in 0..5_u8 {
            for endpoint in &endpoints {
                site.server.queue.post_send(*endpoint, &[&[round; 9]]).unwrap();
            }
            site.server.queue.submit();
        }
        for peer in &mut peers {
            peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let expected: Vec<u8> = (0..5_u8).flat_map(|round| framed(&[round; 9])).collect();
            let mut written = vec![0; expected.len()];
            peer.read_exact(&mut written).unwrap();
            assert_eq!(written, expected);
        }
    });
}

#[test]
fn a_peer_that_announces_a_length_that_is_not_allowed_is_cut_off() {
    for len in [0, CHUNK_BYTES as u32 + 1, u32::MAX] {
        over_both(|mut site| {
            let mut peer = site.peer();
            peer.write_all(&framed(b"before")).unwrap();
            peer.write_all(&len.to_le_bytes()).unwrap();
            peer.write_all(b"and whatever follows").unwrap();
            let endpoint = site.server.accepted().unwrap();
            until([&mut site.server], |[server]| server.closed(endpoint).is_some());
            let reason = CloseReason::Oversized { len: len as usize, limit: CHUNK_BYTES };
            assert_eq!(site.server.closed(endpoint), Some(reason));
            assert_eq!(site.server.chunks(), [b"before"]);
            assert_eq!(site.server.queue.stats().oversized, 1);
            site.server.idle();
            let mut rest = Vec::new();
            // The end of the stream, or a reset because of what was not read.
            let _ = peer.read_to_end(&mut rest);
            assert!(rest.is_empty());
        });
    }
}

#[test]
fn a_stream_that_ends_within_a_chunk_is_counted() {
    over_both(|mut site| {
        let mut peer = site.peer();
        peer.write_all(&framed(b"never finished")[..9]).unwrap();
        drop(peer);
        let endpoint = site.server.accepted().unwrap();
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
        assert_eq!(site.server.closed(endpoint), Some(CloseReason::PeerClosed));
        assert_eq!((site.server.chunks().len(), site.server.queue.stats().truncated), (0, 1));
    });
}

#[test]
fn what_a_peer_sent_before_it_went_is_received_although_writing_to_it_fails() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        peer.write_all(&framed(b"goodbye")).unwrap();
        drop(peer);
        for _ in 0..100 {
            // Refused only once the end was told.
            let _ = site.server.queue.post_send(endpoint, &[b"are you there?"]);
            site.server.turn();
        }
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
        assert_eq!(site.server.chunks(), [b"goodbye"]);
    });
}

#[test]
fn a_flush_ends_although_the_peer_never_closes() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        site.server.queue.post_send(endpoint, &[b"bye"]).unwrap();
        site.server.queue.close(endpoint, Close::Flush);
        let start = site.server.now();
        let linger = Duration::from_millis(site.config.linger_millis.into());
        for _ in 0..100 {
            site.server.poll_at(start);
        }
        assert_eq!(site.server.closed(endpoint), None, "the peer has time to close");
        site.server.poll_at(start + 2 * linger);
        assert_eq!(site.server.closed(endpoint), Some(CloseReason::Flushed));
        site.server.idle();
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, framed(b"bye"));
    });
}

#[test]
fn a_socket_file_that_nobody_listens_at_is_replaced_and_no_other() {
    over_both(|mut site| {
        let path = site.directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener of the standard library leaves its file");
        let (listener, _) = site.server.listen(&site.address());
        UnixStream::connect(&path).unwrap();
        let refused = site.server.queue.listen(&site.address()).unwrap_err();
        assert!(matches!(refused, VerbsError::Listen { .. }), "somebody listens there: {refused}");
        site.server.queue.close_listener(listener);
        assert!(!path.exists(), "a closed listener takes its file along");

        std::fs::write(&path, "something else").unwrap();
        site.server.queue.listen(&site.address()).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"something else");
    });
}

#[test]
fn an_address_that_a_backend_does_not_carry_is_refused() {
    over_both(|mut site| {
        let address: Address = "memory://here".parse().unwrap();
        let refused =
            [site.server.queue.listen(&address).unwrap_err(), site.server.queue.connect(&address).unwrap_err()];
        assert!(refused.iter().all(|error| matches!(error, VerbsError::WrongTransport { .. })));
        let long = Address::Unix(site.directory.path().join("a".repeat(200)));
        assert!(matches!(site.server.queue.listen(&long), Err(VerbsError::Listen { .. })));
        assert!(matches!(site.server.queue.connect(&long), Err(VerbsError::Connect { .. })));
    });
}

#[test]
fn auto_is_uring_where_it_runs_and_epoll_elsewhere() {
    let auto = Host::new(&QueueConfig::default()).expect("there is a backend in any case");
    let uring = Host::new(&QueueConfig { backend: Choice::Uring, ..QueueConfig::default() });
    assert_eq!(auto.queue.backend(), if uring.is_some() { Backend::Uring } else { Backend::Epoll });
}

#[test]
fn few_receive_buffers_and_entries_slow_the_traffic_down_and_lose_nothing() {
    let config = QueueConfig { backend: Choice::Uring, receive_buffers: 2, entries: 8, ..QueueConfig::default() };
    let Some(mut site) = Site::new(config) else { return };
    let mut client = Host::new(&site.config).unwrap();
    let (_, address) = site.server.listen(&site.address());
    let endpoints: Vec<_> = (0..50).map(|_| client.queue.connect(&address).unwrap()).collect();
    for endpoint in &endpoints {
        for _ in 0..10 {
            client.queue.post_send(*endpoint, &[&[5; CHUNK_BYTES]]).unwrap();
        }
    }
    until([&mut site.server, &mut client], |[server, _]| server.chunks().len() == 500);
    assert!(site.server.chunks().iter().all(|chunk| **chunk == [5; CHUNK_BYTES]));
    assert!(site.server.queue.stats().out_of_buffers > 0, "two buffers were enough for fifty connections");
}

#[test]
fn an_idle_poll_enters_the_kernel_only_where_there_is_no_ring() {
    over_both(|mut site| {
        let mut client = Host::new(&site.config).unwrap();
        let address = site.address();
        connect(&mut site.server, &mut client, &address);
        site.server.idle();
        let before = site.server.queue.stats().system_calls;
        site.server.idle();
        let calls = site.server.queue.stats().system_calls - before;
        assert_eq!(calls == 0, site.server.queue.backend() == Backend::Uring, "{calls} calls");
    });
}

#[test]
fn a_ring_that_moved_to_another_thread_says_so() {
    let Some(mut site) = Site::new(QueueConfig { backend: Choice::Uring, ..QueueConfig::default() }) else { return };
    let _peer = site.peer();
    let endpoint = site.server.accepted().unwrap();
    let elsewhere = std::thread::spawn(move || {
        site.server.queue.post_send(endpoint, &[b"from elsewhere"]).unwrap();
        // A write needs no ring, but a wait does.
        site.server.queue.wait(Time::ZERO, None);
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
        assert!(matches!(site.server.closed(endpoint), Some(CloseReason::QueueFailed(_))));
        assert!(matches!(site.server.queue.connect(&Address::Unix("any".into())), Err(VerbsError::System { .. })));
    });
    elsewhere.join().unwrap();
}

#[test]
fn a_queue_that_moves_is_not_bound_to_a_thread() {
    let config = QueueConfig { movable: true, ..QueueConfig::default() };
    let mut site = Site::new(config).unwrap();
    let mut client = Host::new(&site.config).unwrap();
    let address = site.address();
    let (_, at_client) = connect(&mut site.server, &mut client, &address);
    for round in 1..5 {
        (site.server, client) = std::thread::spawn(move || {
            client.queue.post_send(at_client, &[b"wherever"]).unwrap();
            until([&mut site.server, &mut client], |[server, _]| server.chunks().len() == round);
            (site.server, client)
        })
        .join()
        .unwrap();
    }
}

/// What plain connections begin with.
const PREFACES: &[[u8; 4]] = &[*b"GET ", *b"PRI "];

/// A queue that takes connections beginning with `PRI ` as plain, as many bytes of them at a time as `step` says.
fn over_both_with_a_preface(test: impl Fn(Site, usize)) {
    for backend in [Choice::Uring, Choice::Epoll] {
        for step in [1, 3, 4, 5, 64, usize::MAX] {
            let config = QueueConfig { backend: backend.clone(), plain: PREFACES, ..QueueConfig::default() };
            if let Some(site) = Site::new(config) {
                test(site, step);
            }
        }
    }
}

#[test]
fn a_connection_that_begins_with_the_preface_is_plain_both_ways() {
    over_both_with_a_preface(|mut site, step| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        assert!(matches!(site.server.queue.post_plain(endpoint, b"early"), Err(VerbsError::NotPlain(_))));
        let said = b"PRI * HTTP/2.0, and whatever else";
        for piece in said.chunks(step.min(said.len())) {
            peer.write_all(piece).unwrap();
            site.server.turn();
        }
        until([&mut site.server], |[server]| server.chunks().concat().len() == said.len());
        assert_eq!(site.server.chunks().concat(), said);
        let told: Vec<usize> = (0..site.server.log.len())
            .filter(|at| matches!(site.server.log[*at], Seen::Plain(id) if id == endpoint))
            .collect();
        let first = site.server.log.iter().position(|seen| matches!(seen, Seen::Received(..)));
        assert!(told.len() == 1 && Some(told[0]) < first, "it is told once, before anything is received");
        site.server.queue.post_plain(endpoint, b"no length before it").unwrap();
        site.server.turn();
        let mut heard = [0; 19];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"no length before it");
        drop(peer);
        until([&mut site.server], |[server]| server.closed(endpoint) == Some(CloseReason::PeerClosed));
        assert_eq!(site.server.queue.stats().truncated, 0);
    });
}

#[test]
fn the_preface_later_on_is_a_length_that_is_not_allowed() {
    over_both_with_a_preface(|mut site, step| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        let said = [framed(b"a chunk"), b"PRI * HTTP/2.0".to_vec()].concat();
        for piece in said.chunks(step.min(said.len())) {
            if peer.write_all(piece).is_err() {
                break;
            }
            site.server.turn();
        }
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
        assert!(matches!(site.server.closed(endpoint), Some(CloseReason::Oversized { .. })));
        assert_eq!(site.server.chunks(), [b"a chunk"]);
    });
}

#[test]
fn without_a_preface_to_look_for_there_are_chunks_alone() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        peer.write_all(b"PRI * HTTP/2.0").unwrap();
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
        assert!(site.server.chunks().is_empty());
    });
}

#[test]
fn a_metered_endpoint_is_read_when_that_is_asked_for_and_not_otherwise() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        site.server.queue.meter(endpoint, true);
        site.server.idle();
        let chunks: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![number; 1000]).collect();
        peer.write_all(&chunks.iter().flat_map(|chunk| framed(chunk)).collect::<Vec<_>>()).unwrap();
        site.server.idle();
        assert_eq!(site.server.chunks().len(), 0, "nobody asked");
        let mut reads = 0;
        while site.server.chunks().len() < chunks.len() {
            let before = site.server.chunks().len();
            site.server.queue.post_receive(endpoint);
            site.server.queue.post_receive(endpoint);
            until([&mut site.server], |[server]| server.chunks().len() > before);
            site.server.idle();
            assert!(site.server.chunks().len() - before <= 17, "one read is no more than about 16 KiB");
            reads += 1;
        }
        assert!(reads >= 6 && site.server.chunks() == chunks, "whole and in order");
        drop(peer);
        site.server.idle();
        assert_eq!(site.server.closed(endpoint), None, "nor does anybody know that the peer has gone");
        site.server.queue.post_receive(endpoint);
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
    });
}

#[test]
fn what_was_asked_for_lasts_until_something_is_handed_on() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        site.server.queue.meter(endpoint, true);
        site.server.queue.post_receive(endpoint);
        let chunk = framed(b"in two parts");
        peer.write_all(&chunk[..9]).unwrap();
        site.server.idle();
        peer.write_all(&chunk[9..]).unwrap();
        until([&mut site.server], |[server]| server.chunks().len() == 1);
        peer.write_all(&framed(b"not asked for")).unwrap();
        site.server.idle();
        assert_eq!(site.server.chunks().len(), 1);
        site.server.queue.meter(endpoint, false);
        until([&mut site.server], |[server]| server.chunks().len() == 2);
        peer.write_all(&framed(b"as it comes")).unwrap();
        until([&mut site.server], |[server]| server.chunks().len() == 3);
    });
}

#[test]
fn an_endpoint_that_was_read_directly_can_be_metered_and_closed() {
    over_both(|mut site| {
        let mut peer = site.peer();
        let endpoint = site.server.accepted().unwrap();
        for number in 0..300 {
            peer.write_all(&framed(b"hot")).unwrap();
            until([&mut site.server], |[server]| server.chunks().len() > number);
        }
        site.server.queue.meter(endpoint, true);
        site.server.idle();
        let before = site.server.chunks().len();
        peer.write_all(&framed(b"cold")).unwrap();
        site.server.idle();
        assert_eq!(site.server.chunks().len(), before);
        site.server.queue.post_receive(endpoint);
        until([&mut site.server], |[server]| server.chunks().len() == before + 1);
        // A flush reads on to the end, whatever was asked for.
        site.server.queue.close(endpoint, Close::Flush);
        drop(peer);
        until([&mut site.server], |[server]| server.closed(endpoint).is_some());
    });
}

#[test]
fn the_first_poll_after_a_long_call_finds_what_the_less_active_sent() {
    over_both(|mut site| {
        let mut hot = site.peer();
        let mut other = UnixStream::connect(site.directory.path().join("socket")).unwrap();
        other.write_all(&framed(b"other")).unwrap();
        until([&mut site.server], |[server]| server.chunks() == [b"other"]);
        for number in 0..300 {
            hot.write_all(&framed(b"hot")).unwrap();
            until([&mut site.server], |[server]| server.chunks().len() == number + 2);
        }
        for number in 0..20 {
            other.write_all(&framed(b"other")).unwrap();
            let now = site.server.now() + Duration::from_millis(number + 1);
            site.server.poll_at(now);
            let found = site.server.chunks().iter().filter(|chunk| **chunk == b"other").count();
            assert_eq!(found as u64, number + 2);
        }
    });
}

#[test]
fn what_is_asked_for_all_the_time_hides_nothing_that_others_send() {
    over_both(|mut site| {
        let mut flood = site.peer();
        let endpoint = site.server.accepted().unwrap();
        site.server.queue.meter(endpoint, true);
        flood.set_nonblocking(true).unwrap();
        let chunk = framed(&[7; 1000]).repeat(64);
        let mut other = UnixStream::connect(site.directory.path().join("socket")).unwrap();
        other.write_all(&framed(b"heard")).unwrap();
        let mut turns = 0;
        while !site.server.chunks().iter().any(|chunk| *chunk == b"heard") {
            // As much as it takes, so that there is always something to read. What is cut off ends the flood, and the test.
            while flood.write(&chunk).is_ok_and(|written| written == chunk.len()) {}
            site.server.queue.post_receive(endpoint);
            site.server.turn();
            turns += 1;
            assert!(turns < 1000, "the other is not heard");
        }
    });
}
