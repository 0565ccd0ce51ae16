//! `greenwave sim` and `greenwave reproduce`: what files describe, and what works report, as their users see it.

use std::path::Path;

use serde_json::Value;

use crate::bad_input::assert_refused;
use crate::process::{Finished, Running, run};
use crate::world::World;

/// The files that come with the documents.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios").join(name);
    path.display().to_string()
}

fn object(finished: &Finished) -> Value {
    assert!(finished.status.success(), "{}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}

fn simulated(file: &str, words: &[&str]) -> Value {
    object(&run(&[&["sim", file, "--json"], words].concat()))
}

#[test]
fn the_files_of_the_documents_run_and_show_what_they_are_for() {
    let orders = simulated(&example("orders.toml"), &["--jobs=40000", "--seeds=1"]);
    let runs = orders["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &orders["done"], &orders["asked"]), (9, &9.into(), &9.into()));
    let tail = |order: &str| {
        let run = runs.iter().find(|run| run["cores.order"] == order && run["load.share"] == 0.7).unwrap();
        run["short.p999_us"].as_f64().unwrap()
    };
    assert!(tail("fcfs") > 5.0 * tail("ps"), "{runs:#?}");
    let chain = simulated(&example("chain.toml"), &["--jobs=4000"]);
    let good = |order: &str, admission: &str| {
        let runs = chain["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["graph.order"] == order && run["graph.admission"] == admission).unwrap();
        run["good"].as_f64().unwrap()
    };
    assert!(good("fcfs", "true") > good("fcfs", "false"), "{chain:#}");
    let tree = simulated(&example("fat-tree.toml"), &["--jobs=2000"]);
    assert!(tree["runs"].as_array().unwrap().iter().all(|run| run["small.p50_us"].as_f64().unwrap() > 1.0));
    let guests = simulated(&example("guests.toml"), &["--jobs=4000"]);
    let waits = |preempts: &str| {
        let runs = guests["runs"].as_array().unwrap();
        let is = |run: &&Value| run["network.guests.preempts"] == preempts && run["network.guests.load"] == 0.9;
        runs.iter().find(is).unwrap()["guest.p50_us"].as_f64().unwrap()
    };
    assert!(waits("false") > 5.0 * waits("true"), "{guests:#}");
    let services = simulated(&example("services.toml"), &["--jobs=4000"]);
    let slow = |tagging: &str| {
        let runs = services["runs"].as_array().unwrap();
        let is = |run: &&Value| run["network.tagging"] == tagging && run["load.network.share"] == 0.6;
        runs.iter().find(is).unwrap()["wire.p99_us"].as_f64().unwrap()
    };
    assert!(slow("none") > slow("left"), "{services:#}");
    let group = simulated(&example("group.toml"), &["--jobs=20000"]);
    let run = |batch: Value| {
        let runs = group["runs"].as_array().unwrap();
        runs.iter().find(|run| run["group.batch"] == batch && run["load.rate"] == 50_000).unwrap().clone()
    };
    let rate = |batch: Value| run(batch)["throughput"].as_f64().unwrap();
    assert!(rate(1.into()) < 25_000.0 && rate(256.into()) > 45_000.0, "{group:#}");
    assert!(run("auto".into())["commands_per_batch"].as_f64().unwrap() > 1.0, "{group:#}");
}

/// What a sync takes is the calibration's, unless the file says it.
#[test]
fn a_group_has_the_disk_of_a_calibration() {
    let world = World::new();
    let costs = crate::planning::calibration(&world);
    let p50 = |disk: &str| {
        let text = format!(
            "[group]\ncosts = {{ file = '{costs}' }}\nbatch = 8\n{disk}[load]\nrate = 1000\n[run]\njobs = 2000\n"
        );
        let file = world.file("group.toml", &text);
        simulated(&file, &[])["runs"][0]["p50_us"].as_f64().unwrap()
    };
    let (measured, said) = (p50(""), p50("disk.sync = '3ms'\n"));
    assert!((200.0..1_000.0).contains(&measured) && said > measured + 2_000.0, "{measured} and {said}");
    let file = world.file("wrong.toml", "[group]\ncosts = { file = '/no/such/file' }\n[load]\nrate = 1000\n");
    assert_refused(&run(&["sim", &file]), 2, &["group.costs.file", "/no/such/file", "can't be read"]);
}

#[test]
fn the_same_seed_is_the_same_run_on_any_number_of_threads() {
    let file = example("orders.toml");
    let hash = |words: &[&str]| simulated(&file, &[&["--jobs=3000"], words].concat())["hash"].clone();
    let once = hash(&["--seed=5"]);
    assert_eq!(once, hash(&["--seed=5", "--threads=3"]));
    assert_ne!(once, hash(&["--seed=6"]));
}

#[test]
fn a_page_has_a_plot_of_each_figure_and_is_the_same_for_the_same_seed() {
    let world = World::new();
    let (file, path) = (example("orders.toml"), world.path("orders.html"));
    let page = || {
        let said = run(&["sim", &file, "--jobs=2000", "--page", &path]);
        assert!(said.status.success() && said.err.contains("orders.html"), "{}", said.err);
        std::fs::read_to_string(&path).unwrap()
    };
    let once = page();
    assert!(once.starts_with("<!doctype html>") && once.contains("aria-label=\"short.p99.9\""), "{once}");
    assert_eq!(once, page());
    let nowhere = world.path("no/such/folder.html");
    assert_refused(&run(&["sim", &file, "--page", &nowhere]), 1, &["folder.html", "can't be written"]);
}

#[test]
fn text_and_csv_have_what_json_has() {
    let file = example("orders.toml");
    let text = run(&["sim", &file, "--jobs=2000", "--seeds=2"]);
    assert!(text.status.success(), "{}", text.err);
    for part in ["cores.order", "load.share", "guarded", "p999_us by seed", "18 of 18 runs", "hash "] {
        assert!(text.out.contains(part), "no {part:?} in {}", text.out);
    }
    let csv = run(&["sim", &file, "--jobs=2000", "--seeds=2", "--csv"]);
    let lines: Vec<Vec<&str>> = csv.out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 19);
    let json = simulated(&file, &["--jobs=2000", "--seeds=2"]);
    for (at, run) in json["runs"].as_array().unwrap().iter().enumerate() {
        for (name, shown) in lines[0].iter().zip(&lines[at + 1]) {
            let same = match &run[*name] {
                Value::String(text) => text == shown,
                number => number.as_f64() == shown.parse().ok(),
            };
            assert!(same, "{name}: {shown} and {}", run[*name]);
        }
    }
    let check = run(&["sim", &file, "--check"]);
    assert!(check.status.success() && check.out.starts_with("18 runs, "), "{}", check.out);
}

#[test]
fn overload_is_cut_and_what_was_done_is_kept() {
    let world = World::new();
    let file = world.file(
        "overload.toml",
        "cores.workers = 2\nload = { workload = 'high', share = 0.5 }\n\
         run = { jobs = 1000000000, most_unfinished = 3000 }\n[vary]\n'load.share' = [1.5, 3]\n",
    );
    let cut = simulated(&file, &[]);
    assert_eq!(cut["cut"], 2);
    for run in cut["runs"].as_array().unwrap() {
        assert!(run["cut"].as_str().unwrap().contains("3000 unfinished jobs"), "{run}");
        assert!(run["done"].as_u64().unwrap() > 100 && run["throughput"].as_f64().unwrap() > 0.0, "{run}");
    }
    let text = run(&["sim", &file]);
    assert!(text.status.success() && text.out.contains("2 of 2 runs were cut"), "{}", text.out);
}

/// A run without an end is interrupted after one that has one.
#[test]
fn what_was_done_before_an_interruption_is_kept() {
    let world = World::new();
    let file = world.file(
        "endless.toml",
        "cores.workers = 1\nload = { workload = 'exponential', share = 0.5 }\nrun.jobs = 1000\n\
         [vary]\n'run.jobs' = [1000, 1000000000000]\n",
    );
    // The second can't be over: it has a million times a million jobs. When the first is isn't said, so it is given longer if
    // it wasn't.
    for seconds in [1, 5, 25, 100] {
        let running = Running::start(&["sim", &file, "--csv", "--threads=2"]);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        running.terminate();
        let finished = running.finish();
        if !finished.err.contains("0 of 2 runs") && !finished.err.is_empty() {
            assert_eq!(finished.status.code(), Some(130), "{}", finished.err);
            assert!(finished.err.contains("interrupted; 1 of 2 runs"), "{}", finished.err);
            assert_eq!(finished.out.lines().count(), 2, "{}", finished.out);
            return;
        }
    }
    panic!("not even a thousand jobs were done");
}

#[test]
fn what_can_not_be_meant_is_refused_in_a_line_with_what_is_allowed() {
    let world = World::new();
    let good = "cores.workers = 2\nload = { workload = 'high', share = 0.5 }\n";
    let network = "network = { shape = 'fat-tree', pods = 40, per_pod = 40, per_edge = 2 }\n\
                   load = { share = 0.5, sizes = { fixed = 1000 } }\n";
    let wide = "[graph]\nstage = [{ units = 1024, work = { fixed = '1ms' } }]\n[load]\nrate = 10\n[run]\nmost_unfinished = 1000000\n";
    let cases: [(&str, &[&str]); 9] = [
        ("colour = 3\n", &["line 1", "unknown field \"colour\"", "cores", "graph", "network", "group"]),
        ("cores.workers = 2\n", &["load"]),
        (&good.replace("share = 0.5", "rate = -4"), &["-4 jobs a second", "allowed"]),
        (&good.replace("workers = 2", "workers = 0"), &["0 workers", "1 to 4094"]),
        (&good.replace("high", "higher"), &["higher", "extreme, high"]),
        (network, &["3200 hosts", "2 to 1024"]),
        (wide, &["run.most_unfinished is 1000000", "4 GiB"]),
        (&format!("{good}[run]\nseeds = 1000000\n"), &["run.seeds is 1000000", "1 to 100000"]),
        ("cores = \u{0}", &["line 1"]),
    ];
    for (text, parts) in cases {
        let file = world.file("wrong.toml", text);
        assert_refused(&run(&["sim", &file]), 2, &[parts, &[file.as_str(), "docs/scenarios/README.md"]].concat());
    }
    assert_refused(&run(&["sim", "/no/such/file.toml"]), 2, &["can't be read", "/no/such/file.toml"]);
    assert_refused(&run(&["sim", "/"]), 2, &["can't be read"]);
    let file = world.file("good.toml", good);
    for word in ["--seeds=0", "--jobs=0", "--threads=0", "--seed=-1", "--seed=x"] {
        assert_refused(&run(&["sim", &file, word]), 2, &["invalid value", "see --help"]);
    }
    assert_refused(&run(&["sim", &file, "--json", "--csv"]), 2, &["cannot be used with"]);
    let help = run(&["sim", "--help"]);
    assert!(help.status.success() && help.out.contains("Examples:"), "{}", help.out);
}

#[test]
fn a_figure_stands_beside_what_its_work_says() {
    let world = World::new();
    let page = world.path("page.md");
    let text = run(&["reproduce", "d2p-growth", "--quick", "--write", &page]);
    assert!(text.status.success(), "{}", text.err);
    let last = text.err.lines().last().unwrap();
    assert!(last.starts_with("1 figure took ") && last.contains(" s by ") && last.contains(" core"), "{last}");
    for part in ["d2p-growth", "theirs", "ours", "verdict", "(1) ", "hash "] {
        assert!(text.out.contains(part), "no {part:?} in {}", text.out);
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("greenwave reproduce d2p-growth --quick") && page.contains("## d2p-growth"), "{page}");
    assert!(!page.contains(" took "), "{page}");
    assert_is_committed(&page, "d2p-growth");
    let json = |words: &[&str]| object(&run(&[&["reproduce", "d2p-growth", "--quick", "--json"], words].concat()));
    let (once, again) = (json(&[]), json(&["--threads=1"]));
    assert_eq!(once, again);
    assert!(page.contains(once["hash"].as_str().unwrap()));
    assert_ne!(once["hash"], json(&["--seed=2"])["hash"]);
    let claims = once["figures"][0]["claims"].as_array().unwrap();
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim["theirs"].is_number() && claim["ours"].is_number()));
}

/// `d2p-chain` has runs by the default order, so a change of that order is noticed; `d2p-growth` has none.
#[test]
fn what_the_default_order_gives_is_what_the_document_says() {
    let world = World::new();
    let page = world.path("page.md");
    let text = run(&["reproduce", "d2p-chain", "--quick", "--write", &page]);
    assert!(text.status.success(), "{}", text.err);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("guarded"), "{page}");
    assert_is_committed(&page, "d2p-chain");
}

/// That docs/reproduction.md says of a figure what comes out.
fn assert_is_committed(page: &str, name: &str) {
    let committed = include_str!("../../../../docs/reproduction.md");
    let of = |page: &str| {
        let section = page.split("\n## ").find(|section| section.starts_with(&format!("{name}\n")));
        section.unwrap_or_default().trim().to_owned()
    };
    let section = of(page);
    assert!(
        section.len() > 100 && of(committed) == section,
        "`greenwave reproduce all --quick --write docs/reproduction.md` anew: {section}"
    );
}

/// All figures take minutes: what is done by then is told, and no page is written that would be taken for the whole.
#[test]
fn figures_that_were_done_before_an_interruption_are_shown() {
    let world = World::new();
    let page = world.path("page.md");
    // Until it listens to signals one ends it as it is, so it is given longer then.
    for seconds in [1, 5, 25] {
        let running = Running::start(&["reproduce", "all", "--json", "--write", &page]);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        running.terminate();
        let finished = running.finish();
        assert!(!Path::new(&page).exists());
        if finished.status.code() == Some(130) {
            let shown: Value = serde_json::from_str(&finished.out).unwrap();
            let told = format!("interrupted; {} of ", shown["figures"].as_array().unwrap().len());
            assert!(finished.err.contains(&told) && finished.err.contains("figures are done"), "{}", finished.err);
            return;
        }
    }
    panic!("it never listened to signals");
}

#[test]
fn figures_that_there_are_not_are_refused_with_those_that_there_are() {
    assert_refused(
        &run(&["reproduce", "d2q"]),
        2,
        &["no figure is called \"d2q\"", "all, list, tq-workloads", "d2p-chain"],
    );
    let nowhere = "/no/such/folder/page.md";
    assert_refused(&run(&["reproduce", "all", "--write", nowhere]), 2, &[nowhere, "--write"]);
    let list = run(&["reproduce", "list"]);
    assert!(list.status.success() && list.out.contains("batching-lan"), "{}", list.out);
}
