//! The parts of a document that are written from results.
//!
//! A part stands between two comments, the first of which names it:
//! ```text
//! <!-- figures: latency -->
//! The p50 is 10.0 us.
//! <!-- end of figures -->
//! ```
//! What it is written from is in a file of templates, `docs/figures/DOCUMENT.in`, between the same comments, with
//! names in place of figures:
//! ```text
//! <!-- figures: latency -->
//! The p50 is {rpc unary-64B-inflight-1 greenwave p50_us 1} us.
//! <!-- end of figures -->
//! ```
//! A [line](lines) can stand for all rows of a table.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::figure::{self, Missing};
use super::files::Kept;
use super::lines::{self, Piece};

const BEGIN: &str = "<!-- figures: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end of figures -->";

/// What the parts of a document are written from, by their names.
#[derive(Debug, Default)]
pub(crate) struct Templates(BTreeMap<String, String>);

impl Templates {
    /// Those of a file. What stands outside of them is for who reads it.
    ///
    /// # Errors
    /// When one has no end, or two have the same name.
    pub(crate) fn of(text: &str) -> Result<Self> {
        let mut templates = BTreeMap::new();
        let mut lines = text.split_inclusive('\n');
        while let Some(line) = lines.next() {
            let Some(name) = named(line) else { continue };
            let template = until_end(&mut lines, name)?;
            ensure!(templates.insert(name.to_owned(), template).is_none(), "two templates are called `{name}`");
        }
        Ok(Self(templates))
    }
}

/// A document with its figures written.
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// How many figures were written.
    pub(crate) figures: usize,
    /// Parts that are left as they are, and why.
    pub(crate) pending: Vec<String>,
    /// Lines that were to be there and weren't, or were there and weren't to be.
    pub(crate) stale: Vec<String>,
}

/// Writes all parts of a document. One of whose benchmark there are no results, or which lack a figure, is left as it is.
///
/// # Errors
/// When a part has no end or no template, a template no part, or a figure is named in a way that makes no sense.
pub(crate) fn written(document: &str, templates: &Templates, kept: &Kept) -> Result<Outcome> {
    let mut outcome = Outcome { text: String::new(), figures: 0, pending: Vec::new(), stale: Vec::new() };
    let mut unused = templates.0.clone();
    let mut lines = document.split_inclusive('\n');
    while let Some(line) = lines.next() {
        outcome.text.push_str(line);
        let Some(name) = named(line) else { continue };
        let template = unused.remove(name).with_context(|| match templates.0.contains_key(name) {
            true => format!("two parts are called `{name}`"),
            false => format!("there is no template of the part `{name}`"),
        })?;
        let there = until_end(&mut lines, name)?;
        let mut figures = 0;
        let part = match filled(&template, kept, &mut figures)? {
            Ok(part) => {
                outcome.figures += figures;
                outcome.stale.extend(differ(&part, &there));
                part
            }
            Err(Missing::File(why) | Missing::Row(why)) => {
                outcome.pending.push(why);
                there
            }
        };
        for piece in [&part, END, "\n"] {
            outcome.text.push_str(piece);
        }
    }
    // The last line may be without an end.
    if !document.ends_with('\n') && outcome.text.ends_with('\n') {
        outcome.text.pop();
    }
    if let Some(name) = unused.keys().next() {
        bail!("no part is called `{name}`, of which there is a template");
    }
    Ok(outcome)
}

/// In which lines what is there differs from what is to be there.
fn differ(part: &str, there: &str) -> Vec<String> {
    let only = |of: &str, other: &str| -> Vec<String> {
        of.lines().filter(|line| !other.lines().any(|it| it == *line)).map(str::to_owned).collect()
    };
    let new = only(part, there);
    match (new.is_empty(), part == there) {
        (false, _) => new,
        (true, true) => Vec::new(),
        // Some are too many, or stand in another order.
        (true, false) => Some(only(there, part)).filter(|old| !old.is_empty()).unwrap_or_else(|| only(there, "")),
    }
}

/// The name of the part that a line begins, if it begins one.
fn named(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(BEGIN)?.strip_suffix(CLOSE)
}

/// What comes up to the end of a part.
fn until_end<'a>(lines: &mut impl Iterator<Item = &'a str>, part: &str) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        if line.trim_end() == END {
            return Ok(text);
        }
        ensure!(named(line).is_none(), "another part begins before the end of `{part}`, a line of `{END}`");
        text.push_str(line);
    }
    bail!("the part `{part}` has no end, a line of `{END}`")
}

/// A part with its figures in place of their names.
fn filled(template: &str, kept: &Kept, figures: &mut usize) -> Result<std::result::Result<String, Missing>> {
    let mut text = String::new();
    let mut missing = None;
    // All lines are looked at, so that what makes no sense is found even where there are no results yet.
    for line in template.split_inclusive('\n') {
        let done = if lines::is_many(line) { lines::filled(line, kept)? } else { one(line, kept)? };
        match done {
            Ok((line, count)) => {
                text.push_str(&line);
                *figures += count;
            }
            Err(why) => missing = missing.or(Some(why)),
        }
    }
    Ok(missing.map_or(Ok(text), Err))
}

/// A line that stands for itself, and how many figures it has.
fn one(line: &str, kept: &Kept) -> Result<std::result::Result<(String, usize), Missing>> {
    let (mut text, mut figures, mut missing) = (String::new(), 0, None);
    for piece in lines::pieces(line)? {
        let name = match piece {
            Piece::Text(piece) => {
                text.push_str(piece);
                continue;
            }
            Piece::Named(name) => name,
        };
        match figure::shown(name, kept)? {
            Ok(figure) => text.push_str(&figure),
            Err(why) => missing = missing.or(Some(why)),
        }
        figures += 1;
    }
    Ok(missing.map_or(Ok((text, figures)), Err))
}

/// A document without the parts that are written from results.
pub(crate) fn without_parts(document: &str) -> String {
    let mut text = String::new();
    let mut is_part = false;
    for line in document.lines() {
        is_part = is_part || named(line).is_some();
        if !is_part {
            text.push_str(line);
        }
        text.push('\n');
        is_part = is_part && line.trim_end() != END;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept::of("rpc", r#"{"commit":"abcdef0","rows":[{"case":"c","system":"s","metric":"p50_us","value":9.96}]}"#)
    }

    fn templates(figure: &str) -> Templates {
        Templates::of(&format!(
            "What is for the reader.\n<!-- figures: p50 -->\n| p50 | {{{figure}}} us |\n<!-- end of figures -->\n"
        ))
        .unwrap()
    }

    fn document(there: &str) -> String {
        format!("# Title\n<!-- figures: p50 -->\n{there}<!-- end of figures -->\nThe end")
    }

    #[test]
    fn figures_are_written_and_the_rest_stays() {
        let templates = templates("rpc c s p50_us 1");
        let outcome = written(&document("| p50 | 7 us |\n"), &templates, &kept()).unwrap();
        assert_eq!(outcome.text, document("| p50 | 10.0 us |\n"));
        assert_eq!((outcome.figures, outcome.stale), (1, vec!["| p50 | 10.0 us |".to_owned()]));
        let again = written(&outcome.text, &templates, &kept()).unwrap();
        assert_eq!((again.text, again.stale.len()), (outcome.text, 0));
    }

    #[test]
    fn lines_that_are_too_many_or_in_another_order_are_told() {
        let stale = |there: &str| written(&document(there), &templates("rpc c s p50_us 1"), &kept()).unwrap().stale;
        assert_eq!(stale("| p50 | 10.0 us |\n| p99 | 7 us |\n"), ["| p99 | 7 us |"]);
        assert_eq!(stale("| p50 | 10.0 us |\n| p50 | 10.0 us |\n").len(), 2);
        assert!(stale("| p50 | 10.0 us |\n").is_empty());
    }

    #[test]
    fn a_part_without_results_is_left_as_it_is_and_told() {
        for (name, why) in [("path c s p50_us 1", "there is no path.json"), ("rpc c s q 1", "there is no rpc c s q 1")]
        {
            let text = document("| p50 | 7 us |\n");
            let outcome = written(&text, &templates(name), &kept()).unwrap();
            assert_eq!((outcome.text, outcome.pending, outcome.figures), (text, vec![why.to_owned()], 0));
        }
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let error = |document: &str, templates: &Templates| {
            written(document, templates, &kept()).err().expect("it makes no sense").to_string()
        };
        let known = templates("rpc c s p50_us 1");
        assert_eq!(error(&document(""), &templates("what")), "`{what}` is no figure");
        assert_eq!(error(&document(""), &Templates::default()), "there is no template of the part `p50`");
        assert_eq!(error("# Title\n", &known), "no part is called `p50`, of which there is a template");
        assert_eq!(error(&format!("{}\n{}", document(""), document("")), &known), "two parts are called `p50`");
        assert_eq!(
            error("<!-- figures: p50 -->\nno end\n", &known),
            "the part `p50` has no end, a line of `<!-- end of figures -->`"
        );
        let nested = "<!-- figures: a -->\n<!-- figures: b -->\n<!-- end of figures -->\n";
        assert!(Templates::of(nested).unwrap_err().to_string().starts_with("another part begins"));
        let twice = "<!-- figures: a -->\n<!-- end of figures -->\n".repeat(2);
        assert_eq!(Templates::of(&twice).unwrap_err().to_string(), "two templates are called `a`");
    }

    #[test]
    fn parts_can_be_left_out_and_the_lines_keep_their_numbers() {
        let text = without_parts(&document("| p50 | 7 us |\n"));
        assert_eq!(text, "# Title\n\n\n\nThe end\n");
    }
}
