//! Facts about the machine that a result can't be judged without.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The machine on which something was measured. What couldn't be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: Option<String>,
    /// How many cores it has.
    pub cores: Option<usize>,
    /// Whether the machine says that it's a virtual one.
    pub virtualized: Option<bool>,
    /// Main memory, to a hundredth.
    pub memory_gib: Option<f64>,
    /// Name and release of the operating system's kernel.
    pub kernel: Option<String>,
    /// How the clock rate of the first core is chosen.
    pub governor: Option<String>,
    /// What the kernel reads the time from.
    pub clock_source: Option<String>,
    /// How many tasks were ready to run when this was read, mean of the last minute: others' work disturbs a benchmark.
    pub load_average: Option<f64>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: field(&cpuinfo, "model name").map(str::to_owned),
            cores: cores(&cpuinfo),
            virtualized: field(&cpuinfo, "flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            memory_gib: memory_gib(),
            kernel: line("/proc/sys/kernel/ostype")
                .zip(line("/proc/sys/kernel/osrelease"))
                .map(|(os, is)| format!("{os} {is}")),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load_average: line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()),
        }
    }

    /// The facts that are known, in words: for a caption.
    pub fn describe(&self) -> String {
        let facts = [
            self.cpu.clone(),
            self.cores.map(|cores| format!("{cores} cores")),
            self.virtualized.and_then(|is| is.then(|| "virtual machine".to_owned())),
            self.memory_gib.map(|gib| format!("{gib:.0} GiB")),
            self.kernel.clone(),
            self.governor.as_ref().map(|governor| format!("governor {governor}")),
            self.clock_source.as_ref().map(|source| format!("clock {source}")),
        ];
        facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The commit that is checked out here, with `-dirty` if files differ from it; `unknown` outside a repository.
pub fn commit() -> String {
    let git = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).output();
    let said =
        git.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    said.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// The time now, in UTC and to the second: `2026-11-26T06:15:48Z` (RFC 3339).
pub fn time() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// How many cores the machine has. Those that this thread may run on are fewer where it is pinned.
fn cores(cpuinfo: &str) -> Option<usize> {
    let processors = cpuinfo.lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == "processor"));
    Some(processors.count()).filter(|count| *count > 0)
}

fn memory_gib() -> Option<f64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: f64 = field(&meminfo, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    // Not all numbers with seventeen digits are read from JSON as they were written.
    Some((kib / f64::from(1 << 20) * 100.0).round() / 100.0)
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: A: B\n";
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn the_time_is_now_to_the_second() {
        let (before, said, after) = (SystemTime::now(), time(), SystemTime::now());
        let read = humantime::parse_rfc3339(&said).expect("it is a time");
        assert!(read <= after && read + Duration::from_secs(1) > before, "{said}");
        assert!(said.len() == "2026-11-26T06:15:48Z".len() && said.ends_with('Z'), "{said}");
    }

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let machine = Machine::this();
        assert!(machine.cores.is_some_and(|cores| cores > 0));
        // A benchmark has its thread on one of them by then, maybe.
        let pinned = std::thread::spawn(|| {
            let one = crate::pin::Cores::two().map_or(0, |cores| cores.client);
            crate::pin::this_thread(one).map(|()| Machine::this().cores)
        });
        assert_eq!(pinned.join().unwrap().ok(), Some(machine.cores));
        assert!(machine.describe().contains(&machine.kernel.expect("every system has one")));
    }
}
