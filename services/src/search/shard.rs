//! One shard: answers a query from its part of the sections.
//!
//! First BM25 names the candidates. Then they are read one after the other ([reading](super::passage)) and ranked
//! anew. The commoner the words of a query are, the less BM25 tells its documents apart, and the more candidates are
//! worth reading; with a short budget fewer are read, the best ones by BM25 first, and [`Answer::precision`] says so.

use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;

use tantivy::collector::TopDocs;
use tantivy::query::BooleanQuery;
use tantivy::schema::{Field, Value};
use tantivy::{DocAddress, Index, ReloadPolicy, Searcher, TantivyDocument, TantivyError, Term};
use thiserror::Error;

use crate::checkpoint::{Effort, Pass, Precision, Steps};
use crate::kept;
use crate::proto::search::Hit;

use super::index::{self, Fields, IndexError, shard_path};
use super::passage::{self, Reading};

/// Candidates read between two checkpoints: some 50 us of work.
const STEP: usize = 4;

/// What reading a candidate costs before anything is known of it.
const FIRST_GUESS: Duration = Duration::from_micros(10);

/// How many candidates are worth reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// For any query.
    pub least: usize,
    /// And one more for so many sections that match.
    pub one_in: usize,
    /// But no more than this.
    pub most: usize,
}

impl Default for Depth {
    fn default() -> Self {
        Self { least: 12, one_in: 16, most: 160 }
    }
}

impl Depth {
    fn of(self, matching: u64) -> usize {
        let matching = usize::try_from(matching).unwrap_or(usize::MAX);
        self.least.saturating_add(matching / self.one_in.max(1)).min(self.most)
    }
}

/// A question, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its words, in lower case, none twice.
    pub words: Vec<String>,
    /// How many hits are wanted.
    pub limit: usize,
}

impl Query {
    /// More words are refused.
    pub const MOST_WORDS: usize = 16;

    /// More hits than this are refused.
    pub const MOST_HITS: usize = 100;

    /// Takes a question apart into words.
    ///
    /// # Errors
    /// When there is no word in it, there are too many, or too many hits are wanted.
    pub fn parse(text: &str, limit: usize) -> Result<Self, QueryError> {
        if !(1..=Self::MOST_HITS).contains(&limit) {
            return Err(QueryError::Limit { given: limit });
        }
        let mut words: Vec<String> = Vec::new();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let word: String = word.chars().flat_map(char::to_lowercase).collect();
            if !words.contains(&word) {
                words.push(word);
            }
            if words.len() > Self::MOST_WORDS {
                return Err(QueryError::TooManyWords);
            }
        }
        if words.is_empty() { Err(QueryError::NoWord) } else { Ok(Self { words, limit }) }
    }
}

/// Why a question can't be answered.
#[derive(Debug, Error)]
pub enum QueryError {
    /// It has no word.
    #[error("the query has no letter or digit; ask for one word at least")]
    NoWord,
    /// It has too many words.
    #[error("the query has more than {} different words; ask for fewer", Query::MOST_WORDS)]
    TooManyWords,
    /// It wants too many hits, or none.
    #[error("{given} hits are wanted; allowed are 1 to {}", Query::MOST_HITS)]
    Limit {
        /// What was asked for.
        given: usize,
    },
    /// The search engine failed.
    #[error("search engine: {0}")]
    Engine(#[from] TantivyError),
}

/// What a shard has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The best sections, best first.
    pub hits: Vec<Hit>,
    /// How many sections match, at most: a section that has several of the words is counted for each.
    pub matching: u64,
    /// Candidates read of those worth reading.
    pub precision: Precision,
    /// Whether the work was called off before its end.
    pub stopped: bool,
}

/// A shard of an index, opened.
pub struct Shard {
    searcher: Searcher,
    fields: Fields,
    depth: Depth,
    effort: Effort,
}

impl Shard {
    /// Opens shard number `shard` of the index that is kept in `directory`.
    ///
    /// # Errors
    /// When there is no whole index, or it has no such shard.
    pub fn open(directory: &Path, shard: usize, depth: Depth) -> Result<Self, ShardError> {
        let kept = index::open(directory).map_err(IndexError::from)?;
        if shard >= kept.about.sections.len() {
            return Err(ShardError::NoSuchShard { shard, shards: kept.about.sections.len() });
        }
        let path = shard_path(&kept.path, shard);
        kept::read_ahead(&path);
        let index = Index::open_in_dir(path).map_err(IndexError::from)?;
        let fields = Fields::of(&index).map_err(IndexError::from)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
        let reader = reader.try_into().map_err(IndexError::from)?;
        Ok(Self { searcher: reader.searcher(), fields, depth, effort: Effort::guess(FIRST_GUESS) })
    }

    /// How many sections it holds.
    pub fn sections(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Answers a query, passing a checkpoint before every few candidates.
    ///
    /// # Errors
    /// [`QueryError::Engine`] when the index can't be read.
    pub fn answer(&self, query: &Query, pass: Pass<'_>) -> Result<Answer, QueryError> {
        let terms = query.words.iter().map(|word| Term::from_field_text(self.fields.text, word));
        let terms: Vec<_> = terms.collect();
        let matching = self.matching(&terms)?;
        let depth = self.depth.of(matching);
        let mut candidates = self.candidates(terms, depth.max(query.limit))?;

        let worth_reading = candidates.len().min(depth.max(query.limit));
        let mut steps = Steps::new(worth_reading, STEP, &self.effort, pass);
        while let Some(range) = steps.step() {
            for candidate in &mut candidates[range] {
                self.read(candidate, &query.words)?;
            }
        }
        let closed = steps.close();
        candidates.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal));
        candidates.truncate(query.limit);
        let hits =
            if closed.stopped { Ok(Vec::new()) } else { candidates.into_iter().map(|it| self.hit(it)).collect() };
        Ok(Answer { hits: hits?, matching, precision: closed.precision, stopped: closed.stopped })
    }

    /// How many sections match at most, from the words' frequencies alone.
    fn matching(&self, terms: &[Term]) -> Result<u64, TantivyError> {
        let mut sum = 0;
        for term in terms {
            sum += self.searcher.doc_freq(term)?;
        }
        Ok(sum.min(self.searcher.num_docs()))
    }

    fn candidates(&self, terms: Vec<Term>, limit: usize) -> Result<Vec<Candidate>, TantivyError> {
        let any = BooleanQuery::new_multiterms_query(terms);
        let found = self.searcher.search(&any, &TopDocs::with_limit(limit).order_by_score())?;
        Ok(found.into_iter().map(|(score, address)| Candidate { score, address, shown: None }).collect())
    }

    fn read(&self, candidate: &mut Candidate, words: &[String]) -> Result<(), TantivyError> {
        let document: TantivyDocument = self.searcher.doc(candidate.address)?;
        let text = text_of(&document, self.fields.text);
        let Reading { boost, passage } = passage::read(text, words);
        candidate.score *= boost;
        let above = text[..passage.start].bytes().filter(|byte| *byte == b'\n').count();
        candidate.shown = Some(Shown { passage: text[passage].to_owned(), above: u32::try_from(above).unwrap_or(0) });
        Ok(())
    }

    fn hit(&self, candidate: Candidate) -> Result<Hit, QueryError> {
        let document: TantivyDocument = self.searcher.doc(candidate.address)?;
        let file = text_of(&document, self.fields.file).to_owned();
        let line = document.get_first(self.fields.line).and_then(|line| line.as_u64()).unwrap_or(0);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let Shown { passage, above } = candidate.shown.unwrap_or_default();
        Ok(Hit { file, line: line.saturating_add(above), score: candidate.score, passage, copies: 0 })
    }
}

/// Why a shard can't be opened.
#[derive(Debug, Error)]
pub enum ShardError {
    /// The index can't be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// It has fewer shards.
    #[error("there is no shard {shard}: the index has {shards}, from 0 to {}", shards.saturating_sub(1))]
    NoSuchShard {
        /// What was asked for.
        shard: usize,
        /// How many there are.
        shards: usize,
    },
}

fn text_of(document: &TantivyDocument, field: Field) -> &str {
    document.get_first(field).and_then(|value| value.as_str()).unwrap_or_default()
}

struct Candidate {
    score: f32,
    address: DocAddress,
    shown: Option<Shown>,
}

#[derive(Default)]
struct Shown {
    passage: String,
    /// Lines of the section above the passage.
    above: u32,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::search::corpus::CorpusConfig;
    use crate::search::index::{IndexConfig, ensure};

    /// A corpus of a hundred notes on queues, one of which says more.
    fn shard() -> (tempfile::TempDir, Shard) {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().join("text");
        fs::create_dir(&text).unwrap();
        for i in 0..100 {
            fs::write(text.join(format!("note{i}.txt")), format!("note {i}: the queue is long\nand so on")).unwrap();
        }
        fs::write(text.join("best.txt"), "nothing here\n\nthe completion queue drains\nand so on").unwrap();
        let config = IndexConfig { shards: 1, ..IndexConfig::new(root.path().join("index")) };
        ensure(&CorpusConfig::new(&text), &config, &|_| {}).unwrap();
        let shard = Shard::open(&config.directory, 0, Depth { least: 20, one_in: 4, most: 40 }).unwrap();
        (root, shard)
    }

    fn ask(shard: &Shard, text: &str, checkpoint: Checkpoint) -> Answer {
        shard.answer(&Query::parse(text, 5).unwrap(), &mut || checkpoint).unwrap()
    }

    #[test]
    fn the_best_section_comes_first_and_shows_its_line() {
        let (_root, shard) = shard();
        let answer = ask(&shard, "Completion-Queue", Checkpoint::FREE);
        let best = &answer.hits[0];
        assert_eq!((best.file.as_str(), best.line), ("best.txt", 3));
        assert_eq!(best.passage, "the completion queue drains");
        assert_eq!(answer.hits.len(), 5);
        assert!(answer.hits.is_sorted_by(|a, b| a.score >= b.score));
    }

    #[test]
    fn commoner_words_make_more_candidates_worth_reading() {
        let (_root, shard) = shard();
        assert_eq!(ask(&shard, "completion", Checkpoint::FREE).precision, Precision { examined: 1, wanted: 1 });
        assert_eq!(ask(&shard, "queue", Checkpoint::FREE).precision, Precision { examined: 40, wanted: 40 });
    }

    #[test]
    fn a_spent_budget_still_brings_the_ranking_by_bm25_and_says_so() {
        let (_root, shard) = shard();
        let answer = ask(&shard, "completion queue", Checkpoint::with(Duration::ZERO));
        assert_eq!(answer.precision, Precision { examined: 0, wanted: 40 });
        assert_eq!(answer.hits[0].file, "best.txt");
        assert_eq!(answer.hits[0].passage, "");
    }

    #[test]
    fn a_short_budget_reads_some_of_the_candidates() {
        let (_root, shard) = shard();
        let mut lefts = [5 * FIRST_GUESS, Duration::ZERO].into_iter();
        let query = Query::parse("queue", 5).unwrap();
        let answer = shard.answer(&query, &mut || Checkpoint::with(lefts.next().unwrap_or_default())).unwrap();
        assert_eq!(answer.precision, Precision { examined: 2, wanted: 40 });
    }

    #[test]
    fn work_that_is_called_off_ends_at_the_next_checkpoint() {
        let (_root, shard) = shard();
        let mut passed = 0;
        let query = Query::parse("queue", 5).unwrap();
        let answer = shard
            .answer(&query, &mut || {
                passed += 1;
                Checkpoint { left: None, stop: passed == 2 }
            })
            .unwrap();
        assert!(answer.stopped && answer.hits.is_empty());
        assert_eq!(answer.precision.examined as usize, STEP);
    }

    #[test]
    fn a_word_that_no_section_has_is_answered_with_nothing_in_full_precision() {
        let (_root, shard) = shard();
        let answer = ask(&shard, "zebra", Checkpoint::FREE);
        assert!(answer.hits.is_empty() && !answer.precision.is_degraded());
    }

    #[test]
    fn a_question_without_words_or_with_too_many_is_refused() {
        assert!(matches!(Query::parse(" -- !", 5), Err(QueryError::NoWord)));
        assert!(matches!(Query::parse("word", 0), Err(QueryError::Limit { given: 0 })));
        let many: String = (0..17).map(|i| format!("w{i} ")).collect();
        assert!(matches!(Query::parse(&many, 5), Err(QueryError::TooManyWords)));
        assert_eq!(Query::parse("Queue queue QUEUE", 5).unwrap().words, ["queue"]);
    }

    #[test]
    fn a_shard_that_does_not_exist_is_refused_with_those_that_do() {
        let (root, _shard) = shard();
        let directory = root.path().join("index");
        let error = Shard::open(&directory, 3, Depth::default()).err().unwrap();
        assert_eq!(error.to_string(), "there is no shard 3: the index has 1, from 0 to 0");
        assert!(Shard::open(&root.path().join("elsewhere"), 0, Depth::default()).is_err());
    }
}
