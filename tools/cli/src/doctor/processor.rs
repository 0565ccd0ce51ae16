//! Cores, clocks, and who takes them away.

use greenwave_quanta as quanta;

use super::finding::Finding;
use super::machine::{Machine, field, listed};

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let cpu = machine.text("/proc/cpuinfo").unwrap_or_default();
    let flags: Vec<&str> = field(&cpu, "flags").unwrap_or_default().split_whitespace().collect();
    let mut findings = clock(machine, &flags);
    findings.push(preemption(quanta::is_instrumented()));
    findings.push(vectors(&flags));
    findings.extend(cores(machine));
    findings.push(quota(machine));
    findings.push(governor(machine));
    findings.push(virtual_machine(&flags));
    findings
}

fn clock(machine: &Machine, flags: &[&str]) -> Vec<Finding> {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const SYSTEM_CALL: &str = "reading the clock may be a system call, and every call reads it several times";
    let steady = ["constant_tsc", "nonstop_tsc"].iter().filter(|flag| !flags.contains(flag)).copied();
    let lacking: Vec<&str> = steady.collect();
    let tsc = match lacking.as_slice() {
        [] => Finding::ok("tsc", "constant and never stops"),
        _ => Finding::limited(
            "tsc",
            format!("without {}", lacking.join(" and ")),
            "quanta are inexact while the frequency changes or a core sleeps",
            "a processor with an invariant TSC; in a virtual machine, one whose hypervisor shows it",
        ),
    };
    let source = match machine.text(SOURCE) {
        None => Finding::unknown("clocksource", SOURCE, SYSTEM_CALL),
        Some(source) if source == "tsc" || source == "arch_sys_counter" => Finding::ok("clocksource", source),
        Some(source) => Finding::limited(
            "clocksource",
            source,
            SYSTEM_CALL,
            "boot with clocksource=tsc if the TSC can be relied on",
        ),
    };
    vec![tsc, source]
}

fn preemption(instrumented: bool) -> Finding {
    if instrumented {
        return Finding::ok("preemption", "built by cargo quanta: handlers run in quanta");
    }
    Finding::limited(
        "preemption",
        "not built by cargo quanta",
        "handlers give way at their calls and checkpoints alone, and a long one keeps others waiting",
        "build the server with `cargo quanta build --release`",
    )
}

fn vectors(flags: &[&str]) -> Finding {
    let widest = ["avx512f", "avx2", "avx", "sse2"].into_iter().find(|flag| flags.contains(flag));
    match widest {
        Some(widest) if widest != "sse2" => Finding::ok("vector registers", widest),
        found => Finding::limited(
            "vector registers",
            found.unwrap_or("not known"),
            "checksums, searches and copies are slower",
            "a processor with AVX2, or a virtual machine that shows it",
        ),
    }
}

fn cores(machine: &Machine) -> Vec<Finding> {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let online = machine.text(ONLINE).and_then(|text| listed(&text));
    let status = machine.text("/proc/self/status").unwrap_or_default();
    let cores = match online {
        None => Finding::unknown("cores", ONLINE, "how many clusters a server can have is a guess"),
        Some(1) => Finding::limited(
            "cores",
            "1",
            "threads that spin stand in the way of those that they wait for",
            "`--wait block`, or a second core",
        ),
        Some(cores) => Finding::ok("cores", cores.to_string()),
    };
    let list = field(&status, "Cpus_allowed_list").unwrap_or_default();
    let allowed = match (listed(list), online) {
        (None, _) => Finding::unknown(
            "allowed cores",
            "/proc/self/status",
            "clusters may be pinned to cores that are not allowed",
        ),
        (Some(allowed), Some(online)) if allowed < online => Finding::limited(
            "allowed cores",
            format!("{allowed} of {online}: {list}"),
            "the other cores are not used",
            "taskset or the cpuset of the container; pin clusters to these with --cores",
        ),
        (Some(_), _) => Finding::ok("allowed cores", list),
    };
    vec![cores, allowed, nodes(machine)]
}

fn nodes(machine: &Machine) -> Finding {
    const NODES: &str = "/sys/devices/system/node";
    let number = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    match machine.names(NODES).iter().filter(|name| number(name)).count() {
        0 => Finding::unknown("numa nodes", NODES, "memory may be another node's"),
        1 => Finding::ok("numa nodes", "1"),
        nodes => {
            Finding::ok("numa nodes", format!("{nodes}; clusters pinned with --cores have memory of their own node"))
        }
    }
}

/// The least share of CPU time, in cores, that the process's groups leave it.
fn quota(machine: &Machine) -> Finding {
    let groups = machine.text("/proc/self/cgroup").unwrap_or_default();
    let quotas = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // A group outside of what this process sees is shown from here.
        let path = if path.contains("..") { "/" } else { path };
        Some(ancestors(path).filter_map(|path| quota_of(machine, controllers, path)).fold(f64::INFINITY, f64::min))
    });
    let cores = quotas.fold(f64::INFINITY, f64::min);
    if cores.is_infinite() {
        return Finding::ok("cpu quota", "none");
    }
    Finding::limited(
        "cpu quota",
        format!("{cores:.2} cores"),
        "threads that spin use it up, and then all stand still until the next period, commonly for tens of milliseconds",
        "raise or take away the limit (cpu.max, docker --cpus, Kubernetes limits.cpu), or use `--wait block`",
    )
}

/// A path and all that it lies in: `/a/b`, `/a`, and the root, which is empty.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| path.rfind('/').map(|at| &path[..at]))
}

fn quota_of(machine: &Machine, controllers: &str, path: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = if controllers.is_empty() {
        let text = machine.text(&format!("/sys/fs/cgroup{path}/cpu.max"))?;
        let (quota, period) = text.split_once(char::is_whitespace)?;
        (quota.parse().ok()?, period.trim().parse().ok()?)
    } else if controllers.split(',').any(|controller| controller == "cpu") {
        let number = |file: &str| {
            let folders = ["cpu", "cpu,cpuacct", "cpuacct,cpu"];
            folders.iter().find_map(|folder| machine.number(&format!("/sys/fs/cgroup/{folder}{path}/{file}")))
        };
        // -1 means none, and is no such number.
        (number("cpu.cfs_quota_us")? as f64, number("cpu.cfs_period_us")? as f64)
    } else {
        return None;
    };
    let cores = quota / period;
    (cores.is_finite() && cores > 0.0).then_some(cores)
}

fn governor(machine: &Machine) -> Finding {
    match machine.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Finding::ok("frequency", "not the kernel's to choose"),
        Some(governor) if governor == "performance" => Finding::ok("frequency", governor),
        Some(governor) => Finding::limited(
            "frequency",
            format!("governor {governor}"),
            "the first calls after a pause are served by a slow core",
            "cpupower frequency-set -g performance",
        ),
    }
}

fn virtual_machine(flags: &[&str]) -> Finding {
    if !flags.contains(&"hypervisor") {
        return Finding::ok("virtual machine", "no, as far as the processor says");
    }
    Finding::limited(
        "virtual machine",
        "yes",
        "other guests may have the core for milliseconds, and waking a thread costs more",
        "judge the longest times on bare metal or on dedicated cores",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::machine::with as machine;
    use super::*;

    #[test]
    fn the_least_quota_of_all_groups_around_counts() {
        let files = [
            ("proc/self/cgroup", "0::/pod/container\n"),
            ("sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n"),
        ];
        let (_root, machine) = machine(&files);
        assert_eq!(quota(&machine).found, "1.50 cores");
    }

    #[test]
    fn quotas_of_the_older_kind_of_groups_are_found() {
        let files = [
            ("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "50000"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ];
        let (_root, machine) = machine(&files);
        assert_eq!(quota(&machine).found, "0.50 cores");
    }

    #[test]
    fn a_quota_that_makes_no_sense_is_none() {
        for odd in ["max", "max 100000", "0 0", "5 0", "-5 100", "NaN 1", "inf 1"] {
            let (_root, machine) = machine(&[("proc/self/cgroup", "0::/../..\n"), ("sys/fs/cgroup/cpu.max", odd)]);
            assert_eq!(quota(&machine).status, Status::Ok, "{odd}");
        }
    }

    #[test]
    fn a_process_that_may_not_run_everywhere_is_told_where() {
        let files =
            [("sys/devices/system/cpu/online", "0-7"), ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-3\n")];
        let (_root, machine) = machine(&files);
        let found = cores(&machine);
        assert_eq!(found.iter().map(|it| it.found.as_str()).collect::<Vec<_>>(), ["8", "2 of 8: 2-3", "not known"]);
    }

    #[test]
    fn each_flag_of_the_clock_that_is_lacking_is_named() {
        let (_root, machine) =
            machine(&[("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")]);
        let found = clock(&machine, &["constant_tsc"]);
        assert_eq!(found.iter().map(|it| it.found.as_str()).collect::<Vec<_>>(), ["without nonstop_tsc", "hpet"]);
        assert!(found.iter().all(|it| it.status == Status::Limited));
    }
}
