//! Looks for keys among words that are encrypted before they are compared (Phoenix `string_match`).

use crate::{Job, Scale, checksum};

const WORDS: usize = 3_000_000;
const LONGEST: usize = 16;
const KEYS: [&str; 4] = ["Helloworld", "howareyou", "ferrari", "whotheman"];

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = String::new();
    for _ in 0..scale.of(WORDS) {
        match random.u32(0..100) {
            0 => text.push_str(random.choice(KEYS).unwrap_or_default()),
            _ => (0..random.usize(3..LONGEST)).for_each(|_| text.push(random.alphabetic())),
        }
        text.push('\n');
    }
    Box::new(move || checksum(matches(&text).map(|count| count as u64)))
}

/// How often each of the keys occurs among the lines of a text.
fn matches(text: &str) -> [usize; 4] {
    let keys = KEYS.map(encrypted);
    let mut counts = [0; 4];
    for word in text.lines() {
        let word = encrypted(word);
        for (key, count) in keys.iter().zip(&mut counts) {
            if *key == word {
                *count += 1;
            }
        }
    }
    counts
}

/// A toy: every byte is shifted by its place.
fn encrypted(word: &str) -> [u8; LONGEST] {
    let mut encrypted = [0; LONGEST];
    for (place, byte) in word.bytes().take(LONGEST).enumerate() {
        encrypted[place] = byte.wrapping_add(5 + place as u8);
    }
    encrypted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_keys_are_found_as_plain_comparison_finds() {
        let mut lines = vec!["x", "Helloworlds", "ferrar", "", "howareyou"];
        lines.extend(["ferrari"; 3]);
        let counts = KEYS.map(|key| lines.iter().filter(|line| **line == key).count());
        assert_eq!(matches(&lines.join("\n")), counts);
        assert_eq!(counts, [0, 1, 3, 0]);
    }
}
