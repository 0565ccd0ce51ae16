//! `serve kv`: one process with a store that stays.

use serde_json::Value;

use crate::process::{Running, address_of, fact, half_a_call, pid_of, run};
use crate::world::World;

const LISTEN: &str = "--listen=tcp://127.0.0.1:0";

fn serve(world: &World, more: &[&str]) -> (Running, String) {
    let data = world.option("--data", "kv");
    let running = Running::start(&[&["serve", "kv", &data, LISTEN, "--rows=100"][..], more].concat());
    let address = running.address();
    (running, address)
}

fn call(address: &str, method: &str, request: &str) -> Value {
    let finished = run(&["call", address, method, request, "--deadline=60s"]);
    assert!(finished.status.success(), "{}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}

#[test]
fn what_one_process_was_given_the_next_one_has() {
    let world = World::new();
    let (running, address) = serve(&world, &[]);
    call(&address, "Kv/Put", r#"{"key": "ada", "value": "lovelace"}"#);
    assert_eq!(call(&address, "Kv/Scan", "{}")["rows"], 101);
    running.terminate();
    let finished = running.finish();
    assert!(finished.status.success(), "{}", finished.err);
    let (_running, address) = serve(&world, &["--checkpoint-rows=0"]);
    assert_eq!(call(&address, "Kv/Get", r#"{"key": "ada"}"#)["value"], "lovelace");
    assert_eq!(call(&address, "Kv/Get", r#"{"key": "row00000099"}"#)["found"], true);
}

/// How many threads of a process are heads of clusters.
fn heads(process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let name = |thread: &std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    threads.filter(|thread| name(thread).starts_with("greenwave-head")).count()
}

#[test]
fn a_server_of_two_instances_serves_the_same_store_at_both() {
    let world = World::new();
    let table = "[[instance]]\nlisten = \"tcp://127.0.0.1:0\"\nclusters = 2\ncores = [0]\nbackend = \"epoll\"\n";
    let file = world.file("instances.toml", table);
    for said in ["--instance=tcp://127.0.0.1:0,clusters=2,cores=0,backend=epoll".to_owned(), format!("--config={file}")]
    {
        let data = world.option("--data", "kv");
        let running = Running::start(&["serve", "kv", &data, LISTEN, "--rows=100", &said]);
        let [own, further] = [running.told(), running.told()];
        let addresses = [&own, &further].map(|line| address_of(line));
        assert_ne!(addresses[0], addresses[1]);
        assert_eq!(fact(&further, "backend"), "epoll");
        assert_eq!(heads(pid_of(&own)), 3, "one, and two of the further instance");
        call(&addresses[0], "Kv/Put", &format!(r#"{{"key": "said", "value": "{said}"}}"#));
        assert_eq!(call(&addresses[1], "Kv/Get", r#"{"key": "said"}"#)["value"], said);
        running.terminate();
        assert!(running.finish().status.success());
    }
}

#[test]
fn a_mix_of_gets_and_scans_is_measured_class_by_class() {
    let world = World::new();
    let (_running, address) = serve(&world, &[]);
    let bench = ["bench", &address, "Kv/Get", "--sample=kv", "--scan-percent=20", "--deadline=60s"];
    let finished = run(&[&bench[..], &["--in-flight=4", "--warm-up=0s", "--seconds=0.2"]].concat());
    assert!(finished.status.success(), "{}", finished.err);
    let classes = finished.out.lines().filter(|line| line.starts_with("get ") || line.starts_with("scan "));
    assert_eq!(classes.count(), 2, "{}", finished.out);
    assert!(!finished.out.contains("missed:"), "{}", finished.out);
    let finished = run(&["bench", &address, "Kv/Scan", "--sample=kv", "--scan-percent=20"]);
    assert!(finished.err.contains("mixes SCANs with greenwave.kv.Kv/Get"), "{}", finished.err);
}

#[test]
fn other_rows_than_the_store_was_made_with_are_refused() {
    let world = World::new();
    drop(serve(&world, &[]));
    let data = world.option("--data", "kv");
    let finished = run(&["serve", "kv", &data, LISTEN, "--rows=101"]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.err.contains("was made with 100 rows of 100 bytes, not with 101"), "{}", finished.err);
}

#[test]
fn a_second_signal_ends_what_the_first_one_lets_finish() {
    let world = World::new();
    let (running, address) = serve(&world, &["--drain=10m"]);
    let _unfinished = half_a_call(&address);
    running.terminate();
    running.await_said("finishing what was accepted");
    running.terminate();
    running.await_said("a second signal: ending now, whatever is unfinished");
    let finished = running.finish();
    assert_eq!(finished.status.code(), Some(128 + 15), "{}", finished.err);
}
