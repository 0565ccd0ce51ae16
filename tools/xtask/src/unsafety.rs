//! `cargo xtask unsafe`: where `unsafe` is, crate by crate, as [docs/unsafe.md](../../../docs/unsafe.md) has it.
//!
//! A test holds that table and the code together, so that no block comes in without somebody saying so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use walkdir::WalkDir;

use crate::step::{asks_for_help, root, say, wrong_use};

const HELP: &str = "\
Counts `unsafe` in each crate, and prints the table of docs/unsafe.md.

Usage: cargo xtask unsafe [--write]

Options:
  --write  puts the table into docs/unsafe.md

Code and tests are counted, comments and strings aren't. It fails when a crate has some that may have none.";

/// The folders of the crates that may have some.
const ALLOWED: [&str; 4] = ["foundation/host", "foundation/quanta", "foundation/verbs", "tools/quanta-link"];

const DOCUMENT: &str = "docs/unsafe.md";
const BEGIN: &str = "<!-- written by `cargo xtask unsafe --write` -->\n";

/// What is counted of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// `unsafe { .. }`.
    blocks: usize,
    /// `unsafe fn`, whether it is defined, declared or a type.
    functions: usize,
    /// `unsafe impl` and `unsafe trait`.
    impls: usize,
    /// `unsafe extern`, and attributes such as `unsafe(no_mangle)`.
    others: usize,
}

impl Count {
    fn all(self) -> usize {
        self.blocks + self.functions + self.impls + self.others
    }

    fn add(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => {
                    // What follows, but for `extern` and its ABI.
                    let is_abi = |token: &TokenTree| {
                        matches!(token, TokenTree::Literal(_))
                            || matches!(token, TokenTree::Ident(word) if word == "extern")
                    };
                    let (next, behind) = (tokens.clone().next(), tokens.clone().find(|token| !is_abi(token)));
                    match (next, behind) {
                        (Some(TokenTree::Group(group)), _) if group.delimiter() == Delimiter::Brace => self.blocks += 1,
                        (_, Some(TokenTree::Ident(word))) if word == "fn" => self.functions += 1,
                        (_, Some(TokenTree::Ident(word))) if word == "impl" || word == "trait" => self.impls += 1,
                        _ => self.others += 1,
                    }
                }
                _ => {}
            }
        }
    }
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let writes = match words {
        [] => false,
        [word] if word == "--write" => true,
        _ => return Err(wrong_use(format!("`{}` is not understood", words.join(" ")), "cargo xtask unsafe --help")),
    };
    let counted = count(&root())?;
    let table = table(&counted);
    print!("{table}");
    let stray = stray(&counted);
    if !stray.is_empty() {
        bail!("{} has `unsafe`, which only {} may have", stray.join(", "), ALLOWED.join(", "));
    }
    if writes {
        let path = root().join(DOCUMENT);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (before, _) = text.split_once(BEGIN).with_context(|| format!("{DOCUMENT} has no place for the table"))?;
        fs::write(&path, format!("{before}{BEGIN}{table}"))?;
    }
    Ok(())
}

/// The crates that have some and may have none.
fn stray(counted: &BTreeMap<String, Count>) -> Vec<&str> {
    counted.keys().map(String::as_str).filter(|folder| !ALLOWED.contains(folder)).collect()
}

/// What each crate below a folder has, by its folder; those without any are left out.
fn count(root: &Path) -> Result<BTreeMap<String, Count>> {
    let mut counted: BTreeMap<String, Count> = BTreeMap::new();
    let is_ours = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(name.starts_with('.') || name == "target" || name == "corpus" || name == "artifacts")
    };
    for entry in WalkDir::new(root).into_iter().filter_entry(is_ours) {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.path().extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(entry.path())?;
        // Most files have none, and needn't be taken apart.
        if !text.contains("unsafe") {
            continue;
        }
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow::anyhow!("{}: {error}", entry.path().display()))?;
        let mut count = Count::default();
        count.add(tokens);
        if count.all() > 0 {
            let folder = folder_of(root, entry.path()).to_string_lossy().into_owned();
            let sum = counted.entry(folder).or_default();
            sum.blocks += count.blocks;
            sum.functions += count.functions;
            sum.impls += count.impls;
            sum.others += count.others;
        }
    }
    Ok(counted)
}

/// The folder of the crate that a file belongs to, from the root.
fn folder_of(root: &Path, file: &Path) -> PathBuf {
    let crates = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    let mut crates = crates.filter(|folder| folder.join("Cargo.toml").exists());
    let folder = crates.next().unwrap_or(root);
    folder.strip_prefix(root).unwrap_or(folder).to_path_buf()
}

fn table(counted: &BTreeMap<String, Count>) -> String {
    let mut table = String::from("| crate | blocks | functions | impls and traits | others |\n|---|---|---|---|---|\n");
    for (folder, Count { blocks, functions, impls, others }) in counted {
        // To write into memory doesn't fail.
        let _ = writeln!(table, "| `{folder}` | {blocks} | {functions} | {impls} | {others} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_where_it_may_be_and_as_much_as_is_said() {
        let counted = count(&root()).unwrap();
        assert_eq!(stray(&counted), Vec::<&str>::new(), "only {ALLOWED:?} may have it");
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let written = text.split_once(BEGIN).map(|(_, table)| table);
        assert_eq!(written, Some(&*table(&counted)), "{DOCUMENT} is not current: cargo xtask unsafe --write");
    }

    #[test]
    fn code_is_counted_by_its_kind_and_comments_and_texts_are_not() {
        let code = r##"
            //! unsafe { in a comment }
            #![deny(unsafe_code)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn one() { unsafe { two() } }
            unsafe impl Send for A {}
            unsafe trait B { unsafe fn three(); }
            fn four() -> &'static str { r#"unsafe { }"#; m!(unsafe { five() }); "unsafe { }" }
        "##;
        let mut count = Count::default();
        count.add(code.parse().unwrap());
        assert_eq!(count, Count { blocks: 2, functions: 2, impls: 2, others: 1 });
    }
}
