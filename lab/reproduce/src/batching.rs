//! Batching and pipelining (Santos and Schiper, ICDCN'12), by our model and by our replica group in virtual time.

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::replication::{
    Aim, Bandwidth, Cpu, Disk, Environment, Load, Network, Setting, Sizes, predict, recommend,
};
use greenwave_sim::Seed;
use greenwave_sim::replica::measure::{System, measure};
use std::time::Duration;

/// What is committed is in memory alone, as in the work; sizes and costs are those of its system.
fn environment(network: Network, request: u32, cpu: Cpu) -> Result<Environment, ReproduceError> {
    Ok(Environment::new(3, network, cpu, cpu, Disk::PERFECT, Sizes::new(request, 8))?)
}

/// Fitted to what the work says of its local network: 2000 instances a second of one request, and 12,000 requests in batches.
const CPU: Cpu =
    Cpu { per_message: Duration::from_micros(105), per_byte_ns: 2.0, per_command: Duration::from_micros(80) };

const WAN_WINDOWS: [u64; 9] = [1, 2, 4, 8, 16, 24, 32, 48, 64];
const WAN_BATCHES: [u64; 6] = [1, 4, 8, 20, 64, 128];

/// 10 Mbit/s and 50 ms.
pub(crate) fn wan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let bandwidth = Bandwidth::bits_per_s(10_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let wan = environment(Network::wan(bandwidth, Duration::from_millis(50)), 1024, CPU)?;
    let load = Load::Closed { clients: 1200, think: Duration::ZERO };
    let setting = |kib: u64, window: u64| Setting::with_window((kib << 10).max(1024 + 16) + kib * 16, window);
    let items: Vec<(u64, u64)> =
        WAN_BATCHES.into_iter().flat_map(|kib| WAN_WINDOWS.map(|window| (kib, window))).collect();
    // The group's own simulation of every second window, as it does each command of each replica.
    let measured = parallel::map(effort.threads, &items, |&(kib, window)| {
        let is_asked = !effort.quick || matches!(window, 1 | 4 | 16 | 64);
        is_asked.then(|| measure(&wan, System::Fixed(setting(kib, window)), load, Seed::new(effort.seed))).transpose()
    });
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figure = Figure {
        text: vec![
            "Three replicas, 10 Mbit/s and 50 ms one way between any two, requests of 1 KiB from 1200 clients without \
             thinking time. Each cell: requests a second by our model, and by our replica group in virtual time, where it was \
             simulated. Nothing is synced, as in the work."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new("Batches down, windows across.", &["batch"]);
    table.head.extend(WAN_WINDOWS.map(|window| window.to_string()));
    for (kib, row) in WAN_BATCHES.iter().zip(items.iter().zip(&measured).collect::<Vec<_>>().chunks(WAN_WINDOWS.len()))
    {
        let cells = row.iter().map(|((kib, window), measured)| {
            let model = number(predict(&wan, setting(*kib, *window), load).ops_per_s);
            measured.map_or(model.clone(), |measured| format!("{model}, {}", number(measured.ops_per_s)))
        });
        table.row(std::iter::once(format!("{kib} KiB")).chain(cells));
    }
    figure.tables.push(table);
    for measured in measured.iter().flatten() {
        figure.note(measured.ops_per_s.to_bits());
    }
    let model = |kib, window| predict(&wan, setting(kib, window), load).ops_per_s;
    let best = WAN_BATCHES.iter().flat_map(|kib| WAN_WINDOWS.map(|window| model(*kib, window))).fold(0.0, f64::max);
    // The smallest window that has 95 % of what the widest has.
    let enough = |kib| (1..=64).find(|window| model(kib, *window) >= 0.95 * model(kib, 64)).unwrap_or(64) as f64;
    let batching_alone = WAN_BATCHES.iter().filter(|kib| **kib <= 64).map(|kib| model(*kib, 1)).fold(0.0, f64::max);
    figure.claims.push(Claim::new(
        "the maximum, requests a second (10 Mbit/s of 1 KiB)",
        1180.0,
        best,
        Within::Share(0.1),
    ));
    figure.claims.push(Claim::new(
        "batching alone (up to 64 KiB, window 1), as a share of the maximum",
        0.51,
        batching_alone / best,
        Within::Amount(0.1),
    ));
    figure.claims.push(Claim::new("batches of 8 KiB: the window that is enough", 16.0, enough(8), Within::Share(0.25)));
    figure.claims.push(Claim::new(
        "batches of 4 KiB: the window that is enough (20 to 35)",
        27.0,
        enough(4),
        Within::Amount(8.0),
    ));
    figure.claims.push(Claim::new(
        "batches of 128 KiB: the window that is enough (1 to 2)",
        1.5,
        enough(128),
        Within::Amount(0.5),
    ));
    let chosen = recommend(&wan, load, Aim::Throughput);
    let reached = measure(&wan, System::Fixed(chosen), load, Seed::new(effort.seed))?;
    figure.claims.push(Claim::new(
        format!(
            "what our model chooses ({} KiB, {} of them), simulated, as a share of the maximum: at least 0.9",
            number(chosen.batch_bytes() as f64 / 1024.0),
            chosen.window()
        ),
        0.9,
        reached.ops_per_s / best,
        Within::AtLeast,
    ));
    Ok(figure)
}

const LAN_WINDOWS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const LAN_BATCHES: [u64; 6] = [1, 2, 4, 8, 16, 64];

/// A local network.
pub(crate) fn lan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let bandwidth = Bandwidth::bits_per_s(1_000_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let request = 128;
    let lan = environment(Network::lan(bandwidth, Duration::from_micros(50)), request, CPU)?;
    let load = Load::Closed { clients: 1200, think: Duration::ZERO };
    let setting = |commands: u64, window: u64| Setting::with_window(commands * u64::from(request + 16), window);
    let items: Vec<(u64, u64)> =
        LAN_BATCHES.into_iter().flat_map(|kib| LAN_WINDOWS.map(|window| (kib, window))).collect();
    let measured = parallel::map(effort.threads, &items, |&(commands, window)| {
        let is_asked = !effort.quick || matches!(window, 1 | 8 | 32);
        is_asked
            .then(|| measure(&lan, System::Fixed(setting(commands, window)), load, Seed::new(effort.seed)))
            .transpose()
    });
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figure = Figure {
        text: vec![
            "Three replicas at 1 Gbit/s and 50 us, requests of 128 bytes from 1200 clients. What a message and a command cost, \
             105 us and 80 us, was fitted to the work's 2000 instances and 12,000 requests a second; the machines of 2012 were \
             slower. Batches are in requests; each cell: by our model, and by our replica group in virtual time."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new("Batches down, windows across.", &["batch"]);
    table.head.extend(LAN_WINDOWS.map(|window| window.to_string()));
    for (commands, row) in
        LAN_BATCHES.iter().zip(items.iter().zip(&measured).collect::<Vec<_>>().chunks(LAN_WINDOWS.len()))
    {
        let cells = row.iter().map(|((commands, window), measured)| {
            let model = number(predict(&lan, setting(*commands, *window), load).ops_per_s);
            measured.map_or(model.clone(), |measured| format!("{model}, {}", number(measured.ops_per_s)))
        });
        table.row(std::iter::once(commands.to_string()).chain(cells));
    }
    figure.tables.push(table);
    for measured in measured.iter().flatten() {
        figure.note(measured.ops_per_s.to_bits());
    }
    let model = |commands, window| predict(&lan, setting(commands, window), load).ops_per_s;
    let best =
        LAN_BATCHES.iter().flat_map(|commands| LAN_WINDOWS.map(|window| model(*commands, window))).fold(0.0, f64::max);
    figure.claims.push(
        Claim::new("one request a batch: instances a second", 2000.0, model(1, 32), Within::Share(0.15)).fitted(),
    );
    figure.claims.push(Claim::new("with batching: requests a second", 12_000.0, best, Within::Share(0.15)).fitted());
    figure.claims.push(Claim::new(
        "batching alone (window 1), as a share of the maximum: at least 0.9 (\"nearly enough\")",
        0.9,
        model(64, 1) / best,
        Within::AtLeast,
    ));
    Ok(figure)
}
