//! Searches an index in memory (crate `tantivy`).

use std::ops::Bound;

use tantivy::collector::{Count, TopDocs};
use tantivy::query::{BooleanQuery, Occur, PhraseQuery, Query, RangeQuery, TermQuery};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, Schema, TEXT};
use tantivy::{Index, Searcher, TantivyDocument, TantivyError, Term};

use crate::text;
use crate::{Job, Scale, checksum};

const DOCUMENTS: usize = 10_000;
const WORDS_PER_DOCUMENT: usize = 60;
const QUERIES: usize = 800;
const HITS: usize = 10;
const WRITER_BYTES: usize = 64 << 20;

struct Library {
    searcher: Searcher,
    text: Field,
    size: Field,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let documents = documents(scale.of(DOCUMENTS));
    let library = Library::of(&documents).expect("an index in memory can be written");
    let queries: Vec<_> = (0..QUERIES).map(|at| library.query(&documents[at * 31 % documents.len()], at)).collect();
    Box::new(move || checksum(queries.iter().flat_map(|query| library.search(query))))
}

fn documents(count: usize) -> Vec<String> {
    let words = text::words(39, count * WORDS_PER_DOCUMENT).replace(['.', ','], "");
    let words: Vec<&str> = words.split_whitespace().collect();
    words.chunks(WORDS_PER_DOCUMENT).map(|words| words.join(" ")).collect()
}

impl Library {
    fn of(documents: &[String]) -> Result<Self, TantivyError> {
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TEXT);
        let size = schema.add_u64_field("size", INDEXED | FAST);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, WRITER_BYTES)?;
        for document in documents {
            let mut stored = TantivyDocument::new();
            stored.add_text(text, document);
            stored.add_u64(size, document.len() as u64);
            writer.add_document(stored)?;
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        Ok(Self { searcher: index.reader()?.searcher(), text, size })
    }

    /// Some words, two of them together, or a phrase with a bound on the size.
    fn query(&self, document: &str, kind: usize) -> Box<dyn Query> {
        let mut words = document.split(' ').map(|word| Term::from_field_text(self.text, word));
        let term = |term| -> Box<dyn Query> { Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)) };
        match kind % 3 {
            0 => Box::new(BooleanQuery::new(words.take(8).map(|word| (Occur::Should, term(word))).collect())),
            1 => Box::new(BooleanQuery::new(words.take(2).map(|word| (Occur::Must, term(word))).collect())),
            _ => {
                let phrase: Vec<Term> = words.by_ref().take(2).collect();
                let size = |size: usize| Term::from_field_u64(self.size, size as u64);
                let range = RangeQuery::new(Bound::Included(size(document.len() / 2)), Bound::Unbounded);
                Box::new(BooleanQuery::intersection(vec![Box::new(PhraseQuery::new(phrase)), Box::new(range)]))
            }
        }
    }

    /// How many documents match, and the best with their scores.
    fn search(&self, query: &dyn Query) -> Vec<u64> {
        let best = TopDocs::with_limit(HITS).order_by_score();
        let (count, best) = self.searcher.search(query, &(Count, best)).expect("an index in memory can be read");
        let best = best.into_iter().map(|(score, at)| u64::from(score.to_bits()) << 32 | u64::from(at.doc_id));
        [count as u64].into_iter().chain(best).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_documents_are_found_as_a_plain_search_finds() {
        let documents = documents(200);
        let library = Library::of(&documents).unwrap();
        for kind in 0..30 {
            let of = &documents[kind * 5];
            let words: Vec<&str> = of.split(' ').collect();
            let has = |document: &&String, word: &str| document.split(' ').any(|it| it == word);
            let phrase = format!(" {} {} ", words[0], words[1]);
            let expected = match kind % 3 {
                0 => documents.iter().filter(|it| words[..8].iter().any(|word| has(it, word))).count(),
                1 => documents.iter().filter(|it| has(it, words[0]) && has(it, words[1])).count(),
                _ => {
                    let long = documents.iter().filter(|it| it.len() >= of.len() / 2);
                    long.filter(|it| format!(" {it} ").contains(&phrase)).count()
                }
            };
            let found = library.search(&*library.query(of, kind));
            assert_eq!(found[0] as usize, expected, "kind {kind}");
            assert_eq!(found.len() - 1, expected.min(HITS));
        }
    }
}
