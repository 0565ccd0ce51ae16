//! Batching and pipelining (Santos and Schiper, ICDCN'12), by our model and by our replica group in virtual time.

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::replication::{
    Aim, Bandwidth, Cpu, Disk, Environment, Load, Network, Setting, Sizes, needed_window, predict, recommend,
};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_sim::Seed;
use greenwave_sim::replica::measure::{System, measure};
use std::time::Duration;

/// What is committed is in memory alone, as in the work; sizes are those of its system.
fn environment(network: Network, request: u32, cpu: Cpu) -> Result<Environment, ReproduceError> {
    Ok(Environment::new(3, network, cpu, cpu, Disk::PERFECT, Sizes::new(request, 20))?)
}

const fn cpu(per_message_us: u64, per_command_us: u64) -> Cpu {
    Cpu {
        per_message: Duration::from_micros(per_message_us),
        per_byte_ns: 1.0,
        per_command: Duration::from_micros(per_command_us),
    }
}

/// Batches of so many commands, and so many of them under way, for the model and for the group: what the group adds to a
/// command isn't what the work's system adds.
fn settings(environment: &Environment, commands: u64, window: u64) -> [Setting; 2] {
    let sizes = environment.sizes();
    let of = |head: u64| Setting::with_window(commands * (u64::from(sizes.request) + head), window);
    [of(sizes.entry_head.into()), of(COMMAND_OVERHEAD as u64)]
}

/// Commands a second at each batch and window: by the model, and by the group in virtual time where it was simulated.
struct Grid {
    batches: &'static [u64],
    windows: &'static [u64],
    cells: Vec<(f64, Option<f64>)>,
}

impl Grid {
    fn new(
        environment: &Environment,
        batches: &'static [u64],
        windows: &'static [u64],
        is_asked: impl Fn(u64) -> bool + Sync,
        effort: &Effort,
    ) -> Result<Self, ReproduceError> {
        let items: Vec<(u64, u64)> =
            batches.iter().flat_map(|batch| windows.iter().map(|window| (*batch, *window))).collect();
        let cells = parallel::map(effort.threads, &items, |&(commands, window)| {
            let [model, group] = settings(environment, commands, window);
            let model = predict(environment, model, Load::Saturated).ops_per_s;
            let simulated = is_asked(window)
                .then(|| measure(environment, System::Fixed(group), Load::Saturated, Seed::new(effort.seed)))
                .transpose()?;
            Ok((model, simulated.map(|simulated| simulated.ops_per_s)))
        });
        Ok(Self { batches, windows, cells: cells.into_iter().collect::<Result<_, ReproduceError>>()? })
    }

    fn at(&self, batch: u64, window: u64) -> (f64, Option<f64>) {
        let place = |of: &[u64], this: u64| of.iter().position(|it| *it == this).unwrap_or(0);
        self.cells[place(self.batches, batch) * self.windows.len() + place(self.windows, window)]
    }

    fn model(&self, batch: u64, window: u64) -> f64 {
        self.at(batch, window).0
    }

    /// Simulated; no number where it wasn't.
    fn group(&self, batch: u64, window: u64) -> f64 {
        self.at(batch, window).1.unwrap_or(f64::NAN)
    }

    fn most(&self, of: impl Fn(&(f64, Option<f64>)) -> f64) -> f64 {
        self.cells.iter().map(of).fold(0.0, f64::max)
    }

    fn table(&self, batch: &str) -> Table {
        let mut table = Table::new("Batches down, windows across: by the model, and by the simulated group.", &[batch]);
        table.head.extend(self.windows.iter().map(ToString::to_string));
        for (batch, row) in self.batches.iter().zip(self.cells.chunks(self.windows.len())) {
            let cells = row.iter().map(|(model, group)| {
                let model = number(*model);
                group.map_or(model.clone(), |group| format!("{model}, {}", number(group)))
            });
            table.row(std::iter::once(batch.to_string()).chain(cells));
        }
        table
    }

    fn note(&self, figure: &mut Figure) {
        for (model, group) in &self.cells {
            figure.note(model.to_bits());
            figure.note(group.unwrap_or(0.0).to_bits());
        }
    }
}

const WAN_WINDOWS: [u64; 9] = [1, 2, 4, 8, 16, 24, 32, 64, 128];
const WAN_BATCHES: [u64; 6] = [1, 4, 8, 20, 64, 128];

/// 10 Mbit/s and 50 ms.
pub(crate) fn wan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let bandwidth = Bandwidth::bits_per_s(10_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let wan = environment(Network::wan(bandwidth, Duration::from_millis(50)), 1024, cpu(10, 10))?;
    let quick = effort.quick;
    let grid =
        Grid::new(&wan, &WAN_BATCHES, &WAN_WINDOWS, |window| !quick || matches!(window, 1 | 4 | 16 | 128), effort)?;
    let mut figure = Figure {
        text: vec![
            "Three replicas, 10 Mbit/s and 50 ms one way between any two, requests of 1 KiB, of which there are always more than \
             are under way. Cores hardly matter there: 10 us a message and 10 us a command. Nothing is synced, as in the work. \
             Batches are in KiB of requests, and values are those of our replica group in virtual time."
                .to_owned(),
            "The work's window is that at which the busiest resource never waits: the time that an instance takes, over what it \
             takes of that resource. Measured, that is how many times the rate of one batch at a time can be had with many."
                .to_owned(),
        ],
        ..Figure::default()
    };
    grid.note(&mut figure);
    figure.tables.push(grid.table("KiB"));
    let best = grid.most(|(_, group)| group.unwrap_or(0.0));
    let needed = |kib| grid.group(kib, 128) / grid.group(kib, 1);
    let mut windows = Table::new(
        "The window that is needed, by the model's formula and by the simulated group, and the smallest of the table at which \
         the model has 95 % of the most.",
        &["KiB", "formula", "group", "for 95 %"],
    );
    for kib in WAN_BATCHES {
        let formula = needed_window(&wan, settings(&wan, kib, 1)[0].batch_bytes());
        let most = grid.most(|(model, _)| *model);
        let enough = WAN_WINDOWS.iter().find(|window| grid.model(kib, **window) >= 0.95 * most);
        let enough = enough.map_or_else(|| "more".to_owned(), ToString::to_string);
        windows.row([kib.to_string(), number(formula), number(needed(kib)), enough]);
    }
    figure.tables.push(windows);
    let claims = [
        Claim::new("the maximum, requests a second (10 Mbit/s of 1 KiB)", 1180.0, best, Within::Share(0.1)),
        Claim::new(
            "batches of 128 KiB, one at a time, requests a second",
            600.0,
            grid.group(128, 1),
            Within::Share(0.1),
        ),
        Claim::new("the same, as a share of the maximum", 0.51, grid.group(128, 1) / best, Within::Amount(0.05)),
        Claim::new("batches of 8 KiB: the window that is needed", 16.0, needed(8), Within::Share(0.1)),
        Claim::new("batches of 4 KiB: the window that is needed (20 to 35)", 27.5, needed(4), Within::Amount(7.5)),
        Claim::new("batches of 128 KiB: the window that is needed (1 to 2)", 1.5, needed(128), Within::Amount(0.5)),
        Claim::new(
            "16 batches of 8 KiB, as a share of as many as there can be",
            1.0,
            grid.group(8, 16) / grid.group(8, 128),
            Within::Amount(0.1),
        ),
    ];
    figure.claims.extend(claims);
    let chosen = recommend(&wan, Load::Saturated, Aim::Throughput);
    let reached = measure(&wan, System::Fixed(chosen), Load::Saturated, Seed::new(effort.seed))?;
    figure.note(reached.ops_per_s.to_bits());
    figure.text.push(format!(
        "Our model chooses batches of {} KiB and {} of them, which reach {} of the most that any of these has.",
        number(chosen.batch_bytes() as f64 / 1024.0),
        chosen.window(),
        number(reached.ops_per_s / best),
    ));
    Ok(figure)
}

const LAN_WINDOWS: [u64; 6] = [1, 2, 4, 8, 16, 64];
const LAN_BATCHES: [u64; 7] = [1, 2, 4, 8, 16, 64, 500];

/// A local network.
pub(crate) fn lan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let bandwidth = Bandwidth::bits_per_s(940_000_000).unwrap_or(Bandwidth::UNLIMITED);
    // Fitted to what the work says: 2000 instances a second of one request, and 12,000 requests in batches.
    let lan = environment(Network::lan(bandwidth, Duration::from_micros(100)), 128, cpu(104, 83))?;
    let quick = effort.quick;
    let grid = Grid::new(&lan, &LAN_BATCHES, &LAN_WINDOWS, |window| !quick || matches!(window, 1 | 4 | 64), effort)?;
    let mut figure = Figure {
        text: vec![
            "Three replicas at 940 Mbit/s and 100 us, requests of 128 bytes, of which there are always more than are under way. \
             What a message and a command cost, 104 us and 83 us, was fitted to the work's 2000 instances and 12,000 requests a \
             second; the machines of 2012 were slower. Batches are in requests, and values are those of our replica group in \
             virtual time."
                .to_owned(),
        ],
        ..Figure::default()
    };
    grid.note(&mut figure);
    figure.tables.push(grid.table("batch"));
    let most = |batch: u64| LAN_WINDOWS.iter().map(|window| grid.group(batch, *window)).fold(0.0, f64::max);
    let fitted = [
        Claim::new("one request a batch: instances a second", 2000.0, grid.group(1, 64), Within::Share(0.15)),
        Claim::new("with batching: requests a second", 12_000.0, most(500), Within::Share(0.15)),
    ];
    figure.claims.extend(fitted.map(Claim::fitted));
    figure.claims.push(Claim::new(
        "batches of 500, one at a time, as a share of the most: at least 0.9 (\"nearly enough\")",
        0.9,
        grid.group(500, 1) / most(500),
        Within::AtLeast,
    ));
    Ok(figure)
}
