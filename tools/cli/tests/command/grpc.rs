//! Servers of gRPC that are called and measured, over TLS too, and what `serve` is told of gRPC's connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use greenwave::tls::{Identity, Pem, TlsServer};
use greenwave::{Address, Router, Server, ServerConfig, ServerHandle};
use prost::Message;
use serde_json::Value;

use crate::bad_input::assert_refused;
use crate::process::{PATIENCE, Running, run};
use crate::secured::certificates;
use crate::world::World;

const LISTEN: &str = "--listen=tcp://127.0.0.1:0";
const PROTO: &str = r#"
    syntax = "proto3";
    package hello;
    import "name.proto";
    service Greeter { rpc SayHello(Name) returns (Greeting); }
    message Greeting { string message = 1; }
"#;
const NAME: &str = r#"syntax = "proto3"; package hello; message Name { string name = 1; }"#;

#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// A server that doesn't describe its method, as many of gRPC don't; where it is.
fn greeter(config: ServerConfig, scheme: &str) -> (ServerHandle, String) {
    let router = Router::new().method("hello.Greeter/SayHello", |_, request, reply| {
        let Text { text } = Text::decode(request).unwrap();
        Text { text: format!("Hello, {text}") }.encode(reply).unwrap();
        Ok(())
    });
    let server = Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), router).unwrap();
    let Address::Tcp(socket) = server.addresses()[0] else { panic!("it listens elsewhere") };
    (server, format!("{scheme}://{socket}"))
}

/// The files of the service: an option that names the first, which finds the other in a folder of its own.
fn described(world: &World) -> [String; 2] {
    let proto = world.file("hello.proto", PROTO);
    std::fs::create_dir(world.path("imported")).unwrap();
    world.file("imported/name.proto", NAME);
    [format!("--proto={proto}"), world.option("--proto-path", "imported")]
}

/// Calls and measures this server, whose messages files describe.
fn called_and_measured(world: &World, address: &str, more: &[&str]) {
    let [proto, path] = described(world);
    let more = [&[&*proto, &*path], more].concat();
    let called = [&["call", address, "Greeter/SayHello", r#"{"name": "Ada"}"#, "--deadline=60s"], &more[..]].concat();
    let finished = run(&called);
    assert!(finished.status.success(), "{}", finished.err);
    assert_eq!(serde_json::from_str::<Value>(&finished.out).unwrap()["message"], "Hello, Ada");
    let listed = run(&[&["call", address], &more[..]].concat());
    assert!(listed.out.contains("hello.Greeter/SayHello (Name) returns (Greeting)"), "{}", listed.out);
    let load = ["--in-flight=2", "--duration=200ms", "--warm-up=0s", "--drain=60s", "--deadline=60s"];
    let measured =
        [&["bench", address, "Greeter/SayHello", r#"--json={"name": "Ada"}"#], &load[..], &more[..]].concat();
    let finished = run(&measured);
    assert!(finished.status.success(), "{}", finished.err);
    assert!(finished.out.contains("requests a second"), "{}", finished.out);
}

#[test]
fn a_server_that_does_not_describe_itself_is_called_and_measured_by_files() {
    let world = World::new();
    let (_server, address) = greeter(ServerConfig::default(), "grpc");
    called_and_measured(&world, &address, &[]);
    // By a name, whose servers are found with the first call.
    let [proto, path] = [format!("--proto={}", world.path("hello.proto")), world.option("--proto-path", "imported")];
    let named = address.replace("127.0.0.1", "localhost");
    let finished = run(&["call", &named, "Greeter/SayHello", r#"{"name": "Ada"}"#, "--deadline=60s", &proto, &path]);
    assert!(finished.out.contains("Hello, Ada"), "{}", finished.err);
    assert_refused(&run(&["call", &address, "Greeter/SayHello", "--proto=/nowhere.proto"]), 2, &["/nowhere.proto"]);
}

#[test]
fn a_server_of_grpc_is_called_and_measured_over_tls() {
    let world = World::new();
    let [authority, certificate, key] = certificates(&world);
    let identity = Identity { certificate: Pem::File(certificate.as_ref()), key: Pem::File(key.as_ref()) };
    let secured = ServerConfig::default().tls(TlsServer::new(identity, None).unwrap());
    let (_server, address) = greeter(secured, "grpcs");
    let authority = format!("--tls-ca={authority}");
    called_and_measured(&world, &address, &[&authority]);
    // Whom to believe is to be said, and only where somebody shows a certificate.
    assert_refused(&run(&["call", &address]), 2, &["setting `tls` is nothing", "grpcs://", "with --tls-ca"]);
    let plain = address.replace("grpcs://", "grpc://");
    assert_refused(&run(&["call", &plain, &authority]), 2, &["grpcs:// is secured", "--tls-ca"]);
}

fn kv(world: &World, more: &[&str]) -> (Running, String) {
    let data = world.option("--data", "kv");
    let running = Running::start(&[&["serve", "kv", &data, LISTEN, "--rows=100"][..], more].concat());
    let address = running.address();
    (running, address)
}

#[test]
fn protocols_of_one_server_are_compared() {
    let world = World::new();
    let (_running, own) = kv(&world, &[]);
    let grpc = own.replace("tcp://", "grpc://");
    let out = world.path("figures.json");
    let load = ["--sample=kv", "--rate=200", "--deadline=60s", "--rounds=2", "--duration=400ms", "--warm-up=20ms"];
    let written = format!("--out={out}");
    let finished = run(&[&["bench", &own, &grpc, "Kv/Get", &written], &load[..]].concat());
    assert!(finished.status.success(), "{}", finished.err);
    let row = |name: &str| finished.out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    // Of the first there are no ratios; of the other three, each with what the rounds were apart.
    assert!(row(&own).ends_with('–') && !row(&own).contains('('), "{}", finished.out);
    assert_eq!(row(&grpc).matches('(').count(), 3, "{}", finished.out);
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    let rows = figures["rows"].as_array().unwrap();
    let value = |system: &str, metric: &str| {
        let row = rows.iter().find(|row| row["system"] == system && row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64())
    };
    assert!(value(&grpc, "p50_ms_over_first").is_some_and(|ratio| ratio > 0.0), "{figures}");
    assert_eq!(value(&own, "p50_ms_over_first"), None);
    assert_eq!(value(&own, "offered_per_s"), value(&grpc, "offered_per_s"), "both are sent the same requests");
}

#[test]
fn what_can_not_be_compared_is_refused() {
    let world = World::new();
    let (_running, own) = kv(&world, &[]);
    assert_refused(&run(&["bench", &own, "Kv/Get", "--rounds=2"]), 2, &["--rounds is for several addresses"]);
    assert_refused(&run(&["bench", &own, &own, "Kv/Get", "--rounds=0"]), 2, &["'0' for '--rounds <N>'"]);
    let (_server, other) = greeter(ServerConfig::default(), "grpc");
    assert_refused(&run(&["bench", &own, &other, "Kv/Get"]), 1, &["no method is called `Kv/Get`", &other]);
}

#[test]
fn connections_of_grpc_end_when_they_do_nothing_or_are_too_old() {
    let world = World::new();
    for bound in ["--grpc-idle=10ms", "--grpc-age=10ms"] {
        let (_running, address) = kv(&world, &[bound]);
        let mut stream = TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // What a client says first, and that it has no settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        // It leaves the rest to the client.
        let (mut said, mut more) = (Vec::new(), [0; 512]);
        while !frames(&said).contains(&GOAWAY) {
            let length = stream.read(&mut more).unwrap();
            assert!(length > 0, "{bound}: {said:?}");
            said.extend_from_slice(&more[..length]);
        }
    }
}

const GOAWAY: u8 = 7;

/// The kinds of the frames of HTTP/2 that these bytes are.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, rest @ ..] = bytes {
        kinds.push(*kind);
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        bytes = rest.get(5 + length..).unwrap_or_default();
    }
    kinds
}

#[test]
fn what_is_wrongly_said_of_connections_is_refused_with_a_remedy() {
    let refused = |word: &str, parts: &[&str]| assert_refused(&run(&["serve", "kv", word]), 2, parts);
    refused("--grpc-keepalive=0s", &["'0s' for '--grpc-keepalive <TIME>'", "off, or a time such as 5m", "see --help"]);
    refused("--grpc-keepalive-timeout=soon", &["'soon' for '--grpc-keepalive-timeout <TIME>'", "see --help"]);
    refused("--grpc-age-grace=1m", &["`grpc_age_grace` is for connections that may become too old", "--grpc-age"]);
    let world = World::new();
    let file = world.file("kv.toml", "grpc_idle = \"never\"\n");
    refused(&format!("--config={file}"), &["setting `grpc_idle` is `never`", "off, or a time such as 5m", &file]);
}
