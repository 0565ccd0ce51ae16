//! `cargo quanta report`: for how long code may run without a probe, across calls, and where nobody can say.
//!
//! What is known of each function is written when it is instrumented and kept beside the program. From that, bottom up
//! over all modules, follows the longest *stretch* of each function: its own longest way without a probe, and on top of
//! it the ways back from those that it calls, each from its last probe to its return. A function that probes does so
//! first of all, so nothing is added for the ways into it.
//!
//! Stretches are in instructions, roughly. Unbounded is what calls code without probes: other languages, what the
//! standard library brings compiled, functions left out. Each such function is named, with who calls it.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::module::path_of;

/// How many functions are listed.
const LISTED: usize = 20;

/// What is known of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fact {
    /// As the linker knows it.
    pub(crate) name: String,
    /// Its longest way without a probe; `None` if it was left out.
    pub(crate) longest: Option<u32>,
    /// Its longest way from a probe to a return.
    pub(crate) tail: u32,
    /// Whether it probes, and then as it is entered, or late on its ways; otherwise its callers pay for all of it.
    pub(crate) probes: bool,
    /// Whom it calls by name.
    pub(crate) calls: Vec<String>,
    /// Whether it calls through pointers too.
    pub(crate) by_pointer: bool,
}

/// Where the facts of a program are kept.
fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".quanta.json");
    name.into()
}

/// Keeps the facts of a program that is being linked.
pub(crate) fn keep(program: &Path, facts: &[Fact]) -> Result<()> {
    let path = beside(program);
    fs::write(&path, serde_json::to_vec(facts)?).with_context(|| format!("can't write {}", path.display()))
}

/// Runs a build whose messages are JSON, and reports on the programs that it made.
pub(crate) fn report(cargo: &mut Command) -> Result<ExitCode> {
    let output = cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).output().context("can't run cargo")?;
    if !output.status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let programs: Vec<PathBuf> =
        messages.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from)).collect();
    if programs.is_empty() {
        bail!("this builds no program: name one with --bin, --example or --package");
    }
    for program in programs {
        let facts = facts_of(&program)?;
        println!("{}", program.display());
        print!("{}", Report::of(&facts));
    }
    Ok(ExitCode::SUCCESS)
}

/// The program that cargo names is a link to the one that the linker made, beside which the facts are.
fn facts_of(program: &Path) -> Result<Vec<Fact>> {
    let missing = || format!("nothing is known of {}; remove it and build again", program.display());
    let (folder, inode) = (program.parent().with_context(missing)?, fs::metadata(program)?.ino());
    let folders = [folder.join("deps"), folder.to_path_buf()];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut paths = files.map(|file| file.path()).filter(|path| {
        let made = path.to_str().and_then(|path| path.strip_suffix(".quanta.json"));
        made.and_then(|made| fs::metadata(made).ok()).is_some_and(|about| about.ino() == inode)
    });
    let path = paths.next().with_context(missing)?;
    serde_json::from_slice(&fs::read(&path)?).with_context(|| format!("{} is broken", path.display()))
}

/// What is told of a program.
struct Report<'a> {
    functions: usize,
    probing: usize,
    left_out: usize,
    by_pointer: usize,
    /// The longest first.
    stretches: Vec<(&'a Fact, u32)>,
    /// Functions without probes, each with who calls it.
    foreign: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Report<'a> {
    fn of(facts: &'a [Fact]) -> Self {
        let known: HashMap<&str, &Fact> = facts.iter().map(|fact| (fact.name.as_str(), fact)).collect();
        let mut backs = HashMap::new();
        let mut stretches: Vec<_> = facts
            .iter()
            .filter_map(|fact| {
                let on_top = fact.calls.iter().map(|call| back(call, &known, &mut backs, &mut HashSet::new())).max();
                Some((fact, fact.longest?.saturating_add(on_top.unwrap_or(0))))
            })
            .collect();
        stretches.sort_by_key(|(fact, stretch)| (std::cmp::Reverse(*stretch), fact.name.as_str()));
        stretches.dedup_by_key(|(fact, _)| fact.name.as_str());
        let mut foreign: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for fact in facts.iter().filter(|fact| fact.longest.is_some()) {
            let has_none = |call: &&String| known.get(call.as_str()).is_none_or(|called| called.longest.is_none());
            fact.calls.iter().filter(has_none).for_each(|call| foreign.entry(call).or_default().push(&fact.name));
        }
        Self {
            functions: facts.len(),
            probing: facts.iter().filter(|fact| fact.probes).count(),
            left_out: facts.iter().filter(|fact| fact.longest.is_none()).count(),
            by_pointer: facts.iter().filter(|fact| fact.by_pointer).count(),
            stretches,
            foreign,
        }
    }
}

/// The longest way back from a function, from the last probe in it or in those it calls. Who is called again on the way
/// adds nothing: long ways back from recursion are paid for.
fn back<'a>(
    name: &'a str,
    known: &HashMap<&'a str, &'a Fact>,
    backs: &mut HashMap<&'a str, u32>,
    open: &mut HashSet<&'a str>,
) -> u32 {
    let Some(fact) = known.get(name).filter(|fact| fact.probes) else { return 0 };
    if let Some(back) = backs.get(name) {
        return *back;
    }
    if !open.insert(name) || open.len() > 200 {
        return 0;
    }
    let further = fact.calls.iter().map(|call| back(call, known, backs, open)).max().unwrap_or(0);
    open.remove(name);
    let whole = fact.tail.saturating_add(further);
    backs.insert(name, whole);
    whole
}

impl std::fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { functions, probing, left_out, by_pointer, stretches, foreign } = self;
        writeln!(
            f,
            "{functions} functions: {probing} have probes, {left_out} are left out, the others are paid for by their callers"
        )?;
        let longest = stretches.first().map_or(0, |(_, stretch)| *stretch);
        writeln!(f, "\nthe longest stretch without a probe: {longest} instructions, roughly; the longest functions:")?;
        writeln!(f, "{:>10} {:>10}  function", "stretch", "its own")?;
        for (fact, stretch) in stretches.iter().take(LISTED) {
            writeln!(f, "{stretch:>10} {:>10}  {}", fact.longest.unwrap_or(0), path_of(&fact.name))?;
        }
        writeln!(f, "\nnot bounded: {} functions without probes are called, most often:", foreign.len())?;
        let mut by_callers: Vec<_> = foreign.iter().collect();
        by_callers.sort_by_key(|(name, callers)| (std::cmp::Reverse(callers.len()), **name));
        for (name, callers) in by_callers.into_iter().take(LISTED) {
            writeln!(
                f,
                "{:>10} callers  {} ({}), as {}",
                callers.len(),
                path_of(name),
                why(name),
                path_of(callers[0])
            )?;
        }
        writeln!(f, "and {by_pointer} functions call through pointers, to functions that probe or are among these")
    }
}

/// Why a function has no probes.
fn why(name: &str) -> &'static str {
    let path = path_of(name);
    if ["core::", "std::", "alloc::", "__rustc::"].iter().any(|part| path.starts_with(part) || path.contains(part)) {
        "compiled with the standard library"
    } else if path == name {
        "another language, or the system"
    } else {
        "left out, or built without cargo quanta"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, longest: u32, tail: u32, calls: &[&str]) -> Fact {
        let calls = calls.iter().map(|&call| call.to_owned()).collect();
        Fact { name: name.into(), longest: Some(longest), tail, probes: true, calls, by_pointer: false }
    }

    #[test]
    fn ways_back_add_up_and_who_has_no_probes_is_named() {
        let facts = [fact("a", 100, 10, &["b"]), fact("b", 50, 20, &["c", "malloc"]), fact("c", 30, 5, &["a"])];
        let report = Report::of(&facts);
        let stretches: Vec<_> = report.stretches.iter().map(|(fact, stretch)| (fact.name.as_str(), *stretch)).collect();
        assert_eq!(stretches[0], ("a", 100 + 20 + 5 + 10));
        assert_eq!(
            report.foreign.iter().map(|(name, by)| (*name, by.clone())).collect::<Vec<_>>(),
            [("malloc", vec!["b"])]
        );
        let text = report.to_string();
        assert!(text.contains("malloc (another language, or the system), as b"), "{text}");
    }

    #[test]
    fn facts_are_found_beside_what_the_linker_made() {
        let folder = tempfile::tempdir().unwrap();
        let (made, link) = (folder.path().join("deps/server-0123"), folder.path().join("server"));
        fs::create_dir(folder.path().join("deps")).unwrap();
        fs::write(&made, "a program").unwrap();
        fs::hard_link(&made, &link).unwrap();
        let facts = vec![fact("a", 1, 1, &[])];
        keep(&made, &facts).unwrap();
        assert_eq!(facts_of(&link).unwrap(), facts);
        fs::remove_file(beside(&made)).unwrap();
        assert!(facts_of(&link).unwrap_err().to_string().contains("build again"));
    }
}
