//! The kernel, and whether it lets an agent tag and split flows on this host.

use super::finding::Finding;
use super::machine::{Machine, field};

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    vec![kernel(machine), ebpf(machine)]
}

fn kernel(machine: &Machine) -> Finding {
    const PATH: &str = "/proc/sys/kernel/osrelease";
    const EFFECT: &str = "io_uring without what makes it quick, or none at all";
    match (machine.kernel(), machine.text(PATH)) {
        (Some(version), Some(release)) if version >= (6, 1) => Finding::ok("kernel", release),
        (Some(_), Some(release)) => Finding::limited("kernel", release, EFFECT, "Linux 6.1 or later"),
        _ => Finding::unknown("kernel", PATH, EFFECT),
    }
}

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

fn ebpf(machine: &Machine) -> Finding {
    const NAME: &str = "ebpf";
    const EFFECT: &str = "an agent on this host could not tag or split flows";
    let capabilities = machine.text("/proc/self/status").unwrap_or_default();
    let capabilities = field(&capabilities, "CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
    let has = |capability: u32| capabilities & (1 << capability) != 0;
    let types = machine.exists("/sys/kernel/btf/vmlinux");
    let allowed = has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_NET_ADMIN));
    let unprivileged = match machine.number("/proc/sys/kernel/unprivileged_bpf_disabled") {
        Some(0) => "anybody may load simple programs",
        Some(_) => "those without privileges may not",
        None => "whether those without privileges may is not known",
    };
    match (allowed, machine.kernel().is_some_and(|kernel| kernel >= (5, 8)), types) {
        (true, true, true) => Finding::ok(NAME, format!("allowed, with the kernel's types; {unprivileged}")),
        (true, true, false) => Finding::limited(
            NAME,
            "allowed, without /sys/kernel/btf/vmlinux",
            "programs have to be built for this very kernel",
            "a kernel built with CONFIG_DEBUG_INFO_BTF",
        ),
        (_, false, _) => Finding::missing(NAME, "not known to be in this kernel", EFFECT, "Linux 5.8 or later"),
        (false, ..) => Finding::missing(
            NAME,
            format!("not allowed to this process; {unprivileged}"),
            EFFECT,
            "run the agent with CAP_BPF and CAP_NET_ADMIN",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn programs_in_the_kernel_need_capabilities_or_root() {
        for (bits, status) in [
            ("000001ffffffffff", Status::Ok),
            ("0000008000001000", Status::Ok),
            ("0000008000000000", Status::Missing),
            ("0000000000000000", Status::Missing),
            ("what", Status::Missing),
        ] {
            let root = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = root.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write("proc/self/status", &format!("CapEff:\t{bits}\n"));
            write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
            write("sys/kernel/btf/vmlinux", "");
            assert_eq!(ebpf(&Machine::at(root.path())).status, status, "{bits}");
        }
    }
}
