//! `cargo xtask ebpf`: the agent's classifier, from C to the object that is kept beside its source.
//!
//! The object is kept so that no compiler is needed to build the crate. Beside it stands of what it was made: a hash of
//! the sources, and the compiler. Whoever changes the source and forgets the object is told so, with a compiler or
//! without; with one, what the object does is compared with what the source says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol};
use xxhash_rust::xxh3::xxh3_128;

use crate::step::{Steps, asks_for_help, root, say, works, wrong_use};

const HELP: &str = "\
Builds the agent's eBPF object from foundation/host/bpf/flow.bpf.c.

Usage: cargo xtask ebpf [--check]

Options:
  --check  builds it elsewhere, and compares it with the one that is there

Needs clang and llvm-strip (apt-get install clang llvm) and the kernel's headers (linux-libc-dev). To name a
compiler: CLANG=clang-19.";

const REMEDY: &str = "run `cargo xtask ebpf` and commit what it makes";

/// Everything that the object is made of.
const SOURCES: [&str; 2] = ["flow.bpf.c", "kernel.h"];

/// What of an object decides about what it does. The rest is names of files, lines and types.
const COMPARED: [&str; 4] = ["classifier", ".rodata", ".maps", "license"];

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    match words {
        [] => {
            let clang = clang().context("there is no clang for eBPF; to install it: apt-get install clang llvm")?;
            let there = folder().join("flow.bpf.o");
            compile(&clang, &there)?;
            fs::write(folder().join("flow.bpf.o.from"), made_of(&clang)?)?;
            say(&format!("made {} with {}", there.display(), version(&clang)))
        }
        [word] if word == "--check" => {
            let mut steps = Steps::new(1);
            check(&mut steps)?;
            steps.finish();
            Ok(())
        }
        _ => Err(wrong_use(format!("`{}` is not understood", words.join(" ")), "cargo xtask ebpf --help")),
    }
}

/// One step: the object is what the source says.
pub(crate) fn check(steps: &mut Steps) -> Result<()> {
    const NAME: &str = "eBPF object";
    let from = fs::read_to_string(folder().join("flow.bpf.o.from")).unwrap_or_default();
    if from.lines().next() != Some(&hash()?) {
        bail!("foundation/host/bpf/flow.bpf.o was not made of the source beside it; {REMEDY}");
    }
    let Some(clang) = clang() else {
        let why =
            "its source is the one it was made of; there is no clang to make it again: apt-get install clang llvm";
        steps.pass_over(NAME, why);
        return Ok(());
    };
    let other = from.lines().nth(1) != Some(&version(&clang));
    let how = if other { "another compiler: names and sizes alone" } else { "the same compiler: every instruction" };
    steps.pass_over(NAME, &format!("made again with {}; {how}", version(&clang)));
    let again = root().join("target").join("flow.bpf.o");
    fs::create_dir_all(root().join("target"))?;
    compile(&clang, &again)?;
    compare(&fs::read(folder().join("flow.bpf.o"))?, &fs::read(again)?, !other)
}

/// Compares two objects: what programs and maps they have, and, if `exact`, every instruction.
fn compare(kept: &[u8], again: &[u8], exact: bool) -> Result<()> {
    let (kept, again) = (object::File::parse(kept)?, object::File::parse(again)?);
    if symbols(&kept) != symbols(&again) {
        bail!("programs or maps differ: {:?} is there, {:?} is made; {REMEDY}", symbols(&kept), symbols(&again));
    }
    for name in COMPARED {
        let data = |file: &object::File<'_>| -> Result<Vec<u8>> {
            let section = file.section_by_name(name).with_context(|| format!("the object lacks the section {name}"))?;
            Ok(section.data()?.to_vec())
        };
        let (kept, again) = (data(&kept)?, data(&again)?);
        // Compilers differ in what instructions they choose, and in nothing else.
        if kept != again && (exact || name != "classifier") {
            bail!("the section {name} differs from what the source says; {REMEDY}");
        }
    }
    Ok(())
}

/// Names of programs and maps.
fn symbols(file: &object::File<'_>) -> Vec<String> {
    let global = file.symbols().filter(ObjectSymbol::is_global);
    let mut names: Vec<_> = global.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    names.sort();
    names
}

fn compile(clang: &str, to: &Path) -> Result<()> {
    let mut command = Command::new(clang);
    command.current_dir(folder()).args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-mcpu=v3"]);
    // Debian keeps what belongs to a processor apart, and a compiler for eBPF doesn't look there.
    for machine in ["x86_64", "aarch64"].map(|machine| format!("/usr/include/{machine}-linux-gnu")) {
        if Path::new(&machine).is_dir() {
            command.args(["-idirafter", &machine]);
        }
    }
    command.args(["-fdebug-compilation-dir=.", "-c", "flow.bpf.c", "-o"]).arg(to);
    let done = command.output().with_context(|| format!("can't run {clang}"))?;
    if !done.status.success() {
        bail!("{clang} refuses the source: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    // What debuggers want is most of it, and the kernel wants none of it.
    let strip = clang.replace("clang", "llvm-strip");
    let mut command = Command::new(&strip);
    command.args(["--strip-debug", "--remove-section=.BTF.ext", "--remove-section=.rel.BTF.ext"]).arg(to);
    if !works(&mut command) {
        bail!("{strip} is not there, or refuses the object; to install it: apt-get install llvm");
    }
    Ok(())
}

/// A compiler that makes eBPF, and can strip what it made.
fn clang() -> Option<String> {
    let named = std::env::var("CLANG").ok();
    let usual = ["clang-14", "clang", "clang-19", "clang-18", "clang-16"].map(str::to_owned);
    named.into_iter().chain(usual).find(|clang| {
        let bpf = ["-target", "bpf", "-fsyntax-only", "-x", "c", "/dev/null"];
        works(Command::new(clang).args(bpf))
            && works(Command::new(clang.replace("clang", "llvm-strip")).arg("--version"))
    })
}

fn version(clang: &str) -> String {
    let said = Command::new(clang).arg("--version").output().map(|it| it.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let mut words = said.lines().next().unwrap_or_default().split(' ').skip_while(|word| *word != "version");
    let number = words.nth(1).unwrap_or("of unknown version");
    format!("clang {}", number.split('-').next().unwrap_or(number))
}

fn made_of(clang: &str) -> Result<String> {
    Ok(format!("{}\n{}\n", hash()?, version(clang)))
}

/// Of all sources, their names included. The crate's own tests compute the same.
fn hash() -> Result<String> {
    let mut all = Vec::new();
    for name in SOURCES {
        let path = folder().join(name);
        all.extend_from_slice(name.as_bytes());
        all.push(0);
        all.extend(fs::read(&path).with_context(|| format!("can't read {}", path.display()))?);
        all.push(0);
    }
    Ok(format!("{:032x}", xxh3_128(&all)))
}

fn folder() -> PathBuf {
    root().join("foundation/host/bpf")
}
