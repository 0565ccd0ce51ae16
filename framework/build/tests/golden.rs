//! The code made of `protos/shop.proto` is that in `golden/`, and that of `protos/kept.proto`, with `bytes` in place, in
//! `golden_bytes/`: a change of it shows in review.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

#[test]
fn the_generated_code_is_the_golden_code() {
    is_golden(greenwave_build::configure(), "tests/protos/shop.proto", Path::new("tests/golden"));
    is_golden(greenwave_build::configure().bytes(["."]), "tests/protos/kept.proto", Path::new("tests/golden_bytes"));
}

fn is_golden(build: greenwave_build::Builder, proto: &str, golden: &Path) {
    let made = TempDir::new().unwrap();
    build.out_dir(made.path()).compile(&[proto], &["tests/protos"]).unwrap();
    if std::env::var_os("BLESS").is_some() {
        for name in names(made.path()) {
            fs::copy(made.path().join(&name), golden.join(&name)).unwrap();
        }
    }
    assert_eq!(names(made.path()), names(golden));
    for name in names(golden) {
        let same = fs::read(made.path().join(&name)).unwrap() == fs::read(golden.join(&name)).unwrap();
        assert!(same, "{name} is not as it was; if that is meant, run this test with BLESS=1 and commit what changed");
    }
}

/// What is written anew is compiled anew.
#[test]
fn a_file_is_written_only_if_it_changed() {
    let made = TempDir::new().unwrap();
    let make = || {
        let build = greenwave_build::configure().out_dir(made.path());
        build.compile(&["tests/protos/shop.proto"], &["tests/protos"]).unwrap();
    };
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    make();
    let paths: Vec<_> = names(made.path()).into_iter().map(|name| made.path().join(name)).collect();
    for path in &paths {
        File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    fs::write(&paths[0], "something else").unwrap();
    make();
    let untouched = paths.iter().filter(|path| fs::metadata(path).unwrap().modified().unwrap() == long_ago);
    assert!(untouched.eq(&paths[1..]));
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
