//! What can be wrong with what a user says: one line each, with a remedy, and the exit code.

use std::net::TcpListener;

use greenwave::{Router, Server, ServerConfig, ServerHandle};
use greenwave_services::proto::DESCRIPTORS;

use crate::process::{Finished, run, run_with_input};
use crate::world::World;

/// A server with one method, that nothing ever calls successfully.
fn server() -> (ServerHandle, String) {
    let router = Router::new()
        .method("greenwave.search.Search/Query", |_, _, _| Ok(()))
        .method("test.Silent/Undescribed", |_, _, _| Ok(()))
        .descriptors(DESCRIPTORS);
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let address = server.addresses()[0].to_string();
    (server, address)
}

/// The command failed with this code, and said why in one line that has all of this in it.
pub(crate) fn assert_refused(finished: &Finished, code: i32, parts: &[&str]) {
    let said = &finished.err;
    assert_eq!(finished.status.code(), Some(code), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

/// An address at which nobody listens: one that was free a moment ago, and is kept from others.
pub(crate) fn deserted() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    (listener, address)
}

#[test]
fn a_method_that_is_not_there_is_refused_with_those_that_are() {
    let (_server, address) = server();
    let finished = run(&["call", &address, "Search/Find"]);
    assert_refused(&finished, 1, &["no method is called `Search/Find`", &address, "greenwave.search.Search/Query"]);
}

#[test]
fn json_that_is_none_or_of_another_type_is_refused_with_its_place() {
    let (_server, address) = server();
    for json in ["{\"text\": ", "{\"text\": 7}", "{\"words\": \"queue\"}", "[]", "{} {}"] {
        let finished = run(&["call", &address, "Search/Query", json]);
        assert_refused(&finished, 2, &["the request is no QueryRequest: ", "line 1 column", "text (string)"]);
    }
    assert_refused(&run_with_input(&["call", &address, "Search/Query", "-"], "\n"), 2, &["no QueryRequest"]);
}

#[test]
fn a_method_without_descriptors_is_refused_with_a_remedy() {
    let (_server, address) = server();
    let finished = run(&["call", &address, "Silent/Undescribed"]);
    assert_refused(&finished, 1, &["does not describe `test.Silent/Undescribed`", "descriptors"]);
}

#[test]
fn nobody_at_the_address_is_said_at_once() {
    let (listener, address) = deserted();
    drop(listener);
    for arguments in [&["call", &address][..], &["bench", &address, "Search/Query"]] {
        assert_refused(&run(arguments), 1, &["UNAVAILABLE", &address, "check the address"]);
    }
}

#[test]
fn something_else_at_the_address_is_said_in_the_end() {
    let (listener, address) = deserted();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _gone = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    assert_refused(&run(&["call", &address]), 1, &[&address]);
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    assert_refused(&run(&["call", "nowhere"]), 2, &["`nowhere` is nowhere to call", "tcp://10.0.0.1:7000"]);
}

#[test]
fn an_option_that_is_wrong_is_refused_with_what_is_allowed() {
    let refused = |arguments: &[&str], parts: &[&str]| assert_refused(&run(arguments), 2, parts);
    refused(&["serve", "serch"], &["unrecognized subcommand 'serch'", "see --help"]);
    refused(&["serve", "search", "--odrer=edf"], &["unexpected argument '--odrer'"]);
    refused(&["serve", "search", "--dir=/", "--order=best"], &["invalid value 'best' for '--order", "least-laxity"]);
    refused(&["serve", "search", "--dir=/", "--clusters=0"], &["invalid value '0' for '--clusters", "1 to 256"]);
    refused(&["serve", "search", "--dir=/", "--shards=0"], &["invalid value '0' for '--shards", "1 to 256"]);
    refused(&["serve", "recommend", "--dir=/", "--wait=never"], &["invalid value 'never' for '--wait", "spin, block"]);
    refused(
        &["serve", "recommend", "--dir=/", "--listen=7200"],
        &["invalid value '7200' for '--listen", "tcp://127.0.0.1:7000"],
    );
    refused(&["serve", "search-shard", "--index=/"], &["setting `shard` is missing"]);
    refused(
        &["serve", "kv", "--instance=unix:///x", "--instance=tcp://127.0.0.1:1,clusters=0"],
        &["'tcp://127.0.0.1:1,clusters=0' for '--instance", "'0' for '--clusters", "1 to 256", "see --help"],
    );
    refused(&["bench", "tcp://127.0.0.1:1", "A/B", "--rate=0"], &["--rate is 0", "more than 0"]);
    refused(&["bench", "tcp://127.0.0.1:1", "A/B", "--seconds=-1"], &["`-1` is no time"]);
    refused(&["bench", "tcp://127.0.0.1:1", "A/B", "--rate=1", "--in-flight=1"], &["cannot be used with"]);
    refused(&["bench", "tcp://127.0.0.1:1", "A/B", "--class=tight"], &["tight=50ms:0.2"]);
    refused(
        &["bench", "tcp://127.0.0.1:1", "A/B", "--class=a=1ms:1", "--class=a=2ms:1"],
        &["two classes are called a"],
    );
    refused(&["call", "tcp://127.0.0.1:1", "A/B", "--deadline=soon"], &["invalid value 'soon' for '--deadline"]);
}

#[test]
fn a_directory_that_can_not_be_read_is_refused() {
    let world = World::new();
    let file = world.file("a-file", "");
    for service in ["search", "recommend"] {
        for directory in ["/no/such/directory", &file] {
            let data = world.option("--data", "derived");
            let finished = run(&["serve", service, &format!("--dir={directory}"), &data]);
            assert_refused(&Finished { err: last_line(&finished), ..finished }, 2, &[directory]);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_refused_and_no_process_stays() {
    let world = World::new();
    let (_listener, address) = deserted();
    let listen = format!("--listen={address}");
    for (service, source) in [("search", "notes"), ("recommend", "crates")] {
        let (dir, data) = (world.option("--dir", source), world.option("--data", service));
        let shards: &[&str] = if service == "search" { &["--shards=2"] } else { &[] };
        let finished = run(&[&["serve", service, &dir, &data, &listen], shards].concat());
        // Its own streams are open until its children, which share none of them, are gone with it.
        let said = line_about(&finished, &address);
        assert_refused(&Finished { err: said, ..finished }, 1, &[&address, "--listen"]);
    }
}

/// The error about this address. Around it stands what was indexed, which processes listened, and which ended.
fn line_about(finished: &Finished, address: &str) -> String {
    let mut errors = finished.err.lines().filter(|line| line.starts_with("error: "));
    errors.find(|line| line.contains(address)).unwrap_or_default().to_owned()
}

/// What was said last: before it may stand what was indexed.
fn last_line(finished: &Finished) -> String {
    finished.err.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn help_is_no_error() {
    for arguments in [&["--help"][..], &["serve", "search", "--help"], &["call", "--help"], &["bench", "--help"]] {
        let finished = run(arguments);
        assert!(finished.status.success() && finished.out.contains("Examples:"), "{}", finished.out);
    }
    assert_eq!(run(&[]).status.code(), Some(2));
}
