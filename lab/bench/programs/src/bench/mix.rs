//! Short jobs and long ones on one core: [`greenwave-mix`](../../mix), run as the program of its own that it is.

use std::process::Command;

use anyhow::{Context, ensure};
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::{Results, bench_folder};

use super::Setting;

/// How many steps of progress it takes.
pub(super) const STEPS: usize = 1;

/// What is measured in a hurry: enough for each of its claims.
const QUICK: [&str; 9] =
    ["--quick", "--only", "extreme-bimodal", "--system", "fcfs", "--system", "ps-1us", "--system", "ps-5us"];

/// Runs it, and takes over what it has written.
pub(super) fn measure(setting: &Setting, bench: &mut Benchmark) -> anyhow::Result<()> {
    let program = setting.probes.with_file_name("greenwave-mix");
    ensure!(
        program.is_file(),
        "{} is missing; build it with `cargo quanta build --release -p greenwave-mix`",
        program.display()
    );
    bench.progress.step("mix");
    let mut command = Command::new(&program);
    command.arg("bench").args(QUICK.iter().filter(|_| setting.quick));
    let status = command.status().with_context(|| format!("can't run {}", program.display()))?;
    ensure!(status.success(), "{} failed ({status})", program.display());
    let path = bench_folder().join("mix.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let mix: Results = serde_json::from_str(&text).with_context(|| format!("{} is broken", path.display()))?;
    // How busy the machine was is told of the whole.
    bench.results.rows.extend(mix.rows.into_iter().filter(|row| row.case != "machine"));
    Ok(())
}
