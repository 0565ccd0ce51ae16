//! Three replicas on this machine, each a process of its own, as the cases see them.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use greenwave_bench::result::bench_folder;
use greenwave_bench::target::Target;

use crate::member::Member;

/// How many replicas there are.
pub(crate) const MEMBERS: usize = 3;

/// A replicated store that is up. It ends with this handle, and its files are removed.
pub(crate) trait Cluster {
    /// A generator's way to put, of so many clients at most, over so many connections to the leader that there is now.
    fn target(&self, clients: usize, connections: usize) -> anyhow::Result<Box<dyn Target>>;

    /// The message by which that puts a value.
    fn message(&self, key: &[u8], value: &[u8]) -> Vec<u8>;

    /// A client that finds the leader by itself.
    fn client(&self) -> anyhow::Result<Box<dyn Client>>;

    /// Who leads; `None` if nobody says so.
    fn leader(&self) -> Option<usize>;

    /// The replicas' processes.
    fn members(&mut self) -> &mut [Member; MEMBERS];

    /// The ids of those that run.
    fn processes(&self) -> Vec<u32>;
}

/// How long a cluster may take until it has a leader, and a read until it is answered.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until somebody leads.
pub(crate) fn wait_until_led(cluster: &mut dyn Cluster) -> anyhow::Result<()> {
    let begun = Instant::now();
    while cluster.leader().is_none() {
        cluster.members().iter_mut().try_for_each(Member::check)?;
        ensure!(begun.elapsed() < PATIENCE, "there is no leader after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// One client, which makes one attempt at a time and tries elsewhere when one fails.
pub(crate) trait Client: Send {
    /// Tries once to put a value. True: it was acknowledged. False: it may have been put or not.
    fn try_put(&mut self, key: &[u8], value: &[u8]) -> bool;

    /// The value of a key, by a linearizable read, tried until somebody answers or there is no hope.
    fn read(&mut self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>>;
}

/// A folder for the replicas' files, on the disk of the build. It is removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::path::absolute(bench_folder().join(format!("replica-files-{}-{number}", process::id())))?;
        fs::create_dir_all(&folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("can't remove {}: {error}", self.0.display());
        }
    }
}

/// So many ports of the loopback interface that nobody has now.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    // All are held until all are known, so that none comes twice.
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
