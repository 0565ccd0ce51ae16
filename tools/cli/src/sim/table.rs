//! The runs as a table for people: a row for each combination of what varies, its seeds taken together.

use std::time::Duration;

use greenwave_reproduce::page::{self, number};
use greenwave_sim::scenario::Row;

/// What is shown of a run if it has it; beside these the tails of each method, stage, or size of flows.
const SHOWN: [&str; 15] = [
    "rate",
    "throughput",
    "mean_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "slowdown_p999",
    "good",
    "large_mbit",
    "goodput_mbit",
    "commands_per_batch",
    "window",
    "lost",
    "busy",
    "overhead",
];

/// The most columns of methods' and stages' tails.
const MOST_TAILS: usize = 6;

/// Runs with the same values of what varies.
pub(super) struct Group<'a> {
    pub(super) varied: Vec<String>,
    pub(super) rows: Vec<&'a Row>,
}

/// The table, what was cut, and how much it was.
pub(super) fn text(rows: &[Row], of: usize, took: Duration, hash: u64) -> String {
    if rows.is_empty() {
        return format!("none of {of} runs was done");
    }
    let seeds = seeds(&groups(rows));
    let by = if seeds > 1 { format!(", means over {seeds} seeds") } else { String::new() };
    let seconds = took.as_secs_f64();
    combinations(rows)
        + &format!(
            "\n{} of {of} runs in {seconds:.1} s{by}; hash {hash:016x}; more columns with --csv and --json",
            rows.len()
        )
}

/// A row for each combination of what varies, and how many runs were cut.
pub(super) fn combinations(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let groups = groups(rows);
    let seeds = seeds(&groups);
    let columns = columns(rows);
    let tail = rows[0].cells().iter().rev().find(|(name, _)| name.ends_with("p999_us")).map(|(name, _)| name.as_str());
    let tail = tail.filter(|_| seeds > 1).map(|tail| if first.number("p999_us").is_some() { "p999_us" } else { tail });
    let mut head: Vec<String> = varied(first).map(|(name, _)| name).collect();
    head.extend(columns.iter().map(ToString::to_string));
    head.extend(tail.map(|tail| format!("{tail} by seed")));
    let mut cut: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for group in &groups {
        let mut cells = group.varied.clone();
        for column in &columns {
            let values: Vec<f64> = group.rows.iter().filter_map(|row| row.number(column)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            cells.push(if values.is_empty() { String::new() } else { number(mean) });
        }
        if let Some(tail) = tail {
            let values = group.rows.iter().filter_map(|row| row.number(tail));
            let (least, most) =
                values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
            cells.push(format!("{} to {}", number(least), number(most)));
        }
        let mut why = group.rows.iter().filter_map(|row| row.cut()).peekable();
        if why.peek().is_some() {
            cells.push("cut".to_owned());
        }
        cut.extend(why);
        lines.push(cells);
    }
    if !cut.is_empty() {
        head.push(String::new());
        lines.iter_mut().for_each(|cells| cells.resize(head.len(), String::new()));
    }
    let mut text = page::aligned(&head, &lines);
    if let Some(why) = cut.first() {
        let count = cut.len();
        text += &format!("\n{count} of {} runs were cut; values are of what was done by then. {why}\n", rows.len());
    }
    text
}

fn seeds(groups: &[Group<'_>]) -> usize {
    groups.iter().map(|group| group.rows.len()).max().unwrap_or(1)
}

/// What varies stands before the seed.
pub(super) fn varied(row: &Row) -> impl Iterator<Item = (String, String)> + '_ {
    let cells = row.cells().iter().take_while(|(name, _)| name != "seed");
    cells.map(|(name, cell)| (name.clone(), cell.to_string()))
}

pub(super) fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let varied: Vec<String> = varied(row).map(|(_, value)| value).collect();
        // Seeds are innermost, so a combination's runs are next to one another.
        match groups.last_mut().filter(|group| group.varied == varied) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { varied, rows: vec![row] }),
        }
    }
    groups
}

pub(super) fn columns(rows: &[Row]) -> Vec<&str> {
    let has = |name: &str| rows.iter().any(|row| row.number(name).is_some());
    let mut columns: Vec<&str> = SHOWN.into_iter().filter(|name| has(name)).collect();
    let mut tails: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(Row::cells) {
        let is_tail = name.ends_with(".p999_us") || name.ends_with(".p50_us");
        if is_tail && !tails.contains(&name.as_str()) {
            tails.push(name);
        }
    }
    // Of a long chain the last stages, where what was waited for adds up.
    let first = tails.len().saturating_sub(MOST_TAILS);
    let at = columns.iter().position(|name| matches!(*name, "slowdown_p999" | "good" | "large_mbit"));
    let at = at.unwrap_or(columns.len());
    columns.splice(at..at, tails.drain(first..));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_sim::scenario::Scenario;

    fn told(text: &str) -> String {
        let mut rows = Vec::new();
        text.parse::<Scenario>().unwrap().run(2, |row| rows.push(row));
        super::text(&rows, rows.len(), Duration::ZERO, 7)
    }

    #[test]
    fn a_row_is_a_combination_and_seeds_are_taken_together() {
        let told = told(
            "cores.workers = 2\nload = { workload = 'high', share = 0.3 }\nrun = { jobs = 500, seeds = 3 }\n\
             [vary]\n'cores.order' = ['fcfs', 'guarded']",
        );
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].contains("cores.order") && lines[0].contains("long.p999_us"), "{told}");
        assert!(lines[0].contains("p999_us by seed") && lines[2].contains(" to "), "{told}");
        assert!(told.contains("fcfs") && told.contains("6 of 6 runs") && told.contains("over 3 seeds"), "{told}");
        assert!(!told.contains("cut"), "{told}");
    }

    #[test]
    fn what_was_cut_says_so() {
        let told = told(
            "cores.workers = 1\nload = { workload = 'exponential', share = 3.0 }\n\
             run = { jobs = 100000, most_unfinished = 500 }",
        );
        assert!(told.contains("1 of 1 runs were cut") && told.contains("500 unfinished jobs"), "{told}");
    }
}
