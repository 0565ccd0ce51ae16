//! Calls over TLS, between servers and channels that are set up alike and otherwise.

#![cfg(feature = "tls")]

use greenwave_rpc::*;
use greenwave_verbs::tls::{Identity, Pem};
use greenwave_verbs::{Address, Choice, TlsClient, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const FORWARD: MethodId = MethodId::of("test.Forward/Forward");
const MINUTE: Duration = Duration::from_secs(60);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An authority, and a certificate of it for everything, as PEM.
struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    fn new() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        // Those of different tests, and of one, are different people.
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        authority.distinguished_name.push(DnType::CommonName, format!("authority {serial}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = names.signed_by(&key, &authority).unwrap().pem();
        Self { authority: authority.pem(), certificate, key: key.serialize_pem() }
    }

    fn identity(&self) -> Identity<'_> {
        Identity { certificate: Pem::Bytes(self.certificate.as_bytes()), key: Pem::Bytes(self.key.as_bytes()) }
    }

    fn authority(&self) -> Pem<'_> {
        Pem::Bytes(self.authority.as_bytes())
    }

    /// A server that takes clients with certificates alone.
    fn server(&self) -> TlsServer {
        TlsServer::new(self.identity(), Some(self.authority())).unwrap()
    }

    fn client(&self) -> TlsClient {
        TlsClient::new(self.authority(), Some(self.identity()), None).unwrap()
    }

    fn nameless_client(&self) -> TlsClient {
        TlsClient::new(self.authority(), None, None).unwrap()
    }
}

fn echo() -> Router {
    Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    })
}

fn start(config: ServerConfig, router: Router) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    Server::start(config.listen(listen), router).unwrap()
}

fn channel(server: &ServerHandle, tls: Option<TlsClient>) -> Channel {
    let config = ChannelConfig::default().tls(tls);
    Channel::new(server.addresses()[0].clone(), config).unwrap()
}

fn call(channel: &Channel, body: &[u8]) -> Result<Vec<u8>, Status> {
    channel.call(&Context::with_deadline(MINUTE), ECHO, body).map(|reply| reply.body.to_vec())
}

#[test]
fn calls_of_all_sizes_are_answered_over_both_backends_and_between_clusters() {
    let certificates = Certificates::new();
    for backend in [Choice::Auto, Choice::Epoll] {
        for (clusters, workers) in [(1, 0), (2, 1)] {
            let tls = Some(certificates.server());
            let server = start(
                ServerConfig::default().tls(tls).clusters(clusters).workers(workers).backend(backend.clone()),
                echo(),
            );
            for mode in [Mode::Direct, Mode::Dispatched { delivery: Delivery::Notify }] {
                let config = ChannelConfig::default().tls(certificates.client()).backend(backend.clone()).mode(mode);
                for size in [0, 1, 100, 16 << 10, 3 << 20] {
                    let channel = Channel::new(server.addresses()[0].clone(), config.clone()).unwrap();
                    let body: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
                    assert!(call(&channel, &body).unwrap() == body, "{size} bytes");
                }
            }
            server.drain(MINUTE);
        }
    }
}

#[test]
fn a_server_of_grpc_is_called_over_tls_too() {
    let certificates = Certificates::new();
    const ECHO: Method = Method::named("test.Echo/Echo");
    for backend in [Choice::Auto, Choice::Epoll] {
        let server = start(ServerConfig::default().tls(certificates.server()).backend(backend.clone()), echo());
        let secured = Address::Grpcs(server.addresses()[0].socket().unwrap());
        let config = ChannelConfig::default().backend(backend).tls(certificates.client());
        let channel = Channel::new(secured.clone(), config).unwrap();
        for size in [0, 100, 1 << 20] {
            let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &vec![7; size]).unwrap();
            assert!(reply.body[..] == vec![7; size], "{size} bytes");
        }
        assert_eq!(server.counters().grpc_connections, 1);
        // Whoever wants neither TLS nor nothing has to say which.
        let both = [(secured.clone(), None), (Address::Grpc(secured.socket().unwrap()), Some(certificates.client()))];
        for (address, tls) in both {
            assert_eq!(Channel::new(address, ChannelConfig::default().tls(tls)).unwrap_err().key, "tls");
        }
    }
}

#[test]
fn many_connections_at_once_are_kept_apart() {
    let certificates = Certificates::new();
    let server = start(ServerConfig::default().tls(certificates.server()), echo());
    let tls = certificates.client();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (server, tls) = (&server, &tls);
            scope.spawn(move || {
                for number in 0..8_u8 {
                    let channel = channel(server, Some(tls.clone()));
                    let body = vec![thread * 8 + number; 1000];
                    assert_eq!(call(&channel, &body).unwrap(), body);
                }
            });
        }
    });
    assert_eq!(server.counters().accepted, 64);
}

#[test]
fn who_is_not_believed_is_told_why() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let secured = start(ServerConfig::default().tls(certificates.server()), echo());
    let plain = start(ServerConfig::default(), echo());
    for (server, tls, part) in [
        (&secured, Some(certificates.nameless_client()), "certificate"),
        (&secured, Some(others.client()), "authority"),
        (&secured, None, ""),
        (&plain, Some(certificates.client()), "TLS"),
    ] {
        let status = call(&channel(server, tls), b"hello?").unwrap_err();
        assert!(status.to_string().contains(part), "{status}");
    }
    assert_eq!(call(&channel(&secured, Some(certificates.client())), b"me").unwrap(), b"me");
    assert_eq!(call(&channel(&plain, None), b"me").unwrap(), b"me");
}

/// The connections of a server's thread: one that comes in, and two that go out, each secured in its own way.
#[test]
fn a_handler_calls_each_server_as_its_channel_says() {
    let (inner, outer) = (Certificates::new(), Certificates::new());
    let secured = start(ServerConfig::default().tls(inner.server()), echo());
    let plain = start(ServerConfig::default(), echo());
    let behind = [channel(&secured, Some(inner.client())), channel(&plain, None)];
    let router = Router::new().method("test.Forward/Forward", move |context, request, reply| {
        for channel in &behind {
            reply.extend_from_slice(&channel.call(context, ECHO, request)?.body);
        }
        Ok(())
    });
    let front = start(ServerConfig::default().tls(outer.server()), router);
    let reply = channel(&front, Some(outer.client())).call(&Context::with_deadline(MINUTE), FORWARD, b"ab").unwrap();
    assert_eq!(&reply.body[..], b"abab");
}

#[test]
fn a_handshake_that_is_not_finished_is_ended_by_the_handshake_limit() {
    let certificates = Certificates::new();
    for backend in [Choice::Auto, Choice::Epoll] {
        let limits = Limits::default().handshake(Duration::from_millis(50));
        let tls = Some(certificates.server());
        let server = start(ServerConfig::default().tls(tls).limits(limits).backend(backend), echo());
        let Address::Tcp(address) = server.addresses()[0] else { panic!("it listens at a port") };
        let mut silent = TcpStream::connect(address).unwrap();
        let mut half = TcpStream::connect(address).unwrap();
        // The start of a ClientHello, and nothing after it.
        std::io::Write::write_all(&mut half, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).unwrap();
        for peer in [&mut silent, &mut half] {
            peer.set_read_timeout(Some(MINUTE)).unwrap();
            let ended = peer.read_to_end(&mut Vec::new());
            assert!(!matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
        }
        assert_eq!(server.counters().connections, 0);
        drop(server);
    }
}
