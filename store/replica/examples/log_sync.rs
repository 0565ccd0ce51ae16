//! How long a sync of the log takes on a disk, with and without room that is taken and zeroed ahead.
//!
//! `cargo run --release -p greenwave-replica --example log_sync -- [DIRECTORY] [BYTES]`

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use greenwave_replica::log::{Entry, Log, LogConfig, Owner, RealDisk, Write};

const SYNCS: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "target".to_owned());
    let bytes = arguments.next().map_or(Ok(256), |bytes| bytes.parse())?;
    let scratch = tempfile::tempdir_in(directory)?;
    println!("{SYNCS} syncs of an entry of {bytes} bytes:  mean, half are below, 99 % are below");
    for round in 1..=2 {
        show("a file that grows", &mut growing(&scratch.path().join("growing"), bytes)?);
        let allocated = scratch.path().join(format!("allocated{round}"));
        show("the log, room taken only", &mut log(&allocated, bytes, 0)?);
        let zeroed = scratch.path().join(format!("zeroed{round}"));
        show("the log, and zeros ahead", &mut log(&zeroed, bytes, LogConfig::AHEAD_BYTES)?);
    }
    Ok(())
}

fn growing(path: &Path, bytes: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let data = vec![7; bytes];
    let sync = |at: u64| -> Result<Duration, Box<dyn Error>> {
        let start = Instant::now();
        file.write_all_at(&data, at * bytes as u64)?;
        file.sync_data()?;
        Ok(start.elapsed())
    };
    (0..SYNCS).map(sync).collect()
}

fn log(directory: &Path, bytes: usize, ahead_bytes: u64) -> Result<Vec<Duration>, Box<dyn Error>> {
    let config = LogConfig { ahead_bytes, ..LogConfig::new(directory, Owner { group: 1, replica: 1 }) };
    let (mut log, _) = Log::open(RealDisk, &config)?;
    let mut sync = |index| -> Result<Duration, Box<dyn Error>> {
        let entries = vec![Entry { term: 1, index, kind: 0, data: vec![7; bytes].into() }];
        let start = Instant::now();
        log.append(&Write { entries, ..Write::default() })?;
        log.sync()?;
        Ok(start.elapsed())
    };
    (1..=SYNCS).map(&mut sync).collect()
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    let at = |share: usize| times[times.len() * share / 100];
    println!("{what:26} {mean:>10.0?} {:>10.0?} {:>10.0?}", at(50), at(99));
}
