//! How much of everything a server may have: connections, stacks, memory, buffers.

use greenwave::StackSize;

use super::finding::Finding;
use super::machine::Machine;

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let table = machine.text("/proc/self/limits").unwrap_or_default();
    vec![files(&table), stacks(machine), locked(&table), huge_pages(machine), backlog(machine), buffers(machine)]
}

/// A limit, soft and hard; unlimited is the largest number.
fn limit(table: &str, name: &str) -> Option<(u64, u64)> {
    let mut values = table
        .lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .map(|value| if value == "unlimited" { Some(u64::MAX) } else { value.parse().ok() });
    Some((values.next()??, values.next()??))
}

/// What a process has open besides its connections: logs, queues, bells, listeners, an index.
const OTHER_FILES: u64 = 64;

fn files(table: &str) -> Finding {
    const NAME: &str = "open files";
    const EFFECT: &str = "further connections are not accepted until others end";
    let Some((soft, hard)) = limit(table, "Max open files") else {
        return Finding::unknown(NAME, "/proc/self/limits", EFFECT);
    };
    let found = format!(
        "{} of at most {}: about {} connections",
        number(soft),
        number(hard),
        number(soft.saturating_sub(OTHER_FILES))
    );
    if soft >= 8192 {
        return Finding::ok(NAME, found);
    }
    let remedy = if hard > soft {
        format!("ulimit -n {}", hard.min(1 << 20))
    } else {
        "raise LimitNOFILE of the service".into()
    };
    Finding::limited(NAME, found, EFFECT, remedy)
}

/// A stack and the guard page below it.
const MAPPINGS: u64 = 2;

fn stacks(machine: &Machine) -> Finding {
    const NAME: &str = "mappings";
    const PATH: &str = "/proc/sys/vm/max_map_count";
    const EFFECT: &str = "handlers beyond that number at a time are refused for want of a stack";
    let Some(mappings) = machine.number(PATH) else { return Finding::unknown(NAME, PATH, EFFECT) };
    let stacks = mappings / MAPPINGS;
    let found =
        format!("{mappings}: about {stacks} stacks of handlers ({} KiB each)", StackSize::DEFAULT.bytes() >> 10);
    if stacks >= 16 * 1024 {
        return Finding::ok(NAME, found);
    }
    Finding::limited(NAME, found, EFFECT, "sysctl vm.max_map_count=262144")
}

fn locked(table: &str) -> Finding {
    const NAME: &str = "locked memory";
    const EFFECT: &str = "RDMA can't register the buffers of many connections; sockets don't need it";
    let Some((soft, _)) = limit(table, "Max locked memory") else {
        return Finding::unknown(NAME, "/proc/self/limits", EFFECT);
    };
    if soft >= 64 << 20 {
        let found = if soft == u64::MAX { "unlimited".into() } else { format!("{} MiB", soft >> 20) };
        return Finding::ok(NAME, found);
    }
    Finding::limited(NAME, format!("{} KiB", soft >> 10), EFFECT, "ulimit -l unlimited, or LimitMEMLOCK of the service")
}

fn huge_pages(machine: &Machine) -> Finding {
    const NAME: &str = "huge pages";
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const EFFECT: &str = "large indices and stores miss the TLB more often";
    let Some(modes) = machine.text(PATH) else { return Finding::unknown(NAME, PATH, EFFECT) };
    let Some(mode) = chosen(&modes) else { return Finding::unknown(NAME, PATH, EFFECT) };
    let reserved = machine.number("/proc/sys/vm/nr_hugepages").unwrap_or(0);
    let found = format!("transparent ones: {mode}; {reserved} reserved");
    if mode == "never" && reserved == 0 {
        return Finding::limited(NAME, found, EFFECT, format!("echo madvise > {PATH}"));
    }
    Finding::ok(NAME, found)
}

/// The one in brackets.
fn chosen(modes: &str) -> Option<&str> {
    modes.split_once('[')?.1.split_once(']').map(|(mode, _)| mode)
}

fn backlog(machine: &Machine) -> Finding {
    const NAME: &str = "listen backlog";
    const PATH: &str = "/proc/sys/net/core/somaxconn";
    const EFFECT: &str = "when many clients come at once, some have to knock again after a second";
    match machine.number(PATH) {
        None => Finding::unknown(NAME, PATH, EFFECT),
        Some(longest) if longest >= 1024 => Finding::ok(NAME, longest.to_string()),
        Some(longest) => Finding::limited(NAME, longest.to_string(), EFFECT, "sysctl net.core.somaxconn=4096"),
    }
}

/// As much as a connection has under way by default, which is enough for 10 Gbit/s over 3 ms.
const UNDER_WAY: u64 = 4 << 20;

fn buffers(machine: &Machine) -> Finding {
    const NAME: &str = "tcp buffers";
    const PATHS: [&str; 2] = ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"];
    const EFFECT: &str = "large messages over long ways are slower than the line";
    let most = PATHS.map(|path| machine.text(path)?.split_whitespace().nth(2)?.parse::<u64>().ok());
    let [Some(receive), Some(send)] = most else { return Finding::unknown(NAME, PATHS[0], EFFECT) };
    let found = format!("up to {} KiB to receive, {} KiB to send", receive >> 10, send >> 10);
    if receive.min(send) >= UNDER_WAY {
        return Finding::ok(NAME, found);
    }
    let remedy = "sysctl net.ipv4.tcp_rmem=\"4096 131072 16777216\" net.ipv4.tcp_wmem=\"4096 16384 16777216\"";
    Finding::limited(NAME, found, EFFECT, remedy)
}

fn number(limit: u64) -> String {
    if limit >= u64::MAX - OTHER_FILES { "unlimited".into() } else { limit.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn few_open_files_are_told_with_how_many_connections_they_allow() {
        let table =
            "Limit  Soft  Hard  Units\nMax open files            1024                 524288               files\n";
        let found = files(table);
        assert_eq!(found.found, "1024 of at most 524288: about 960 connections");
        assert_eq!((found.status, found.remedy.as_deref()), (Status::Limited, Some("ulimit -n 524288")));
        assert_eq!(files("Max open files unlimited unlimited files").status, Status::Ok);
    }

    #[test]
    fn a_table_of_limits_may_be_anything() {
        for odd in ["", "Max open files", "Max open files x y", "Max open files 1", "Max open files -1 -1"] {
            assert_eq!(limit(odd, "Max open files"), None, "{odd}");
        }
    }

    #[test]
    fn the_mode_of_huge_pages_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        for odd in ["", "always", "][", "[always"] {
            assert_eq!(chosen(odd), None, "{odd}");
        }
    }
}
