//! Followers at different distances.

use super::grid::{Curves, Grid, Place, Point, RATES, simulate};
use super::{LIGHT, environment, wide_network};
use crate::claim::{Figure, Table};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::replication::Network;
use greenwave_sim::replica::measure::System;

const WINDOWS: [u64; 7] = [1, 4, 8, 16, 32, 64, 128];
const BATCHES: [u64; 5] = [1, 4, 20, 64, 128];

/// Replicas, how far followers are, and what that is in milliseconds. The one that completes the quorum is 50 ms away.
const GROUPS: [(u32, &[f64], &str); 2] =
    [(3, &[1.0, 3.0], "50 and 150"), (5, &[0.5, 1.0, 2.0, 3.0], "25, 50, 100 and 150")];

/// Of three replicas and of five.
pub(crate) fn distances(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "The work's replicas are all as far from each other, and its model has one delay. Here the wide network's group, with \
             requests of 1 KiB, has followers at several distances, and all else is as in batching-wan: of three replicas one \
             follower 50 ms from the leader and one 150 ms, of five 25, 50, 100 and 150 ms. The distances are ours, and \
             nothing was fitted. Our model takes the distance of the follower that completes the quorum, 50 ms in both."
                .to_owned(),
            "A window is each follower's own, and where it is fixed as wide for all. One that is just wide enough for the quorum is \
             too narrow for who is farther: that follower gets less than is committed, and falls ever farther behind as long \
             as there are always more commands than can be served. One that is as wide as the farthest needs costs the rate \
             nothing."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut choosers = Table::new(
        "What is chosen by the distance of the follower that completes the quorum, by that of the farthest, and by our controller \
         from nothing; how many batches the farthest follower is behind in the end, those on their way to it included: what is \
         much more than a window is a backlog.",
        &["ms", "chosen by", "batch", "window", "requests a second", "of the most", "behind"],
    );
    for (replicas, distances, apart) in GROUPS {
        let place = Place { distances, ..Place::saturated(environment(replicas, wide_network(), 1024, LIGHT)?) };
        let quick = effort.quick;
        let is_asked = |window| !quick || matches!(window, 1 | 16 | 64);
        let grid = Grid::new(place, &BATCHES, &WINDOWS, is_asked, effort, &mut figure)?;
        let curves = Curves::new(place, &BATCHES, &WINDOWS, effort, &mut figure)?;
        let most = grid.most().max(curves.most());
        figure.claims.push(curves.claim(&format!("followers at {apart} ms"), most));
        for table in [grid.table(RATES, "KiB", |rate| rate)].into_iter().chain(curves.tables(most)) {
            let title = format!("Followers at {apart} ms. {}", table.title);
            figure.tables.push(Table { title, ..table });
        }
        let farthest = farthest(place)?;
        let tasks = [curves.choice, farthest].map(|at| (place, place.in_group(at)));
        let measured = simulate(&[&tasks[..], &[(place, System::Controller)]].concat(), effort, &mut figure)?;
        for (by, measured) in ["the quorum", "the farthest", "the controller"].into_iter().zip(measured) {
            let values = [measured.ops_per_s, measured.ops_per_s / most].map(number);
            let Point { batch, window } = place.of_group(measured.setting);
            let counts = [batch, window].map(|count| count.to_string());
            let first = [apart.to_owned(), by.to_owned()];
            choosers.row(first.into_iter().chain(counts).chain(values).chain([measured.behind.to_string()]));
        }
    }
    figure.tables.push(choosers);
    Ok(figure)
}

/// What the model chooses as if all followers were as far as the farthest.
fn farthest(place: Place) -> Result<Point, ReproduceError> {
    let network = place.environment.network();
    let farthest = place.distances.iter().copied().fold(1.0, f64::max);
    let network = Network { delay: network.delay.mul_f64(farthest), ..network };
    let environment = environment(place.environment.replicas(), network, place.environment.sizes().request, LIGHT)?;
    Ok(Place { environment, ..place }.choice())
}
