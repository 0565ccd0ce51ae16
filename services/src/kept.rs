//! Directories of derived data that are either whole or not there.
//!
//! An index takes a while to build, so it is kept and used again as long as what it was made from is the same. The
//! protocol, for a directory `D`:
//!
//! 1. Whoever may build holds an exclusive lock on `D/lock`. A second one waits, and then finds the first one's work.
//! 2. Work goes into `D/building`. A `D/building` that is found under the lock is what an interrupted build left, and
//!    is removed.
//! 3. `D/building/manifest.json` is written last: the fingerprint of the source, and the files with their
//!    sizes (but for hidden ones, which are locks).
//! 4. `D/current` is removed and `D/building` renamed to it. A reader sees a whole directory or none.
//!
//! A `D/current` without a manifest, or with a file missing or of another size than it says, is damaged and is built
//! again. Readers that mapped files of a directory that was replaced keep what they mapped.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use walkdir::WalkDir;

/// How a directory came to be what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was there, and made from the same source.
    Reused,
    /// There was none.
    Built,
    /// It was made from something else.
    RebuiltAfterChange,
    /// An earlier build had been interrupted.
    RebuiltAfterInterruption,
    /// Files were missing or had another size than they should.
    RebuiltAfterDamage,
}

/// Whether the files of a directory stay as they were built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They do: their sizes are checked when the directory is opened.
    Fixed,
    /// A store writes to them when it is opened, and checks them by itself.
    Living,
}

/// Makes sure that `directory` holds what `build` makes from the source with this `fingerprint`.
///
/// `build` fills the (empty) directory that it is given and returns what is worth knowing about it; this is kept
/// with the data and returned by [`open`].
///
/// # Errors
/// What `build` reports, and [`KeptError::Io`] when the directory can't be written.
pub fn ensure<T, E>(
    directory: &Path,
    fingerprint: &str,
    files: Files,
    build: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<(T, Outcome), E>
where
    T: Serialize + DeserializeOwned,
    E: From<KeptError>,
{
    fs::create_dir_all(directory).map_err(failed("create", directory))?;
    let _lock = lock(directory)?;
    let building = directory.join("building");
    let interrupted = building.exists();
    if interrupted {
        fs::remove_dir_all(&building).map_err(failed("remove", &building))?;
    }
    let outcome = match open::<T>(directory) {
        Ok(kept) if kept.fingerprint == fingerprint => return Ok((kept.about, Outcome::Reused)),
        _ if interrupted => Outcome::RebuiltAfterInterruption,
        Ok(_) => Outcome::RebuiltAfterChange,
        Err(KeptError::Missing { .. }) => Outcome::Built,
        Err(_) => Outcome::RebuiltAfterDamage,
    };
    fs::create_dir(&building).map_err(failed("create", &building))?;
    let about = build(&building)?;
    let about = seal(&building, fingerprint, files, about)?;
    replace(&directory.join("current"), &building)?;
    Ok((about, outcome))
}

/// What [`ensure`] made.
#[derive(Debug)]
pub struct Kept<T> {
    /// Where the data is.
    pub path: PathBuf,
    /// What it was made from.
    pub fingerprint: String,
    /// What its builder said of it.
    pub about: T,
}

/// Opens what [`ensure`] made, without making anything.
///
/// # Errors
/// When there is nothing, or not the whole of it.
pub fn open<T: DeserializeOwned>(directory: &Path) -> Result<Kept<T>, KeptError> {
    let path = directory.join("current");
    if !path.is_dir() {
        return Err(KeptError::Missing { directory: directory.to_path_buf() });
    }
    let damaged = |what: String| KeptError::Damaged { directory: path.clone(), what };
    let manifest = path.join(MANIFEST);
    let text = fs::read(&manifest).map_err(|error| damaged(format!("{MANIFEST}: {error}")))?;
    let manifest: Manifest<T> =
        serde_json::from_slice(&text).map_err(|error| damaged(format!("{MANIFEST}: {error}")))?;
    for KeptFile { name, bytes } in &manifest.files {
        match fs::metadata(path.join(name)) {
            Ok(found) if found.len() == *bytes => {}
            Ok(found) => return Err(damaged(format!("{name} has {} bytes, not {bytes}", found.len()))),
            Err(error) => return Err(damaged(format!("{name}: {error}"))),
        }
    }
    Ok(Kept { path, fingerprint: manifest.fingerprint, about: manifest.about })
}

/// Reads all files below a folder, so that they are in memory when they are first needed and no request waits for the
/// disk. A file that can't be read is passed over: whoever needs it will say what is wrong with it.
pub(crate) fn read_ahead(directory: &Path) {
    for entry in WalkDir::new(directory).into_iter().flatten().filter(|entry| entry.file_type().is_file()) {
        let _passed_over = File::open(entry.path()).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    }
}

/// Why kept data can't be used or made.
#[derive(Debug, Error)]
pub enum KeptError {
    /// Nothing was built there yet.
    #[error("nothing was built in {} yet; build it first", directory.display())]
    Missing {
        /// Where it would be.
        directory: PathBuf,
    },
    /// Something is not as it was built.
    #[error("{} is damaged ({what}); build it again", directory.display())]
    Damaged {
        /// Where it is.
        directory: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file system refused.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

const MANIFEST: &str = "manifest.json";

#[derive(Serialize, Deserialize)]
struct Manifest<T> {
    fingerprint: String,
    files: Vec<KeptFile>,
    about: T,
}

#[derive(Serialize, Deserialize)]
struct KeptFile {
    name: String,
    bytes: u64,
}

fn lock(directory: &Path) -> Result<File, KeptError> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(failed("create", &path))?;
    file.lock().map_err(failed("lock", &path))?;
    Ok(file)
}

fn seal<T: Serialize>(building: &Path, fingerprint: &str, files: Files, about: T) -> Result<T, KeptError> {
    let files = match files {
        Files::Fixed => list(building).map_err(failed("list", building))?,
        Files::Living => Vec::new(),
    };
    let manifest = Manifest { fingerprint: fingerprint.to_owned(), files, about };
    let path = building.join(MANIFEST);
    let write = || {
        let file = File::create(&path)?;
        serde_json::to_writer(&file, &manifest)?;
        file.sync_all()
    };
    write().map_err(failed("write", &path))?;
    Ok(manifest.about)
}

fn list(building: &Path) -> io::Result<Vec<KeptFile>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(building).sort_by_file_name() {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if entry.file_type().is_file() && !hidden {
            let name = entry.path().strip_prefix(building).unwrap_or(entry.path()).to_string_lossy().into_owned();
            files.push(KeptFile { name, bytes: entry.metadata()?.len() });
        }
    }
    Ok(files)
}

fn replace(current: &Path, building: &Path) -> Result<(), KeptError> {
    match fs::remove_dir_all(current) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", current)(error)),
        _ => {}
    }
    fs::rename(building, current).map_err(failed("rename", building))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_path_buf();
    move |source| KeptError::Io { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(directory: &Path, fingerprint: &str, text: &str) -> (String, Outcome) {
        ensure::<String, KeptError>(directory, fingerprint, Files::Fixed, |path| {
            fs::write(path.join("data"), text).unwrap();
            Ok(format!("about {text}"))
        })
        .unwrap()
    }

    fn data(directory: &Path) -> String {
        let kept = open::<String>(directory).unwrap();
        fs::read_to_string(kept.path.join("data")).unwrap()
    }

    #[test]
    fn the_same_source_is_built_once() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(build(root.path(), "1", "one"), ("about one".to_owned(), Outcome::Built));
        assert_eq!(build(root.path(), "1", "unused"), ("about one".to_owned(), Outcome::Reused));
        assert_eq!(data(root.path()), "one");
    }

    #[test]
    fn another_source_replaces_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), "1", "one");
        assert_eq!(build(root.path(), "2", "two").1, Outcome::RebuiltAfterChange);
        assert_eq!(data(root.path()), "two");
    }

    #[test]
    fn an_interrupted_build_is_built_again() {
        let root = tempfile::tempdir().unwrap();
        let failed = ensure::<(), KeptError>(root.path(), "1", Files::Fixed, |path| {
            fs::write(path.join("half"), "").unwrap();
            Err(KeptError::Missing { directory: path.to_path_buf() })
        });
        assert!(failed.is_err());
        assert!(matches!(open::<String>(root.path()), Err(KeptError::Missing { .. })));
        assert_eq!(build(root.path(), "1", "one").1, Outcome::RebuiltAfterInterruption);
        assert!(!root.path().join("current/half").exists());
    }

    #[test]
    fn a_truncated_or_missing_file_is_noticed_and_built_again() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), "1", "one");
        fs::write(root.path().join("current/data"), "on").unwrap();
        let error = open::<String>(root.path()).unwrap_err();
        assert!(error.to_string().contains("data has 2 bytes, not 3"), "{error}");
        assert_eq!(build(root.path(), "1", "one").1, Outcome::RebuiltAfterDamage);
        fs::remove_file(root.path().join("current/data")).unwrap();
        assert_eq!(build(root.path(), "1", "one").1, Outcome::RebuiltAfterDamage);
        fs::write(root.path().join("current/manifest.json"), "{").unwrap();
        assert_eq!(build(root.path(), "1", "one").1, Outcome::RebuiltAfterDamage);
        assert_eq!(data(root.path()), "one");
    }

    #[test]
    fn of_several_builders_at_once_one_builds() {
        let root = tempfile::tempdir().unwrap();
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let builders: Vec<_> = (0..4).map(|_| scope.spawn(|| build(root.path(), "1", "one").1)).collect();
            builders.into_iter().map(|builder| builder.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Built).count(), 1);
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Reused).count(), 3);
    }
}
