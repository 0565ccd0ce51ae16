//! The linker's face: takes what rustc hands to a linker, replaces bitcode by machine code with probes, and calls the
//! usual linker with the rest as it was.
//!
//! Native objects pass through untouched: those of the standard library, of C code built without `-flto`. Archives with
//! bitcode in them are written anew.

use crate::cache::Cache;
use crate::insert::copies;
use crate::module::{Module, Options};
use crate::objects::{is_archive, is_bitcode, members};
use crate::report::{self, Fact};
use crate::standard::Standard;
use anyhow::{Context, Result};
use ar_archive_writer::{ArchiveKind, NewArchiveMember, write_archive_to_stream};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable in which [`crate::command`] tells the linker its settings.
pub(crate) const SETTINGS: &str = "CARGO_QUANTA_LINK";

/// What the linker is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Where machine code is kept.
    pub(crate) cache: PathBuf,
    /// What may be done without a probe, in instructions.
    pub(crate) bound: u32,
    /// Thread-locals that all jobs of a thread share, by their paths.
    pub(crate) thread_locals: Vec<String>,
    /// Crates or paths of functions that get no probes.
    pub(crate) exclude: Vec<String>,
    /// If there are any: the only ones that get probes.
    pub(crate) only: Vec<String>,
}

/// The C library's functions that are led to the runtime: the system calls that the standard library makes and its sleeps,
/// so that it hears of those that would block, and the way destructors of thread-locals are registered.
const WRAPPED: [&str; 5] = ["syscall", "sched_yield", "nanosleep", "clock_nanosleep", "__cxa_thread_atexit_impl"];

/// What every program that was built with probes has: a byte that the runtime looks for; and for programs without that
/// runtime the thread's state, whose credit is never used up, and what its functions do there: a strip is as long as the
/// loop.
const STAMP: &str = "
.section .text.__quanta_probe, \"ax\", @progbits
.weak __quanta_probe
.type __quanta_probe, @function
.weak __quanta_probe_wide
.type __quanta_probe_wide, @function
__quanta_probe:
__quanta_probe_wide:
movabs $0x4000000000000000, %r11
movq %r11, %fs:__quanta_credit@tpoff
ret
.section .text.__quanta_strip, \"ax\", @progbits
.weak __quanta_strip
.type __quanta_strip, @function
.weak __quanta_strip_wide
.type __quanta_strip_wide, @function
__quanta_strip:
__quanta_strip_wide:
ret
.globl __quanta_instrumented
.section .rodata.__quanta_instrumented, \"a\", @progbits
__quanta_instrumented: .byte 1
.section .text.__wrap_syscall, \"ax\", @progbits
.weak __wrap_syscall
.type __wrap_syscall, @function
__wrap_syscall:
jmp *__real_syscall@GOTPCREL(%rip)
.section .text.__wrap_sched_yield, \"ax\", @progbits
.weak __wrap_sched_yield
.type __wrap_sched_yield, @function
__wrap_sched_yield:
jmp *__real_sched_yield@GOTPCREL(%rip)
.section .text.__wrap_nanosleep, \"ax\", @progbits
.weak __wrap_nanosleep
.type __wrap_nanosleep, @function
__wrap_nanosleep:
jmp *__real_nanosleep@GOTPCREL(%rip)
.section .text.__wrap_clock_nanosleep, \"ax\", @progbits
.weak __wrap_clock_nanosleep
.type __wrap_clock_nanosleep, @function
__wrap_clock_nanosleep:
jmp *__real_clock_nanosleep@GOTPCREL(%rip)
.section .text.__wrap___cxa_thread_atexit_impl, \"ax\", @progbits
.weak __wrap___cxa_thread_atexit_impl
.type __wrap___cxa_thread_atexit_impl, @function
__wrap___cxa_thread_atexit_impl:
jmp *__real___cxa_thread_atexit_impl@GOTPCREL(%rip)
.section .tdata.__quanta_credit, \"awT\", @progbits
.weak __quanta_credit
.p2align 6
.type __quanta_credit, @object
.size __quanta_credit, 128
__quanta_credit: .quad 0x4000000000000000
.fill 15, 8, 0
.section .note.GNU-stack, \"\", @progbits
";

pub(crate) fn run(arguments: Vec<OsString>) -> Result<ExitCode> {
    let settings = std::env::var(SETTINGS).ok().and_then(|text| serde_json::from_str::<Settings>(&text).ok());
    let settings = settings.with_context(|| format!("{SETTINGS} is not what `cargo quanta` sets"))?;
    let mut plain = Vec::new();
    for argument in arguments {
        match argument.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(file) => {
                let text = fs::read_to_string(file).with_context(|| format!("can't read the arguments in {file}"))?;
                plain.extend(unescaped(&text));
            }
            None => plain.push(argument),
        }
    }
    let standard = Standard::find(&plain)?;
    let options = Options {
        level: plugin_option(&plain, "O").map_or_else(|| "O2".into(), |level| format!("O{level}")),
        cpu: plugin_option(&plain, "mcpu=").unwrap_or_else(|| "x86-64".into()),
        bound: settings.bound,
        thread_locals: settings.thread_locals,
        of_std: standard.thread_locals.iter().cloned().collect(),
        exclude: settings.exclude,
        only: settings.only,
        is_program: !plain.iter().any(|argument| argument == "-shared"),
    };
    let salt = format!("{} {options:?} {:?}", env!("CARGO_PKG_VERSION"), own_stamp());
    let cache = Cache::new(settings.cache, salt)?;
    let folder = tempfile::Builder::new().prefix("cargo-quanta-").tempdir().context("no room for temporary files")?;
    plain.retain(|argument| !argument.to_string_lossy().contains("-plugin-opt="));
    let (replaced, facts) = replace(&plain, &options, &cache, folder.path())?;
    if let Some(made) = plain.iter().position(|argument| argument == "-o").and_then(|at| plain.get(at + 1)) {
        report::keep(Path::new(made), &facts)?;
    }
    let linker = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&linker);
    if options.is_program && replaced != plain {
        standard.check()?;
    }
    command.args(replaced);
    if options.is_program {
        let stamp = folder.path().join("quanta-stamp.o");
        let assembly = format!("{STAMP}{}{}", copies::ASSEMBLY, standard.places());
        fs::write(&stamp, cache.get(assembly.as_bytes(), || Module::assembly(&assembly))?)?;
        command.arg(stamp);
        command.args(WRAPPED.map(|name| format!("-Wl,--wrap={name}")));
    }
    let status = command.status();
    let status = status.with_context(|| format!("can't run the linker {}", linker.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Tells builds of this program apart whose version is the same, so that work on it never finds old objects.
fn own_stamp() -> Option<(u64, std::time::SystemTime)> {
    let about = fs::metadata(std::env::current_exe().ok()?).ok()?;
    Some((about.len(), about.modified().ok()?))
}

/// The arguments of a response file as rustc writes it: one a line, with backslashes before what is special.
fn unescaped(text: &str) -> impl Iterator<Item = OsString> + '_ {
    text.lines().map(|line| {
        let mut plain = String::with_capacity(line.len());
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            plain.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        OsString::from(plain)
    })
}

/// What rustc tells the plugin of a linker that has one: `-Wl,-plugin-opt=O3,-plugin-opt=mcpu=x86-64`.
fn plugin_option(arguments: &[OsString], name: &str) -> Option<String> {
    let options = arguments.iter().filter_map(|argument| argument.to_str()).flat_map(|text| text.split(','));
    let mut values = options.filter_map(|option| option.strip_prefix("-plugin-opt=")?.strip_prefix(name));
    values.next().map(str::to_owned)
}

/// A piece of work: a file that is or contains bitcode, and where its replacement goes.
struct Job {
    argument: usize,
    path: PathBuf,
    bytes: Vec<u8>,
    out: PathBuf,
}

fn replace(
    arguments: &[OsString],
    options: &Options,
    cache: &Cache,
    folder: &Path,
) -> Result<(Vec<OsString>, Vec<Fact>)> {
    let mut jobs = Vec::new();
    for (argument, text) in arguments.iter().enumerate() {
        let library = library(arguments, text);
        let path = library.as_deref().unwrap_or_else(|| Path::new(text));
        if !matches!(path.extension().and_then(OsStr::to_str), Some("o" | "rlib" | "a")) || !path.is_file() {
            continue;
        }
        let bytes = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let out = folder.join(format!("{argument}-{name}")).with_extension(if is_bitcode(&bytes) { "o" } else { "a" });
        if is_bitcode(&bytes) || is_archive(&bytes) {
            jobs.push(Job { argument, path: path.to_path_buf(), bytes, out });
        }
    }
    // Workers take the next job until there is none.
    let (next, replaced, facts) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let made =
                replacement(job, options, cache, &facts).with_context(|| format!("in {}", job.path.display()))?;
            if let Some(bytes) = made {
                fs::write(&job.out, bytes).with_context(|| format!("can't write {}", job.out.display()))?;
                replaced.lock().expect("no worker panics with it").push((job.argument, job.out.clone()));
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker returns its failure"))
    })?;
    let mut arguments = arguments.to_vec();
    for (argument, path) in replaced.into_inner().expect("no worker panics with it") {
        arguments[argument] = path.into_os_string();
    }
    Ok((arguments, facts.into_inner().expect("no worker panics with it")))
}

/// The archive that `-lNAME` stands for, if there is one in the folders that the linker is to search.
fn library(arguments: &[OsString], text: &OsStr) -> Option<PathBuf> {
    let name = text.to_str()?.strip_prefix("-l")?;
    let next = arguments.iter().skip(1).map(Some).chain([None]);
    let mut folders = arguments.iter().zip(next).filter_map(|(argument, next)| match argument.to_str()? {
        "-L" => next.map(PathBuf::from),
        argument => argument.strip_prefix("-L").map(PathBuf::from),
    });
    folders.find_map(|folder| Some(folder.join(format!("lib{name}.a"))).filter(|path| path.is_file()))
}

/// What takes a file's place; `None` if it may stay as it is.
fn replacement(job: &Job, options: &Options, cache: &Cache, facts: &Mutex<Vec<Fact>>) -> Result<Option<Vec<u8>>> {
    let compile = |name: &str, bitcode: &[u8]| {
        let (object, said) = parts(cache.get(bitcode, || compile(name, bitcode, options))?)?;
        facts.lock().expect("no worker panics with it").extend(said);
        anyhow::Ok(object)
    };
    if is_bitcode(&job.bytes) {
        return compile(&job.path.to_string_lossy(), &job.bytes).map(Some);
    }
    let Some(found) = members(&job.bytes)? else { return Ok(None) };
    let (mut members, mut any) = (Vec::new(), false);
    for (name, data) in found {
        // Metadata are for the compiler alone.
        if name.ends_with(".rmeta") {
            continue;
        }
        let data = if is_bitcode(data) {
            any = true;
            compile(&name, data).with_context(|| format!("in its member {name}"))?
        } else {
            data.to_vec()
        };
        members.push((name, data));
    }
    if !any {
        return Ok(None);
    }
    let members: Vec<NewArchiveMember<'_>> = members
        .into_iter()
        .map(|(name, data)| NewArchiveMember::new(data, &ar_archive_writer::DEFAULT_OBJECT_READER, name))
        .collect();
    let mut bytes = std::io::Cursor::new(Vec::new());
    write_archive_to_stream(&mut bytes, &members, ArchiveKind::Gnu, false, None).context("can't write the archive")?;
    Ok(Some(bytes.into_inner()))
}

/// Machine code, and behind it what the report says of it: that is kept as one.
fn compile(name: &str, bitcode: &[u8], options: &Options) -> Result<Vec<u8>> {
    let module = Module::read(name, bitcode, options)?;
    module.optimise(options)?;
    let facts = module.instrument(options)?;
    let mut made = module.emit()?;
    let length = (made.len() as u64).to_le_bytes();
    serde_json::to_writer(&mut made, &facts)?;
    made.extend(length);
    Ok(made)
}

/// Takes the two apart.
fn parts(mut made: Vec<u8>) -> Result<(Vec<u8>, Vec<Fact>)> {
    let broken = "what was kept of an earlier build is broken; remove the folder `objects`";
    let length = made.split_last_chunk::<8>().map(|(_, length)| u64::from_le_bytes(*length) as usize);
    let length = length.filter(|length| *length <= made.len() - 8).context(broken)?;
    let facts = serde_json::from_slice(&made[length..made.len() - 8]).context(broken)?;
    made.truncate(length);
    Ok((made, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        let (thread_locals, exclude) = (vec!["a::B".into()], vec!["serde".into()]);
        let settings =
            Settings { cache: "/a folder;x=1/objects".into(), bound: 700, thread_locals, exclude, only: vec![] };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }

    #[test]
    fn response_files_are_read_as_rustc_writes_them() {
        let arguments: Vec<_> = unescaped("-o\n/with\\ space/a\\\\b\n").collect();
        assert_eq!(arguments, ["-o", "/with space/a\\b"]);
    }

    #[test]
    fn a_library_is_looked_for_where_the_linker_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcode.a");
        fs::write(&path, "!<arch>\n").unwrap();
        let arguments = [OsString::from("-L/nowhere"), "-L".into(), folder.path().into(), "-lcode".into()];
        assert_eq!(library(&arguments, OsStr::new("-lcode")), Some(path));
        assert_eq!(library(&arguments, OsStr::new("-lc")), None);
        assert_eq!(library(&arguments, OsStr::new("code.o")), None);
    }

    #[test]
    fn the_optimisation_level_is_what_rustc_says() {
        let arguments = ["-m64", "-Wl,-plugin-opt=O3,-plugin-opt=mcpu=x86-64-v3"].map(OsString::from);
        assert_eq!(plugin_option(&arguments, "O").as_deref(), Some("3"));
        assert_eq!(plugin_option(&arguments, "mcpu=").as_deref(), Some("x86-64-v3"));
        assert_eq!(plugin_option(&arguments, "X"), None);
    }
}
