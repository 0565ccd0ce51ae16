//! TLS with peers of all kinds: other implementations, wrong certificates, none at all, silence.

#![cfg(feature = "tls")]

mod hosts;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use greenwave_verbs::tls::{Identity, Pem, TlsError};
use greenwave_verbs::{Address, Choice, Close, CloseReason, EndpointId, QueueConfig, TlsClient, TlsFault, VerbsError};
use hosts::certificates::Certificates;
use hosts::{Host, Seen, until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

const CHUNK_BYTES: usize = 4096;

/// Runs a test over both backends, with hosts that are yet to be given TLS.
fn over_both(test: impl Fn(Host, Host)) {
    for backend in [Choice::Uring, Choice::Epoll] {
        let config = QueueConfig { backend, chunk_bytes: CHUNK_BYTES, ..QueueConfig::default() };
        if let (Some(server), Some(client)) = (Host::new(&config), Host::new(&config)) {
            test(server, client);
        }
    }
}

/// Listens at a port of its own.
fn listen(server: &mut Host) -> (Address, SocketAddr) {
    let (_, address) = server.listen(&"tcp://127.0.0.1:0".parse().unwrap());
    let Address::Tcp(socket) = address else { panic!("{address}") };
    (address, socket)
}

/// What the client and the server say of a connection between them that comes to nothing.
fn faults(server: &mut Host, client: &mut Host) -> (CloseReason, CloseReason) {
    let (address, _) = listen(server);
    let at_client = client.connect(&address);
    client.queue.post_send(at_client, &[b"hello?"]).unwrap();
    until([server, client], |[server, client]| {
        client.closed(at_client).is_some() && server.accepted().is_some_and(|id| server.closed(id).is_some())
    });
    assert!(server.chunks().is_empty() && client.chunks().is_empty(), "nothing is handed on");
    (client.closed(at_client).unwrap(), server.closed(server.accepted().unwrap()).unwrap())
}

fn is_refused(reason: CloseReason, part: &str) {
    assert!(matches!(reason, CloseReason::Tls(TlsFault::Refused(text)) if text.contains(part)), "{reason:?}");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_not_believed() {
    let (ours, theirs) = (Certificates::usual(), Certificates::usual());
    over_both(|mut server, mut client| {
        server.tls.0 = Some(theirs.server());
        client.tls.1 = Some(ours.client());
        let (at_client, at_server) = faults(&mut server, &mut client);
        assert_eq!(at_client, TlsFault::UnknownAuthority.into());
        is_refused(at_server, "authority");
        assert_eq!((client.queue.stats().tls_faults, server.queue.stats().tls_faults), (1, 1));
    });
}

#[test]
fn a_certificate_that_is_old_or_new_or_for_others_is_not_believed() {
    let at = rcgen::date_time_ymd;
    let expired = Certificates::with(|params| (params.not_before, params.not_after) = (at(2000, 1, 1), at(2001, 1, 1)));
    let early = Certificates::with(|params| (params.not_before, params.not_after) = (at(3000, 1, 1), at(3001, 1, 1)));
    let other = Certificates::with(|params| params.subject_alt_names.truncate(0));
    let wrong = Certificates::with(|params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    for (certificates, fault) in [
        (expired, TlsFault::Expired),
        (early, TlsFault::NotValidYet),
        (other, TlsFault::WrongName),
        (wrong, TlsFault::WrongPurpose),
    ] {
        over_both(|mut server, mut client| {
            server.tls.0 = Some(certificates.server());
            client.tls.1 = Some(certificates.client());
            let (at_client, at_server) = faults(&mut server, &mut client);
            assert_eq!(at_client, fault.into());
            is_refused(at_server, "");
        });
    }
}

#[test]
fn without_a_name_the_certificate_must_be_for_the_address() {
    let with = Certificates::usual();
    let without = Certificates::with(|params| params.subject_alt_names.truncate(1));
    over_both(|mut server, mut client| {
        server.tls.0 = Some(with.server());
        client.tls.1 = Some(TlsClient::new(with.authority(), None, None).unwrap());
        let (address, _) = listen(&mut server);
        let at_client = client.connect(&address);
        until([&mut server, &mut client], |[_, client]| client.is_connected(at_client));
    });
    over_both(|mut server, mut client| {
        server.tls.0 = Some(without.server());
        client.tls.1 = Some(TlsClient::new(without.authority(), None, None).unwrap());
        assert_eq!(faults(&mut server, &mut client).0, TlsFault::WrongName.into());
    });
    over_both(|_, mut client| {
        let tls = TlsClient::new(with.authority(), None, None).unwrap();
        let refused = client.queue.connect_with(&Address::Unix("/nowhere".into()), Some(&tls));
        // Nobody listens there, but that is found out later or not at all.
        assert!(matches!(refused, Err(VerbsError::NamelessTls { .. })), "{refused:?}");
    });
}

#[test]
fn a_server_that_wants_certificates_takes_clients_that_have_one_and_no_others() {
    let certificates = Certificates::usual();
    over_both(|mut server, mut client| {
        server.tls.0 = Some(certificates.mutual_server());
        client.tls.1 = Some(certificates.mutual_client());
        let (address, _) = listen(&mut server);
        let at_client = client.connect(&address);
        client.queue.post_send(at_client, &[b"it is me"]).unwrap();
        until([&mut server, &mut client], |[server, _]| server.chunks() == [b"it is me"]);
    });
    over_both(|mut server, mut client| {
        server.tls.0 = Some(certificates.mutual_server());
        client.tls.1 = Some(certificates.client());
        let (at_client, at_server) = faults(&mut server, &mut client);
        assert_eq!(at_server, TlsFault::NoClientCertificate.into());
        is_refused(at_client, "wants a certificate");
    });
    let stranger = Certificates::usual();
    over_both(|mut server, mut client| {
        server.tls.0 = Some(certificates.mutual_server());
        let tls = TlsClient::new(certificates.authority(), Some(stranger.client.identity()), Some("localhost"));
        client.tls.1 = Some(tls.unwrap());
        assert_eq!(faults(&mut server, &mut client).1, TlsFault::UnknownAuthority.into());
    });
}

#[test]
fn tls_on_one_side_only_is_told_from_other_ends() {
    let certificates = Certificates::usual();
    over_both(|mut server, mut client| {
        server.tls.0 = Some(certificates.server());
        let (_, at_server) = faults(&mut server, &mut client);
        assert_eq!(at_server, TlsFault::PeerIsPlain.into());
    });
    over_both(|mut server, mut client| {
        client.tls.1 = Some(certificates.client());
        let (at_client, at_server) = faults(&mut server, &mut client);
        assert_eq!(at_server, TlsFault::PeerIsTls.into());
        assert!(matches!(at_client, CloseReason::Tls(TlsFault::HandshakeCut | TlsFault::PeerIsPlain)), "{at_client:?}");
    });
}

#[test]
fn garbage_ends_a_handshake_and_silence_does_not() {
    let certificates = Certificates::usual();
    over_both(|mut server, _| {
        server.tls.0 = Some(certificates.server());
        let (_, socket) = listen(&mut server);
        for garbage in
            [&[0_u8; 64][..], b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 255, 255, 1], &[22, 3, 3, 0, 4, 1, 255, 255, 255]]
        {
            server.log.clear();
            let mut peer = TcpStream::connect(socket).unwrap();
            peer.write_all(garbage).unwrap();
            until([&mut server], |[server]| {
                server.accepted().is_some_and(|id| server.closed(id).is_some()) || {
                    // A record that is not whole yet may still become one.
                    server.accepted().is_some() && garbage.len() == 6
                }
            });
            drop(peer);
            until([&mut server], |[server]| server.accepted().is_some_and(|id| server.closed(id).is_some()));
        }
        server.log.clear();
        let _silent = TcpStream::connect(socket).unwrap();
        until([&mut server], |[server]| server.accepted().is_some());
        server.idle();
        let silent = server.accepted().unwrap();
        assert_eq!(server.closed(silent), None);
        server.queue.post_send(silent, &[b"never sent in the clear"]).unwrap();
        server.queue.close(silent, Close::Abort);
        server.idle();
    });
}

#[test]
fn nothing_that_was_posted_leaves_in_the_clear() {
    let certificates = Certificates::usual();
    over_both(|mut server, mut client| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        client.tls.1 = Some(certificates.client());
        let at_client = client.connect(&Address::Tcp(listener.local_addr().unwrap()));
        client.queue.post_send(at_client, &[b"a secret"]).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        client.idle();
        client.queue.close(at_client, Close::Flush);
        client.idle();
        client.queue.close(at_client, Close::Abort);
        client.idle();
        let mut seen = Vec::new();
        peer.read_to_end(&mut seen).unwrap();
        assert!(seen.starts_with(&[22, 3]) && !seen.windows(8).any(|part| part == b"a secret"));
        server.tls.0 = Some(certificates.server());
        let (_, socket) = listen(&mut server);
        let mut peer = TcpStream::connect(socket).unwrap();
        until([&mut server], |[server]| server.accepted().is_some());
        let at_server = server.accepted().unwrap();
        server.queue.post_send(at_server, &[b"a secret"]).unwrap();
        server.idle();
        server.queue.close(at_server, Close::Abort);
        server.idle();
        let mut seen = Vec::new();
        peer.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"");
    });
}

/// A client by rustls' own blocking streams, which shares nothing with this crate but the records.
fn other_client(
    certificates: &Certificates,
    socket: SocketAddr,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"greenwave/1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(connection, TcpStream::connect(socket).unwrap())
}

fn framed(chunk: &[u8]) -> Vec<u8> {
    [&(chunk.len() as u32).to_le_bytes(), chunk].concat()
}

#[test]
fn another_implementation_of_a_client_is_understood_and_understands() {
    let certificates = Certificates::usual();
    over_both(|mut server, _| {
        server.tls.0 = Some(certificates.server());
        let (_, socket) = listen(&mut server);
        let mut peer = other_client(&certificates, socket);
        let other = std::thread::spawn(move || {
            let large = vec![7; CHUNK_BYTES];
            for chunk in [b"small".as_slice(), &large] {
                peer.write_all(&framed(chunk)).unwrap();
            }
            let mut answer = [0; 4 + 6];
            peer.read_exact(&mut answer).unwrap();
            assert_eq!(answer.as_slice(), framed(b"answer"));
            assert_eq!(peer.conn.alpn_protocol(), Some(b"greenwave/1".as_slice()));
            assert_eq!(peer.read(&mut answer).unwrap(), 0, "closed in order, or this is an error");
        });
        until([&mut server], |[server]| server.chunks().len() == 2);
        assert_eq!(server.chunks(), [b"small".as_slice(), &[7; CHUNK_BYTES]]);
        let endpoint = server.accepted().unwrap();
        server.queue.post_send(endpoint, &[b"answer"]).unwrap();
        server.queue.close(endpoint, Close::Flush);
        until([&mut server], |[server]| server.closed(endpoint).is_some());
        assert_eq!(server.closed(endpoint), Some(CloseReason::Flushed));
        other.join().unwrap();
    });
}

#[test]
fn another_implementation_of_a_server_is_understood_and_understands() {
    let certificates = Certificates::usual();
    let chain = vec![CertificateDer::from_pem_slice(certificates.server.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(certificates.server.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // The older version, which is told apart by the length of its records.
    let builder =
        rustls::ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS12]);
    let config = Arc::new(builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap());
    over_both(|_, mut client| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        client.tls.1 = Some(certificates.client());
        let at_client = client.connect(&Address::Tcp(listener.local_addr().unwrap()));
        client.queue.post_send(at_client, &[b"question"]).unwrap();
        let config = Arc::clone(&config);
        let other = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut peer = rustls::StreamOwned::new(rustls::ServerConnection::new(config).unwrap(), socket);
            let mut question = [0; 4 + 8];
            peer.read_exact(&mut question).unwrap();
            peer.write_all(&framed(&question[4..].repeat(100))).unwrap();
            peer.conn.send_close_notify();
            peer.flush().unwrap();
        });
        until([&mut client], |[client]| client.closed(at_client).is_some());
        assert_eq!(client.closed(at_client), Some(CloseReason::PeerClosed));
        assert_eq!(client.chunks(), [b"question".repeat(100)]);
        assert!(client.is_connected(at_client));
        other.join().unwrap();
    });
}

/// The server's end of a connection that a peer of another kind has made and used.
fn met(server: &mut Host, peer: &mut rustls::StreamOwned<rustls::ClientConnection, TcpStream>) -> EndpointId {
    peer.sock.set_nonblocking(true).unwrap();
    while peer.conn.is_handshaking() {
        let _would_block = peer.conn.complete_io(&mut peer.sock);
        server.turn();
    }
    peer.sock.set_nonblocking(false).unwrap();
    server.accepted().unwrap()
}

#[test]
fn an_end_without_a_goodbye_is_no_end_in_order_and_within_a_chunk_it_counts() {
    let certificates = Certificates::usual();
    for (sent, truncated) in [(framed(b"whole"), 0), (framed(b"whole")[..7].to_vec(), 1)] {
        over_both(|mut server, _| {
            server.tls.0 = Some(certificates.server());
            let (_, socket) = listen(&mut server);
            let mut peer = other_client(&certificates, socket);
            let endpoint = met(&mut server, &mut peer);
            peer.write_all(&sent).unwrap();
            peer.sock.shutdown(std::net::Shutdown::Write).unwrap();
            until([&mut server], |[server]| server.closed(endpoint).is_some());
            assert_eq!(server.closed(endpoint), Some(TlsFault::Cut.into()));
            assert_eq!(server.queue.stats().truncated, truncated);
        });
    }
}

#[test]
fn records_that_trickle_in_byte_by_byte_or_were_changed_are_what_they_are() {
    let certificates = Certificates::usual();
    over_both(|mut server, _| {
        server.tls.0 = Some(certificates.server());
        let (_, socket) = listen(&mut server);
        let mut peer = other_client(&certificates, socket);
        peer.sock.set_nonblocking(true).unwrap();
        peer.sock.set_nodelay(true).unwrap();
        let trickle = |server: &mut Host, wire: &[u8], mut sock: &TcpStream| {
            for byte in wire {
                sock.write_all(&[*byte]).unwrap();
                server.turn();
            }
        };
        while peer.conn.is_handshaking() {
            let mut wire = Vec::new();
            while peer.conn.wants_write() {
                peer.conn.write_tls(&mut wire).unwrap();
            }
            trickle(&mut server, &wire, &peer.sock);
            if peer.conn.read_tls(&mut peer.sock).is_ok() {
                peer.conn.process_new_packets().unwrap();
            }
            server.turn();
        }
        let mut wire = Vec::new();
        peer.conn.writer().write_all(&framed(&[9; 300])).unwrap();
        while peer.conn.wants_write() {
            peer.conn.write_tls(&mut wire).unwrap();
        }
        trickle(&mut server, &wire, &peer.sock);
        until([&mut server], |[server]| server.chunks() == [[9; 300]]);
        wire.clear();
        peer.conn.writer().write_all(&framed(b"changed on the way")).unwrap();
        peer.conn.write_tls(&mut wire).unwrap();
        wire[10] ^= 1;
        trickle(&mut server, &wire, &peer.sock);
        let endpoint = server.accepted().unwrap();
        until([&mut server], |[server]| server.queue.stats().tls_faults == 1);
        drop(peer);
        until([&mut server], |[server]| server.closed(endpoint).is_some());
        assert_eq!(server.closed(endpoint), Some(TlsFault::Garbled.into()));
        assert_eq!(server.chunks().len(), 1);
    });
}

#[test]
fn room_comes_back_however_small_the_backlog_is() {
    let certificates = Certificates::usual();
    for backend in [Choice::Uring, Choice::Epoll] {
        let config = QueueConfig { backend, chunk_bytes: CHUNK_BYTES, backlog_bytes: 1, ..QueueConfig::default() };
        let (Some(mut server), Some(mut client)) = (Host::new(&config), Host::new(&config)) else { continue };
        server.tls.0 = Some(certificates.server());
        client.tls.1 = Some(certificates.client());
        let (address, _) = listen(&mut server);
        let at_client = client.connect(&address);
        for number in 0..50_usize {
            until([&mut server, &mut client], |[_, client]| client.queue.send_room(at_client) > 0);
            client.queue.post_send(at_client, &[&[number as u8; 1000]]).unwrap();
        }
        until([&mut server, &mut client], |[server, _]| server.chunks().len() == 50);
        assert!(client.log.iter().any(|seen| matches!(seen, Seen::Writable(_))));
    }
}

#[test]
fn what_tls_can_t_be_set_up_with_is_named_with_a_remedy() {
    let certificates = Certificates::usual();
    let directory = tempfile::TempDir::new().unwrap();
    let missing = directory.path().join("missing.pem");
    let good = certificates.server.identity();
    let refuse = |certificate, key| greenwave_verbs::TlsServer::new(Identity { certificate, key }, None).unwrap_err();
    let error = refuse(Pem::File(&missing), good.key);
    assert!(matches!(error, TlsError::Read { .. }) && error.to_string().contains("missing.pem"), "{error}");
    let error = refuse(Pem::Bytes(b"no PEM"), good.key);
    assert!(matches!(error, TlsError::Pem { what: "certificate", .. }), "{error}");
    let error = refuse(good.certificate, good.certificate);
    assert!(matches!(error, TlsError::Pem { what: "private key", .. }), "{error}");
    let error = refuse(good.certificate, certificates.client.identity().key);
    assert!(matches!(error, TlsError::Key { .. }), "{error}");
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for error in [
        refuse(Pem::Bytes(torn.as_bytes()), good.key),
        TlsClient::new(Pem::Bytes(torn.as_bytes()), None, None).unwrap_err(),
    ] {
        assert!(matches!(error, TlsError::Certificate { .. }), "{error:?}");
    }
    let error = TlsClient::new(certificates.authority(), None, Some("no name:7000")).unwrap_err();
    assert!(matches!(error, TlsError::Name { .. }), "{error}");
}
