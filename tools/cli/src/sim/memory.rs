//! How many runs fit into this machine's memory at a time.

use crate::problem::Problem;

/// The cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// As many threads as are asked for, or as many runs of so many bytes as fit.
///
/// # Errors
/// If not even one does.
pub(super) fn threads(asked: usize, each: u64) -> Result<usize, Problem> {
    let Some(available) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text)) else {
        return Ok(asked);
    };
    fit(asked, each, available)
}

fn fit(asked: usize, each: u64, available: u64) -> Result<usize, Problem> {
    let fit = usize::try_from(available / each.max(1)).unwrap_or(usize::MAX);
    if fit == 0 {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let what = format!("a run may take {} MiB, and {} MiB are available here", mib(each), mib(available));
        return Err(Problem::failure(what).remedy("say less for run.most_unfinished, at which a run is cut"));
    }
    Ok(asked.min(fit))
}

/// The bytes that programs may still have, of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_run_at_a_time_as_fit() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(fit(8, 1 << 30, 3 << 30).unwrap(), 3);
        assert_eq!(fit(8, 0, 3 << 30).unwrap(), 8);
        let told = fit(8, 4 << 30, 1 << 30).unwrap_err().to_string();
        assert!(told.contains("4096 MiB") && told.contains("run.most_unfinished"), "{told}");
    }
}
