//! Figures 7 to 11.

use super::chain::{self, FEW, three_stages};
use super::parallel::{self, SPLIT, search};
use super::{EDF, FCFS, RATE, cut, millis, orders};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::{bar, number};
use crate::{Effort, ReproduceError};
use greenwave_policy::Order;
use greenwave_sim::cores::Histogram;
use greenwave_sim::graph::Outcome;

/// Figures 7 to 11.
pub(crate) fn distributions(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "The latency of the chain (figures 7 to 9) and on the first worker of the parallel unit (figures 10 and 11), first \
             come first served and by deadlines, simulated as for tables 1 and 2. The work shows curves. It says of them that \
             the variability range is cut by about a quarter, that deadlines put off who has time and bring forward who is \
             late, and that they do so less from stage to stage. How far its two distributions are apart isn't said, but \
             no two are less apart (Wasserstein's distance of first order) than their means, of which the tables tell."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let graph = three_stages(Order::Fcfs);
    let outcomes = orders::both(effort, &graph, RATE, effort.jobs(2_000_000), &mut figure)?;
    let chance = chain::by_chance(effort, FEW, &mut figure)?;
    let last = chain::TABLE.len() - 1;
    let [fcfs, edf] = [&outcomes[FCFS], &outcomes[EDF]];
    let is_same = |stage: usize| fcfs.since_birth[stage] == edf.since_birth[stage];
    let told = |stage| chain::told(stage, fcfs, edf);
    let range = Claim::new(
        "figures 7 and 8: cut of the variability range, %",
        25.0,
        cut(fcfs.variability(last), edf.variability(last)),
        Within::Amount(5.0),
    );
    figure.claims.push(chance.because(range, chain::TABLE.len(), 25.0, is_same(last), &told(last)));
    for (stage, theirs) in chain::TABLE.iter().enumerate() {
        let [before, after] = [&fcfs.since_birth[stage], &edf.since_birth[stage]];
        let claim = apart(&format!("figure 9: S{}", stage + 1), theirs.mean, before, after);
        figure.claims.push(chance.because(claim, stage, theirs.cut, is_same(stage), &told(stage)));
    }
    let shrinks = Claim::new(
        "figure 9: stages after which the cut of the p95 is less than before, of 2",
        2.0,
        shrinks(fcfs, edf),
        Within::Amount(0.0),
    );
    figure.claims.push(chance.because(shrinks, 0, chain::TABLE[0].cut, is_same(0), &told(0)));
    figure.tables.push(quantiles(&outcomes));
    figure.tables.push(density(
        "Figures 7 and 8: of 100 requests so many are answered within so many ms of the chain's end.",
        &fcfs.since_birth[last],
        &edf.since_birth[last],
    ));
    worker(effort, &mut figure)?;
    Ok(figure)
}

/// After how many stages deadlines cut the p95 by less than after the one before.
fn shrinks(fcfs: &Outcome, edf: &Outcome) -> f64 {
    let cuts: Vec<f64> = fcfs
        .since_birth
        .iter()
        .zip(&edf.since_birth)
        .map(|(before, after)| cut(before.quantile(0.95), after.quantile(0.95)))
        .collect();
    cuts.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

/// How far the two distributions are apart, beside how far the work's are at least.
fn apart(name: &str, means: [f64; 2], before: &Histogram, after: &Histogram) -> Claim {
    Claim::new(
        format!("{name}: distance of both distributions, ms: at least the means'"),
        means[FCFS] - means[EDF],
        before.distance(after) * 1e3,
        Within::AtLeast,
    )
}

/// Figures 10 and 11.
fn worker(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let outcomes = orders::both(effort, &search(Order::Fcfs), RATE, effort.jobs(300_000), figure)?;
    let chance = parallel::by_chance(effort, figure)?;
    let [fcfs, edf] = [&outcomes[FCFS], &outcomes[EDF]];
    let [before, after] = [fcfs, edf].map(|outcome| &outcome.units[SPLIT][0]);
    let theirs = &parallel::TABLE[0];
    let least = cut(theirs.p95[FCFS], theirs.p95[EDF]);
    let told = parallel::told(fcfs, edf);
    let tail = Claim::new(
        "figures 10 and 11: cut of the first worker's p95, %",
        least,
        cut(millis(before, 0.95), millis(after, 0.95)),
        Within::Amount(1.0),
    );
    for claim in [tail, apart("figures 10 and 11", theirs.mean, before, after)] {
        figure.claims.push(chance.because(claim, 0, least, before == after, &told));
    }
    figure.tables.push(density(
        "Figures 10 and 11: of 100 requests the first worker answers so many within so many ms.",
        before,
        after,
    ));
    Ok(())
}

/// Cumulative distributions along the chain, and how far they are apart.
fn quantiles(outcomes: &[Outcome]) -> Table {
    const QUANTILES: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999];
    let mut table = Table::new(
        "Figure 9: within how many ms which share has left each stage, first come first served and by deadlines; and how far both \
         distributions are apart (Wasserstein, ms).",
        &["share", "S1, FCFS", "S1, deadlines", "S2, FCFS", "S2, deadlines", "S3, FCFS", "S3, deadlines"],
    );
    let stages = 0..chain::TABLE.len();
    let of = |stage: usize| [FCFS, EDF].map(|order| &outcomes[order].since_birth[stage]);
    for quantile in QUANTILES {
        let cells = stages.clone().flat_map(|stage| of(stage).map(|spans| number(millis(spans, quantile))));
        table.row(std::iter::once(quantile.to_string()).chain(cells));
    }
    let apart = stages.flat_map(|stage| {
        let [before, after] = of(stage);
        [String::new(), number(before.distance(after) * 1e3)]
    });
    table.row(std::iter::once("apart".to_owned()).chain(apart));
    table
}

/// A probability density as a table with bars, in tens of milliseconds.
fn density(title: &str, before: &Histogram, after: &Histogram) -> Table {
    const STEP: f64 = 10.0;
    let most = millis(before, 0.999).max(millis(after, 0.999));
    let steps = (most / STEP).ceil() as usize;
    let within = |spans: &Histogram, step: usize| spans.within(step as f64 * STEP / 1e3);
    let share = |spans: &Histogram, step| 100.0 * (within(spans, step + 1) - within(spans, step));
    let shares: Vec<[f64; 2]> = (0..steps).map(|step| [share(before, step), share(after, step)]).collect();
    let highest = shares.iter().flatten().copied().fold(0.0, f64::max);
    let mut table = Table::new(title, &["ms", "FCFS", "by deadlines", "FCFS, drawn", "by deadlines, drawn"]);
    for (step, [fcfs, edf]) in shares.into_iter().enumerate() {
        let span = format!("{} to {}", step as f64 * STEP, (step + 1) as f64 * STEP);
        table.row([span, number(fcfs), number(edf), bar(fcfs, highest), bar(edf, highest)]);
    }
    table
}
