//! `record`, `sim calibrate`, `sim compare` and `sim plan`: from a running service to how many cores it takes.

use serde_json::Value;

use crate::bad_input::{assert_refused, deserted};
use crate::process::{Running, run};
use crate::world::World;

const CALIBRATION: &str = "greenwave_calibration = 1\nmachine = 'none'\nprobes = false\nstretch = 0.03\n\
    look_each_ns = 50.0\nlook_empty_ns = 300.0\npost_each_ns = 90.0\nspin_ns = 20000.0\nnull_calls = [[15000, 9], [20000, 1]]\n";

/// A calibration of no machine at all, as they were before it was written how long an instruction takes.
pub(crate) fn calibration(world: &World) -> String {
    let mut text = CALIBRATION.to_owned();
    for (key, nanos) in [
        ("switch_ns", 90),
        ("probe_ns", 1),
        ("look_ns", 1000),
        ("post_ns", 4000),
        ("call_ns", 500),
        ("handler_ns", 200),
        ("wake_ns", 8000),
        ("null_call_ns", 15_000),
        ("sync_ns", 90_000),
    ] {
        text += &format!("[{key}]\nmedian = {nanos}.0\nlow = {nanos}.0\nhigh = {nanos}.0\ncount = 10\n");
    }
    world.file("machine.toml", &text)
}

const RECORDING: &str = "greenwave_recording = 1\nseconds = 10.0\n[server]\nname = 'shop'\nthreads = 1\norder = 'guarded'\n\
    quantum_ns = 0\nprobes = false\n[[method]]\nname = 'shop.Cart/Add'\ncalls = 1000\nservice = [[2000, 990], [300000, 10]]\n";

fn plan(words: &[&str]) -> Value {
    let finished = run(&[&["sim", "plan", "--json", "--jobs=20000", "--quantum=off,5us"], words].concat());
    assert!(finished.status.success(), "{}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}

#[test]
fn a_service_is_recorded_under_its_load_and_planned_for_more() {
    let world = World::new();
    let data = world.option("--data", "kv");
    let running = Running::start(&["serve", "kv", &data, "--listen=tcp://127.0.0.1:0", "--rows=100"]);
    let address = running.address();
    let words = ["bench", &address, "Kv/Get", "--sample=kv", "--in-flight=16", "--duration=60s", "--warm-up=0s"];
    let load = Running::start(&words);
    let out = world.path("kv.toml");
    let recorded = run(&["record", &address, "--for=1500ms", "-o", &out]);
    assert!(recorded.status.success(), "{}", recorded.err);
    assert!(recorded.err.contains("greenwave.kv.Kv/Get: "), "{}", recorded.err);
    drop(load);
    let text = std::fs::read_to_string(&out).unwrap();
    for part in ["greenwave_recording = 1", "name = \"greenwave.kv.Kv/Get\"", "busiest = ", "order = \"guarded\""] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!text.contains("queue_ns = 0\n"), "of sixteen calls at a time some wait: {text}");
    assert!(!text.contains("Meta/"), "its own questions are not the service's load: {text}");
    let costs = calibration(&world);
    let planned = plan(&["--recorded", &out, "--costs", &costs, "--p999=500ms", "--load=1k/s"]);
    assert_eq!((&planned["server"], &planned["chosen"]["setup"]["cores"]), (&"kv".into(), &1.into()));
    let p999 = planned["chosen"]["predicted"]["p999_us"].as_f64().unwrap();
    assert!(p999 > 15.0 && p999 < 500_000.0, "the wire alone takes 15 us: {planned:#}");
}

#[test]
fn more_load_takes_more_cores_and_the_text_says_by_what_margin() {
    let world = World::new();
    let (recording, costs) = (world.file("shop.toml", RECORDING), calibration(&world));
    let words = ["--recorded", &recording, "--costs", &costs, "--p999=2ms"];
    let cores = |load: &str| plan(&[&words[..], &[load]].concat())["chosen"]["setup"]["cores"].as_u64().unwrap();
    let (few, many) = (cores("--load=10k/s"), cores("--load=1M/s"));
    assert!(few < many && many >= 5, "{few} and {many}");
    let text = run(&[&["sim", "plan", "--load=100k/s", "--jobs=20000"], &words[..]].concat());
    assert!(text.status.success(), "{}", text.err);
    for part in ["keeps it: ", "predicted: p50 ", "margin: p99.9 ", "% below 2ms", "holds up to", "error: not known"] {
        assert!(text.out.contains(part), "no {part:?} in {}", text.out);
    }
}

/// A request that is split over two shards, of 3 ms each.
const SEARCH: &str = "greenwave_recording = 1\nseconds = 10.0\n[server]\nname = 'search'\nthreads = 1\norder = 'guarded'\n\
    quantum_ns = 0\nprobes = false\n[[method]]\nname = 'shop.Search/Find'\ncalls = 1000\nservice = [[50000, 1000]]\n\
    waiting = [[3200000, 1000]]\n[[method.stage]]\nname = 'shard'\nbranches = true\nrequests = 1000\ncalls = 2000\n\
    service = [[3000000, 2000]]\naround = [[200000, 2000]]\n";

#[test]
fn the_narrowest_fan_out_that_keeps_the_limit_is_chosen() {
    let world = World::new();
    let (recording, costs) = (world.file("search.toml", SEARCH), calibration(&world));
    let words = ["--recorded", &recording, "--costs", &costs, "--load=500/s", "--fan-out=8,2,4,32"];
    let chosen = |limit: &str| plan(&[&words[..], &[limit]].concat());
    let (loose, tight) = (chosen("--p999=5ms"), chosen("--p999=2ms"));
    assert_eq!((&loose["branches"], &tight["branches"]), (&2.into(), &4.into()), "{loose:#}, {tight:#}");
    assert_eq!((&tight["recorded_branches"], tight["widths"].as_array().unwrap().len()), (&2.0.into(), 4));
    assert!(tight["widths"][0]["why_not"].as_str().is_some_and(|why| why.contains("p99.9")), "{tight:#}");
    let text = run(&[&["sim", "plan", "--jobs=20000", "--p999=2ms"], &words[..]].concat());
    for part in ["requests had 2.0 branches", "with 4 branches:", "keeps it: 1 core"] {
        assert!(text.out.contains(part), "no {part:?} in {}", text.out);
    }
    let never = run(&[&["sim", "plan", "--jobs=20000", "--p999=250us"], &words[..]].concat());
    assert_refused(&never, 1, &["no setup keeps this"]);
    let shop = world.file("shop.toml", RECORDING);
    let words = ["sim", "plan", "--recorded", &shop, "--p999=2ms", "--fan-out"];
    assert_refused(
        &run(&[&words[..], &["2"]].concat()),
        2,
        &["no method that was recorded has a parallel unit", &shop],
    );
    assert_refused(&run(&[&words[..], &["0"]].concat()), 2, &["1..=1024"]);
}

#[test]
fn writes_wait_for_the_batch_of_a_group_that_keeps_up() {
    let world = World::new();
    let (recording, costs) = (world.file("shop.toml", RECORDING), calibration(&world));
    let group = ["--recorded", &recording, "--costs", &costs, "--p999=50ms", "--writes=shop.Cart/Add", "--path=200us"];
    let chosen = |load: &str| plan(&[&group[..], &[load]].concat());
    let (few, many) = (chosen("--load=500/s"), chosen("--load=20k/s"));
    let batch = |of: &Value| of["group"]["chosen"]["commands"].as_u64().unwrap();
    assert!(batch(&many) > 1, "{many:#}");
    let p999 = |of: &Value| of["p999_us"].as_f64().unwrap();
    let tried = |of: &Value, at: usize| of["group"]["tried"][at].clone();
    assert!(p999(&tried(&many, 0)) > p999(&many["group"]["chosen"]), "one command at a time is slower: {many:#}");
    assert!(tried(&few, 0)["keeps_up"].as_bool().unwrap(), "{few:#}");
    // There and back, and two syncs one after the other.
    let p50 = few["chosen"]["predicted"]["p50_us"].as_f64().unwrap();
    assert!((400.0..5_000.0).contains(&p50), "{p50}");
    let refused = |words: &[&str]| run(&[&["sim", "plan", "--recorded", &recording, "--p999=50ms"], words].concat());
    assert_refused(&refused(&["--writes=shop.Cart/Add"]), 2, &["sync", "--costs"]);
    assert_refused(
        &refused(&["--writes=shop.Cart/Remove", "--costs", &costs]),
        2,
        &["shop.Cart/Remove", "shop.Cart/Add"],
    );
    assert_refused(&refused(&["--members=3"]), 2, &["--writes"]);
}

#[test]
fn what_nothing_keeps_is_said_with_the_limits() {
    let world = World::new();
    let recording = world.file("shop.toml", RECORDING);
    let refused = |words: &[&str]| run(&[&["sim", "plan", "--recorded", &recording, "--jobs=20000"], words].concat());
    assert_refused(&refused(&["--p999=100us"]), 1, &["no setup keeps this", "p99.9 of 3"]);
    let words = ["--p999=2ms", "--load=10M/s", "--cores=8"];
    assert_refused(&refused(&words), 1, &["no setup keeps this", "8 are the most", "allow more"]);
}

#[test]
fn files_and_numbers_that_can_not_be_meant_are_refused() {
    let world = World::new();
    let (recording, costs) = (world.file("shop.toml", RECORDING), calibration(&world));
    let plan = |file: &str, words: &[&str]| run(&[&["sim", "plan", "--recorded", file], words].concat());
    assert_refused(&plan("/no/such/file", &["--p999=2ms"]), 2, &["can't be read", "/no/such/file"]);
    for (text, part) in [
        (String::new(), "not a recording: line 1"),
        (RECORDING.replace("= 1\nseconds", "= 7\nseconds"), "version 7"),
        (RECORDING.replace("calls = 1000", "calls = 1001"), "1000 of them, and 1001 calls"),
        (RECORDING.replace("calls = 1000", "calls = -1"), "line"),
    ] {
        let file = world.file("wrong.toml", &text);
        assert_refused(&plan(&file, &["--p999=2ms"]), 2, &[part, &file, "record"]);
    }
    for (words, part) in [
        (&["--load=10k/s"][..], "no limit"),
        (&["--p999=2ms", "--load=-5k/s"], "no rate; such as 50k/s"),
        (&["--p999=2ms", "--cores=0"], "0 heads"),
        (&["--p999=0"], "no time"),
        (&["--p999=2ms", "--quantum=2"], "or off"),
        (&["--p999=2ms", "--jobs=5"], "5 jobs"),
        (&["--p999=2ms", "--order=lifo"], "lifo"),
    ] {
        assert_refused(&plan(&recording, words), 2, &[part]);
    }
    let wrong =
        world.file("wrong.toml", &std::fs::read_to_string(&costs).unwrap().replace("stretch = 0.03", "stretch = -1.0"));
    assert_refused(&plan(&recording, &["--p999=2ms", "--costs", &wrong]), 2, &["stretch is -1", &wrong]);
    assert_refused(&run(&["sim", "compare", "--costs", &wrong]), 2, &["stretch is -1", &wrong]);
    assert_refused(&run(&["sim", "calibrate", "--stretch=101%"]), 2, &["--stretch is 1.01", "0 to 1"]);
    let compare = |words: &[&str]| run(&[&["sim", "compare", "--costs", &costs], words].concat());
    assert_refused(&compare(&["--load=100M/s"]), 2, &["more than a head can do", "--load"]);
    assert_refused(&compare(&["--long-share=100%"]), 2, &["--long-share is 1"]);
    assert_refused(&compare(&["--stages=4"]), 2, &["1..=3", "--stages"]);
    let (_listener, nobody) = deserted();
    drop(_listener);
    assert_refused(&run(&["record", &nobody, "--for=1s"]), 1, &["UNAVAILABLE", &nobody]);
    assert_refused(&run(&["record", &nobody, "--for=1ms"]), 2, &["--for is 1ms"]);
}

/// Where there are two cores: what is measured is a calibration, and simulations go by it.
#[test]
fn a_machine_is_calibrated_compared_and_simulated() {
    let world = World::new();
    let out = world.path("measured.toml");
    let calibrated = run(&["sim", "calibrate", "-o", &out]);
    if calibrated.err.contains("needs two") {
        return;
    }
    assert!(calibrated.status.success(), "{}", calibrated.err);
    assert!(calibrated.err.contains("null call over TCP") && calibrated.err.contains("sync of 4 KiB"));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("stretch_by = \"probes\"") && text.contains("[instruction_ns]"), "{text}");
    let words = ["--load=500/s", "--for=1s", "--rounds=1", "--json", "--keep"];
    for (stages, of) in [("--stages=1", "500us, "), ("--stages=3", "500us in each of 3 stages, ")] {
        let compared = run(&[&["sim", "compare", "--costs", &out, stages], &words[..]].concat());
        assert!(compared.status.success(), "{}", compared.err);
        let compared: Value = serde_json::from_str(&compared.out).unwrap();
        assert!(compared["of"].as_str().unwrap().contains(&of.replace("us", "µs")), "{compared}");
        let rows = compared["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 9);
        assert!(rows.iter().all(|row| row["predicted_us"].as_f64() > Some(0.0)), "{rows:#?}");
        // The stages are there to be measured: each long call computes for as long as it is told.
        let long = rows.iter().find(|row| row["of"] == "long" && row["quantile"] == "p50").unwrap();
        let count = if stages == "--stages=3" { 3.0 } else { 1.0 };
        assert!(long["measured_us"].as_f64() >= Some(500.0 * count), "{long}");
    }
    assert!(std::fs::read_to_string(&out).unwrap().contains("[error]"));
    let file = format!(
        "[cores]\nworkers = 1\nscheme = 'heads'\ncosts = {{ file = '{out}', wake = '0' }}\n\
         [load]\nworkload = 'extreme'\nrate = 10000\n[run]\njobs = 20000\n"
    );
    let simulated = run(&["sim", &world.file("heads.toml", &file), "--json"]);
    assert!(simulated.status.success(), "{}", simulated.err);
    let runs: Value = serde_json::from_str(&simulated.out).unwrap();
    assert!(runs["runs"][0]["p50_us"].as_f64() > Some(1.0), "{runs}");
    let missing = world.file("missing.toml", &file.replace(&out, "/no/such/file"));
    assert_refused(&run(&["sim", &missing]), 2, &["/no/such/file", "can't be read", &missing]);
}
