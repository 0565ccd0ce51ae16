//! Of what a call's latency consists.

use super::{Item, LOCAL, RAW, clients, clusters, instances, mean_us, millions, ns, outcomes, server};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_sim::clusters::{Access, Server};

/// Of what a call's latency consists.
pub(crate) fn latency(effort: &Effort) -> Result<Figure, ReproduceError> {
    let alone = |call| (server(clusters(4), call), clients(vec![1], Access::Direct, ns(0)));
    let counts = [1, 4, 8, 16, 24, 32, 64];
    let one = server(clusters(4), LOCAL);
    let eights = Server { batch: 8, ..one.clone() };
    let mut items: Vec<Item> = vec![alone(RAW), alone(LOCAL)];
    for server in [one, eights, instances()] {
        items.extend(counts.map(|count| (server.clone(), clients(vec![1; count], Access::Direct, ns(0)))));
    }
    let mut figure = Figure {
        text: vec![
            "A call that does nothing on four clusters with local memory, one call under way for each client: of what its \
             latency consists. The network is the wire and the server's interface, with its queue; waiting is until the head \
             serves it. Of that the work has the two values of a lone call only, to which the wire and a head's time where \
             nothing is called, 0.74 us, were fitted."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let outcomes = outcomes(effort, &items, &mut figure)?;
    let near = |what: &str, theirs, ours| Claim::new(what, theirs, ours, Within::Share(0.05));
    figure.claims.extend([
        near("sending and receiving alone, us", 9.0, mean_us(&outcomes[0])).fitted(),
        near("a call, us", 10.0, mean_us(&outcomes[1])).fitted(),
    ]);
    let alone = mean_us(&outcomes[1]);
    let near = counts.iter().zip(&outcomes[2..]).take_while(|(_, outcome)| mean_us(outcome) <= 1.1 * alone).last();
    figure.text.push(format!(
        "It claims that latency stays near that under load, without a value. Here it is within a tenth of it up to {} \
         clients of four clusters, which are then busy, and what comes waits for their heads. With two interfaces every \
         second client is at the slower one, whose queue grows first.",
        near.map_or(0, |(count, _)| *count),
    ));
    let titles = [
        "One interface, reply by reply; times in us.",
        "One interface, up to eight replies a post: these wait for one another.",
        "Two interfaces, reply by reply.",
    ];
    for (title, outcomes) in titles.into_iter().zip(outcomes[2..].chunks(counts.len())) {
        let mut table =
            Table::new(title, &["clients", "Mrps", "mean", "p99", "client", "network", "waiting", "service"]);
        for (count, outcome) in counts.iter().zip(outcomes) {
            let parts = outcome.parts;
            let times = [outcome.latency.mean(), outcome.latency.quantile(0.99)].into_iter().chain([
                parts.client,
                parts.network,
                parts.waiting,
                parts.service,
            ]);
            let cells = [count.to_string(), number(millions(outcome))];
            table.row(cells.into_iter().chain(times.map(|time| number(time * 1e6))));
        }
        figure.tables.push(table);
    }
    Ok(figure)
}
