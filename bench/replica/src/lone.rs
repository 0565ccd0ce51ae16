//! `lone-request`: what a single client's put takes when the controller sizes batches and windows, beside a group whose
//! batch is one command and whose window is one instance.
//!
//! Both groups are up all the time, and take turns of a second.

use std::time::Duration;

use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::figures::Rounds;
use crate::greenwave::Greenwave;
use crate::put::Put;

/// The case's name.
pub(crate) const NAME: &str = "lone-request";

/// Whose latency counts as 1.
pub(crate) const STATIC: &str = "static-1";

pub(crate) fn measure(quick: bool, results: &mut Results) -> anyhow::Result<()> {
    let (turns, time) = if quick { (4, Duration::from_millis(700)) } else { (24, Duration::from_secs(1)) };
    let put = Put { name: NAME, arrivals: Arrivals::Closed { in_flight: 1 } };
    let groups = [("controller", Greenwave::start(false)?), (STATIC, Greenwave::start(true)?)];
    let mut progress = Progress::new(turns * groups.len());
    let mut rounds = Rounds::default();
    for turn in 0..turns {
        for nth in 0..groups.len() {
            let (system, group) = &groups[(turn + nth) % groups.len()];
            progress.step(format!("{NAME}: turn {}, {system}", turn + 1));
            rounds.add(system, put.run(group, time, turn as u64, &mut progress)?);
        }
    }
    rounds.push(NAME, Some(STATIC), results);
    Ok(())
}
