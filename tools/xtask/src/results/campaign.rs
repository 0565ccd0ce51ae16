//! All benchmarks of one code, in as many goes as it takes.
//!
//! A go keeps what it measured in a folder of `docs/results/next`, so that the next one can be on another machine of the same
//! kind ([`Machine::kind`]), once that is committed; each kind has a folder of its own. When all has been measured on
//! one kind, it takes the place of what was in `docs/results`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use super::files::{Machine, Results};
use super::{code, folder};
use crate::step::{git, root, target, wrong_use};
use crate::{bench, interop};

/// What is measured, the ones that take longest last.
const ALL: [&str; 13] = [
    "boost",
    "flows",
    "rpc",
    "grpc",
    "grpc-served",
    "predict",
    "abuse",
    "sim",
    "replica",
    "interop",
    "preempt",
    "path",
    "served",
];

/// Measures what hasn't been measured of this code yet. Returns whether all has been, and was moved to where results are
/// kept.
///
/// # Errors
/// When files differ from the commit, or not all could be measured; what could be is kept.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    if let Some(name) = only.iter().find(|name| !ALL.contains(&name.as_str())) {
        return Err(wrong_use(format!("no benchmark is called `{name}`"), "cargo xtask results --help"));
    }
    let commit = commit()?;
    let code = code(&commit);
    let (measured, all_next) = (target().join("results"), folder().join("next"));
    let next = all_next.join(Machine::this().folder());
    fs::create_dir_all(&measured).with_context(|| format!("can't make {}", measured.display()))?;
    let mut failed = Vec::new();
    for name in ALL.into_iter().filter(|name| only.is_empty() || only.iter().any(|one| one == name)) {
        let file = measured.join(format!("{name}.json"));
        if let Some(of) = measured_at(&file, &code).or_else(|| measured_at(&next.join(format!("{name}.json")), &code)) {
            println!("{name}: measured at {of} already");
            continue;
        }
        println!("\nmeasuring {name}");
        if let Err(error) = measure(name, &file, &commit) {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    }
    let missing = gather(&measured, &next, &code)?;
    ensure!(
        failed.is_empty() || missing.is_empty(),
        "not all could be measured: {}; to go on with these, once what is wrong is put right: cargo xtask results",
        missing.join(", ")
    );
    if !missing.is_empty() {
        println!(
            "what was measured is in {}; to be measured still: {}. To go on with these elsewhere, commit that first",
            next.display(),
            missing.join(", ")
        );
        return Ok(false);
    }
    keep(&next)?;
    fs::remove_dir_all(&all_next).with_context(|| format!("can't remove {}", all_next.display()))?;
    interop::run(&["document".to_owned()])?;
    Ok(true)
}

/// The commit that is checked out, as results name it.
fn commit() -> Result<String> {
    let changed = git(&root(), ["status", "--porcelain"])?;
    // What goes left there is no change of what is measured.
    if changed.lines().any(|line| !line.starts_with("?? docs/results/next/")) {
        bail!(
            "files differ from the commit, so nobody could measure the same again; commit them, or put them aside\n{changed}"
        );
    }
    git(&root(), ["describe", "--always", "--abbrev=12", "--exclude=*"])
}

/// The commit that a file has results of, if that has the code that is asked for, and the machine was one like this.
fn measured_at(file: &Path, of: &str) -> Option<String> {
    let results = Results::read(file).ok()?;
    let is_alike = results.machine.kind() == Machine::this().kind();
    Some(results.commit).filter(|commit| is_alike && code(commit) == of)
}

/// Takes what was measured of a code to what is kept of it from earlier goes, and removes there what is of other code.
/// Returns what there is nothing of yet.
fn gather(measured: &Path, next: &Path, code: &str) -> Result<Vec<&'static str>> {
    fs::create_dir_all(next).with_context(|| format!("can't make {}", next.display()))?;
    let mut missing = Vec::new();
    for name in ALL {
        let (from, to) = (measured.join(format!("{name}.json")), next.join(format!("{name}.json")));
        if measured_at(&from, code).is_some() {
            copy(&from, &to)?;
        } else if measured_at(&to, code).is_none() {
            missing.push(name);
            if to.exists() {
                fs::remove_file(&to).with_context(|| format!("can't remove {}", to.display()))?;
            }
        }
    }
    Ok(missing)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("can't copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Measures one, and keeps what it wrote: it may have missed a claim, or left out a system, which is told as well.
fn measure(name: &str, file: &Path, commit: &str) -> Result<()> {
    let began = SystemTime::now();
    let done = if name == "interop" { interop::run(&[]) } else { bench::measure(name, &[]) };
    let written = bench::written(name);
    let is_new = fs::metadata(&written).and_then(|it| it.modified()).is_ok_and(|modified| modified >= began);
    if is_new && Results::read(&written).is_ok_and(|results| results.commit == commit) {
        copy(&written, file)?;
    }
    done
}

/// Moves all to where results are kept, in place of those that are there.
fn keep(next: &Path) -> Result<()> {
    for old in json(&folder())? {
        let name = old.file_stem().unwrap_or_default();
        if !ALL.iter().any(|known| name == *known) {
            println!("{} is of no benchmark any more, and is removed", old.display());
            fs::remove_file(&old).with_context(|| format!("can't remove {}", old.display()))?;
        }
    }
    for name in ALL.map(|name| format!("{name}.json")) {
        copy(&next.join(&name), &folder().join(&name))?;
    }
    Ok(())
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
    fn what_is_of_this_code_is_gathered_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("greenwave-results-{}", std::process::id()));
        let [measured, next] = ["measured", "next"].map(|name| folder.join(name));
        fs::create_dir_all(&measured).unwrap();
        fs::create_dir_all(&next).unwrap();
        let Machine { cpu, cores, kernel } = Machine::this();
        let result = |commit: &str, cores: Option<usize>| {
            let machine = serde_json::json!({ "cpu": cpu, "cores": cores, "kernel": kernel });
            serde_json::json!({ "commit": commit, "machine": machine, "rows": [] }).to_string()
        };
        let write = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        // No commits that there are, so that each is a code of its own.
        write(&measured, "rpc.json", &result("this", cores));
        write(&measured, "grpc.json", &result("other", cores));
        write(&measured, "path.json", "half of a f");
        write(&next, "flows.json", &result("this", cores));
        write(&next, "served.json", &result("other", cores));
        write(&next, "replica.json", &result("this", Some(1 << 20)));
        let missing = gather(&measured, &next, "this").unwrap();
        assert!(!missing.contains(&"rpc") && !missing.contains(&"flows"), "{missing:?}");
        assert_eq!(missing.len(), ALL.len() - 2);
        let mut kept: Vec<_> = json(&next).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        kept.sort();
        assert_eq!(kept, ["flows.json", "rpc.json"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn benchmarks_that_there_are_not_are_refused() {
        let error = run(&["nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("no benchmark is called `nothing`"), "{error}");
    }
}
