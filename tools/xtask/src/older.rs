//! A program as it was at an older commit, to be measured beside what it has become.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bench::Target;
use crate::step::{Steps, cargo, git, root, target, wrong_use};

/// By which it is asked for.
pub(crate) const OPTION: &str = "--older";

/// The name of what is measured with it.
pub(crate) const RESULTS: &str = "rpc-older";

/// A commit.
#[derive(Debug)]
pub(crate) struct Older {
    repository: PathBuf,
    hash: String,
}

/// Whether an older program is asked for.
pub(crate) fn is_wanted(words: &[String]) -> bool {
    words.iter().any(|word| word == OPTION || word.strip_prefix(OPTION).is_some_and(|rest| rest.starts_with('=')))
}

/// Takes the option and its commit out of some words.
///
/// # Errors
/// When there is no such commit.
pub(crate) fn take(words: &mut Vec<String>) -> Result<Option<Older>> {
    take_word(words)?.map(|revision| Older::find(&root(), &revision)).transpose()
}

fn take_word(words: &mut Vec<String>) -> Result<Option<String>> {
    let Some(at) = words.iter().position(|word| is_wanted(std::slice::from_ref(word))) else { return Ok(None) };
    let word = words.remove(at);
    match word.split_once('=') {
        Some((_, revision)) => Ok(Some(revision.to_owned())),
        None if at < words.len() => Ok(Some(words.remove(at))),
        None => Err(wrong_use(format!("{OPTION} wants a commit"), "cargo xtask bench --help")),
    }
}

impl Older {
    fn find(repository: &Path, revision: &str) -> Result<Self> {
        let revision_of_commit = format!("{revision}^{{commit}}");
        let hash = git(repository, ["rev-parse", "--verify", "--end-of-options", &revision_of_commit]);
        let hash = hash.map_err(|error| {
            let remedy = "`git fetch --unshallow` brings those of a full clone";
            wrong_use(format!("there is no commit `{revision}` here ({error}); {remedy}"), "git log")
        })?;
        Ok(Self { repository: repository.to_owned(), hash })
    }

    /// Builds a target of it, of this profile, with these words for Cargo, by what the commit itself says of how it is
    /// built. Where the program is.
    ///
    /// # Errors
    /// When it can't be checked out or built.
    pub(crate) fn build(&self, steps: &mut Steps, profile: &str, built: Target, words: &[&str]) -> Result<PathBuf> {
        let older = target().join("older");
        let source = older.join(&self.hash);
        steps.work("the older source", &format!("{} to {}", self.hash, source.display()), || {
            if source.exists() { Ok(()) } else { self.check_out(&source) }
        })?;
        let [package, kind, name] = built;
        let mut build = cargo(["build", "--profile", profile, "--package", package, kind, name]);
        build.args(words).arg("--target-dir").arg(older.join("target")).current_dir(&source);
        steps.run("build of the older", &mut build)?;
        Ok(older.join("target").join(profile).join(name))
    }

    /// Puts all its files into a folder, which is there only if all are.
    fn check_out(&self, folder: &Path) -> Result<()> {
        let partial = folder.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).with_context(|| format!("can't remove {}", partial.display()))?;
        }
        let [from, to] = [&self.repository, &partial].map(|path| path.as_os_str());
        // Its objects stay where they are, so this takes the time that its files take.
        let clone = ["clone", "--quiet", "--shared", "--no-checkout"].map(OsStr::new);
        git(&self.repository, clone.into_iter().chain([from, to]))?;
        git(&partial, ["checkout", "--quiet", "--detach", &self.hash])?;
        fs::rename(&partial, folder).with_context(|| format!("can't make {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &str) -> Vec<String> {
        all.split(' ').map(str::to_owned).collect()
    }

    /// A repository with one commit of one file.
    fn repository(name: &str) -> PathBuf {
        let folder = target().join("older-test").join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a"), "b").unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false"];
        for words in [&["init", "--quiet"][..], &["add", "a"], &["commit", "--quiet", "--message", "a"]] {
            git(&folder, [&who, words].concat()).unwrap();
        }
        folder
    }

    #[test]
    fn the_option_is_taken_and_the_rest_left() {
        for all in ["--case x --older HEAD --quick", "--case x --older=HEAD --quick"] {
            let mut all = words(all);
            assert!(is_wanted(&all));
            assert_eq!(take_word(&mut all).unwrap().as_deref(), Some("HEAD"));
            assert_eq!(all, words("--case x --quick"));
        }
        let mut without = words("--case older --olders");
        assert!(!is_wanted(&without) && take_word(&mut without).unwrap().is_none());
        assert_eq!(without.len(), 3);
        let error = take_word(&mut words("--quick --older")).unwrap_err().to_string();
        assert_eq!(error, "--older wants a commit; see cargo xtask bench --help");
    }

    #[test]
    fn all_files_of_a_commit_are_checked_out() {
        let repository = repository("checked-out");
        let older = Older::find(&repository, "HEAD").unwrap();
        let folder = repository.join("to");
        older.check_out(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "b");
        assert!(!folder.with_extension("partial").exists());
        fs::remove_dir_all(repository).unwrap();
    }

    #[test]
    fn a_commit_that_there_is_not_is_refused() {
        let repository = repository("refused");
        for revision in ["no-such", "--all", ""] {
            let error = Older::find(&repository, revision).unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no commit `{revision}` here")), "{error}");
        }
        fs::remove_dir_all(repository).unwrap();
    }
}
