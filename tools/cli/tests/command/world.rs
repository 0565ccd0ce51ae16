//! Small directories to serve.

use std::fs;
use std::path::PathBuf;

/// A directory of notes, one of crates, and room for what is derived from them.
pub(crate) struct World {
    root: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        let notes = world.root.path().join("notes");
        fs::create_dir(&notes).unwrap();
        for i in 0..40 {
            fs::write(notes.join(format!("note{i}.md")), format!("note number {i}\n\nthe queue is long\n")).unwrap();
        }
        fs::write(notes.join("best.md"), "nothing\n\nthe completion queue drains\n").unwrap();
        for i in 0..6 {
            world.add_crate(&format!("web{i}"), "web", &["http", "runtime", "log", "tls"]);
            world.add_crate(&format!("parser{i}"), "parser", &["lexer", "unicode", "log"]);
        }
        world.add_crate("newcomer", "web", &["http", "runtime"]);
        world
    }

    fn add_crate(&self, name: &str, keyword: &str, dependencies: &[&str]) {
        let directory = self.root.path().join("crates").join(format!("{name}-1.0.0"));
        fs::create_dir_all(&directory).unwrap();
        let dependencies: String = dependencies.iter().map(|it| format!("{it} = \"1\"\n")).collect();
        let package = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nkeywords = [\"{keyword}\"]\n");
        fs::write(directory.join("Cargo.toml"), format!("{package}[dependencies]\n{dependencies}")).unwrap();
    }

    /// A path below, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    /// Writes a file below and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.root.path().join(name), text).unwrap();
        self.path(name)
    }

    /// An option that names a path below.
    pub(crate) fn option(&self, option: &str, name: &str) -> String {
        format!("{option}={}", PathBuf::from(self.path(name)).display())
    }
}
