//! Finds addresses, dates and numbers in text (crate `regex`).

use regex::Regex;

use crate::text;
use crate::{Job, Scale, checksum};

const LINES: usize = 90_000;
const WORDS_PER_LINE: usize = 12;

pub(crate) fn prepare(scale: Scale) -> Job {
    let patterns = patterns();
    let text = lines(scale.of(LINES));
    Box::new(move || checksum(patterns.iter().flat_map(|pattern| found(pattern, &text))))
}

/// An address, a date by its parts, a word before a number, and an alternation.
fn patterns() -> Vec<Regex> {
    [
        r"[[:word:].+-]+@[[:word:]-]+\.[[:word:].]+",
        r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})",
        r"\b([[:alpha:]]{4,})\s+(\d+)\b",
        r"(?i)(?:error|warn(?:ing)?|fatal)(?:\s+in)?\s+[a-z]+",
    ]
    .iter()
    .map(|pattern| Regex::new(pattern).expect("the patterns are fixed and well-formed"))
    .collect()
}

/// Where each match and the last of its groups begin and end.
fn found(pattern: &Regex, text: &str) -> Vec<u64> {
    let mut places = Vec::new();
    for captures in pattern.captures_iter(text) {
        for group in [captures.get(0), captures.get(captures.len() - 1)].into_iter().flatten() {
            places.push((group.start() as u64) << 32 | group.end() as u64);
        }
    }
    places
}

fn lines(count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(31);
    let words = text::words(32, count * WORDS_PER_LINE);
    let mut words = words.split_whitespace();
    let mut text = String::new();
    for line in 0..count {
        let (day, month) = (1 + line % 28, 1 + line % 12);
        text.push_str(&format!("{}-{month:02}-{day:02} ", 1970 + line % 60));
        words.by_ref().take(WORDS_PER_LINE).for_each(|word| text.extend([word, " "]));
        match random.u32(0..8) {
            0 => text.push_str("Warning in code"),
            1 => text.push_str(&format!("someone.{}@host.example", random.u32(0..1000))),
            2 => text.push_str(&format!("after {}", random.u32(..))),
            _ => {}
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_date() {
        let text = lines(300);
        let places = found(&patterns()[1], &text);
        let starts = text.match_indices('\n').map(|(end, _)| end + 1);
        let expected: Vec<u64> =
            [0].into_iter().chain(starts).take(300).map(|at| (at << 32 | (at + 10)) as u64).collect();
        assert_eq!(places.iter().copied().step_by(2).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn addresses_and_warnings_are_as_many_as_were_written() {
        let text = lines(300);
        assert_eq!(found(&patterns()[0], &text).len() / 2, text.matches("@host").count());
        assert_eq!(found(&patterns()[3], &text).len() / 2, text.matches("Warning in").count());
    }
}
