//! What the scheduler itself costs: a job, a quantum, and the way through a pool and back.
//!
//! ```console
//! $ cargo run --release -p greenwave-quanta --example costs
//! ```

use greenwave_policy::{Order, Urgency};
use greenwave_quanta::scheduler::Event;
use greenwave_quanta::{Pool, Quantum, StackSize, Worker, yield_now};
use std::time::{Duration, Instant};

const JOBS: u32 = 200_000;

/// The best of five, in nanoseconds for each of `count`.
fn best(count: u32, mut body: impl FnMut()) -> u128 {
    let once = |_| {
        let began = Instant::now();
        body();
        began.elapsed().as_nanos() / u128::from(count)
    };
    (0..5).map(once).min().unwrap_or(0)
}

fn run<J: greenwave_quanta::Job>(worker: &mut Worker<J>) {
    while worker.unfinished() > 0 {
        if let Event::Suspended(job) = worker.run_one(worker.now()) {
            worker.resume(worker.now(), job);
        }
    }
}

fn main() {
    for order in [Order::ProcessorSharing, Order::LeastLaxity] {
        let mut worker = Worker::new(order, Quantum::of(Duration::from_micros(5)), StackSize::MIN, 64);
        let job = best(JOBS, || {
            for _ in 0..JOBS {
                worker.add(worker.now(), Urgency::default(), || ());
                run(&mut worker);
            }
        });
        let mut worker = Worker::new(order, Quantum::of(Duration::from_micros(5)), StackSize::MIN, 64);
        let turn = best(JOBS, || {
            for _ in 0..16 {
                worker.add(worker.now(), Urgency::default(), || (0..JOBS / 16).for_each(|_| yield_now()));
            }
            run(&mut worker);
        });
        println!("{order}: {job} ns a job, {turn} ns a turn with 16 jobs");
    }
    for spin in [Duration::ZERO, Duration::from_micros(100)] {
        let Ok(pool) = Pool::builder().workers(1).spin(spin).build() else { return };
        let one = best(5000, || (0..5000).for_each(|_| _ = pool.spawn(None, || ()).wait()));
        let many = best(JOBS, || {
            let tasks: Vec<_> = (0..JOBS).map(|_| pool.spawn(None, || ())).collect();
            tasks.into_iter().for_each(|task| _ = task.wait());
        });
        println!("pool, spinning {spin:?}: {one} ns there and back, {many} ns a job of many");
    }
}
