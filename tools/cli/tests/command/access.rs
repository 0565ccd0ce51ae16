//! Who may call what is served, and what is refused to be served to a network.

use crate::bad_input::assert_refused;
use crate::process::{Finished, Running, run};
use crate::secured::certificates_for;
use crate::world::World;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Its SHA-256.
const HASH: &str = "3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9";

fn serve(world: &World, listen: &str, more: &[&str]) -> Running {
    let data = world.option("--data", "kv");
    Running::start(&[&["serve", "kv", &data, "--rows=100", listen][..], more].concat())
}

fn get(address: &str, more: &[&str]) -> Finished {
    run(&[&["call", address, "Kv/Get", r#"{"key": "row00000001"}"#, "--deadline=60s"][..], more].concat())
}

#[test]
fn nobody_serves_a_network_without_having_said_who_may_call() {
    let world = World::new();
    let data = world.option("--data", "shards");
    let replica = ["kv", "--id=1", "--peers=1=tcp://10.0.0.1:7401,2=tcp://10.0.0.2:7402", &data];
    let unproved = run(&[&["serve"], &replica[..], &["--listen=tcp://0.0.0.0:0"]].concat());
    assert_refused(&unproved, 2, &["pass for a replica", "tcp://10.0.0.1:8401", "--group-key", "--insecure"]);
    let key = format!("--group-key={}", world.file("key", "0123456789abcdef0123456789abcdef"));
    for service in [
        &["kv", "--rows=100", &world.option("--data", "kv")][..],
        &[&replica[..], &[&key]].concat(),
        &["search", "--dir", &world.path("notes")],
        &["recommend"],
        &["search-aggregator", "--shards=tcp://127.0.0.1:1"],
    ] {
        let listen = "--listen=tcp://0.0.0.0:0";
        let refused = run(&[&["serve"], service, &[listen]].concat());
        assert_refused(&refused, 2, &["every method", "tcp://0.0.0.0:0", "--tls-client-ca", "--insecure"]);
    }
    let insecure = serve(&world, "--listen=tcp://0.0.0.0:0", &["--insecure"]);
    let address = insecure.address().replace("0.0.0.0", "127.0.0.1");
    assert!(get(&address, &[]).status.success());
}

#[test]
fn a_list_says_who_may_call_what_and_tokens_are_brought_by_a_file() {
    let world = World::new();
    let rules = format!("token:ci:{HASH} greenwave.kv.Kv/Get greenwave.Meta/*");
    let (allow, token) = (world.file("allow.txt", &rules), world.file("token", TOKEN));
    let server = serve(&world, "--listen=tcp://127.0.0.1:0", &["--allow", &allow]);
    let address = server.address();
    let ours = ["--token-file", &token];
    let got = get(&address, &ours);
    assert!(got.status.success(), "{}", got.err);
    assert_refused(&get(&address, &[]), 1, &["UNAUTHENTICATED", "authorization: Bearer"]);
    let wrong = world.file("wrong", "fedcba9876543210");
    assert_refused(&get(&address, &["--token-file", &wrong]), 1, &["UNAUTHENTICATED"]);
    let scan = run(&["call", &address, "Kv/Scan", "{}", "--token-file", &token]);
    assert_refused(&scan, 1, &["PERMISSION_DENIED", "ci may not call greenwave.kv.Kv/Scan"]);
}

#[test]
fn a_certificate_has_to_have_a_name_that_was_said() {
    let world = World::new();
    let [authority, certificate, key] = certificates_for("localhost", &world);
    let own = [format!("--tls-cert={certificate}"), format!("--tls-key={key}")];
    let client_ca = format!("--tls-client-ca={authority}");
    let (of_client, allow) = ([format!("--tls-ca={authority}"), "--tls-name=localhost".to_owned()], "localhost *");
    let allow = world.file("allow.txt", &format!("{allow}\nlocalhost greenwave.Meta/*"));
    let words = |options: &[&[String]]| options.concat();
    for (name, parts) in [("cart.shop.example,localhost", None), ("cart.shop.example", Some("PERMISSION_DENIED"))] {
        let options = [client_ca.clone(), format!("--require-client-name={name}"), format!("--allow={allow}")];
        let options = words(&[&own, &options]);
        let server =
            serve(&world, "--listen=tcp://127.0.0.1:0", &options.iter().map(String::as_str).collect::<Vec<_>>());
        let client = words(&[&own, &of_client]);
        let got = get(&server.address(), &client.iter().map(String::as_str).collect::<Vec<_>>());
        match parts {
            None => assert!(got.status.success(), "{}", got.err),
            Some(part) => assert_refused(&got, 1, &[part]),
        }
    }
    let unchecked = run(&["serve", "kv", "--require-client-name=cart.shop.example"]);
    assert_refused(&unchecked, 2, &["`tls_client_ca` is missing"]);
}
