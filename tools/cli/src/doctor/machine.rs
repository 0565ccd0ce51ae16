//! What the kernel says of the machine, in files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// No file that is looked at is longer on any sane machine.
const LONGEST: u64 = 16 << 20;

/// The files of a machine, below a root that is another one in tests.
pub(super) struct Machine {
    root: PathBuf,
}

impl Machine {
    pub(super) fn here() -> Self {
        Self::at(Path::new("/"))
    }

    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(path)).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// What a file says, without the space around it; `None` if that is nothing.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The version of the kernel, the first two numbers of it.
    pub(super) fn kernel(&self) -> Option<(u32, u32)> {
        version(&self.text("/proc/sys/kernel/osrelease")?)
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A line `name: value`, as in `/proc/self/status` and `/proc/cpuinfo`; the first of that name.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// How many numbers a list such as `0-3,8` names.
pub(super) fn listed(text: &str) -> Option<u64> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    text.split(',').map(count).try_fold(0_u64, |sum, count| sum.checked_add(count?))
}

/// All files that are looked at, for tests that make odd ones of them.
#[cfg(test)]
pub(super) const READ: &[&str] = &[
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/proc/kallsyms",
    "/proc/self/cgroup",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/proc/sys/net/core/default_qdisc",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/nr_hugepages",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/node0/x",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/kernel/btf/vmlinux",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/sched_ext/state",
];

/// A machine with these files and no others, for tests. It is there for as long as the folder is.
#[cfg(test)]
pub(super) fn with(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let machine = Machine::at(root.path());
    (root, machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_whatever_follows() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        for odd in ["", "6", "six.1", "99999999999.1"] {
            assert_eq!(version(odd), None, "{odd}");
        }
    }

    #[test]
    fn lists_of_numbers_are_counted() {
        assert_eq!(listed("0-3,8"), Some(5));
        assert_eq!(listed("0"), Some(1));
        for odd in ["", "3-1", "a", "0-18446744073709551615", "1,,2"] {
            assert_eq!(listed(odd), None, "{odd}");
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field("model name\t: x\nflags\t\t: a b\n", "flags"), Some("a b"));
        assert_eq!(field("no colon", "no colon"), None);
    }
}
