//! `serve search`: shards as processes, one aggregator.

use std::time::Duration;

use greenwave::{CallQueue, ChannelConfig, Code, Context, MethodId};
use greenwave_services::proto::search::{QUERY, QueryRequest};
use prost::Message;
use serde_json::Value;

use crate::process::{Running, address_of, await_end, fact, half_a_call, is_gone, kill, pid_of, run, run_with_input};
use crate::world::World;

const SHARDS: usize = 3;
const ASK: &str = r#"{"text": "completion queue", "limit": 2}"#;

/// The service, with the start lines of its shards.
struct Search {
    world: World,
    running: Running,
    address: String,
    shards: Vec<String>,
}

fn serve(more: &[&str]) -> Search {
    let world = World::new();
    let (dir, data) = (world.option("--dir", "notes"), world.option("--data", "index"));
    let shards = format!("--shards={SHARDS}");
    let arguments = ["serve", "search", &dir, &data, &shards, "--listen=tcp://127.0.0.1:0"];
    let running = Running::start(&[&arguments[..], more].concat());
    let shards = (0..SHARDS).map(|shard| running.await_said(&format!("name=shard-{shard:02}"))).collect();
    let address = running.address();
    Search { world, running, address, shards }
}

fn call(address: &str, request: &str) -> Value {
    let finished = run(&["call", address, "Search/Query", request, "--deadline=60s"]);
    assert!(finished.status.success(), "{}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}

#[test]
fn a_call_is_answered_in_json_from_all_shards() {
    let search = serve(&[]);
    let reply = call(&search.address, ASK);
    assert_eq!((reply["hits"][0]["file"].as_str(), reply["hits"][0]["line"].as_u64()), (Some("best.md"), Some(3)));
    assert_eq!((reply["shards"].as_u64(), reply["missing"].as_array().map(Vec::len)), (Some(3), Some(0)));
}

#[test]
fn each_process_says_where_it_listens_and_how_it_schedules() {
    let search = serve(&["--order=edf", "--report-only", "--backend=epoll", "--wait=adaptive:5us"]);
    for line in &search.shards {
        assert!(address_of(line).starts_with("tcp://127.0.0.1:"));
        let facts = ["backend", "order", "admission", "report_only", "scheduling"].map(|key| fact(line, key));
        assert_eq!(facts, ["epoll", "edf", "on", "on", "cooperative"]);
    }
}

#[test]
fn methods_are_listed_and_counters_shown() {
    let search = serve(&["--name=front"]);
    let listed = run(&["call", &search.address]).out;
    assert!(listed.starts_with("front has\n"), "{listed}");
    assert!(listed.contains("greenwave.search.Search/Query (QueryRequest) returns (QueryReply)"), "{listed}");
    call(&search.address, ASK);
    let counters = run(&["call", &search.address, "Meta/Counters"]).out;
    assert!(counters.lines().any(|line| line.starts_with("answered ")), "{counters}");
}

#[test]
fn a_request_from_standard_input_is_answered_with_its_receipt() {
    let search = serve(&[]);
    let arguments = ["call", &search.address, "Search/Query", "-", "--receipt", "--deadline=60s"];
    let finished = run_with_input(&arguments, ASK);
    assert!(finished.status.success(), "{}", finished.err);
    for stage in ["aggregator", "shard-00 [0]", "shard-01 [1]", "shard-02 [2]"] {
        assert!(finished.err.contains(stage), "{}", finished.err);
    }
}

#[test]
fn a_shard_that_dies_is_reported_and_missing_in_the_answers() {
    let search = serve(&[]);
    call(&search.address, ASK);
    kill(pid_of(&search.shards[1]));
    let told = search.running.await_said("warning: ");
    assert!(told.contains("shard-01 ended with signal: 9"), "{told}");
    let reply = call(&search.address, ASK);
    let missing: Vec<_> = reply["missing"].as_array().unwrap().iter().map(|it| it["shard"].as_u64()).collect();
    assert_eq!(missing, [Some(1)]);
}

#[test]
fn what_was_accepted_is_finished_before_the_end_and_no_process_stays() {
    // An hour: whoever waits for the limit instead of the calls doesn't end in time.
    let search = serve(&["--report-only", "--admission=off", "--drain=1h"]);
    let address = search.address.parse().unwrap();
    let mut stream = CallQueue::connect(&address, &ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(Duration::from_secs(60));
    let request = QueryRequest { text: "completion queue".into(), limit: 2 }.encode_to_vec();
    const CALLS: u64 = 200;
    (0..CALLS).for_each(|tag| stream.submit(&context, MethodId::of(QUERY), &request, tag));
    // One answer says that the connection is there; the calls behind it are on their way or being served.
    let first = stream.take().expect("calls are under way");
    search.running.terminate();
    let mut completions: Vec<_> = std::iter::from_fn(|| stream.take()).collect();
    completions.push(first);
    assert_eq!(completions.len() as u64, CALLS);
    let mut answered = 0;
    for completion in completions {
        match completion.result {
            Ok(_) => answered += 1,
            Err(failure) => {
                let status = failure.status;
                assert!(status.code == Code::Unavailable && status.never_ran(), "{status}");
            }
        }
    }
    assert!(answered >= 1);
    let finished = search.running.finish();
    assert!(finished.status.success(), "{}", finished.err);
    assert!(search.shards.iter().all(|line| is_gone(pid_of(line))));
}

#[test]
fn the_shards_end_with_the_aggregator_even_if_it_is_killed() {
    let Search { running, shards, .. } = serve(&[]);
    drop(running);
    shards.iter().for_each(|line| await_end(pid_of(line)));
}

#[test]
fn load_is_measured_and_written_as_json() {
    let search = serve(&["--report-only", "--admission=off"]);
    let out = search.world.path("figures.json");
    let requests =
        search.world.file("requests.jsonl", "{\"text\": \"queue\"}\n\n{\"text\": \"number\", \"limit\": 1}\n");
    let finished = run(&[
        "bench",
        &search.address,
        "Search/Query",
        &format!("--requests={requests}"),
        "--rate=50",
        "--duration=1s",
        "--warm-up=100ms",
        "--drain=60s",
        "--patient",
        "--class=tight=50ms:1",
        "--class=loose=60s:3",
        &format!("--out={out}"),
    ]);
    assert!(finished.status.success(), "{}", finished.err);
    let shown: Vec<_> = finished.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["class", "tight", "loose", "all", "aggregator", "shard-02"] {
        assert!(shown.contains(&name), "{}", finished.out);
    }
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    let rows = figures["rows"].as_array().unwrap();
    let has = |metric: &str| rows.iter().any(|row| row["metric"] == metric && row["value"].is_number());
    assert!(has("p99_ms") && has("loose/goodput_per_s"), "{figures}");
}

#[test]
fn a_second_signal_ends_the_shards_too_whatever_they_have_to_finish() {
    let search = serve(&["--drain=10m"]);
    let _unfinished: Vec<_> = search.shards.iter().map(|line| half_a_call(&address_of(line))).collect();
    search.running.terminate();
    search.running.await_said("finishing what was accepted");
    search.running.terminate();
    assert_eq!(search.running.finish().status.code(), Some(128 + 15));
    search.shards.iter().for_each(|line| await_end(pid_of(line)));
}
