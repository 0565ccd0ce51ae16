//! What each crate of the workspace says of itself: its licence, and that it doesn't panic; tests alone.

use std::fs;
use std::path::Path;

use walkdir::WalkDir;

use crate::step::root;

const LICENCE: &str = "MIT OR Apache-2.0";
const TEXTS: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Tests may unwrap, what users run may not. It stands in the source, so that one run of Clippy is enough for both.
const NO_PANICS: &str = "#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]";
/// What runs libFuzzer's inputs has to panic where it finds a fault; an example shows what it is an example of.
const UNLINTED: [&str; 2] = ["lab/fuzz", "examples/hello"];

/// The folders of all crates, and what their manifests say.
fn crates() -> Vec<(std::path::PathBuf, String)> {
    let is_ours = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(name.starts_with('.') || name == "target")
    };
    let manifests = WalkDir::new(root()).into_iter().filter_entry(is_ours).map(Result::unwrap);
    let manifests = manifests.filter(|entry| entry.file_name() == "Cargo.toml");
    let read = |entry: walkdir::DirEntry| {
        (entry.path().parent().unwrap().to_path_buf(), fs::read_to_string(entry.path()).unwrap())
    };
    manifests.map(read).filter(|(_, text)| text.contains("[package]")).collect()
}

fn read(folder: &Path, text: &str) -> String {
    fs::read_to_string(folder.join(text)).unwrap_or_else(|error| panic!("{}: {error}", folder.join(text).display()))
}

#[test]
fn every_crate_says_what_licence_it_has() {
    let own = format!("license = \"{LICENCE}\"");
    let root_manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(root_manifest.lines().any(|line| line == own));
    let crates = crates();
    assert!(crates.len() > 20, "{}", crates.len());
    for (folder, manifest) in crates {
        let says = manifest.lines().any(|line| line == "license.workspace = true" || line == own);
        assert!(says, "{} has no licence", folder.display());
    }
}

/// What is published is published alone, so that the texts have to be in its own folder.
#[test]
fn crates_that_are_published_have_the_texts() {
    for (folder, manifest) in crates() {
        if manifest.lines().any(|line| line == "publish = false") {
            continue;
        }
        for text in TEXTS {
            assert_eq!(read(&folder, text), read(&root(), text), "{}: another {text}", folder.display());
        }
    }
}

#[test]
fn what_users_run_is_linted_for_panics() {
    let mut linted = 0;
    let is_linted = |folder: &Path| UNLINTED.iter().all(|other| folder != root().join(other));
    for (folder, _) in crates().into_iter().filter(|(folder, _)| is_linted(folder)) {
        let own = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name));
        let others = fs::read_dir(folder.join("src/bin")).into_iter().flatten().map(|entry| entry.unwrap().path());
        for path in own.into_iter().chain(others).filter(|path| path.is_file()) {
            let source = fs::read_to_string(&path).unwrap();
            assert!(source.lines().any(|line| line == NO_PANICS), "{} lacks: {NO_PANICS}", path.display());
            linted += 1;
        }
    }
    assert!(linted > 30, "{linted}");
}
