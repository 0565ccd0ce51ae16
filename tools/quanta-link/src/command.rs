//! `cargo quanta build|run|test|bench`: cargo, with this executable as the linker.

use crate::link::{SETTINGS, Settings};
use crate::toolchain::Toolchain;
use crate::{relink, report};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Build programs whose code can be preempted every few microseconds
#[derive(Parser, Debug)]
#[command(name = "cargo quanta", bin_name = "cargo quanta", version)]
#[command(after_help = "Examples:
  cargo quanta build --release
  cargo quanta run --release --bin server -- --listen tcp://127.0.0.1:7100
  cargo quanta --bound 500 test
  cargo quanta report --release --bin server

The result is in `target/quanta`, beside what `cargo build` makes.")]
struct Arguments {
    /// How much code may run without a probe, in instructions, roughly: 50 to 1000000
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    bound: u32,
    /// Leave out these crates or functions, by their paths, as `serde_json` or `my_crate::hot`
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Put probes into these crates or functions alone
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    only: Vec<String>,
    /// Thread-locals that all requests of a thread are to share, by their paths, as `my_crate::CACHE`. Each has its own of
    /// all others. Who shares one must borrow it in critical sections
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    thread_local: Vec<String>,
    /// What cargo is to do
    #[arg(value_enum)]
    task: Task,
    /// Whatever else cargo is told
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    rest: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Task {
    Build,
    Run,
    Test,
    Bench,
    /// Builds, and says for how long the code may run without a probe, function by function
    Report,
}

/// What rustc is told: hand bitcode to the linker, as it comes from the front end, so that all passes run there.
/// A crate is one module, as nothing is inlined from one into another at that stage.
const RUSTFLAGS: [&str; 4] = ["-Clinker-plugin-lto", "-Cno-prepopulate-passes", "-Ccodegen-units=1", "--cfg=quanta"];

pub(crate) fn run() -> Result<ExitCode> {
    // Cargo passes the subcommand's own name first.
    let arguments = Arguments::parse_from(std::env::args_os().skip(1));
    let rustc = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let toolchain = Toolchain::of(&rustc)?;
    toolchain.check()?;
    let given = |option: &str| {
        arguments.rest.iter().take_while(|argument| *argument != "--").any(|argument| {
            let text = argument.to_string_lossy();
            text == option || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
        })
    };
    for option in ["--target", "--target-dir"] {
        if given(option) {
            bail!("cargo quanta sets {option} itself; leave it out");
        }
    }
    let folder = target_folder()?;
    let settings = Settings {
        cache: folder.join("objects"),
        bound: arguments.bound,
        thread_locals: arguments.thread_local,
        exclude: arguments.exclude,
        only: arguments.only,
    };
    let itself = std::env::current_exe().context("can't find this executable")?;
    let settings = serde_json::to_string(&settings)?;
    let made = std::fs::metadata(&itself).and_then(|about| about.modified());
    let made = made.with_context(|| format!("can't look at {}", itself.display()))?;
    relink::remove_others(&folder, &toolchain.host, &format!("{settings}\n{} {made:?}\n", itself.display()))?;
    let triple = toolchain.host.to_uppercase().replace('-', "_");
    let mut cargo = Command::new(cargo());
    let is_report = matches!(arguments.task, Task::Report);
    let task = if is_report { Task::Build } else { arguments.task };
    cargo
        .arg(task.to_possible_value().expect("every task has a name").get_name())
        .args(["--target", &toolchain.host, "--target-dir"])
        .arg(&folder)
        .args(&arguments.rest)
        .env(format!("CARGO_TARGET_{triple}_LINKER"), itself)
        .env("CARGO_ENCODED_RUSTFLAGS", flags("RUSTFLAGS"))
        // Those of documentation tests, which are programs of their own.
        .env("CARGO_ENCODED_RUSTDOCFLAGS", flags("RUSTDOCFLAGS"))
        .env(SETTINGS, settings);
    if is_report {
        return report::report(cargo.arg("--message-format=json-render-diagnostics"));
    }
    let status = cargo.status().context("can't run cargo")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The flags that such a variable has already, and ours.
fn flags(variable: &str) -> String {
    let there = std::env::var(format!("CARGO_ENCODED_{variable}")).ok().filter(|flags| !flags.is_empty());
    let there = there.map(|flags| flags.split('\u{1f}').map(str::to_owned).collect::<Vec<_>>()).or_else(|| {
        let flags = std::env::var(variable).ok()?;
        Some(flags.split_whitespace().map(str::to_owned).collect())
    });
    let ours = RUSTFLAGS.iter().map(|flag| (*flag).to_owned());
    there.into_iter().flatten().chain(ours).collect::<Vec<_>>().join("\u{1f}")
}

/// `quanta` in the workspace's target folder, so that instrumented objects and others don't replace each other.
fn target_folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        return Ok(std::path::absolute(folder)?.join("quanta"));
    }
    let output = Command::new(cargo())
        .args(["locate-project", "--workspace", "--message-format", "plain"])
        .output()
        .context("can't run cargo")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: "));
    }
    let manifest = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let root = manifest.parent().context("cargo names a manifest without a folder")?;
    Ok(root.join("target").join("quanta"))
}
