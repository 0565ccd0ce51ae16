//! DaRPC (Stuedi, Trivedi, Metzler, Pfefferle: SoCC'14): completion queues, and who serves them.

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::StealRule;
use greenwave_sim::Seed;
use greenwave_sim::clusters::{Access, Clients, Costs, Outcome, Server, Serving, Stealing, Taking, Waiting, run};
use greenwave_sim::cores::Work;
use std::time::Duration;

const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// Hardware threads of the server, which the work's summary doesn't say.
const CORES: usize = 16;

/// 480,000 a second one after the other.
const LOCKED: Duration = ns(2083);

/// Four of these do 2.0 million calls a second.
const REMOTE: Duration = ns(2000);

/// The same with queues, buffers and thread on one socket: four of these do 3.2 million where two interfaces don't limit them.
const LOCAL: Duration = ns(1250);

/// What sending and receiving takes where nothing is called.
const RAW: Duration = ns(250);

const COSTS: Costs = Costs {
    call: LOCAL,
    // Three times 480,000 a second.
    hand_over: ns(694),
    // By how much waking a caller is slower than letting it poll.
    wake: ns(8000),
    switch: ns(1000),
    steal: ns(1000),
    // 2.4 million a second one by one, 8.8 million eight by eight.
    post: ns(346),
    reply: ns(70),
};

/// What makes 10 us of a call, and 9 us without one.
const WIRE: Duration = ns(3667);

/// What a caller that polls its connection's queue adds, by the work's 11.5 us.
const OWN: Duration = ns(1500);

/// Draws apart what would otherwise come in step for ever.
const JITTER: Duration = ns(1000);

/// At most so many requests may be under way on a connection, where several share it.
const RING: u32 = 64;

fn server(serving: Serving, call: Duration) -> Server {
    Server { cores: CORES, serving, costs: Costs { call, ..COSTS }, interfaces: 1, batch: 1 }
}

const fn clusters(heads: usize) -> Serving {
    Serving::Clusters { heads, steal: None }
}

/// Handlers that do nothing.
fn clients(callers: Vec<u32>, access: Access, own: Duration) -> Clients {
    Clients { callers, credits: RING, access, own, wire: WIRE, jitter: JITTER, work: Work::Fixed(ns(1)) }
}

const SHARED: Access = Access::Shared { look: ns(0) };

type Item = (Server, Clients);

fn outcomes(effort: &Effort, items: &[Item], figure: &mut Figure) -> Result<Vec<Outcome>, ReproduceError> {
    let outcomes = parallel::map(effort.threads, items, |(server, clients)| {
        run(server, clients, effort.jobs(600_000), Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    Ok(outcomes)
}

fn millions(outcome: &Outcome) -> f64 {
    outcome.per_second / 1e6
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.latency.mean() * 1e6
}

const ASSUMED: &str = "Assumed, as the work's summary doesn't state it: 16 hardware threads; a context switch of 1 us, and 1 \
    us for a call that a head takes from another; clients with one call under way each, one to a connection, on machines \
    that don't limit one another. Each of these was fitted to one of the work's values, which therefore shows nothing: a \
    head's 2 us for a call, or 1.25 us where its memory is local; the dispatcher's 694 ns for each; the interface's 346 ns \
    for each post and 70 ns for each reply in it; the wire's 3.7 to 4.7 us, at random. Waking a thread takes 8 us: by so \
    much the work's callers that are woken are slower than those that poll.";

const COUNTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// How completion queues are served.
pub(crate) fn queues(effort: &Effort) -> Result<Figure, ReproduceError> {
    let slice = Duration::from_millis(1);
    let spins = Serving::PerConnection(Waiting::Spins { slice, locks: false });
    let locks = Serving::PerConnection(Waiting::Spins { slice, locks: true });
    let sleeps = Serving::PerConnection(Waiting::Sleeps);
    let two = Server { interfaces: 2, ..server(clusters(4), LOCAL) };
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
        ("4, local, 2 NICs", two.clone(), &polls),
        ("one each, all spin for a lock", server(locks, LOCKED), &polls),
    ];
    let mut items: Vec<Item> =
        designs.iter().flat_map(|(_, server, callers)| COUNTS.map(|count| (server.clone(), callers(count)))).collect();
    // What the interface can do, with as many heads as there are cores; and both interfaces with four heads each.
    let wide = server(clusters(CORES), LOCAL);
    let eights = clients(vec![8; 64], SHARED, OWN);
    items.push((wide.clone(), eights.clone()));
    items.push((Server { batch: 8, ..wide }, eights));
    items.push((Server { serving: clusters(8), ..two }, polls(128)));
    let mut figure = Figure {
        text: vec![
            "Completion queues of a server whose handler does nothing: one with a thread for each connection, one that a \
             dispatcher polls for workers on all other cores, and four clusters, each with a head that runs calls in place; \
             these with their memory near the head's core, and with two network interfaces. Rates are in millions of calls a \
             second. Heads, credits and stealing go by the types that our server goes by."
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
    let [one_by_one, by_eight, eight_heads] =
        [0, 1, 2].map(|at| millions(&outcomes[designs.len() * COUNTS.len() + at]));
    let near = |what: &str, theirs, ours| Claim::new(what, theirs, ours, Within::Share(0.15));
    let falls = |design: usize| f64::from(u8::from(rate(design, 128) < 0.9 * rate(design, 16)));
    let collapse = Claim::new(
        "a queue and a thread each: the rate falls beyond 16 clients (1 is yes)",
        1.0,
        falls(0),
        Within::Amount(0.0),
    );
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
        near("four clusters with local memory: Mrps", 2.3, most(5)),
        near("the same with two interfaces: Mrps", 3.2, most(6)).fitted(),
        near("the interface's limit, reply by reply: Mrps", 2.4, one_by_one).fitted(),
        near("the interface's limit, eight by eight: Mrps", 8.8, by_eight).fitted(),
    ]);
    figure.text.push(format!(
        "That sleeping threads serve clients that sleep, too, was chosen as it comes nearer to the work's 0.48 at 16 clients \
         than clients that poll. That two interfaces share four clusters was assumed: with local memory these are then kept \
         from their 3.2 by the interface alone, which is what the 2.3 with one are compared with. With eight clusters two \
         interfaces would have {}. A queue and a thread for each connection don't fall beyond 16 clients by sharing cores alone: \
         threads that sleep leave their cores to others, and of threads that spin as many are served at a time as there are \
         cores while the others wait for a slice of 1 ms, so that the rate stays, and the p99 of 32 clients is {} us after {} \
         of 16. With a lock that all share, which was given the 0.48 at 16 clients, they do. Caches, interrupts and the \
         interface's memory for connections, which cost nothing here, may have had a part in it.",
        number(eight_heads),
        number(p99(2, 32)),
        number(p99(2, 16)),
    ));
    figure.tables.push(stealing(effort, &mut figure.hash)?);
    Ok(figure)
}

/// All the load on one of four heads, by who may take it.
fn stealing(effort: &Effort, hash: &mut u64) -> Result<Table, ReproduceError> {
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
    let mut figure = Figure { hash: *hash, ..Figure::default() };
    let outcomes = outcomes(effort, &items, &mut figure)?;
    *hash = figure.hash;
    let mut table = Table::new(
        "Stealing, of which the work's summary has no values: four heads, of which the first has all callers but one for \
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
    Ok(table)
}

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
            "How many clusters the server had, and of which kind, isn't said. Simulated with two clusters without local \
             memory it is {} us.",
            number(slower)
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

/// Of what a call's latency consists.
pub(crate) fn latency(effort: &Effort) -> Result<Figure, ReproduceError> {
    let alone = |call| (server(clusters(4), call), clients(vec![1], Access::Direct, ns(0)));
    let counts = [1, 4, 8, 16, 24, 32, 64];
    let one = server(clusters(4), LOCAL);
    let two = Server { interfaces: 2, ..one.clone() };
    let eights = Server { batch: 8, ..two.clone() };
    let mut items = vec![alone(RAW), alone(LOCAL)];
    for server in [one, two, eights] {
        items.extend(counts.map(|count| (server.clone(), clients(vec![1; count], Access::Direct, ns(0)))));
    }
    let mut figure = Figure {
        text: vec![
            "A call that does nothing on four clusters with local memory, one call under way for each client: of what its \
             latency consists. The network is the wire and the server's interface, with its queue; waiting is until the head \
             serves it. The work's summary has the two values of a lone call only, to which the wire and what is left of a \
             call without one, 0.25 us, were fitted."
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
         clients, and then the interface's queue grows.",
        near.map_or(0, |(count, _)| *count),
    ));
    let titles = [
        "One interface, reply by reply; times in us.",
        "Two interfaces, reply by reply.",
        "Two interfaces, up to eight replies a post: these wait for one another.",
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
