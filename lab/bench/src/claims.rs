//! What is claimed, held against what was measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::result::Results;
use crate::table::{MISSING, Table, significant};

/// A figure that should be so small, or so large. A ratio's metric names the system that it is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// What it says, in a few words.
    pub what: &'static str,
    /// What is done: a name, or a [pattern](fits) of several.
    pub case: &'static str,
    /// By whom.
    pub system: &'static str,
    /// What is measured.
    pub metric: &'static str,
    /// What that should be.
    pub aim: Aim,
    /// Whether it says more of the machine than of the system, as a rate does.
    pub of_machine: bool,
    /// Whether it comes out alike on every machine and every time: a count, or what was found in virtual time.
    pub steady: bool,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
    /// Within these two, both included.
    Within(f64, f64),
}

/// A claim that a metric of a system in a case reaches an aim.
pub const fn claim(
    what: &'static str,
    case: &'static str,
    system: &'static str,
    metric: &'static str,
    aim: Aim,
) -> Claim {
    Claim { what, case, system, metric, aim, of_machine: false, steady: false }
}

impl Claim {
    /// The same of a figure that says more of the machine than of the system.
    #[must_use]
    pub const fn on_this_machine(mut self) -> Self {
        self.of_machine = true;
        self
    }

    /// The same of a figure that doesn't depend on the machine, nor on what else runs there: a change of it is one of the
    /// code.
    #[must_use]
    pub const fn steady(mut self) -> Self {
        self.steady = true;
        self
    }
}

impl Aim {
    /// Whether a figure is what it should be.
    #[must_use]
    pub fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {}", significant(*most)),
            Self::AtLeast(least) => write!(f, ">= {}", significant(*least)),
            Self::Within(least, most) => write!(f, "{} to {}", significant(*least), significant(*most)),
        }
    }
}

/// Whether a case is one of a pattern's. The parts of names, between slashes, are compared one by one: a pattern's part
/// is `*` for whatever, or names with `|` between them.
#[must_use]
pub fn fits(pattern: &str, case: &str) -> bool {
    let is_one = |(part, name): (&str, &str)| part == "*" || part.split('|').any(|one| one == name);
    pattern.split('/').count() == case.split('/').count() && pattern.split('/').zip(case.split('/')).all(is_one)
}

/// Claims with what was measured.
#[derive(Clone, Debug)]
pub struct Verdicts(Vec<(Claim, String, Option<f64>)>);

/// A claim with what was measured, as results keep it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What it says.
    pub what: String,
    /// What was done.
    pub case: String,
    /// By whom.
    pub system: String,
    /// What was measured.
    pub metric: String,
    /// What that should be, as in `<= 1.05`.
    pub aim: String,
    /// What it is; `None` if it wasn't measured.
    pub measured: Option<f64>,
    /// Whether that is what it should be; `None` if nothing is known of it.
    pub holds: Option<bool>,
    /// Whether it says more of the machine than of the system.
    #[serde(default)]
    pub of_machine: bool,
    /// Whether it comes out alike on every machine and every time.
    #[serde(default)]
    pub steady: bool,
}

/// How many claims hold, fail, and couldn't be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those whose aim is reached.
    pub hold: usize,
    /// Those whose aim is missed.
    pub fail: usize,
    /// Those of whose figure nothing is known.
    pub not_measured: usize,
}

impl Verdicts {
    /// Each claim, once for each of the `cases` that it is about. One that is about none of them is not measured.
    #[must_use]
    pub fn of(claims: &[Claim], cases: &[String], results: &Results) -> Self {
        let of_claim = |claim: &Claim| {
            let mut about: Vec<&str> = cases.iter().map(String::as_str).filter(|case| fits(claim.case, case)).collect();
            if about.is_empty() {
                about.push(claim.case);
            }
            let verdict = |case: &str| (*claim, case.to_owned(), results.value(case, claim.system, claim.metric));
            about.into_iter().map(verdict).collect::<Vec<_>>()
        };
        Self(claims.iter().flat_map(of_claim).collect())
    }

    /// Each with its verdict, as results keep them.
    #[must_use]
    pub fn judged(&self) -> Vec<Judged> {
        let judged = |(claim, case, measured): &(Claim, String, Option<f64>)| Judged {
            what: claim.what.to_owned(),
            case: case.clone(),
            system: claim.system.to_owned(),
            metric: claim.metric.to_owned(),
            aim: claim.aim.to_string(),
            measured: *measured,
            holds: measured.map(|value| claim.aim.is_reached(value)),
            of_machine: claim.of_machine,
            steady: claim.steady,
        };
        self.0.iter().map(judged).collect()
    }

    /// How many claims hold, fail, and couldn't be judged.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (claim, _, value) in &self.0 {
            match value.map(|value| claim.aim.is_reached(value)) {
                Some(true) => counts.hold += 1,
                Some(false) => counts.fail += 1,
                None => counts.not_measured += 1,
            }
        }
        counts
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["claim", "of", "aim", "measured", "holds"]);
        for (Claim { what, system, metric, aim, of_machine, .. }, case, value) in &self.0 {
            let holds = match value.map(|value| aim.is_reached(value)) {
                None => "not measured".to_owned(),
                Some(holds) => {
                    let machine = if *of_machine { ", on this machine" } else { "" };
                    format!("{}{machine}", if holds { "yes" } else { "no" })
                }
            };
            let measured = value.map_or_else(|| MISSING.to_owned(), significant);
            table.row([format!("{case}: {what}"), format!("{system} {metric}"), aim.to_string(), measured, holds]);
        }
        let Counts { hold, fail, not_measured } = self.counts();
        writeln!(f, "{table}\nOf {} claims {hold} hold, {fail} fail, {not_measured} are not measured.", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(figures: &[(&str, f64)]) -> Results {
        let mut results = Results::of("t", "c");
        figures.iter().for_each(|(metric, value)| results.push("case", "system", *metric, *value));
        results
    }

    fn shown(claim: Claim, value: Option<f64>) -> String {
        let results = results(&value.map(|value| vec![("ratio", value)]).unwrap_or_default());
        let shown = Verdicts::of(&[claim], &["case".to_owned()], &results).to_string();
        shown.lines().nth(2).and_then(|line| line.rsplit("  ").next()).unwrap_or_default().to_owned()
    }

    #[test]
    fn an_aim_is_reached_or_not_or_nothing_was_measured() {
        let claim = |aim| claim("is so", "case", "system", "ratio", aim);
        let least = claim(Aim::AtLeast(0.9));
        assert_eq!([None, Some(0.9), Some(0.89)].map(|value| shown(least, value)), ["not measured", "yes", "no"]);
        let most = claim(Aim::AtMost(0.9));
        assert_eq!([Some(0.9), Some(0.91)].map(|value| shown(most, value)), ["yes", "no"]);
        let within = claim(Aim::Within(0.9, 1.1));
        let within = [0.9, 1.1, 0.89, 1.11].map(|value| shown(within, Some(value)));
        assert_eq!(within, ["yes", "yes", "no", "no"]);
    }

    #[test]
    fn what_says_more_of_the_machine_is_said_to() {
        let claim = claim("is fast", "case", "system", "ratio", Aim::AtLeast(2.0)).on_this_machine();
        assert_eq!(shown(claim, Some(2.0)), "yes, on this machine");
        assert_eq!(shown(claim, Some(1.0)), "no, on this machine");
        assert_eq!(shown(claim, None), "not measured");
    }

    #[test]
    fn a_row_says_what_is_aimed_at_and_what_was_measured() {
        let claim = claim("is near", "case", "system", "ratio", Aim::Within(0.9, 1.1));
        let shown = Verdicts::of(&[claim], &[], &results(&[("ratio", 1.234)])).to_string();
        let words: Vec<&str> = shown.lines().nth(2).unwrap_or_default().split_whitespace().collect();
        assert_eq!(words, ["case:", "is", "near", "system", "ratio", "0.900", "to", "1.10", "1.23", "no"], "{shown}");
    }

    #[test]
    fn claims_are_counted_and_what_is_missing_never_holds() {
        let claim = |metric, aim| claim("is so", "case", "system", metric, aim);
        let all = [
            claim("ratio", Aim::AtMost(1.0)),
            claim("ratio", Aim::AtLeast(1.0)),
            claim("missing", Aim::AtMost(1.0)),
            claim("missing", Aim::AtLeast(0.0)),
            claim("nan", Aim::Within(f64::NEG_INFINITY, f64::INFINITY)),
        ];
        let verdicts = Verdicts::of(&all, &[], &results(&[("ratio", 0.5), ("nan", f64::NAN)]));
        assert_eq!(verdicts.counts(), Counts { hold: 1, fail: 1, not_measured: 3 });
        assert!(verdicts.to_string().ends_with("Of 5 claims 1 hold, 1 fail, 3 are not measured.\n"));
    }

    #[test]
    fn a_pattern_is_a_claim_for_each_case_that_it_fits() {
        let claim = claim("is so", "kv|extreme/*/load-0.7", "system", "ratio", Aim::AtMost(1.0));
        let cases = ["kv/none/load-0.7", "kv/same/load-0.7", "kv/none/load-0.5", "high/none/load-0.7", "kv"];
        let cases = cases.map(str::to_owned);
        let fit: Vec<bool> = cases.iter().map(|case| fits(claim.case, case)).collect();
        assert_eq!(fit, [true, true, false, false, false]);
        let mut found = results(&[]);
        found.push("kv/none/load-0.7", "system", "ratio", 0.5);
        assert_eq!(Verdicts::of(&[claim], &cases, &found).counts(), Counts { hold: 1, fail: 0, not_measured: 1 });
        assert_eq!(Verdicts::of(&[claim], &[], &found).counts(), Counts { hold: 0, fail: 0, not_measured: 1 });
    }
}
