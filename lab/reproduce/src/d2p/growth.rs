//! Figure 2.

use super::{cut, ms, same};
use crate::claim::{Claim, Figure, Table, Verdict, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::Order;
use greenwave_sim::Seed;
use greenwave_sim::cores::Work;
use greenwave_sim::graph::{Graph, Outcome, Stage, run};

/// Latency along five stages.
pub(crate) fn growth(effort: &Effort) -> Result<Figure, ReproduceError> {
    const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
    let runs: Vec<(f64, Order)> =
        LOADS.into_iter().flat_map(|load| [(load, Order::Fcfs), (load, Order::EarliestDeadline)]).collect();
    let requests = effort.jobs(1_000_000);
    let outcomes = parallel::map(effort.threads, &runs, |(load, order)| {
        let stage = Stage::new(4, Work::Normal { mean: ms(20), deviation: ms(8) });
        let graph = Graph { classes: same(), ..Graph::new(vec![stage; 5], *order) };
        run(&graph, load * 200.0, requests, Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "Five stages of 4 workers with normal service times of 20 ms (deviation 8), at several loads, as the work doesn't \
             say at which it measured. It finds that p90 grows 2.6 times and p95 2.4 times from the first stage to the fifth."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new(
        "From the first stage to the fifth, and the variability range after the fifth.",
        &["load", "p90 grows", "p95 grows", "variability, FCFS", "by deadlines", "cut, %"],
    );
    let grows = |outcome: &Outcome, quantile| {
        outcome.since_birth[4].quantile(quantile) / outcome.since_birth[0].quantile(quantile)
    };
    for (load, pair) in LOADS.iter().zip(outcomes.chunks(2)) {
        let [fcfs, edf] = [pair[0].variability(4), pair[1].variability(4)];
        let cells = [*load, grows(&pair[0], 0.9), grows(&pair[0], 0.95), fcfs, edf, cut(fcfs, edf)];
        table.row(cells.map(number));
    }
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    figure.tables.push(table);
    // What growth is where the first stage takes longer than the others, on as many more workers.
    const FIRST: [u64; 4] = [20, 30, 40, 60];
    let slower = parallel::map(effort.threads, &FIRST, |first| {
        let stage = |mean: u64, workers: u64| {
            Stage::new(workers as usize, Work::Normal { mean: ms(mean), deviation: ms(mean * 2 / 5) })
        };
        let mut stages = vec![stage(20, 4); 5];
        stages[0] = stage(*first, 4 * first / 20);
        let graph = Graph { classes: same(), ..Graph::new(stages, Order::Fcfs) };
        run(&graph, 0.7 * 200.0, requests, Seed::new(effort.seed))
    });
    let slower: Vec<Outcome> = slower.into_iter().collect::<Result<_, _>>()?;
    let mut table = Table::new(
        "The same at a load of 0.7 and first come first served, with a first stage that takes longer than the other four.",
        &["first stage, ms", "p90 grows", "p95 grows"],
    );
    for (first, outcome) in FIRST.iter().zip(&slower) {
        table.row([first.to_string(), number(grows(outcome, 0.9)), number(grows(outcome, 0.95))]);
        figure.note(outcome.hash);
    }
    figure.tables.push(table);
    // The first stage that takes twice as long explains what comes near enough to the work's value with it.
    let explains = &slower[2];
    let reason = format!(
        "The work's stages aren't equal, and how long they take isn't given: in its table 1 the first has two thirds of what all \
         three have. Simulated with a first stage that takes twice as long as the others, p90 grows {} times and p95 {} times. \
         Load explains less: at 0.9 it is {} and {}.",
        number(grows(explains, 0.9)),
        number(grows(explains, 0.95)),
        number(grows(&outcomes[6], 0.9)),
        number(grows(&outcomes[6], 0.95)),
    );
    for (quantile, theirs, name) in [(0.9, 2.6, "p90"), (0.95, 2.4, "p95")] {
        let claim = Claim::new(
            format!("{name} after stage five to stage one, at 70 %"),
            theirs,
            grows(&outcomes[4], quantile),
            Within::Share(0.15),
        );
        let explained = Claim { ours: grows(explains, quantile), ..claim.clone() }.verdict() == Verdict::Agrees;
        figure.claims.push(if explained { claim.because(reason.clone()) } else { claim });
    }
    Ok(figure)
}
