//! Runs schedules of the replica group by seed: `cargo run -p greenwave-sim --example schedule -- FIRST [COUNT]`.
//!
//! Prints what each came to; with one seed, that is how a failure is looked at again.

use greenwave_sim::Seed;
use greenwave_sim::replica::schedule;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(first)), count) = (numbers.next(), numbers.next()) else {
        eprintln!("usage: schedule FIRST [COUNT], both numbers");
        return ExitCode::from(2);
    };
    let count = count.and_then(Result::ok).unwrap_or(1);
    let (begun, mut failed) = (Instant::now(), 0_u64);
    let (mut calls, mut answered, mut faults, mut terms, mut snapshots) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        match schedule::run(Seed::new(seed)) {
            Ok(report) => {
                calls += report.calls;
                answered += report.answered;
                faults += report.faults;
                terms += report.terms;
                snapshots += report.snapshots;
                if count == 1 {
                    println!("{report:?}");
                }
            }
            Err(failure) => {
                failed += 1;
                println!("{failure}");
            }
        }
    }
    println!(
        "{count} schedules, {failed} failed: {calls} calls, {answered} answered, {faults} faults, {terms} terms, \
         {snapshots} snapshots, in {:?}",
        begun.elapsed()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
