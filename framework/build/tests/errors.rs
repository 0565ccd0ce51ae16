//! What is wrong with a `.proto` is said with its file and line.

use std::fs;

use greenwave_build::BuildError;
use tempfile::TempDir;

/// What comes of a file of this content, below the usual first two lines.
fn refusal(content: &str) -> BuildError {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("broken.proto");
    fs::write(&path, format!("syntax = \"proto3\";\npackage broken;\n{content}")).unwrap();
    let out_dir = directory.path().join("out");
    let error = greenwave_build::configure().out_dir(&out_dir).compile(&[path], &[directory.path()]).unwrap_err();
    assert!(!out_dir.exists(), "nothing is made of a broken file");
    error
}

#[test]
fn a_syntax_error_is_placed() {
    let error = refusal("message Good {}\nmessage Bad {\n  string name 1;\n}\n");
    assert!(matches!(error, BuildError::Proto(_)));
    assert!(error.to_string().starts_with("broken.proto:5:15: expected '='"), "{error}");
}

#[test]
fn an_unknown_type_is_placed() {
    let error = refusal("message Bad {\n  Missing name = 1;\n}\n");
    assert!(error.to_string().starts_with("broken.proto:4:3: name 'Missing' is not defined"), "{error}");
}

#[test]
fn an_import_that_is_not_there_is_placed() {
    let error = refusal("import \"missing.proto\";\n");
    assert_eq!(error.to_string(), "broken.proto:3:1: import 'missing.proto' not found");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let build = greenwave_build::configure().out_dir("unused");
    let error = build.compile(&["tests/protos/nowhere.proto"], &["tests/protos"]).unwrap_err();
    assert!(error.to_string().contains("nowhere.proto"), "{error}");
}

#[test]
fn a_name_that_would_be_generated_twice_is_refused_with_both_origins() {
    let error = refusal("message ShopClient {}\nservice Shop {\n}\n");
    assert_eq!(
        error.to_string(),
        "broken.proto:4:1: service broken.Shop would generate `ShopClient`, which `ShopClient` is called already: \
         rename one of them"
    );
    let error = refusal("message A {}\nservice S {\n  rpc Ask(A) returns (A);\n  rpc AskAsync(A) returns (A);\n}\n");
    assert_eq!(
        error.to_string(),
        "broken.proto:6:3: method broken.S/AskAsync would generate `ask_async`, which method broken.S/Ask is called \
         already: rename one of them"
    );
    let error = refusal("message A {}\nservice S {\n  rpc New(A) returns (A);\n}\n");
    assert!(error.to_string().contains("which a method of every client is called already"), "{error}");
}

#[test]
fn a_server_alone_leaves_the_clients_names_free() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("new.proto");
    fs::write(&path, "syntax = \"proto3\";\npackage new;\nmessage A {}\nservice S {\n  rpc New(A) returns (A);\n}\n")
        .unwrap();
    let build = greenwave_build::configure().client(false).greenwave_path("::elsewhere").out_dir(directory.path());
    build.compile(&[path], &[directory.path()]).unwrap();
    let code = fs::read_to_string(directory.path().join("new.rs")).unwrap();
    assert!(code.contains("pub struct SServer"));
    assert!(!code.contains("SClient"));
    assert!(code.contains("::elsewhere::Context"));
    assert!(!code.contains("greenwave::"), "all of Greenwave is found under the path given");
}
