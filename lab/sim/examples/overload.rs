//! What each order keeps in time where more comes than can be served, in virtual time:
//! `cargo run --release -p greenwave-sim --example overload [REQUESTS]`.

use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::Work;
use greenwave_sim::graph::{Class, Graph, GraphError, Stage, run};
use std::time::Duration;

const ORDERS: [Order; 4] = [Order::Fcfs, Order::EarliestDeadline, Order::LeastLaxity, Order::Guarded];

fn main() -> Result<(), GraphError> {
    let requests = std::env::args().nth(1).and_then(|requests| requests.parse().ok()).unwrap_or(30_000);
    let normal = |mean, deviation| Work::Normal { mean: ms(mean), deviation: ms(deviation) };
    let part = normal(44.8, 30.0);
    let chain = [8.0, 9.0, 8.0].map(|mean| Stage::new(1, normal(mean, 3.0)));
    // As processes that share a core: of a work's length they know nothing but what they take themselves.
    let shared = Stage { share: 1.0 / 18.0, ..Stage::parallel(18, normal(0.6, 0.4), Some(normal(0.2, 0.1))) };
    let services: [(&str, Vec<Stage>, [f64; 3]); 4] = [
        ("chain", chain.to_vec(), [50.0, 200.0, 800.0]),
        ("unit", vec![Stage::new(8, part)], [150.0, 300.0, 1000.0]),
        ("fan-out", vec![Stage { workers: 8, ..Stage::parallel(18, part, None) }], [150.0, 300.0, 1000.0]),
        ("one core", vec![shared], [150.0, 500.0, 2000.0]),
    ];
    println!("in time of all, and of those with the tightest, the middle and the widest deadlines");
    for (name, stages, deadlines) in services {
        let mut graph = Graph::new(stages, Order::Fcfs);
        let class = |deadline: f64| Class { name: format!("{deadline} ms"), share: 1.0, deadline: Some(ms(deadline)) };
        graph.classes = deadlines.map(class).to_vec();
        let capacity = 1.0 / graph.busiest(1.0);
        for (refused, admission) in [("all let in", None), ("admission", Some(AdmissionConfig::default()))] {
            graph.admission = admission;
            for load in [0.8, 0.95, 1.12, 1.5] {
                for order in ORDERS {
                    graph.order = order;
                    let outcome = run(&graph, load * capacity, requests, Seed::new(1))?;
                    let classes: Vec<String> =
                        outcome.classes.iter().map(|class| format!("{:.3}", class.good())).collect();
                    println!(
                        "{name:8} {refused:10} {load:4} {order:13} {:.3} ({})",
                        outcome.good(),
                        classes.join(", ")
                    );
                }
            }
        }
    }
    Ok(())
}

fn ms(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1e3)
}
