//! Completion queues keep to what is known of closed loops, and heads give away what others can take.

use greenwave_policy::StealRule;
use greenwave_sim::Seed;
use greenwave_sim::clusters::{
    Access, Clients, ClustersError, Costs, Interface, Outcome, Server, Serving, Stealing, Taking, Waiting, run,
};
use greenwave_sim::cores::Work;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const SHARED: Access = Access::Shared { look: Duration::ZERO };

fn server(cores: usize, serving: Serving) -> Server {
    let costs = Costs { call: 2 * US, ..Costs::default() };
    Server { cores, serving, costs, interfaces: vec![Interface::default()], batch: 1 }
}

const fn clusters(heads: usize) -> Serving {
    Serving::Clusters { heads, steal: None }
}

/// A wire of 5 us each way, and handlers of 1 us.
fn clients(callers: &[u32], access: Access) -> Clients {
    let (wire, jitter) = (5 * US, Duration::from_nanos(50));
    Clients { callers: callers.to_vec(), credits: 64, access, own: Duration::ZERO, wire, jitter, work: Work::Fixed(US) }
}

fn outcome(server: &Server, clients: &Clients) -> Outcome {
    run(server, clients, 20_000, Seed::new(1)).unwrap()
}

fn near(this: f64, that: f64, within: f64, what: &str) {
    assert!((this / that - 1.0).abs() < within, "{what}: {this} and {that}");
}

/// One call takes the sum of its parts; many are as many a second as the heads can serve.
#[test]
fn a_closed_loop_is_limited_by_its_round_trip_and_then_by_the_heads() {
    let alone = outcome(&server(4, clusters(4)), &clients(&[1], Access::Direct));
    near(alone.latency.mean(), 13e-6, 0.02, "alone");
    let parts = alone.parts;
    near(parts.client + parts.network + parts.waiting + parts.service, alone.latency.mean(), 0.01, "parts");
    near(parts.service, 3e-6, 0.01, "service");
    let many = outcome(&server(4, clusters(4)), &clients(&[1; 64], Access::Direct));
    near(many.per_second, 4.0 / 3e-6, 0.01, "four heads");
    // By Little's law.
    near(many.latency.mean(), 64.0 / many.per_second, 0.02, "64 callers");
}

/// A dispatcher hands over one after the other, an interface posts one after the other, and together is cheaper.
#[test]
fn a_dispatcher_and_an_interface_are_limits() {
    let mut shared = server(8, Serving::Shared);
    shared.costs.hand_over = US;
    near(outcome(&shared, &clients(&[1; 64], Access::Direct)).per_second, 1e6, 0.01, "handed over");
    let mut posts = server(16, clusters(16));
    posts.interfaces = vec![Interface { post: US, reply: US / 10 }];
    let eights = clients(&[8; 32], SHARED);
    near(outcome(&posts, &eights).per_second, 1e6 / 1.1, 0.01, "one by one");
    posts.batch = 8;
    assert!(outcome(&posts, &eights).per_second > 2e6);
}

/// Each interface has its own heads and its own limit: what one can't post, the other doesn't, and its heads take no calls of
/// the other's.
#[test]
fn interfaces_have_pools_of_their_own() {
    let (fast, slow) = (Interface { post: US / 2, reply: US / 2 }, Interface { post: 2 * US, reply: 2 * US });
    let steal =
        Stealing { rule: StealRule { least_work: Duration::ZERO, ..StealRule::default() }, taking: Taking::BeforeOwn };
    let with = |interfaces: &[Interface], steal, callers: &[u32]| {
        let serving = Serving::Clusters { heads: 4, steal };
        outcome(&Server { interfaces: interfaces.to_vec(), ..server(8, serving) }, &clients(callers, SHARED))
    };
    let many = [1; 128];
    let [alone, beside, both] = [&[fast][..], &[slow], &[fast, slow]].map(|of| with(of, None, &many).per_second);
    near(alone, 1e6, 0.01, "the fast one");
    near(beside, 0.25e6, 0.01, "the slow one");
    near(both, alone + beside, 0.01, "both");
    // The first interface's first head has 32 callers, and the other interface one: three heads help, not seven.
    let pools = with(&[Interface::default(); 2], Some(steal), &[32, 1]);
    assert!(pools.stolen > 0);
    near(pools.per_second, 4.0 / 3e-6 + 1.0 / 13e-6, 0.05, "four heads and one caller more");
}

/// Threads that spin wait for one another's slices; threads that sleep only for one another's calls.
#[test]
fn more_spinning_threads_than_cores_keep_one_another_waiting() {
    let with = |waiting, connections| {
        let mut server = server(4, Serving::PerConnection(waiting));
        server.costs.wake = 3 * US;
        outcome(&server, &clients(&vec![1; connections], Access::Direct))
    };
    let spins = Waiting::Spins { slice: 100 * US, locks: false };
    near(with(spins, 4).latency.mean(), 13e-6, 0.02, "spinning");
    near(with(Waiting::Sleeps, 4).latency.mean(), 16e-6, 0.02, "sleeping");
    // As many are served as there are cores, and the others wait for a slice.
    near(with(spins, 8).per_second, with(spins, 4).per_second, 0.1, "twice as many spinning");
    assert!(with(spins, 8).latency.quantile(0.99) > 100e-6);
    assert!(with(Waiting::Sleeps, 8).per_second > 1.5 * with(Waiting::Sleeps, 4).per_second);
}

/// Who shares a lock is served one at a time; and whoever is taken from its core with the lock keeps all others waiting until
/// it runs again, which the more threads share the core the later it does.
#[test]
fn a_lock_is_kept_by_who_has_lost_its_core() {
    let rate = |connections| {
        let server = server(8, Serving::PerConnection(Waiting::Spins { slice: 1000 * US, locks: true }));
        // Calls don't come in step with slices.
        let clients = Clients { jitter: 4 * US, ..clients(&vec![1; connections], Access::Direct) };
        run(&server, &clients, 200_000, Seed::new(1)).unwrap().per_second
    };
    near(rate(1), 1.0 / 17e-6, 0.02, "alone");
    near(rate(8), 1.0 / 3e-6, 0.1, "one after the other");
    // A slice ends on each of eight cores once a slice, with the lock on one of them: it is missing for a slice then, or
    // for three.
    near(rate(16), 0.5 / 3e-6, 0.2, "two threads to a core");
    near(rate(32), 0.25 / 3e-6, 0.2, "four threads to a core");
}

/// A caller that has the connection for itself keeps the others waiting; a dispatcher serves one after the other.
#[test]
fn callers_on_one_connection_wait_for_it_or_for_the_dispatcher() {
    let four = server(4, clusters(4));
    let locked = outcome(&four, &clients(&[8], Access::Direct));
    near(locked.latency.mean(), 8.0 * 13e-6, 0.02, "with the connection for itself");
    near(locked.parts.client, 7.0 * 13e-6, 0.02, "waiting for it");
    near(outcome(&four, &clients(&[8], SHARED)).per_second, 1.0 / 3e-6, 0.01, "by one head");
    let each = 10 * US;
    let dispatched = outcome(&four, &clients(&[1; 8], Access::Dispatched { each, reach: US }));
    near(dispatched.per_second, 1e5, 0.01, "by the dispatcher");
    let few = Clients { credits: 2, ..clients(&[8], SHARED) };
    near(outcome(&four, &few).per_second, 2.0 / 14.5e-6, 0.15, "by two credits");
}

/// What comes to one head is served by all if it may be taken and is worth it.
#[test]
fn heads_take_what_is_given_away() {
    let rate = |steal: Option<StealRule>, work| {
        let steal = steal.map(|rule| Stealing { rule, taking: Taking::WithFewOwn });
        let clients = Clients { work: Work::Fixed(work), ..clients(&[16, 1, 1, 1], SHARED) };
        let stealing = Server { serving: Serving::Clusters { heads: 4, steal }, ..server(4, clusters(4)) };
        let outcome = outcome(&stealing, &clients);
        (outcome.per_second, outcome.stolen)
    };
    let (alone, none) = rate(None, 20 * US);
    let (shared, some) = rate(Some(StealRule::default()), 20 * US);
    // The first head's whole time, and the others' for a caller each; then all heads' whole time.
    near(alone, 1.0 / 22e-6 + 3.0 / 32e-6, 0.01, "alone");
    near(shared, 4.0 / 22e-6, 0.01, "shared");
    assert!(none == 0 && some > 0);
    assert_eq!(rate(Some(StealRule::default()), US), rate(None, US), "short calls are better done at once");
}

#[test]
fn same_seed_same_run_and_what_can_not_be_meant_is_refused() {
    let (four, many) = (server(4, clusters(4)), clients(&[3; 10], SHARED));
    assert_eq!(outcome(&four, &many), outcome(&four, &many));
    assert_ne!(outcome(&four, &many).hash, run(&four, &many, 20_000, Seed::new(2)).unwrap().hash);
    let refused = |server: &Server, clients: &Clients, calls| run(server, clients, calls, Seed::new(1)).unwrap_err();
    assert_eq!(refused(&server(1, Serving::Shared), &many, 1), ClustersError::Cores(1));
    assert_eq!(refused(&server(4, clusters(5)), &many, 1), ClustersError::Heads(5));
    let with =
        |interfaces, serving| Server { interfaces: vec![Interface::default(); interfaces], ..server(8, serving) };
    assert_eq!(refused(&with(0, clusters(4)), &many, 1), ClustersError::Interfaces(0));
    assert_eq!(refused(&with(2, Serving::Shared), &many, 1), ClustersError::Interfaces(2));
    assert_eq!(refused(&with(2, clusters(5)), &many, 1), ClustersError::Heads(5));
    let slow = Interface { post: Duration::from_secs(61), reply: US };
    assert_eq!(refused(&Server { interfaces: vec![slow], ..four.clone() }, &many, 1), ClustersError::Span(slow.post));
    assert_eq!(refused(&Server { batch: 0, ..four.clone() }, &many, 1), ClustersError::Batch);
    assert_eq!(refused(&four, &clients(&[], SHARED), 1), ClustersError::Callers);
    assert_eq!(refused(&four, &clients(&[1, 0], SHARED), 1), ClustersError::Callers);
    assert_eq!(refused(&four, &many, 0), ClustersError::Calls);
    let never = Serving::PerConnection(Waiting::Spins { slice: Duration::ZERO, locks: false });
    assert_eq!(refused(&server(4, never), &many, 1), ClustersError::Slice(Duration::ZERO));
    let long = Duration::from_secs(3600);
    assert_eq!(refused(&four, &Clients { wire: long, ..many.clone() }, 1), ClustersError::Span(long));
}
