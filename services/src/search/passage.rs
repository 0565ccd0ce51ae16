//! Reading one candidate: how near to one another its text has the words of the query, and which lines show it best.
//!
//! BM25 knows how often words occur in a document, not where. The second look takes the text itself and finds
//!
//! - how many of the query's words occur at all (*coverage*),
//! - the shortest stretch of text that has all those that do (*proximity*),
//! - how many of the query's neighbours are neighbours in the text too (*adjacency*: a phrase).

use std::ops::Range;

/// What was found in one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// By how much the candidate's score is multiplied: from 1 (nothing found) to 1 + 3.
    pub boost: f32,
    /// The bytes of the text that show the match best; empty if nothing was found.
    pub passage: Range<usize>,
}

/// Reads `text` for the query's `words`, which are lower case.
pub fn read(text: &str, words: &[String]) -> Reading {
    let found = occurrences(text, words);
    let Some(window) = best_window(&found, words.len()) else {
        return Reading { boost: 1.0, passage: 0..0 };
    };
    let coverage = window.distinct as f32 / words.len() as f32;
    let span = (found[window.last].position - found[window.first].position + 1) as f32;
    let proximity = window.distinct as f32 / span;
    let boost = 1.0 + coverage + coverage * proximity + adjacency(&found, words.len());
    let matched = found[window.first].bytes.start..found[window.last].bytes.end;
    Reading { boost, passage: around(text, matched) }
}

/// The longest passage that is shown, in bytes.
pub const PASSAGE: usize = 240;

#[derive(Debug)]
struct Occurrence {
    /// Which of the query's words.
    word: usize,
    /// The how-manieth word of the text.
    position: usize,
    bytes: Range<usize>,
}

/// Finds the words as the index's tokenizer does: runs of alphanumeric characters, in lower case.
fn occurrences(text: &str, words: &[String]) -> Vec<Occurrence> {
    let mut found = Vec::new();
    let mut position = 0;
    let mut rest = 0;
    while let Some(offset) = text[rest..].find(char::is_alphanumeric) {
        let start = rest + offset;
        let end = text[start..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |length| start + length);
        let token = &text[start..end];
        if let Some(word) = words.iter().position(|word| is_same(token, word)) {
            found.push(Occurrence { word, position, bytes: start..end });
        }
        position += 1;
        rest = end;
    }
    found
}

fn is_same(token: &str, word: &str) -> bool {
    if token.is_ascii() {
        return token.eq_ignore_ascii_case(word);
    }
    token.chars().flat_map(char::to_lowercase).eq(word.chars())
}

struct Window {
    first: usize,
    last: usize,
    distinct: usize,
}

/// The shortest run of occurrences that has every word which occurs at all.
fn best_window(found: &[Occurrence], words: usize) -> Option<Window> {
    let mut present = vec![0_usize; words];
    for occurrence in found {
        present[occurrence.word] += 1;
    }
    let distinct = present.iter().filter(|count| **count > 0).count();
    present.fill(0);
    let (mut first, mut inside) = (0, 0);
    let mut best: Option<Window> = None;
    let length = |first: usize, last: usize| found[last].position - found[first].position;
    for (last, occurrence) in found.iter().enumerate() {
        present[occurrence.word] += 1;
        inside += usize::from(present[occurrence.word] == 1);
        while inside == distinct {
            if best.as_ref().is_none_or(|best| length(first, last) < length(best.first, best.last)) {
                best = Some(Window { first, last, distinct });
            }
            let leaving = found[first].word;
            present[leaving] -= 1;
            inside -= usize::from(present[leaving] == 0);
            first += 1;
        }
    }
    best
}

/// The share of the query's neighbouring words that are neighbours, in the same order, somewhere in the text.
fn adjacency(found: &[Occurrence], words: usize) -> f32 {
    if words < 2 {
        return 0.0;
    }
    let mut together = vec![false; words - 1];
    for pair in found.windows(2) {
        if let [left, right] = pair
            && right.position == left.position + 1
            && right.word == left.word + 1
        {
            together[left.word] = true;
        }
    }
    together.iter().filter(|together| **together).count() as f32 / (words - 1) as f32
}

/// The lines around the matched bytes, as far as they fit into [`PASSAGE`].
fn around(text: &str, matched: Range<usize>) -> Range<usize> {
    let matched = matched.start..matched.end.min(text.floor_char_boundary(matched.start + PASSAGE));
    let line = text[..matched.start].rfind('\n').map_or(0, |end| end + 1);
    let earliest = text.ceil_char_boundary(matched.start.saturating_sub(PASSAGE - matched.len()));
    let start = line.max(earliest);
    let line_end = text[matched.end..].find('\n').map_or(text.len(), |length| matched.end + length);
    let end = line_end.min(text.floor_char_boundary(start + PASSAGE)).max(matched.end);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boost(text: &str, query: &str) -> f32 {
        let words: Vec<_> = query.split(' ').map(str::to_owned).collect();
        read(text, &words).boost
    }

    fn passage<'a>(text: &'a str, query: &str) -> &'a str {
        let words: Vec<_> = query.split(' ').map(str::to_owned).collect();
        &text[read(text, &words).passage]
    }

    #[test]
    fn a_phrase_beats_neighbours_in_another_order_beats_words_far_apart() {
        let phrase = boost("so the completion queue drains", "completion queue");
        let swapped = boost("so the queue completion drains", "completion queue");
        let apart = boost("the completion of what is in the long queue", "completion queue");
        let one = boost("so the completion drains", "completion queue");
        assert!(phrase > swapped && swapped > apart && apart > one && one > 1.0);
    }

    #[test]
    fn the_boost_stays_within_its_bounds() {
        assert_eq!(boost("nothing here", "completion queue"), 1.0);
        assert_eq!(boost("completion queue", "completion queue"), 4.0);
    }

    #[test]
    fn words_are_found_whatever_their_case_and_script() {
        assert!(boost("ÄPFEL und Birnen", "äpfel birnen") > 2.0);
        assert_eq!(boost("Äpfelsaft", "äpfel"), 1.0);
    }

    #[test]
    fn identifiers_fall_apart_at_underscores_as_in_the_index() {
        assert!(boost("fn poll_next(self)", "poll next") > 3.9);
    }

    #[test]
    fn the_passage_is_the_line_of_the_nearest_match() {
        let text = "first line with queue\nthen the completion queue drains\nlast line with completion";
        assert_eq!(passage(text, "completion queue"), "then the completion queue drains");
    }

    #[test]
    fn a_long_passage_is_cut_between_characters_and_keeps_the_match() {
        let text = format!("{} completion {}", "€".repeat(500), "€".repeat(500));
        let shown = passage(&text, "completion");
        assert!(shown.contains("completion") && shown.len() <= PASSAGE, "{} bytes", shown.len());
        let far = format!("completion {} queue", "€ ".repeat(500));
        assert!(passage(&far, "completion queue").starts_with("completion"));
    }

    #[test]
    fn a_word_that_the_query_has_twice_counts_once() {
        assert!(boost("queue", "queue queue") <= 2.5);
    }
}
