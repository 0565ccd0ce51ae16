//! Shares and criticality, over real sockets: whoever asks for most gets no more than its share, and no one's calls are refused for
//! what another's were like.

use greenwave_policy::{AdmissionConfig, Order};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const WORK: Method = Method::named("test.Mill/Work");
const SLOW: Method = Method::named("test.Mill/Slow");
const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);

fn spin(span: Duration) {
    let began = Instant::now();
    while began.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// How often the calls of each were served.
#[derive(Default)]
struct Served {
    hog: AtomicUsize,
    honest: AtomicUsize,
}

/// Grinds for as many microseconds as the request has bytes, or, if that is empty, waits for what never comes.
fn mill(served: &Arc<Served>) -> Router {
    let served = Arc::clone(served);
    Router::new().method(WORK.name().unwrap(), move |context, request, _| {
        match context.peer().principal() {
            Some("hog") => served.hog.fetch_add(1, SeqCst),
            _ => served.honest.fetch_add(1, SeqCst),
        };
        if request.is_empty() {
            let (_promise, never) = promise::<()>();
            return never.wait(context);
        }
        spin(Duration::from_micros(request.len() as u64));
        Ok(())
    })
}

fn start(config: ServerConfig, router: Router) -> ServerHandle {
    let tokens = BearerTokens::new().token("hog", "h").token("honest", "o");
    Server::start(config.listen(["tcp://127.0.0.1:0".parse::<Address>().unwrap()]).authorize(tokens), router).unwrap()
}

fn by(token: &str, context: &Context) -> Context {
    context.with_metadata("authorization", format!("Bearer {token}")).unwrap()
}

/// Fifty connections of the hog's, with four calls each at a time that are all in a hurry, until it is told to stop.
fn hog(address: &Address, stop: &AtomicBool) {
    let config = ChannelConfig::default();
    let mut queue = CallQueue::connect(address, &config).unwrap();
    let connections: Vec<ConnectionId> = (0..50).map(|_| queue.open(address, &config).unwrap()).collect();
    let submit = |queue: &mut CallQueue, tag: u64| {
        // So soon that it goes first, and not so soon that most are refused, which counts as well.
        let context = by("h", &Context::with_deadline(400 * MS));
        queue.submit_on(connections[tag as usize % 50], &context, WORK, &[0; 200], tag);
    };
    (0..200).for_each(|tag| submit(&mut queue, tag));
    queue.flush();
    while !stop.load(SeqCst) {
        if let Some(done) = queue.take_timeout(MS) {
            if done.result.is_err() {
                // It isn't to be stopped by what it costs to refuse it.
                thread::yield_now();
            }
            submit(&mut queue, done.tag);
            queue.flush();
        }
    }
}

/// How many of the hog's calls are served beside some 1000 of an honest tenant's, of which some wait all the while, and how many those are.
fn beside_a_hog(config: ServerConfig) -> (usize, usize) {
    let served = Arc::new(Served::default());
    let server = start(config, mill(&served));
    let (address, stop) = (server.addresses()[0].clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| hog(&address, &stop));
        while served.hog.load(SeqCst) < 100 {
            thread::yield_now();
        }
        let mut queue = CallQueue::connect(&address, &ChannelConfig::default()).unwrap();
        let submit = |queue: &mut CallQueue| {
            queue.submit(&by("o", &Context::with_deadline(HOUR)), WORK, &[0; 200], 0);
            queue.flush();
        };
        // As many as are served in 25 ms, so that some wait though this thread may be kept from its core.
        (0..128).for_each(|_| submit(&mut queue));
        let before = (served.hog.load(SeqCst), served.honest.load(SeqCst));
        let mut refused = 0;
        for _ in 0..1000 {
            let done = queue.take().expect("calls are open");
            refused += usize::from(done.result.is_err());
            submit(&mut queue);
        }
        let after = (served.hog.load(SeqCst), served.honest.load(SeqCst));
        stop.store(true, SeqCst);
        assert_eq!(refused, 0, "the honest tenant has time and room");
        (after.0 - before.0, after.1 - before.1)
    })
}

#[test]
fn a_hog_in_a_hurry_with_fifty_connections_gets_no_more_than_its_share() {
    let (hog, honest) = beside_a_hog(ServerConfig::default().shares(ShareConfig::new()));
    assert!(2 * hog <= 3 * honest, "{hog} of the hog's, {honest} of the honest one's");
    // It isn't kept from having what is its own.
    assert!(3 * hog >= honest, "{hog} of the hog's, {honest} of the honest one's");
}

#[test]
fn who_weighs_more_gets_more() {
    let shares = ShareConfig::new().weight("honest", 4);
    let (hog, honest) = beside_a_hog(ServerConfig::default().shares(shares));
    assert!(2 * hog <= honest, "{hog} of the hog's, {honest} of the honest one's");
}

#[test]
fn workers_share_their_time_as_heads_do() {
    let (hog, honest) = beside_a_hog(ServerConfig::default().workers(1).shares(ShareConfig::new()));
    assert!(2 * hog <= 3 * honest, "{hog} of the hog's, {honest} of the honest one's");
}

/// How many of an honest tenant's calls are refused, by estimate, after another's have come too late.
fn after_a_poisoner(config: ServerConfig) -> usize {
    let server = start(config, mill(&Arc::default()));
    let address = &server.addresses()[0];
    let mut queue = CallQueue::connect(address, &ChannelConfig::default()).unwrap();
    let work = vec![0; 5000];
    let honest = by("o", &Context::unlimited());
    for _ in 0..32 {
        queue.submit(&by("h", &Context::unlimited()), WORK, &work, 0);
        queue.submit(&honest, WORK, &work, 0);
    }
    queue.flush();
    (0..64).for_each(|_| assert!(queue.take().is_some_and(|done| done.result.is_ok())));
    // Each begins with more time than any was seen to need, and is late.
    for _ in 0..60 {
        queue.submit(&by("h", &Context::with_deadline(400 * MS)), WORK, &[], 0);
    }
    queue.flush();
    (0..60).for_each(|_| assert!(queue.take().is_some_and(|done| done.result.is_err())));
    let mut refused = 0;
    for _ in 0..20 {
        queue.submit(&by("o", &Context::with_deadline(20 * MS)), WORK, &work, 0);
        queue.flush();
        let done = queue.take().expect("one is open");
        refused += usize::from(done.result.is_err_and(|failure| failure.status.reason == Reason::Infeasible));
    }
    refused
}

#[test]
fn what_comes_too_late_of_ones_calls_gets_no_others_refused() {
    // Where the machine is busy some of them are late before they begin, and teach nothing.
    assert!((0..5).any(|_| after_a_poisoner(ServerConfig::default()) > 0), "without shares it does");
    assert_eq!(after_a_poisoner(ServerConfig::default().shares(ShareConfig::new())), 0);
}

/// Sixty calls of one kind, then six of another, all at once and for a short queue: how many of each are answered.
fn a_rush(config: ServerConfig, many: &Context, few: &Context) -> (usize, usize, Snapshot) {
    let admission = AdmissionConfig::default().max_queue(16);
    let server = start(config.admission(admission), mill(&Arc::default()));
    let mut queue = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    (0..60).for_each(|_| queue.submit(many, WORK, &[0; 3000], 0));
    (0..6).for_each(|_| queue.submit(few, WORK, &[0; 3000], 1));
    queue.flush();
    let mut answered = (0, 0);
    for _ in 0..66 {
        let done = queue.take().expect("all are answered");
        let count = if done.tag == 0 { &mut answered.0 } else { &mut answered.1 };
        *count += usize::from(done.result.is_ok());
    }
    (answered.0, answered.1, server.counters())
}

#[test]
fn a_full_queue_turns_away_what_matters_least() {
    let critical = by("o", &Context::with_deadline(HOUR));
    let sheddable = critical.with_criticality(Criticality::Sheddable).unwrap();
    for config in [ServerConfig::default(), ServerConfig::default().shares(ShareConfig::new())] {
        for order in [Order::Guarded, Order::Fcfs] {
            let once = || {
                let (many, few, counters) = a_rush(config.clone().order(order), &sheddable, &critical);
                assert_eq!(few, 6, "{order}: {counters:?}");
                assert!(many < 60 && counters.queue_full as usize == 60 - many, "{order}: {counters:?}");
                counters.shed_less_critical > 0
            };
            // Where the machine is busy the six may come when there is room again.
            assert!((0..5).any(|_| once()), "{order}");
        }
    }
}

#[test]
fn a_full_queue_is_cut_where_one_tenant_has_most_whatever_it_claims() {
    let hog = by("h", &Context::with_deadline(HOUR)).with_criticality(Criticality::CriticalPlus).unwrap();
    let honest = by("o", &Context::with_deadline(HOUR)).with_criticality(Criticality::Sheddable).unwrap();
    for order in [Order::Guarded, Order::Fcfs] {
        let once = || {
            let config = ServerConfig::default().shares(ShareConfig::new()).order(order);
            let (many, few, counters) = a_rush(config, &hog, &honest);
            assert_eq!((few, counters.shed_less_critical), (6, 0), "{order}: {counters:?}");
            assert!(many > 0 && counters.queue_full as usize == 60 - many, "{order}: {counters:?}");
            counters.shed_over_share > 0
        };
        // Where the machine is busy the six may come when there is room again.
        assert!((0..5).any(|_| once()), "{order}");
    }
}

#[test]
fn criticality_goes_along_by_every_protocol() {
    let last = Router::new().method(WORK.name().unwrap(), |context, _, reply| {
        reply.extend_from_slice(context.criticality().name().as_bytes());
        Ok(())
    });
    let listen = || ["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    let last = Server::start(ServerConfig::default().listen(listen()), last).unwrap();
    let socket = |server: &ServerHandle| server.addresses()[0].socket().unwrap();
    let ways = [Address::Tcp, Address::Grpc];
    for way in ways {
        let next = Channel::new(way(socket(&last)), ChannelConfig::default()).unwrap();
        let first = Router::new().method(SLOW.name().unwrap(), move |context, _, reply| {
            reply.extend_from_slice(&next.call(context, WORK, b"")?.body);
            Ok(())
        });
        let first = Server::start(ServerConfig::default().listen(listen()), first).unwrap();
        for way in ways {
            let channel = Channel::new(way(socket(&first)), ChannelConfig::default()).unwrap();
            let context = Context::with_deadline(HOUR);
            let said = |context: &Context| channel.call(context, SLOW, b"").unwrap().body.to_vec();
            assert_eq!(said(&context), b"critical");
            assert_eq!(said(&context.with_metadata(CRITICALITY, "enormous").unwrap()), b"critical");
            for one in Criticality::ALL {
                assert_eq!(said(&context.with_criticality(one).unwrap()), one.name().as_bytes());
            }
        }
    }
}

/// Calls of next to no work over a socket file, as many as the server takes, until it is told to stop.
fn flood(address: &Address, stop: &AtomicBool) {
    let config = ChannelConfig::default();
    let mut queue = CallQueue::connect(address, &config).unwrap();
    let connections: Vec<ConnectionId> = (0..4).map(|_| queue.open(address, &config).unwrap()).collect();
    let submit = |queue: &mut CallQueue, tag: u64| {
        queue.submit_on(connections[tag as usize % 4], &Context::with_deadline(HOUR), WORK, &[0; 1], tag);
    };
    (0..4000).for_each(|tag| submit(&mut queue, tag));
    queue.flush();
    while !stop.load(SeqCst) {
        let mut next = queue.take_timeout(MS);
        while let Some(done) = next {
            submit(&mut queue, done.tag);
            next = queue.take_timeout(Duration::ZERO);
        }
        queue.flush();
    }
}

/// What a server counts that a flood of one tenant's reaches, over a socket file, while another is served 300 calls, if it is there.
fn under_a_flood(is_other_there: bool) -> (Snapshot, usize) {
    let socket = std::env::temp_dir().join(format!("greenwave-flood-{}-{is_other_there}", std::process::id()));
    let path = Address::Unix(socket);
    let listen = ["tcp://127.0.0.1:0".parse::<Address>().unwrap(), path];
    let served = Arc::new(Served::default());
    let config = ServerConfig::default().shares(ShareConfig::new()).listen(listen);
    let server = Server::start(config, mill(&served)).unwrap();
    let (tcp, unix) = (server.addresses()[0].clone(), server.addresses()[1].clone());
    let stop = AtomicBool::new(false);
    let mut answered = 0;
    thread::scope(|scope| {
        scope.spawn(|| flood(&unix, &stop));
        while server.counters().calls < 20_000 {
            thread::yield_now();
        }
        if is_other_there {
            let mut queue = CallQueue::connect(&tcp, &ChannelConfig::default()).unwrap();
            for nth in 0..300 + 8 {
                if nth >= 8 {
                    answered += usize::from(queue.take().is_some_and(|done| done.result.is_ok()));
                }
                if nth < 300 {
                    queue.submit(&Context::with_deadline(HOUR), WORK, &[0; 200], 0);
                    queue.flush();
                }
            }
        }
        let (before, all) = (server.counters().calls, served.honest.load(SeqCst));
        while server.counters().calls < before + 20_000 {
            thread::yield_now();
        }
        assert!(served.honest.load(SeqCst) > all, "the flood is served as well");
        stop.store(true, SeqCst);
    });
    (server.counters(), answered)
}

#[test]
fn who_floods_a_server_that_others_use_is_read_in_turn() {
    let (counters, answered) = under_a_flood(true);
    assert_eq!(answered, 300);
    assert!((1..=5).contains(&counters.metered), "{counters:?}");
}

#[test]
fn who_is_alone_is_read_as_it_sends() {
    let (counters, _) = under_a_flood(false);
    assert_eq!(counters.metered, 0, "{counters:?}");
}

/// How many connections are read in turn of two over which one tenant calls, and another fifty times as much: each over its
/// own, or both over both. In so many calls, or when there is one.
fn metered_of_two(shared: bool) -> u64 {
    let server = start(ServerConfig::default().shares(ShareConfig::new()), mill(&Arc::default()));
    let (address, config) = (&server.addresses()[0], ChannelConfig::default());
    let mut queue = CallQueue::connect(address, &config).unwrap();
    let connections: Vec<ConnectionId> = (0..2).map(|_| queue.open(address, &config).unwrap()).collect();
    let callers = ["h", "o"].map(|token| by(token, &Context::with_deadline(HOUR)));
    let submit = |queue: &mut CallQueue, tag: u64| {
        let caller = usize::from(tag.is_multiple_of(50));
        let connection = if shared { tag as usize / 50 % 2 } else { caller };
        queue.submit_on(connections[connection], &callers[caller], WORK, &[0; 1], tag);
    };
    (0..1000).for_each(|tag| submit(&mut queue, tag));
    queue.flush();
    let enough = if shared { 60_000 } else { 3_000_000 };
    while server.counters().calls < enough && server.counters().metered == 0 {
        let mut next = queue.take_timeout(MS);
        while let Some(done) = next {
            submit(&mut queue, done.tag);
            next = queue.take_timeout(Duration::ZERO);
        }
        queue.flush();
    }
    server.counters().metered
}

#[test]
fn a_connection_with_the_calls_of_several_is_not_read_in_turn() {
    assert_eq!(metered_of_two(true), 0);
    assert!(metered_of_two(false) > 0, "each has its own, and one is over its share");
}
