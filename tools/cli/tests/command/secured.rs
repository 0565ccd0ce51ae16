//! A group whose replicas and clients talk over TLS alone, and have to show certificates.

use std::time::Instant;

use greenwave::tls::{Identity, Pem, TlsClient};
use greenwave::{Address, Channel, ChannelConfig, Code, Context, MethodId};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::bad_input::assert_refused;
use crate::group::Group;
use crate::process::{PATIENCE, run};
use crate::world::World;

/// The name by which replicas know one another.
const REPLICA: &str = "replica.example";

/// An authority, and a certificate for 127.0.0.1 with its key, for servers and clients: the files' paths.
pub(crate) fn certificates(world: &World) -> [String; 3] {
    certificates_for("127.0.0.1", world)
}

/// The same for a host.
pub(crate) fn certificates_for(host: &str, world: &World) -> [String; 3] {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut replica = CertificateParams::new(vec![host.to_owned(), REPLICA.to_owned()]).unwrap();
    replica.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = replica.signed_by(&key, &authority).unwrap();
    for name in ["client", "operator"] {
        let mut params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        world.file(&format!("{name}.pem"), &params.signed_by(&key, &authority).unwrap().pem());
        world.file(&format!("{name}.key"), &key.serialize_pem());
    }
    [
        world.file("authority.pem", &authority.pem()),
        world.file("replica.pem", &certificate.pem()),
        world.file("replica.key", &key.serialize_pem()),
    ]
}

#[test]
fn a_group_talks_over_tls_and_to_nobody_without_a_certificate() {
    let world = World::new();
    let [authority, certificate, key] = certificates(&world);
    let own = [format!("--tls-cert={certificate}"), format!("--tls-key={key}")];
    let of_replicas = [
        format!("--tls-client-ca={authority}"),
        format!("--tls-peer-ca={authority}"),
        format!("--peer-names={REPLICA}"),
    ];
    let of_clients = [format!("--tls-ca={authority}")];
    let mut group = Group::start_with(world, [[&own[..], &of_replicas].concat(), [&own[..], &of_clients].concat()]);
    group.done(&["put", "ada", "lovelace"]);
    // Whoever leads next has talked to the third as well.
    let leader = group.leader();
    group.kill(leader);
    assert_eq!(group.done(&["get", "ada"]), "lovelace\n");
    group.done(&["put", "ada", "byron"]);
    group.restart(leader);

    let to = format!("--to={}", group.address((leader + 1) % 3));
    let without = run(&["call", "kv", "get", "ada", &to, "--deadline=2s"]);
    assert_refused(&without, 1, &[]);
    let anonymous = run(&["call", "kv", "get", "ada", &to, "--deadline=2s", &of_clients[0]]);
    assert_refused(&anonymous, 1, &[]);
}

/// The certificates are for the name, and for no address.
#[test]
fn replicas_with_names_show_certificates_for_those() {
    let world = World::new();
    let [authority, certificate, key] = certificates_for("localhost", &world);
    let own = [format!("--tls-cert={certificate}"), format!("--tls-key={key}")];
    let of_replicas = [format!("--tls-client-ca={authority}"), format!("--tls-peer-ca={authority}")];
    let of_clients = [format!("--tls-ca={authority}")];
    let options = [[&own[..], &of_replicas].concat(), [&own[..], &of_clients].concat()];
    let mut group = Group::start_at("localhost", world, options);
    group.done(&["put", "ada", "lovelace"]);
    let leader = group.leader();
    group.kill(leader);
    assert_eq!(group.done(&["get", "ada"]), "lovelace\n");
}

#[test]
fn replicas_with_a_certificate_are_told_whom_to_believe() {
    let world = World::new();
    let [authority, certificate, key] = certificates(&world);
    let [certificate, key] = [format!("--tls-cert={certificate}"), format!("--tls-key={key}")];
    let authority = format!("--tls-peer-ca={authority}");
    let data = world.option("--data", "r1");
    let peers = "--peers=1=127.0.0.1:1,2=127.0.0.1:2";
    let serve = |more: &[&str]| run(&[&["serve", "kv", "--id=1", &data], more].concat());
    assert_refused(&serve(&[peers, &certificate, &key]), 2, &["`tls_peer_ca` is missing", "authority"]);
    assert_refused(&serve(&[peers, &authority]), 2, &["`tls_cert` is missing"]);
    assert_refused(&serve(&[peers, &authority, &certificate]), 2, &["`tls_key` is missing"]);
    let sockets = "--peers=1=127.0.0.1:1,2=unix:///tmp/x";
    assert_refused(&serve(&[sockets, &authority, &certificate, &key]), 2, &["replica 2 has no IP address", "TCP"]);
    let wrong = serve(&[peers, "--tls-peer-ca=/nowhere.pem", &certificate, &key]);
    assert_refused(&wrong, 2, &["/nowhere.pem"]);
}

/// Who has a client's certificate reads and writes rows, and that is all: it isn't taken for a replica, whatever it says at
/// either port, and runs nothing. Nor does a replica's certificate run the group.
#[test]
fn the_certificate_of_a_client_is_no_replicas_and_runs_no_group() {
    let world = World::new();
    let [authority, certificate, key] = certificates(&world);
    let files = |name: &str| [world.path(&format!("{name}.pem")), world.path(&format!("{name}.key"))];
    let (client, operator) = (files("client"), files("operator"));
    let told = |[certificate, key]: &[String; 2]| {
        vec![format!("--tls-ca={authority}"), format!("--tls-cert={certificate}"), format!("--tls-key={key}")]
    };
    let of_replicas = vec![
        format!("--tls-cert={certificate}"),
        format!("--tls-key={key}"),
        format!("--tls-client-ca={authority}"),
        format!("--tls-peer-ca={authority}"),
        format!("--peer-names={REPLICA}"),
        "--operators=operator.example".to_owned(),
    ];
    let (of_client, of_operator, of_replica) = (told(&client), told(&operator), told(&[certificate, key]));
    let group = Group::start_with(world, [of_replicas, of_client.clone()]);
    group.done(&["put", "ada", "lovelace"]);

    let run_group = |options: &[String], words: &[&str]| {
        let peers = format!("--peers={}", group.peers());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        run(&[&["group"], words, &[&peers, "--deadline=60s"], &options].concat())
    };
    for options in [&of_client, &of_replica] {
        for words in [&["remove", "1"][..], &["transfer", "2"], &["status"], &["add", "4=tcp://127.0.0.1:1"]] {
            assert_refused(&run_group(options, words), 2, &["may not run the group", "--operators"]);
        }
    }
    let status = run_group(&of_operator, &["status"]);
    assert!(status.status.success() && status.out.lines().count() == 3, "{} {}", status.out, status.err);

    // What replicas say to one another, said by a client.
    let identity = Identity { certificate: Pem::File(client[0].as_ref()), key: Pem::File(client[1].as_ref()) };
    let tls = TlsClient::new(Pem::File(authority.as_ref()), Some(identity), None).unwrap();
    for at in 0..3 {
        let clients: Address = group.address(at).parse().unwrap();
        let port = clients.socket().unwrap().port() + 1000;
        let replicas: Address = format!("tcp://127.0.0.1:{port}").parse().unwrap();
        let call = |address: &Address, method: &str| {
            let channel = Channel::new(address.clone(), ChannelConfig::default().tls(tls.clone())).unwrap();
            let context = Context::with_deadline(PATIENCE);
            channel.call(&context, MethodId::of(method), &[1; 200]).unwrap_err().code
        };
        for method in ["Hello", "Messages", "Snapshot"].map(|method| format!("greenwave.Replica/{method}")) {
            assert_eq!(call(&clients, &method), Code::Unimplemented, "{method} for clients");
            assert_eq!(call(&replicas, &method), Code::PermissionDenied, "{method} for replicas");
        }
        for method in ["greenwave.replicated.Store/Put", "greenwave.replicated.Admin/Change"] {
            assert_eq!(call(&replicas, method), Code::Unimplemented, "{method} where replicas call");
        }
    }
    assert_eq!(group.done(&["get", "ada"]), "lovelace\n");
}

/// Who may call everything may not run the group for that.
#[test]
fn a_list_gives_leave_to_run_the_group_in_so_many_words() {
    let world = World::new();
    let list = world.file("allow.txt", "anyone *\n");
    let group = Group::start_with(world, [vec![format!("--allow={list}")], Vec::new()]);
    group.done(&["put", "ada", "lovelace"]);
    let status = || run(&["group", "status", &format!("--peers={}", group.peers()), "--deadline=60s"]);
    let refused = status();
    assert!(!refused.status.success() && refused.err.contains("UNAUTHENTICATED"), "{} {}", refused.out, refused.err);
    // The list is read again by itself.
    std::fs::write(&list, "anyone * greenwave.replicated.Admin/*\n").unwrap();
    let begun = Instant::now();
    while !status().status.success() {
        assert!(begun.elapsed() < PATIENCE, "the list isn't read again");
    }
}

/// A group that has a key needs nothing else, and takes nobody who has another one.
#[test]
fn a_group_with_a_key_takes_those_who_have_it() {
    let world = World::new();
    let key = world.file("group.key", "0123456789abcdef0123456789abcdef\n");
    let other = world.file("other.key", "another one, that is as long as it has to be\n");
    let short = world.file("short.key", "short\n");
    let mut group = Group::start_with(world, [vec![format!("--group-key={key}")], Vec::new()]);
    group.done(&["put", "ada", "lovelace"]);
    let follower = (group.leader() + 1) % 3;
    group.kill(follower);
    group.options[0] = vec![format!("--group-key={other}")];
    group.restart(follower);
    let stranger = group.running[follower].as_ref().unwrap();
    stranger.await_said("isn't sealed with the group's key");
    group.done(&["put", "bob", "without it"]);
    group.kill(follower);
    group.options[0] = vec![format!("--group-key={key}")];
    group.restart(follower);
    let leader = group.leader();
    group.kill(leader);
    assert_eq!(group.done(&["get", "bob"]), "without it\n");

    let (data, peers) = (group.world.option("--data", "r9"), "--peers=1=127.0.0.1:1,2=127.0.0.1:2");
    let serve = |more: &str| run(&["serve", "kv", "--id=1", peers, &data, more]);
    assert_refused(&serve(&format!("--group-key={short}")), 2, &["32 to 4096 bytes", "short.key"]);
    assert_refused(&serve("--group-key=/nowhere"), 2, &["can't read the group's key", "/nowhere"]);
    assert_refused(
        &serve("--peer-listen=tcp://0.0.0.0:1"),
        2,
        &["would pass for a replica", "--group-key", "--insecure"],
    );
}
