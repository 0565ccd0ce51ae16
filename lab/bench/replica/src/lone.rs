//! `lone-request`: what a single client's put takes when the controller sizes batches and windows, beside a group whose
//! batch is one command and whose window is one instance.
//!
//! Both groups are up all the time, and take turns of a second.

use std::time::Duration;

use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::Cell;

use crate::greenwave::Greenwave;
use crate::put::Put;
use crate::run;

/// The case's name.
pub(crate) const NAME: &str = "lone-request";

/// Whose latency counts as 1.
pub(crate) const STATIC: &str = "static-1";

pub(crate) fn measure(quick: bool, bench: &mut Benchmark) -> anyhow::Result<()> {
    let (count, time) = if quick { (4, Duration::from_millis(700)) } else { (24, Duration::from_secs(1)) };
    let put = Put { name: NAME, arrivals: Arrivals::Closed { in_flight: 1 } };
    let groups = [Greenwave::start(false)?, Greenwave::start(true)?];
    bench.progress = Progress::new(count * groups.len());
    let cells = Cell::of_case(NAME, &["controller", STATIC]);
    let rounds = bench.rounds(cells, count, |round, at, progress| put.run(&groups[at], time, round as u64, progress));
    run::push(rounds, STATIC, bench);
    Ok(())
}
