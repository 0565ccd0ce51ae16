//! The memory of another process; see proc(5).

use std::fs;

use anyhow::Context;

/// Has the kernel count the most memory of a process from now on.
///
/// # Errors
/// When there is no such process, or it is somebody else's.
pub(crate) fn forget_peak(process: u32) -> anyhow::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5").context("can't reset the server's peak of memory")
}

/// The memory that a process has, in bytes.
///
/// # Errors
/// When there is no such process.
pub(crate) fn resident(process: u32) -> anyhow::Result<u64> {
    of(process, "VmRSS:")
}

/// The most that it has had since that was last forgotten.
///
/// # Errors
/// When there is no such process.
pub(crate) fn peak(process: u32) -> anyhow::Result<u64> {
    of(process, "VmHWM:")
}

fn of(process: u32, name: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("the kernel doesn't tell {name} of process {process}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_follows_what_is_there_once_it_is_forgotten() {
        let process = std::process::id();
        let held = vec![7_u8; 64 << 20];
        assert!(peak(process).unwrap() >= held.len() as u64);
        drop(held);
        forget_peak(process).unwrap();
        let (now, peak) = (resident(process).unwrap(), peak(process).unwrap());
        // The kernel counts in batches.
        assert!(peak < now + (32 << 20), "{peak} {now}");
    }
}
