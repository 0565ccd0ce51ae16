//! What each order is worth for each mix of calls and deadlines, in virtual time:
//! `cargo run --release -p greenwave-sim --example orders [CALLS [PAUSES MILLIS]]`.
//!
//! With `PAUSES` a second, of so many `MILLIS` each, in which others have the core: as on a machine that has other guests.

use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Pauses, Work};
use greenwave_sim::server::{Core, Deadlines, Mix, serve};
use std::time::Duration;

fn main() {
    let number = |at| std::env::args().nth(at).and_then(|number| number.parse::<f64>().ok());
    let calls = number(1).map_or(400_000, |calls| calls as usize);
    let pauses = number(2).zip(number(3)).map(|(per_second, millis)| {
        let length = Work::Fixed(Duration::from_secs_f64(millis / 1e3));
        Pauses { per_second, length }
    });
    let quantum = Some(Duration::from_micros(5));
    let orders = [
        (Order::Fcfs, None),
        (Order::ProcessorSharing, quantum),
        (Order::EarliestDeadline, quantum),
        (Order::LeastLaxity, quantum),
        (Order::Guarded, quantum),
        (Order::Guarded, None),
    ];
    let admission = AdmissionConfig::default();
    println!("short: p50, p99, p99.9; long: p50, p99.9, us; missed of short and of long, %");
    for mix in Mix::ALL {
        for deadlines in Deadlines::ALL {
            for load in [0.7, 0.9, 1.2] {
                for (order, quantum) in orders {
                    let core = Core { order, quantum, switch: Duration::from_nanos(100), admission, pauses };
                    let [short, long] = serve(core, mix, deadlines, load, calls, Seed::new(1));
                    let us = |time: Duration| time.as_secs_f64() * 1e6;
                    let all = (short.calls() + long.calls()) as f64;
                    println!(
                        "{mix:12} {deadlines:8} {load} {order:13} {:4} {:8.1} {:8.1} {:8.1} {:8.0} {:8.0} {:7.3} {:7.3}",
                        quantum.map_or("off", |_| "5us"),
                        us(short.quantile(0.5)),
                        us(short.quantile(0.99)),
                        us(short.quantile(0.999)),
                        us(long.quantile(0.5)),
                        us(long.quantile(0.999)),
                        short.missed() as f64 / all * 100.0,
                        long.missed() as f64 / all * 100.0,
                    );
                }
            }
        }
    }
}
