//! Which fuzz targets there are, and where what belongs to them lies.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::step::root;

/// A fuzz target: a program of `lab/fuzz`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target(String);

impl Target {
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// The inputs that are kept in git.
    pub(super) fn seeds(&self) -> PathBuf {
        self.folder("seeds")
    }

    /// The inputs that cover something, of all runs on this machine.
    pub(super) fn corpus(&self) -> PathBuf {
        self.folder("corpus")
    }

    /// The inputs that have found faults.
    pub(super) fn artifacts(&self) -> PathBuf {
        self.folder("artifacts")
    }

    fn folder(&self, kind: &str) -> PathBuf {
        root().join("lab/fuzz").join(kind).join(&self.0)
    }
}

/// All that there are, by name.
pub(super) fn all() -> Result<Vec<Target>> {
    let folder = root().join("lab/fuzz/fuzz_targets");
    let listed = fs::read_dir(&folder).with_context(|| format!("can't list {}", folder.display()))?;
    let paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let mut targets: Vec<_> = sources.filter_map(|path| Some(Target(path.file_stem()?.to_str()?.to_owned()))).collect();
    targets.sort();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walkdir::WalkDir;

    /// What is kept of a target, at most.
    const SEEDS: usize = 300;
    const SEED_BYTES: u64 = 300 << 10;

    #[test]
    fn each_target_has_seeds_and_not_too_many() {
        for target in all().unwrap() {
            let seeds: Vec<_> = WalkDir::new(target.seeds()).into_iter().flatten().collect();
            let files: Vec<_> = seeds.iter().filter(|entry| entry.file_type().is_file()).collect();
            let bytes: u64 = files.iter().map(|entry| entry.metadata().unwrap().len()).sum();
            assert!((1..=SEEDS).contains(&files.len()), "{}: {} seeds", target.name(), files.len());
            assert!(bytes <= SEED_BYTES, "{}: {bytes} bytes", target.name());
        }
    }

    /// What `lab/fuzz` compiles as a program of its own and what a test replays the seeds of is one driver, so no target is
    /// without a test.
    #[test]
    fn the_seeds_of_each_target_are_replayed_by_a_test() {
        let sources =
            ["foundation", "framework", "lab/sim", "store", "tools"].map(|folder| WalkDir::new(root().join(folder)));
        let sources = sources.into_iter().flatten().flatten().map(walkdir::DirEntry::into_path);
        let sources = sources.filter(|path| path.extension().is_some_and(|it| it == "rs"));
        let text: String = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
        for target in all().unwrap() {
            let replay = format!("replay(\"{}\"", target.name());
            assert!(text.contains(&replay), "no test says {replay}, driver)");
        }
    }

    #[test]
    fn the_readme_says_what_each_target_shows() {
        let readme = fs::read_to_string(root().join("lab/fuzz/README.md")).unwrap();
        for target in all().unwrap() {
            assert!(readme.contains(&format!("| `{}` |", target.name())), "lab/fuzz/README.md: {}", target.name());
        }
    }
}
