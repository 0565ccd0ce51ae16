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
    /// How many cores this process may use.
    pub cores: Option<usize>,
    /// Whether the machine says that it's a virtual one.
    pub virtualized: Option<bool>,
    /// Main memory.
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
            cores: std::thread::available_parallelism().ok().map(usize::from),
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

/// The time now, in UTC: `2026-11-26T06:15:48Z`.
pub fn time() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// Seconds since 1970 as a date and a time, by the Gregorian calendar.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that some have more is their last.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year + 400 * era, month + 3) } else { (year + 400 * era + 1, month - 9) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn memory_gib() -> Option<f64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: f64 = field(&meminfo, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / f64::from(1 << 20))
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

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: A: B\n";
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn seconds_are_a_date() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let machine = Machine::this();
        assert!(machine.cores.is_some_and(|cores| cores > 0));
        assert!(machine.describe().contains(&machine.kernel.expect("every system has one")));
    }
}
