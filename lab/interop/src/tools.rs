//! Programs of others: found on the path, or installed into the target folder from their public registries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use greenwave_bench::result::bench_folder;

use crate::program::{self, Ended};

/// How long an installation may take: some are built from source.
const PATIENCE: Duration = Duration::from_secs(900);

/// What clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// A command of a Go module: the program's name, its package, its version.
    Go { name: &'static str, package: &'static str, version: &'static str, on_path: bool },
    /// Python's packages, in an environment of their own.
    Python { packages: &'static [&'static str] },
    /// Packages of npm, for programs in `clients/node`.
    Node { packages: &'static [&'static str] },
    /// A project of Maven in `clients/NAME`, built into a folder of its own.
    Maven { name: &'static str, version: &'static str },
    /// A program that only the system's own packages have; what is asked for its version, and the package.
    System { names: &'static [&'static str], package: &'static str },
}

/// A program that is there.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// What is run.
    pub(crate) path: PathBuf,
    /// Which version it is, as far as it says.
    pub(crate) version: String,
}

/// Why it isn't there, and what to do about it.
pub(crate) type Missing = String;

impl Tool {
    /// Finds it, or installs it unless nothing may be installed.
    pub(crate) fn find(self, offline: bool) -> Result<Found, Missing> {
        match self {
            Self::Go { name, package, version, on_path } => go(name, package, version, on_path, offline),
            Self::Python { packages } => python(packages, offline),
            Self::Node { packages } => node(packages, offline),
            Self::Maven { name, version } => maven(name, version, offline),
            Self::System { names, package } => system(names, package),
        }
    }
}

/// Where tools are installed.
pub(crate) fn folder() -> PathBuf {
    let bench = bench_folder();
    let target = bench.parent().unwrap_or(&bench);
    std::path::absolute(target.join("interop")).unwrap_or_else(|_| target.join("interop"))
}

/// The folder of our own client programs.
pub(crate) fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// The first program of this name on the path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn go(name: &str, package: &str, version: &str, look: bool, offline: bool) -> Result<Found, Missing> {
    if let Some(path) = look.then(|| on_path(name)).flatten() {
        return Ok(Found { version: said(Command::new(&path).arg("--version")), path });
    }
    let bin = folder().join(format!("{name}-{version}"));
    let path = bin.join(package.rsplit('/').next().unwrap_or(name));
    if !path.is_file() {
        let remedy = format!("put {name} on the path, or install Go (https://go.dev/dl) and run this again");
        let mut install = Command::new("go");
        install.args(["install", &format!("{package}@{version}")]).env("GOBIN", &bin).env("GOFLAGS", "-buildvcs=false");
        once(offline, &format!("go install {package}@{version}"), &mut install, &remedy)?;
    }
    Ok(Found { path, version: version.to_owned() })
}

fn python(packages: &[&str], offline: bool) -> Result<Found, Missing> {
    let remedy = "install Python 3 with venv and pip, and let it reach PyPI";
    let venv = folder().join(format!("python-{}", packages.join("-").replace("==", "-")));
    let path = venv.join("bin").join("python");
    let done = venv.join("installed");
    if !done.is_file() {
        once(offline, "python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&venv), remedy)?;
        let mut install = Command::new(&path);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
        once(offline, &format!("pip install {}", packages.join(" ")), &mut install, remedy)?;
        fs::write(&done, "").map_err(|error| error.to_string())?;
    }
    Ok(Found { path, version: packages.join(", ").replace("==", " ") })
}

fn node(packages: &[&str], offline: bool) -> Result<Found, Missing> {
    let remedy = "install Node 18 or newer with npm, and let it reach the npm registry";
    let path = on_path("node").ok_or_else(|| format!("there is no `node` on the path; {remedy}"))?;
    let place = folder().join("node");
    let done = place.join(packages.join(" ").replace('/', "-"));
    if !done.is_file() {
        fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&place).args(packages);
        once(offline, &format!("npm install {}", packages.join(" ")), &mut install, remedy)?;
        fs::write(&done, "").map_err(|error| error.to_string())?;
    }
    let node = said(Command::new(&path).arg("--version"));
    Ok(Found { path, version: format!("{}, node {node}", packages.join(", ")) })
}

fn maven(name: &str, version: &str, offline: bool) -> Result<Found, Missing> {
    let remedy = "install a JDK (17 or newer) and Maven, and let it reach Maven Central";
    let project = clients().join(name);
    let out = folder().join(format!("{name}-{version}"));
    let path = on_path("java").ok_or_else(|| format!("there is no `java` on the path; {remedy}"))?;
    let classes = out.join("classpath");
    let sources = newest(&project);
    let built = fs::metadata(&classes).and_then(|it| it.modified()).ok();
    if built.is_none_or(|built| sources.is_none_or(|changed| changed > built)) {
        let mut build = Command::new("mvn");
        build.args(["--batch-mode", "--quiet", "-f"]).arg(project.join("pom.xml"));
        build.arg(format!("-Dbuilt.in={}", out.display())).arg("package");
        once(offline, &format!("mvn package in clients/{name}"), &mut build, remedy)?;
        fs::write(&classes, "").map_err(|error| error.to_string())?;
    }
    Ok(Found { path, version: version.to_owned() })
}

fn system(names: &[&str], package: &str) -> Result<Found, Missing> {
    let found = names.iter().find_map(|name| on_path(name));
    let missing = || {
        format!("there is no `{}` on the path; install the system's package {package}", names.first().unwrap_or(&""))
    };
    let path = found.ok_or_else(missing)?;
    Ok(Found { version: said(Command::new(&path).arg("--version")), path })
}

/// Runs an installation.
fn once(offline: bool, what: &str, command: &mut Command, remedy: &str) -> Result<(), Missing> {
    if offline {
        return Err(format!("it is not installed, and nothing may be: run without --offline (`{what}`)"));
    }
    eprintln!("installs: {what}");
    match program::run(command, PATIENCE) {
        Ended { code: Some(0), .. } => Ok(()),
        ended => Err(format!("`{what}` {}; {remedy}", ended.why())),
    }
}

/// When a file of a folder was last changed.
fn newest(folder: &Path) -> Option<std::time::SystemTime> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.filter_map(|path| if path.is_dir() { newest(&path) } else { fs::metadata(path).ok()?.modified().ok() }).max()
}

/// Of what a program says of its version the first line that has a digit, without what is in parentheses.
fn said(command: &mut Command) -> String {
    let ended = program::run(command, Duration::from_secs(10));
    let lines = ended.out.lines().chain(ended.err.lines());
    let line = lines.map(str::trim).find(|line| line.contains(|c: char| c.is_ascii_digit())).unwrap_or("unknown");
    line.split(" (").next().unwrap_or(line).to_owned()
}
