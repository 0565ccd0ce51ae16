//! The highest rate that is still good.

use super::load::Load;
use super::plan::{Cores, Plan, PlanError};
use super::report::Report;
use crate::seed::Seed;

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The highest share of the workers' capacity that was tried and satisfied; 0 if none did.
    pub share: f64,
    /// The same as jobs a second.
    pub per_second: f64,
    /// What came of it.
    pub report: Option<Report>,
}

/// Halves the range of shares of the capacity, 0 to 1.2, so many times, for the highest at which `is_good` holds. A run that isn't
/// [sustained](Report::is_sustained) isn't good. Where a higher rate can be better than a lower one, one of the ends is found.
///
/// # Errors
/// If the plan or the cores can't be meant.
pub fn highest(
    cores: &Cores,
    load: &Load,
    plan: &Plan,
    seed: Seed,
    halvings: u32,
    is_good: impl Fn(&Report) -> bool,
) -> Result<Found, PlanError> {
    let (mut low, mut high) = (0.0, 1.2);
    let mut found = Found { share: 0.0, per_second: 0.0, report: None };
    for _ in 0..halvings {
        let share = f64::midpoint(low, high);
        // Overload is seen long before a million wait.
        let plan = Plan { most_unfinished: plan.most_unfinished.min(200_000), ..plan.with_share(share) };
        let report = super::run(cores, load, &plan, seed)?;
        if report.is_sustained() && is_good(&report) {
            low = share;
            found = Found { share, per_second: plan.per_second(cores, load), report: Some(report) };
        } else {
            high = share;
        }
    }
    Ok(found)
}
