//! All benchmarks at one commit, in as many goes as it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use super::files::Results;
use super::folder;
use crate::step::{git, root, target, wrong_use};
use crate::{bench, interop};

/// What is measured, the ones that take longest last.
const ALL: [&str; 11] =
    ["flows", "rpc", "grpc", "grpc-served", "abuse", "sim", "replica", "interop", "preempt", "path", "served"];

/// Measures what hasn't been measured at this commit yet. Returns whether all has been, and was copied to where results are
/// kept.
///
/// # Errors
/// When files differ from the commit, or not all could be measured; what could be is kept.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    if let Some(name) = only.iter().find(|name| !ALL.contains(&name.as_str())) {
        return Err(wrong_use(format!("no benchmark is called `{name}`"), "cargo xtask results --help"));
    }
    let commit = commit()?;
    let kept = target().join("results");
    fs::create_dir_all(&kept).with_context(|| format!("can't make {}", kept.display()))?;
    let mut failed = Vec::new();
    for name in ALL.into_iter().filter(|name| only.is_empty() || only.iter().any(|one| one == name)) {
        let file = kept.join(format!("{name}.json"));
        if is_of(&file, &commit) {
            println!("{name}: measured at {commit} already");
            continue;
        }
        println!("\nmeasuring {name}");
        if let Err(error) = measure(name, &file, &commit) {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    }
    let missing: Vec<_> = ALL.into_iter().filter(|name| !is_of(&kept.join(format!("{name}.json")), &commit)).collect();
    ensure!(
        failed.is_empty() || missing.is_empty(),
        "not all could be measured: {}; to go on with these, once what is wrong is put right: cargo xtask results",
        missing.join(", ")
    );
    if !missing.is_empty() {
        println!("to be measured at {commit} still: {}", missing.join(", "));
        return Ok(false);
    }
    keep(&kept)?;
    Ok(true)
}

/// The commit that is checked out, as results name it.
fn commit() -> Result<String> {
    let changed = git(&root(), ["status", "--porcelain"])?;
    if !changed.is_empty() {
        bail!(
            "files differ from the commit, so nobody could measure the same again; commit them, or put them aside\n{changed}"
        );
    }
    git(&root(), ["describe", "--always", "--abbrev=12", "--exclude=*"])
}

/// Whether a file has results of a commit.
fn is_of(file: &Path, commit: &str) -> bool {
    Results::read(file).is_ok_and(|results| results.commit == commit)
}

/// Measures one, and keeps what it wrote: it may have missed a claim, or left out a system, which is told as well.
fn measure(name: &str, file: &Path, commit: &str) -> Result<()> {
    let began = SystemTime::now();
    let done = if name == "interop" { interop::run(&[]) } else { bench::measure(name, &[]) };
    let written = bench::written(name);
    let is_new = fs::metadata(&written).and_then(|it| it.modified()).is_ok_and(|modified| modified >= began);
    if is_new && is_of(&written, commit) {
        fs::copy(&written, file).with_context(|| format!("can't copy {} to {}", written.display(), file.display()))?;
    }
    done
}

/// Copies all to where results are kept, in place of those that are there.
fn keep(measured: &Path) -> Result<()> {
    for old in json(&folder())? {
        let name = old.file_stem().unwrap_or_default();
        if !ALL.iter().any(|known| name == *known) {
            println!("{} is of no benchmark any more, and is removed", old.display());
            fs::remove_file(&old).with_context(|| format!("can't remove {}", old.display()))?;
        }
    }
    for name in ALL.map(|name| format!("{name}.json")) {
        let (from, to) = (measured.join(&name), folder().join(&name));
        fs::copy(&from, &to).with_context(|| format!("can't copy {} to {}", from.display(), to.display()))?;
    }
    interop::run(&["document".to_owned()])
}

fn json(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_commit_that_it_names() {
        let file = std::env::temp_dir().join(format!("greenwave-results-{}.json", std::process::id()));
        fs::write(&file, r#"{"commit":"0123456789ab","rows":[]}"#).unwrap();
        assert!(is_of(&file, "0123456789ab") && !is_of(&file, "0123456789ac"));
        fs::write(&file, "half of a f").unwrap();
        assert!(!is_of(&file, "0123456789ab"));
        fs::remove_file(&file).unwrap();
        assert!(!is_of(&file, "0123456789ab"));
    }

    #[test]
    fn benchmarks_that_there_are_not_are_refused() {
        let error = run(&["nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("no benchmark is called `nothing`"), "{error}");
    }
}
