//! The parts of a document that are written from results.
//!
//! A part begins with a comment, in which it stands as it is to be, with names in place of figures, and ends with another:
//! ```text
//! <!-- figures:
//! The p50 is {rpc unary-64B-inflight-1 greenwave p50_us 1} us.
//! -->
//! The p50 is 10.0 us.
//! <!-- end of figures -->
//! ```

use anyhow::{Context, Result, bail};

use super::figure::{self, Missing};
use super::files::Kept;

const BEGIN: &str = "<!-- figures:";
const TOLD: &str = "-->";
const END: &str = "<!-- end of figures -->";

/// A document with its figures written.
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// How many figures were written.
    pub(crate) figures: usize,
    /// Parts that are left as they are, and why.
    pub(crate) pending: Vec<String>,
    /// Lines that were to be there and weren't.
    pub(crate) stale: Vec<String>,
}

/// Writes all parts of a document. One of whose benchmark there are no results, or which lack a figure, is left as it is.
///
/// # Errors
/// When a part has no end, or names a figure in a way that makes no sense.
pub(crate) fn written(document: &str, kept: &Kept) -> Result<Outcome> {
    let mut outcome = Outcome { text: String::new(), figures: 0, pending: Vec::new(), stale: Vec::new() };
    let mut lines = document.split_inclusive('\n');
    while let Some(line) = lines.next() {
        outcome.text.push_str(line);
        if line.trim_end() != BEGIN {
            continue;
        }
        let template = until(&mut lines, TOLD).context("a part isn't told to its end, by a line of `-->`")?;
        let there = until(&mut lines, END).with_context(|| format!("a part has no end, a line of `{END}`"))?;
        let mut figures = 0;
        let part = match filled(&template, kept, &mut figures)? {
            Ok(part) => {
                outcome.figures += figures;
                outcome
                    .stale
                    .extend(part.lines().filter(|line| !there.lines().any(|old| old == *line)).map(str::to_owned));
                part
            }
            Err(Missing::File(why) | Missing::Row(why)) => {
                outcome.pending.push(why);
                there
            }
        };
        for piece in [&template, TOLD, "\n", &part, END, "\n"] {
            outcome.text.push_str(piece);
        }
    }
    // The last line may be without an end.
    if !document.ends_with('\n') && outcome.text.ends_with('\n') {
        outcome.text.pop();
    }
    Ok(outcome)
}

/// What comes up to a line.
fn until<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        if line.trim_end() == end {
            return Ok(text);
        }
        text.push_str(line);
    }
    bail!("the document ends before")
}

/// A part with its figures in place of their names.
fn filled(template: &str, kept: &Kept, figures: &mut usize) -> Result<std::result::Result<String, Missing>> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').with_context(|| format!("no end of `{{{after}`"))?;
        text.push_str(before);
        match figure::shown(name, kept)? {
            Ok(figure) => text.push_str(&figure),
            Err(missing) => return Ok(Err(missing)),
        }
        *figures += 1;
        rest = after;
    }
    text.push_str(rest);
    Ok(Ok(text))
}

/// A document without the parts that are written from results.
pub(crate) fn without_parts(document: &str) -> String {
    let mut text = String::new();
    let mut is_part = false;
    for line in document.lines() {
        is_part = is_part || line.trim_end() == BEGIN;
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

    fn document(name: &str, there: &str) -> String {
        format!("# Title\n<!-- figures:\n| p50 | {{{name}}} us |\n-->\n{there}<!-- end of figures -->\nThe end")
    }

    #[test]
    fn figures_are_written_and_the_rest_stays() {
        let outcome = written(&document("rpc c s p50_us 1", "| p50 | 7 us |\n"), &kept()).unwrap();
        assert_eq!(outcome.text, document("rpc c s p50_us 1", "| p50 | 10.0 us |\n"));
        assert_eq!((outcome.figures, outcome.stale), (1, vec!["| p50 | 10.0 us |".to_owned()]));
        let again = written(&outcome.text, &kept()).unwrap();
        assert_eq!((again.text, again.stale.len()), (outcome.text, 0));
    }

    #[test]
    fn a_part_without_results_is_left_as_it_is_and_told() {
        for (name, why) in [("path c s p50_us 1", "there is no path.json"), ("rpc c s q 1", "there is no rpc c s q 1")]
        {
            let text = document(name, "| p50 | 7 us |\n");
            let outcome = written(&text, &kept()).unwrap();
            assert_eq!((outcome.text, outcome.pending, outcome.figures), (text, vec![why.to_owned()], 0));
        }
    }

    #[test]
    fn a_part_that_makes_no_sense_is_an_error() {
        assert!(written(&document("what", ""), &kept()).is_err());
        assert!(written("<!-- figures:\nno end\n", &kept()).is_err());
        assert!(written("<!-- figures:\n-->\nno end\n", &kept()).is_err());
    }

    #[test]
    fn parts_can_be_left_out_and_the_lines_keep_their_numbers() {
        let text = without_parts(&document("rpc c s p50_us 1", "| p50 | 7 us |\n"));
        assert_eq!(text, "# Title\n\n\n\n\n\nThe end\n");
    }
}
