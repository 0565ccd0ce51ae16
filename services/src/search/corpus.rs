//! The files that are searched: which they are, and which were left out.
//!
//! A directory tree holds all sorts of things. What can't be read, isn't UTF-8, is too large or has vanished is
//! counted and named ([`Skipped`]), never fatal. When there is more text than `max_bytes`, the files are taken in the
//! order of a hash of their paths: an even sample, the same one on every machine with the same files.
//!
//! Symbolic links below the root aren't followed, so a loop of links can't hold the walk up.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use thiserror::Error;
use walkdir::{DirEntry, WalkDir};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::skipped::{Skip, Skipped};

/// Which files make up a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusConfig {
    /// The directory that is walked.
    pub root: PathBuf,
    /// Extensions of the files that are taken, without the dot. None: every file.
    pub extensions: Vec<String>,
    /// How much text is taken in all, in bytes.
    pub max_bytes: u64,
    /// The largest file that is taken, in bytes.
    pub max_file_bytes: u64,
}

impl CorpusConfig {
    /// Text under `root`: Rust sources, Markdown, TOML and plain text, 64 MiB of it in files of up to 1 MiB.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            extensions: ["rs", "md", "toml", "txt"].map(str::to_owned).to_vec(),
            max_bytes: 64 << 20,
            max_file_bytes: 1 << 20,
        }
    }

    fn wants(&self, path: &Path) -> bool {
        self.extensions.is_empty()
            || path.extension().is_some_and(|found| self.extensions.iter().any(|wanted| found == wanted.as_str()))
    }
}

/// The sources of the crates that Cargo has unpacked on this machine: the default corpus.
///
/// # Errors
/// [`CorpusError::NoRegistry`] where there is none.
pub fn cargo_registry() -> Result<PathBuf, CorpusError> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = cargo_home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let Some(registry) = home.map(|home| home.join("registry").join("src")) else {
        return Err(CorpusError::NoRegistry { looked_in: PathBuf::from("$CARGO_HOME/registry/src") });
    };
    if registry.is_dir() { Ok(registry) } else { Err(CorpusError::NoRegistry { looked_in: registry }) }
}

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusFile {
    /// Its path below the root.
    pub path: PathBuf,
    /// Its size when the directory was walked.
    pub bytes: u64,
    modified: u128,
}

impl CorpusFile {
    /// The path as text, with `/` between its parts; what isn't UTF-8 in it is replaced.
    pub fn name(&self) -> String {
        let parts: Vec<_> = self.path.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }

    /// A stable hash of the name: it decides in which order files are taken and which shard holds them.
    pub fn hash(&self) -> u64 {
        xxh3_64(self.name().as_bytes())
    }
}

/// A directory walked, and the files chosen from it.
#[derive(Clone, Debug)]
pub struct Corpus {
    config: CorpusConfig,
    /// The chosen files, in the order of their hash.
    pub files: Vec<CorpusFile>,
    /// Their size in all.
    pub bytes: u64,
    /// What can't be searched.
    pub skipped: Skipped,
    /// Files that could be searched but are beyond `max_bytes`.
    pub beyond: usize,
}

impl Corpus {
    /// Walks the directory and chooses the files.
    ///
    /// # Errors
    /// When the root isn't a directory, or holds no file that could be searched.
    pub fn walk(config: &CorpusConfig) -> Result<Self, CorpusError> {
        let root = &config.root;
        if !root.is_dir() {
            return Err(CorpusError::NotADirectory { root: root.clone() });
        }
        let mut skipped = Skipped::default();
        let mut files = Vec::new();
        let mut seen = 0;
        for entry in WalkDir::new(root).follow_links(false) {
            match entry {
                Ok(entry) if entry.file_type().is_file() => {
                    seen += 1;
                    if config.wants(entry.path()) {
                        files.extend(admit(&entry, config, &mut skipped));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().unwrap_or(root).to_path_buf();
                    skipped.add(path, Skip::of(&error.into()));
                }
            }
        }
        if files.is_empty() {
            let extensions = config.extensions.clone();
            return Err(CorpusError::Empty { root: root.clone(), extensions, seen, skipped: skipped.count() });
        }
        let found = files.len();
        let (files, bytes) = sample(files, config.max_bytes);
        Ok(Self { config: config.clone(), beyond: found - files.len(), files, bytes, skipped })
    }

    /// Reads one of the files.
    ///
    /// # Errors
    /// Why it can't be searched; the file may have changed since the walk.
    pub fn read(&self, file: &CorpusFile) -> Result<String, Skip> {
        let limit = self.config.max_file_bytes;
        let opened = File::open(self.config.root.join(&file.path)).map_err(|error| Skip::of(&error))?;
        let mut bytes = Vec::with_capacity(usize::try_from(file.bytes).unwrap_or(0));
        opened.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| Skip::of(&error))?;
        if bytes.len() as u64 > limit {
            return Err(Skip::TooLarge { limit });
        }
        String::from_utf8(bytes).map_err(|error| Skip::NotUtf8 { at: error.utf8_error().valid_up_to() })
    }

    /// A hash over the names, sizes and times of change of the chosen files: it differs when the corpus does.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        for file in &self.files {
            hash.update(file.name().as_bytes());
            hash.update(&[0]);
            hash.update(&file.bytes.to_le_bytes());
            hash.update(&file.modified.to_le_bytes());
        }
        hash.digest()
    }
}

/// Why there is nothing to search.
#[derive(Debug, Error)]
pub enum CorpusError {
    /// No Cargo registry on this machine.
    #[error("no crate sources in {}; run `cargo fetch` in any project, or name a directory of text", looked_in.display())]
    NoRegistry {
        /// Where they would be.
        looked_in: PathBuf,
    },
    /// The root is missing or is a file.
    #[error("{} is not a directory that can be read; name one that holds text", root.display())]
    NotADirectory {
        /// What was named.
        root: PathBuf,
    },
    /// Not one file to search.
    #[error(
        "nothing to search in {}: {seen} files, none of them readable text named *.{} ({skipped} skipped); \
         name another directory or other extensions",
        root.display(), extensions.join(", *.")
    )]
    Empty {
        /// What was walked.
        root: PathBuf,
        /// What was looked for.
        extensions: Vec<String>,
        /// How many files there are of any name.
        seen: usize,
        /// How many of them were skipped for other reasons than their name.
        skipped: usize,
    },
}

fn admit(entry: &DirEntry, config: &CorpusConfig, skipped: &mut Skipped) -> Option<CorpusFile> {
    let path = entry.path().strip_prefix(&config.root).unwrap_or(entry.path()).to_path_buf();
    let metadata = match entry.metadata() {
        Ok(metadata) => metadata,
        Err(error) => {
            skipped.add(path, Skip::of(&error.into()));
            return None;
        }
    };
    if metadata.len() > config.max_file_bytes {
        skipped.add(path, Skip::TooLarge { limit: config.max_file_bytes });
        return None;
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Some(CorpusFile { path, bytes: metadata.len(), modified: modified.unwrap_or_default().as_nanos() })
}

/// Takes files in the order of their hash for as long as they fit.
fn sample(files: Vec<CorpusFile>, max_bytes: u64) -> (Vec<CorpusFile>, u64) {
    let mut keyed: Vec<_> = files.into_iter().map(|file| (file.hash(), file)).collect();
    keyed.sort_unstable_by(|(left, a), (right, b)| left.cmp(right).then_with(|| a.path.cmp(&b.path)));
    let mut bytes = 0;
    let mut chosen = Vec::new();
    for (_, file) in keyed {
        if bytes + file.bytes > max_bytes && !chosen.is_empty() {
            break;
        }
        bytes += file.bytes;
        chosen.push(file);
    }
    (chosen, bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::unix::fs::symlink;

    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn names(corpus: &Corpus) -> Vec<String> {
        let mut names: Vec<_> = corpus.files.iter().map(CorpusFile::name).collect();
        names.sort();
        names
    }

    #[test]
    fn only_files_with_a_wanted_extension_are_taken() {
        let root = directory(&[("a.rs", b"fn a() {}"), ("deep/er/b.md", b"# b"), ("c.png", b"x"), ("rs", b"x")]);
        let corpus = Corpus::walk(&CorpusConfig::new(root.path())).unwrap();
        assert_eq!(names(&corpus), ["a.rs", "deep/er/b.md"]);
        assert_eq!(corpus.bytes, 12);
    }

    #[test]
    fn a_file_beyond_the_size_limit_is_named() {
        let root = directory(&[("small.txt", b"few"), ("large.txt", &[b'x'; 100])]);
        let config = CorpusConfig { max_file_bytes: 50, ..CorpusConfig::new(root.path()) };
        let corpus = Corpus::walk(&config).unwrap();
        assert_eq!(names(&corpus), ["small.txt"]);
        assert_eq!(corpus.skipped.named, [(PathBuf::from("large.txt"), Skip::TooLarge { limit: 50 })]);
    }

    #[test]
    fn a_file_that_changed_after_the_walk_is_refused_with_the_reason() {
        let root =
            directory(&[("gone.rs", b"x"), ("binary.rs", b"ok \xff\xfe"), ("directory.rs", b"x"), ("grown.rs", b"x")]);
        let config = CorpusConfig { max_file_bytes: 50, ..CorpusConfig::new(root.path()) };
        let corpus = Corpus::walk(&config).unwrap();
        fs::remove_file(root.path().join("gone.rs")).unwrap();
        fs::remove_file(root.path().join("directory.rs")).unwrap();
        fs::create_dir(root.path().join("directory.rs")).unwrap();
        fs::write(root.path().join("grown.rs"), [b'x'; 51]).unwrap();
        let why = |name: &str| {
            let file = corpus.files.iter().find(|file| file.name() == name).unwrap();
            corpus.read(file).unwrap_err()
        };
        assert_eq!(why("gone.rs"), Skip::Vanished);
        assert_eq!(why("binary.rs"), Skip::NotUtf8 { at: 3 });
        assert_eq!(why("directory.rs"), Skip::Unreadable(io::ErrorKind::IsADirectory));
        assert_eq!(why("grown.rs"), Skip::TooLarge { limit: 50 });
    }

    #[test]
    fn a_loop_of_links_does_not_hold_the_walk_up() {
        let root = directory(&[("inner/a.rs", b"fn a() {}")]);
        symlink(root.path(), root.path().join("inner/loop")).unwrap();
        symlink("self.rs", root.path().join("self.rs")).unwrap();
        assert_eq!(names(&Corpus::walk(&CorpusConfig::new(root.path())).unwrap()), ["inner/a.rs"]);
    }

    #[test]
    fn what_fits_is_the_same_sample_every_time_and_grows_with_the_limit() {
        let files: Vec<_> = (0..50).map(|i| (format!("{i}.txt"), vec![b'x'; 10])).collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
        let root = directory(&files);
        let with = |max_bytes| {
            let corpus = Corpus::walk(&CorpusConfig { max_bytes, ..CorpusConfig::new(root.path()) }).unwrap();
            assert_eq!(corpus.beyond, 50 - corpus.files.len());
            corpus.files
        };
        let (some, more) = (with(100), with(200));
        assert_eq!(some.len(), 10);
        assert_eq!(some, with(100));
        assert_eq!(some, more[..10]);
    }

    #[test]
    fn the_fingerprint_follows_the_content() {
        let root = directory(&[("a.rs", b"one"), ("b.rs", b"two")]);
        let fingerprint = || Corpus::walk(&CorpusConfig::new(root.path())).unwrap().fingerprint();
        let before = fingerprint();
        assert_eq!(before, fingerprint());
        fs::write(root.path().join("a.rs"), b"longer").unwrap();
        assert_ne!(before, fingerprint());
    }

    #[test]
    fn an_empty_directory_is_refused_with_a_remedy() {
        let root = directory(&[("picture.png", b"x")]);
        let error = Corpus::walk(&CorpusConfig::new(root.path())).unwrap_err();
        assert!(matches!(error, CorpusError::Empty { seen: 1, .. }));
        assert!(error.to_string().contains("*.rs, *.md"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_refused() {
        let error = Corpus::walk(&CorpusConfig::new("/nowhere/at/all")).unwrap_err();
        assert!(matches!(error, CorpusError::NotADirectory { .. }));
    }
}
