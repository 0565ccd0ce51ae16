//! Small and large requests: what batches do alone, and windows alone.

use super::grid::{Place, Point, point, simulate};
use super::{FITTED, LOCAL_DELAY, LOCAL_MBITS, environment, local_network, mbits, wide_network};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::replication::{Network, needed_window};

/// Bytes of a request. The work names these of its wide network.
const SIZES: [u32; 3] = [128, 1024, 8192];

/// Bytes of requests in the largest batches of each network. In the wide one 1 KiB has the work's rate with these.
const WIDE_BATCH: u32 = 128 << 10;
const LOCAL_BATCH: u32 = 64 << 10;

/// How much of the most counts as nearly all.
const NEARLY: f64 = 0.9;

/// Windows with large batches, of which more would be more than there are clients, and with single requests.
const OF_BATCHES: [u64; 3] = [1, 2, 3];
const ALONE: [u64; 4] = [1, 16, 128, 512];
const LOCAL_WINDOWS: [u64; 3] = [1, 4, 64];

/// All that was simulated of a request's size: points, and commands a second.
struct Size {
    bytes: u32,
    place: Place,
    batch: u64,
    rates: Vec<(Point, f64)>,
}

impl Size {
    fn at(&self, batch: u64, window: u64) -> f64 {
        let found = self.rates.iter().find(|(at, _)| *at == point(batch, window));
        found.map_or(f64::NAN, |(_, rate)| *rate)
    }

    fn most(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    fn most_of_batch(&self, batch: u64) -> f64 {
        self.rates.iter().filter(|(at, _)| at.batch == batch).map(|(_, rate)| *rate).fold(0.0, f64::max)
    }
}

/// In both networks.
pub(crate) fn sizes(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "Requests of 128 bytes, 1 KiB and 8 KiB, of which there are always more than are under way, in batches of 128 KiB of \
             them or one by one in the wide network, and of 64 KiB or one by one in the local one. How large the work's \
             largest batches were isn't said; those of 128 KiB have its rate with requests of 1 KiB, see batching-wan. Cores \
             cost in both networks what was fitted in batching-lan, as single requests of 128 bytes ask much of them; nothing \
             of this was fitted."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let points = |batch: u64, of_batches: &[u64], alone: &[u64]| -> Vec<Point> {
        let of = |batch: u64, windows: &[u64]| windows.iter().map(|window| point(batch, *window)).collect::<Vec<_>>();
        [of(batch, of_batches), of(1, alone)].concat()
    };
    let wide = simulated(wide_network(), WIDE_BATCH, |batch| points(batch, &OF_BATCHES, &ALONE), effort, &mut figure)?;
    let near = local_network(LOCAL_DELAY);
    let local =
        simulated(near, LOCAL_BATCH, |batch| points(batch, &LOCAL_WINDOWS, &LOCAL_WINDOWS), effort, &mut figure)?;
    let [small, middle, large] = &wide[..] else { return Ok(figure) };
    let alone = |size: &Size| size.at(size.batch, 1);
    let slowest = wide.iter().map(|size| size.at(1, 1)).fold(0.0, f64::max);
    figure.claims.extend([
        Claim::new(
            "wide: one request at a time, the most of all sizes, requests a second",
            5.0,
            slowest,
            Within::Amount(5.0),
        )
        .in_words("a single digit"),
        Claim::new(
            "wide, 128 bytes: one batch at a time, requests a second",
            3000.0,
            alone(small),
            Within::Share(0.15),
        ),
        Claim::new("wide, 1 KiB: one batch at a time, requests a second", 600.0, alone(middle), Within::Share(0.15)),
        Claim::new(
            "wide, 128 bytes: the most over one batch at a time",
            1.1,
            small.most() / alone(small),
            Within::AtLeast,
        )
        .in_words("batching alone doesn't reach the most"),
        Claim::new(
            "wide, 1 KiB: one batch at a time, as a share of the most",
            0.5,
            alone(middle) / middle.most(),
            Within::Amount(0.05),
        ),
        Claim::new(
            "wide, 8 KiB: one batch at a time, as a share of the most",
            0.5,
            alone(large) / large.most(),
            Within::Amount(0.05),
        ),
        Claim::new(
            "wide, 128 bytes: the most over that of single requests",
            1.1,
            small.most() / small.most_of_batch(1),
            Within::AtLeast,
        )
        .in_words("of small requests pipelining alone doesn't reach the most"),
        Claim::new(
            "wide, 8 KiB: single requests, as a share of the most",
            1.0,
            large.most_of_batch(1) / large.most(),
            Within::Amount(0.1),
        )
        .in_words("of requests of 8 KB it does"),
    ]);
    let nearer = Network { bandwidth: mbits(10 * LOCAL_MBITS), ..local_network(LOCAL_DELAY / 10) };
    let nearer = simulated(nearer, LOCAL_BATCH, |batch| points(batch, &LOCAL_WINDOWS, &[]), effort, &mut figure)?;
    figure.claims.extend(local.iter().zip(&nearer).map(|(size, nearer)| window_hardly_matters(size, nearer)));
    figure.tables.push(table("Wide network, requests a second.", &wide));
    figure.tables.push(table("Local network, requests a second.", &local));
    Ok(figure)
}

/// The work says so of its local network, whatever the size; `nearer` is one of ten times the bandwidth and a tenth of the
/// way.
fn window_hardly_matters(size: &Size, nearer: &Size) -> Claim {
    let alone = |size: &Size| size.at(size.batch, 1) / size.most_of_batch(size.batch);
    let what = format!("local, {} bytes: one batch at a time, as a share of the most", size.bytes);
    let claim =
        Claim::new(what, NEARLY, alone(size), Within::AtLeast).in_words("the window hardly matters, whatever the size");
    if alone(nearer) < NEARLY {
        return claim;
    }
    claim.because(format!(
        "With one batch at a time cores wait for its bytes to pass the interface, and for the way: 64 KiB to each of two \
         followers take {} ms at {LOCAL_MBITS} Mbit/s. How large the work's requests were in its local network, and how \
         many were in a batch, isn't said. With ten times the bandwidth and a tenth of the way one batch at a time has {}.",
        number(2.0 * 8.0 * f64::from(LOCAL_BATCH) * (1.0 + size.place.environment.network().framing) / LOCAL_MBITS as f64 / 1e3),
        number(alone(nearer)),
    ))
}

fn simulated(
    network: Network,
    batch: u32,
    points: impl Fn(u64) -> Vec<Point>,
    effort: &Effort,
    figure: &mut Figure,
) -> Result<Vec<Size>, ReproduceError> {
    let mut all = Vec::new();
    for bytes in SIZES {
        let place = Place::saturated(environment(3, network, bytes, FITTED)?);
        let batch = u64::from(batch / bytes);
        all.push((bytes, place, batch, points(batch)));
    }
    let tasks = all.iter().flat_map(|(_, place, _, points)| points.iter().map(|at| (*place, place.in_group(*at))));
    let tasks: Vec<_> = tasks.collect();
    let mut measured = simulate(&tasks, effort, figure)?.into_iter().map(|measured| measured.ops_per_s);
    let size = |(bytes, place, batch, points): (u32, Place, u64, Vec<Point>)| {
        let rates = points.into_iter().zip(measured.by_ref()).collect();
        Size { bytes, place, batch, rates }
    };
    Ok(all.into_iter().map(size).collect())
}

fn table(title: &str, sizes: &[Size]) -> Table {
    let mut table = Table::new(title, &["bytes", "batch", "needed window", "window", "model", "group", "of the most"]);
    for size in sizes {
        for (at, rate) in &size.rates {
            let needed = needed_window(&size.place.environment, size.place.in_model(*at).batch_bytes());
            let counts = [u64::from(size.bytes), at.batch].map(|count| count.to_string());
            let values = [size.place.predict(*at).ops_per_s, *rate, *rate / size.most()].map(number);
            table.row(counts.into_iter().chain([number(needed), at.window.to_string()]).chain(values));
        }
    }
    table
}
