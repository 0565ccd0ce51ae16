//! Certificates that are renewed and revoked while a server runs, and handshakes that nobody finishes.

#![cfg(feature = "tls")]

mod certificates;

use certificates::{Authority, Certified};
use greenwave_rpc::*;
use greenwave_verbs::tls::{Identity, Pem};
use greenwave_verbs::{Address, Choice, TlsClient, TlsServer};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const ECHO: Method = Method::named("test.Echo/Echo");
const HOUR: Duration = Duration::from_secs(3600);
const BACKENDS: [Choice; 2] = [Choice::Auto, Choice::Epoll];

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("greenwave-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn start(config: ServerConfig) -> ServerHandle {
    let router = Router::new().method(ECHO.name().unwrap(), |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    Server::start(config.listen(["tcp://127.0.0.1:0".parse::<Address>().unwrap()]), router).unwrap()
}

fn channel(server: &ServerHandle, tls: TlsClient) -> Channel {
    let config = ChannelConfig::default().tls(tls).reconnect(Duration::from_millis(1));
    Channel::new(server.addresses()[0].clone(), config).unwrap()
}

fn call(channel: &Channel) -> Result<(), Status> {
    channel.call(&Context::with_deadline(HOUR), ECHO, b"?").map(drop)
}

fn pair<'a>(certificate: &'a Path, key: &'a Path) -> Identity<'a> {
    Identity { certificate: Pem::File(certificate), key: Pem::File(key) }
}

/// A session whose handshake is still to be made.
fn session(authority: &Authority, own: &Certified, to: std::net::SocketAddr) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let config = builder.with_client_auth_cert(chain, key).unwrap();
    ClientConnection::new(Arc::new(config), ServerName::from(to.ip())).unwrap()
}

/// Asks a server to look at its files until this holds.
fn until(server: &ServerHandle, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        server.refresh();
        std::thread::yield_now();
    }
}

#[test]
fn a_renewed_certificate_is_shown_to_new_connections_and_those_that_live_go_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = Folder::new("renewed");
    let (first, second) = (old.certify(&[], &[]), new.certify(&[], &[]));
    let (certificate, key) = (folder.write("own.pem", &first.certificate), folder.write("own.key", &first.key));
    let tls = TlsServer::new(pair(&certificate, &key), None).unwrap();
    let server = start(ServerConfig::default().tls(tls.clone()));
    let living = channel(&server, old.client(None));
    call(&living).unwrap();
    assert!(call(&channel(&server, new.client(None))).is_err(), "it shows the old one");

    // Half of it is there: the old one holds, and the fault is told.
    folder.write("own.pem", &second.certificate);
    until(&server, "a key that doesn't fit is noticed", || tls.fault().is_some());
    call(&channel(&server, old.client(None))).unwrap();

    folder.write("own.key", &second.key);
    until(&server, "the new one is shown", || call(&channel(&server, new.client(None))).is_ok());
    assert_eq!(tls.fault(), None);
    assert!(call(&channel(&server, old.client(None))).is_err());
    let before = server.counters().accepted;
    call(&living).unwrap();
    assert_eq!(server.counters().accepted, before, "over the connection of before");
}

#[test]
fn other_authorities_are_believed_when_the_file_says_so_and_a_broken_file_changes_nothing() {
    let (ours, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let folder = Folder::new("authorities");
    let clients = folder.write("clients.pem", &old.pem());
    let own = ours.certify(&[], &[]);
    let server = start(ServerConfig::default().tls(TlsServer::new(own.identity(), Some(Pem::File(&clients))).unwrap()));
    let client = |authority: &Authority| {
        let own = authority.certify(&[], &[]);
        TlsClient::new(Pem::Bytes(ours.pem().as_bytes()), Some(own.identity()), None).unwrap()
    };
    // One that has a session which it could resume.
    let resuming = client(&old);
    call(&channel(&server, resuming.clone())).unwrap();
    folder.write("clients.pem", "no certificate");
    server.refresh();
    call(&channel(&server, client(&old))).unwrap();
    folder.write("clients.pem", &new.pem());
    until(&server, "the new authority is believed", || call(&channel(&server, client(&new))).is_ok());
    assert!(call(&channel(&server, client(&old))).is_err());
    assert!(call(&channel(&server, resuming)).is_err(), "a session of before is not resumed");
}

/// A list that says which of these are revoked.
fn list(authority: &Authority, revoked: &[&Certified]) -> String {
    let now = rcgen::date_time_ymd(2026, 1, 1);
    let revoked_certs = revoked
        .iter()
        .map(|own| RevokedCertParams {
            serial_number: own.serial.into(),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        })
        .collect();
    let params = CertificateRevocationListParams {
        this_update: now,
        next_update: rcgen::date_time_ymd(2200, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs,
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(authority.issuer()).unwrap().pem().unwrap()
}

#[test]
fn a_client_whose_certificate_is_revoked_is_refused_from_when_the_list_says_so() {
    let (authority, others) = (Authority::new(), Authority::new());
    let folder = Folder::new("revoked");
    let (ada, eve) = (authority.certify(&[], &[]), authority.certify(&[], &[]));
    let lists = folder.write("revoked.pem", &list(&authority, &[]));
    let clients = [authority.pem(), others.pem()].concat();
    let own = authority.certify(&[], &[]);
    let tls = TlsServer::revoking(own.identity(), Pem::Bytes(clients.as_bytes()), &[Pem::File(&lists)]).unwrap();
    let server = start(ServerConfig::default().tls(tls));
    let of_eve = authority.client(Some(&eve));
    for tls in [authority.client(Some(&ada)), of_eve.clone()] {
        call(&channel(&server, tls)).unwrap();
    }
    let stranger = others.certify(&[], &[]);
    let stranger = TlsClient::new(Pem::Bytes(authority.pem().as_bytes()), Some(stranger.identity()), None).unwrap();
    assert!(call(&channel(&server, stranger)).is_err(), "no list says anything of that authority's");

    folder.write("revoked.pem", &list(&authority, &[&eve]));
    until(&server, "she is refused", || call(&channel(&server, authority.client(Some(&eve)))).is_err());
    let refused = call(&channel(&server, of_eve)).unwrap_err();
    assert!(refused.to_string().contains("revoked"), "nor is her session resumed: {refused}");
    call(&channel(&server, authority.client(Some(&ada)))).unwrap();
}

#[test]
fn handshakes_that_are_left_half_done_keep_nobody_out() {
    let authority = Authority::new();
    for (backend, clusters) in BACKENDS.into_iter().zip([1, 2]) {
        let limits = Limits::new().handshakes(4).handshake(HOUR);
        let config = ServerConfig::default().tls(authority.server()).limits(limits).backend(backend);
        let server = start(config.clusters(clusters));
        let socket = server.addresses()[0].socket().unwrap();
        let mut half: Vec<_> = (0..40)
            .map(|_| {
                let mut stream = TcpStream::connect(socket).unwrap();
                // The start of a ClientHello, and nothing after it.
                let _may_be_gone = stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
                stream
            })
            .collect();
        let own = authority.certify(&[], &[]);
        for _ in 0..8 {
            call(&channel(&server, authority.client(Some(&own)))).unwrap();
        }
        // As many as may be at it on each cluster are still there, and the oldest are not.
        half[0].set_read_timeout(Some(HOUR)).unwrap();
        assert!(!matches!(half[0].read(&mut [0; 16]), Ok(1..)), "it was ended");
        let open = || server.counters().connections;
        until(&server, "the others are ended", || open() <= 4 * clusters as u64);
    }
}

/// The only head is in a handler that doesn't come back until the handshake is done.
#[test]
fn a_handshake_is_made_while_the_head_is_busy() {
    let authority = Authority::new();
    for backend in BACKENDS {
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let router = Router::new().method("test.Busy/Wait", move |_, _, _| {
            begun.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            Ok(())
        });
        let config = ServerConfig::default().tls(authority.server()).backend(backend);
        let server = Server::start(config.listen(["tcp://127.0.0.1:0".parse::<Address>().unwrap()]), router).unwrap();
        let own = authority.certify(&[], &[]);
        let busy = channel(&server, authority.client(Some(&own)));
        assert!(
            busy.call(&Context::with_deadline(HOUR), ECHO, b"").is_err(),
            "there is no such method; it is connected"
        );
        let socket = server.addresses()[0].socket().unwrap();
        let mut stream = TcpStream::connect(socket).unwrap();
        until(&server, "the connection is accepted", || server.counters().accepted == 2);
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| busy.call(&Context::with_deadline(HOUR), Method::named("test.Busy/Wait"), b"").map(drop));
            has_begun.recv().unwrap();
            let mut session = session(&authority, &own, socket);
            while session.is_handshaking() {
                session.complete_io(&mut stream).unwrap();
            }
            // What it says next, such as that it resumes sessions, comes when its handshake is done there, too.
            session.complete_io(&mut stream).unwrap();
            release.send(()).unwrap();
            waiting.join().unwrap().unwrap();
        });
    }
}
