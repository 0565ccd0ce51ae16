//! The main job, shown: three services, the usual scheduling, the deadline-aware one and the preemptive one, three loads,
//! one page.

use crate::comparison::{Times, measure_closed_loop, run};
use crate::fleet;
use crate::service::Service;
use crate::system::{FIFO, LEAST_LAXITY, PREEMPTIVE, System};
use anyhow::{Context as _, Result};
use clap::Args;
use greenwave::is_instrumented;
use greenwave_bench::progress::Progress;
use greenwave_bench::report::{self, Data, Run};
use greenwave_bench::result::Results;
use std::path::PathBuf;
use std::time::Duration;

/// Show three services under load, first come first served, by deadline and preempted, as a table and a page
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask demo
  cargo xtask demo --dir ~/notes --shards 6 --seconds 10 --out notes.html")]
pub(crate) struct Demo {
    /// The text that is searched and the crates that are recommended [default: the local Cargo registry].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Processes that a search is split over, 1 to 60: receipts have to hold them all.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u16).range(1..=60))]
    shards: u16,
    /// Seconds of load per run.
    #[arg(long, value_name = "S", default_value = "2.5", value_parser = crate::seconds)]
    seconds: Duration,
    /// Where the page goes [default: target/bench/demo.html].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides arrivals, classes and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Demo {
    /// Runs, prints the table, writes the page.
    pub(crate) fn run(self) -> Result<()> {
        let ms = Duration::from_millis;
        let load = self.seconds;
        let times = Times { rounds: 1, warm_up: ms(500), load, drain: ms(1000), capacity: ms(400), halvings: 0 };
        println!("preparing the chain's stores and the search index");
        if !is_instrumented() {
            eprintln!("note: built without cargo quanta, so nothing is preempted; `cargo xtask demo` builds it with");
        }
        let systems: Vec<System> = ALL.into_iter().filter(can_run).collect();
        let dir = self.dir.as_ref();
        let services =
            [Service::chain(dir, self.seed)?, Service::unit(dir, self.shards, self.seed)?, Service::kv(self.seed)?];
        let mut results = Results::new("demo");
        let mut data = Data::new(
            "Answers on time",
            "Three services under load: first come, first served, beside requests that carry their deadlines, and \
             handlers that give way.",
        );
        data.systems = systems
            .iter()
            .map(|system| report::System { name: system.name.into(), about: system.about.into() })
            .collect();
        let mut progress = Progress::new(services.len() * (1 + LOADS.len() * systems.len()));
        fleet::pin(1);
        for mut service in services {
            let capacity = measure_closed_loop(&mut service, &times.trial(), &mut progress)?;
            results.push(&format!("{}/capacity", service.case), FIFO.name, "capacity_per_s", capacity);
            let mut runs = Vec::new();
            for load in LOADS {
                for system in &systems {
                    progress.step(format!("{} {} at {load}", service.case, system.name));
                    let measured = run(&mut service, system, capacity * load, &times, self.seed, &mut progress)?;
                    results.push_load(&format!("{}/load-{load}", service.case), system.name, &measured);
                    runs.push(Run::new(system.name, load, &measured));
                }
            }
            data.services.push(report::Service {
                name: service.title.into(),
                about: service.about.clone(),
                capacity_per_s: capacity,
                runs,
            });
        }
        drop(progress);
        data.method = method(&times);
        println!("{}", results.table(&METRICS));
        let page = self.out.unwrap_or_else(|| greenwave_bench::result::bench_folder().join("demo.html"));
        greenwave_bench::result::write(&page, &report::page(&data)).context("writing the page")?;
        results.write()?;
        println!("\nthe page: {}", page.display());
        Ok(())
    }
}

/// Loads as shares of capacity.
const LOADS: [f64; 3] = [0.7, 0.9, 1.3];

/// All systems that are shown.
const ALL: [System; 3] = [FIFO, LEAST_LAXITY, PREEMPTIVE];

/// Whether this program has what a system takes.
fn can_run(system: &System) -> bool {
    is_instrumented() || system.quantum == FIFO.quantum
}

const METRICS: [&str; 16] = [
    "capacity_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "p999_ms",
    "goodput_per_s",
    "missed_share",
    "tight/missed_share",
    "normal/missed_share",
    "loose/missed_share",
    "tight/p99_ms",
    "get/missed_share",
    "get/p99_ms",
    "scan/missed_share",
    "scan/p99_ms",
    "wasted_work_share",
];

fn method(times: &Times) -> Vec<String> {
    vec![
        format!(
            "Open loop: requests arrive at random (Poisson) at a share of the measured capacity for {:?}, after {:?} \
             of warm-up, whether or not earlier ones were answered. Latency counts from the scheduled send.",
            times.load, times.warm_up
        ),
        "Capacity is what the service answers with 16 requests in flight, first come, first served.".into(),
        "Three classes: tight (a fifth of the requests), normal (half) and loose. Recommendations are wanted within \
         50, 200 and 800 ms, search results, which are more work, within 150, 500 and 2000 ms. The store has two: GETs are wanted within 0.5 ms, SCANs \
         within 50 ms."
            .into(),
        "All programs are built with probes; without a quantum they have nothing to do.".into(),
        "A request that is late, refused, unanswered or answered without some of the shards is a miss. Goodput counts answers within the deadline.".into(),
        "All processes of a service share core 0; the load generator has core 1. All systems get the same requests \
         at the same times, and the handlers do the same work under all of them."
            .into(),
    ]
}
