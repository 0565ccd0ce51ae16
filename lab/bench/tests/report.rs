//! The page, made from a run in virtual time.

use std::time::Duration;

use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::machine::Machine;
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::report::{Data, Run, Service, System, page};
use greenwave_bench::target::{Answer, Reply, Request, Rotation, StageReceipt, Target};
use greenwave_policy::Time;

const MS: Duration = Duration::from_millis(1);

/// Answers each request after a time of its own; `stages` are shown to have had it, one behind the other.
struct Calm {
    now: Time,
    service: Duration,
    stages: usize,
    due: Vec<(Time, u64)>,
}

impl Target for Calm {
    fn now(&self) -> Time {
        self.now
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        self.due.push((self.now + self.service, request.tag));
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        let now = self.now;
        let names: Vec<String> = (0..self.stages).map(|number| format!("shard-{number}")).collect();
        let (network, queue, service, total) = (MS / 10, MS / 10, MS / 2, MS);
        let receipt = |name| StageReceipt { name, depth: 1, sent: MS / 10, network, queue, service, total };
        let stages: Vec<_> = names.iter().map(|name| receipt(name.as_str())).collect();
        self.due.retain(|&(at, tag)| {
            if at <= now {
                sink(Reply { tag, received: at, answer: Answer::Ok, stages: &stages });
            }
            at > now
        });
    }

    fn wait(&mut self, until: Time) {
        let answer = self.due.iter().map(|(at, _)| *at).min().unwrap_or(Time::MAX);
        self.now = self.now.max(answer.min(until));
    }
}

fn measured(service: Duration, stages: usize) -> Measured {
    let classes = Classes::new(vec![Class::new("tight", 1.0, 5 * MS), Class::new("loose", 1.0, 50 * MS)]);
    let plan = Plan::new(Arrivals::Poisson { per_second: 1000.0 }, classes.expect("valid"), 1000 * MS);
    let mut target = Calm { now: Time::ZERO, service, stages, due: Vec::new() };
    load::run(&plan, &mut target, &mut Rotation::new(vec![]), &mut Progress::hidden())
}

fn data(runs: Vec<Run>) -> Data {
    let system = |name: &str| System { name: name.into(), about: "a <system> & more".into() };
    Data {
        title: "A \"title\" <script>alert(1)</script>".into(),
        commit: "0123456789ab".into(),
        machine: Machine::this(),
        systems: vec![system("fifo"), system("edf")],
        services: vec![Service { name: "chain".into(), about: String::new(), capacity_per_s: 1000.0, runs }],
        ..Data::default()
    }
}

#[test]
fn the_page_asks_for_nothing_from_outside_and_no_name_can_break_it() {
    let html = page(&data(vec![Run::new("fifo", 0.9, &measured(MS, 3)), Run::new("edf", 0.9, &measured(2 * MS, 3))]));
    for outside in ["http://", "https://", "src=", "url(", "@import", "<link", "<script"] {
        assert!(!html.contains(outside), "the page contains {outside}");
    }
    assert!(html.contains("&lt;script&gt;"));
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
}

#[test]
fn what_got_worse_is_listed_as_well_as_what_got_better() {
    let slow = Run::new("edf", 0.9, &measured(20 * MS, 3));
    let html = page(&data(vec![Run::new("fifo", 0.9, &measured(MS, 3)), slow.clone()]));
    let worse = html.split("Worse than fifo").nth(1).and_then(|rest| rest.split("</div>").next()).expect("a list");
    assert!(worse.contains("tight missed") && worse.contains("loose p99"), "{worse}");

    let html = page(&data(vec![Run { system: "fifo".into(), ..slow }, Run::new("edf", 0.9, &measured(MS, 3))]));
    let better = html.split("Better than fifo").nth(1).and_then(|rest| rest.split("</div>").next()).expect("a list");
    assert!(better.contains("tight missed") && better.contains("loose p99"), "{better}");
}

#[test]
fn many_stages_of_one_depth_are_shown_as_one() {
    let run = Run::new("fifo", 0.9, &measured(MS, 18));
    assert_eq!(run.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), ["shard × 18"]);
    assert!(page(&data(vec![run])).contains("more that answered earlier"));
}

#[test]
fn a_page_about_nothing_is_still_a_page() {
    let nothing = Measured { samples: vec![], stages: vec![], ..measured(Duration::from_secs(100), 0) };
    for data in [Data::default(), data(vec![]), data(vec![Run::new("fifo", 0.9, &nothing)])] {
        let html = page(&data);
        assert!(html.ends_with("</html>\n") && !html.contains("NaN") && !html.contains("inf"));
    }
}

#[test]
fn the_data_of_a_page_survive_json() {
    let data = data(vec![Run::new("fifo", 0.9, &measured(MS, 3))]);
    let text = serde_json::to_string(&data).expect("plain data");
    assert_eq!(page(&serde_json::from_str(&text).expect("as written")), page(&data));
}
