//! A search path with nothing on it but what the README says that tests need: what else a machine has hides nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Rust, a C compiler with its linker, Git, iproute2, and of coreutils, util-linux and the shell what is run.
const PROGRAMS: [&str; 20] = [
    "ar", "as", "cargo", "cat", "cc", "chrt", "git", "ip", "ld", "mount", "nice", "nsenter", "rustc", "rustdoc",
    "setpriv", "sh", "tc", "timeout", "true", "umount",
];

/// Links those of them that `path` has into an empty folder.
///
/// # Errors
/// When the folder can't be written.
pub(crate) fn make(folder: PathBuf, path: &OsStr) -> Result<OsString> {
    // There need not be one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    for program in PROGRAMS {
        let found = std::env::split_paths(path).map(|place| place.join(program)).find(|it| it.is_file());
        // What isn't there is passed over by the tests that want it.
        if let Some(found) = found {
            let link = folder.join(program);
            symlink(&found, &link).with_context(|| format!("can't link {} to {}", link.display(), found.display()))?;
        }
    }
    Ok(folder.into_os_string())
}

/// Where the folder is.
pub(crate) fn folder(target: &Path) -> PathBuf {
    target.join("bare-path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{root, target};

    #[test]
    fn only_what_is_named_is_on_the_path() {
        let of = target().join("bare-path-test").join("all");
        let _ = fs::remove_dir_all(&of);
        fs::create_dir_all(&of).unwrap();
        for program in ["cc", "git", "ethtool"] {
            fs::write(of.join(program), "").unwrap();
        }
        let made = make(target().join("bare-path-test").join("bare"), of.as_os_str()).unwrap();
        let mut names: Vec<_> = fs::read_dir(made).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["cc", "git"]);
    }

    #[test]
    fn the_readme_names_what_is_on_the_path() {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        let named = readme.lines().find(|line| line.starts_with("`cargo xtask test` needs")).unwrap_or_default();
        for what in ["Rust", "C compiler", "Git", "iproute2", "coreutils", "util-linux"] {
            assert!(named.contains(what), "{what}: {named}");
        }
    }
}
