//! How long a client waits, by batch and window.

use super::grid::{Grid, Place, rate_at};
use super::{FITTED, LIGHT, LOCAL_DELAY, environment, local_network, wide_network};
use crate::claim::{Claim, Figure, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};

/// Clients in the wide network with one batch under way, and with more; and in the local one. The work states none.
const FEW: u32 = 100;
const MANY: u32 = 500;
const LOCAL: u32 = 1000;

const BATCHES: [u64; 7] = [1, 2, 5, 10, 20, 64, 128];
const WINDOWS: [u64; 7] = [1, 2, 5, 10, 20, 50, 128];

/// By which factor something is clearly shorter.
const HELPS: f64 = 2.0;

/// Up to which window the work's curves may go.
const SOME: u64 = 50;

const LOCAL_BATCHES: [u64; 7] = [1, 2, 4, 8, 16, 64, 500];
const LOCAL_WINDOWS: [u64; 4] = [1, 4, 16, 64];

/// In both networks.
pub(crate) fn latency(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "The groups of batching-wan, with requests of 1 KiB, and of batching-lan, with clients that each send the next \
             request when the last one is answered. What a request takes on average follows from the rate (Little's law)."
                .to_owned(),
            format!(
                "How many clients there are isn't said, and was fitted: of 10 s in the wide network without batching {FEW} \
                 follow if one request after another is decided, and {MANY} if five are under way; of 500 ms in the local one \
                 {LOCAL}. So these values show nothing, and the others what comes of them with batches. The local network's \
                 costs are fitted, too."
            ),
        ],
        ..Figure::default()
    };
    wide(effort, &mut figure)?;
    local(effort, &mut figure)?;
    Ok(figure)
}

fn wide(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let quick = effort.quick;
    let environment = environment(3, wide_network(), 1024, LIGHT)?;
    let [few, many] = [FEW, MANY].map(|clients| Place::of_clients(environment, clients));
    let alone = Grid::new(few, &BATCHES, &[1, 5], |_| true, effort, figure)?;
    let is_asked = |window| !quick || matches!(window, 1 | 5 | SOME | 128);
    let grid = Grid::new(many, &BATCHES, &WINDOWS, is_asked, effort, figure)?;
    let few_wait = |rate: f64| f64::from(FEW) / rate;
    let many_wait = |rate: f64| f64::from(MANY) / rate;
    let least = many_wait(grid.most());
    let of_batches = |window| grid.most_of_window(window) / grid.group(1, window);
    let asked = || WINDOWS.into_iter().filter(|window| is_asked(*window));
    // By how much each alone shortens what a request takes with neither.
    let least_by_batches =
        |most: u64| asked().filter(|window| *window <= most).map(of_batches).fold(f64::INFINITY, f64::min);
    let of_windows = |most: u64| {
        let windows = asked().filter(|window| *window <= most);
        windows.map(|window| grid.group(1, window)).fold(0.0, f64::max) / grid.group(1, 1)
    };
    let fitted = [
        ("wide: one request at a time, 100 clients, s", few_wait(alone.group(1, 1))),
        ("wide: five requests at a time, 500 clients, s", many_wait(grid.group(1, 5))),
    ];
    let fitted = fitted.map(|(what, ours)| Claim::new(what, 10.0, ours, Within::Share(0.1)).fitted());
    figure.claims.extend(fitted);
    let choice = many.choice();
    let chosen = rate_at(many, choice, effort, figure)?;
    figure.claims.extend([
        Claim::new(
            "wide: by batches of 64 KiB, one at a time, shorter by a factor of (10 s to 0.5 s, or more)",
            20.0,
            alone.group(64, 1) / alone.group(1, 1),
            Within::AtLeast,
        ),
        Claim::new("wide: five batches of 64 KiB at a time, s", 0.5, many_wait(grid.group(64, 5)), Within::Share(0.2)),
        batches_help(least_by_batches(u64::MAX), least_by_batches(SOME)),
        window_matters_less(of_batches(1), of_windows(u64::MAX), of_windows(SOME)),
        Claim::new(
            "wide: the least with a window of 5 over the least with any",
            1.0,
            many_wait(grid.most_of_window(5)) / least,
            Within::Amount(0.1),
        )
        .in_words("with a window of 5 it is about the least"),
        Claim::new(
            "wide: what the model's choice takes, over that",
            1.0,
            many_wait(chosen) / least,
            Within::Amount(0.1),
        )
        .in_words("batches and windows together have the least"),
    ]);
    figure.text.push(format!(
        "For {MANY} clients in the wide network our model chooses batches of {} requests and {} of them, with which a request \
         takes {} s; the least of the table is {} s.",
        choice.batch,
        choice.window,
        number(many_wait(chosen)),
        number(least),
    ));
    let title = |clients: u32| {
        format!(
            "What a request takes in the wide network with {clients} clients, s: batches (KiB) down, windows across; by the \
             model, and by the simulated group."
        )
    };
    figure.tables.push(alone.table(&title(FEW), "KiB", few_wait));
    figure.tables.push(grid.table(&title(MANY), "KiB", many_wait));
    Ok(())
}

/// What batches do with the window where they do least.
fn batches_help(least: f64, some: f64) -> Claim {
    let what = "wide: the least by batches with the window where they do least, shorter by a factor of";
    let claim =
        Claim::new(what, HELPS, least, Within::AtLeast).in_words("whatever the window, batches clearly shorten it");
    if some < HELPS {
        return claim;
    }
    claim.because(format!(
        "How wide the work's windows were isn't said. One of 128 fills the network with single requests, and nothing is left for \
         batches to do. With windows of up to {SOME} they shorten the time by a factor of {} at least.",
        number(some),
    ))
}

/// What batches alone do, over what windows alone do.
fn window_matters_less(batches: f64, windows: f64, some: f64) -> Claim {
    let what = format!("wide: what batches alone shorten it by, {}, over what windows alone do", number(batches));
    let claim = Claim::new(what, 1.0, batches / windows, Within::AtLeast).in_words("windows matter less than batches");
    if batches < some {
        return claim;
    }
    claim.because(format!(
        "How wide the work's windows were isn't said. A window of 128 has as many requests under way as batches of 128 KiB, but \
         they don't wait for each other: it shortens the time by a factor of {}. One of up to {SOME} does so by {}, less than \
         batches do.",
        number(windows),
        number(some),
    ))
}

fn local(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let quick = effort.quick;
    let place = Place::of_clients(environment(3, local_network(LOCAL_DELAY), 128, FITTED)?, LOCAL);
    let is_asked = |window| !quick || matches!(window, 1 | 64);
    let grid = Grid::new(place, &LOCAL_BATCHES, &LOCAL_WINDOWS, is_asked, effort, figure)?;
    let wait = |rate: f64| 1e3 * f64::from(LOCAL) / rate;
    figure.claims.push(
        Claim::new("local: one request a batch, ms", 500.0, wait(grid.group(1, 64)), Within::Share(0.1)).fitted(),
    );
    let steps = (LOCAL_BATCHES.len() - 1) as f64;
    let choice = place.choice();
    let chosen = rate_at(place, choice, effort, figure)?;
    figure.claims.extend([
        Claim::new("local: the least with batches, ms", 100.0, wait(grid.most()), Within::Share(0.2)),
        Claim::new(
            format!("local: larger batches of the table, of {steps}, with which it is shorter"),
            steps,
            grid.grows(|batch| grid.group(batch, 64)),
            Within::Amount(1.0),
        )
        .in_words("it falls as batches grow"),
        Claim::new(
            "local: the least with one batch at a time over the least with any window",
            1.0,
            grid.most() / grid.most_of_window(1),
            Within::Amount(0.1),
        )
        .in_words("the window has no influence"),
    ]);
    figure.text.push(format!(
        "For {LOCAL} clients in the local network it chooses batches of {} requests and {} of them, with which a request takes \
         {} ms; the least of the table is {} ms.",
        choice.batch,
        choice.window,
        number(wait(chosen)),
        number(wait(grid.most())),
    ));
    let title = format!(
        "What a request takes in the local network with {LOCAL} clients, ms: batches (requests) down, windows across; by the \
         model, and by the simulated group."
    );
    figure.tables.push(grid.table(&title, "batch", wait));
    Ok(())
}
