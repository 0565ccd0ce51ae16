//! A flow that was large goes quiet, and is small again.
//!
//! A1 sends E1 a megabyte, pauses and then answers with 2 KB; meanwhile C and D keep the switch's queue full. What the
//! small response takes says how it was tagged. After the longest debt has been paid off it should be as on an idle
//! link.

use std::time::Duration;

use super::queues::{self, Bulk};
use crate::bench::{Bench, Case, Core, Length};
use crate::role::Figures;
use crate::testbed::{Bands, Bottleneck, Link, Node};

/// The agent's longest debt, 200 ms, and what a burst of 30 KB is at 10 Mbit/s, 24 ms.
const PAUSE_MS: &str = "225";

pub(crate) const RETURN_TO_SMALL: Case = Case {
    name: "return-to-small",
    systems: &["idle", "fifo", "greenwave", "greenwave-without-pause"],
    full: Length::new(3, 5000),
    quick: Some(Length::new(1, 1500)),
    not_quick: &["greenwave-without-pause"],
    missing: |bench, system| if system.starts_with("greenwave") { bench.agent_obstacle() } else { None },
    ratios: &[("p50_us", "idle"), ("p50_us", "fifo")],
    own_ratios: &[],
    run,
};

fn run(bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures> {
    let tags = system.starts_with("greenwave");
    let link = Link::slow(Bottleneck::Switch, if tags { Bands::Strict } else { Bands::Fifo });
    bench.testbed.limit(&[link])?;
    let _agents = queues::agents(bench, tags.then_some(&[]))?;
    let _responding = queues::responder(bench)?;
    let _bulk = (system != "idle").then(|| Bulk::start(bench, &link, false)).transpose()?;
    let pause = if system == "greenwave-without-pause" { "0" } else { PAUSE_MS };
    let (whom, length) = (queues::a1_from_e1(), time.as_millis().to_string());
    let mut words = vec!["ask-after-bulk", "--pause-ms", pause, "--for-ms", &length];
    words.extend(whom.iter().map(String::as_str));
    let mut figures = bench.load(Node::E, Core::Small, &words)?.figures(time)?;
    // So few samples have no such tail.
    figures.remove("p999_us");
    Ok(figures)
}
