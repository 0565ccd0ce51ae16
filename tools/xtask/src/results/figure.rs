//! How a document names a figure of a result.
//!
//! - `{FILE CASE SYSTEM METRIC FORMAT}`: the figure.
//! - `{min FILE CASES SYSTEM METRIC FORMAT}`, `median`, `max`: of the cases of a pattern, such as `model/*`.
//! - `{least N FILE CASES SYSTEM METRIC FORMAT}`: the least but N-1, as in *at least so much in all but one*.
//! - `{count FILE CASES SYSTEM METRIC >=NUMBER}`, `<=NUMBER`: how many of them are so much or more, or less.
//! - `{cases FILE CASES}`: how many there are.
//! - `{ratio FILE CASE SYSTEM METRIC CASE SYSTEM METRIC FORMAT}`: one over another.
//! - `{claims FILE all}`, `hold`, `fail`: how many claims of its figures there are that could be judged, hold, or are missed.
//! - `{FILE commit}`, `time`, `cpu`, `cores`, `kernel`: what, when and where; `machine`: its kind, by the last three.
//! - `{version FILE NAME}`: of a program that was measured too. `{variant FILE CASE SYSTEM}`: which was chosen.
//!
//! A format is a number of decimals, or `s` and a number of significant digits, with what is done before in front:
//! `%1` a share in percent, `-%1` what is missing to a whole in percent, `k1` in thousands, `M2` in millions, `m0` in
//! thousandths, `,0` thousands apart, and `_2` rounded down, for what is said to be at least so much.

use anyhow::{Context, Result, bail};

use super::files::{Kept, Results};

/// Why there is no figure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing has been measured with this benchmark yet.
    File(String),
    /// It was, and has no such row.
    Row(String),
}

/// What a figure is, as it is written.
///
/// # Errors
/// When it isn't named as it has to be.
pub(crate) fn shown(name: &str, kept: &Kept) -> Result<std::result::Result<String, Missing>> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let of = |file: &str| kept.file(file).ok_or_else(|| Missing::File(format!("there is no {file}.json")));
    let missing = || Missing::Row(format!("there is no {name}"));
    let wrong = || format!("`{{{name}}}` is no figure");
    macro_rules! found {
        ($file:expr) => {
            match of($file) {
                Ok(results) => results,
                Err(missing) => return Ok(Err(missing)),
            }
        };
    }
    // A format makes sense or doesn't, whether there is such a figure or not.
    match words.as_slice() {
        ["count" | "cases" | "claims" | "version" | "variant", ..] | [_, _] => {}
        [.., format] if formatted(1.0, format).is_some() => {}
        _ => bail!(wrong()),
    }
    let value = match words.as_slice() {
        [which @ ("min" | "median" | "max"), file, cases, system, metric, _] => {
            let values = values(found!(file), cases, system, metric);
            match *which {
                "min" => values.first().copied(),
                "max" => values.last().copied(),
                _ => middle(&values),
            }
        }
        ["least", place, file, cases, system, metric, _] => {
            let place: usize = place.parse().with_context(wrong)?;
            values(found!(file), cases, system, metric).get(place.saturating_sub(1)).copied()
        }
        ["count", file, cases, system, metric, bound] => {
            let values = values(found!(file), cases, system, metric);
            let (by, bound) = bound.split_at_checked(2).with_context(wrong)?;
            let bound: f64 = bound.parse().with_context(wrong)?;
            let count = match by {
                ">=" => values.iter().filter(|value| **value >= bound).count(),
                "<=" => values.iter().filter(|value| **value <= bound).count(),
                _ => bail!(wrong()),
            };
            return Ok(if values.is_empty() { Err(missing()) } else { Ok(count.to_string()) });
        }
        ["cases", file, cases] => {
            let count = found!(file).cases(cases).count();
            return Ok(if count == 0 { Err(missing()) } else { Ok(count.to_string()) });
        }
        ["ratio", file, case, system, metric, other_case, other, other_metric, _] => {
            let results = found!(file);
            let over = results.value(other_case, other, other_metric);
            results.value(case, system, metric).zip(over).map(|(value, over)| value / over)
        }
        ["claims", file, which] => {
            let claims = found!(file).claims.iter().filter_map(|claim| claim.holds);
            let judged: Vec<bool> = claims.collect();
            let hold = judged.iter().filter(|holds| **holds).count();
            let count = match *which {
                "all" => judged.len(),
                "hold" => hold,
                "fail" => judged.len() - hold,
                _ => bail!(wrong()),
            };
            return Ok(if judged.is_empty() { Err(missing()) } else { Ok(count.to_string()) });
        }
        ["version", file, program] => return Ok(found!(file).versions.get(*program).cloned().ok_or_else(missing)),
        ["variant", file, case, system] => {
            let mut variants = found!(file).variants.iter();
            let variant = variants.find(|variant| variant.case == *case && variant.system == *system);
            return Ok(variant.map(|variant| variant.variant.clone()).ok_or_else(missing));
        }
        [file, fact @ ("commit" | "time" | "cpu" | "cores" | "kernel" | "machine")] => {
            let Results { commit, time, machine, .. } = found!(file);
            let said = match *fact {
                "commit" => Some(commit.clone()),
                "time" => Some(time.clone()).filter(|time| !time.is_empty()),
                "cpu" => machine.cpu.clone(),
                "cores" => machine.cores.map(|cores| cores.to_string()),
                "machine" => machine.cpu.as_ref().map(|_| machine.kind()),
                _ => machine.kernel.clone(),
            };
            return Ok(said.ok_or_else(missing));
        }
        [file, case, system, metric, _] => found!(file).value(case, system, metric),
        _ => bail!(wrong()),
    };
    let Some(value) = value else { return Ok(Err(missing())) };
    let format = words.last().copied().unwrap_or_default();
    Ok(Ok(formatted(value, format).with_context(wrong)?))
}

/// The values that cases have, from the least on.
fn values(results: &Results, cases: &str, system: &str, metric: &str) -> Vec<f64> {
    let cases = results.cases(cases);
    let mut values: Vec<f64> = cases.filter_map(|case| results.value(case, system, metric)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle one of ordered values, or the mean of the middle two.
fn middle(values: &[f64]) -> Option<f64> {
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// A number as a format has it; `None` if there is no such format.
pub(crate) fn formatted(value: f64, format: &str) -> Option<String> {
    let (value, format, apart) = match format {
        _ if format.starts_with("-%") => (100.0 * (1.0 - value), &format[2..], false),
        _ if format.starts_with('%') => (100.0 * value, &format[1..], false),
        _ if format.starts_with('k') => (value / 1e3, &format[1..], false),
        _ if format.starts_with('M') => (value / 1e6, &format[1..], false),
        _ if format.starts_with('m') => (value * 1e3, &format[1..], false),
        _ if format.starts_with(',') => (value, &format[1..], true),
        _ => (value, format, false),
    };
    let (value, format) = match format.strip_prefix('_') {
        // A little more, as what is written with so many decimals is often a little less.
        Some(decimals) => {
            let scale = 10f64.powi(decimals.parse().ok()?);
            ((value * scale + 1e-9).floor() / scale, decimals)
        }
        None => (value, format),
    };
    let text = match format.strip_prefix('s') {
        Some(digits) => {
            let digits: i32 = digits.parse().ok()?;
            let before = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
            let decimals = usize::try_from(digits - before).unwrap_or(0);
            // What is rounded up may have a digit more.
            let text = format!("{value:.decimals$}");
            let has = text.bytes().filter(u8::is_ascii_digit).count() as i32 - i32::from(value.abs() < 1.0);
            if has > digits && decimals > 0 && value.abs() >= 1.0 { format!("{value:.*}", decimals - 1) } else { text }
        }
        None => format!("{value:.*}", format.parse().ok()?),
    };
    // Rounding makes minus nothing of a little less than nothing.
    let text = if text.trim_start_matches(['-', '0', '.']).is_empty() { text.replace('-', "") } else { text };
    Some(if apart { thousands(&text) } else { text })
}

fn thousands(text: &str) -> String {
    let (whole, rest) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut apart = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !apart.ends_with('-') {
            apart.push(',');
        }
        apart.push(digit);
    }
    rest.map_or(apart.clone(), |rest| format!("{apart}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept::of(
            "rpc",
            r#"{"commit":"abcdef0","versions":{"etcd":"3.4"},"machine":{"cpu":"CPU","cores":2,"kernel":"Linux 6.1-x"},
                "claims":[{"holds":true},{"holds":false},{"holds":null}],
                "variants":[{"case":"m/a","system":"x","variant":"spin"}],"rows":[
                {"case":"m/a","system":"x","metric":"r","value":0.934},{"case":"m/b","system":"x","metric":"r","value":0.899},
                {"case":"m/c","system":"x","metric":"r","value":0.99},{"case":"m/a","system":"y","metric":"rate","value":1649815.2}]}"#,
        )
    }

    fn text(name: &str) -> String {
        shown(name, &kept()).unwrap().unwrap()
    }

    #[test]
    fn figures_are_found_and_formatted() {
        assert_eq!(text("rpc m/a x r 2"), "0.93");
        assert_eq!(text("rpc m/a y rate M2"), "1.65");
        assert_eq!(text("rpc m/a y rate ,0"), "1,649,815");
        assert_eq!((text("rpc m/a x r %0"), text("rpc m/a x r -%1")), ("93".into(), "6.6".into()));
        assert_eq!((text("min rpc m/* x r 3"), text("max rpc m/* x r 3")), ("0.899".into(), "0.990".into()));
        assert_eq!(text("median rpc m/* x r 3"), "0.934");
        assert_eq!((text("least 2 rpc m/* x r 2"), text("count rpc m/* x r >=0.9")), ("0.93".into(), "2".into()));
        assert_eq!((text("cases rpc m/*"), text("ratio rpc m/a x r m/c x r 2")), ("3".into(), "0.94".into()));
        assert_eq!((text("claims rpc all"), text("claims rpc fail")), ("2".into(), "1".into()));
        assert_eq!(
            (text("rpc commit"), text("rpc cores"), text("version rpc etcd")),
            ("abcdef0".into(), "2".into(), "3.4".into())
        );
        assert_eq!(
            (text("variant rpc m/a x"), text("rpc machine")),
            ("spin".into(), "CPU (2 cores, Linux 6.1)".into())
        );
    }

    #[test]
    fn formats_round_as_people_do() {
        let formatted = |value, format| formatted(value, format).unwrap();
        assert_eq!(
            [10.04, 9.999, 0.0861, 382.4, 1234.0].map(|value| formatted(value, "s3")),
            ["10.0", "10.0", "0.0861", "382", "1234"]
        );
        assert_eq!(
            (formatted(0.0, "s3"), formatted(-0.001, "%0"), formatted(1234567.8, ",1")),
            ("0.00".into(), "0".into(), "1,234,567.8".into())
        );
        assert_eq!((formatted(160895.0, "k1"), formatted(0.6, "m0")), ("160.9".into(), "600".into()));
        assert_eq!([0.9352, 0.93].map(|value| formatted(value, "_2")), ["0.93", "0.93"]);
        assert_eq!(super::formatted(1.0, "nonsense"), None);
    }

    #[test]
    fn what_is_not_there_is_told_from_what_makes_no_sense() {
        assert_eq!(shown("path m/a x r 2", &kept()).unwrap(), Err(Missing::File("there is no path.json".into())));
        assert_eq!(shown("rpc m/a x q 2", &kept()).unwrap(), Err(Missing::Row("there is no rpc m/a x q 2".into())));
        for wrong in
            ["rpc m/a", "", "rpc m/a x r nonsense", "path m/a x r nonsense", "count rpc m/* x r 0.9", "claims rpc some"]
        {
            assert!(shown(wrong, &kept()).is_err(), "{wrong}");
        }
    }
}
