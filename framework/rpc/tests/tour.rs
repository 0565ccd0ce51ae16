//! `docs/tour.md` names functions that exist, in the files that it says, and has no more than twenty stops.

use std::fs;
use std::path::Path;

/// A stop of the tour: its function, with its type, and the file.
fn stops(page: &str) -> Vec<(&str, &str)> {
    let rows =
        page.lines().filter(|line| line.starts_with("| ") && line[2..].starts_with(|it: char| it.is_ascii_digit()));
    rows.map(|row| {
        let mut quoted = row.split('`').skip(1).step_by(2);
        (quoted.next().expect("a function"), quoted.next().expect("a file"))
    })
    .collect()
}

/// What is wrong with a stop, if anything is.
fn fault(root: &Path, function: &str, file: &str) -> Option<String> {
    let Ok(source) = fs::read_to_string(root.join(file)) else { return Some(format!("there is no {file}")) };
    let (kind, name) = function.split_once("::").expect("a type and its function");
    let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("fn {name}<"));
    let is_of_type = source.lines().any(|line| {
        let words = line.split(|it: char| !it.is_alphanumeric() && it != '_');
        line.starts_with("impl") && words.into_iter().any(|word| word == kind)
    });
    (!is_there || !is_of_type).then(|| format!("{file} has no {function}"))
}

#[test]
fn the_tour_names_functions_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/tour.md")).unwrap();
    let stops = stops(&page);
    assert!((10..=20).contains(&stops.len()), "{} stops", stops.len());
    for (function, file) in stops {
        assert!(page.contains(&format!("[`{file}`](../{file})")), "no link to {file}");
        assert_eq!(fault(&root, function, file), None);
    }
}

#[test]
fn a_function_that_has_gone_is_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(fault(&root, "Context::with_patience", "framework/rpc/src/context.rs").is_some());
    assert!(fault(&root, "Contest::with_deadline", "framework/rpc/src/context.rs").is_some());
    assert!(fault(&root, "Context::with_deadline", "framework/rpc/src/contest.rs").is_some());
}
