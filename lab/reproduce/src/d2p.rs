//! D2P, distributed deadline propagation (Ren, Ma, Sui, Bao).

mod chain;
mod chance;
mod distributions;
mod growth;
mod orders;
mod parallel;

pub(crate) use chain::chain;
pub(crate) use distributions::distributions;
pub(crate) use growth::growth;
pub(crate) use parallel::parallel;

use crate::claim::{Claim, Verdict, Within};
use greenwave_policy::Order;
use greenwave_sim::cores::Histogram;
use greenwave_sim::graph::Class;
use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Requests a second, in both of the work's experiments.
const RATE: f64 = 100.0;

const ORDERS: [Order; 6] =
    [Order::Fcfs, Order::EarliestDeadline, Order::LeastLaxity, Order::StageLaxity, Order::OldestFirst, Order::Guarded];

/// The two that the work compares, as they stand in [`ORDERS`].
const FCFS: usize = 0;
const EDF: usize = 1;

/// As many requests of each of these expected deadlines, in milliseconds.
fn classes(deadlines: &[u64]) -> Vec<Class> {
    let class = |millis: &u64| Class {
        name: format!("{millis} ms"),
        share: 1.0,
        deadline: Some(Duration::from_millis(*millis)),
    };
    deadlines.iter().map(class).collect()
}

/// The work's: one for all.
fn same() -> Vec<Class> {
    classes(&[200])
}

fn millis(of: &Histogram, quantile: f64) -> f64 {
    of.quantile(quantile) * 1e3
}

/// By how much less, in percent.
fn cut(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}

/// A value that the work reports of deadline order. Where what first come first served gives agrees with it as well, the fit
/// makes it agree and not the order.
fn by_deadlines(what: String, theirs: f64, ours: f64, fcfs: f64, within: Within) -> Claim {
    let claim = Claim::new(what, theirs, ours, within);
    let by_fit = Claim { ours: fcfs, ..claim.clone() }.verdict() == Verdict::Agrees;
    if by_fit { claim.fitted() } else { claim }
}

const EQUAL: &str = "With one expected deadline for all, the earliest deadline is that of the request that was born first, \
    and where requests come in that order both orders are the same schedule, job by job. They differ only where requests have \
    overtaken one another in stages with several workers. So the work's cut can't come from its algorithm alone.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fit_makes_agree_is_no_evidence_of_an_order() {
        let of = |ours, fcfs| by_deadlines(String::new(), 100.0, ours, fcfs, Within::Share(0.05)).verdict();
        assert_eq!(of(98.0, 99.0), Verdict::Fitted);
        assert_eq!(of(98.0, 110.0), Verdict::Agrees);
        assert_eq!(of(110.0, 110.0), Verdict::Differs);
        assert_eq!(of(110.0, 99.0), Verdict::Differs);
    }
}
