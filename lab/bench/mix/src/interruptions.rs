//! How often the kernel took the core away from a thread.

use std::fs;

/// Times that the kernel let another thread run in place of the calling one, though that could have gone on; 0 where
/// the kernel doesn't tell.
pub(crate) fn of_this_thread() -> u64 {
    fs::read_to_string("/proc/thread-self/status").ok().and_then(|status| involuntary(&status)).unwrap_or(0)
}

fn involuntary(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_involuntary_ones_count() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((involuntary(status), involuntary("Name:\tx\n")), (Some(3), None));
    }
}
