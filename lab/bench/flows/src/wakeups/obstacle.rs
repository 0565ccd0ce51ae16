//! What keeps waits from being measured.

use std::fs;

use rustix::process::geteuid;

/// Why waits for a core can't be measured here. Two cores are needed as well, and a kernel with slices.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A nice value below 0 is given by root alone.
    #[error("user {user} can't give a thread a nice value of -10; run it as root")]
    NotRoot {
        /// Who tried.
        user: u32,
    },
    /// All sessions are one group for the scheduler.
    #[error(
        "the scheduler has no group for each session here; let it: `sysctl kernel.sched_autogroup_enabled=1`, with a kernel that has CONFIG_SCHED_AUTOGROUP"
    )]
    NoAutogroup,
    /// Sessions are groups of the scheduler's only where cgroups are none.
    #[error(
        "sessions in the cgroup {group} are in one group of the scheduler; leave it, as by `echo $$ > /sys/fs/cgroup/cgroup.procs`"
    )]
    InCgroup {
        /// Its path.
        group: String,
    },
}

impl Obstacle {
    /// The first that there is; `None` if there is none.
    #[must_use]
    pub fn find() -> Option<Self> {
        let user = geteuid();
        if !user.is_root() {
            return Some(Self::NotRoot { user: user.as_raw() });
        }
        let said = |path: &str| fs::read_to_string(path).unwrap_or_default();
        if said("/proc/sys/kernel/sched_autogroup_enabled").trim() != "1" {
            return Some(Self::NoAutogroup);
        }
        let cgroups = said("/proc/self/cgroup");
        let group = cgroup(&cgroups);
        (group != "/").then(|| Self::InCgroup { group: group.to_owned() })
    }
}

/// The cgroup by which the scheduler goes, of the lines of cgroups(7): that of the controller `cpu`, or else that of
/// version 2.
fn cgroup(lines: &str) -> &str {
    let find = |is_it: &dyn Fn(&str) -> bool| {
        let mut hierarchies = lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        hierarchies.find(|(controllers, _)| is_it(controllers)).map(|(_, path)| path)
    };
    let of_cpu = find(&|controllers| controllers.split(',').any(|controller| controller == "cpu"));
    of_cpu.or_else(|| find(&str::is_empty)).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_goes_by_the_cgroup_of_its_controller() {
        assert_eq!(cgroup("4:memory:/a\n2:cpu,cpuacct:/b\n0::/c\n"), "/b");
        assert_eq!(cgroup("3:cpuset:/a\n0::/user.slice/x:y\n"), "/user.slice/x:y");
        assert_eq!(cgroup("0::/\n"), "/");
        assert_eq!(cgroup(""), "/");
    }
}
