//! 10 Mbit/s and 50 ms.

use super::grid::{Curves, Grid, Place, RATES, point, rate_at};
use super::{LIGHT, environment, wide_network};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::replication::{Network, needed_window};

const WINDOWS: [u64; 9] = [1, 2, 4, 8, 16, 24, 32, 64, 128];
const BATCHES: [u64; 6] = [1, 4, 8, 20, 64, 128];

/// The share of packets that a lossy network loses.
const LOSS: f64 = 1e-3;

/// Rates, the window that is needed, and what the model chooses.
pub(crate) fn wan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let place = Place::saturated(environment(3, wide_network(), 1024, LIGHT)?);
    let mut figure = Figure {
        text: vec![
            "Three replicas, 10 Mbit/s and 50 ms one way between any two, requests of 1 KiB, of which there are always more than \
             are under way. Cores hardly matter there: 10 us a message and 10 us a command. Nothing is synced, as in the work. \
             Batches are in KiB of requests, and values are those of our replica group in virtual time."
                .to_owned(),
            "The work's window is that at which the busiest resource never waits: the time that an instance takes, over what it \
             takes of that resource. Measured, that is how many times the rate of one batch at a time can be had with many."
                .to_owned(),
            "The work advises the largest batch whose time users can bear, with the window that its model says, as that has the \
             most; it names batches of 8 KiB with a window of 16, and batches of about 20 KB. Our model chooses both, and \
             nobody says what can be borne: of settings with about the same rate it takes that with less latency."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let quick = effort.quick;
    let is_asked = |window| !quick || matches!(window, 1 | 4 | 16 | 128);
    let grid = Grid::new(place, &BATCHES, &WINDOWS, is_asked, effort, &mut figure)?;
    let curves = Curves::new(place, &BATCHES, &WINDOWS, effort, &mut figure)?;
    let best = grid.most().max(curves.most());
    figure.text.push(curves.told(best));
    let needed = |kib| grid.group(kib, 128) / grid.group(kib, 1);
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
        Claim::new(
            "batches of 20 KiB, 16 of them, as a share of the most",
            0.95,
            grid.group(20, 16) / best,
            Within::AtLeast,
        )
        .in_words("a reasonable batch is about 20 KB"),
        Claim::new(
            "the batch that our model chooses, KiB (about 20 KB)",
            20.0,
            place.kib(curves.choice.batch),
            Within::Share(0.1),
        ),
        curves.claim("our model's choice", best),
        too_many(place, &grid, effort, &mut figure)?,
    ];
    figure.claims.extend(claims);
    figure.tables.push(grid.table(RATES, "KiB", |rate| rate));
    let mut windows = Table::new(
        "The window that is needed, by the model's formula and by the simulated group, and the smallest of the table at which \
         the model has 95 % of the most.",
        &["KiB", "formula", "group", "for 95 %"],
    );
    for kib in BATCHES {
        let formula = needed_window(&place.environment, place.in_model(point(kib, 1)).batch_bytes());
        let enough = WINDOWS.iter().find(|window| grid.model(kib, **window) >= 0.95 * grid.most_by_model());
        let enough = enough.map_or_else(|| "more".to_owned(), ToString::to_string);
        windows.row([kib.to_string(), number(formula), number(needed(kib)), enough]);
    }
    figure.tables.push(windows);
    figure.tables.extend(curves.tables(best));
    Ok(figure)
}

/// More under way than the network carries: the work loses packets then, and has less.
fn too_many(place: Place, grid: &Grid, effort: &Effort, figure: &mut Figure) -> Result<Claim, ReproduceError> {
    let [enough, many] = [16, 128].map(|window| grid.group(8, window));
    let claim = Claim::new("16 batches of 8 KiB over 128 of them", 1.05, enough / many, Within::AtLeast)
        .in_words("with too many under way packets are lost, and there is less");
    let lossy = Network { loss: LOSS, ..place.environment.network() };
    let lossy = Place::saturated(environment(3, lossy, 1024, LIGHT)?);
    let lost = rate_at(lossy, point(8, 128), effort, figure)?;
    if lost > enough / 1.05 {
        return Ok(claim);
    }
    Ok(claim.because(format!(
        "Of what waits for our links nothing is lost, however much that is, so a window that is too wide adds nothing and takes \
         nothing. Where one of 1000 packets is lost, 128 batches have {} requests a second, {} of what 16 have without loss.",
        number(lost),
        number(lost / enough),
    )))
}
