//! What `cargo quanta` has built, beside what Cargo has.

use std::path::PathBuf;

use anyhow::{Context, ensure};

/// The build with probes of the program that runs, which is `target/release/NAME` as a rule: it is at
/// `target/quanta/TRIPLE/release/NAME`.
///
/// # Errors
/// When there is none.
pub fn of_this_program() -> anyhow::Result<PathBuf> {
    let plain = std::env::current_exe().context("can't find this executable")?;
    let target = plain.ancestors().nth(2).context("this executable is in no target folder")?;
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let name = plain.file_name().unwrap_or_default();
    let probes = target.join("quanta").join(triple).join("release").join(name);
    ensure!(
        probes.is_file(),
        "there is no build with probes at {}; make it by \
         `cargo run --release -p cargo-quanta -- quanta build --release -p {}`",
        probes.display(),
        name.display()
    );
    Ok(probes)
}
