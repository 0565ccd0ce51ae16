//! Work that computes beside an async runtime: short jobs don't wait for the long ones before them.
//!
//! ```console
//! $ cargo run --release -p greenwave-quanta --example tokio_pool
//! $ cargo quanta run --release -p greenwave-quanta --example tokio_pool
//! ```
//!
//! Built by plain cargo, each short job waits for the long one in front of it; built by `cargo quanta` it doesn't.

use greenwave_quanta::pool::Terms;
use greenwave_quanta::{Pool, is_instrumented};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Not a wise way to find primes, but one that takes its time.
fn primes(below: u64) -> usize {
    (2..below).filter(|number| (2..*number).take_while(|by| by * by <= *number).all(|by| number % by != 0)).count()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Arc::new(Pool::builder().workers(1).name("compute").build()?);
    println!(
        "{}",
        if is_instrumented() { "preempted every 5 us" } else { "not built by `cargo quanta`: no preemption" }
    );
    let long = pool.spawn(Terms::NONE.named("report"), || primes(black_box(1_000_000)));
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        pool.spawn(Duration::from_secs(5), || primes(black_box(100))).await?;
        worst = worst.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("the slowest short job took {worst:?}");
    println!("the long one has found {} primes", long.await?);
    Ok(())
}
