//! Short jobs and long ones on one core. Nothing is measured here so far.

use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use super::Setting;

/// How many steps of progress it takes.
pub(super) const STEPS: usize = 0;

pub(super) fn measure(_setting: &Setting, _results: &mut Results, _progress: &mut Progress) -> anyhow::Result<()> {
    Ok(())
}

pub(super) fn print(_results: &Results) {}
