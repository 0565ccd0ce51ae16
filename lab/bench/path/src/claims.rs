//! What is claimed: that the tight class is answered by ours as by no rival, at no cost in goodput; and that calls keep away
//! from a server that is slow.

use crate::named;
use crate::system::{OURS, RIVALS};
use greenwave_bench::claims::Aim::{AtLeast, AtMost};
use greenwave_bench::claims::{Claim, claim};
use greenwave_bench::result::Results;

/// What of the tight class is missed, over what the rival misses that misses the least of it.
const MISSED: &str = "tight/missed_over_rivals";
/// Goodput over that of the rival with the most.
const GOODPUT: &str = "goodput_over_rivals";

/// Fewer than these can't be told from none.
const LEAST_MISSED: f64 = 0.001;

const SHORT: &str = "chain|parallel-unit/load-0.9|load-1.3";
const OVERLOAD: &str = "chain|parallel-unit/load-1.3|load-1.5";

pub(crate) const CLAIMS: [Claim; 7] = [
    fewer_missed(OURS[0]),
    goodput(OURS[0]),
    goodput_beside_rivals(OURS[0]),
    fewer_missed(OURS[1]),
    goodput(OURS[1]),
    goodput_beside_rivals(OURS[1]),
    claim("one server of four that is slow hardly tells", named::CASE, named::BY_WAIT, named::RATIO, AtMost(1.5)),
];

const fn fewer_missed(system: &'static str) -> Claim {
    claim("a tenth of what the best rival misses of the tight class", SHORT, system, MISSED, AtMost(0.1))
}

const fn goodput(system: &'static str) -> Claim {
    claim("goodput under overload", OVERLOAD, system, "goodput_of_capacity", AtLeast(0.95))
}

const fn goodput_beside_rivals(system: &'static str) -> Claim {
    claim("as much goodput as any rival", OVERLOAD, system, GOODPUT, AtLeast(1.0))
}

/// Adds what ours come to beside the best of the rivals, where these were measured.
pub(crate) fn compare(results: &mut Results) {
    let cases: Vec<String> = results.distinct(|row| &row.case).into_iter().map(str::to_owned).collect();
    for case in cases {
        let of_rivals = |metric: &str| RIVALS.iter().filter_map(|rival| results.value(&case, rival, metric)).collect();
        let (missed, goodput): (Vec<f64>, Vec<f64>) =
            (of_rivals("tight/missed_share"), of_rivals("goodput_of_capacity"));
        let (Some(missed), Some(goodput)) = (missed.into_iter().reduce(f64::min), goodput.into_iter().reduce(f64::max))
        else {
            continue;
        };
        for system in OURS {
            let value = |metric: &str| results.value(&case, system, metric).unwrap_or(f64::NAN);
            let own = (value("tight/missed_share"), value("goodput_of_capacity"));
            results.push(&case, system, MISSED, own.0 / missed.max(LEAST_MISSED));
            results.push(&case, system, GOODPUT, own.1 / goodput);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_bench::claims::{Counts, Verdicts};

    fn measured(rows: &[(&str, f64, f64)]) -> Results {
        let mut results = Results::of("path", "c");
        for (system, missed, goodput) in rows {
            results.push("chain/load-1.3", system, "tight/missed_share", *missed);
            results.push("chain/load-1.3", system, "goodput_of_capacity", *goodput);
        }
        compare(&mut results);
        results
    }

    #[test]
    fn ours_are_held_against_the_best_rival_in_each_respect() {
        let results = measured(&[("fifo", 1.0, 0.9), ("codel-lifo", 0.4, 0.8), ("least-laxity", 0.02, 0.99)]);
        let value = |metric| results.value("chain/load-1.3", "least-laxity", metric).unwrap();
        assert!((value(MISSED) - 0.05).abs() < 1e-9 && (value(GOODPUT) - 1.1).abs() < 1e-9);
        let cases = ["chain/load-1.3".to_owned()];
        assert_eq!(Verdicts::of(&CLAIMS, &cases, &results).counts(), Counts { hold: 3, fail: 0, not_measured: 4 });
    }

    #[test]
    fn where_no_rival_misses_any_neither_may_ours() {
        let results = measured(&[("gradient", 0.0, 1.0), ("least-laxity", 0.01, 1.0)]);
        assert_eq!(results.value("chain/load-1.3", "least-laxity", MISSED), Some(10.0));
        let results = measured(&[("gradient", 0.0, 1.0), ("least-laxity", 0.0, 1.0)]);
        assert_eq!(results.value("chain/load-1.3", "least-laxity", MISSED), Some(0.0));
    }

    #[test]
    fn without_rivals_nothing_is_compared() {
        assert_eq!(measured(&[("least-laxity", 0.01, 1.0)]).value("chain/load-1.3", "least-laxity", MISSED), None);
    }
}
