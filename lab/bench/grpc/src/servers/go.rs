//! gRPC for Go: the server of `lab/bench/peers/go`, built with `go build` when it's needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use greenwave_bench::tools::{self, Missing};

/// Builds it once; why it's not there, if it isn't.
pub(crate) fn binary() -> Result<&'static Path, &'static Missing> {
    static BINARY: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(|| {
        let binary = tools::folder().join("grpc-go");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(".");
        build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/go"));
        tools::build(&mut build, "install Go 1.26 or newer (https://go.dev/dl)")?;
        Ok(binary)
    });
    BINARY.as_deref()
}

/// With goroutines that stay, with which it was fastest.
pub(crate) fn command() -> anyhow::Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(["serve", "-workers"]);
    Ok(command)
}
