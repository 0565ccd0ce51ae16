//! The generator against a real server over TCP.

use std::time::Duration;

use greenwave::{Address, ChannelConfig, Code, Router, Server, ServerConfig, ServerHandle, Status};
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::rpc::{AT_ONCE, Patience, RpcTarget};
use greenwave_bench::stages::Sample;
use greenwave_bench::target::{Request, Rotation, Target as _};

const MINUTE: Duration = Duration::from_secs(60);

fn serve(router: Router, report_only: bool) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse().expect("an address")];
    Server::start(ServerConfig::default().listen(listen).report_only(report_only), router).expect("a free port")
}

fn echo() -> Router {
    Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    })
}

fn drive(address: &Address, method: &str, deadline: Duration, patience: Patience) -> Measured {
    let config = ChannelConfig::default();
    let mut target = RpcTarget::connect(address, &config, method, "echo", patience).expect("a completion queue");
    let arrivals = Arrivals::Poisson { per_second: 1000.0 };
    let time = Duration::from_millis(200);
    let plan = Plan { warm_up: Duration::ZERO, drain: MINUTE, ..Plan::new(arrivals, Classes::single(deadline), time) };
    load::run(&plan, &mut target, &mut Rotation::single(vec![7; 64]), &mut Progress::hidden())
}

#[test]
fn every_request_is_answered_once_with_the_receipts_of_its_stage() {
    let server = serve(echo(), false);
    let measured = drive(&server.addresses()[0], "test.Echo/Echo", MINUTE, Patience::Enforced);
    assert!(measured.total.scheduled > 100);
    assert_eq!(measured.total.good, measured.total.scheduled);
    assert_eq!((measured.strays, measured.work.unknown), (0, 0));
    assert_eq!(measured.stages.len(), 1);
    assert_eq!(measured.stages[0].name, "echo");
    assert_eq!(measured.stages[0].service.count(), measured.total.scheduled);
    let within = |sample: &&Sample| sample.stages[0].total <= sample.latency;
    assert_eq!(measured.samples.iter().find(|sample| !within(sample)), None);
}

#[test]
fn failures_are_counted_by_their_reason() {
    let router = Router::new().method("test.Echo/Fail", |_, _, _| Err(Status::new(Code::Internal, "as always")));
    let server = serve(router, false);
    let address = &server.addresses()[0];
    for (method, name) in [("test.Echo/Fail", "error"), ("test.Echo/None", "unknown-method")] {
        let measured = drive(address, method, MINUTE, Patience::Enforced);
        assert_eq!(measured.total.misses.get(name), Some(&measured.total.scheduled), "{method}");
    }
}

#[test]
fn a_deadline_that_nothing_can_meet_is_missed_and_one_only_observed_is_answered_late() {
    let server = serve(echo(), true);
    let address = &server.addresses()[0];
    let enforced = drive(address, "test.Echo/Echo", Duration::ZERO, Patience::Enforced);
    assert_eq!((enforced.total.good, enforced.total.results.count()), (0, 0));
    let observed = drive(address, "test.Echo/Echo", Duration::ZERO, Patience::Observed);
    assert_eq!((observed.total.good, observed.total.results.count()), (0, observed.total.scheduled));
}

#[test]
fn answers_are_taken_in_portions_so_that_what_is_due_can_be_sent_in_between() {
    const CALLS: u64 = 10 * AT_ONCE as u64;
    let server = serve(echo(), false);
    let config = ChannelConfig::default();
    let address = &server.addresses()[0];
    let mut target = RpcTarget::connect(address, &config, "test.Echo/Echo", "echo", Patience::Observed).unwrap();
    let class = Class::new("all", 1.0, MINUTE);
    for tag in 0..CALLS {
        let scheduled = target.now();
        target.submit(&Request { tag, class: &class, class_index: 0, scheduled, payload: b"x" }).unwrap();
    }
    let mut answered = 0;
    while answered < CALLS {
        target.wait(target.now() + MINUTE);
        let before = answered;
        target.poll(&mut |_| answered += 1);
        assert!((1..=AT_ONCE as u64).contains(&(answered - before)), "{}", answered - before);
    }
}
