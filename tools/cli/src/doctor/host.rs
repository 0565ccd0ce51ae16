//! The kernel, and whether it lets an agent tag flows on this host and give threads a short slice.

use greenwave_host::boost::{self, Offered};

use super::finding::Finding;
use super::machine::{Machine, field};

/// What the kernel said when it was asked for a slice of a thread's own.
pub(super) type Slices = Result<Offered, boost::Error>;

pub(super) fn findings(machine: &Machine, slices: &Slices) -> Vec<Finding> {
    let offers = Offers::of(machine);
    vec![kernel(machine), short_slices(machine, slices), ebpf(machine), hooks(&offers), bands(machine, &offers)]
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

fn short_slices(machine: &Machine, slices: &Slices) -> Finding {
    const NAME: &str = "short slices";
    const EFFECT: &str = "a thread that wakes may wait some ms for a neighbour's turn to end; no boost can help it";
    let default = match slices {
        Ok(Offered { default }) => default,
        Err(error) => return Finding::missing(NAME, error.to_string(), EFFECT, "Linux 6.12 or later"),
    };
    let found = format!("0.1 to 100 ms for each thread, {default:?} otherwise");
    if machine.text("/sys/kernel/sched_ext/state").is_some_and(|state| state.starts_with("enabl")) {
        const OTHER: &str = "the scheduler that was loaded need not heed them";
        return Finding::limited(NAME, format!("{found}; a sched_ext scheduler runs"), OTHER, "stop that scheduler");
    }
    Finding::ok(NAME, found)
}

/// What can be said of the parts of the kernel: what its symbols name is there, what is a module can be loaded.
struct Offers {
    symbols: Option<String>,
    modules: String,
}

const SYMBOLS: &str = "/proc/kallsyms";

impl Offers {
    fn of(machine: &Machine) -> Self {
        let release = machine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        // The release becomes part of a path.
        let modules = Some(release).filter(|it| !it.contains('/') && it != "..");
        let modules = modules.and_then(|release| machine.text(&format!("/lib/modules/{release}/modules.dep")));
        Self { symbols: machine.text(SYMBOLS), modules: modules.unwrap_or_default() }
    }

    /// Whether there is a function of this name, or a module that would bring it.
    fn has(&self, function: &str, module: &str) -> bool {
        let named = |line: &str| line.split_whitespace().nth(2) == Some(function);
        self.symbols.as_deref().is_some_and(|symbols| symbols.lines().any(named))
            || self.modules.contains(&format!("/{module}.ko"))
    }
}

fn hooks(offers: &Offers) -> Finding {
    const NAME: &str = "flow hooks";
    const EFFECT: &str = "an agent could not see what leaves a guest";
    if offers.symbols.is_none() {
        return Finding::unknown(NAME, SYMBOLS, EFFECT);
    }
    match (offers.has("tcx_prog_attach", "-"), offers.has("clsact_init", "sch_ingress")) {
        (true, clsact) => Finding::ok(NAME, if clsact { "tcx, clsact" } else { "tcx" }),
        (false, true) => Finding::ok(NAME, "clsact, not tcx (Linux 6.6): other programs on a device can drop ours"),
        (false, false) => {
            Finding::missing(NAME, "neither tcx nor clsact", EFFECT, "a kernel built with CONFIG_NET_SCH_INGRESS")
        }
    }
}

/// The queue disciplines that can serve small flows first: the function and the module that say so, and whether large
/// flows are sure of a share.
const DISCIPLINES: [(&str, &str, &str, bool); 5] = [
    ("htb", "htb_enqueue", "sch_htb", true),
    ("ets", "ets_qdisc_enqueue", "sch_ets", true),
    ("fq", "fq_enqueue", "sch_fq", true),
    ("prio", "prio_enqueue", "sch_prio", false),
    ("pfifo_fast", "pfifo_fast_enqueue", "-", false),
];

/// Before, fq had no bands.
const FQ_WITH_BANDS: (u32, u32) = (6, 7);

fn bands(machine: &Machine, offers: &Offers) -> Finding {
    const NAME: &str = "priority bands";
    const EFFECT: &str = "tags have no effect on this host's own queues, only on those of switches";
    if offers.symbols.is_none() {
        return Finding::unknown(NAME, SYMBOLS, EFFECT);
    }
    let banded = |name: &str| name != "fq" || machine.kernel().is_some_and(|kernel| kernel >= FQ_WITH_BANDS);
    let there: Vec<_> =
        DISCIPLINES.iter().filter(|(name, function, module, _)| banded(name) && offers.has(function, module)).collect();
    let names: Vec<_> = there.iter().map(|(name, ..)| *name).collect();
    let usual = machine.text("/proc/sys/net/core/default_qdisc");
    let usual = usual.map(|name| format!("; new devices get {name}")).unwrap_or_default();
    let found = format!("{}{usual}", names.join(", "));
    if names.is_empty() {
        Finding::missing(NAME, format!("none{usual}"), EFFECT, "a kernel built with CONFIG_NET_SCH_HTB")
    } else if there.iter().any(|(.., shared)| *shared) {
        Finding::ok(NAME, found)
    } else {
        const STARVED: &str = "small flows go first without a limit, so large ones can starve";
        Finding::limited(NAME, found, STARVED, "a kernel with CONFIG_NET_SCH_HTB, or fq since Linux 6.7")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Status;
    use super::*;

    /// A machine with these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::at(root.path());
        (root, machine)
    }

    #[test]
    fn slices_are_told_with_the_kernels_own_and_with_who_need_not_heed_them() {
        let offered = Ok(Offered { default: Duration::from_micros(1400) });
        for (files, slices, status, said) in [
            (&[][..], &offered, Status::Ok, "1.4ms otherwise"),
            (&[("sys/kernel/sched_ext/state", "disabled\n")], &offered, Status::Ok, "1.4ms otherwise"),
            (&[("sys/kernel/sched_ext/state", "enabled\n")], &offered, Status::Limited, "sched_ext"),
            (&[], &Err(boost::Error::Unsupported { found: "0 ns".into() }), Status::Missing, "0 ns"),
        ] {
            let (_root, machine) = machine(files);
            let finding = short_slices(&machine, slices);
            assert_eq!(finding.status, status, "{finding}");
            assert!(finding.found.contains(said), "{finding}");
        }
    }

    #[test]
    fn bands_count_only_if_the_kernel_or_its_modules_have_them() {
        const STRICT: &str = "0000000000000000 t pfifo_fast_enqueue\n0000000000000000 t fq_enqueue_not\n";
        const FQ: &str = "0000000000000000 t fq_enqueue\t[sch_fq]\n";
        const HTB: &str = "kernel/net/sched/sch_htb.ko.zst:\n";
        for (symbols, modules, release, status, said) in [
            (STRICT, "", "6.18.1", Status::Limited, "pfifo_fast"),
            (FQ, "", "6.7.0", Status::Ok, "fq"),
            (FQ, "", "6.6.9", Status::Missing, "none"),
            (STRICT, HTB, "6.6.9", Status::Ok, "htb, pfifo_fast"),
            ("", HTB, "6.6.9", Status::Limited, "not known"),
        ] {
            let modules = (format!("lib/modules/{release}/modules.dep"), modules);
            let files = [("proc/kallsyms", symbols), ("proc/sys/kernel/osrelease", release), (&modules.0, modules.1)];
            let (_root, machine) = machine(&files);
            let finding = bands(&machine, &Offers::of(&machine));
            assert_eq!((finding.status, finding.found.as_str()), (status, said), "{symbols} {modules:?}");
        }
    }

    #[test]
    fn flows_are_seen_by_tcx_or_clsact() {
        for (symbols, status) in [
            ("0 T tcx_prog_attach\n0 t clsact_init", Status::Ok),
            ("0 t clsact_init", Status::Ok),
            ("0 t clsact_init_not", Status::Missing),
            ("", Status::Limited),
        ] {
            let (_root, machine) = machine(&[("proc/kallsyms", symbols)]);
            assert_eq!(hooks(&Offers::of(&machine)).status, status, "{symbols}");
        }
    }

    #[test]
    fn programs_in_the_kernel_need_capabilities_or_root() {
        for (bits, status) in [
            ("000001ffffffffff", Status::Ok),
            ("0000008000001000", Status::Ok),
            ("0000008000000000", Status::Missing),
            ("0000000000000000", Status::Missing),
            ("what", Status::Missing),
        ] {
            let (_root, machine) = machine(&[
                ("proc/self/status", &format!("CapEff:\t{bits}\n")),
                ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
                ("sys/kernel/btf/vmlinux", ""),
            ]);
            assert_eq!(ebpf(&machine).status, status, "{bits}");
        }
    }
}
