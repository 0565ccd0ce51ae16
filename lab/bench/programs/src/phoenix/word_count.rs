//! The words of a text by how often they occur (Phoenix `word_count`).

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::text;
use crate::{Job, Scale, checksum};

const WORDS: usize = 1_200_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = text::words(8, scale.of(WORDS));
    Box::new(move || checksum(word_count(&text).into_iter().map(|(word, count)| (word.len() as u64) << 32 | count)))
}

/// All words in capitals with their counts, the most frequent first, then by the alphabet.
fn word_count(text: &str) -> Vec<(String, u64)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut word = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphabetic() || letter == '\'' {
            word.push(letter.to_ascii_uppercase());
        } else if !word.is_empty() {
            count(&mut counts, &word);
            word.clear();
        }
    }
    if !word.is_empty() {
        count(&mut counts, &word);
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, a_count), (b, b_count)| (Reverse(a_count), a).cmp(&(Reverse(b_count), b)));
    counts
}

fn count(counts: &mut HashMap<String, u64>, word: &str) {
    match counts.get_mut(word) {
        Some(count) => *count += 1,
        None => {
            counts.insert(word.to_owned(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_whatever_their_case_and_ordered() {
        let counted = word_count("The cat, the dog; THE cat's tail... (dog) tail");
        let expected = [("THE", 3), ("DOG", 2), ("TAIL", 2), ("CAT", 1), ("CAT'S", 1)];
        assert_eq!(counted, expected.map(|(word, count)| (word.to_owned(), count)));
    }

    #[test]
    fn all_words_of_a_long_text_are_counted() {
        let text = text::words(1, 5000);
        assert_eq!(word_count(&text).iter().map(|(_, count)| count).sum::<u64>(), 5000);
    }
}
