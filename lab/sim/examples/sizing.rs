//! What ways of choosing batches and windows are worth: `cargo run --release -p greenwave-sim --example sizing [NAME]`.

use greenwave_policy::replication::Setting;
use greenwave_sim::Seed;
use greenwave_sim::replica::environments::cases;
use greenwave_sim::replica::measure::{Measured, System, measure};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    println!(
        "{:26} {:>9} {:>14}  model  (setting)       control (setting)          1     2    64   256  aimd",
        "", "best/s", "(setting)"
    );
    for case in cases()?.iter().filter(|case| name.as_ref().is_none_or(|name| case.name.contains(name.as_str()))) {
        let begun = Instant::now();
        let of = |system| measure(&case.environment, system, case.load, Seed::new(1));
        let best = of(System::BestOfGrid)?;
        let share = |measured: Measured| measured.ops_per_s / best.ops_per_s;
        let shows = |setting: Setting| format!("{}x{}", setting.batch_bytes(), setting.window());
        let model = of(System::Model)?;
        print!("{:26} {:9.0} {:>14}  ", case.name, best.ops_per_s, shows(best.setting));
        print!("{:5.3}  {:14}", share(model), shows(model.setting));
        let controller = of(System::Controller)?;
        print!(" {:5.3}  {:14}", share(controller), shows(controller.setting));
        for system in [System::Static(1), System::Static(2), System::Static(64), System::Static(256), System::Aimd] {
            print!(" {:5.3}", share(of(system)?));
        }
        println!("  {:.1?}", begun.elapsed());
    }
    Ok(())
}
