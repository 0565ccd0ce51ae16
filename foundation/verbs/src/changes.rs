//! Whether files have changed.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Tells whether some of several files have changed since they were looked at last: by when they were written, their length and
/// which file a name leads to. For whoever reads them again then.
///
/// A file that was written within two seconds before it was looked at counts as changed the next time too, as a further change
/// could have the same time.
#[derive(Debug)]
pub struct FileChanges(Vec<(PathBuf, Stamp)>);

/// What is seen of a file without reading it; the default if it isn't there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    len: u64,
    written: (i64, i64),
    is_young: bool,
}

/// How long a file that was written is looked at again.
const YOUNG: Duration = Duration::from_secs(2);

impl FileChanges {
    /// Of these files, as they are now: to be asked before they are read, so that no change is missed.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(paths.into_iter().map(|path| (path.to_owned(), Stamp::of(path))).collect())
    }

    /// Whether there is any file to look at.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one has changed, or may have. Asks the file system, so it may block.
    pub fn look(&mut self) -> bool {
        let mut changed = false;
        for (path, stamp) in &mut self.0 {
            let was = std::mem::replace(stamp, Stamp::of(path));
            changed |= was.is_young || Stamp { is_young: false, ..*stamp } != was;
        }
        changed
    }
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let Ok(found) = metadata(path) else { return Self::default() };
        let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        Self {
            file: (found.dev(), found.ino()),
            len: found.len(),
            written: (found.mtime(), found.mtime_nsec()),
            is_young: age.is_none_or(|age| age < YOUNG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    fn age(path: &Path, seconds: u64) {
        let at = SystemTime::now() - Duration::from_secs(seconds);
        File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    }

    #[test]
    fn a_file_that_is_written_replaced_or_removed_has_changed_and_one_that_is_left_alone_has_not() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for path in [&first, &second] {
            fs::write(path, "1").unwrap();
            age(path, 100);
        }
        let mut changes = FileChanges::of([&*first]);
        assert!(!changes.look());
        fs::write(&first, "2").unwrap();
        age(&first, 90);
        assert!(changes.look(), "written");
        assert!(!changes.look());
        age(&second, 90);
        fs::rename(&second, &first).unwrap();
        assert!(changes.look(), "replaced");
        fs::remove_file(&first).unwrap();
        assert!(changes.look(), "removed");
        assert!(!changes.look());
    }

    #[test]
    fn one_that_was_written_just_now_may_have_changed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1").unwrap();
        assert!(FileChanges::of([&*path]).look());
    }
}
