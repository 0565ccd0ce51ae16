//! What a service is told by options, variables and a file: what counts, what is refused, and what its processes are told.

use crate::bad_input::assert_refused;
use crate::process::{Running, fact, run, run_with_variables};
use crate::world::World;

const LISTEN: &str = "--listen=tcp://127.0.0.1:0";

#[test]
fn settings_can_stand_in_a_file_and_options_count_more() {
    let world = World::new();
    let settings = format!("dir = {:?}\nshards = 3\norder = \"edf\"\nadmission = \"off\"\n", world.path("notes"));
    let config = format!("--config={}", world.file("search.toml", &settings));
    let data = world.option("--data", "index");
    let running = Running::start(&["serve", "search", &config, &data, "--order=fcfs", LISTEN]);
    let line = running.told();
    assert_eq!((fact(&line, "order"), fact(&line, "admission")), ("fcfs", "off"));
    running.terminate();
    assert!(running.finish().status.success());
}

#[test]
fn an_option_counts_more_than_a_variable_and_a_variable_more_than_the_file() {
    let world = World::new();
    let settings = "order = \"edf\"\nadmission = \"off\"\nreport_only = \"on\"\n";
    let (config, data) = (format!("--config={}", world.file("kv.toml", settings)), world.option("--data", "kv"));
    let variables = [("GREENWAVE_ORDER", "ps"), ("GREENWAVE_ADMISSION", "on")];
    let arguments = ["serve", "kv", &config, &data, LISTEN, "--rows=10", "--order=fcfs"];
    let running = Running::start_with_variables(&variables, &arguments);
    let line = running.told();
    assert_eq!(["order", "admission", "report_only"].map(|key| fact(&line, key)), ["fcfs", "on", "on"]);
    running.terminate();
    assert!(running.finish().status.success());
}

#[test]
fn the_file_itself_can_be_named_by_a_variable() {
    let world = World::new();
    let (config, data) = (world.file("kv.toml", "order = \"edf\"\nrows = 10\n"), world.option("--data", "kv"));
    let running = Running::start_with_variables(&[("GREENWAVE_CONFIG", &config)], &["serve", "kv", &data, LISTEN]);
    assert_eq!(fact(&running.told(), "order"), "edf");
}

/// The same is said in each way. What only the one that clients call is told, its name among it, the others don't take
/// from the variables that they inherit.
#[test]
fn processes_that_are_started_are_told_the_same_however_it_was_said() {
    let world = World::new();
    let (dir, data) = (world.option("--dir", "notes"), world.option("--data", "index"));
    let config = format!("--config={}", world.file("search.toml", "order = \"edf\"\nname = \"front\"\nshards = 2\n"));
    let named = [("GREENWAVE_ORDER", "edf"), ("GREENWAVE_NAME", "front"), ("GREENWAVE_SHARDS", "2")];
    let options = ["--order=edf", "--name=front", "--shards=2"];
    for (variables, options) in [(&[][..], &options[..]), (&named[..], &[][..]), (&[][..], &[&*config][..])] {
        let arguments = [&["serve", "search", &dir, &data, LISTEN][..], options].concat();
        let running = Running::start_with_variables(variables, &arguments);
        for shard in ["shard-00", "shard-01"] {
            assert_eq!(fact(&running.await_said(&format!("name={shard}")), "order"), "edf");
        }
        let front = running.told();
        assert_eq!((fact(&front, "name"), fact(&front, "order")), ("front", "edf"));
        running.terminate();
        assert!(running.finish().status.success());
    }
}

#[test]
fn stages_are_told_the_same_as_the_one_that_clients_call_but_for_what_is_its_own() {
    let world = World::new();
    let (dir, data) = (world.option("--dir", "crates"), world.option("--data", "stores"));
    let config = format!("--config={}", world.file("recommend.toml", "admission = \"off\"\nname = \"front\"\n"));
    let arguments = ["serve", "recommend", &config, &dir, &data, LISTEN, "--report-only"];
    let running = Running::start_with_variables(&[("GREENWAVE_ORDER", "edf")], &arguments);
    let behind = ["recommendation", "history"].map(|stage| running.await_said(&format!("name={stage}")));
    for line in [running.told()].iter().chain(&behind) {
        assert_eq!(["order", "admission", "report_only"].map(|key| fact(line, key)), ["edf", "off", "on"], "{line}");
    }
    running.terminate();
    assert!(running.finish().status.success());
}

#[test]
fn what_is_out_of_its_range_is_refused_with_the_place_where_it_was_said() {
    let world = World::new();
    let file = world.file("settings.toml", "clusters = 257\n");
    let allowed = "allowed: a number, 1 to 256";
    assert_refused(&run(&["serve", "kv", "--clusters=257"]), 2, &["'257' for '--clusters <N>'", allowed]);
    let said = run_with_variables(&[("GREENWAVE_CLUSTERS", "257")], &["serve", "kv"]);
    assert_refused(&said, 2, &["'257' for '--clusters <N>'", allowed, "variable GREENWAVE_CLUSTERS"]);
    let in_file = run(&["serve", "kv", &format!("--config={file}")]);
    assert_refused(&in_file, 2, &["setting `clusters` is `257`", allowed, &file]);
    // The option is what counts then, and what is wrong.
    let both = run_with_variables(&[("GREENWAVE_CLUSTERS", "1")], &["serve", "kv", "--clusters=257"]);
    assert!(!both.err.contains("variable"), "{}", both.err);
}

#[test]
fn a_file_of_settings_with_a_fault_is_refused_by_name() {
    let world = World::new();
    for (text, parts) in [
        ("odrer = \"edf\"\n", ["nobody knows the setting `odrer`", "there are: "]),
        ("order = \"best\"\n", ["setting `order` is `best`", "stage-laxity"]),
        ("clusters = true\n", ["setting `clusters` is `true`", "a number, 1 to 256"]),
        ("instance = 2\n", ["setting `instance` is `2`", "listen, clusters, cores and backend"]),
        ("[[instance]]\ncores = 1\n", ["setting `instance` is `[{\"cores\":1}]`", "missing field `listen`"]),
        ("\norder\n", ["line 2: ", "order = \"edf\""]),
    ] {
        let file = world.file("settings.toml", text);
        let finished = run(&["serve", "search", "--dir=/", &format!("--config={file}")]);
        assert_refused(&finished, 2, &[parts[0], parts[1], &file]);
    }
    assert_refused(&run(&["serve", "search", "--config=/no/such/file"]), 2, &["/no/such/file"]);
}
