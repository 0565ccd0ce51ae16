//! Figures that stand in documents outside of the parts that are written from results.
//!
//! A number with a unit is one, its own or that of the number that it is joined to, and any number in a table. Each is known by
//! its document and what it says, as `README.md: 5 us`, in one of two lists in `docs/results`:
//! - `stated.txt`: what is a setting, a size or another fact, and nothing that was measured;
//! - `by-hand.txt`: what was measured by hand, as its document says, and is in no result. It becomes shorter, and never longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::document::without_parts;

/// What makes a number a figure that stands before it.
const UNITS: [&str; 22] = [
    "%",
    "ns",
    "us",
    "ms",
    "s",
    "minutes",
    "hours",
    "Mbit/s",
    "Gbit/s",
    "MB/s",
    "GB/s",
    "KiB",
    "MiB",
    "GiB",
    "KB",
    "MB",
    "calls",
    "requests",
    "puts",
    "times",
    "instructions",
    "million",
];

/// The figures that are known not to be written from results.
pub(crate) struct Known {
    stated: BTreeSet<String>,
    by_hand: BTreeSet<String>,
}

impl Known {
    /// Reads both lists of a folder.
    ///
    /// # Errors
    /// When one can't be read.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let list = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
            let entries = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            Ok::<_, anyhow::Error>(entries.map(str::to_owned).collect::<BTreeSet<_>>())
        };
        Ok(Self { stated: list("stated.txt")?, by_hand: list("by-hand.txt")? })
    }

    /// Figures of a document that may have been measured, and aren't written from results.
    pub(crate) fn not_stated(&self, name: &str, document: &str) -> Vec<String> {
        figures(document).into_iter().filter(|figure| !self.stated.contains(&entry(name, figure))).collect()
    }

    /// Figures of a document that are in neither list.
    pub(crate) fn unknown(&self, name: &str, document: &str) -> Vec<String> {
        let mut unknown = self.not_stated(name, document);
        unknown.retain(|figure| !self.by_hand.contains(&entry(name, figure)));
        unknown
    }

    /// The documents that have figures which were measured by hand, and how many there are of these.
    #[cfg(test)]
    pub(crate) fn by_hand(&self) -> BTreeMap<&str, usize> {
        let mut documents = BTreeMap::new();
        for (document, _) in self.by_hand.iter().filter_map(|entry| entry.split_once(": ")) {
            *documents.entry(document).or_default() += 1;
        }
        documents
    }

    /// Entries of the lists that no document has any more.
    pub(crate) fn gone(&self, documents: &BTreeMap<String, String>) -> Vec<String> {
        let there: BTreeSet<String> = documents
            .iter()
            .flat_map(|(name, text)| figures(text).into_iter().map(move |figure| entry(name, &figure)))
            .collect();
        self.stated.iter().chain(&self.by_hand).filter(|entry| !there.contains(*entry)).cloned().collect()
    }
}

fn entry(name: &str, figure: &str) -> String {
    format!("{name}: {figure}")
}

/// The figures of a document outside of parts and code, each once, in their order.
fn figures(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in without_parts(document).lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            of_line(&plain(line), line.starts_with('|'), &mut found);
        }
    }
    found
}

/// A line without inline code and the targets of links.
fn plain(line: &str) -> String {
    let mut text = String::new();
    for (at, piece) in line.split('`').enumerate() {
        // What is code stands for a word.
        text.push_str(if at % 2 == 0 { piece } else { "code" });
    }
    while let Some(begin) = text.find("](") {
        let end = text[begin..].find(')').map_or(text.len(), |end| begin + end + 1);
        text.replace_range(begin..end, "]");
    }
    text
}

fn of_line(line: &str, is_table: bool, found: &mut Vec<String>) {
    let words: Vec<&str> =
        line.split(|c: char| c.is_whitespace() || c == '|').filter(|word| !word.is_empty()).collect();
    let mut figures: Vec<Option<(&str, Option<&str>)>> =
        (0..words.len()).map(|at| number(words[at]).map(|number| (number, unit(&words, at)))).collect();
    for at in 0..words.len() {
        if let Some((_, Some(unit))) = figures[at] {
            before(&words, at, &mut figures, unit);
        }
    }
    for (number, unit) in figures.into_iter().flatten() {
        let figure = match unit {
            Some(unit) => format!("{number} {unit}"),
            None if is_table => number.to_owned(),
            None => continue,
        };
        if !found.contains(&figure) {
            found.push(figure);
        }
    }
}

/// The number that a word is, without what stands around it.
fn number(word: &str) -> Option<&str> {
    let number = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '%');
    let number = number.strip_suffix('%').unwrap_or(number);
    let is_number = !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.')
        // Words with a number in them are names, such as `p99`.
        && !word.trim_end_matches(|c: char| !c.is_alphanumeric()).bytes().any(|byte| byte.is_ascii_alphabetic());
    is_number.then_some(number)
}

/// The unit of the number at a place, which is part of the word or the next one.
fn unit(words: &[&str], at: usize) -> Option<&'static str> {
    let word = words[at];
    if word.trim_matches(|c: char| !c.is_ascii_digit() && c != '%').ends_with('%') {
        return Some("%");
    }
    let ends = word.ends_with([',', ';', ':', ')']);
    let next = words.get(at + 1).filter(|_| !ends)?.trim_end_matches([',', '.', ';', ':', ')', '?']);
    UNITS.into_iter().find(|unit| next == *unit)
}

/// Gives a number's unit to those without one that share it: `33` in `33 and 20 %`, `5` and `10` in `5, 10 or 20 ms`.
fn before<'a>(words: &[&str], at: usize, figures: &mut [Option<(&'a str, Option<&'a str>)>], unit: &'a str) {
    let Some(join) = at.checked_sub(1).filter(|join| JOINS.contains(&words[*join])) else { return };
    for place in (0..join).rev() {
        // Of more than two, all but the last of those before the join end with a comma.
        let is_next = place + 1 == join || words[place].ends_with(',');
        match &mut figures[place] {
            Some((_, own @ None)) if is_next => *own = Some(unit),
            _ => return,
        }
    }
}

/// What stands between numbers that share the unit of the last.
const JOINS: [&str; 3] = ["and", "or", "to"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_figures_and_all_numbers_in_tables() {
        let text =
            "Of 46 programs it takes 1.02 times as long, 53 ns (p99: 509 ns) and 35 %.\n| a | 10.0 us | 14.7 | `7` |";
        assert_eq!(figures(text), ["1.02 times", "53 ns", "509 ns", "35 %", "10.0 us", "14.7"]);
    }

    #[test]
    fn a_unit_is_shared_by_the_numbers_that_are_joined_before_it() {
        let of = |text: &str| figures(text).join(", ");
        assert_eq!(of("of which 33 and 20 % were late"), "33 %, 20 %");
        assert_eq!(of("(2 to 5 us, or 0.5 or 1.5 times)"), "2 us, 5 us, 0.5 times, 1.5 times");
        assert_eq!(of("5, 10, 20 and 40 ms"), "5 ms, 10 ms, 20 ms, 40 ms");
        // Each has its own here, and what isn't joined has none.
        assert_eq!(of("3 us and 7 ms, 12 cores and 2 s, in 2015 we"), "3 us, 7 ms, 2 s");
        assert_eq!(of("as in 2015. Of 8, 9 ms; between 16 and"), "9 ms");
    }

    #[test]
    fn code_links_names_and_parts_have_none() {
        let text = "`5 us` [5](docs/5 ms.md) p99 ms, HTTP/1.1 ms v3 s\n```\n5 us\n```\n<!-- figures: x -->\n6 us\n<!-- end of figures -->";
        assert_eq!(figures(text), Vec::<String>::new());
    }

    #[test]
    fn what_is_in_a_list_is_known_and_what_is_gone_is_told() {
        let list = |entries: &[&str]| entries.iter().map(|&entry| entry.to_owned()).collect();
        let known = Known { stated: list(&["a.md: 5 us"]), by_hand: list(&["a.md: 6 us", "a.md: 7 us"]) };
        let text = "5 us, 6 us and 8 us".to_owned();
        assert_eq!(known.not_stated("a.md", &text), ["6 us", "8 us"]);
        assert_eq!(known.unknown("a.md", &text), ["8 us"]);
        assert_eq!(known.gone(&BTreeMap::from([("a.md".to_owned(), text)])), ["a.md: 7 us"]);
    }
}
