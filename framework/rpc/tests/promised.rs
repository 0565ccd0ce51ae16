//! `docs/promises.md` names files and tests that exist.

use std::fs;
use std::path::Path;

/// The files that a page names, each with the tests that it names of it: `` `FILE`: `TEST`, `TEST` ``.
fn named(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        for part in row.split(';') {
            let mut quoted = part.split('`').skip(1).step_by(2).skip_while(|word| !word.contains('/'));
            if let Some(file) = quoted.next() {
                files.push((file, quoted.filter(|word| word.contains('_')).collect()));
            }
        }
    }
    files
}

/// What is wrong with what is named, if anything is.
fn fault(root: &Path, file: &str, tests: &[&str]) -> Option<String> {
    let path = root.join(file);
    if path.is_dir() {
        return tests.first().map(|test| format!("{file} is a folder, which can't have {test}"));
    }
    let Ok(source) = fs::read_to_string(path) else { return Some(format!("there is no {file}")) };
    let missing = tests.iter().find(|test| !source.contains(&format!("fn {test}(")));
    missing.map(|test| format!("{file} has no {test}"))
}

#[test]
fn promises_name_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/promises.md")).unwrap();
    let named = named(&page);
    assert!(named.iter().map(|(_, tests)| tests.len()).sum::<usize>() >= 30, "{named:?}");
    for (file, tests) in named {
        assert_eq!(fault(&root, file, &tests), None);
    }
}

#[test]
fn a_test_or_a_file_that_has_gone_is_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = "| it holds | a storm | `framework/rpc/tests/calls.rs`: `it_held`, `draining_answers_what_was_accepted`; `no/where.rs`: `at_all` |";
    let named = named(page);
    assert_eq!(named.len(), 2, "{named:?}");
    for (file, tests) in named {
        assert!(fault(&root, file, &tests).is_some(), "{file} has no {tests:?}");
    }
}
