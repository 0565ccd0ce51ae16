//! `cargo xtask results`: what the documents say of measurements, and where it comes from.
//!
//! - [`campaign`]: runs every benchmark of one code, goes on where it was ended, and keeps what was written.
//! - [`files`]: the results as they are kept. [`figure`]: how a document names one of their figures.
//! - [`document`]: the parts of documents that are written from them, with [`lines`] for tables.
//!   [`by_hand`]: figures outside of these.

mod by_hand;
mod campaign;
mod document;
mod figure;
mod files;
mod lines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::step::{asks_for_help, git, root, say, wrong_use};
use document::{Outcome, Templates};
use files::Kept;

const HELP: &str = "\
Runs all benchmarks at the commit that is checked out, keeps their results in docs/results, and writes the figures of
README.md and docs from them. It takes some hours, and root for the networks. What was measured of this code already, here
or on a machine of the same kind (docs/results/next), is not measured again, so a run that was ended goes on where it was.
Commits that change nothing but results and documents have the same code; machines of the same kind have the same processor,
cores and release of the kernel.

Usage: cargo xtask results [--only NAME]...
       cargo xtask results document
       cargo xtask results --verify

  --only NAME   of these benchmarks alone; repeatable
  document      writes the figures of the documents anew, of docs/results as it is
  --verify      ends with 1 where a figure in a document isn't in a result, or isn't what is there, or was written by hand,
                and if results are of several codes or kinds of machines

Documents: what stands between `<!-- figures: NAME -->` and `<!-- end of figures -->` is written from what stands there in
docs/figures/DOCUMENT.in. A figure is {FILE CASE SYSTEM METRIC FORMAT}; see tools/xtask/src/results/figure.rs. A line that
begins with {each FILE CASES SYSTEMS} is repeated; see tools/xtask/src/results/lines.rs.";

pub(crate) fn run(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        _ if asks_for_help(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()) => say(HELP),
        ["document"] => document_all(),
        ["--verify"] => verify(),
        _ => campaign::run(&only(&words)?).and_then(|complete| if complete { document_all() } else { Ok(()) }),
    }
}

fn only(words: &[&str]) -> Result<Vec<String>> {
    let mut only = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(name) = words.next().filter(|_| *word == "--only") else {
            return Err(wrong_use(format!("`{word}` is not understood"), "cargo xtask results --help"));
        };
        only.push((*name).to_owned());
    }
    Ok(only)
}

/// Documents that are written by other commands, whose tests see to it that they are right.
const OF_OTHERS: [&str; 3] = ["interop.md", "reproduction.md", "unsafe.md"];

/// The documents that may have figures: the README, and what is in `docs`.
fn documents() -> Result<Vec<PathBuf>> {
    let mut found = vec![root().join("README.md")];
    for folder in [root().join("docs"), folder()] {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("can't read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let is_ours = !path.file_name().is_some_and(|name| OF_OTHERS.iter().any(|other| name == *other));
            if is_ours && path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The commit that last changed what a measurement can depend on, seen from another one: all but results and documents.
/// What is no commit, or of files that no commit has, is a code of its own.
fn code(commit: &str) -> String {
    let aside = [".", ":(exclude)docs/results", ":(exclude)docs/figures", ":(exclude)*.md"];
    let found =
        git(&root(), [&["rev-list", "-1", "--abbrev-commit", "--abbrev=12", commit, "--"][..], &aside].concat());
    found.ok().filter(|code| !code.is_empty()).unwrap_or_else(|| commit.to_owned())
}

/// Where results are kept.
fn folder() -> PathBuf {
    root().join("docs").join("results")
}

fn read(document: &Path) -> Result<String> {
    std::fs::read_to_string(document).with_context(|| format!("can't read {}", document.display()))
}

/// What a document's parts are written from; nothing if it has none.
fn templates(document: &Path) -> Result<Templates> {
    let path = root().join("docs").join("figures").join(format!("{}.in", named(document)));
    if !path.is_file() {
        return Ok(Templates::default());
    }
    Templates::of(&read(&path)?).with_context(|| named(&path))
}

/// A document as it is, and what is to be there.
fn written(document: &Path, kept: &Kept) -> Result<(String, Outcome)> {
    let text = read(document)?;
    let outcome = document::written(&text, &templates(document)?, kept).with_context(|| named(document))?;
    Ok((text, outcome))
}

/// A document's name as the project has it.
fn named(document: &Path) -> String {
    document.strip_prefix(root()).unwrap_or(document).display().to_string()
}

/// Writes the figures of all documents.
fn document_all() -> Result<()> {
    let kept = Kept::read(&folder())?;
    for document in documents()? {
        let (before, Outcome { text, pending, .. }) = written(&document, &kept)?;
        pending.iter().for_each(|why| println!("{}: left as it is: {why}", named(&document)));
        if text != before {
            std::fs::write(&document, text).with_context(|| format!("can't write {}", document.display()))?;
            println!("wrote {}", named(&document));
        }
    }
    Ok(())
}

/// Fails where a document says what no result does, or results don't belong together.
fn verify() -> Result<()> {
    let kept = Kept::read(&folder())?;
    let mut wrong = kept.discord(code);
    let known = by_hand::Known::read(&folder())?;
    let mut seen = BTreeMap::new();
    for document in documents()? {
        let (name, (text, found)) = (named(&document), written(&document, &kept)?);
        wrong.extend(found.pending.iter().map(|why| format!("{name}: {why}")));
        wrong.extend(found.stale.iter().map(|line| format!("{name}: not what the results say: {line}")));
        let unknown = known.unknown(&name, &text);
        wrong.extend(known.not_stated(&name, &text).into_iter().map(|figure| match unknown.contains(&figure) {
            true => format!("{name}: in no result and no list: {figure}"),
            false => format!("{name}: by hand: {figure}"),
        }));
        seen.insert(name, text);
    }
    wrong.extend(known.gone(&seen).into_iter().map(|entry| format!("no longer there, but in a list: {entry}")));
    if !wrong.is_empty() {
        wrong.sort();
        bail!("{} things are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    println!("every figure has a result, all of one code");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--verify` asks for, as far as it holds. Exempt are:
    /// - that all results are of one code and one kind of machine, which they are once all have been measured in one campaign;
    /// - parts whose benchmark has been changed since it was measured, and so has no such results yet: those in `pending.txt`,
    ///   by what is said of them;
    /// - figures that were measured by hand: those in `by-hand.txt`, which is empty and stays so.
    #[test]
    fn every_figure_in_a_document_is_in_a_result_or_is_known_not_to_be() {
        let kept = Kept::read(&folder()).unwrap();
        let known = by_hand::Known::read(&folder()).unwrap();
        let listed = std::fs::read_to_string(folder().join("pending.txt")).unwrap();
        let mut awaited: BTreeMap<&str, usize> = listed.lines().skip(1).map(|line| (line, 0)).collect();
        let (mut wrong, mut figures) = (Vec::new(), 0);
        let mut seen = BTreeMap::new();
        for document in documents().unwrap() {
            let (name, (text, found)) = (named(&document), written(&document, &kept).unwrap());
            figures += found.figures;
            wrong.extend(found.stale.iter().map(|line| format!("{name}: {line}")));
            for why in &found.pending {
                match awaited.iter_mut().find(|(words, _)| why.contains(**words)) {
                    Some((_, found)) => *found += 1,
                    None => wrong.push(format!("{name}: {why}")),
                }
            }
            let unknown = known.unknown(&name, &text).into_iter();
            wrong.extend(unknown.map(|figure| format!("{name}: in no result and no list: {figure}")));
            seen.insert(name, text);
        }
        wrong.extend(
            known.gone(&seen).into_iter().map(|entry| format!("no longer there, take it out of the list: {entry}")),
        );
        let come = awaited.iter().filter(|(_, found)| **found == 0).map(|(words, _)| words);
        wrong.extend(come.map(|words| format!("measured, take it out of pending.txt: {words}")));
        assert!(
            wrong.is_empty(),
            "to write figures from results: cargo xtask results document; settings and other facts belong in \
             docs/results/stated.txt\n{}",
            wrong.join("\n")
        );
        assert!(figures > 100, "{figures} figures are written from results");
    }

    #[test]
    fn no_figure_was_measured_by_hand() {
        let known = by_hand::Known::read(&folder()).unwrap();
        assert!(known.by_hand().is_empty(), "a benchmark has to measure it: {:?}", known.by_hand());
    }
}
