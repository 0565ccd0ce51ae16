//! A local network.

use super::grid::{Curves, Grid, Place, RATES, point, simulate_at};
use super::{FITTED, LOCAL_DELAY, environment, local_network, us};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::replication::{Bottleneck, needed_window};

const WINDOWS: [u64; 6] = [1, 2, 4, 8, 16, 64];
const BATCHES: [u64; 7] = [1, 2, 4, 8, 16, 64, 500];

/// How often a batch of the table has a next larger one.
const STEPS: f64 = (BATCHES.len() - 1) as f64;

/// How much of the most counts as nearly all.
const NEARLY: f64 = 0.9;

/// Rates, what the leader's core does meanwhile, and what the model chooses.
pub(crate) fn lan(effort: &Effort) -> Result<Figure, ReproduceError> {
    let place = Place::saturated(environment(3, local_network(LOCAL_DELAY), 128, FITTED)?);
    let mut figure = Figure {
        text: vec![
            "Three replicas at 940 Mbit/s and 100 us, requests of 128 bytes, of which there are always more than are under way. \
             What a message and a command cost, 104 us and 83 us, was fitted to the work's 2000 instances and 12,000 requests a \
             second; the machines of 2012 were slower. How long a way takes isn't said, and was assumed. Batches are in \
             requests, and values are those of our replica group in virtual time."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let quick = effort.quick;
    let is_asked = |window| !quick || matches!(window, 1 | 4 | 64);
    let grid = Grid::new(place, &BATCHES, &WINDOWS, is_asked, effort, &mut figure)?;
    let curves = Curves::new(place, &BATCHES, &WINDOWS, effort, &mut figure)?;
    let best = grid.most().max(curves.most());
    figure.text.push(curves.told(best));
    let fitted = [
        Claim::new("one request a batch: instances a second", 2000.0, grid.group(1, 64), Within::Share(0.15)),
        Claim::new("with batching: requests a second", 12_000.0, grid.most_of_batch(500), Within::Share(0.15)),
    ];
    figure.claims.extend(fitted.map(Claim::fitted));
    let share = |batch, window| grid.group(batch, window) / grid.most_of_batch(batch);
    let steps = |what: &str, of: &dyn Fn(u64) -> f64, says: &str| {
        Claim::new(
            format!("larger batches of the table, of {STEPS}, with {what}"),
            STEPS,
            grid.grows(of),
            Within::Amount(0.0),
        )
        .in_words(says)
    };
    let instances = |batch: u64, window| grid.group(batch, window) / batch as f64;
    let formula = |batch| needed_window(&place.environment, place.in_model(point(batch, 1)).batch_bytes());
    let is_cpu = |batch: &&u64| place.predict(point(**batch, 64)).bottleneck == Bottleneck::Cpu;
    let claims = [
        Claim::new("batches of 500, one at a time, as a share of the most", NEARLY, share(500, 1), Within::AtLeast)
            .in_words("batching alone is enough for the most"),
        one_by_one(&grid, share(1, 1), effort, &mut figure)?,
        four_by_four(&grid, share(1, 4)),
        steps("more requests a second", &|batch| grid.group(batch, 64), "the rate of requests rises with the batch"),
        steps("fewer instances a second", &|batch| -instances(batch, 64), "that of instances falls"),
        steps("a longer instance", &|batch| 1.0 / instances(batch, 1), "and an instance takes longer"),
        Claim::new(
            "the largest window that any batch of the table needs, by the formula",
            1.5,
            BATCHES.into_iter().map(formula).fold(0.0, f64::max),
            Within::Amount(0.5),
        )
        .in_words("the most needs next to no pipelining"),
        Claim::new(
            "batches of the table of which cores are the bottleneck by the model",
            BATCHES.len() as f64,
            BATCHES.iter().filter(is_cpu).count() as f64,
            Within::Amount(0.0),
        )
        .in_words("it is always the CPU"),
        curves.claim("our model's choice", best),
    ];
    figure.claims.extend(claims);
    figure.tables.push(grid.table(RATES, "batch", |rate| rate));
    let mut windows = Table::new(
        "The window that is needed, by the model's formula; one batch at a time as a share of the most with such batches; the \
         share of the time that the leader's core is at work with windows of 1, 4 and 64, and for how long it is for each batch, \
         us.",
        &["batch", "formula", "one, of the most", "busy, 1", "busy, 4", "busy, 64", "us, 1", "us, 4", "us, 64"],
    );
    for batch in BATCHES {
        let busy = [1, 4, 64].map(|window| grid.leader_busy(batch, window));
        let works = [1, 4, 64].map(|window| works_us(&grid, batch, window));
        let cells = [formula(batch), share(batch, 1)].into_iter().chain(busy).chain(works).map(number);
        windows.row(std::iter::once(batch.to_string()).chain(cells));
    }
    figure.tables.push(windows);
    figure.tables.extend(curves.tables(best));
    Ok(figure)
}

/// The shorter way with which it is asked what the way's length is for.
const NEARER_US: u64 = 10;

/// One batch of one request at a time: the work says that windows hardly matter, whatever is in a batch.
fn one_by_one(grid: &Grid, share: f64, effort: &Effort, figure: &mut Figure) -> Result<Claim, ReproduceError> {
    let claim =
        Claim::new("batches of one request, one at a time, as a share of the most", NEARLY, share, Within::AtLeast)
            .in_words("the window hardly matters, whatever the batch");
    let near = Place::saturated(environment(3, local_network(us(NEARER_US)), 128, FITTED)?);
    let near = simulate_at(near, &[point(1, 1), point(1, 64)], effort, figure)?;
    let [one, many] = near[..] else { return Ok(claim) };
    let nearer = one.ops_per_s / many.ops_per_s;
    if nearer < NEARLY {
        return Ok(claim);
    }
    Ok(claim.because(format!(
        "The leader waits for the way there and back and for a follower, which take longer than its own work for one request: \
         its core is at work {} of the time with a window of 1, {} with 4 and {} with 64. The work doesn't say how long a way \
         takes, and we took {} us; with {NEARER_US} us one batch at a time has {} of what 64 have.",
        number(grid.leader_busy(1, 1)),
        number(grid.leader_busy(1, 4)),
        number(grid.leader_busy(1, 64)),
        LOCAL_DELAY.as_micros(),
        number(nearer),
    )))
}

/// What the leader's core does for each batch, in microseconds.
fn works_us(grid: &Grid, batch: u64, window: u64) -> f64 {
    1e6 * grid.leader_busy(batch, window) * batch as f64 / grid.group(batch, window)
}

/// Four batches of one request at a time.
fn four_by_four(grid: &Grid, share: f64) -> Claim {
    let claim =
        Claim::new("batches of one request, four at a time, as a share of the most", NEARLY, share, Within::AtLeast)
            .in_words("the window hardly matters, whatever the batch");
    let [alone, four, many] = [1, 4, 64].map(|window| works_us(grid, 1, window));
    // An append and its answer.
    let further = (four - alone) / (2.0 * FITTED.per_message.as_secs_f64() * 1e6);
    if grid.leader_busy(1, 4) < 0.95 || further < 0.1 {
        return claim;
    }
    claim.because(format!(
        "The leader's core is always at work, but for longer: {} us a batch with a window of 4, {} with 64 and {} with 1. Where \
         a follower's window was full, our engine sends it an append without entries once it acknowledges one and nothing \
         new is there, and that is received and answered as any other. That is {} further appends a batch with a window of \
         4; the model has none.",
        number(four),
        number(many),
        number(alone),
        number(further),
    ))
}
