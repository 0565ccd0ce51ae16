//! What servers say of their load is what calls go by.

use crate::strategies::any_span;
use greenwave_policy::{Balance, BalanceRule, Ended, LoadReport, OutlierConfig, Sample, Time};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const NOW: Time = Time::from_nanos(1 << 40);

/// Gives out calls so that always `open` are under way, each of which takes 10 ms wherever it is; how many each server got.
fn given(reports: &[LoadReport], open: usize, calls: usize) -> Vec<usize> {
    let mut balance = Balance::new(BalanceRule::ExpectedWait, OutlierConfig::default(), 7);
    (0..reports.len()).for_each(|at| balance.add(at));
    let (mut given, mut under_way) = (vec![0; reports.len()], std::collections::VecDeque::new());
    for call in 0..calls {
        let now = NOW + MS * u32::try_from(call).unwrap() / 10;
        if under_way.len() == open {
            let (server, at): (_, usize) = under_way.pop_front().unwrap();
            balance.ended(now, server, Ended::Answered(Some(reports[at].sample(None, 10 * MS))));
        }
        let (server, &at) = balance.choose(now, None).unwrap();
        given[at] += 1;
        under_way.push_back((server, at));
    }
    given
}

/// As weighted round robin would: in proportion to what each could do. Round trips are the same, and so tell nothing.
#[test]
fn a_server_that_does_more_at_once_gets_more_calls() {
    let wide = LoadReport { utilization: 0.1, calls: 160.0, ..LoadReport::default() };
    let narrow = LoadReport { utilization: 0.1, calls: 40.0, ..LoadReport::default() };
    let given = given(&[wide, narrow], 40, 20_000);
    let ratio = given[0] as f64 / given[1] as f64;
    assert!((3.0..5.0).contains(&ratio), "{given:?}");
}

#[test]
fn a_server_that_others_keep_busy_gets_few_calls() {
    let idle = LoadReport { utilization: 0.1, calls: 100.0, ..LoadReport::default() };
    let busy = LoadReport { utilization: 0.95, calls: 950.0, ..LoadReport::default() };
    let says_so = LoadReport { waiting: Some(50 * MS), ..idle };
    for busy in [busy, says_so] {
        let given = given(&[idle, busy, idle], 8, 20_000);
        assert!(given[1] * 20 < given[0].min(given[2]), "{given:?}");
    }
    assert!(given(&[idle; 3], 8, 20_000).iter().all(|calls| *calls > 5000));
}

proptest! {
    /// Whatever a server says: it is believed within bounds, and no estimate becomes something that can't be compared.
    #[test]
    fn no_report_is_believed_without_bound(
        utilization in any::<f64>(),
        calls in any::<f64>(),
        failing in any::<f64>(),
        waiting in prop::option::of(any_span()),
        total in any_span(),
        receipt in any::<bool>(),
    ) {
        let report = LoadReport { utilization, calls, failing, waiting };
        prop_assert!(report.wait() <= LoadReport::LONGEST);
        prop_assert!(report.each().is_none_or(|each| each <= LoadReport::LONGEST));
        let told = receipt.then_some(Sample { queued: total, served: total, network: total, each: None });
        let sample = report.sample(told, total);
        let mut load = greenwave_policy::balance::Load::default();
        load.begun(NOW);
        load.ended(NOW, Ended::Answered(Some(sample)));
        load.begun(NOW);
        let expected = load.expected(NOW);
        prop_assert!(expected.is_finite() && expected >= 0.0);
    }

    /// The more of it is used, the longer a call waits.
    #[test]
    fn who_is_busier_is_no_better_choice(less in 0.01..4.0_f64, more in 0.0..4.0_f64, calls in 1.0..1e6_f64) {
        let report = |utilization| LoadReport { utilization, calls, ..LoadReport::default() };
        prop_assert!(report(less).wait() <= report(less + more).wait());
        prop_assert!(report(less).each() <= report(less + more).each());
    }
}
