//! Who serves completion queues, and at which rate.

use super::{
    CORES, COSTS, Item, LOCAL, LOCKED, OWN, REMOTE, SHARED, T4, clients, clusters, instances, millions, ns, outcomes,
    server,
};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError};
use greenwave_policy::StealRule;
use greenwave_sim::clusters::{Access, Clients, Server, Serving, Stealing, Taking, Waiting};
use greenwave_sim::cores::Work;
use std::time::Duration;

const ASSUMED: &str = "The work's machines have two sockets of eight cores, so 16 threads run at a time. Four clusters are its own \
    number for each instance, and two instances are on eight cores. Assumed, as it isn't said: a context switch of 1 us, and 1 us for \
    a call that a head takes from another; clients with one call under way each, one to a connection, on machines that don't limit \
    one another. Each of these was fitted to one of the work's values, which therefore shows nothing: a head's 2 us for a call, or \
    1.74 us where its memory is local; the dispatcher's 694 ns for each; the first interface's 346 ns for each post and 70 ns for \
    each reply in it, and the second's 1266 ns for both; the wire's 3.4 to 4.4 us, at random. Waking a thread takes 8 us: by so much \
    the work's callers that are woken are slower than those that poll.";

const COUNTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// How completion queues are served.
pub(crate) fn queues(effort: &Effort) -> Result<Figure, ReproduceError> {
    let slice = Duration::from_millis(1);
    let spins = Serving::PerConnection(Waiting::Spins { slice, locks: false });
    let locks = Serving::PerConnection(Waiting::Spins { slice, locks: true });
    let sleeps = Serving::PerConnection(Waiting::Sleeps);
    let polls = |count: usize| clients(vec![1; count], Access::Direct, OWN);
    let sleepy = |count: usize| clients(vec![1; count], Access::Direct, OWN + COSTS.wake);
    type Callers<'a> = &'a dyn Fn(usize) -> Clients;
    let designs: [(&str, Server, Callers<'_>); 8] = [
        ("one each, all sleep", server(sleeps, REMOTE), &sleepy),
        ("one each, clients poll", server(sleeps, REMOTE), &polls),
        ("one each, all spin", server(spins, REMOTE), &polls),
        ("one for all", server(Serving::Shared, REMOTE), &polls),
        ("4 clusters", server(clusters(4), REMOTE), &polls),
        ("4, local", server(clusters(4), LOCAL), &polls),
        ("4 and 4, local, 2 NICs", instances(), &polls),
        ("one each, all spin for a lock", server(locks, LOCKED), &polls),
    ];
    let mut items: Vec<Item> =
        designs.iter().flat_map(|(_, server, callers)| COUNTS.map(|count| (server.clone(), callers(count)))).collect();
    // What the first interface can do, with as many heads as there are cores; and what the second can.
    let wide = server(clusters(CORES), LOCAL);
    let eights = clients(vec![8; 64], SHARED, OWN);
    items.push((wide.clone(), eights.clone()));
    items.push((Server { batch: 8, ..wide }, eights));
    items.push((Server { interfaces: vec![T4], ..server(clusters(4), LOCAL) }, polls(64)));
    let mut figure = Figure {
        text: vec![
            "Completion queues of a server whose handler does nothing: one with a thread for each connection, one that a \
             dispatcher polls for workers on all other cores, and four clusters, each with a head that runs calls in place; \
             these with their memory near the head's core; and two instances of four, one for each network interface: the \
             first's a Chelsio T5, the second's a T4. Rates are in millions of calls a second. Heads, credits and stealing go \
             by the types that our server goes by."
                .to_owned(),
            ASSUMED.to_owned(),
        ],
        ..Figure::default()
    };
    let outcomes = outcomes(effort, &items, &mut figure)?;
    let of = |design: usize, count: usize| {
        let at = COUNTS.iter().position(|it| *it == count).unwrap_or(0);
        &outcomes[design * COUNTS.len() + at]
    };
    let rate = |design: usize, count: usize| millions(of(design, count));
    let p99 = |design: usize, count: usize| of(design, count).latency.quantile(0.99) * 1e6;
    let most = |design: usize| COUNTS.iter().map(|count| rate(design, *count)).fold(0.0, f64::max);
    let mut rates = Table::new("Millions of calls a second, by the number of clients.", &["clients"]);
    rates.head.extend(designs.iter().map(|(name, ..)| (*name).to_owned()));
    for count in COUNTS {
        rates.row(
            std::iter::once(count.to_string()).chain((0..designs.len()).map(|design| number(rate(design, count)))),
        );
    }
    figure.tables.push(rates);
    let [one_by_one, by_eight, second] = [0, 1, 2].map(|at| millions(&outcomes[designs.len() * COUNTS.len() + at]));
    let near = |what: &str, theirs, ours| Claim::new(what, theirs, ours, Within::Share(0.15));
    let falls = |design: usize| f64::from(u8::from(rate(design, 128) < 0.9 * rate(design, 16)));
    let collapse = Claim::new(
        "a queue and a thread each: the rate falls beyond 16 clients (1 is yes)",
        1.0,
        falls(0),
        Within::Amount(0.0),
    )
    .in_words("it falls quickly");
    let locked = format!(
        "The work doesn't say why it falls. Threads that share cores don't do it alone. A lock that they share does, as that of \
         an interface's doorbell, if they spin for it: with more threads than cores one is taken from its core while it has the \
         lock, and all others wait until it runs again. Simulated with one that a thread has for {} us of each call, the rate is \
         {} at 16 clients, {} at 32 and {} at 128.",
        number(LOCKED.as_secs_f64() * 1e6),
        number(rate(7, 16)),
        number(rate(7, 32)),
        number(rate(7, 128)),
    );
    let collapse = if falls(7) > falls(0) { collapse.because(locked) } else { collapse };
    figure.claims.extend([
        Claim::new("a queue and a thread each: Mrps at 16 clients", 0.48, rate(0, 16), Within::Share(0.25)).fitted(),
        collapse,
        near("one queue for all: Mrps (three times as many)", 1.44, most(3)).fitted(),
        near("four clusters: Mrps", 2.0, most(4)).fitted(),
        near("four clusters with local memory: Mrps", 2.3, most(5)).fitted(),
        near("the first interface's limit, reply by reply: Mrps", 2.4, one_by_one).fitted(),
        near("the first interface's limit, eight by eight: Mrps", 8.8, by_eight).fitted(),
        near("an instance on the second interface alone: Mrps", 0.79, second).fitted(),
        near("two instances, one for each interface: Mrps", 3.2, most(6)),
    ]);
    figure.text.push(format!(
        "That sleeping threads serve clients that sleep, too, was chosen as it comes nearer to the work's 0.48 at 16 clients \
         than clients that poll. Two instances do what each does alone, {} and {}, as the work says of its own. A queue and a thread for each connection don't fall beyond 16 clients by sharing cores alone: \
         threads that sleep leave their cores to others, and of threads that spin as many are served at a time as there are \
         cores while the others wait for a slice of 1 ms, so that the rate stays, and the p99 of 32 clients is {} us after {} \
         of 16. With a lock that all share, which was given the 0.48 at 16 clients, they do. Caches, interrupts and the \
         interface's memory for connections, which cost nothing here, may have had a part in it.",
        number(most(5)),
        number(second),
        number(p99(2, 32)),
        number(p99(2, 16)),
    ));
    stealing(effort, &mut figure)?;
    Ok(figure)
}

/// All the load on one of four heads, by who may take it.
fn stealing(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let any = StealRule { least_work: Duration::ZERO, ..StealRule::default() };
    let rules: [(&str, Option<Stealing>); 3] = [
        ("nobody", None),
        (
            "heads with few calls of their own, calls of 5 us",
            Some(Stealing { rule: StealRule::default(), taking: Taking::WithFewOwn }),
        ),
        ("any head before its own, any call", Some(Stealing { rule: any, taking: Taking::BeforeOwn })),
    ];
    let works = [("nothing", Work::Fixed(ns(1))), ("10 us, exponential", Work::Exponential(ns(10_000)))];
    // Connections go to heads in turn: two of the first head's have as many callers each, and others one.
    let loads = [("12", vec![6, 1, 1, 1, 6]), ("52", vec![26, 1, 1, 1, 26])];
    let items: Vec<Item> = works
        .iter()
        .flat_map(|(_, work)| loads.iter().map(move |(_, callers)| (work, callers)))
        .flat_map(|(work, callers)| {
            rules.map(|(_, steal)| {
                let clients = Clients { work: *work, ..clients(callers.clone(), SHARED, OWN) };
                (server(Serving::Clusters { heads: 4, steal }, LOCAL), clients)
            })
        })
        .collect();
    let outcomes = outcomes(effort, &items, figure)?;
    let mut table = Table::new(
        "Stealing, of which the work gives no values: four heads, of which the first has all callers but one for \
         each of the others. A head that takes what was given before it looks at its own queue doesn't come to its own while \
         more is given: its p99 says so.",
        &["handler", "callers", "who takes", "Mrps", "p50, us", "p99, us", "calls taken, share"],
    );
    for (at, outcome) in outcomes.iter().enumerate() {
        let ((rule, _), case) = (rules[at % rules.len()], at / rules.len());
        let ((work, _), (callers, _)) = (works[case / loads.len()], &loads[case % loads.len()]);
        let calls = effort.jobs(600_000) as f64;
        table.row([
            work.to_owned(),
            (*callers).to_owned(),
            rule.to_owned(),
            number(millions(outcome)),
            number(outcome.latency.quantile(0.5) * 1e6),
            number(outcome.latency.quantile(0.99) * 1e6),
            number(outcome.stolen as f64 / calls),
        ]);
    }
    figure.tables.push(table);
    Ok(())
}
