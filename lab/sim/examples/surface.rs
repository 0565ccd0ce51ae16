//! Throughput of each setting of the grid, as shares of the best: `cargo run --release -p greenwave-sim --example surface [NAME]`.

use greenwave_policy::replication::predict;
use greenwave_sim::Seed;
use greenwave_sim::replica::environments::cases;
use greenwave_sim::replica::measure::{System, grid, measure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    for case in cases()?.iter().filter(|case| name.as_ref().is_none_or(|name| case.name.contains(name.as_str()))) {
        let found: Vec<_> = grid(&case.environment)
            .into_iter()
            .map(|setting| {
                let measured = measure(&case.environment, System::Fixed(setting), case.load, Seed::new(1))
                    .map(|m| m.ops_per_s)
                    .unwrap_or(0.0);
                (setting, measured, predict(&case.environment, setting, case.load))
            })
            .collect();
        let best = found.iter().map(|found| found.1).fold(0.0, f64::max);
        println!("{} {best:.0}/s; each: measured, predicted, as shares of the best", case.name);
        let mut batch = 0;
        for (setting, ops, predicted) in found {
            if setting.batch_bytes() != batch {
                batch = setting.batch_bytes();
                print!("\n{batch:8}:");
            }
            print!("  {:4.2} {:4.2}", ops / best, predicted.ops_per_s / best);
        }
        println!();
    }
    Ok(())
}
