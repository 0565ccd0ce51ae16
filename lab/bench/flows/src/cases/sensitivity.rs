//! How much the bucket's two numbers matter: its rate at a burst of 30 KB, and its burst at 10 Mbit/s.
//!
//! As in the `switch-queue` case. The small flow itself has 3.5 Mbit/s, headers included.

use std::time::Duration;

use super::queues;
use crate::bench::{Bench, Case, Length};
use crate::role::Figures;
use crate::testbed::{Bands, Bottleneck, Link};

/// Names of systems, and the rates, in Mbit/s, that they stand for.
pub(crate) const RATES: [(&str, f64); 6] = [
    ("rate-1mbit", 1.0),
    ("rate-3mbit", 3.0),
    ("rate-5mbit", 5.0),
    ("rate-10mbit", 10.0),
    ("rate-30mbit", 30.0),
    ("rate-100mbit", 100.0),
];

/// Names of systems, and the bursts, in KB, that they stand for.
pub(crate) const BURSTS: [(&str, f64); 5] =
    [("burst-3KB", 3.0), ("burst-10KB", 10.0), ("burst-30KB", 30.0), ("burst-100KB", 100.0), ("burst-300KB", 300.0)];

pub(crate) const SENSITIVITY: Case = Case {
    name: "sensitivity",
    systems: &[
        RATES[0].0,
        RATES[1].0,
        RATES[2].0,
        RATES[3].0,
        RATES[4].0,
        RATES[5].0,
        BURSTS[0].0,
        BURSTS[1].0,
        BURSTS[2].0,
        BURSTS[3].0,
        BURSTS[4].0,
    ],
    full: Length::new(3, 1000),
    quick: None,
    not_quick: &[],
    missing: |bench, _| bench.agent_obstacle(),
    ratios: &[],
    own_ratios: &[],
    run,
};

fn run(bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures> {
    let (what, how_much) = system.split_once('-').unwrap_or_default();
    let (rate, burst) = if what == "rate" { (how_much, "30KB") } else { ("10mbit", how_much) };
    let words = ["--rate", rate, "--burst", burst];
    let mut figures = queues::run(
        bench,
        Link::slow(Bottleneck::Switch, Bands::Strict),
        Some(&words),
        Some((false, Duration::ZERO)),
        time,
    )?;
    figures.remove("p999_us");
    Ok(figures)
}
