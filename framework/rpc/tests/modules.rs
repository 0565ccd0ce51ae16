//! The top-level modules of a crate stand in the order that its `lib.rs` writes down, and none uses one that comes after
//! it. So there is no circle among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What precedes the order in a `lib.rs`; the names follow, in lines of comments, up to a full stop.
const ORDER: &str = "// Each of these modules uses only those before it: ";

/// The modules that each module uses, without what is there for tests alone.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds what the sources at `path` use to what `module` uses.
fn read(path: &Path, module: &str, uses: &mut Uses) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read(&entry.unwrap().path(), module, uses);
        }
    } else if !path.to_string_lossy().ends_with("tests.rs") {
        let text = fs::read_to_string(path).unwrap();
        // Tests come last in a file.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for after in code.flat_map(|line| line.split("crate::").skip(1)) {
            let name = after.split(|it: char| !(it.is_ascii_lowercase() || it == '_')).next().unwrap();
            uses.entry(module.to_owned()).or_default().insert(name.to_owned());
        }
    }
}

/// The modules that a crate's `lib.rs` declares, tests' apart, and what they use of each other.
fn uses_of(src: &Path) -> Uses {
    let text = fs::read_to_string(src.join("lib.rs")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut uses = Uses::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = line.trim_start_matches("pub ").strip_prefix("mod ").map(|rest| rest.trim_end_matches(';'))
        else {
            continue;
        };
        let mut attributes = lines[..at].iter().rev().take_while(|before| before.starts_with("#["));
        if !attributes.any(|attribute| attribute.starts_with("#[cfg(")) {
            uses.entry(name.to_owned()).or_default();
        }
    }
    for name in uses.keys().cloned().collect::<Vec<_>>() {
        for path in [src.join(&name), src.join(format!("{name}.rs"))].iter().filter(|path| path.exists()) {
            read(path, &name, &mut uses);
        }
    }
    let names: BTreeSet<String> = uses.keys().cloned().collect();
    uses.iter_mut().for_each(|(name, used)| used.retain(|it| it != name && names.contains(it)));
    uses
}

/// The order that a crate's `lib.rs` writes down.
fn order_of(src: &Path) -> Vec<String> {
    let text = fs::read_to_string(src.join("lib.rs")).unwrap();
    let (_, order) = text.split_once(ORDER).expect("the order is written down");
    let (order, _) = order.split_once('.').unwrap();
    order.split([',', '\n', ' ', '/']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The shortest way from one module to another, both included.
fn way(uses: &Uses, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        if let Some(found) = ways.iter().find(|way| way.last().is_some_and(|last| last == to)) {
            return Some(found.clone());
        }
        let longer = ways.iter().flat_map(|way| uses[way.last().unwrap()].iter().map(move |next| (way, next)));
        ways = longer
            .filter(|(_, next)| seen.insert(next.as_str()))
            .map(|(way, next)| [&way[..], std::slice::from_ref(next)].concat())
            .collect();
    }
    None
}

/// What is wrong with the order, if anything is: with the circle, where there is one.
fn fault(uses: &Uses, order: &[String]) -> Option<String> {
    if uses.keys().collect::<BTreeSet<_>>() != order.iter().collect() {
        return Some(format!("the order is of {order:?}, the modules are {:?}", uses.keys()));
    }
    let place = |name: &String| order.iter().position(|it| it == name);
    let arrows = || uses.iter().flat_map(|(from, used)| used.iter().map(move |to| (from, to)));
    let circle = arrows().find_map(|(from, to)| Some([vec![from.clone()], way(uses, to, from)?].concat()));
    if let Some(circle) = circle {
        return Some(format!("modules go round in a circle: {}", circle.join(" -> ")));
    }
    let wrong = arrows().find(|(from, to)| place(to) > place(from));
    wrong.map(|(from, to)| format!("`{from}` uses `{to}`, which comes after it"))
}

#[test]
fn no_module_uses_one_that_comes_after_it() {
    for name in ["proto", "rpc"] {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let uses = uses_of(&src);
        assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 10, "no uses were found: {uses:?}");
        assert_eq!(fault(&uses, &order_of(&src)), None, "in {name}");
    }
}

#[test]
fn a_circle_and_a_wrong_order_are_named() {
    let uses = |arrows: &[(&str, &[&str])]| -> Uses {
        arrows.iter().map(|(from, to)| ((*from).into(), to.iter().map(|it| (*it).into()).collect())).collect()
    };
    let order = ["a", "b", "c"].map(str::to_owned);
    assert_eq!(fault(&uses(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]), &order), None);
    let wrong = fault(&uses(&[("a", &["c"]), ("b", &["a"]), ("c", &[])]), &order);
    assert_eq!(wrong.unwrap(), "`a` uses `c`, which comes after it");
    let circle = fault(&uses(&[("a", &[]), ("b", &["a", "c"]), ("c", &["b"])]), &order);
    assert_eq!(circle.unwrap(), "modules go round in a circle: b -> c -> b");
    assert!(fault(&uses(&[("a", &[])]), &order).unwrap().starts_with("the order is of"));
}
