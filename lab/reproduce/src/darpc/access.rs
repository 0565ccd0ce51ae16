//! How callers come to their completions.

use super::{COSTS, Item, LOCAL, OWN, REMOTE, SHARED, clients, clusters, mean_us, millions, ns, outcomes, server};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_sim::clusters::{Access, Outcome, Server};
use std::time::Duration;

/// A client's dispatcher's time for a completion, by the work's 34 to 40 us of 16 threads; with what is left of the 5.5 us that
/// a caller waits longer for it than for its own poll.
const EACH: Duration = ns(2300);
const REACH: Duration = ns(3200);

/// How callers come to their completions.
pub(crate) fn access(effort: &Effort) -> Result<Figure, ReproduceError> {
    let modes = [
        ("the caller polls, and has the connection", Access::Direct),
        ("callers take turns at polling, 100 ns a look", Access::Shared { look: ns(100) }),
        ("a dispatcher, the caller polls", Access::Dispatched { each: EACH, reach: REACH }),
        ("a dispatcher that wakes the caller", Access::Dispatched { each: EACH, reach: REACH + COSTS.wake }),
    ];
    let shapes = [vec![1], vec![16], vec![1; 16]];
    let mut items: Vec<Item> = modes
        .iter()
        .flat_map(|(_, access)| {
            shapes.clone().map(|callers| (server(clusters(4), LOCAL), clients(callers, *access, OWN)))
        })
        .collect();
    // As many threads, where the server has fewer heads, and slower ones.
    let fewer = [(2, LOCAL), (1, LOCAL), (2, REMOTE)];
    items.extend(fewer.map(|(heads, call)| (server(clusters(heads), call), clients(vec![1; 16], Access::Direct, OWN))));
    // Asynchronous calls: as many under way on one connection, by one thread that polls for them.
    let under_way = [1, 2, 4, 8, 16, 32];
    items.extend(
        under_way
            .iter()
            .flat_map(|calls| [1, 8].map(|batch| (*calls, batch)))
            .map(|(calls, batch)| (Server { batch, ..server(clusters(4), LOCAL) }, clients(vec![calls], SHARED, OWN))),
    );
    let mut figure = Figure {
        text: vec![
            "Mean latencies of a call that does nothing, in microseconds, on a server of four clusters with local memory: \
             one thread, 16 threads on one connection, and 16 with a connection each, by how a caller comes to its \
             completion."
                .to_owned(),
            "A caller that polls for itself is assumed to have the connection from posting to its completion; the work says \
             only that threads contend for a lock, and if they took it for each look alone, there would be little to wait \
             for. Fitted: a dispatcher's 2.3 us for each completion to the 34 to 40 us, and the 3.2 us and 8 us until a \
             caller that polls or is woken has it to the 17 and 25 us. The rest is as in darpc-queues."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let outcomes = outcomes(effort, &items, &mut figure)?;
    let at = |mode: usize, shape: usize| mean_us(&outcomes[mode * shapes.len() + shape]);
    let mut table =
        Table::new("Mean latency, us.", &["", "one thread", "16 on one connection", "16 on 16 connections"]);
    for (mode, (name, _)) in modes.iter().enumerate() {
        table.row(std::iter::once((*name).to_owned()).chain((0..shapes.len()).map(|shape| number(at(mode, shape)))));
    }
    figure.tables.push(table);
    let first = modes.len() * shapes.len();
    let mut table = Table::new(
        "The same 16 threads on 16 connections, by the server's clusters.",
        &["clusters", "us a call", "mean, us"],
    );
    for ((heads, call), outcome) in fewer.iter().zip(&outcomes[first..]) {
        table.row([heads.to_string(), number(call.as_secs_f64() * 1e6), number(mean_us(outcome))]);
    }
    figure.tables.push(table);
    let mut table = Table::new(
        "One thread that has several calls under way on a connection (DaRPC's stream and futures), and a head that posts up \
         to eight replies at once.",
        &["under way", "Mrps", "mean, us", "Mrps, by eight", "mean, us, by eight"],
    );
    for (calls, pair) in under_way.iter().zip(outcomes[first + fewer.len()..].chunks(2)) {
        let of = |outcome: &Outcome| [number(millions(outcome)), number(mean_us(outcome))];
        table.row(std::iter::once(calls.to_string()).chain(pair.iter().flat_map(of)));
    }
    figure.tables.push(table);
    let near = |what: &str, theirs, ours| Claim::new(what, theirs, ours, Within::Share(0.15));
    let separate = near("16 threads that poll, a connection each", 16.0, at(0, 2));
    let slower = mean_us(&outcomes[first + 2]);
    let separate = if (slower / 16.0 - 1.0).abs() <= 0.15 {
        separate.because(format!(
            "Four clusters, which the work's server has where it says so, are not kept busy by 16 callers, so next to nothing waits \
             for them. With two it is {} us, and {} without local memory. What else may have made calls longer: the work \
             says that threads that poll contend for their machine's cores, which costs nothing here.",
            number(mean_us(&outcomes[first])),
            number(slower),
        ))
    } else {
        separate
    };
    figure.claims.extend([
        near("a thread that polls its connection", 11.5, at(0, 0)).fitted(),
        near("16 threads that poll on one connection", 160.0, at(0, 1)),
        separate,
        near("a dispatcher, and a caller that polls", 17.0, at(2, 0)).fitted(),
        near("a dispatcher that wakes the caller", 25.0, at(3, 0)).fitted(),
        Claim::new("a dispatcher and 16 threads on one connection (34 to 40)", 37.0, at(2, 1), Within::Amount(3.0))
            .fitted(),
        Claim::new("the same, where it wakes them (34 to 40)", 37.0, at(3, 1), Within::Amount(3.0)).fitted(),
    ]);
    Ok(figure)
}
