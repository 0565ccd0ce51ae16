//! Everything at once, placed as in the paper.
//!
//! A1 answers E1, 2 KB every 5 ms. A2 sends B1 as much as fits through host A's uplink; C and D each send E2 a flow of
//! 40% of the link every 210 ms, so that A1's responses meet a queue at their host and another at the switch. A3 computes
//! for 90% of the time on A1's core, and A4 all the time on the other.

use std::time::Duration;

use super::boost::boost;
use super::queues::{self, BULK_PORT, Bulk, WARM_UP};
use crate::bench::{Bench, Case, Core, Length};
use crate::role::Figures;
use crate::testbed::{Bands, Bottleneck, E2, Link, Node};

/// How often C and D each send a flow, and what share of the link that is.
const FLOW_EVERY: Duration = Duration::from_millis(210);
const FLOW_SHARE: f64 = 0.4;

pub(crate) const PLACEMENT: Case = Case {
    name: "placement",
    systems: &["fifo", "tags", "tags-and-boost"],
    full: Length::new(3, 4000),
    quick: None,
    not_quick: &[],
    missing: |bench, system| if system == "fifo" { None } else { bench.agent_obstacle() },
    ratios: &[
        ("p50_us", "fifo"),
        ("p99_us", "fifo"),
        ("p999_us", "fifo"),
        ("bulk_mbit", "fifo"),
        ("flow_p50_us", "fifo"),
    ],
    own_ratios: &[],
    run,
};

fn run(bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures> {
    let tags = system != "fifo";
    let bands = if tags { Bands::Strict } else { Bands::Fifo };
    let links = [Bottleneck::Switch, Bottleneck::Host].map(|at| Link::slow(at, bands));
    bench.testbed.limit(&links)?;
    let _agents = queues::agents(bench, tags.then_some(&[]))?;
    let responding = queues::responder(bench)?;
    let _neighbours = (
        bench.load(Node::A1, Core::Small, &["compute", "--share", "0.9"])?,
        bench.load(Node::A1, Core::Bulk, &["compute"])?,
    );
    if system == "tags-and-boost" {
        boost(bench, &responding)?;
    }
    let mut bulk = Bulk::start(bench, &links[1], false)?;
    let to = format!("{E2}:{BULK_PORT}");
    let _taking = bench.load(Node::E, Core::Bulk, &["sink", "--listen", &to])?;
    let bytes = (links[0].bytes_per_s() * FLOW_SHARE * FLOW_EVERY.as_secs_f64()).round().to_string();
    let (every, warm_up) = (FLOW_EVERY.as_micros().to_string(), WARM_UP.as_millis().to_string());
    let length = time.as_millis().to_string();
    let times = ["--every-us", &every, "--warm-up-ms", &warm_up, "--for-ms", &length];
    let words = [&["flows", "--to", &to, "--bytes", &bytes], &times[..]].concat();
    let mut flows = [
        bench.load(Node::C1, Core::Bulk, &words)?, //
        bench.load(Node::D1, Core::Bulk, &words)?,
    ];
    let mut figures = queues::ask(bench, Some(&mut bulk), time)?;
    for sender in &mut flows {
        for (metric, value) in sender.figures(time)? {
            // The later of the two counts.
            let most = figures.entry(format!("flow_{metric}")).or_insert(value);
            *most = most.max(value);
        }
    }
    figures.retain(|metric, _| !matches!(metric.as_str(), "flow_p999_us" | "flow_max_send_lag_us"));
    Ok(figures)
}
