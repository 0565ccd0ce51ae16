//! How long this machine's disk takes to make a write durable, by writing and syncing a file.
//!
//! It is done as the log of a replica does it: into room that was taken and zeroed before, so that a sync writes data
//! and nothing else. Two sizes of write tell what a sync takes from what its bytes take.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use greenwave_policy::replication::{Bandwidth, Disk};

use crate::problem::Problem;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskMeasured {
    /// The median.
    pub(super) disk: Disk,
    /// How many syncs, and which nine tenths of them stayed within.
    pub(super) syncs: usize,
    pub(super) most: Duration,
}

/// Bytes of a small write and of a large one, and how many of each.
const SMALL: (usize, usize) = (4 << 10, 128);
const LARGE: (usize, usize) = (1 << 20, 24);

/// After so long no more syncs of a size are begun, if there are some.
const ENOUGH: Duration = Duration::from_secs(2);
const SOME: usize = 8;

/// Measures the disk below a directory.
///
/// # Errors
/// When nothing can be written there.
pub(super) fn measure(directory: &Path) -> Result<DiskMeasured, Problem> {
    let failed = |error: std::io::Error| {
        let problem = Problem::failure(format!("the disk can't be measured: {error}")).at(directory.display());
        problem.remedy("name a directory with --data that there is, that can be written, and has 2 MiB of room")
    };
    let scratch = Scratch::create(directory).map_err(failed)?;
    let small = scratch.syncs(SMALL).map_err(failed)?;
    let large = scratch.syncs(LARGE).map_err(failed)?;
    let at = |times: &[Duration], tenth: usize| times.get(times.len() * tenth / 10).copied().unwrap_or_default();
    let (sync, of_large) = (at(&small, 5), at(&large, 5));
    let per_byte = of_large.saturating_sub(sync).as_secs_f64() / (LARGE.0 - SMALL.0) as f64;
    let bandwidth = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
    // More than a terabyte a second is none that was seen.
    let bandwidth =
        if bandwidth < 1e12 { Bandwidth::bytes_per_s((bandwidth as u64).max(1)) } else { Ok(Bandwidth::UNLIMITED) };
    let bandwidth = bandwidth.map_err(Problem::failure)?;
    Ok(DiskMeasured { disk: Disk { sync, bandwidth }, syncs: small.len(), most: at(&small, 9) })
}

/// How long small writes below a directory took with their syncs.
///
/// # Errors
/// When nothing can be written there.
pub(crate) fn small_syncs(directory: &Path) -> std::io::Result<Vec<Duration>> {
    Scratch::create(directory)?.syncs(SMALL)
}

/// A file that is gone when this is.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    /// A new file, with room that is zeroed.
    fn create(directory: &Path) -> std::io::Result<Self> {
        let path = directory.join(format!(".greenwave-tune-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let scratch = Self { file, path };
        scratch.file.write_all_at(&vec![0; 2 * LARGE.0], 0)?;
        scratch.file.sync_all()?;
        Ok(scratch)
    }

    /// How long each of so many writes of so many bytes took with its sync, from the shortest to the longest.
    fn syncs(&self, (bytes, count): (usize, usize)) -> std::io::Result<Vec<Duration>> {
        let data = vec![7; bytes];
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < count && (times.len() < SOME || began.elapsed() < ENOUGH) {
            let place = times.len() * bytes % (2 * LARGE.0);
            let begins = Instant::now();
            self.file.write_all_at(&data, place as u64)?;
            self.file.sync_data()?;
            times.push(begins.elapsed());
        }
        times.sort_unstable();
        Ok(times)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tell!("warning: {} can't be removed: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_nothing_is_left_there() {
        let directory = tempfile::tempdir().unwrap();
        let measured = measure(directory.path()).unwrap();
        assert!(measured.syncs >= SOME && measured.disk.sync > Duration::ZERO && measured.most >= measured.disk.sync);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn where_nothing_can_be_written_it_says_what_to_do() {
        let told = measure(Path::new("/no/such/directory")).unwrap_err().to_string();
        assert!(told.contains("/no/such/directory") && told.contains("--data"), "{told}");
    }
}
