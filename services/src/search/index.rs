//! The index: every file's sections, spread over shards by a hash of the file's name.
//!
//! A directory holds `shard-00`, `shard-01`, ... (one tantivy index each, text stored uncompressed) and
//! `vocabulary.tsv`. It is kept and reused as [`kept`] says; a change of the corpus, of the number of
//! shards or of the format makes it anew.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

use serde::{Deserialize, Serialize};
use tantivy::indexer::{IndexWriterOptions, NoMergePolicy};
use tantivy::schema::{Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::{Index, IndexSettings, IndexWriter, TantivyDocument, TantivyError};
use thiserror::Error;

use crate::kept::{self, Files, Kept, KeptError, Outcome};

use super::corpus::{Corpus, CorpusConfig, CorpusError};
use super::section::sections;
use super::skipped::Skipped;
use super::vocabulary::{Gathered, Vocabulary};

/// Raised whenever what is written changes, so that older directories are built again.
const FORMAT: u32 = 1;

/// How much postings a shard's writer holds before it starts another segment.
const WRITER_BYTES: usize = 64 << 20;

/// Where an index is kept and into how many shards it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexConfig {
    /// The directory that holds it.
    pub directory: PathBuf,
    /// Number of shards, from 1 to [`IndexConfig::MOST_SHARDS`].
    pub shards: usize,
}

impl IndexConfig {
    /// The number of shards when nothing else is said: that of the experiment in the paper on deadline propagation.
    pub const SHARDS: usize = 18;

    /// More shards than this are refused.
    pub const MOST_SHARDS: usize = 256;

    /// An index of 18 shards in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), shards: Self::SHARDS }
    }
}

/// What an index holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Sections in each shard.
    pub sections: Vec<u64>,
    /// Files.
    pub files: usize,
    /// Bytes of text.
    pub bytes: u64,
    /// Files that couldn't be searched.
    pub skipped: usize,
    /// The first of those, with the reasons.
    pub named: Vec<(String, String)>,
    /// Files beyond the limit on text.
    pub beyond: usize,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Files read.
    pub files: usize,
    /// Files to read.
    pub of: usize,
}

/// Makes sure that there is an index of the corpus; `progress` is told after every file of a build.
///
/// # Errors
/// When there is nothing to index, or the index can't be written.
pub fn ensure(
    corpus: &CorpusConfig,
    config: &IndexConfig,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Contents, Outcome), IndexError> {
    if config.shards == 0 || config.shards > IndexConfig::MOST_SHARDS {
        return Err(IndexError::Shards { given: config.shards });
    }
    let corpus = Corpus::walk(corpus)?;
    let fingerprint = format!("{FORMAT}-{}-{:016x}", config.shards, corpus.fingerprint());
    kept::ensure(&config.directory, &fingerprint, Files::Fixed, |directory| {
        Build { corpus: &corpus, directory, shards: config.shards, progress, read: AtomicUsize::new(0) }.run()
    })
}

/// Finds an index that [`ensure`] made.
///
/// # Errors
/// When there is none, or not the whole of it.
pub fn open(directory: &Path) -> Result<Kept<Contents>, KeptError> {
    kept::open(directory)
}

/// Why an index can't be made or used.
#[derive(Debug, Error)]
pub enum IndexError {
    /// Nothing to index.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The directory can't be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The number of shards is out of range.
    #[error("{given} shards; allowed are 1 to {}", IndexConfig::MOST_SHARDS)]
    Shards {
        /// What was asked for.
        given: usize,
    },
    /// The vocabulary can't be written or read.
    #[error("vocabulary: {0}; build the index again")]
    Vocabulary(#[from] io::Error),
    /// The search engine failed.
    #[error("search engine: {0}")]
    Engine(#[from] TantivyError),
}

/// The fields of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// The file's name.
    pub(crate) file: Field,
    /// The line where the section begins.
    pub(crate) line: Field,
    /// The text.
    pub(crate) text: Field,
}

impl Fields {
    fn schema() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let words =
            TextFieldIndexing::default().set_tokenizer("default").set_index_option(IndexRecordOption::WithFreqs);
        let file = schema.add_text_field("file", STORED);
        let line = schema.add_u64_field("line", STORED);
        let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(words).set_stored());
        (schema.build(), Self { file, line, text })
    }

    /// The fields of an index that was opened.
    pub(crate) fn of(index: &Index) -> Result<Self, TantivyError> {
        let schema = index.schema();
        let field = |name| schema.get_field(name);
        Ok(Self { file: field("file")?, line: field("line")?, text: field("text")? })
    }
}

/// Where the shard's index lies within the directory.
pub(crate) fn shard_path(directory: &Path, shard: usize) -> PathBuf {
    directory.join(format!("shard-{shard:02}"))
}

struct Build<'a> {
    corpus: &'a Corpus,
    directory: &'a Path,
    shards: usize,
    progress: &'a (dyn Fn(Progress) + Sync),
    read: AtomicUsize,
}

/// What the threads of a build have put together so far.
#[derive(Default)]
struct Built {
    contents: Contents,
    skipped: Skipped,
    words: Gathered,
}

impl Build<'_> {
    /// Builds the shards, as many at once as there are processors.
    fn run(&self) -> Result<Contents, IndexError> {
        let built = Mutex::new(Built::default());
        built.lock().unwrap_or_else(PoisonError::into_inner).contents.sections = vec![0; self.shards];
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), IndexError> {
            loop {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= self.shards {
                    return Ok(());
                }
                self.shard(shard, &built)?;
            }
        };
        thread::scope(|scope| -> Result<(), IndexError> {
            let threads = thread::available_parallelism().map_or(1, usize::from).min(self.shards);
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        let Built { mut contents, mut skipped, words } = built.into_inner().unwrap_or_else(PoisonError::into_inner);
        Vocabulary::from(words).write(self.directory)?;
        skipped.append(self.corpus.skipped.clone());
        contents.skipped = skipped.count();
        contents.named =
            skipped.named.iter().map(|(path, why)| (path.display().to_string(), why.to_string())).collect();
        contents.beyond = self.corpus.beyond;
        Ok(contents)
    }

    fn shard(&self, shard: usize, built: &Mutex<Built>) -> Result<(), IndexError> {
        let (schema, fields) = Fields::schema();
        let path = shard_path(self.directory, shard);
        std::fs::create_dir(&path)?;
        let settings = IndexSettings { docstore_compression: Compressor::None, ..IndexSettings::default() };
        let index = Index::builder().schema(schema).settings(settings).create_in_dir(&path)?;
        let options = IndexWriterOptions::builder().memory_budget_per_thread(WRITER_BYTES).num_merge_threads(1).build();
        let mut writer: IndexWriter = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));

        let mut part = Built::default();
        let mut added = 0;
        for file in self.corpus.files.iter().filter(|file| file.hash() % self.shards as u64 == shard as u64) {
            match self.corpus.read(file) {
                Ok(text) => {
                    added += add(&writer, fields, &file.name(), &text, &mut part.words)?;
                    part.contents.files += 1;
                    part.contents.bytes += text.len() as u64;
                }
                Err(why) => part.skipped.add(file.path.clone(), why),
            }
            let files = self.read.fetch_add(1, Ordering::Relaxed) + 1;
            (self.progress)(Progress { files, of: self.corpus.files.len() });
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        part.words.count(&index, fields.text)?;

        let mut built = built.lock().unwrap_or_else(PoisonError::into_inner);
        built.contents.sections[shard] = added;
        built.contents.files += part.contents.files;
        built.contents.bytes += part.contents.bytes;
        built.skipped.append(part.skipped);
        built.words.append(part.words);
        Ok(())
    }
}

fn add(writer: &IndexWriter, fields: Fields, name: &str, text: &str, words: &mut Gathered) -> Result<u64, IndexError> {
    let mut added = 0;
    for section in sections(text) {
        let mut document = TantivyDocument::new();
        document.add_text(fields.file, name);
        document.add_u64(fields.line, section.line.into());
        document.add_text(fields.text, section.text);
        writer.add_document(document)?;
        words.sample(name, section);
        added += 1;
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Setting {
        root: tempfile::TempDir,
    }

    impl Setting {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("text")).unwrap();
            let setting = Self { root };
            for i in 0..20 {
                setting.write(&format!("file{i}.md"), format!("# note {i}\nabout queues").as_bytes());
            }
            setting
        }

        fn write(&self, name: &str, content: &[u8]) {
            fs::write(self.root.path().join("text").join(name), content).unwrap();
        }

        fn config(&self) -> IndexConfig {
            IndexConfig { shards: 3, ..IndexConfig::new(self.root.path().join("index")) }
        }

        fn ensure(&self) -> (Contents, Outcome) {
            ensure(&CorpusConfig::new(self.root.path().join("text")), &self.config(), &|_| {}).unwrap()
        }
    }

    #[test]
    fn every_file_is_in_one_shard() {
        let setting = Setting::new();
        let (contents, outcome) = setting.ensure();
        assert_eq!((contents.files, outcome), (20, Outcome::Built));
        assert_eq!(contents.sections.iter().sum::<u64>(), 20);
        let kept = open(&setting.config().directory).unwrap();
        let vocabulary = Vocabulary::read(&kept.path).unwrap();
        let words: Vec<_> = vocabulary.words.iter().map(|word| (word.text.as_str(), word.sections)).collect();
        assert_eq!(words, [("about", 20), ("note", 20), ("queues", 20)]);
        assert_eq!(vocabulary.sections, 20);
    }

    #[test]
    fn a_second_start_reuses_the_index_and_a_changed_corpus_does_not() {
        let setting = Setting::new();
        let (first, _) = setting.ensure();
        assert_eq!(setting.ensure(), (first, Outcome::Reused));
        setting.write("another.md", b"# one more");
        let (contents, outcome) = setting.ensure();
        assert_eq!((contents.files, outcome), (21, Outcome::RebuiltAfterChange));
    }

    #[test]
    fn what_can_not_be_read_is_named_and_the_rest_is_indexed() {
        let setting = Setting::new();
        setting.write("latin1.txt", b"caf\xe9");
        let (contents, _) = setting.ensure();
        assert_eq!((contents.files, contents.skipped), (20, 1));
        assert_eq!(contents.named, [("latin1.txt".to_owned(), "not UTF-8 from byte 3".to_owned())]);
    }

    #[test]
    fn a_shard_that_lost_a_file_is_built_again() {
        let setting = Setting::new();
        setting.ensure();
        let shard = shard_path(&open(&setting.config().directory).unwrap().path, 1);
        let segment = fs::read_dir(&shard).unwrap().map(|entry| entry.unwrap().path());
        fs::remove_file(segment.filter(|path| path.extension().is_some_and(|it| it == "store")).last().unwrap())
            .unwrap();
        assert!(open(&setting.config().directory).is_err());
        assert_eq!(setting.ensure().1, Outcome::RebuiltAfterDamage);
    }

    #[test]
    fn more_shards_than_files_leave_some_empty() {
        let setting = Setting::new();
        let config = IndexConfig { shards: 64, ..setting.config() };
        let (contents, _) = ensure(&CorpusConfig::new(setting.root.path().join("text")), &config, &|_| {}).unwrap();
        assert_eq!(contents.sections.len(), 64);
        assert!(contents.sections.contains(&0));
    }

    #[test]
    fn a_number_of_shards_out_of_range_is_refused() {
        let setting = Setting::new();
        let config = IndexConfig { shards: 0, ..setting.config() };
        let error = ensure(&CorpusConfig::new("unused"), &config, &|_| {}).unwrap_err();
        assert_eq!(error.to_string(), "0 shards; allowed are 1 to 256");
    }
}
