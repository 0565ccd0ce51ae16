//! What tagging costs a packet, when there are few flows and when there are very many.
//!
//! A1 sends small datagrams to as many addresses in turns, and the kernel says how long the agent's program ran for each
//! (`kernel.bpf_stats_enabled`, which itself costs some nanoseconds a packet, counted in). The first time around
//! each flow is new, and is entered into the table; the second time it is found there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::bench::{Bench, Case, Core, Length};
use crate::role::{Figures, Role};
use crate::testbed::Node;

/// Packets of a measurement with few flows.
const LEAST: u32 = 100_000;

/// The table has room for so many times the flows: it's the kernel's, and begins to evict before it's quite full.
const ROOM: u32 = 2;

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

pub(crate) const MANY_FLOWS: Case = Case {
    name: "many-flows",
    systems: &["10-flows", "10k-flows", "1M-flows"],
    // It takes as long as the packets do.
    full: Length::new(2, 0),
    quick: Some(Length::new(1, 0)),
    not_quick: &["1M-flows"],
    missing: |bench, _| match Path::new(SWITCH).exists() {
        true => bench.agent_obstacle(),
        false => Some(format!("the kernel has no {SWITCH}")),
    },
    ratios: &[],
    own_ratios: &[],
    run,
};

fn run(bench: &Bench, system: &str, _time: Duration) -> anyhow::Result<Figures> {
    let flows: u32 = match system {
        "10-flows" => 10,
        "10k-flows" => 10_000,
        _ => 1_000_000,
    };
    bench.testbed.unlimit()?;
    let _counting = Counting::begin()?;
    let room = (flows * ROOM).max(65_536).to_string();
    let agents = bench.programs.agents(&bench.testbed, &[Node::HostA], &["--flows", &room])?;
    let agent = agents.first().context("host A has an agent")?;
    let (flows, datagrams) = (flows.to_string(), flows.max(LEAST).to_string());
    let words = ["scatter", "--to", "10.128.0.1", "--flows", &flows, "--datagrams", &datagrams];
    let mut scatter = bench.load(Node::A1, Core::Bulk, &words)?;
    let begin = run_time(agent)?;
    scatter.again()?;
    let (first, second) = (run_time(agent)?, scatter.again().and_then(|_| run_time(agent))?);
    let mut figures = Figures::from([("tag_ns".to_owned(), second.per_run_since(first)?)]);
    if flows == datagrams {
        figures.insert("enter_and_tag_ns".to_owned(), first.per_run_since(begin)?);
    }
    Ok(figures)
}

/// The kernel counts how long programs run while there is a value of this.
struct Counting {
    before: String,
}

impl Counting {
    fn begin() -> anyhow::Result<Self> {
        let before = fs::read_to_string(SWITCH)?;
        fs::write(SWITCH, "1").with_context(|| format!("{SWITCH} can't be set"))?;
        Ok(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// How long programs have run, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RunTime {
    nanos: f64,
    runs: f64,
}

impl RunTime {
    fn per_run_since(self, before: Self) -> anyhow::Result<f64> {
        let runs = self.runs - before.runs;
        ensure!(runs > 0.0, "no packet reached the agent");
        Ok((self.nanos - before.nanos) / runs)
    }
}

/// Of all programs that a process holds, which it does by file descriptors (proc(5), `fdinfo`). A program that it holds
/// twice counts twice, in both figures.
fn run_time(agent: &Role) -> anyhow::Result<RunTime> {
    let folder = format!("/proc/{}/fdinfo", agent.id());
    let mut sum = RunTime::default();
    for entry in fs::read_dir(&folder).with_context(|| format!("{folder} can't be read"))? {
        // Descriptors come and go.
        let found = parse(&fs::read_to_string(entry?.path()).unwrap_or_default()).unwrap_or_default();
        sum = RunTime { nanos: sum.nanos + found.nanos, runs: sum.runs + found.runs };
    }
    Ok(sum)
}

fn parse(fdinfo: &str) -> Option<RunTime> {
    let field = |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    Some(RunTime { nanos: field("run_time_ns:")?, runs: field("run_cnt:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_program_is_read_and_other_descriptors_have_none() {
        let fdinfo = "pos:\t0\nprog_type:\t3\nrun_time_ns:\t600\nrun_cnt:\t4\nrecursion_misses:\t0\n";
        let found = parse(fdinfo);
        assert_eq!(found, Some(RunTime { nanos: 600.0, runs: 4.0 }));
        assert_eq!(parse("pos:\t0\nflags:\t02\n"), None);
        let before = RunTime { nanos: 200.0, runs: 2.0 };
        assert_eq!(found.and_then(|it| it.per_run_since(before).ok()), Some(200.0));
        assert!(before.per_run_since(before).is_err());
    }
}
