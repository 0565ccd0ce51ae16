//! A project of a test's own, outside the workspace. It stays, so that the second run is quick.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) struct Project(PathBuf);

impl Project {
    /// One with these files, by their paths.
    pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("src")).expect("the folder can be made");
        for (path, text) in files {
            fs::write(folder.join(path), text).expect("the folder can be written to");
        }
        Self(folder)
    }

    /// Runs its program, built by `cargo quanta`, to which these arguments and variables go.
    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut quanta = Command::new(env!("CARGO_BIN_EXE_cargo-quanta"));
        quanta.arg("quanta").args(arguments).args(["run", "--release"]).current_dir(&self.0);
        quanta.env("CARGO_TARGET_DIR", self.0.join("target")).envs(variables.iter().copied());
        quanta.output().expect("cargo-quanta can be run")
    }
}

impl AsRef<Path> for Project {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}
