//! A group whose replicas and clients talk over TLS alone, and have to show certificates.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::bad_input::assert_refused;
use crate::group::Group;
use crate::process::run;
use crate::world::World;

/// An authority, and a certificate for 127.0.0.1 with its key, for servers and clients: the files' paths.
pub(crate) fn certificates(world: &World) -> [String; 3] {
    certificates_for("127.0.0.1", world)
}

/// The same for a host.
pub(crate) fn certificates_for(host: &str, world: &World) -> [String; 3] {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut replica = CertificateParams::new(vec![host.to_owned()]).unwrap();
    replica.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = replica.signed_by(&key, &authority).unwrap();
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
    let of_replicas = [format!("--tls-client-ca={authority}"), format!("--tls-peer-ca={authority}")];
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
