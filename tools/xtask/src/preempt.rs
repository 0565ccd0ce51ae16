//! `cargo xtask bench preempt` and `served`: benchmarks of what is built by cargo and by `cargo quanta`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::step::{Steps, cargo, cargo_quanta, target};

const PACKAGE: [&str; 2] = ["--package", "greenwave-programs"];
const EXECUTABLE: &str = "greenwave-programs";

/// By cargo, with a profile that leaves no other difference.
const PLAIN: [&str; 2] = ["--profile", "plain"];

/// How many orders the functions of each build are put in.
const LAYOUTS: usize = 8;

/// The whole server: built by `cargo quanta`, and by cargo what makes its load and tonic's own server. `bench`: which of its
/// benchmarks.
pub(crate) fn served(bench: &str, words: &[String]) -> Result<()> {
    const SERVED: [&str; 3] = ["--release", "--package", "greenwave-served"];
    let mut steps = Steps::new(3);
    steps.run("build", cargo(["build"]).args(SERVED))?;
    // tonic's runtime is on threads of its own, where nothing is preempted and probes would be a price for nothing.
    let mut probes = cargo_quanta("--exclude=tokio,hyper,hyper_util,h2,tonic");
    steps.run("build with probes", probes.arg("build").args(SERVED))?;
    steps.run("served", cargo(["run", "--quiet"]).args(SERVED).args(["--", bench]).args(words))
}

/// The same programs twice, by cargo and by `cargo quanta`; both in several layouts where time is compared, as what an
/// address happens to be worth is more than what probes cost, and there a third time by `cargo quanta` without probes, as
/// its way of building is worth something too.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let says = |word: &str| words.iter().any(|one| one == word);
    let shuffled = !says("--quick") && !says("gap") && !says("mix");
    let layouts = if shuffled { LAYOUTS } else { 0 };
    let mut steps = Steps::new(3 + 3 * layouts);
    let folder = target().join("bench").join("layouts");
    for layout in 1..=layouts {
        let seed = layout.to_string();
        steps.run("build, shuffled", cargo(["build"]).args(PLAIN).args(PACKAGE).env("GREENWAVE_LAYOUT", &seed))?;
        keep(&plain(), &folder.join("plain"), &seed)?;
        let quanta = &mut cargo_quanta("build");
        let quanta = quanta.arg("--release").args(PACKAGE).env("GREENWAVE_LAYOUT", &seed);
        steps.run("build with probes, shuffled", quanta)?;
        keep(&with_probes(), &folder.join("probes"), &seed)?;
        // Only a crate gets probes that there isn't. With the same order cargo would take the build for up to date.
        let control = &mut cargo_quanta("--only");
        let control = control.args(["nothing", "build", "--release"]).args(PACKAGE);
        steps.run("build without probes", control.env("GREENWAVE_LAYOUT", format!("{seed}000")))?;
        keep(&with_probes(), &folder.join("control"), &seed)?;
    }
    steps.run("build", cargo(["build"]).args(PLAIN).args(PACKAGE))?;
    let with_mix = ["--release", "--package", "greenwave-mix"];
    steps.run("build with probes", cargo_quanta("build").args(with_mix).args(PACKAGE))?;
    let mut bench = cargo(["run", "--quiet"]);
    bench.args(PLAIN).args(PACKAGE).args(["--", "bench"]).args(words);
    if shuffled {
        bench.arg("--layouts").arg(folder);
    }
    steps.run("preempt", &mut bench)
}

fn plain() -> PathBuf {
    target().join("plain").join(EXECUTABLE)
}

fn with_probes() -> PathBuf {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    target().join("quanta").join(triple).join("release").join(EXECUTABLE)
}

/// Copies an executable to where the next build doesn't replace it.
fn keep(built: &Path, folder: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    let to = folder.join(name);
    std::fs::copy(built, &to).with_context(|| format!("can't copy {} to {}", built.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_counts_as_many_layouts() {
        let said = format!("each in {LAYOUTS} layouts");
        assert!(include_str!("../../../README.md").contains(&said), "README.md doesn't say `{said}`");
    }
}
