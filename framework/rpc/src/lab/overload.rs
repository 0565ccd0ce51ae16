//! More calls than can be served: they wait where they cost nothing, and none is served for nothing.

use super::*;
use greenwave_policy::AdmissionConfig;

const CALLS: u64 = 400;

/// A server that refuses who comes to a queue of 64, and lets a client have 16 chunks under way.
fn lab(order: Order) -> Lab {
    let server = ServerConfig::default().admission(AdmissionConfig::default().max_queue(64));
    let setup = Setup { delays: [MS / 20; 2], order: Some(order), server, ..Setup::default() };
    setup.limits(Limits::default().credits(16)).build().connected()
}

/// Calls that take so long each, all at once: their outcomes.
fn calls(lab: &mut Lab, within: Option<Duration>, takes: Duration) -> Vec<Completion> {
    for tag in 0..CALLS {
        let budget = within.map_or(Budget::UNLIMITED, Budget::expected);
        let context = Context::born(lab.now(), budget, true);
        lab.submit(&context, WORK, &(takes.as_nanos() as u64).to_le_bytes(), tag);
    }
    let done = lab.finish();
    assert_eq!(done.len() as u64, CALLS);
    done
}

#[test]
fn a_crowded_server_lets_clients_keep_their_calls_and_refuses_none() {
    let refused = |order| {
        let done = calls(&mut lab(order), None, MS / 10);
        done.iter().filter(|done| done.result.is_err()).count()
    };
    assert_eq!(refused(Order::Guarded), 0);
    assert!(refused(Order::Fcfs) > 100, "under this order nobody is kept from sending");
}

/// Where those wait whose turn comes too late, what the server does is all of use.
#[test]
fn nothing_is_served_for_nothing_where_twice_as_much_is_asked_for() {
    let mut lab = lab(Order::Guarded);
    // What a call takes is learned.
    for done in calls(&mut lab, None, MS / 10) {
        done.result.expect("nobody is in a hurry");
    }
    let done = calls(&mut lab, Some(20 * MS), MS / 10);
    let in_time = done.iter().filter(|done| done.result.is_ok()).count();
    assert!(in_time >= 190, "{in_time} of the 200 that there is time for");
    let sent = lab.counters().calls - CALLS;
    assert!(sent < 300, "{sent} were sent");
    assert_eq!(lab.counters().late, 0);
}
