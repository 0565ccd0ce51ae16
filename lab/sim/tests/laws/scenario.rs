//! Files are refused with what is wrong, or are all their combinations.

use greenwave_sim::scenario::{Cell, Row, Scenario};
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
