//! What is claimed, held against what was measured.

use std::borrow::Cow;

use crate::result::Results;
use crate::table::{Table, significant};

/// A figure that should be so small, or so large.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What it says, in a few words.
    pub what: &'static str,
    /// What is done.
    pub case: Cow<'static, str>,
    /// By whom.
    pub system: &'static str,
    /// What is measured.
    pub metric: &'static str,
    /// What that should be.
    pub aim: Aim,
    /// Whether it says more of the machine than of the system, as a rate does.
    pub of_machine: bool,
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

impl Claim {
    /// That a metric of a system in a case reaches an aim.
    #[must_use]
    pub const fn new(
        what: &'static str,
        case: &'static str,
        system: &'static str,
        metric: &'static str,
        aim: Aim,
    ) -> Self {
        Self { what, case: Cow::Borrowed(case), system, metric, aim, of_machine: false }
    }

    /// The same of a figure that says more of the machine than of the system.
    #[must_use]
    pub const fn on_this_machine(mut self) -> Self {
        self.of_machine = true;
        self
    }

    /// Whether the aim is reached; `None` if nothing was measured.
    #[must_use]
    pub fn is_reached(&self, results: &Results) -> Option<bool> {
        results.value(&self.case, self.system, self.metric).map(|value| self.aim.is_reached(value))
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

    fn shown(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {}", significant(most)),
            Self::AtLeast(least) => format!(">= {}", significant(least)),
            Self::Within(least, most) => format!("{} to {}", significant(least), significant(most)),
        }
    }
}

/// Every aim with what was measured, and whether that reaches it.
#[must_use]
pub fn table(claims: &[Claim], results: &Results) -> Table {
    let mut table = Table::new(["claim", "of", "aim", "measured", "reached"]);
    for claim in claims {
        let Claim { what, case, system, metric, aim, of_machine } = claim;
        let measured = results.value(case, system, metric);
        let reached = match claim.is_reached(results) {
            None => "not measured",
            Some(true) if *of_machine => "yes, on this machine",
            Some(false) if *of_machine => "no, on this machine",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let measured = measured.map_or_else(|| "–".to_owned(), significant);
        table.row([format!("{case}: {what}"), format!("{system} {metric}"), aim.shown(), measured, reached.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn results(figures: &[(&str, f64)]) -> Results {
        let (commit, machine) = ("c".into(), Machine::default());
        let mut results = Results { bench: "t".into(), commit, machine, rows: vec![], distributions: vec![] };
        figures.iter().for_each(|(metric, value)| results.push("case", "system", *metric, *value));
        results
    }

    fn said(claim: &Claim, value: Option<f64>) -> String {
        let results = results(&value.map(|value| vec![("ratio", value)]).unwrap_or_default());
        let table = table(std::slice::from_ref(claim), &results).to_string();
        table.lines().last().and_then(|line| line.rsplit("  ").next()).unwrap_or_default().to_owned()
    }

    #[test]
    fn an_aim_is_reached_or_not_or_nothing_was_measured() {
        let claim = |aim| Claim::new("is so", "case", "system", "ratio", aim);
        let least = claim(Aim::AtLeast(0.9));
        assert_eq!([None, Some(0.9), Some(0.89)].map(|value| said(&least, value)), ["not measured", "yes", "no"]);
        let most = claim(Aim::AtMost(0.9));
        assert_eq!([Some(0.9), Some(0.91)].map(|value| said(&most, value)), ["yes", "no"]);
        let within = claim(Aim::Within(0.9, 1.1));
        let within = [0.9, 1.1, 0.89, 1.11].map(|value| said(&within, Some(value)));
        assert_eq!(within, ["yes", "yes", "no", "no"]);
    }

    #[test]
    fn what_says_more_of_the_machine_is_said_to() {
        let claim = Claim::new("is fast", "case", "system", "ratio", Aim::AtLeast(2.0)).on_this_machine();
        assert_eq!(said(&claim, Some(2.0)), "yes, on this machine");
        assert_eq!(said(&claim, Some(1.0)), "no, on this machine");
        assert_eq!(said(&claim, None), "not measured");
    }

    #[test]
    fn a_row_says_what_is_aimed_at_and_what_was_measured() {
        let claim = Claim::new("is near", "case", "system", "ratio", Aim::Within(0.9, 1.1));
        let table = table(&[claim], &results(&[("ratio", 1.234)])).to_string();
        let words: Vec<&str> = table.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words, ["case:", "is", "near", "system", "ratio", "0.900", "to", "1.10", "1.23", "no"], "{table}");
    }
}
