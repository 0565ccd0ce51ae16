//! Questions as people ask them, drawn from the words of the index.
//!
//! A [`Sampler`] first makes up a pool of different questions: rare, middling and common words, and phrases of two and
//! three words that stand in the text. Then it draws from the pool by Zipf's law, as a few questions are asked often
//! and many once. Everything follows from the seed: the same index and seed give the same questions.

use std::fmt;

use crate::draw::{Draw, Zipf};
use crate::proto::search::QueryRequest;

use super::vocabulary::{Vocabulary, Word};

/// What a question is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A word that fewer than one section in a thousand has.
    Rare,
    /// A word in between.
    Middle,
    /// A word that one section in fifty has, or more.
    Common,
    /// Two words that follow each other in the text.
    TwoWords,
    /// Three words that follow each other in the text.
    ThreeWords,
}

impl Kind {
    /// Each kind with its share of the questions, in percent.
    pub const SHARES: [(Self, u32); 5] =
        [(Self::Rare, 20), (Self::Middle, 25), (Self::Common, 15), (Self::TwoWords, 25), (Self::ThreeWords, 15)];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rare => "rare word",
            Self::Middle => "middle word",
            Self::Common => "common word",
            Self::TwoWords => "two words",
            Self::ThreeWords => "three words",
        })
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it is made of.
    pub kind: Kind,
    /// Its text.
    pub text: String,
}

impl Question {
    /// The request that asks it.
    pub fn request(&self, limit: u32) -> QueryRequest {
        QueryRequest { text: self.text.clone(), limit }
    }
}

/// An endless source of questions.
#[derive(Clone, Debug)]
pub struct Sampler {
    pool: Vec<Question>,
    popularity: Zipf,
    draw: Draw,
}

impl Sampler {
    /// Different questions in the pool.
    pub const POOL: usize = 4096;

    /// How much more often the popular ones are asked: the exponent of Zipf's law.
    const SKEW: f64 = 0.8;

    /// Makes up the pool. `None` if the vocabulary has neither words nor phrases.
    pub fn new(vocabulary: &Vocabulary, seed: u64) -> Option<Self> {
        let mut draw = Draw::new(seed);
        let source = Source::of(vocabulary);
        let kinds: Vec<_> = Kind::SHARES.into_iter().filter(|(kind, _)| source.has(*kind)).collect();
        if kinds.is_empty() {
            return None;
        }
        let pool = (0..Self::POOL).map(|_| source.question(draw.weighted(&kinds), &mut draw)).collect();
        Some(Self { pool, popularity: Zipf::new(Self::POOL, Self::SKEW), draw })
    }

    /// The next question.
    pub fn question(&mut self) -> &Question {
        let rank = self.popularity.rank(&mut self.draw);
        &self.pool[rank]
    }
}

struct Source<'a> {
    common: Band<'a>,
    middle: Band<'a>,
    rare: Band<'a>,
    phrases: &'a [[String; 3]],
}

struct Band<'a> {
    words: &'a [Word],
    ranks: Zipf,
}

impl<'a> Band<'a> {
    fn new(words: &'a [Word]) -> Self {
        Self { words, ranks: Zipf::new(words.len(), 1.0) }
    }

    fn word(&self, draw: &mut Draw) -> &'a str {
        &self.words[self.ranks.rank(draw)].text
    }
}

impl<'a> Source<'a> {
    fn of(vocabulary: &'a Vocabulary) -> Self {
        let at_least = |share: u64| {
            vocabulary.words.partition_point(|word| u64::from(word.sections) * share >= vocabulary.sections)
        };
        let (common, middle) = (at_least(50), at_least(1000));
        Self {
            common: Band::new(&vocabulary.words[..common]),
            middle: Band::new(&vocabulary.words[common..middle]),
            rare: Band::new(&vocabulary.words[middle..]),
            phrases: &vocabulary.phrases,
        }
    }

    fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Rare => !self.rare.words.is_empty(),
            Kind::Middle => !self.middle.words.is_empty(),
            Kind::Common => !self.common.words.is_empty(),
            Kind::TwoWords | Kind::ThreeWords => !self.phrases.is_empty(),
        }
    }

    fn question(&self, kind: Kind, draw: &mut Draw) -> Question {
        let text = match kind {
            Kind::Rare => self.rare.word(draw).to_owned(),
            Kind::Middle => self.middle.word(draw).to_owned(),
            Kind::Common => self.common.word(draw).to_owned(),
            Kind::TwoWords => self.phrases[draw.below(self.phrases.len())][..2].join(" "),
            Kind::ThreeWords => self.phrases[draw.below(self.phrases.len())].join(" "),
        };
        Question { kind, text }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn vocabulary() -> Vocabulary {
        let words = (1..=2000).map(|rank| Word { text: format!("word{rank}"), sections: 10_000 / rank });
        let phrases = (0..500).map(|i| [format!("a{i}"), format!("b{i}"), format!("c{i}")]);
        Vocabulary { sections: 10_000, words: words.collect(), phrases: phrases.collect() }
    }

    fn ask(vocabulary: &Vocabulary, seed: u64, count: usize) -> Vec<Question> {
        let mut sampler = Sampler::new(vocabulary, seed).unwrap();
        (0..count).map(|_| sampler.question().clone()).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(ask(&vocabulary(), 1, 100), ask(&vocabulary(), 1, 100));
        assert_ne!(ask(&vocabulary(), 1, 100), ask(&vocabulary(), 2, 100));
    }

    #[test]
    fn every_kind_is_asked_and_words_are_as_common_as_their_kind_says() {
        let vocabulary = vocabulary();
        let sections: HashMap<_, _> = vocabulary.words.iter().map(|word| (word.text.as_str(), word.sections)).collect();
        let mut seen = HashMap::new();
        for question in ask(&vocabulary, 3, 5000) {
            *seen.entry(question.kind).or_insert(0) += 1;
            let sections = sections.get(question.text.as_str());
            assert!(match question.kind {
                Kind::Rare => sections.is_some_and(|sections| *sections < 10),
                Kind::Middle => sections.is_some_and(|sections| (10..200).contains(sections)),
                Kind::Common => sections.is_some_and(|sections| *sections >= 200),
                Kind::TwoWords => question.text.split(' ').count() == 2,
                Kind::ThreeWords => question.text.split(' ').count() == 3,
            });
        }
        assert_eq!(seen.len(), Kind::SHARES.len());
    }

    #[test]
    fn few_questions_are_asked_often() {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for question in ask(&vocabulary(), 5, 10_000) {
            *counts.entry(question.text).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts[..10].iter().sum::<usize>() > 10 * counts[counts.len() / 2]);
    }

    #[test]
    fn a_small_corpus_asks_what_it_can() {
        let vocabulary =
            Vocabulary { sections: 2, words: vec![Word { text: "queue".to_owned(), sections: 2 }], phrases: vec![] };
        assert!(ask(&vocabulary, 1, 50).iter().all(|question| question.text == "queue"));
        assert!(Sampler::new(&Vocabulary::default(), 1).is_none());
    }
}
