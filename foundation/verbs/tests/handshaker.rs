//! TLS handshakes that are made apart from the queue that has the connection afterwards.

#![cfg(feature = "tls")]

mod hosts;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use greenwave_verbs::{AcceptMode, Address, Choice, DetachedEndpoint, HandshakeConfig, Handshaker, QueueConfig};
use hosts::certificates::Certificates;
use hosts::{Host, Seen, until};

const CHUNK_BYTES: usize = 4096;
const HOUR: Duration = Duration::from_secs(3600);

/// Runs a test over both backends, with a server and a client, and certificates for both.
fn over_both(test: impl Fn(Host, Host)) {
    let certificates = Certificates::usual();
    for backend in [Choice::Uring, Choice::Epoll] {
        let config = QueueConfig { backend, chunk_bytes: CHUNK_BYTES, ..QueueConfig::default() };
        if let (Some(mut server), Some(mut client)) = (Host::new(&config), Host::new(&config)) {
            server.tls.0 = Some(certificates.mutual_server());
            client.tls.1 = Some(certificates.mutual_client());
            test(server, client);
        }
    }
}

fn handshaker(most: usize, time: Duration) -> Handshaker {
    let config = HandshakeConfig { threads: 1, most, time, chunk_bytes: CHUNK_BYTES, plain: &[] };
    Handshaker::start(&config).unwrap()
}

fn listen(server: &mut Host) -> Address {
    let (listener, address) = server.listen(&"tcp://127.0.0.1:0".parse().unwrap());
    server.queue.set_accept_mode(listener, AcceptMode::Detach).unwrap();
    address
}

/// Has what came in to the server handed to the handshakes, and says where what comes of them goes.
fn submit(server: &mut Host, handshaker: &Handshaker, connections: usize) -> Receiver<DetachedEndpoint> {
    let (done, comes) = channel();
    let came_in = |server: &Host| server.log.iter().filter(|seen| matches!(seen, Seen::Detached(_))).count();
    until([server], |[server]| came_in(server) == connections);
    for seen in std::mem::take(&mut server.log) {
        if let Seen::Detached(endpoint) = seen {
            let done = done.clone();
            handshaker.submit(endpoint, move |endpoint| drop(done.send(endpoint)));
        }
    }
    comes
}

#[test]
fn a_connection_comes_back_with_who_it_is_and_all_that_was_sent_in_order() {
    over_both(|mut server, mut client| {
        let handshaker = handshaker(8, HOUR);
        let address = listen(&mut server);
        let at_client = client.connect(&address);
        // They leave with the client's last flight, and behind it.
        let chunks: Vec<Vec<u8>> = (0..8).map(|number| vec![number; CHUNK_BYTES]).collect();
        chunks.iter().for_each(|chunk| client.queue.post_send(at_client, &[chunk]).unwrap());
        client.turn();
        let comes = submit(&mut server, &handshaker, 1);
        let endpoint = loop {
            client.turn();
            if let Ok(endpoint) = comes.try_recv() {
                break endpoint;
            }
        };
        let at_server = server.queue.adopt(endpoint).unwrap();
        server.queue.post_send(at_server, &[b"welcome"]).unwrap();
        until([&mut server, &mut client], |[server, client]| {
            server.chunks().len() == chunks.len() && client.chunks().len() == 1
        });
        let Seen::Authenticated(id, names) = &server.log[0] else { panic!("{:?}", server.log[0]) };
        assert_eq!((*id, &names.dns[..]), (at_server, &["ada".to_owned()][..]));
        assert!(server.chunks() == chunks, "in order, each once");
        assert_eq!(client.chunks(), [b"welcome"]);
    });
}

#[test]
fn its_threads_give_way_to_those_that_serve() {
    over_both(|mut server, mut client| {
        let handshaker = handshaker(8, HOUR);
        let address = listen(&mut server);
        client.connect(&address);
        until([&mut server, &mut client], |[server, _]| matches!(server.log[..], [Seen::Detached(_)]));
        let Some(Seen::Detached(endpoint)) = server.log.pop() else { unreachable!() };
        let (done, comes) = channel();
        handshaker.submit(endpoint, move |_| done.send(rustix::process::nice(0).unwrap()).unwrap());
        let nice = loop {
            client.turn();
            if let Ok(nice) = comes.try_recv() {
                break nice;
            }
        };
        assert_eq!(nice, (rustix::process::nice(0).unwrap() + 10).min(19));
    });
}

#[test]
fn who_takes_too_long_or_is_crowded_out_or_has_no_certificate_does_not_come_back() {
    over_both(|mut server, mut client| {
        let address = listen(&mut server);
        let Address::Tcp(socket) = address else { panic!("{address}") };
        let half = || {
            let mut stream = TcpStream::connect(socket).unwrap();
            stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).unwrap();
            stream.set_read_timeout(Some(HOUR)).unwrap();
            stream
        };
        let is_over = |mut stream: TcpStream| !matches!(stream.read(&mut [0; 16]), Ok(1..));
        let hasty = handshaker(8, Duration::from_millis(20));
        let late = half();
        let first = submit(&mut server, &hasty, 1);
        assert!(is_over(late));

        let crowded = handshaker(1, HOUR);
        let oldest = half();
        let second = submit(&mut server, &crowded, 1);
        let _youngest = half();
        let third = submit(&mut server, &crowded, 1);
        assert!(is_over(oldest));

        client.tls.1 = Some(Certificates::usual().client());
        let stranger = client.connect(&address);
        client.turn();
        let fourth = submit(&mut server, &hasty, 1);
        until([&mut client], |[client]| client.closed(stranger).is_some());
        drop((hasty, crowded));
        for comes in [first, second, third, fourth] {
            assert!(comes.try_recv().is_err(), "nothing came of it");
        }
    });
}
