//! Steps: commands that are announced, run and timed.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// The steps of a command, counted as they are run.
pub(crate) struct Steps {
    done: usize,
    of: usize,
    began: Instant,
    /// What was passed over, and why.
    passed_over: Vec<String>,
}

impl Steps {
    /// So many steps are to come.
    pub(crate) fn new(of: usize) -> Self {
        Self { done: 0, of, began: Instant::now(), passed_over: Vec::new() }
    }

    /// Runs a step.
    ///
    /// # Errors
    /// When the command can't be started, or fails.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.run_by(name, command, Command::status)
    }

    /// Runs a step in a way of its own.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(crate) fn run_by(
        &mut self,
        name: &str,
        command: &mut Command,
        way: impl FnOnce(&mut Command) -> io::Result<ExitStatus>,
    ) -> Result<()> {
        self.announce(name, &shown(command));
        let began = Instant::now();
        let status = way(command).with_context(|| format!("can't run `{}`", shown(command)))?;
        if !status.success() {
            bail!("{name} failed ({status}); to repeat it: {}", shown(command));
        }
        println!("step {} of {}: {name} passed in {:.0?}", self.done, self.of, began.elapsed());
        Ok(())
    }

    /// Runs a step that is more than one command. `what`: what it does.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn work<T>(&mut self, name: &str, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.announce(name, what);
        let began = Instant::now();
        let done = work().with_context(|| format!("{name} failed"))?;
        println!("step {} of {}: {name} passed in {:.0?}", self.done, self.of, began.elapsed());
        Ok(done)
    }

    /// Passes a step over, and says why and what to do about it.
    pub(crate) fn pass_over(&mut self, name: &str, why: &str) {
        self.announce(name, why);
        self.passed_over.push(format!("{name}: {why}"));
    }

    /// Says that all is well, and what was passed over.
    pub(crate) fn finish(&self) {
        if !self.passed_over.is_empty() {
            println!("\nsteps passed over: {}", self.passed_over.len());
            self.passed_over.iter().for_each(|why| println!("  {why}"));
        }
        println!("{} of {} steps in {:.0?}", self.done, self.of, self.began.elapsed());
    }

    fn announce(&mut self, name: &str, what: &str) {
        self.done += 1;
        println!("\nstep {} of {}: {name} ({what})", self.done, self.of);
    }
}

/// Cargo, in the root of the workspace.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// The build of programs with the features that dependencies have in the tests: the whole workspace is named, and a test.
pub(crate) fn build_programs<'a>(programs: impl IntoIterator<Item = &'a str>) -> Command {
    let mut build = cargo(["build", "--workspace", "--test", "readme"]);
    build.args(programs.into_iter().flat_map(|program| ["--bin", program]));
    build
}

/// What git says to some words in a repository, without the white space around it.
///
/// # Errors
/// When it can't be run, or fails; with what it said.
pub(crate) fn git<S: AsRef<OsStr>>(repository: &Path, words: impl IntoIterator<Item = S>) -> Result<String> {
    let mut git = Command::new("git");
    let output = git.current_dir(repository).args(words).output().context("can't run `git`; install it")?;
    ensure!(output.status.success(), "`{}`: {}", shown(&git), String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `cargo quanta` as the workspace has it, whether or not it is installed, with this task.
pub(crate) fn cargo_quanta(task: &str) -> Command {
    let run = ["run", "--quiet", "--release", "--package", "cargo-quanta", "--bin", "cargo-quanta", "--"];
    let mut command = cargo(run);
    command.args(["quanta", task]);
    command
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where Cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Whether a command runs and says that all is well. What it prints is not shown.
pub(crate) fn works(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// Prints a text.
pub(crate) fn say(text: &str) -> Result<()> {
    println!("{text}");
    Ok(())
}

/// Whether one of the words asks for help.
pub(crate) fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| matches!(word.as_str(), "--help" | "-h"))
}

/// Words that a command doesn't understand.
#[derive(Debug)]
pub(crate) struct WrongUse {
    what: String,
    remedy: &'static str,
}

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; see {}", self.what, self.remedy)
    }
}

impl std::error::Error for WrongUse {}

pub(crate) fn wrong_use(what: String, remedy: &'static str) -> anyhow::Error {
    WrongUse { what, remedy }.into()
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let settings =
        command.get_envs().filter_map(|(key, value)| Some((key.to_string_lossy(), value?.to_string_lossy())));
    let settings = settings
        .map(|(key, value)| if value.contains(' ') { format!("{key}=\"{value}\"") } else { format!("{key}={value}") });
    let path = Path::new(command.get_program());
    let path = if path.file_stem() == Some(OsStr::new("cargo")) { Path::new("cargo") } else { path };
    let program = path.strip_prefix(root()).unwrap_or(path).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    settings.chain([program.into_owned()]).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Whether a C compiler finds libfabric's headers, so that the backend over it can be built.
pub(crate) fn has_libfabric() -> bool {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    works(Command::new(compiler).args(["-fsyntax-only", "-include", "rdma/fabric.h", "-x", "c", "/dev/null"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
        assert_eq!(shown(&Command::new(root().join("target/release/greenwave"))), "target/release/greenwave");
    }

    #[test]
    fn what_git_refuses_is_told_with_what_it_said() {
        assert_eq!(git(&root(), ["rev-parse", "--is-inside-work-tree"]).unwrap(), "true");
        let error = git(&root(), ["no-such-command"]).unwrap_err().to_string();
        assert!(error.starts_with("`git no-such-command`: git: 'no-such-command' is not a git command"), "{error}");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("rust-toolchain.toml").is_file());
    }

    #[test]
    fn a_command_that_fails_ends_the_steps_with_its_name() {
        let mut steps = Steps::new(1);
        let error = steps.run("asking for nonsense", &mut cargo(["no-such-command"])).unwrap_err();
        assert!(error.to_string().starts_with("asking for nonsense failed"), "{error}");
    }
}
