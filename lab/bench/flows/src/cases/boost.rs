//! A service that shares its core with a neighbour that only computes.
//!
//! A1 wakes every millisecond and works for 50 us; A3 computes on the same core for 90 % of the time, as in the paper. Each is
//! in a scheduling group of its own, as virtual machines and services are. Boosted, A1's threads have a short
//! slice and are let run at once. What A3 does meanwhile is counted.

use std::time::Duration;

use anyhow::Context as _;

use crate::bench::{Bench, Case, Core, Length};
use crate::role::{Figures, Role};
use crate::testbed::Node;

pub(crate) const BOOST: Case = Case {
    name: "boost",
    systems: &["alone", "beside", "boosted"],
    full: Length::new(5, 3000),
    quick: Some(Length::new(1, 1000)),
    not_quick: &[],
    missing: |_, _| None,
    ratios: &[("p50_us", "beside"), ("p99_us", "beside"), ("p999_us", "beside"), ("neighbour_work_per_s", "beside")],
    own_ratios: &[],
    run,
};

fn run(bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures> {
    let length = time.as_millis().to_string();
    let mut neighbour =
        (system != "alone").then(|| bench.load(Node::A1, Core::Small, &["compute", "--share", "0.9"])).transpose()?;
    let mut service = bench.load(Node::A1, Core::Small, &["wake", "--every-us", "1000", "--for-ms", &length])?;
    if system == "boosted" {
        boost(bench, &service)?;
    }
    let before = neighbour.as_mut().map(Role::count).transpose()?;
    let mut figures = service.figures(time)?;
    if let (Some(neighbour), Some(before)) = (&mut neighbour, before) {
        let after = neighbour.count()?;
        figures.insert("neighbour_work_per_s".to_owned(), (after.0 - before.0) / (after.1 - before.1));
    }
    Ok(figures)
}

/// Gives all threads of a process a short slice.
pub(super) fn boost(bench: &Bench, service: &Role) -> anyhow::Result<()> {
    let (id, memory) = (service.id().to_string(), bench.testbed.folder().join("boost.json"));
    let words = ["agent", "boost", "--pid", &id, "--memory", &memory.to_string_lossy()];
    bench.programs.run(&bench.testbed, Node::HostA, &words).context("A1 can't be boosted")
}
