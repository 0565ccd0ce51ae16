//! `serve recommend`: three stages, each a process that calls the next.

use serde_json::Value;

use crate::process::{Running, is_gone, kill, pid_of, run};
use crate::world::World;

struct Recommend {
    _world: World,
    running: Running,
    address: String,
    /// The first stage's process, then those behind it.
    processes: [u32; 3],
}

fn serve(more: &[&str]) -> Recommend {
    let world = World::new();
    let (dir, data) = (world.option("--dir", "crates"), world.option("--data", "stores"));
    let arguments = ["serve", "recommend", &dir, &data, "--listen=tcp://127.0.0.1:0"];
    let running = Running::start(&[&arguments[..], more].concat());
    let last = running.await_said("name=recommendation");
    let second = running.await_said("name=history");
    let first = running.told();
    let processes = [&first, &second, &last].map(|line| pid_of(line));
    Recommend { _world: world, running, address: crate::process::address_of(&first), processes }
}

#[test]
fn a_recommendation_comes_through_all_three_stages() {
    let recommend = serve(&["--order=stage-laxity", "--clusters=2"]);
    let request = r#"{"user": "newcomer@1.0.0", "limit": 2}"#;
    let finished = run(&["call", &recommend.address, "Profile/Recommend", request, "--receipt", "--deadline=60s"]);
    assert!(finished.status.success(), "{}", finished.err);
    let reply: Value = serde_json::from_str(&finished.out).unwrap();
    let names: Vec<_> = reply["crates"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| ["log", "tls"].contains(name)), "{names:?}");
    let stages: Vec<_> = reply["stages"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["profile", "history", "recommendation"]);
    assert!(["profile", "history", "recommendation"].iter().all(|stage| finished.err.contains(stage)));
}

#[test]
fn a_users_mistake_comes_back_as_the_services_own_words() {
    let recommend = serve(&[]);
    let finished = run(&["call", &recommend.address, "Profile/Recommend", r#"{"user": "nobody"}"#, "--deadline=60s"]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.err.contains("NOT_FOUND: there is no user \"nobody\""), "{}", finished.err);
    assert_eq!(finished.err.lines().count(), 1);
}

#[test]
fn on_sigterm_every_stage_ends_and_the_exit_is_clean() {
    let recommend = serve(&["--drain=1h"]);
    let request = r#"{"user": "newcomer@1.0.0"}"#;
    run(&["call", &recommend.address, "Profile/Recommend", request, "--deadline=60s"]);
    recommend.running.terminate();
    let finished = recommend.running.finish();
    assert!(finished.status.success(), "{}", finished.err);
    assert!(recommend.processes.into_iter().all(is_gone));
}

#[test]
fn a_chain_that_lost_a_stage_ends_and_says_which() {
    let recommend = serve(&[]);
    kill(recommend.processes[1]);
    let finished = recommend.running.finish();
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.err.contains("error: history ended with signal: 9"), "{}", finished.err);
    assert!(recommend.processes.into_iter().all(is_gone));
}
