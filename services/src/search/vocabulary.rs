//! The words and phrases that the indexed text is made of: what queries are drawn from.
//!
//! It is gathered while the index is built and lies beside the shards as `vocabulary.tsv`: words with the number of
//! sections that have them, and a sample of phrases of three words as they stand in the text.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use tantivy::Index;
use tantivy::TantivyError;
use tantivy::schema::Field;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::section::Section;

/// The words of an index, the commonest first, and phrases from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Sections in the index.
    pub sections: u64,
    /// Words that occur in two sections or more, the commonest first.
    pub words: Vec<Word>,
    /// Phrases of three words.
    pub phrases: Vec<[String; 3]>,
}

/// A word and how common it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word, in lower case.
    pub text: String,
    /// How many sections have it.
    pub sections: u32,
}

impl Vocabulary {
    /// As many words are kept, the commonest.
    const WORDS: usize = 100_000;

    /// Reads the vocabulary of the index that is kept in `directory`.
    ///
    /// # Errors
    /// When it can't be read, or isn't a vocabulary.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let mut vocabulary = Self::default();
        for (number, line) in BufReader::new(File::open(directory.join(FILE))?).lines().enumerate() {
            let line = line?;
            vocabulary.take(&line).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{FILE}, line {}: {line:?}", number + 1))
            })?;
        }
        Ok(vocabulary)
    }

    /// Writes it beside the shards.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(directory.join(FILE))?);
        writeln!(file, "sections\t{}", self.sections)?;
        for Word { text, sections } in &self.words {
            writeln!(file, "word\t{text}\t{sections}")?;
        }
        for [first, second, third] in &self.phrases {
            writeln!(file, "phrase\t{first}\t{second}\t{third}")?;
        }
        file.into_inner()?.sync_all()
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut parts = line.split('\t');
        match parts.next()? {
            "sections" => self.sections = parts.next()?.parse().ok()?,
            "word" => {
                let text = parts.next()?.to_owned();
                self.words.push(Word { text, sections: parts.next()?.parse().ok()? });
            }
            "phrase" => {
                let mut word = || parts.next().map(str::to_owned);
                self.phrases.push([word()?, word()?, word()?]);
            }
            _ => return None,
        }
        parts.next().is_none().then_some(())
    }
}

impl From<Gathered> for Vocabulary {
    fn from(gathered: Gathered) -> Self {
        let common = gathered.counts.into_iter().filter(|(_, sections)| *sections > 1);
        let mut words: Vec<_> = common.map(|(text, sections)| Word { text, sections }).collect();
        words.sort_unstable_by(|a, b| b.sections.cmp(&a.sections).then_with(|| a.text.cmp(&b.text)));
        words.truncate(Self::WORDS);
        let mut phrases = gathered.phrases;
        phrases.sort_unstable();
        let phrases = phrases.into_iter().map(|(_, phrase)| phrase).collect();
        Self { sections: gathered.sections, words, phrases }
    }
}

const FILE: &str = "vocabulary.tsv";

/// What is counted and sampled while an index is built.
#[derive(Default)]
pub(crate) struct Gathered {
    sections: u64,
    counts: HashMap<String, u32>,
    phrases: Vec<(u64, [String; 3])>,
}

impl Gathered {
    /// Takes a phrase from one section in four, from a place that a hash decides.
    pub(crate) fn sample(&mut self, name: &str, section: Section<'_>) {
        self.sections += 1;
        let hash = xxh3_64_with_seed(name.as_bytes(), section.line.into());
        if hash.is_multiple_of(4) {
            self.phrases.extend(phrase_of(section.text, hash).map(|phrase| (hash, phrase)));
        }
    }

    /// Counts the words of a shard.
    pub(crate) fn count(&mut self, index: &Index, text: Field) -> Result<(), TantivyError> {
        let searcher = index.reader()?.searcher();
        for segment in searcher.segment_readers() {
            let inverted = segment.inverted_index(text)?;
            let mut terms = inverted.terms().stream()?;
            while let Some((term, info)) = terms.next() {
                if let Some(word) = std::str::from_utf8(term).ok().filter(|word| is_plain(word)) {
                    self.note(word, info.doc_freq);
                }
            }
        }
        Ok(())
    }

    /// Adds what was gathered elsewhere.
    pub(crate) fn append(&mut self, other: Self) {
        self.sections += other.sections;
        self.phrases.extend(other.phrases);
        if self.counts.is_empty() {
            self.counts = other.counts;
            return;
        }
        for (word, sections) in other.counts {
            self.note(&word, sections);
        }
    }

    fn note(&mut self, word: &str, sections: u32) {
        match self.counts.get_mut(word) {
            Some(count) => *count = count.saturating_add(sections),
            None => {
                self.counts.insert(word.to_owned(), sections);
            }
        }
    }
}

/// What a person would search for: letters, neither very short nor very long.
fn is_plain(word: &str) -> bool {
    (3..=24).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Three plain words in a row, the first such from a place in the text that `hash` decides.
fn phrase_of(text: &str, hash: u64) -> Option<[String; 3]> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let triples = words.len().checked_sub(2)?;
    let start = usize::try_from(hash / 4).unwrap_or(0).checked_rem(triples)?;
    let mut from_there = words[start..].windows(3);
    from_there.find_map(|triple| match triple {
        [first, second, third] if is_plain(first) && is_plain(second) && is_plain(third) => {
            Some([first, second, third].map(|word| word.to_ascii_lowercase()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut gathered = Gathered::default();
        for (word, sections) in [("queue", 7), ("budget", 9), ("once", 1)] {
            gathered.note(word, sections);
        }
        gathered.phrases.push((1, ["a", "deadline", "passes"].map(str::to_owned)));
        let vocabulary = Vocabulary::from(gathered);
        assert_eq!(vocabulary.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>(), ["budget", "queue"]);
        vocabulary.write(directory.path()).unwrap();
        assert_eq!(Vocabulary::read(directory.path()).unwrap(), vocabulary);
    }

    #[test]
    fn a_broken_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "sections\t3\nword\tqueue\tmany\n").unwrap();
        let error = Vocabulary::read(directory.path()).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn a_phrase_is_three_plain_words_as_they_stand_in_the_text() {
        let text = "1 2 the completion-queue drains 3 4";
        assert_eq!(phrase_of(text, 0), Some(["the", "completion", "queue"].map(str::to_owned)));
        assert_eq!(phrase_of("two words", 0), None);
        assert_eq!(phrase_of("", 0), None);
    }
}
