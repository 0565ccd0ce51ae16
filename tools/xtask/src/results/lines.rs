//! A line of a template that stands for many: the rows of a table.
//!
//! It begins with what it is repeated for, and may name what is repeated:
//! - `{each FILE CASES SYSTEMS}`: for each case and system of two patterns. `{METRIC FORMAT}` is their figure.
//! - `{each FILE CASES}`: for each case of a pattern. `{SYSTEM METRIC FORMAT}` is its figure.
//! - `{each claims FILE}`, `{each missed FILE}`: for each claim of a file's figures, or each that is missed. `{what}`, `{metric}`,
//!   `{aim}` and `{holds}` are what it says, and `{measured FORMAT}` is the figure.
//!
//! `{case}` is the name of the case, `{case N}` its Nth part between slashes, and `{system}` the name of the system. A figure that
//! a case doesn't have is a dash, and a line without any figure is left out. One that no line has is missing, as one that is named
//! by itself is, unless a system was measured in these cases and others have that figure: so it is of one that never answers.
//!
//! ```text
//! | case | system | p50, us |
//! |---|---|---|
//! {each rpc * *}| {case} | {system} | {p50_us 1} |
//! ```

use anyhow::{Context, Result, bail, ensure};

use super::figure::{self, Missing};
use super::files::{Claim, Kept, Results};

const EACH: &str = "{each ";

/// Where there is no such figure.
const NONE: &str = "–";

/// Whether a line of a template stands for many.
pub(crate) fn is_many(line: &str) -> bool {
    line.starts_with(EACH)
}

/// The lines that one stands for, and how many figures they have.
///
/// # Errors
/// When what is repeated, or a figure, is named in a way that makes no sense.
pub(crate) fn filled(line: &str, kept: &Kept) -> Result<std::result::Result<(String, usize), Missing>> {
    let (each, rest) =
        line.strip_prefix(EACH).and_then(|line| line.split_once('}')).with_context(|| format!("no end of `{line}`"))?;
    let words: Vec<&str> = each.split_whitespace().collect();
    let pieces = pieces(rest)?;
    let (file, of) = match words.as_slice() {
        [of @ ("claims" | "missed"), file] => (*file, Of::Claims { missed: *of == "missed" }),
        [file, cases] => (*file, Of::Cases { cases, systems: None }),
        [file, cases, systems] => (*file, Of::Cases { cases, systems: Some(systems) }),
        _ => bail!("`{{each {each}}}` is nothing that can be repeated"),
    };
    of.check(&pieces)?;
    let Some(results) = kept.file(file) else { return Ok(Err(Missing::File(format!("there is no {file}.json")))) };
    let mut lines = Lines { pieces: &pieces, found: vec![false; pieces.len()], text: String::new(), figures: 0 };
    match &of {
        Of::Claims { missed } => {
            let claims = results.claims.iter();
            if claims.len() == 0 {
                return Ok(Err(Missing::Row(format!("there is no claim of {file}"))));
            }
            claims
                .filter(|claim| !missed || claim.holds == Some(false))
                .try_for_each(|claim| lines.add_claim(claim))?;
            // All that a claim says it has, though it may not have been measured.
            return Ok(Ok((lines.text, lines.figures)));
        }
        Of::Cases { cases, systems } => {
            for case in results.cases(cases) {
                match systems {
                    None => lines.add(results, case, None)?,
                    Some(systems) => results
                        .systems()
                        .filter(|system| systems.split('|').any(|one| one == "*" || one == *system))
                        .try_for_each(|system| lines.add(results, case, Some(system)))?,
                }
            }
        }
    }
    let is_due = |name: &str| match (&of, name.split_whitespace().collect::<Vec<_>>().as_slice()) {
        (Of::Cases { cases, systems: None }, [system, metric, _]) => {
            let has = |system, metric| results.has(cases, system, metric);
            !has(Some(*system), None) || !has(None, Some(*metric))
        }
        _ => true,
    };
    let missing = lines.missing().find(|name| is_due(name));
    Ok(match missing {
        Some(piece) => Err(Missing::Row(format!("there is no {piece} of {file} {}", words[1..].join(" ")))),
        None => Ok((lines.text, lines.figures)),
    })
}

/// What is repeated.
enum Of<'a> {
    Cases { cases: &'a str, systems: Option<&'a str> },
    Claims { missed: bool },
}

impl Of<'_> {
    /// Whether all pieces make sense, of whatever is repeated.
    fn check(&self, pieces: &[Piece<'_>]) -> Result<()> {
        for piece in pieces {
            let Piece::Named(name) = piece else { continue };
            let words: Vec<&str> = name.split_whitespace().collect();
            let format = match (self, words.as_slice()) {
                (Self::Claims { .. }, ["what" | "metric" | "aim" | "holds"]) | (_, ["case" | "system"]) => None,
                (_, ["case", part]) => {
                    let makes_sense = part.parse::<usize>().is_ok_and(|part| part > 0);
                    ensure!(makes_sense, "`{{{name}}}` is no part of a case");
                    None
                }
                (Self::Claims { .. }, ["measured", format])
                | (Self::Cases { systems: Some(_), .. }, [_, format])
                | (Self::Cases { systems: None, .. }, [_, _, format]) => Some(*format),
                _ => bail!("`{{{name}}}` is nothing that can be repeated"),
            };
            if let Some(format) = format {
                figure::formatted(1.0, format).with_context(|| format!("`{{{name}}}` is no figure"))?;
            }
        }
        Ok(())
    }
}

/// A part of a line.
pub(crate) enum Piece<'a> {
    Text(&'a str),
    /// What a name in braces stands for.
    Named(&'a str),
}

/// The parts of a line.
///
/// # Errors
/// When a name in braces has no end.
pub(crate) fn pieces(line: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').with_context(|| format!("no end of `{{{after}`"))?;
        pieces.extend([Piece::Text(before), Piece::Named(name)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// The lines so far.
struct Lines<'a> {
    pieces: &'a [Piece<'a>],
    /// The pieces that some line had a figure of.
    found: Vec<bool>,
    text: String,
    figures: usize,
}

impl Lines<'_> {
    /// A line for a case, and a system if it is of one, unless it has no figure.
    fn add(&mut self, results: &Results, case: &str, system: Option<&str>) -> Result<()> {
        let figure = |words: &[&str]| match (words, system) {
            ([metric, _], Some(system)) => results.value(case, system, metric),
            ([system, metric, _], None) => results.value(case, system, metric),
            _ => None,
        };
        let (text, found) = self.line(case, system, |_| None, figure)?;
        if !found.is_empty() {
            self.text.push_str(&text);
            self.figures += found.len();
            found.into_iter().for_each(|at| self.found[at] = true);
        }
        Ok(())
    }

    /// A line for a claim.
    fn add_claim(&mut self, claim: &Claim) -> Result<()> {
        let said = |word: &str| match word {
            "what" => Some(claim.what.as_str()),
            "metric" => Some(claim.metric.as_str()),
            "aim" => Some(claim.aim.as_str()),
            "holds" => Some(match claim.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => NONE,
            }),
            _ => None,
        };
        let figure = |words: &[&str]| match words {
            [_, _] => claim.measured,
            _ => None,
        };
        let (text, found) = self.line(&claim.case, Some(&claim.system), said, figure)?;
        self.text.push_str(&text);
        self.figures += found.len();
        Ok(())
    }

    /// A line, and the pieces that are figures which there are.
    fn line<'c>(
        &self,
        case: &str,
        system: Option<&str>,
        said: impl Fn(&str) -> Option<&'c str>,
        figure: impl Fn(&[&str]) -> Option<f64>,
    ) -> Result<(String, Vec<usize>)> {
        let (mut text, mut found) = (String::new(), Vec::new());
        for (at, piece) in self.pieces.iter().enumerate() {
            let name = match piece {
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Named(name) => *name,
            };
            let words: Vec<&str> = name.split_whitespace().collect();
            match words.as_slice() {
                ["case"] => text.push_str(case),
                ["case", part] => {
                    let part = part.parse::<usize>().ok().and_then(|part| case.split('/').nth(part.checked_sub(1)?));
                    text.push_str(part.with_context(|| format!("`{case}` has no such part as `{{{name}}}`"))?);
                }
                ["system"] => text.push_str(system.with_context(|| format!("`{{{name}}}` is of no line of cases"))?),
                [word] => text.push_str(said(word).with_context(|| format!("`{{{name}}}` is no figure"))?),
                [.., format] => match figure(&words) {
                    Some(value) => {
                        text.push_str(&figure::formatted(value, format).with_context(|| format!("`{{{name}}}`"))?);
                        found.push(at);
                    }
                    None => text.push_str(NONE),
                },
                [] => bail!("`{{{name}}}` is no figure"),
            }
        }
        Ok((text, found))
    }

    /// The names of the figures that no line has.
    fn missing(&self) -> impl Iterator<Item = &str> + use<'_> {
        self.pieces.iter().zip(&self.found).filter_map(|(piece, found)| match piece {
            Piece::Named(name) if !found && !["case", "system"].contains(&name.split(' ').next()?) => Some(*name),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept::of(
            "rpc",
            r#"{"commit":"abcdef0","claims":[
                {"what":"near","case":"m/a","system":"x","metric":"r","aim":"<= 1","measured":0.5,"holds":true},
                {"what":"far","case":"m/b","system":"y","metric":"q","aim":">= 2","measured":1,"holds":false},
                {"what":"new","case":"m/c","system":"y","metric":"q","aim":">= 2","measured":null,"holds":null}],"rows":[
                {"case":"m/a","system":"x","metric":"r","value":0.934},{"case":"m/b","system":"y","metric":"r","value":2},
                {"case":"m/b","system":"x","metric":"q","value":7},{"case":"n","system":"x","metric":"r","value":3}]}"#,
        )
    }

    fn lines(line: &str) -> String {
        filled(&format!("{line}\n"), &kept()).unwrap().unwrap().0
    }

    #[test]
    fn a_line_is_repeated_for_each_case_and_system_that_has_figures() {
        assert_eq!(
            lines("{each rpc m/* *}| {case 2} | {system} | {r 1} | {q 0} |"),
            "| a | x | 0.9 | – |\n| b | x | – | 7 |\n| b | y | 2.0 | – |\n"
        );
        assert_eq!(lines("{each rpc * y|x}| {case} | {system}: {r 0} |"), "| n | x: 3 |\n");
        assert_eq!(lines("{each rpc m/*}| {case} | {x r 1} | {y r 1} |"), "| m/a | 0.9 | – |\n| m/b | – | 2.0 |\n");
        assert_eq!(filled("{each rpc m/* *}{r 1} {q 1}\n", &kept()).unwrap().unwrap().1, 3);
    }

    #[test]
    fn claims_are_told_and_those_that_are_missed() {
        let line = "| {what} | {case}: {system} {metric} | {aim} | {measured s2} | {holds} |";
        assert_eq!(
            lines(&format!("{{each claims rpc}}{line}")),
            "| near | m/a: x r | <= 1 | 0.50 | yes |\n| far | m/b: y q | >= 2 | 1.0 | no |\n| new | m/c: y q | >= 2 | – | – |\n"
        );
        assert_eq!(lines(&format!("{{each missed rpc}}{line}")), "| far | m/b: y q | >= 2 | 1.0 | no |\n");
    }

    #[test]
    fn a_figure_that_no_line_has_is_missing() {
        let why = |line: &str| match filled(line, &kept()).unwrap().unwrap_err() {
            Missing::File(why) | Missing::Row(why) => why,
        };
        assert_eq!(why("{each path * *}{r 1}"), "there is no path.json");
        assert_eq!(why("{each rpc m/* *}{r 1} {s 1}"), "there is no s 1 of rpc m/* *");
        assert_eq!(why("{each rpc m/*}{x r 1} {z r 1}"), "there is no z r 1 of rpc m/*");
        assert_eq!(why("{each rpc m/*}{x r 1} {y s 1}"), "there is no y s 1 of rpc m/*");
        assert_eq!(why("{each rpc none *}{r 1}"), "there is no r 1 of rpc none *");
        assert_eq!(lines("{each rpc m/*}{x r 1} {y q 1}"), "0.9 –\n", "others have it");
        let none = Kept::of("rpc", r#"{"commit":"abcdef0"}"#);
        assert!(filled("{each missed rpc}{aim}", &none).unwrap().is_err());
    }

    #[test]
    fn what_makes_no_sense_is_an_error_even_without_results() {
        for wrong in [
            "{each path}",
            "{each path * *",
            "{each path * *}{r nonsense}",
            "{each path * *}{x r 1}",
            "{each path *}{r 1}",
            "{each path * *}{case 0}",
            "{each path * *}{what}",
            "{each claims path}{measured}",
            "{each claims path}{why}",
        ] {
            assert!(filled(wrong, &kept()).is_err(), "{wrong}");
        }
        assert!(filled("{each rpc n *}{case 2} {r 1}", &kept()).is_err());
    }
}
