//! The same load on several servers, or on one by several protocols, in turns.

use greenwave_bench::load::Plan;
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Figures, Rounds, figures, median, order, range};
use greenwave_bench::table::{MISSING, Table, significant};

use super::reached::Reached;
use super::requests::Requests;
use super::{Bench, answered, write};
use crate::problem::Problem;
use crate::server::Server;

/// Rounds, unless more or fewer are asked for.
const ROUNDS: u16 = 5;

/// The quantiles that are shown, and compared.
const QUANTILES: [(&str, f64); 3] = [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)];
const GOOD: &str = "good_per_s";
const MISSED: &str = "missed_share";
/// What a figure is called that is over that of the first address.
const OVER: &str = "_over_first";

impl Bench {
    /// Puts the load on all of them in turns, prints a table with ratios and writes the file.
    pub(super) fn compare(&self, plan: &Plan) -> Result<(), Problem> {
        let rounds = usize::from(self.rounds.unwrap_or(ROUNDS));
        let mut all: Vec<Reached> = Vec::new();
        // All of a format are sent the same bytes: those that the first one's types make of what was said.
        let mut requests = Requests::default();
        for server in &self.servers {
            all.push(self.reach(server, &mut requests)?);
        }
        let mut progress = Progress::new(rounds * all.len());
        let mut found = Rounds::new(Cell::of_case(&self.case(), &self.names()));
        let mut whole: Vec<Option<Measured>> = all.iter().map(|_| None).collect();
        for round in 0..rounds {
            let plan = part(plan, rounds, round);
            for at in order(round, all.len()) {
                progress.step(format!("round {}, {}", round + 1, self.servers[at]));
                let measured = all[at].measure(&plan, &mut progress);
                found.add(round, at, shown(&measured));
                match &mut whole[at] {
                    Some(whole) => whole.append(measured),
                    none => *none = Some(measured),
                }
            }
        }
        drop(progress);
        let whole: Vec<Measured> = whole.into_iter().flatten().collect();
        with_ratios(&mut found);
        print!("{}", table(&found, &whole));
        if let Some(path) = &self.out {
            let mut results = Results::new("bench");
            for (cell, (reached, measured)) in found.cells().iter().zip(all.iter().zip(&whole)) {
                results.push_load(&format!("{}/{}", reached.method, cell.case), &cell.system, measured);
            }
            found.push(&mut results, |metric| metric.ends_with(OVER));
            write(path, &results)?;
        }
        whole.iter().zip(&self.servers).try_for_each(|(measured, server)| answered(measured, server))
    }

    /// What the servers are called: an address that is there twice has a number behind it.
    fn names(&self) -> Vec<String> {
        let named =
            |(at, server): (usize, &Server)| match self.servers[..at].iter().filter(|before| *before == server).count()
            {
                0 => server.to_string(),
                again => format!("{server} ({})", again + 1),
            };
        self.servers.iter().enumerate().map(named).collect()
    }
}

/// The plan of one round. In each the requests are others, and in one round all servers get the same.
fn part(plan: &Plan, rounds: usize, round: usize) -> Plan {
    let parts = u32::try_from(rounds).unwrap_or(u32::MAX).max(1);
    let seed = plan.seed.wrapping_add(round as u64);
    Plan { time: plan.time / parts, warm_up: plan.warm_up / parts, seed, ..plan.clone() }
}

/// What a round showed of a server. Of all requests, those that missed included: else who answers few looks fast.
fn shown(measured: &Measured) -> Figures {
    let total = &measured.total;
    let endless = |q| total.quantile_of_all(q).map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e3);
    let quantiles = QUANTILES.iter().map(|(name, q)| (*name, endless(*q)));
    figures(quantiles.chain([(GOOD, measured.goodput_per_s()), (MISSED, total.missed_share())]))
}

/// Adds to all but the first their figures over the first one's.
fn with_ratios(found: &mut Rounds) {
    let Some(first) = found.cells().first().cloned() else { return };
    for at in 1..found.cells().len() {
        for metric in QUANTILES.iter().map(|(name, _)| *name).chain([GOOD]) {
            found.ratio(at, metric, &first, &format!("{metric}{OVER}"));
        }
    }
}

/// A row for each server: what all rounds showed, and the median of the ratios, with the least and the most.
fn table(found: &Rounds, whole: &[Measured]) -> Table {
    let mut table = Table::new([
        "server",
        "requests",
        "in time/s",
        "missed %",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "in time/s, ratio",
        "p50, ratio",
        "p99, ratio",
    ]);
    for ((at, cell), measured) in found.cells().iter().enumerate().zip(whole) {
        let middle = |metric: &str| significant(median(&found.values(at, metric)));
        let ratio = |metric: &str| ratio(&found.values(at, &format!("{metric}{OVER}")));
        let mut row = vec![cell.system.clone(), measured.total.scheduled.to_string(), middle(GOOD)];
        row.push(significant(100.0 * measured.total.missed_share()));
        row.extend(QUANTILES.iter().map(|(metric, _)| middle(metric)));
        row.extend([GOOD, "p50_ms", "p99_ms"].map(ratio));
        table.row(row);
    }
    table
}

/// The median, and how far the rounds were apart.
fn ratio(values: &[f64]) -> String {
    let (least, most) = range(values);
    match values {
        [] => MISSING.to_owned(),
        [only] => format!("{only:.2}"),
        _ => format!("{:.2} ({least:.2}–{most:.2})", median(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_within_rounds_to_the_first() {
        let mut found = Rounds::new(Cell::of_case("rate-1", &["one", "other"]));
        for (round, (one, other)) in [(1.0, 2.0), (10.0, 30.0), (1.0, 1.0)].into_iter().enumerate() {
            for (cell, p50) in [one, other].into_iter().enumerate() {
                found.add(round, cell, figures([("p50_ms", p50)]));
            }
        }
        with_ratios(&mut found);
        assert_eq!(ratio(&found.values(1, "p50_ms_over_first")), "2.00 (1.00–3.00)");
        assert_eq!(ratio(&found.values(0, "p50_ms_over_first")), MISSING);
    }

    #[test]
    fn rounds_share_the_time_and_no_two_have_the_same_requests() {
        use std::time::Duration;
        let classes = greenwave_bench::classes::Classes::single(Duration::from_secs(1));
        let pace = greenwave_bench::arrivals::Arrivals::Fixed { per_second: 1.0 };
        let plan = Plan { warm_up: Duration::from_secs(1), ..Plan::new(pace, classes, Duration::from_secs(10)) };
        let parts = [0, 1].map(|round| part(&plan, 5, round));
        assert_eq!((parts[0].time, parts[0].warm_up), (Duration::from_secs(2), Duration::from_millis(200)));
        assert_ne!(parts[0].seed, parts[1].seed);
    }
}
