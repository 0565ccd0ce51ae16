//! What a GET and a SCAN cost here, and how many rows make a SCAN of 675 us.
//!
//! ```console
//! $ cargo run --release -p greenwave-kv --example row_count
//! ```

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use greenwave_kv::{Keys, Kv, KvConfig, Rows};

const WANTED: Duration = Duration::from_micros(675);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let kv = Kv::open(&KvConfig::new(directory.path()))?;
    let Rows { count, .. } = kv.made_with();
    let mut keys = Keys::new(count, 1);
    let gets = times(50_000, || kv.get(&keys.key()).map(drop))?;
    let scans = times(1000, || kv.scan(b"").map(|scanned| black_box(scanned.digest)).map(|_| ()))?;
    for (what, times) in [("GET", &gets), ("SCAN", &scans)] {
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("{what}: p50 {:?}, p99 {:?}, least {:?}", at(0.5), at(0.99), at(0.0));
    }
    let per_row = scans[scans.len() / 2].as_secs_f64() / f64::from(count);
    println!(
        "{} would take {WANTED:?}; {count} do now",
        Rows { count: (WANTED.as_secs_f64() / per_row) as u32, ..Rows::DEFAULT }
    );
    Ok(())
}

fn times<E>(count: usize, mut work: impl FnMut() -> Result<(), E>) -> Result<Vec<Duration>, E> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        work()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
