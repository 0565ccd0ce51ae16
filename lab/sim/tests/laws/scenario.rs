//! Files are refused with what is wrong, or are all their combinations.

use greenwave_sim::scenario::{Cell, MOST_MEMORY, Row, Scenario, Seeds};
use proptest::prelude::*;

const FILE: &str = r#"
[cores]
workers = 2
order = "guarded"
quantum = "2us"
costs = { switch = "40ns", probes = 0.03 }

[load]
share = 0.6

[[load.method]]
name = "get"
share = 0.9
work = { exponential = "2us" }
deadline = "1ms"

[[load.method]]
name = "scan"
share = 0.1
work = { pareto = ["10us", "1ms", 1.3] }

[run]
jobs = 2000
seed = 7
"#;

fn rows(text: &str, threads: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    text.parse::<Scenario>().unwrap().run(threads, |row| rows.push(row));
    rows
}

fn refused(text: &str) -> String {
    text.parse::<Scenario>().unwrap_err().to_string()
}

#[test]
fn a_file_is_a_row_for_each_combination_and_seed() {
    let text = FILE.to_owned()
        + "seeds = 2\n[vary]\n\"cores.workers\" = [2, 4]\n\"load.method.0.work\" = [{ fixed = \"1us\" }, { fixed = \"2us\" }, { fixed = \"3us\" }]\n";
    let (one, several) = (rows(&text, 1), rows(&text, 3));
    assert_eq!(one, several);
    assert_eq!(one.len(), 12);
    let seeds: Vec<_> = one.iter().map(|row| row.number("seed").unwrap()).collect();
    assert_eq!(seeds[..4], [7.0, 8.0, 7.0, 8.0]);
    assert_eq!(one[11].number("cores.workers"), Some(4.0));
    assert!(one.iter().all(|row| row.number("get.p50_us").unwrap() > 0.9 && row.cut().is_none()));
    assert!(matches!(one[0].cell("hash"), Some(Cell::Text(hash)) if hash.len() == 16));
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let file = FILE;
    assert_eq!(rows(file, 1).len(), 1);
    for (from, to, parts) in [
        ("workers = 2", "workers = 2\ncolour = 3", &["line 4", "colour", "expected one of", "scheme"][..]),
        ("exponential", "exponentail", &["exponentail", "fixed", "pareto"]),
        ("\"40ns\"", "\"40\"", &["\"40\"", "500ns"]),
        ("probes = 0.03", "probes = -0.03", &["-0.03", "0 to 1"]),
        ("share = 0.6", "share = 0.6\nrate = 3.0", &["one of rate"]),
        ("share = 0.9", "share = 0.0", &["a share of 0", "more than 0"]),
        ("seed = 7", "seed = 7\n[vary]\nx = 3", &["vary.x is 3", "a list of values"]),
        ("seed = 7", "seed = 7\n[vary]\n\"load.method.9.share\" = [1.0]", &["leads nowhere"]),
        ("seed = 7", "seed = 7\n[vary]\n\"cores.order\" = [\"best\"]", &["no order is called", "cores.order = best"]),
        ("[cores]", "[graph]\n[cores]", &["stage"]),
        ("jobs = 2000", "jobs = 0", &["1 at least"]),
        ("jobs = 2000", "jobs = 2000\nmost_unfinished = 9000000", &["9000000", "allowed"]),
    ] {
        assert!(file.contains(from), "{from}");
        let told = refused(&file.replacen(from, to, 1));
        for part in parts {
            assert!(told.contains(part), "no {part:?} in {told:?}");
        }
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

const NETWORK: &str = r#"
[network]
shape = "fat-tree"
pods = 2
per_pod = 2
per_edge = 2
tagging = "bucket"

[load]
share = 0.7
sizes = { pareto = [1000, 1000000, 1.2] }

[run]
jobs = 2000
"#;

const GRAPH: &str = r#"
[graph]
stage = [{ work = { fixed = "1ms" } }, { units = 18, work = { exponential = "5ms" }, merge = { fixed = "1ms" } }]

[load]
rate = 50

[run]
jobs = 200
"#;

#[test]
fn networks_and_graphs_are_told_likewise() {
    let small = |tagging: &str| {
        let rows = rows(&NETWORK.replace("bucket", tagging), 1);
        assert!(rows[0].cut().is_none() && rows[0].number("done") == Some(1800.0), "{tagging}");
        rows[0].number("small.p50_us").unwrap()
    };
    let none = small("none");
    assert!(small("left") < none && small("sent") < none && small("bucket") > 0.0);
    assert!(rows(GRAPH, 1)[0].number("s2.p50_us").unwrap() > 5_000.0);
    for (file, from, to, parts) in [
        (NETWORK, "per_edge = 2", "per_edge = 2\nhosts = 3", &["fat tree", "not hosts"][..]),
        (NETWORK, "per_edge = 2", "per_edge = 2000", &["8000 hosts", "2 to 1024"]),
        (NETWORK, "fat-tree", "ring", &["ring", "star, fat-tree"]),
        (NETWORK, "\"bucket\"", "\"bucket\"\nhost = { mbit = -5 }", &["0 bits a second", "1 kbit/s"]),
        (NETWORK, "\"bucket\"", "\"bucket\"\nhost = { mbits = 5 }", &["line 8", "mbits", "delay"]),
        (NETWORK, "share = 0.7", "share = -0.3", &["-0.3", "more than 0"]),
        (NETWORK, "share = 0.7", "rate = 3.0", &["beside [network]"]),
        (NETWORK, "jobs = 2000", "jobs = 2000\nwarmup = 0.5", &["run.warmup", "[cores]"]),
        (GRAPH, "rate = 50", "rate = -50", &["-50 requests a second"]),
        (GRAPH, "rate = 50", "rate = 50\nsizes = { fixed = 3 }", &["beside [network]"]),
        (GRAPH, "units = 18", "units = 5000", &["5000 units", "1 to 1024"]),
        (GRAPH, "units = 18", "share = 0.0", &["a share of 0 of a core's time", "at most 1"]),
        (GRAPH, "jobs = 200", "jobs = 200\nmost_unfinished = 2000000", &["2000000", "4.8 KiB each"]),
    ] {
        assert!(file.contains(from), "{from}");
        let told = refused(&file.replacen(from, to, 1));
        for part in parts {
            assert!(told.contains(part), "no {part:?} in {told:?}");
        }
    }
}

/// Messages of services take what small flows of the network take, and a request that is split waits for the slowest.
#[test]
fn services_lie_on_a_network() {
    let network = NETWORK.split("[load]").next().unwrap();
    let load = "[load.network]\nshare = 0.7\nsizes = { pareto = [1000, 1000000, 1.2] }\nflows = 2000\n";
    let graph = GRAPH.replace("exponential", "fixed");
    let file = format!("{network}{graph}{load}");
    let of = |tagging: &str| rows(&file.replace("bucket", tagging), 1).remove(0);
    let (none, left) = (of("none"), of("left"));
    for row in [&none, &left] {
        assert!(row.cut().is_none() && row.number("wire.p50_us").unwrap() > 0.0, "{row:?}");
    }
    let slowest = |row: &Row| row.number("s2.p50_us").unwrap() - rows(&graph, 1)[0].number("s2.p50_us").unwrap();
    let [waits, first] = [&none, &left].map(slowest);
    assert!(waits > 2.0 * none.number("wire.p50_us").unwrap(), "{waits} is the slowest of 18, there and back");
    assert!(first < waits, "{first} and {waits}");
    for (from, to, parts) in [
        (load, "", &["beside [graph] and [network]", "[load.network]"][..]),
        ("share = 0.7", "share = 0", &["flows of 0", "more than 0"]),
        ("[graph]", "[graph]\nwire = { fixed = \"1us\" }", &["graph.wire", "without [network]"]),
        ("flows = 2000", "flow = 2000", &["flow", "flows"]),
    ] {
        assert!(file.contains(from), "{from}");
        let told = refused(&file.replacen(from, to, 1));
        assert!(parts.iter().all(|part| told.contains(part)), "no {parts:?} in {told:?}");
    }
    assert!(refused(&format!("{GRAPH}{load}")).contains("load.network is of flows"));
}

/// Guests of hosts wait for their virtual CPUs, less where who is in BOOST preempts who is; and what they can't be is refused.
#[test]
fn hosts_have_guests() {
    let file = NETWORK.replace("share = 0.7", "share = 0.002") + "[network.guests]\nload = 0.9\nwork = \"20us\"\n";
    let row = |file: &str| rows(file, 1).remove(0);
    let (waits, mended) = (row(&file), row(&(file.clone() + "preempts = true\n")));
    let [usual, least] = [&waits, &mended].map(|row| row.number("guest.p50_us").unwrap());
    assert!(usual > 10.0 * least && least >= 19.9, "{usual} and {least}");
    assert!((waits.number("neighbours").unwrap() - 0.9).abs() < 0.05, "{waits:?}");
    let [few, many] = [&waits, &mended].map(|row| row.number("preempted_per_s").unwrap());
    assert!(many > 2.0 * few, "{few} and {many}");
    assert!(rows(NETWORK, 1)[0].cell("neighbours").is_none());
    for (from, to, parts) in [
        ("load = 0.9", "load = 1.5", &["network.guests.load is 1.5", "up to 1"][..]),
        ("load = 0.9", "load = 0", &["network.guests.load is 0"]),
        ("load = 0.9", "load = 0.9\nneighbours = 64", &["64 neighbours", "up to 63"]),
        ("load = 0.9", "load = 0.9\nweight = 0", &["weight of 0", "1 to 65535"]),
        ("load = 0.9", "load = 0.9\nruns = \"1us\"", &["runs 1µs", "10us to 60s"]),
        ("load = 0.9", "load = 0.9\nrate_limit = \"31ms\"", &["31ms", "30ms"]),
        ("load = 0.9", "load = 0.9\nboost = true", &["boost", "preempts"]),
        ("load = 0.9", "", &["missing field", "load"]),
        ("20us", "2s", &["runs 2s", "up to 1s"]),
    ] {
        let told = refused(&file.replacen(from, to, 1));
        for part in parts {
            assert!(told.contains(part), "no {part:?} in {told:?}");
        }
    }
    let slow = file.replacen("20us", "900ms", 1).replacen("jobs = 2000", "jobs = 100000\nmost_unfinished = 300", 1);
    assert!(row(&slow).cut().unwrap().contains("more come than can be sent and carried"));
}

const GROUP: &str = r#"
[group]
members = 3
batch = 16
disk = { sync = "1ms" }

[load]
rate = 2000

[run]
jobs = 4000
"#;

/// Batches that are too small for the rate don't keep up, larger ones do; a follower that is far isn't waited for, and a command
/// takes a sync and a round trip at least.
#[test]
fn groups_are_told_likewise() {
    let row = |file: &str| rows(file, 1).remove(0);
    let usual = row(GROUP);
    assert!(usual.cut().is_none() && usual.number("done").is_some_and(|done| done >= 3600.0), "{usual:?}");
    let p50 = |row: &Row| row.number("p50_us").unwrap();
    assert!(p50(&usual) > 1000.0 && p50(&usual) < 4000.0, "{usual:?}");
    assert!((usual.number("throughput").unwrap() / 2000.0 - 1.0).abs() < 0.1, "{usual:?}");
    assert!((1.0..16.5).contains(&usual.number("commands_per_batch").unwrap()), "{usual:?}");
    let one = GROUP
        .replace("batch = 16", "batch = 1\nwindow = 1")
        .replace("jobs = 4000", "jobs = 4000\nmost_unfinished = 1000");
    let one = row(&one);
    assert!(one.cut().unwrap().contains("1000 unfinished commands"), "{one:?}");
    assert!((one.number("commands_per_batch").unwrap() - 1.0).abs() < 0.01, "{one:?}");
    let far = row(&GROUP.replace("batch = 16", "batch = 16\nlink = { delay = \"50us\", distances = [1, 200] }"));
    assert!(p50(&far) < 1.2 * p50(&usual) && far.number("behind") > usual.number("behind"), "{far:?} and {usual:?}");
    let both = row(&GROUP.replace("batch = 16", "batch = 16\nlink = { delay = \"50us\", distances = [200, 200] }"));
    assert!(p50(&both) > 20_000.0, "{both:?}");
    let clients = row(&GROUP.replace("rate = 2000", "clients = 64").replace("batch = 16", "batch = \"auto\""));
    assert!(clients.cut().is_none() && clients.number("rate").is_none(), "{clients:?}");
    assert!(clients.number("throughput").unwrap() > 64.0 / 0.004, "{clients:?}");
    assert_eq!(row(GROUP), usual, "by one seed always the same");
}

#[test]
fn groups_that_can_not_be_are_refused_with_what_is_allowed() {
    for (from, to, parts) in [
        ("members = 3", "members = 300", &["group: replicas is 300", "1 to 99"][..]),
        ("members = 3", "members = 3\nreplicas = 3", &["replicas", "members"]),
        ("batch = 16", "batch = 0", &["0", "a number from 1 on", "auto"]),
        ("batch = 16", "batch = \"model\"", &["model", "auto"]),
        ("batch = 16", "batch = 100000", &["group.batch is 100000", "1 to 56679"]),
        ("batch = 16", "window = 4", &["group.window", "group.batch"]),
        ("batch = 16", "batch = 16\nwindow = 5000", &["group.window is 5000", "1 to 4096"]),
        ("batch = 16", "batch = 16\nrequest = 0", &["group.request is 0 bytes", "1 to 4194304"]),
        ("batch = 16", "batch = 16\nlink = { mbit = 0 }", &["group.link.mbit is 0", "1 to"]),
        ("batch = 16", "batch = 16\nlink = { mbits = 5 }", &["mbits", "delay"]),
        ("batch = 16", "batch = 16\nlink = { delay = \"2s\" }", &["group.link.delay is 2s", "up to 1s"]),
        ("batch = 16", "batch = 16\nlink = { loss = 0.7 }", &["network.loss is 0.7", "0 to 0.5"]),
        ("batch = 16", "batch = 16\nlink = { distances = [1] }", &["has 1 numbers", "2 followers"]),
        ("batch = 16", "batch = 16\nlink = { distances = [1, -1] }", &["has -1", "0.001 to 1000"]),
        ("batch = 16", "batch = 50000\nwindow = 16\nlink = { mbit = 1 }", &["take 1894 s to leave", "up to 30 s"]),
        ("disk = { sync = \"1ms\" }", "", &["group.disk says sync", "calibration"]),
        ("sync = \"1ms\"", "sync = \"1ms\", mbyte = -1", &["group.disk.mbyte is -1", "1 to"]),
        ("sync = \"1ms\"", "sync = \"2s\"", &["group.disk.sync is 2s"]),
        ("rate = 2000", "rate = 0", &["load.rate is 0 commands", "more than 0"]),
        ("rate = 2000", "", &["one of clients and rate"]),
        ("rate = 2000", "rate = 2000\nclients = 3", &["one of clients and rate"]),
        ("rate = 2000", "rate = 2000\nthink = \"1ms\"", &["load.think", "load.rate"]),
        ("rate = 2000", "clients = 0", &["load.clients is 0", "1 to 1048576"]),
        ("rate = 2000", "share = 0.5", &["beside [group]"]),
        ("jobs = 4000", "jobs = 0", &["0 commands", "1 at least"]),
        ("jobs = 4000", "jobs = 4000\nwarmup = 0.5", &["run.warmup", "[cores]"]),
        ("jobs = 4000", "jobs = 4000\nmost_unfinished = 9000000", &["9000000", "KiB each"]),
        ("[run]", "[graph]\nstage = []\n[run]", &["[graph] and [network]"]),
    ] {
        assert!(GROUP.contains(from), "{from}");
        let told = refused(&GROUP.replacen(from, to, 1));
        for part in parts {
            assert!(told.contains(part), "no {part:?} in {told:?}");
        }
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert!(refused(&GRAPH.replace("rate = 50", "rate = 50\nclients = 3")).contains("beside [group]"));
}

/// What nobody asked for is what fits, so that a wide graph isn't refused for a limit that its file doesn't have.
#[test]
fn what_fits_is_counted_by_what_a_run_holds() {
    let parsed = |text: &str| text.parse::<Scenario>().unwrap();
    let wide = parsed(&GRAPH.replace("units = 18", "units = 1024"));
    let narrow = parsed(&GRAPH.replace("units = 18", "units = 2"));
    assert!(narrow.memory() < wide.memory() && wide.memory() <= MOST_MEMORY);
    let few = parsed(&GRAPH.replace("jobs = 200", "jobs = 200\nmost_unfinished = 1000"));
    assert!(few.memory() < 16 << 20, "{}", few.memory());
}

#[test]
fn seeds_from_elsewhere_are_in_place_of_the_files() {
    let seeds = |seeds: Seeds| {
        let mut all = Vec::new();
        Scenario::parse(FILE, seeds).unwrap().run(2, |row| all.push(row.number("seed").unwrap()));
        all
    };
    assert_eq!(seeds(Seeds::default()), [7.0]);
    assert_eq!(seeds(Seeds { first: Some(3), count: Some(2) }), [3.0, 4.0]);
    assert_eq!(seeds(Seeds { first: None, count: Some(3) }), [7.0, 8.0, 9.0]);
    assert!(Scenario::parse(FILE, Seeds { first: Some(u64::MAX), count: None }).is_err());
    assert!(Scenario::parse(FILE, Seeds { first: None, count: Some(u64::MAX) }).is_err());
}

proptest! {
    /// Whatever a file is changed to, it is refused or run.
    #[test]
    fn no_file_panics(at in 0..600_usize, len in 0..12_usize, put in "[ -~\n]{0,8}") {
        let file = FILE;
        let at = at.min(file.len());
        let end = (at + len).min(file.len());
        let text = format!("{}{put}{}", &file[..at], &file[end..]);
        if let Ok(scenario) = text.parse::<Scenario>() {
            prop_assert!(scenario.len() <= 100_000);
        }
    }
}
