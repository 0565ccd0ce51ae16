//! What long jobs get.

use super::systems::{ASSUMED, OF_HEADS, System, TQ, ns, short, two_level, with_quantum};
use crate::claim::{Claim, Figure, Table, Verdict, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::Order;
use greenwave_sim::Seed;
use greenwave_sim::cores::search::{Found, highest};
use greenwave_sim::cores::{Cores, Costs, Histogram, Load, Plan, Report, run};

/// How many times its work a long job may take: the work doesn't say, and this is what it asks of all jobs of TPC-C.
const LIMIT: f64 = 10.0;

/// With a share like that of other figures a value would agree that says the opposite: some of the work's are hardly above 1.
const NEAR: Within = Within::Share(0.1);

/// Shares of the capacity that are light, medium and heavy load.
const LOADS: [f64; 3] = [0.3, 0.5, 0.8];

/// Where the medium and the heavy one stand in [`LOADS`].
const MEDIUM: usize = 1;
const HEAVY: usize = 2;

/// A workload, and so many jobs of it that thousands are long, or hundreds with `--quick`.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    jobs: u64,
}

const EXTREME: Workload = Workload { name: "extreme", jobs: 8_000_000 };
const HIGH: Workload = Workload { name: "high", jobs: 600_000 };
const TPCC: Workload = Workload { name: "tpcc", jobs: 1_000_000 };
const FEW_SCANS: Workload = Workload { name: "rocksdb-0.5", jobs: 8_000_000 };
const MANY_SCANS: Workload = Workload { name: "rocksdb-50", jobs: 100_000 };

/// Those whose rates are looked for.
const RATED: [Workload; 5] = [EXTREME, HIGH, TPCC, FEW_SCANS, MANY_SCANS];

/// Those of which times are shown.
const TIMED: [Workload; 3] = [EXTREME, HIGH, FEW_SCANS];

impl Workload {
    fn load(&self) -> Load {
        Load::named(self.name).unwrap_or_else(|| Load::exponential(ns(1000)))
    }

    fn plan(&self, effort: &Effort) -> Plan {
        Plan::new(effort.jobs(self.jobs))
    }

    /// The highest rate at which the p99.9 of the longest jobs is within so many times their work.
    fn highest(&self, cores: &Cores, limit: f64, effort: &Effort) -> Result<Found, ReproduceError> {
        let load = self.load();
        let work = load.methods().last().map_or(f64::NAN, |method| method.work.mean_ns());
        let is_good = |report: &Report| long_us(report) * 1e3 <= limit * work;
        Ok(highest(cores, &load, &self.plan(effort), Seed::new(effort.seed), effort.halvings(), is_good)?)
    }
}

/// The p99.9 of the longest jobs, in microseconds.
fn long_us(report: &Report) -> f64 {
    report.methods.last().map_or(f64::NAN, |times| times.quantile(0.999)) * 1e6
}

/// TQ's rate for the long jobs of a workload to that of another system, by the work.
struct Ratio {
    workload: Workload,
    system: System,
    /// `None`: it says only that TQ's is the highest.
    theirs: Option<f64>,
}

const RATIOS: [Ratio; 6] = [
    Ratio { workload: EXTREME, system: System::Shinjuku, theirs: Some(1.8) },
    Ratio { workload: EXTREME, system: System::Caladan, theirs: Some(1.2) },
    Ratio { workload: HIGH, system: System::Shinjuku, theirs: None },
    Ratio { workload: HIGH, system: System::Caladan, theirs: None },
    Ratio { workload: FEW_SCANS, system: System::Shinjuku, theirs: Some(1.63) },
    Ratio { workload: MANY_SCANS, system: System::Shinjuku, theirs: Some(1.13) },
];

impl Ratio {
    fn claim(&self, ours: f64) -> Claim {
        let to = match self.system {
            System::Shinjuku => "the centralised one",
            other => other.name(),
        };
        let what = format!("{}: TQ's rate for long jobs to that of {to}", self.workload.name);
        match self.theirs {
            Some(theirs) => Claim::new(what, theirs, ours, NEAR),
            None => Claim::new(what, 1.0, ours, Within::AtLeast).in_words("TQ's is the highest"),
        }
    }
}

/// Rates at which long jobs are well served, and their times at several loads.
pub(crate) fn long(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            format!(
                "Long jobs: those of 500 us (extreme), 100 us (high), StockLevel of 100 us (tpcc) and SCANs of 675 us (rocksdb). \
                 The work says how many times the others' rate TQ carries for them, and not how long they may take: here the \
                 p99.9 within {} times their work, which is what the work asks of all jobs of TPC-C. It says, too, that at medium \
                 load first come, first served is sooner done with long jobs than TQ, and not which load that is: here half of \
                 the capacity. Its ratios count as ours within a tenth: with more, a value could agree that says the opposite.",
                number(LIMIT),
            ),
            ASSUMED.to_owned(),
            OF_HEADS.to_owned(),
        ],
        ..Figure::default()
    };
    rates(effort, &mut figure)?;
    times(effort, &mut figure)?;
    Ok(figure)
}

const SYSTEMS: usize = System::ALL.len();

fn position(system: System) -> usize {
    System::ALL.iter().position(|it| *it == system).unwrap_or(0)
}

fn rates(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let items: Vec<_> = RATED.iter().flat_map(|workload| System::ALL.map(|system| (workload, system))).collect();
    let found =
        parallel::map(effort.threads, &items, |(workload, system)| workload.highest(&system.cores(), LIMIT, effort));
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    let rate = |workload: &Workload, system| {
        let row = RATED.iter().position(|rated| rated.name == workload.name).unwrap_or(0);
        found[row * SYSTEMS + position(system)].per_second
    };
    let mut table = Table::new(
        "The highest rate at which the p99.9 of long jobs stays within ten times their work, in millions of jobs of all kinds a \
         second; the share of the workers' capacity in brackets.",
        &["workload"],
    );
    table.head.extend(System::ALL.map(|system| system.name().to_owned()));
    for (workload, found) in RATED.iter().zip(found.chunks(SYSTEMS)) {
        let shown = found.iter().map(|found| format!("{} ({})", number(found.per_second / 1e6), number(found.share)));
        table.row(std::iter::once(workload.name.to_owned()).chain(shown));
    }
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    figure.tables.push(table);
    let ours = |ratio: &Ratio| [System::Tq, ratio.system].map(|system| rate(&ratio.workload, system));
    let claims = explained(effort, figure, &RATIOS.each_ref().map(ours))?;
    figure.claims.extend(claims);
    let what = "tpcc: the rate of FCFS with stealing for long jobs to that of the centralised one";
    let of_fcfs = rate(&TPCC, System::Caladan) / rate(&TPCC, System::Shinjuku);
    figure
        .claims
        .push(Claim::new(what, 1.0, of_fcfs, Within::AtLeast).in_words("FCFS carries more long jobs, as we read it"));
    Ok(())
}

fn times(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let fcfs = with_quantum(&two_level(Order::ProcessorSharing).with_costs(TQ), None);
    let systems: Vec<(&str, Cores)> =
        System::ALL.iter().map(|system| (system.name(), system.cores())).chain([("TQ, workers FCFS", fcfs)]).collect();
    let items: Vec<_> = TIMED
        .iter()
        .flat_map(|workload| systems.iter().flat_map(move |(_, cores)| LOADS.map(|share| (workload, cores, share))))
        .collect();
    let reports = parallel::map(effort.threads, &items, |(workload, cores, share)| {
        let plan = Plan { most_unfinished: 200_000, ..workload.plan(effort).with_share(*share) };
        run(cores, &workload.load(), &plan, Seed::new(effort.seed))
    });
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    reports.iter().for_each(|report| figure.note(report.hash));
    let mut table = Table::new(
        "How long long jobs take by the load, a share of the workers' capacity: the mean and the p99.9 in us.",
        &["workload", "load"],
    );
    table.head.extend(systems.iter().map(|(name, _)| (*name).to_owned()));
    let of = |workload: usize, system: usize, load: usize| {
        &reports[(workload * systems.len() + system) * LOADS.len() + load]
    };
    for (row, workload) in TIMED.iter().enumerate() {
        for (load, share) in LOADS.iter().enumerate() {
            let shown = (0..systems.len()).map(|system| match of(row, system, load) {
                report if !report.is_sustained() => "overload".to_owned(),
                report => report.methods.last().map_or_else(String::new, |times| {
                    format!("{}, {}", number(times.mean() * 1e6), number(times.quantile(0.999) * 1e6))
                }),
            });
            table.row([workload.name.to_owned(), number(*share)].into_iter().chain(shown));
        }
    }
    figure.tables.push(table);
    let at = |load: usize, workload: usize, other: usize| {
        long_us(of(workload, position(System::Tq), load)) / long_us(of(workload, other, load))
    };
    let mean = |report: &Report| report.methods.last().map_or(f64::NAN, Histogram::mean);
    let to = |workload: usize, other: usize| at(MEDIUM, workload, other);
    let (central, fcfs, of_workers) = (position(System::Shinjuku), position(System::Caladan), SYSTEMS);
    let claim = |name: &str, theirs: f64, ours: f64, within: Within, says: &str| {
        let what = format!("{name}, at half of the capacity");
        Claim::new(what, theirs, ours, within).in_words(says)
    };
    let higher = Within::AtLeast;
    figure.claims.extend([
        claim(
            "extreme: TQ's p99.9 of long jobs to that of FCFS with stealing",
            1.0,
            to(0, fcfs),
            higher,
            "FCFS's is lower at medium load",
        ),
        claim(
            "high: TQ's p99.9 of long jobs to that of FCFS with stealing",
            1.0,
            to(1, fcfs),
            higher,
            "TQ's is higher",
        ),
        claim(
            "high: TQ's p99.9 of long jobs to that of the centralised one",
            1.0,
            to(1, central),
            Within::Share(0.25),
            "comparable",
        ),
    ]);
    let what = "rocksdb-0.5: TQ's p99.9 of long jobs to that of TQ with workers FCFS";
    let kinder = claim(what, 1.0, to(2, of_workers), higher, "FCFS is kinder to long jobs");
    let heavy = at(HEAVY, 2, of_workers);
    let is_so = Claim { ours: heavy, ..kinder.clone() }.verdict() == Verdict::Agrees;
    figure.claims.push(if is_so {
        kinder.because(format!(
            "At which load isn't said: at {} of the capacity it is {}. At half the mean is {} times as long in TQ, and only the \
             tail is shorter.",
            LOADS[HEAVY],
            number(heavy),
            number(mean(of(2, position(System::Tq), MEDIUM)) / mean(of(2, of_workers, MEDIUM))),
        ))
    } else {
        kinder
    });
    Ok(())
}

/// What may be other in the work than assumed here: how long long jobs may take, or what a system costs.
struct Variant {
    what: &'static str,
    limit: f64,
    /// Whose costs are other ones.
    of: Option<System>,
    costs: fn(Costs) -> Costs,
}

/// Each ratio that differs is explained by the first of these that gives the work's.
const VARIANTS: [Variant; 6] = [
    Variant { what: "within 5 times", limit: 5.0, of: None, costs: |costs| costs },
    Variant { what: "within 20 times", limit: 20.0, of: None, costs: |costs| costs },
    Variant {
        what: "a first turn of 400 ns",
        limit: LIMIT,
        of: Some(System::Shinjuku),
        costs: |costs| Costs { dispatch: ns(400), ..costs },
    },
    Variant {
        what: "a first turn of 300 ns",
        limit: LIMIT,
        of: Some(System::Shinjuku),
        costs: |costs| Costs { dispatch: ns(300), ..costs },
    },
    Variant {
        what: "I/O of 1 us",
        limit: LIMIT,
        of: Some(System::Caladan),
        costs: |costs| Costs { io: ns(1000), ..costs },
    },
    Variant {
        what: "TQ's probes and switches for nothing",
        limit: LIMIT,
        of: Some(System::Tq),
        costs: |costs| Costs { probes: 0.0, switch: ns(0), ..costs },
    },
];

impl Variant {
    fn concerns(&self, ratio: &Ratio) -> bool {
        self.of.is_none_or(|of| of == ratio.system || of == System::Tq)
    }

    fn cores(&self, system: System) -> Cores {
        let cores = system.cores();
        if self.of != Some(system) {
            return cores;
        }
        Cores { costs: (self.costs)(cores.costs), ..cores }
    }

    /// Why a ratio may be another, if with this variant it is the work's; for costs that were fitted, what the exponential
    /// workload's is then.
    fn reason(&self, ours: f64, exponential: Option<f64>) -> String {
        let (what, ours) = (self.what, number(ours));
        match (self.of, exponential) {
            (None, _) => format!("How long long jobs may take isn't said: {what} their work, it is {ours}."),
            (Some(System::Tq), _) => format!(
                "With {what} it is {ours}: what they cost in the work isn't stated, and first come, first served has no such costs."
            ),
            (Some(_), exponential) => format!(
                "It is what the other system needs for each job that decides: with {what} it is {ours}. That cost was fitted to \
                 the exponential workload, whose ratio would be {} then; so this one cost, the same for all workloads, doesn't \
                 give both.",
                number(exponential.unwrap_or(f64::NAN)),
            ),
        }
    }
}

/// What of TQ and of the other is claimed, with the reasons that there are: by simulations with each variant. `rates` are those
/// of TQ and the other, as assumed.
fn explained(effort: &Effort, figure: &mut Figure, rates: &[[f64; 2]]) -> Result<Vec<Claim>, ReproduceError> {
    let items: Vec<(&Ratio, &Variant, System)> = RATIOS
        .iter()
        .flat_map(|ratio| VARIANTS.iter().map(move |variant| (ratio, variant)))
        .filter(|(ratio, variant)| variant.concerns(ratio))
        .flat_map(|(ratio, variant)| [System::Tq, ratio.system].map(|system| (ratio, variant, system)))
        .collect();
    let found = parallel::map(effort.threads, &items, |(ratio, variant, system)| {
        let is_other = variant.of.is_none_or(|of| of == *system);
        is_other.then(|| ratio.workload.highest(&variant.cores(*system), variant.limit, effort)).transpose()
    });
    let mut found = found.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let exponential = exponential(effort, figure)?;
    let mut table = Table::new(
        "The ratios if long jobs may take other times their work, and with other costs of one of the two.",
        &["workload", "to", "the work", "ours"],
    );
    table.head.extend(VARIANTS.map(|variant| variant.what.to_owned()));
    let mut claims = Vec::new();
    for (ratio, [tq, other]) in RATIOS.iter().zip(rates) {
        let claim = ratio.claim(tq / other);
        let mut reason = None;
        let theirs = ratio.theirs.map_or_else(|| "TQ's is the highest".to_owned(), number);
        let mut row = vec![ratio.workload.name.to_owned(), ratio.system.name().to_owned(), theirs, number(claim.ours)];
        for (variant, exponential) in VARIANTS.iter().zip(&exponential) {
            if !variant.concerns(ratio) {
                row.push(String::new());
                continue;
            }
            let mut rate = |assumed: f64| {
                let found = found.next().flatten();
                figure.note(found.as_ref().and_then(|found| found.report.as_ref()).map_or(0, |report| report.hash));
                found.map_or(assumed, |found| found.per_second)
            };
            let ours = rate(*tq) / rate(*other);
            row.push(number(ours));
            if (Claim { ours, ..claim.clone() }).verdict() == Verdict::Agrees {
                reason = reason.or_else(|| Some(variant.reason(ours, *exponential)));
            }
        }
        table.row(row);
        claims.push(Claim { reason, ..claim });
    }
    figure.tables.push(table);
    Ok(claims)
}

/// TQ's rate to that of the system whose costs a variant changes, with the exponential workload and jobs within 50 us; of each
/// variant of others' costs.
fn exponential(effort: &Effort, figure: &mut Figure) -> Result<Vec<Option<f64>>, ReproduceError> {
    let load = Load::exponential(ns(1000));
    let of = |variant: &Variant| variant.of.filter(|of| *of != System::Tq).map(|system| variant.cores(system));
    let items: Vec<Option<Cores>> = std::iter::once(Some(System::Tq.cores())).chain(VARIANTS.iter().map(of)).collect();
    let found = parallel::map(effort.threads, &items, |cores| {
        let plan = Plan::new(effort.jobs(4_000_000));
        let is_good = |report: &Report| short(report) <= 50.0;
        let search = |cores| highest(cores, &load, &plan, Seed::new(effort.seed), effort.halvings(), is_good);
        cores.as_ref().map(search).transpose()
    });
    let found: Vec<Option<Found>> = found.into_iter().collect::<Result<_, _>>()?;
    let reports = found.iter().flatten().filter_map(|found| found.report.as_ref());
    reports.for_each(|report| figure.note(report.hash));
    let rates: Vec<Option<f64>> = found.iter().map(|found| found.as_ref().map(|found| found.per_second)).collect();
    Ok(rates[1..].iter().map(|rate| rates[0].zip(*rate).map(|(tq, other)| tq / other)).collect())
}
