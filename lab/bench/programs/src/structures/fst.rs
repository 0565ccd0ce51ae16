//! Builds a set of words as an automaton, and looks words up in it and walks it (crate `fst`).

use fst::{IntoStreamer, Map, MapBuilder, Streamer};

use crate::{Job, Scale, checksum};

const WORDS: usize = 65_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let words = words(scale.of(WORDS));
    Box::new(move || {
        let map = built(&words);
        let found = words.iter().rev().map(|word| map.get(word).unwrap_or(0)).enumerate();
        let found = checksum(found.map(|(at, value)| value ^ at as u64));
        let (mut stream, mut walked) = (map.range().ge("ba").lt("t").into_stream(), 0_u64);
        while let Some((word, value)) = stream.next() {
            walked = walked.rotate_left(5) ^ value ^ word.len() as u64;
        }
        checksum([found, walked])
    })
}

fn built(words: &[String]) -> Map<Vec<u8>> {
    let mut builder = MapBuilder::memory();
    for (at, word) in words.iter().enumerate() {
        builder.insert(word, at as u64).expect("the words are sorted");
    }
    builder.into_map()
}

fn words(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(59);
    let mut letter = |from: &[u8]| char::from(from[random.usize(0..from.len())]);
    let mut word = || (0..4).flat_map(|_| [letter(b"bcdfgklmnprst"), letter(b"aeiou")]).collect::<String>();
    let mut words: Vec<String> = (0..count).map(|_| word()).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_and_no_other() {
        let words = words(500);
        let map = built(&words);
        assert!(words.iter().enumerate().all(|(at, word)| map.get(word) == Some(at as u64)));
        assert_eq!(map.get("bab"), None);
    }
}
