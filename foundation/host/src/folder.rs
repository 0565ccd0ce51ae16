//! Folders into which nobody else can put anything, and in whose place nobody else can put another one.
//!
//! What root writes to a path that others can change, or reads from it, is theirs to lead elsewhere by a link. So such a
//! folder, and all above it, has to be root's or the caller's own, and nobody else may write there; above it the sticky bit
//! will do, with which others can't take away what isn't theirs.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The folder, by a path without links; made if need be, for nobody else to look into.
///
/// # Errors
/// What the system says; [`io::ErrorKind::PermissionDenied`] if others can change what is there.
pub(crate) fn make(path: &Path) -> io::Result<PathBuf> {
    let path = named(path);
    // What is made below a folder of others is made where they like.
    if let Some(there) = path.ancestors().map(named).find(|at| at.symlink_metadata().is_ok()) {
        check(&fs::canonicalize(there)?, path != there)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    find(path)
}

/// The folder, by a path without links.
///
/// # Errors
/// As of [`make`]; [`io::ErrorKind::NotFound`] if there is none.
pub(crate) fn find(path: &Path) -> io::Result<PathBuf> {
    let path = named(path);
    let found = fs::canonicalize(path)?;
    check(&found, false)?;
    // Nor may a link on the way be anybody else's, or where others may put another one.
    for at in std::path::absolute(path)?.ancestors() {
        let owner = at.symlink_metadata()?.uid();
        if !is_ours(owner) {
            return Err(refused(format!("user {owner} owns {}, and can lead it elsewhere", at.display())));
        }
        check(&fs::canonicalize(at)?, true)?;
    }
    Ok(found)
}

/// The path of the current folder is empty in a path that is relative.
fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Checks a folder and those above it; `is_above`: of it, too, the sticky bit will do.
fn check(path: &Path, is_above: bool) -> io::Result<()> {
    for folder in path.ancestors() {
        let facts = folder.symlink_metadata()?;
        let (owner, mode) = (facts.uid(), facts.mode());
        let is_sticky = (is_above || folder != path) && mode & STICKY != 0;
        if !is_ours(owner) || (mode & OTHERS_WRITE != 0 && !is_sticky) {
            let what = format!(
                "others can change what is in {}, which user {owner} owns and has the mode {:o}",
                folder.display(),
                mode & 0o7777
            );
            return Err(refused(what));
        }
    }
    Ok(())
}

fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    fn is_refused(path: &Path) {
        for tried in [make(path), find(path)] {
            let error = tried.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            let said = error.to_string();
            assert!(
                said.starts_with("others can change what is in ") || said.contains("can lead it elsewhere"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_folder_is_made_for_nobody_else_and_found_again() {
        let within = tempfile::tempdir().unwrap();
        let path = within.path().join("one/two");
        assert_eq!(find(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let made = make(&path).unwrap();
        assert_eq!((made.metadata().unwrap().mode() & 0o777, find(&path).unwrap()), (0o700, made.clone()));
        let link = within.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(make(&link).unwrap(), made, "a link of one's own leads where it leads");
        symlink(within.path().join("nowhere"), within.path().join("dangling")).unwrap();
        assert!(make(&within.path().join("dangling")).is_err());
    }

    #[test]
    fn a_folder_to_which_others_may_write_is_none() {
        let within = tempfile::tempdir().unwrap();
        let open = within.path().join("open");
        fs::create_dir(&open).unwrap();
        for mode in [0o777, 0o775, 0o1777] {
            fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
            is_refused(&open);
        }
        // Below one with the sticky bit there may be one that is ours.
        let below = open.join("below");
        assert!(make(&below).is_ok() && find(&below).is_ok());
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        is_refused(&below);
        assert!(make(&open.join("new")).is_err() && !open.join("new").exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_none() {
        let within = tempfile::tempdir().unwrap();
        let theirs = within.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        if chown(&theirs, Some(65534), None).is_err() {
            return eprintln!("passed over: only root can give a folder away");
        }
        is_refused(&theirs);
        // Nor what they may lead elsewhere at any time.
        let ours = within.path().join("ours");
        fs::create_dir(&ours).unwrap();
        symlink(&ours, theirs.join("link")).unwrap();
        is_refused(&theirs.join("link"));
        assert!(find(&ours).is_ok());
        // As somebody would wait for root with in a folder for all.
        let shared = within.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        symlink(&ours, shared.join("state")).unwrap();
        assert!(find(&shared.join("state")).is_ok());
        lchown(shared.join("state"), Some(65534), None).unwrap();
        is_refused(&shared.join("state"));
    }
}
