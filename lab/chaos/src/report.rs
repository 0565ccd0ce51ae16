//! What a run says in the end, and the JSON it leaves.

use std::fmt::Write as _;
use std::path::Path;

use greenwave_bench::result::Results;

use crate::run::{Setting, Summary};

/// Figures in the form that benchmarks have.
pub(crate) fn results(setting: &Setting, summary: &Summary) -> Results {
    let mut results = Results::new("chaos");
    let case = format!("seed-{}", setting.plan.seed);
    let system = format!("{}-replicas", setting.replicas);
    let mut push = |metric: &str, value: f64| results.push(&case, &system, metric, value);
    push("faults", summary.faults(setting) as f64);
    push("accepted", summary.accepted as f64);
    push("answered", summary.count.answered as f64);
    push("failed", summary.count.failed as f64);
    push("unknown", summary.count.unknown as f64);
    push("lost", summary.lost() as f64);
    push("keys_in_order", summary.keys.in_order as f64);
    push("keys_undecided", summary.keys.undecided as f64);
    push("findings", summary.findings.len() as f64);
    let longest = summary.passed.iter().map(|passed| passed.alive_after).max().unwrap_or_default();
    push("longest_until_written_again_ms", longest.as_secs_f64() * 1e3);
    let spoiled = summary.spoiled;
    let packets = [
        ("packets", spoiled.packets),
        ("packets_lost", spoiled.lost),
        ("packets_duplicated", spoiled.duplicated),
        ("packets_reordered", spoiled.reordered),
        ("packets_corrupted", spoiled.corrupted),
        ("packets_forged", spoiled.forged),
    ];
    packets.into_iter().for_each(|(name, value)| push(name, value as f64));
    results
}

impl Summary {
    /// Calls of which nobody was told what became of them.
    pub(crate) fn lost(&self) -> u64 {
        let count = self.count;
        self.accepted - count.answered - count.failed - count.unknown
    }

    /// Faults of the rounds that were run.
    fn faults(&self, setting: &Setting) -> usize {
        setting.plan.rounds.iter().take(self.passed.len()).map(|round| round.faults.len()).sum()
    }

    /// Whether all is as it should be.
    pub(crate) fn is_well(&self) -> bool {
        self.findings.is_empty() && self.lost() == 0
    }
}

/// What is said in the end.
pub(crate) fn text(setting: &Setting, summary: &Summary, repeat: &str) -> String {
    let Summary { accepted, count, passed, keys, spoiled, passed_over, findings } = summary;
    let faults = summary.faults(setting);
    let mut text = String::new();
    if passed.len() < setting.plan.rounds.len() {
        text = format!("ended early, after {} of {} rounds\n", passed.len(), setting.plan.rounds.len());
    }
    // A text can always be written to.
    let _ = writeln!(
        text,
        "seed {}: {faults} faults; {accepted} calls, {} answered, {} failed, {} unknown, {} lost",
        setting.plan.seed,
        count.answered,
        count.failed,
        count.unknown,
        summary.lost()
    );
    let rows = passed.last().map_or(0, |last| last.rows);
    let _ = writeln!(
        text,
        "{} checkpoints; the calls of {} keys have an order, {} were not decided; {rows} rows, the same on each replica \
         unless something was found",
        passed.len(),
        keys.in_order,
        keys.undecided
    );
    let _ = writeln!(
        text,
        "of {} packets {} were lost, {} came twice, {} late, {} had a bit flipped, {} were forged",
        spoiled.packets, spoiled.lost, spoiled.duplicated, spoiled.reordered, spoiled.corrupted, spoiled.forged
    );
    for over in passed_over {
        let _ = writeln!(text, "passed over: {over}");
    }
    if summary.is_well() {
        text += "nothing was found";
    } else {
        findings.iter().for_each(|finding| {
            let _ = writeln!(text, "found: {finding}");
        });
        let folder: &Path = &setting.folder;
        let _ = write!(text, "logs and histories are in {}; to repeat it: {repeat}", folder.display());
    }
    text
}
