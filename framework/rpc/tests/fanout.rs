//! Parallel units when branches are slow, dead or no longer wanted: in a handler, and on an ordinary thread.

mod echo;
mod raw;

use echo::{ECHO, MINUTE, NEVER};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use raw::within_reason;
use std::sync::Arc;
use std::time::Duration;

const ASK: MethodId = MethodId::of("test.Front/Ask");

fn start(name: &str, router: Router) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    Server::start(ServerConfig::default().listen(listen).name(name), router).unwrap()
}

fn echo(name: &str) -> ServerHandle {
    start(name, echo::echo())
}

/// One that serves the same methods, but none of them ever.
fn stuck(name: &str) -> ServerHandle {
    start(
        name,
        Router::new().method("test.Echo/Echo", |context, _, _| {
            while context.checkpoint().is_ok() {}
            context.checkpoint()
        }),
    )
}

fn channel(server: &ServerHandle) -> Channel {
    Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap()
}

/// A channel to where nobody listens.
fn dead() -> Channel {
    channel(&echo("gone"))
}

/// Does something on an ordinary thread, then in a handler, and hands out the receipt of the latter.
fn in_both(what: &str, job: impl Fn(&Context) + Clone + Send + Sync + 'static) -> Receipt {
    let ask = job.clone();
    within_reason(what, move || job(&Context::unlimited()));
    let front = start(
        "front",
        Router::new().method("test.Front/Ask", move |context, _, _| {
            ask(context);
            Ok(())
        }),
    );
    let reply = within_reason(what, move || channel(&front).call(&Context::unlimited(), ASK, b"").unwrap());
    reply.receipt
}

/// Nothing but the replica's answer can end the unit.
#[test]
fn a_replica_answers_for_a_server_that_is_gone() {
    let alive = channel(&*Box::leak(Box::new(echo("alive"))));
    in_both("a unit with a dead server", move |context| {
        let aggregator = Aggregator::new(AggregatorConfig::default());
        let replicas = [dead(), dead(), alive.clone()];
        let unit = aggregator.unit(context).branch_with_replicas(replicas, ECHO, b"who".to_vec());
        let partial = unit.branch(&dead(), ECHO, b"nobody".to_vec()).gather();
        assert_eq!(&partial.branches[0].result.as_ref().unwrap().body[..], b"who");
        assert_eq!(partial.branches[1].result.as_ref().unwrap_err().reason, Reason::Unreachable);
    });
}

#[test]
fn a_hedge_answers_for_a_server_that_is_slow() {
    let (quick, slow) = (Arc::new(echo("quick")), Arc::new(stuck("slow")));
    let servers = Arc::clone(&slow);
    in_both("a unit with a slow server", move |context| {
        let config = AggregatorConfig::default().hedge_ratio(1.0).hedge_quantile(0.5);
        let aggregator = Aggregator::new(config);
        for _ in 0..20 {
            let unit = aggregator.unit(context).branch(&channel(&quick), ECHO, vec![]);
            assert!(unit.gather().is_complete());
        }
        // They stay, as who goes away takes its calls along.
        let replicas = [&slow, &quick].map(|server| Box::leak(Box::new(channel(server))).clone());
        let seen = || slow.counters().calls;
        let before = seen();
        // An attempt that is taken back before it was posted is never seen by the server.
        while seen() == before {
            let unit = aggregator.unit(context).branch_with_replicas(replicas.clone(), ECHO, b"hedged".to_vec());
            let partial = unit.gather();
            assert_eq!(&partial.branches[0].result.as_ref().unwrap().body[..], b"hedged");
            assert!(partial.branches[0].hedged);
        }
    });
    raw::eventually("the slow attempts are taken back", || {
        let counters = servers.counters();
        counters.calls >= 2 && counters.cancelled == counters.calls
    });
}

#[test]
fn a_unit_that_is_cancelled_ends_with_all_its_branches() {
    let never = Arc::new(echo("never"));
    let server = Arc::clone(&never);
    let statuses = within_reason("a cancelled unit", move || {
        let aggregator = Aggregator::new(AggregatorConfig::default());
        let context = Context::unlimited();
        std::thread::scope(|scope| {
            let gathering = scope.spawn(|| {
                let unit = aggregator.unit(&context);
                let partial = (0..3).fold(unit, |unit, _| unit.branch(&channel(&never), NEVER, vec![])).gather();
                partial.missing().map(|(_, status)| status.reason).collect::<Vec<_>>()
            });
            raw::eventually("all branches are served", || never.counters().calls == 3);
            context.cancel();
            gathering.join().unwrap()
        })
    });
    assert_eq!(statuses, [Reason::Cancelled; 3]);
    raw::eventually("the servers hear of it", || server.counters().cancelled == 3);
}

/// Where the time went is told of the branch that was given up as well, and first of the branch that was asked first.
#[test]
fn the_receipt_of_a_unit_names_the_branch_that_was_given_up() {
    let (quick, slow) = (Arc::new(echo("quick")), Arc::new(stuck("slow")));
    let front = start(
        "front",
        Router::new().method("test.Front/Ask", move |context, _, _| {
            let aggregator = Aggregator::new(AggregatorConfig::default());
            let limited = context.tighten(Duration::from_millis(30));
            let unit = aggregator.unit(&limited).branch(&channel(&slow), ECHO, vec![]);
            let partial = unit.branch(&channel(&quick), ECHO, vec![]).gather();
            assert_eq!(partial.replies().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
            Ok(())
        }),
    );
    let receipt = channel(&front).call(&Context::with_deadline(MINUTE), ASK, b"").unwrap().receipt;
    let branches: Vec<_> = receipt.children.iter().map(|stage| (stage.branch, stage.status)).collect();
    assert_eq!(branches, [(Some(0), Code::DeadlineExceeded), (Some(1), Code::Ok)]);
    assert!(receipt.children[0].round_trip() > receipt.children[1].round_trip());
    assert!(receipt.critical_path() > Duration::from_millis(20), "the time was waited for the slow one");
}

/// A unit whose time was up before it began, then a plain call: its outcome must not be taken for a branch's.
#[test]
fn a_call_after_a_unit_without_time_gets_its_own_answer() {
    let back = Arc::new(echo("back"));
    let front = start(
        "front",
        Router::new().method("test.Front/Ask", move |context, request, reply| {
            let channel = channel(&back);
            let aggregator = Aggregator::new(AggregatorConfig::default().aggregation(MINUTE * 10));
            let unit =
                aggregator.unit(context).branch(&channel, ECHO, b"1".to_vec()).branch(&channel, ECHO, b"2".to_vec());
            assert_eq!(unit.gather().missing().count(), 2, "putting together takes longer than there is time");
            reply.extend_from_slice(&channel.call(context, ECHO, request)?.body);
            Ok(())
        }),
    );
    let channel = channel(&front);
    for round in 0..20_u8 {
        let reply = channel.call(&Context::with_deadline(MINUTE), ASK, &[round]).unwrap();
        assert_eq!(&reply.body[..], [round]);
    }
}

/// A handler in front of a server that is gone, which says so as it heard it.
fn passing_on() -> ServerHandle {
    let behind = dead();
    let pass_on = move |context: &Context, _: &[u8], _: &mut Vec<u8>| behind.call(context, ECHO, b"").map(drop);
    start("front", Router::new().method("test.Echo/Echo", pass_on))
}

#[test]
fn a_refusal_from_behind_a_handler_does_not_say_that_the_handler_never_ran() {
    let context = Context::with_deadline(MINUTE);
    let told = |channel: &Channel, method| {
        let status = channel.call(&context, method, b"").unwrap_err();
        (status.reason, status.origin, status.never_ran())
    };
    let server = passing_on();
    let front = channel(&server);
    assert_eq!(told(&dead(), ECHO), (Reason::Unreachable, Origin::Here, true));
    assert_eq!(told(&front, MethodId::of("test.Echo/Unknown")), (Reason::UnknownMethod, Origin::Callee, true));
    assert_eq!(told(&front, ECHO), (Reason::Unreachable, Origin::Handler, false));
}

#[test]
fn a_replica_is_not_asked_what_a_handler_has_answered_with_a_refusal_from_behind_it() {
    let (front, replica) = (passing_on(), echo("replica"));
    let (aggregator, context) = (Aggregator::new(AggregatorConfig::default()), Context::with_deadline(MINUTE));
    let replicas = [channel(&front), channel(&replica)];
    let partial = aggregator.unit(&context).branch_with_replicas(replicas, ECHO, vec![]).gather();
    let status = partial.branches[0].result.as_ref().unwrap_err();
    assert_eq!((status.reason, status.origin), (Reason::Unreachable, Origin::Handler));
    assert_eq!(replica.counters().calls, 0);
}
