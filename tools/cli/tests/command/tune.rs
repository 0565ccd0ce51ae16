//! `greenwave tune`: what it recommends for environments that it is told, and what it measures and sets on a real group.

use std::time::Duration;

use greenwave_policy::replication::{
    Aim, Bandwidth, Cpu, Curve, Disk, Environment, Limit, Load, Network, Sizes, predict, recommend,
};
use serde_json::Value;

use crate::bad_input::{assert_refused, deserted};
use crate::group::Group;
use crate::process::{Finished, Running, run};
use crate::world::World;

fn tune(words: &[&str]) -> Finished {
    run(&[&["tune"], words].concat())
}

fn tuned(words: &[&str]) -> Value {
    let finished = tune(&[words, &["--json"]].concat());
    assert!(finished.status.success(), "{words:?}: {}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}

fn span(micros: &Value) -> Duration {
    Duration::from_nanos((micros.as_f64().unwrap() * 1e3).round() as u64)
}

/// The environment that was printed.
fn environment(printed: &Value) -> Environment {
    let rate =
        |value: &Value| value.as_u64().map_or(Bandwidth::UNLIMITED, |rate| Bandwidth::bytes_per_s(rate).unwrap());
    let size = |key: &str| printed[key].as_u64().unwrap() as u32;
    let cpu = |cpu: &Value| Cpu {
        per_message: span(&cpu["message_us"]),
        per_byte_ns: cpu["byte_ns"].as_f64().unwrap(),
        per_command: span(&cpu["command_us"]),
    };
    let network = Network {
        delay: span(&printed["delay_us"]),
        bandwidth: rate(&printed["bandwidth_bytes_per_s"]),
        limit: if printed["per"] == "pair" { Limit::Pair } else { Limit::Interface },
        loss: printed["loss"].as_f64().unwrap(),
        framing: printed["framing"].as_f64().unwrap(),
    };
    let disk = Disk { sync: span(&printed["sync_us"]), bandwidth: rate(&printed["disk_bytes_per_s"]) };
    let sizes = Sizes {
        request: size("request"),
        request_head: size("request_head"),
        answer: size("answer"),
        append_head: size("append_head"),
        entry_head: size("entry_head"),
        ack: size("ack"),
    };
    Environment::new(size("replicas"), network, cpu(&printed["leader"]), cpu(&printed["follower"]), disk, sizes)
        .unwrap()
}

/// What was printed is what the model says.
fn assert_model(printed: &Value, environment: &Environment, load: Load, aim: Aim) {
    let setting = recommend(environment, load, aim);
    let prediction = predict(environment, setting, load);
    let recommended = &printed["recommended"];
    assert_eq!(recommended["batch_bytes"], setting.batch_bytes(), "{recommended}");
    assert_eq!(recommended["window_bytes"], setting.window_bytes(), "{recommended}");
    assert_eq!(recommended["window"], setting.window(), "{recommended}");
    assert_eq!(recommended["bottleneck"], prediction.bottleneck.to_string(), "{recommended}");
    // What has no end is null.
    let close = |key: &str, expected: Option<f64>| match (recommended[key].as_f64(), expected) {
        (Some(found), Some(expected)) => assert!((found - expected).abs() <= 1e-9 * expected, "{key}: {recommended}"),
        (found, expected) => assert_eq!(found, expected, "{key}: {recommended}"),
    };
    let micros = |span: Duration| Some(span.as_secs_f64() * 1e6).filter(|_| span != Duration::MAX);
    close("ops_per_s", Some(prediction.ops_per_s));
    close("latency_us", micros(prediction.latency));
    close("p99_us", micros(prediction.p99));
    let curve = Curve::new(environment, load);
    let points: Vec<(u64, u64, f64)> = curve
        .points()
        .iter()
        .map(|(setting, prediction)| (setting.batch_bytes(), setting.window(), prediction.ops_per_s))
        .collect();
    let shown = printed["curve"].as_array().unwrap().iter().map(|point| {
        let number = |key: &str| point[key].as_u64().unwrap();
        (number("batch_bytes"), number("window"), point["ops_per_s"].as_f64().unwrap())
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), points.len());
    for (found, expected) in shown.iter().zip(&points) {
        assert_eq!((found.0, found.1), (expected.0, expected.1));
        assert!((found.2 - expected.2).abs() <= 1e-9 * expected.2);
    }
}

#[test]
fn a_told_environment_is_what_the_model_is_asked_about() {
    let mbits = |mbits: u64| Bandwidth::bits_per_s(mbits * 1_000_000).unwrap();
    let words = [
        "--replicas=5",
        "--delay=12ms",
        "--bandwidth=200mbit",
        "--per=pair",
        "--loss=0.1%",
        "--framing=0.05",
        "--request=1KiB",
        "--answer=32",
        "--fsync=2ms",
        "--disk-bandwidth=400MB/s",
        "--cpu-message=7us",
        "--cpu-byte=0.5",
        "--cpu-command=4us",
        "--cpu-command-follower=2us",
    ];
    let network = Network {
        delay: Duration::from_millis(12),
        bandwidth: mbits(200),
        limit: Limit::Pair,
        loss: 0.001,
        framing: 0.05,
    };
    let leader = Cpu { per_message: Duration::from_micros(7), per_byte_ns: 0.5, per_command: Duration::from_micros(4) };
    let follower = Cpu { per_command: Duration::from_micros(2), ..leader };
    let disk = Disk { sync: Duration::from_millis(2), bandwidth: Bandwidth::bytes_per_s(400_000_000).unwrap() };
    for (load_words, load) in [
        (&["--saturated"][..], Load::Saturated),
        (&[], Load::Saturated),
        (&["--clients=512", "--think=5ms"], Load::Closed { clients: 512, think: Duration::from_millis(5) }),
        (&["--rate=3000"], Load::Open { per_s: 3000.0 }),
    ] {
        for (aim_words, aim) in
            [(&[][..], Aim::Throughput), (&["--latency-limit=60ms"], Aim::Latency(Duration::from_millis(60)))]
        {
            let printed = tuned(&[&words[..], load_words, aim_words].concat());
            let heads = environment(&printed["environment"]).sizes();
            let sizes = Sizes { request: 1024, answer: 32, ..heads };
            let told = Environment::new(5, network, leader, follower, disk, sizes).unwrap();
            assert_eq!(environment(&printed["environment"]), told);
            assert_model(&printed, &told, load, aim);
        }
    }
}

#[test]
fn a_preset_is_a_start_and_options_count_more() {
    let usual = tuned(&["--preset=lan-1g"]);
    assert_eq!(environment(&usual["environment"]).network().limit, Limit::Interface);
    let other = tuned(&["--preset=lan-1g", "--fsync=0", "--bandwidth=unlimited"]);
    let expected = environment(&usual["environment"]);
    let network = Network { bandwidth: Bandwidth::UNLIMITED, ..expected.network() };
    let disk = Disk { sync: Duration::ZERO, ..expected.disk() };
    let (leader, follower) = (expected.leader(), expected.follower());
    let expected = Environment::new(3, network, leader, follower, disk, expected.sizes()).unwrap();
    assert_eq!(environment(&other["environment"]), expected);
    assert_model(&other, &expected, Load::Saturated, Aim::Throughput);
}

#[test]
fn every_preset_is_reported_with_a_table_and_a_plot() {
    let help = run(&["tune", "--help"]).out;
    for preset in ["lan-10g", "lan-1g", "lan-1g-flash", "lan-1g-disk", "region", "wan-100m", "wan-10m"] {
        assert!(help.contains(preset), "{preset} isn't in the help");
        for load in ["--clients=64", "--rate=500", "--saturated"] {
            let finished = tune(&["--preset", preset, load, "--latency-limit=1s"]);
            assert!(finished.status.success() && finished.err.is_empty(), "{}", finished.err);
            let printed = tuned(&["--preset", preset, load, "--latency-limit=1s"]);
            let recommended = &printed["recommended"];
            let fix =
                format!("--batch-bytes {} --window-bytes {}", recommended["batch_bytes"], recommended["window_bytes"]);
            for part in
                ["recommended ", "bottleneck ", "predicted ", "by batch, with a window of", " *\n", &fix, preset]
            {
                assert!(finished.out.contains(part), "no {part:?} in {}", finished.out);
            }
        }
    }
}

#[test]
fn what_can_not_be_told_is_refused_with_a_remedy() {
    let refused = |words: &[&str], parts: &[&str]| assert_refused(&tune(words), 2, parts);
    refused(&["--preset=lan-9g"], &["invalid value 'lan-9g'", "possible values: lan-10g, lan-1g", "see --help"]);
    refused(&["--bandwidth=0"], &["a bandwidth of 0 bytes a second carries nothing; allowed: 1 or more"]);
    refused(&["--disk-bandwidth=0MB/s"], &["carries nothing"]);
    refused(&["--bandwidth=fast"], &["`fast` is no rate; such as 10mbit"]);
    refused(&["--replicas=0"], &["replicas is 0; allowed: 1 to 99", "see --help"]);
    refused(&["--replicas=100"], &["replicas is 100; allowed: 1 to 99"]);
    refused(&["--delay=61s"], &["network.delay is 61s; allowed: at most 60s"]);
    refused(&["--loss=60%"], &["network.loss is 0.6; allowed: 0 to 0.5"]);
    refused(&["--loss=-1"], &["`-1` is no share"]);
    refused(&["--request=0"], &["sizes.request is 0 bytes; allowed: 1 to"]);
    refused(&["--request=5000MB"], &["is too much; allowed: up to"]);
    refused(&["--cpu-byte=NaN"], &["cpu.per_byte_ns is NaN"]);
    refused(&["--clients=0"], &["0 is not in 1.."]);
    refused(&["--rate=0"], &["more than 0"]);
    refused(&["--latency-limit=0"], &["0 is no time"]);
    // What contradicts itself.
    refused(&["--rate=1", "--clients=1"], &["cannot be used with"]);
    refused(&["--rate=1", "--saturated"], &["cannot be used with"]);
    refused(&["--think=1ms"], &["--clients"]);
    refused(&["--data=/tmp", "--fsync=1ms"], &["cannot be used with"]);
    refused(&["--apply"], &["--peers"]);
    refused(&["--watch=1s"], &["--peers"]);
    let peers = "--peers=tcp://127.0.0.1:1";
    refused(&[peers, "--apply=later"], &["invalid value 'later'", "recommended, auto"]);
    refused(&[peers, "--preset=lan-1g"], &["leave one of them out", "--apply"]);
    refused(&[peers, "--data=/tmp"], &["measures the disks itself", "leave --data out"]);
    refused(&[peers, "--apply=auto", "--rate=5"], &["say nothing but --latency-limit beside it"]);
    refused(&[peers, "--apply=auto", "--preset=lan-1g"], &["say nothing but --latency-limit beside it"]);
    refused(&["--peers=nowhere"], &["`nowhere` is no address"]);
    assert_refused(&tune(&["--data=/no/such/directory"]), 1, &["/no/such/directory", "name a directory with --data"]);
}

#[test]
fn nobody_at_the_address_is_said_with_a_remedy() {
    let (listener, address) = deserted();
    drop(listener);
    for more in [&[][..], &["--apply"], &["--apply=auto"], &["--preset=lan-1g", "--apply"]] {
        let finished = tune(&[&["--peers", &address, "--deadline=500ms"], more].concat());
        let said = finished.err.lines().last().unwrap_or_default().to_owned();
        let parts = [&*address, "see that a majority of the replicas runs", "--deadline"];
        assert_refused(&Finished { err: said, ..finished }, 1, &parts);
    }
}

#[test]
fn this_machine_s_disk_is_measured_and_nothing_stays_there() {
    let world = World::new();
    let directory = world.path("disk");
    std::fs::create_dir(&directory).unwrap();
    let data = format!("--data={directory}");
    let usual = environment(&tuned(&["--preset=lan-1g-disk"])["environment"]);
    let printed = environment(&tuned(&["--preset=lan-1g-disk", &data])["environment"]);
    assert_ne!(printed.disk(), usual.disk());
    assert!(printed.disk().sync > Duration::ZERO);
    assert_eq!((printed.network(), printed.leader()), (usual.network(), usual.leader()));
    assert!(tune(&[&data]).out.contains("measured here, the median of "));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

/// Clients that write to the leader until this is dropped.
fn load(group: &Group) -> Running {
    let address = group.address(group.leader());
    let put = ["bench", &address, "Store/Put", "--json", r#"{"key": "YWRh", "value": "bG92ZWxhY2U="}"#];
    Running::start(&[&put[..], &["--in-flight=16", "--deadline=60s", "--warm-up=0s", "--duration=10m"]].concat())
}

#[test]
fn a_running_group_is_measured_set_and_given_back() {
    let mut group = Group::start();
    let peers = group.peers();
    let ask = |words: &[&str]| tune(&[&["--peers", &peers, "--deadline=60s"], words].concat());
    // An idle leader may have measured its own first entry by now, or not.
    let too_little = |finished: &Finished| {
        let known = finished.err.contains("no command was answered while the group was watched");
        let parts = match known {
            true => ["no command was answered", "ask again under load"],
            false => ["has seen too little", "put your load on the group for some seconds"],
        };
        assert_refused(finished, 1, &parts);
    };
    too_little(&ask(&[]));

    let clients = load(&group);
    let measured = loop {
        let finished = ask(&["--watch=500ms", "--apply", "--json"]);
        if finished.status.success() {
            break serde_json::from_str::<Value>(&finished.out).unwrap();
        }
        too_little(&finished);
    };
    drop(clients);
    let seen = environment(&measured["environment"]);
    assert_eq!(seen.replicas(), 3);
    let open = measured["load"]["clients"].as_u64().unwrap();
    assert!((1..=16).contains(&open), "{}", measured["load"]);
    assert!(measured["seen"]["ops_per_s"].as_f64().unwrap() > 0.0);
    let clients = Load::Closed { clients: open as u32, think: Duration::ZERO };
    assert_model(&measured, &seen, clients, Aim::Throughput);
    let applied = &measured["applied"];
    assert_eq!(applied["replicas"].as_array().unwrap().len(), 3, "{applied}");
    assert_eq!(applied["in_force"]["window_bytes"], measured["recommended"]["window_bytes"]);

    // Every replica has it, so whoever leads next does.
    let fixed = &measured["recommended"];
    let everywhere = |group: &Group, key: &str, expected: &Value| {
        let status = group.status();
        let members = status["members"].as_array().unwrap().clone();
        members.iter().filter(|member| member["answers"] == true).all(|member| &member["sizing"][key] == expected)
    };
    let sizing = serde_json::json!({
        "batch_bytes": fixed["batch_bytes"], "window_bytes": fixed["window_bytes"], "window": fixed["window"],
    });
    assert!(everywhere(&group, "fixed", &sizing), "{}", group.status());
    assert_refused(&ask(&[]), 1, &["are fixed, so its leader measures nothing", "--apply auto"]);

    // One that is gone is named, and the others have it.
    let gone = (group.leader() + 1) % 3;
    group.kill(gone);
    let given_back = ask(&["--apply=auto", "--latency-limit=20ms"]);
    assert!(given_back.status.success(), "{}", given_back.err);
    assert!(given_back.out.contains("sizes for 99 of 100 commands within 20ms"), "{}", given_back.out);
    let missed = format!("warning: replica {} keeps what it had", gone + 1);
    assert!(given_back.err.contains(&missed) && given_back.err.contains("run this again"), "{}", given_back.err);
    assert!(everywhere(&group, "auto", &serde_json::json!({ "latency_us": 20_000.0 })), "{}", group.status());

    // What is told can be set, too; a replica that is started again has what its own command says.
    group.restart(gone);
    let told = ask(&["--preset=wan-10m", "--clients=100", "--apply"]);
    assert!(
        told.status.success() && told.out.contains("applied       to replicas 1, 2, 3;"),
        "{}{}",
        told.out,
        told.err
    );
    assert!(told.err.contains("a replica that is started again has what its own command says: --batch-bytes "));
}
