//! What each order is worth for each mix of calls and deadlines, in virtual time:
//! `cargo run --release -p greenwave-sim --example orders [CALLS]`.

use greenwave_policy::Order;
use greenwave_sim::Seed;
use greenwave_sim::server::{Core, Deadlines, Mix, serve};
use std::time::Duration;

fn main() {
    let calls = std::env::args().nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(400_000);
    let quantum = Some(Duration::from_micros(5));
    let orders = [
        (Order::Fcfs, None),
        (Order::ProcessorSharing, quantum),
        (Order::EarliestDeadline, quantum),
        (Order::LeastLaxity, quantum),
        (Order::Guarded, quantum),
        (Order::Guarded, None),
    ];
    // As the server's admission has it.
    let reserve = 0.3;
    println!("short: p50, p99, p99.9; long: p50, p99.9, us; late of short and of long, %");
    for mix in Mix::ALL {
        for deadlines in Deadlines::ALL {
            for load in [0.7, 0.9, 1.2] {
                for (order, quantum) in orders {
                    let core = Core { order, quantum, switch: Duration::from_nanos(100), reserve };
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
                        short.late as f64 / all * 100.0,
                        long.late as f64 / all * 100.0,
                    );
                }
            }
        }
    }
}
