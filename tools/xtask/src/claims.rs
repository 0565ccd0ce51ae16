//! Whether what is claimed of a benchmark's figures holds, by the file that it wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::step::wrong_use;

/// Which claims have to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All that were measured.
    All,
    /// Those that come out alike on every machine and every time.
    Steady,
}

/// What a benchmark wrote of its claims.
#[derive(Deserialize)]
struct Claimed {
    #[serde(default)]
    claims: Vec<Claim>,
}

#[derive(Deserialize)]
struct Claim {
    what: String,
    case: String,
    system: String,
    metric: String,
    aim: String,
    measured: Option<f64>,
    holds: Option<bool>,
    #[serde(default)]
    steady: bool,
}

impl Which {
    /// Takes `--check`, or `--check=steady`, out of a benchmark's words.
    ///
    /// # Errors
    /// When it is told to check something else.
    pub(crate) fn take(words: &mut Vec<String>) -> Result<Option<Self>> {
        let mut which = None;
        for word in words.extract_if(.., |word| word.split('=').next() == Some("--check")) {
            which = Some(match word.as_str() {
                "--check" | "--check=all" => Self::All,
                "--check=steady" => Self::Steady,
                _ => return Err(wrong_use(format!("`{word}` is not understood"), "cargo xtask bench --help")),
            });
        }
        Ok(which)
    }

    /// Says how many claims of a benchmark's file hold.
    ///
    /// # Errors
    /// When one is missed, with what was measured; and when the file has none that could be judged.
    pub(crate) fn check(self, file: &Path) -> Result<String> {
        let text = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
        self.judge(&text).with_context(|| format!("{}", file.display()))
    }

    fn judge(self, text: &str) -> Result<String> {
        let Claimed { claims } = serde_json::from_str(text).context("these are no results")?;
        let claims: Vec<_> = claims.into_iter().filter(|claim| self == Self::All || claim.steady).collect();
        let missed: Vec<_> = claims.iter().filter(|claim| claim.holds == Some(false)).map(Claim::told).collect();
        let hold = claims.iter().filter(|claim| claim.holds == Some(true)).count();
        if !missed.is_empty() {
            bail!("{} of {} claims are missed:\n  {}", missed.len(), missed.len() + hold, missed.join("\n  "));
        }
        if hold == 0 {
            bail!("no claim was measured, so nothing is shown; choose cases of which something is claimed");
        }
        Ok(format!("{hold} claims hold, {} are not measured", claims.len() - hold))
    }
}

impl Claim {
    fn told(&self) -> String {
        let Self { what, case, system, metric, aim, measured, .. } = self;
        let measured = measured.map_or_else(|| "nothing".to_owned(), |value| format!("{value:.4}"));
        format!("{case}: {what}: {system} {metric} should be {aim}, and is {measured}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(claims: &[(&str, &str, bool)]) -> String {
        let claim = |(what, holds, steady): &(&str, &str, bool)| {
            format!(
                r#"{{"what":"{what}","case":"c","system":"s","metric":"m","aim":"<= 1","measured":2,"holds":{holds},"steady":{steady}}}"#
            )
        };
        format!(r#"{{"claims":[{}]}}"#, claims.iter().map(claim).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_missed_claim_fails_and_says_what_it_is() {
        let text = results(&[("fast", "true", false), ("small", "false", false), ("none", "null", false)]);
        let error = Which::All.judge(&text).unwrap_err().to_string();
        assert_eq!(error, "1 of 2 claims are missed:\n  c: small: s m should be <= 1, and is 2.0000");
    }

    #[test]
    fn what_is_not_steady_is_not_asked_for_where_that_is_all_that_counts() {
        let text = results(&[("fast", "false", false), ("lost", "true", true), ("none", "null", true)]);
        assert_eq!(Which::Steady.judge(&text).unwrap(), "1 claims hold, 1 are not measured");
        assert!(Which::All.judge(&text).is_err());
    }

    #[test]
    fn results_without_a_judged_claim_show_nothing() {
        for text in [results(&[]), results(&[("none", "null", true)]), "{}".to_owned()] {
            assert!(Which::All.judge(&text).unwrap_err().to_string().starts_with("no claim was measured"), "{text}");
        }
    }

    #[test]
    fn the_word_is_taken_out_of_the_others() {
        let taken = |words: &[&str]| {
            let mut words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            (Which::take(&mut words).ok().flatten(), words.join(" "))
        };
        assert_eq!(taken(&["rpc", "--quick"]), (None, "rpc --quick".to_owned()));
        assert_eq!(taken(&["rpc", "--check", "--quick"]), (Some(Which::All), "rpc --quick".to_owned()));
        assert_eq!(taken(&["--check=steady", "rpc"]), (Some(Which::Steady), "rpc".to_owned()));
        assert!(Which::take(&mut vec!["--check=some".to_owned()]).is_err());
    }
}
