//! The controller against the best of all settings, found by trying them, in a group that is simulated.

use super::group::{Feed, Group};
use greenwave_policy::replication::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

fn mbit(megabits: u64) -> Bandwidth {
    Bandwidth::bits_per_s(megabits * 1_000_000).expect("more than nothing")
}

fn cpu(scale: f64) -> Cpu {
    Cpu {
        per_message: Duration::from_secs_f64(15e-6 * scale),
        per_byte_ns: 1.0 * scale,
        per_command: Duration::from_secs_f64(8e-6 * scale),
    }
}

fn environment(replicas: u32, network: Network, sync: Duration, request: u32) -> Environment {
    let disk = Disk { sync, bandwidth: Bandwidth::bytes_per_s(400_000_000).expect("more than nothing") };
    Environment::new(replicas, network, cpu(1.0), cpu(1.0), disk, Sizes::new(request, 32)).expect("all within ranges")
}

fn closed(clients: u32) -> Load {
    Load::Closed { clients, think: Duration::ZERO }
}

/// What a fixed setting does, once it has settled.
fn measured(environment: Environment, load: Load, setting: Setting) -> f64 {
    let mut group = Group::new(environment, load, Feed::Fixed(setting));
    let unit = unit(&environment);
    group.run(unit * 30);
    group.run(unit * 60).commands as f64 / (unit * 60).as_secs_f64()
}

/// About a round trip.
fn unit(environment: &Environment) -> Duration {
    (environment.network().delay * 2 + environment.disk().sync * 2).max(5 * MS)
}

fn grid(environment: &Environment, clients: u32) -> Vec<Setting> {
    let sizes = environment.sizes();
    let entry = u64::from(sizes.request + sizes.entry_head);
    let mut settings = Vec::new();
    for batch in [1, 4, 16, 64, 256, 1024, 4096] {
        for window in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256] {
            let larger_is_the_same = batch >= 4 * u64::from(clients) || window >= 2 * u64::from(clients);
            if !larger_is_the_same && batch * entry <= 1 << 21 {
                settings.push(Setting::with_window(batch * entry + 1, window));
            }
        }
    }
    settings
}

#[test]
#[ignore = "prints a table"]
fn table() {
    let gbit = mbit(1000);
    let cases = [
        ("lan 128B c256", environment(3, Network::lan(gbit, 50 * US), 100 * US, 128), 256),
        ("lan 1K c256", environment(3, Network::lan(gbit, 50 * US), 100 * US, 1024), 256),
        ("lan 8K c64", environment(3, Network::lan(gbit, 50 * US), 100 * US, 8192), 64),
        ("lan 1K c1024 x5", environment(5, Network::lan(gbit, 50 * US), 100 * US, 1024), 1024),
        ("lan nosync c16", environment(3, Network::lan(gbit, 50 * US), Duration::ZERO, 128), 16),
        ("lan slow fsync c64", environment(3, Network::lan(gbit, 50 * US), 10 * MS, 256), 64),
        ("lan slow fsync c1024", environment(3, Network::lan(gbit, 50 * US), 10 * MS, 256), 1024),
        ("metro fsync 4ms c256", environment(3, Network::wan(mbit(500), 1 * MS), 4 * MS, 512), 256),
        ("wan 10M 50ms 128 c1024", environment(3, Network::wan(mbit(10), 50 * MS), 100 * US, 128), 1024),
        ("wan 10M 50ms 1K c1024", environment(3, Network::wan(mbit(10), 50 * MS), 100 * US, 1024), 1024),
        ("wan 10M 50ms 1K c64", environment(3, Network::wan(mbit(10), 50 * MS), 100 * US, 1024), 64),
        ("wan 10M 50ms 8K c256", environment(3, Network::wan(mbit(10), 50 * MS), 100 * US, 8192), 256),
        ("wan 100M 25ms 1K c1024 5", environment(5, Network::wan(mbit(100), 25 * MS), 2 * MS, 1024), 1024),
        ("wan 100M 25ms 256 c4096", environment(3, Network::wan(mbit(100), 25 * MS), 10 * MS, 256), 4096),
    ];
    println!("{:26} {:>9} {:>12} {:>6} {:>12} {:>6} {:>12} mean-err", "", "best", "b,w", "model", "b,w", "ctrl", "b,w");
    for (name, environment, clients) in cases {
        let load = closed(clients);
        let mut errors = Vec::new();
        let (setting, best) = grid(&environment, clients)
            .into_iter()
            .map(|setting| {
                let real = measured(environment, load, setting);
                let said = predict(&environment, setting, load);
                errors.push((said.ops_per_s / real.max(1.0)).ln().abs());
                if std::env::var("VERBOSE").is_ok() {
                    println!(
                        "   {:7} {:4} real {real:9.0} said {:9.0} k {:.1} {:?}",
                        setting.batch_bytes(),
                        setting.window(),
                        said.ops_per_s,
                        said.batch,
                        said.bottleneck
                    );
                }
                (setting, real)
            })
            .max_by(|this, that| this.1.total_cmp(&that.1))
            .expect("a grid has points");
        let advised = recommend(&environment, load, Aim::Throughput);
        let model = measured(environment, load, advised);
        let controller = Box::new(Controller::new(Aim::Throughput));
        let mut group = Group::new(environment, load, Feed::Controlled(controller));
        let unit = unit(&environment);
        group.run((unit * 400).max(10 * MS * 100));
        let last = unit * 200;
        let done = group.run(last).commands as f64 / last.as_secs_f64();
        let found = group.controller().quorum_setting();
        println!(
            "{name:26} {best:9.0} {:7},{:4} {:6.3} {:7},{:4} {:6.3} {:7},{:4} {:.3} now {}",
            setting.batch_bytes(),
            setting.window(),
            model / best,
            advised.batch_bytes(),
            advised.window(),
            done / best,
            found.batch_bytes(),
            found.window(),
            errors.iter().sum::<f64>() / errors.len() as f64,
            (unit * 600).as_secs_f64(),
        );
        if std::env::var("VERBOSE").is_ok() {
            println!("{:?}\n{:?}", group.controller().environment(), group.controller().prediction());
        }
    }
}
