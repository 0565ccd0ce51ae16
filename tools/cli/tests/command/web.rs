//! Servers that are called and measured over HTTP, by Connect and by gRPC-Web: ours, and others that answer in every way there is.

use greenwave::tls::{Identity, Pem, TlsServer};
use greenwave::{Address, Code, Router, Server, ServerConfig, ServerHandle, Status};
use greenwave_services::proto::DESCRIPTORS;
use prost::Message;
use serde_json::Value;

use crate::bad_input::{assert_refused, deserted};
use crate::foreign::{Does, Foreign, answer};
use crate::process::{Running, run, run_with_input};
use crate::secured::certificates;
use crate::world::World;

const GET: &str = "greenwave.kv.Kv/Get";
const ADA: &str = r#"{"key": "ada"}"#;
/// Patience with a machine that others use, too.
const LONG: &str = "--deadline=60s";
const KINDS: [&str; 6] = ["http", "proto+http", "h2+http", "grpc-web+http", "json+grpc-web+http", "grpc-web+h2+http"];
const PROTO: &str = r#"
    syntax = "proto3";
    package hello;
    service Greeter {
        rpc Each(Name) returns (stream Name);
        rpc All(stream Name) returns (Name);
        rpc One(Name) returns (Name);
    }
    message Name { string text = 1; }
"#;

#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(string, tag = "1")]
    text: String,
}

/// A store of our own; it and where it listens.
fn kv(world: &World) -> (Running, String) {
    let data = world.option("--data", "kv");
    let running = Running::start(&["serve", "kv", &data, "--listen=tcp://127.0.0.1:0", "--rows=100"]);
    let place = running.address().strip_prefix("tcp://").unwrap().to_owned();
    (running, place)
}

/// A server with this router; it and where it listens.
fn started(config: ServerConfig, router: Router) -> (ServerHandle, String) {
    let server = Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), router).unwrap();
    let Address::Tcp(socket) = server.addresses()[0] else { panic!("it listens elsewhere") };
    (server, socket.to_string())
}

#[test]
fn every_way_over_http_has_the_answer_of_our_own_protocol() {
    let world = World::new();
    let (_running, place) = kv(&world);
    let own = format!("tcp://{place}");
    assert!(run(&["call", &own, "Kv/Put", r#"{"key": "ada", "value": "lovelace"}"#, LONG]).status.success());
    let expected = run(&["call", &own, "Kv/Get", ADA, LONG]).out;
    assert!(expected.contains("lovelace"), "{expected}");
    for kind in KINDS {
        let address = format!("{kind}://{place}");
        for name in ["Kv/Get", GET] {
            let finished = run(&["call", &address, name, ADA, LONG]);
            assert_eq!((finished.out, finished.err), (expected.clone(), String::new()), "{kind}");
        }
        // What isn't of the type is told before it is sent, as by all protocols.
        let wrong = run(&["call", &address, "Kv/Get", r#"{"kye": "ada"}"#]);
        assert_refused(&wrong, 2, &["the request is no GetRequest", "key (string)"]);
        let listed = run(&["call", &address]);
        assert!(listed.out.contains("greenwave.kv.Kv/Get (GetRequest) returns (GetReply)"), "{}", listed.err);
        assert!(run(&["call", &address, "Meta/Counters"]).out.contains("accepted "), "{kind}");
        let late = run(&["call", &address, "Kv/Get", ADA, "--deadline=0s"]);
        assert_refused(&late, 1, &[GET, &address, "DEADLINE_EXCEEDED"]);
        let receipt = run(&["call", &address, "Kv/Get", ADA, LONG, "--receipt"]).err;
        assert!(receipt.contains("in all") && receipt.contains("kv "), "{kind}: {receipt}");
    }
    assert_refused(&run_with_input(&["call", &format!("http://{place}"), "Kv/Get", "-"], "{"), 2, &["no GetRequest"]);
}

#[test]
fn failures_and_metadata_are_shown_as_by_our_own_protocol() {
    let router = Router::new().descriptors(DESCRIPTORS).method(GET, |context, _, _| {
        let user = context.metadata().find(|(name, _)| *name == "user").map(|(_, value)| value.to_vec());
        context.lead("x-user", user.unwrap_or_default()).unwrap();
        context.lead("k-bin", [0, 1]).unwrap();
        context.trail("x-cost", "7").unwrap();
        Err(Status::new(Code::NotFound, "no such row: ü"))
    });
    let (_server, place) = started(ServerConfig::default(), router);
    for kind in KINDS.into_iter().chain(["tcp"]) {
        let address = format!("{kind}://{place}");
        let finished = run(&["call", &address, GET, ADA, LONG, "--metadata=user=ada", "--show-metadata"]);
        let mut said: Vec<&str> = finished.err.lines().collect();
        let error = format!("error: {GET} at {address} failed: NOT_FOUND: no such row: ü");
        assert_eq!(said.pop(), Some(&*error), "{kind}");
        for line in ["x-user: ada", "x-cost: 7", "k-bin: AAE"] {
            assert!(said.iter().any(|said| said.ends_with(line)), "{kind}: no {line} in {said:?}");
        }
    }
}

#[test]
fn a_server_that_does_not_describe_itself_is_sent_json_as_it_is() {
    let foreign = Foreign::start(|asked| {
        let length = asked.body.len();
        let body = format!(r#"{{"z": {length}, "a": 12345678901234567890}}"#);
        Does::Says(answer("200 OK", &["Content-Type: application/json; charset=utf-8", "X-Cost: 7"], body.as_bytes()))
    });
    let address = format!("http://{}/api", foreign.place);
    let more = ["--deadline=40s", "--metadata=user=ada", "--metadata=k-bin=ü", "--show-metadata"];
    let finished = run(&[&["call", &address, "shop.Cart/Add", r#"{"book": 1}"#], &more[..]].concat());
    assert_eq!(finished.out, "{\"z\": 11, \"a\": 12345678901234567890}\n", "{}", finished.err);
    assert_eq!(finished.err, "before: x-cost: 7\n");
    let asked = foreign.asked();
    assert_eq!(asked.body, br#"{"book": 1}"#);
    for line in [
        "post /api/shop.cart/add http/1.1",
        "content-type: application/json",
        "connect-protocol-version: 1",
        "user: ada",
        "k-bin: w7w",
        &format!("host: {}", foreign.place),
    ] {
        assert!(asked.head.lines().any(|it| it == line), "no {line} in {}", asked.head);
    }
    let timeout = asked.head.lines().find_map(|line| line.strip_prefix("connect-timeout-ms: ")).unwrap();
    assert!((1..=40_000).contains(&timeout.parse::<u32>().unwrap()), "{timeout}");

    let address = format!("http://{}", foreign.place);
    assert_refused(&run(&["call", &address]), 1, &["does not describe itself", "--proto"]);
    assert_refused(&run(&["call", &address, "Add"]), 2, &["no method is called `Add`", "package.Service/Method"]);
    assert_refused(&run(&["call", &address, "a.A/B", "{"]), 2, &["the request is no JSON", "line 1 column"]);
    for scheme in ["proto+http", "grpc-web+http"] {
        let binary = run(&["call", &format!("{scheme}://{}", foreign.place), "a.A/B"]);
        assert_refused(&binary, 1, &["does not describe itself", "--proto"]);
    }
    for (metadata, part) in [("host=a", "own business"), ("a b=c", "name of a header"), ("a=ü", "-bin")] {
        assert_refused(&run(&["call", &address, "a.A/B", "--metadata", metadata]), 2, &[part]);
    }
    // Files say more than the server, and what it is asked is checked by them.
    let world = World::new();
    let proto = format!("--proto={}", world.file("hello.proto", PROTO));
    let checked = run(&["call", &address, "Greeter/One", r#"{"txt": ""}"#, &proto]);
    assert_refused(&checked, 2, &["the request is no Name", "text (string)"]);
    assert_eq!(run(&["call", &address, "Greeter/One", LONG, &proto]).out, "{\n  \"text\": \"\"\n}\n");
}

/// What a call fails with whose server does this.
fn refused_by(kind: &str, does: impl Fn() -> Does + Send + Sync + 'static, parts: &[&str]) {
    let foreign = Foreign::start(move |_| does());
    let world = World::new();
    let proto = format!("--proto={}", world.file("hello.proto", PROTO));
    let address = format!("{kind}://{}", foreign.place);
    let finished = run(&["call", &address, "hello.Greeter/One", LONG, "--message-bytes=1000", &proto]);
    assert_refused(&finished, 1, &[&["hello.Greeter/One at ", &address, " failed: "], parts].concat());
}

#[test]
fn an_error_of_connect_is_told_with_its_details() {
    let failure = br#"{"code":"resource_exhausted","message":"full",
        "details":[{"type":"google.rpc.RetryInfo","value":"CgIIPA","debug":{"retryDelay":"60s"}}]}"#;
    let json = ["content-type: application/json"];
    let failed = move || Does::Says(answer("429 Too Many Requests", &json, failure));
    refused_by("http", failed, &["RESOURCE_EXHAUSTED: full", r#"google.rpc.RetryInfo {"retryDelay":"60s"}"#]);
    refused_by("proto+http", failed, &["RESOURCE_EXHAUSTED: full"]);
}

#[test]
fn what_is_no_answer_of_the_protocol_is_told_by_what_it_is() {
    let page = || Does::Says(answer("502 Bad Gateway", &["content-type: text/html"], b"<html>\n<b>Bad gateway</b>"));
    let told = ["UNAVAILABLE", "status 502", "`text/html`", "begins with `<html> <b>Bad gateway</b>`"];
    refused_by("http", page, &[&["none of Connect's"], &told[..]].concat());
    refused_by("grpc-web+http", page, &[&["none of gRPC-Web's"], &told[..]].concat());
    let text = || Does::Says(answer("200 OK", &["content-type: text/plain"], b"hello"));
    refused_by("http", text, &["UNKNOWN", "status 200", "`text/plain`"]);
    refused_by("grpc-web+http", text, &["UNKNOWN", "status 200", "`text/plain`"]);
    // Not what was asked for either.
    let proto = || Does::Says(answer("200 OK", &["content-type: application/proto"], b""));
    refused_by("http", proto, &["UNKNOWN", "`application/proto`"]);
    let zipped = || Does::Says(answer("200 OK", &["content-type: application/json", "content-encoding: gzip"], b"{}"));
    refused_by("http", zipped, &["INTERNAL", "compressed with `gzip`"]);
    refused_by("http", || Does::Says(answer("404 Not Found", &[], b"")), &["UNIMPLEMENTED", "no content-type"]);
    refused_by("http", || Does::Closes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), &["UNKNOWN", "can't be understood"]);
    let cut = Foreign::start(|_| Does::Says(answer("200 OK", &["content-type: application/json"], b"{\"a\": ")));
    let no_json = run(&["call", &format!("http://{}", cut.place), "a.A/B", LONG]);
    assert_refused(&no_json, 1, &["the reply can't be read"]);
}

#[test]
fn an_answer_that_is_cut_off_or_too_long_is_refused() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let with = move |rest: &str| format!("{json}{rest}").into_bytes();
    refused_by("http", || Does::Closes(Vec::new()), &["UNAVAILABLE", "the connection broke"]);
    refused_by("http", move || Does::Closes(with("")), &["UNAVAILABLE", "the connection broke"]);
    refused_by(
        "http",
        move || Does::Closes(with("content-length: 9\r\n\r\n{")),
        &["UNAVAILABLE", "the connection broke"],
    );
    let chunked = "transfer-encoding: chunked\r\n\r\n";
    refused_by("http", move || Does::Closes(with(&format!("{chunked}1\r\n{{\r\n"))), &["UNAVAILABLE", "broke"]);
    let too_long = ["RESOURCE_EXHAUSTED", "at most 1000 are taken"];
    refused_by("http", move || Does::Says(with("content-length: 1001\r\n\r\n")), &too_long);
    let endless = move || Does::Repeats(with(chunked), b"8\r\n\"\"\"\"\"\"\"\"\r\n".to_vec());
    refused_by("http", endless, &too_long);
    // A head without an end, and a failure's text.
    let head = || Does::Repeats(b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".to_vec());
    refused_by("http", head, &["can't be understood", "too large"]);
    let page = || {
        let head = b"HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n";
        Does::Repeats(head.to_vec(), b"8\r\nnonsense\r\n".to_vec())
    };
    refused_by("http", page, &["UNKNOWN", "status 500"]);
}

#[test]
fn frames_that_make_no_sense_are_refused() {
    let web = ["content-type: application/grpc-web+proto"];
    let says = move |body: &'static [u8]| move || Does::Says(answer("200 OK", &web, body));
    let told: [(&'static [u8], &[&str]); 8] = [
        (b"", &["INTERNAL", "cut off"]),
        (b"\0\0\0\0\x05\x0a", &["INTERNAL", "cut off"]),
        (b"\0\0\0\0\0", &["INTERNAL", "cut off"]),
        (b"\0\0\x01\0\0", &["RESOURCE_EXHAUSTED", "a message has 65536 bytes; at most 1000"]),
        (b"\x01\0\0\0\0", &["INTERNAL", "compressed"]),
        (b"\x80\0\0\0\x0dgrpc-status:0", &["INTERNAL", "no message"]),
        (b"\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\x0dgrpc-status:0", &["INTERNAL", "more than one message"]),
        (b"\0\0\0\0\0\x80\0\0\0\x01x", &["UNKNOWN", "without a status of gRPC"]),
    ];
    for (body, parts) in told {
        refused_by("grpc-web+http", says(body), parts);
    }
    let in_headers = ["content-type: application/grpc-web+proto", "grpc-status: 7", "grpc-message: not%20you"];
    refused_by(
        "grpc-web+http",
        move || Does::Says(answer("200 OK", &in_headers, b"")),
        &["PERMISSION_DENIED: not you"],
    );
}

#[test]
fn a_server_that_never_answers_is_waited_for_until_the_deadline() {
    let foreign = Foreign::start(|_| Does::Waits);
    for kind in ["http", "json+grpc-web+http"] {
        let finished = run(&["call", &format!("{kind}://{}", foreign.place), "a.A/B", "--deadline=100ms"]);
        assert_refused(&finished, 1, &["a.A/B at ", "DEADLINE_EXCEEDED", "passed without an answer"]);
    }
    assert!(foreign.asked().head.contains("\r\nconnect-timeout-ms: "));
    assert!(foreign.asked().head.contains("\r\ngrpc-timeout: "));
    // Nor one that takes connections and reads nothing, which over HTTP/2 introduces itself first.
    let (_listener, address) = deserted();
    let place = address.strip_prefix("tcp://").unwrap();
    for kind in ["http", "h2+http"] {
        let finished = run(&["call", &format!("{kind}://{place}"), "a.A/B", "--deadline=100ms"]);
        assert_refused(&finished, 1, &["DEADLINE_EXCEEDED"]);
    }
}

#[test]
fn nobody_at_the_address_and_no_address_are_said_at_once() {
    let (listener, address) = deserted();
    drop(listener);
    let place = address.strip_prefix("tcp://").unwrap();
    for kind in KINDS {
        let address = format!("{kind}://{place}");
        for arguments in [&["call", &address, GET][..], &["bench", &address, GET]] {
            assert_refused(&run(arguments), 1, &["UNAVAILABLE", &address, "check the address"]);
        }
    }
    for (address, part) in [("h3+http://a", "`h3` is none of"), ("http://a:0", "1 to 65535"), ("http://", "")] {
        assert_refused(&run(&["call", address, GET]), 2, &[part, "such as http://127.0.0.1:7000"]);
    }
    assert_refused(&run(&["call", "http://a:1", GET, "--message-bytes=0"]), 2, &["hold no message"]);
}

#[test]
fn answers_that_are_streams_are_printed_one_after_the_other() {
    let router = Router::new().streaming("hello.Greeter/Each", |context, mut incoming, mut outgoing| {
        let Name { text } = Name::decode(&*incoming.next(context)?.unwrap_or_default()).unwrap();
        for text in text.split(' ') {
            outgoing.send(context, Name { text: text.to_owned() }.encode_to_vec())?;
        }
        if text.ends_with('!') { Err(Status::new(Code::Aborted, "no more")) } else { Ok(()) }
    });
    let (_server, place) = started(ServerConfig::default(), router);
    let world = World::new();
    let proto = format!("--proto={}", world.file("hello.proto", PROTO));
    let texts = |out: &str| {
        let values = serde_json::Deserializer::from_str(out).into_iter::<Value>();
        values.map(|value| value.unwrap()["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let call =
        |kind: &str, json: &str| run(&["call", &format!("{kind}://{place}"), "Greeter/Each", json, LONG, &proto]);
    for kind in ["grpc-web+http", "grpc-web+h2+http"] {
        let finished = call(kind, r#"{"text": "a b c"}"#);
        assert!(finished.status.success(), "{}", finished.err);
        assert_eq!(texts(&finished.out), ["a", "b", "c"]);
        let failed = call(kind, r#"{"text": "a b!"}"#);
        assert_eq!(texts(&failed.out), ["a", "b!"]);
        assert_refused(&failed, 1, &["ABORTED: no more"]);
    }
    // What our servers don't have is said with what they do have.
    for kind in ["http", "h2+http", "json+grpc-web+http"] {
        let told = call(kind, r#"{"text": "a"}"#);
        assert_refused(&told, 1, &["hello.Greeter/Each", "a server that has no streams", "grpc-web+http://"]);
    }
    let takes = run(&["call", &format!("http://{place}"), "Greeter/All", LONG, &proto]);
    assert_refused(&takes, 2, &["takes a stream of messages", "one message"]);
    let measured = run(&["bench", &format!("grpc-web+http://{place}"), "Greeter/Each", &proto]);
    assert_refused(&measured, 2, &["is a stream of messages", "one message and one answer"]);
}

#[test]
fn streams_of_connect_are_read_from_servers_that_have_them() {
    let says = |end: &'static [u8]| {
        move |_: &_| {
            let frame = |flags, body: &[u8]| [&[flags, 0, 0, 0, u8::try_from(body.len()).unwrap()], body].concat();
            let body = [frame(0, br#"{"text": "one"}"#), frame(2, end)].concat();
            Does::Says(answer("200 OK", &["content-type: application/connect+json"], &body))
        }
    };
    let world = World::new();
    let proto = format!("--proto={}", world.file("hello.proto", PROTO));
    let call = |foreign: &Foreign| {
        run(&["call", &format!("http://{}", foreign.place), "Greeter/Each", LONG, &proto, "--show-metadata"])
    };
    let foreign = Foreign::start(says(br#"{"metadata":{"X-Cost":["7"]}}"#));
    let finished = call(&foreign);
    assert!(finished.out.contains(r#""text": "one""#), "{}", finished.err);
    assert_eq!(finished.err, "behind: x-cost: 7\n");
    assert!(foreign.asked().body.starts_with(b"\0\0\0\0\x02{}"));
    let failed = call(&Foreign::start(says(br#"{"error":{"code":"aborted","message":"no more"}}"#)));
    assert!(failed.out.contains(r#""text": "one""#));
    assert_refused(&failed, 1, &["ABORTED: no more"]);
    assert!(!failed.err.contains("a server that has no streams"), "it has: {}", failed.err);
}

#[test]
fn servers_are_called_and_measured_over_tls() {
    let world = World::new();
    let [authority, certificate, key] = certificates(&world);
    let identity = Identity { certificate: Pem::File(certificate.as_ref()), key: Pem::File(key.as_ref()) };
    let secured = ServerConfig::default().tls(TlsServer::new(identity, None).unwrap());
    let router = Router::new().descriptors(DESCRIPTORS).method(GET, |_, _, _| Ok(()));
    let (_server, place) = started(secured, router);
    let believed = format!("--tls-ca={authority}");
    for kind in ["https", "h1+https", "h2+https", "grpc-web+https", "proto+h2+https"] {
        let address = format!("{kind}://{place}");
        let finished = run(&["call", &address, GET, ADA, LONG, &believed]);
        assert!(finished.out.contains("found"), "{kind}: {}", finished.err);
        let load = ["--in-flight=2", "--duration=100ms", "--warm-up=0s", "--drain=60s", LONG];
        let measured = run(&[&["bench", &address, GET, &believed], &load[..]].concat());
        assert!(measured.status.success(), "{kind}: {}", measured.err);
    }
    let secured = format!("https://{place}");
    assert_refused(&run(&["call", &secured, GET]), 2, &["https:// is secured", "--tls-ca"]);
    assert_refused(&run(&["call", &format!("http://{place}"), GET, &believed]), 2, &["--tls-ca", "https://"]);
    let other = run(&["call", &secured, GET, &believed, "--tls-name=shop.example"]);
    assert_refused(&other, 1, &["UNAVAILABLE", "TLS: invalid peer certificate"]);
    assert_refused(&run(&["call", &secured, GET, "--tls-ca=/nowhere.pem"]), 2, &["/nowhere.pem"]);
    let named = run(&["call", &secured, GET, &believed, "--tls-name=no name"]);
    assert_refused(&named, 2, &["no name"]);
}

#[test]
fn protocols_over_http_are_compared_with_ours() {
    let world = World::new();
    let (_running, place) = kv(&world);
    let addresses = KINDS.into_iter().chain(["tcp", "grpc"]).map(|kind| format!("{kind}://{place}"));
    let addresses: Vec<String> = addresses.collect();
    let named: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let out = world.path("figures.json");
    let written = format!("--out={out}");
    let load = ["Kv/Get", "--sample=kv", "--rate=100", LONG, "--rounds=2", "--duration=400ms", "--warm-up=20ms"];
    let finished = run(&[&["bench"], &named[..], &load[..], &["--drain=60s", &written]].concat());
    assert!(finished.status.success(), "{}", finished.err);
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    let rows = figures["rows"].as_array().unwrap();
    let value = |system: &str, metric: &str| {
        let row = rows.iter().find(|row| row["system"] == system && row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64())
    };
    let offered = value(named[0], "offered_per_s");
    assert!(offered.is_some());
    for other in &named[1..] {
        assert!(value(other, "p50_ms_over_first").is_some_and(|ratio| ratio > 0.0), "{other}: {figures}");
        assert_eq!(value(other, "offered_per_s"), offered, "all are sent the same requests");
        assert_eq!(value(other, "missed_share"), Some(0.0), "{other}: {}", finished.out);
    }
}

#[test]
fn what_is_outstanding_over_http_1_has_connections_that_are_kept() {
    let world = World::new();
    let (_running, place) = kv(&world);
    let load = ["--in-flight=3", "--duration=300ms", "--warm-up=0s", "--drain=60s", LONG];
    let scans = ["--sample=kv", "--scan-percent=10"];
    let finished = run(&[&["bench", &format!("http://{place}"), "Kv/Get"], &load[..], &scans].concat());
    assert!(finished.status.success() && finished.out.contains("scan "), "{}{}", finished.out, finished.err);
    let counters = run(&["call", &format!("tcp://{place}"), "Meta/Counters"]).out;
    let connections = counters.lines().find_map(|line| line.strip_prefix("web_connections ")).unwrap();
    assert_eq!(connections, "3", "{counters}");
}

#[test]
fn what_fails_under_load_is_counted_by_its_kind() {
    let failing = |status: &'static str, code: &'static str| {
        Foreign::start(move |_| {
            let body = format!(r#"{{"code":"{code}"}}"#);
            Does::Says(answer(status, &["content-type: application/json"], body.as_bytes()))
        })
    };
    let load = ["a.A/B", "--in-flight=1", "--duration=50ms", "--warm-up=0s", "--drain=60s", LONG];
    for (foreign, name) in [
        (failing("429 Full", "resource_exhausted"), "resource-exhausted"),
        (failing("504 Late", "deadline_exceeded"), "deadline-exceeded"),
        (Foreign::start(|_| Does::Closes(Vec::new())), "connection-lost"),
        (Foreign::start(|_| Does::Says(answer("502 Bad", &["content-type: text/html"], b"<html>"))), "unavailable"),
    ] {
        let finished = run(&[&["bench", &format!("http://{}", foreign.place)], &load[..]].concat());
        assert_refused(&finished, 1, &["no request was answered with a result", &format!("mostly `{name}`")]);
    }
    // A connection that the server closes, as it says, costs no call.
    let once = Foreign::start(|_| {
        Does::Closes(answer("200 OK", &["content-type: application/json", "connection: close"], b"{}"))
    });
    let finished = run(&[&["bench", &format!("http://{}", once.place)], &load[..]].concat());
    assert!(finished.status.success() && !finished.out.contains("missed:"), "{}", finished.out);
}
