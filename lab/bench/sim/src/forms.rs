//! Means that are simulated, beside what queueing theory says of them.
//!
//! Where theory has a value, the ratio of the two is 1 but for chance, which at ten million jobs leaves less than a hundredth. Where
//! it has bounds alone, the mean has to lie between them. Time is virtual, so all cores are used and figures don't depend on it.

use std::time::Duration;

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_bench::table::Table;
use greenwave_policy::{DispatchRule, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::forms::{self, Tail};
use greenwave_sim::cores::ideal::{self, Sharing};
use greenwave_sim::cores::{self, Cores, Load, Method, Plan, Scheme, Steal, Work};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "forms/";

/// The system of these cases.
pub(crate) const SIMULATED: &str = "simulated";

/// How many jobs are simulated.
const JOBS: u64 = 10_000_000;

const US: Duration = Duration::from_micros(1);

/// A case.
pub(crate) struct Form {
    /// Its name, without the kind.
    name: &'static str,
    /// Whether a quick run has time for it.
    is_quick: bool,
    server: Server,
    works: Works,
    /// The share of the server's time that jobs ask for.
    load: f64,
}

#[derive(Clone, Copy)]
enum Server {
    /// So many workers that take from one queue, first come, first served.
    Queue(usize),
    /// So many that have a queue each, first come, first served.
    Queues(usize, DispatchRule),
    /// One that serves all that wait in turns of so many microseconds.
    Quanta(u32),
    /// One that is shared without any grain.
    Shared(Sharing),
}

/// How long jobs take: 100 us on average, and 27 us of [`Pareto`](Self::Pareto).
#[derive(Clone, Copy)]
enum Works {
    Exponential,
    /// 1 to 199 us.
    Uniform,
    /// 10 us to 1 ms, with an exponent of 1.5.
    Pareto,
    /// 1 us, and of half of them 199 us.
    Bimodal,
}

/// What theory says of a mean, in seconds.
enum Theory {
    Is(f64),
    Between(f64, f64),
}

const fn form(name: &'static str, is_quick: bool, server: Server, works: Works, load: f64) -> Form {
    Form { name, is_quick, server, works, load }
}

const FORMS: [Form; 18] = [
    form("mm1-0.5", false, Server::Queue(1), Works::Exponential, 0.5),
    form("mm1-0.8", true, Server::Queue(1), Works::Exponential, 0.8),
    form("mg1-fcfs-uniform", false, Server::Queue(1), Works::Uniform, 0.7),
    form("mg1-fcfs-bimodal", true, Server::Queue(1), Works::Bimodal, 0.7),
    form("mg1-fcfs-pareto", false, Server::Queue(1), Works::Pareto, 0.7),
    form("mg1-ps-uniform", false, Server::Shared(Sharing::Processor), Works::Uniform, 0.7),
    form("mg1-ps-pareto", false, Server::Shared(Sharing::Processor), Works::Pareto, 0.7),
    form("mg1-ps-by-quanta", false, Server::Quanta(2), Works::Exponential, 0.7),
    form("mg1-las-uniform", false, Server::Shared(Sharing::LeastAttained), Works::Uniform, 0.7),
    form("mg1-las-pareto", false, Server::Shared(Sharing::LeastAttained), Works::Pareto, 0.7),
    form("mg1-srpt-uniform", false, Server::Shared(Sharing::ShortestRemaining), Works::Uniform, 0.7),
    form("mg1-srpt-pareto", true, Server::Shared(Sharing::ShortestRemaining), Works::Pareto, 0.7),
    form("mmk-16-0.9", true, Server::Queue(16), Works::Exponential, 0.9),
    form("mmk-64-0.95", false, Server::Queue(64), Works::Exponential, 0.95),
    form("random-16", false, Server::Queues(16, DispatchRule::Random), Works::Exponential, 0.8),
    form("round-robin-16", false, Server::Queues(16, DispatchRule::RoundRobin), Works::Exponential, 0.8),
    form("jsq-2", true, Server::Queues(2, DispatchRule::JoinShortestQueue), Works::Exponential, 0.8),
    form("bounds/jsq-16", true, Server::Queues(16, DispatchRule::JoinShortestQueue), Works::Exponential, 0.8),
];

/// All cases' names.
pub(crate) fn names() -> impl Iterator<Item = String> {
    FORMS.iter().map(Form::name)
}

/// Whether a quick run has time for a case.
pub(crate) fn is_quick(name: &str) -> bool {
    FORMS.iter().any(|form| form.is_quick && form.name() == name)
}

/// Simulates the cases, on all cores at once.
pub(crate) fn measure(cases: &[String], bench: &mut Benchmark) {
    let forms: Vec<&Form> = FORMS.iter().filter(|form| cases.contains(&form.name())).collect();
    let run = |form: &&Form| form.run(JOBS);
    let all: Vec<anyhow::Result<Figures>> = forms.par_iter().map(run).collect();
    for (form, done) in forms.iter().zip(all) {
        bench.progress.step(form.name());
        for (metric, value) in bench.settle(&form.name(), done).unwrap_or_default() {
            bench.results.push(&form.name(), SIMULATED, metric, value);
        }
    }
}

/// What was found.
pub(crate) fn table(results: &Results) -> Table {
    let metrics = ["jobs", "mean_us", "theory_us", "over_theory", "over_least", "over_most"];
    let mut table = Table::new(["case"].iter().chain(&metrics).copied());
    for case in results.distinct(|row| &row.case).into_iter().filter(|case| case.starts_with(KIND)) {
        // A hundredth is what it is about, so ratios have four digits.
        let shown = |metric: &&str| match results.value(case, SIMULATED, metric) {
            Some(value) if metric.starts_with("over_") => format!("{value:.4}"),
            _ => results.shown(case, SIMULATED, metric),
        };
        table.row([case.to_owned()].into_iter().chain(metrics.iter().map(shown)));
    }
    table
}

impl Form {
    fn name(&self) -> String {
        format!("{KIND}{}", self.name)
    }

    fn run(&self, jobs: u64) -> anyhow::Result<Figures> {
        let load = self.works.load()?;
        let mean = self.server.mean(&load, self.load, jobs)?;
        let all = [("jobs", jobs as f64), ("mean_us", mean * 1e6)];
        let theory = match self.server.theory(self.works, &load, self.load) {
            Theory::Is(theory) => vec![("theory_us", theory * 1e6), ("over_theory", mean / theory)],
            Theory::Between(least, most) => vec![("over_least", mean / least), ("over_most", mean / most)],
        };
        Ok(figures(all.into_iter().chain(theory)))
    }
}

impl Server {
    /// The mean response time that is simulated, in seconds.
    fn mean(self, load: &Load, share: f64, jobs: u64) -> anyhow::Result<f64> {
        let (order, quantum) = (Order::Fcfs, None);
        let cores = match self {
            Self::Queue(workers) => Cores::new(workers, Scheme::Central { order, quantum }),
            Self::Queues(workers, dispatch) => {
                Cores::new(workers, Scheme::TwoLevel { dispatch, order, quantum, steal: Steal::Never })
            }
            Self::Quanta(us) => {
                Cores::new(1, Scheme::Central { order: Order::ProcessorSharing, quantum: Some(us * US) })
            }
            Self::Shared(sharing) => return Ok(ideal::serve(sharing, load, share, jobs, Seed::new(1)).mean()),
        };
        Ok(cores::run(&cores, load, &Plan::new(jobs).with_share(share), Seed::new(1))?.all.mean())
    }

    fn theory(self, works: Works, load: &Load, share: f64) -> Theory {
        let mean = load.mean_ns() / 1e9;
        let rate = share / mean;
        Theory::Is(match self {
            Self::Queue(1) => forms::mg1_fcfs_response(share, mean, load.square_ns() / 1e18),
            Self::Queue(workers) => forms::erlang_c_response(workers, share, mean),
            Self::Queues(_, DispatchRule::Random) => forms::mm1_response(share, mean),
            Self::Queues(workers, DispatchRule::RoundRobin) => forms::round_robin_response(workers, share, mean),
            Self::Queues(2, DispatchRule::JoinShortestQueue) => forms::shorter_of_two_response(share, mean),
            Self::Queues(workers, _) => {
                let most = forms::round_robin_response(workers, share, mean);
                return Theory::Between(forms::erlang_c_response(workers, share, mean), most);
            }
            Self::Quanta(_) | Self::Shared(Sharing::Processor) => forms::mg1_ps_response(share, mean),
            Self::Shared(Sharing::ShortestRemaining) => works.tail().srpt_response(rate),
            Self::Shared(Sharing::LeastAttained) => works.tail().las_response(rate),
        })
    }
}

/// Between these and by this exponent, in seconds.
const PARETO: (f64, f64, f64) = (10e-6, 1e-3, 1.5);

impl Works {
    fn load(self) -> anyhow::Result<Load> {
        let one = |work| Load::new(vec![Method::new("all", 1.0, work)]);
        Ok(match self {
            Self::Exponential => Load::exponential(100 * US),
            Self::Uniform => one(Work::Uniform { least: US, most: 199 * US })?,
            Self::Pareto => one(Work::Pareto { least: 10 * US, most: 1000 * US, alpha: PARETO.2 })?,
            Self::Bimodal => {
                let half = |name, us| Method::new(name, 1.0, Work::Fixed(us * US));
                Load::new(vec![half("short", 1), half("long", 199)])?
            }
        })
    }

    /// How likely work is longer than so many seconds.
    fn tail(self) -> Tail {
        const STEPS: usize = 200_000;
        match self {
            Self::Exponential => Tail::new(4e-3, STEPS, |work| (-work / 100e-6).exp()),
            Self::Uniform => Tail::new(200e-6, STEPS, |work| ((199e-6 - work) / 198e-6).clamp(0.0, 1.0)),
            Self::Pareto => {
                let (least, most, alpha) = PARETO;
                let end = (least / most).powf(alpha);
                Tail::new(most, STEPS, move |work| ((least / work.max(least)).powf(alpha) - end) / (1.0 - end))
            }
            Self::Bimodal => Tail::new(200e-6, STEPS, |work| match work {
                ..1e-6 => 1.0,
                ..199e-6 => 0.5,
                _ => 0.0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is claimed of ten million jobs holds roughly of few.
    #[test]
    fn each_case_is_near_to_theory() {
        for form in &FORMS {
            let found = form.run(100_000).expect("it can be meant");
            match found.get("over_theory") {
                Some(ratio) => assert!((0.9..1.1).contains(ratio), "{}: {ratio}", form.name),
                None => assert!(found["over_least"] > 1.0 && found["over_most"] < 1.0, "{}: {found:?}", form.name),
            }
        }
    }

    /// The tails that theory goes by are of the works that are drawn.
    #[test]
    fn tails_have_the_means_of_their_works() {
        for works in [Works::Exponential, Works::Uniform, Works::Pareto] {
            let mean = works.load().expect("it can be meant").mean_ns() / 1e9;
            // Where hardly anything is asked for, a job takes its work.
            let ratio = works.tail().srpt_response(1e-6 / mean) / mean;
            assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
        }
    }
}
