//! What was linked otherwise is linked again.
//!
//! Cargo knows nothing of what the linker is told, nor that it is another one now, so it takes an executable for up to date
//! that was linked by other options. Those are kept beside what is built, and where they change the executables are removed:
//! cargo makes what isn't there. Libraries have no probes yet, and stay.

use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file with what the linker was told last.
const TOLD: &str = "linked-by.json";

/// Removes the executables in a target folder of ours, unless they were linked by the same linker that was told the same.
///
/// # Errors
/// When something is there that can't be read, written or removed.
pub(crate) fn remove_others(folder: &Path, host: &str, told: &str) -> Result<()> {
    let file = folder.join(TOLD);
    if fs::read_to_string(&file).is_ok_and(|last| last == told) {
        return Ok(());
    }
    for profile in entries(&folder.join(host))? {
        for name in ["deps", "examples"] {
            for built in entries(&profile.join(name))? {
                if is_executable(&built) {
                    fs::remove_file(&built).with_context(|| format!("can't remove {}", built.display()))?;
                }
            }
        }
    }
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    fs::write(&file, told).with_context(|| format!("can't write {}", file.display()))
}

/// What is in a directory; nothing if it isn't one.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        found => found.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect()),
    };
    found.with_context(|| format!("can't read {}", folder.display()))
}

/// Whether it is a program; libraries that are loaded may be executed, too.
fn is_executable(path: &Path) -> bool {
    let is_library = path.extension().is_some_and(|extension| extension == "so");
    let may_run = |about: fs::Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
    !is_library && fs::metadata(path).is_ok_and(may_run)
}
