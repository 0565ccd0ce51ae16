//! What the libraries that users see export is what `docs/api` lists: a change of it is a change of a file that is read.
//!
//! `UPDATE=1 cargo test -p greenwave --test public_api` writes the lists anew.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The packages whose public items are listed, and with which features.
const LISTED: [(&str, &str); 3] = [("greenwave", "tls"), ("greenwave-rpc", "tls"), ("greenwave-proto", "")];

/// Runs the real rustdoc, and lets it write JSON, which is unstable. The variable is for rustdoc alone: compilers that saw
/// it would build everything again.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The public items of a package, a line each.
fn items(package: &str, features: &str, rustdoc: &Path, target: &Path) -> String {
    let mut document = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    document.args(["rustdoc", "--quiet", "--lib", "--package", package, "--features", features, "--target-dir"]);
    document.arg(target).args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    document.env("RUSTDOC", rustdoc).env_remove("RUSTDOCFLAGS").current_dir(root());
    assert!(document.status().expect("cargo runs").success(), "no documentation of {package}");
    let json = target.join("doc").join(format!("{}.json", package.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json);
    let api = api.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true).build();
    api.expect("the toolchain's format is known").items().map(|item| format!("{item}\n")).collect()
}

/// The lines of a text that another doesn't have.
fn without<'a>(text: &'a str, other: &'a str, sign: char) -> impl Iterator<Item = String> + 'a {
    text.lines().filter(|line| !other.lines().any(|it| it == *line)).map(move |line| format!("{sign} {line}"))
}

#[test]
fn what_is_public_is_what_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let rustdoc = folder.path().join("rustdoc");
    fs::write(&rustdoc, RUSTDOC).unwrap();
    fs::set_permissions(&rustdoc, PermissionsExt::from_mode(0o755)).unwrap();
    // A folder of its own beside the profiles': its lock is not that of whoever runs this test.
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("public-api");
    for (package, features) in LISTED {
        let list = root().join("docs/api").join(format!("{package}.txt"));
        let (items, listed) =
            (items(package, features, &rustdoc, &target), fs::read_to_string(&list).unwrap_or_default());
        if env::var_os("UPDATE").is_some() {
            fs::write(&list, items).unwrap();
            continue;
        }
        let changes: Vec<_> = without(&items, &listed, '+').chain(without(&listed, &items, '-')).collect();
        let remedy = "if that is meant: UPDATE=1 cargo test -p greenwave --test public_api";
        assert!(changes.is_empty(), "{package} exports something else:\n{}\n{remedy}", changes.join("\n"));
    }
}
