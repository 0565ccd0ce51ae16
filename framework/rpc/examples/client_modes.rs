//! How long a call that does nothing takes in each of the client's modes, when 1, 4 and 16 threads make calls.
//!
//! As in DaRPC's evaluation of its client: threads share a connection, or have one each; they poll it themselves, or
//! one thread does for all and hands completions over. `client_modes [SECONDS] [SPIN_MICROSECONDS]`
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const CALL: MethodId = MethodId::of("example.Null/Call");

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds: f64 = args.first().map_or(1.0, |text| text.parse().expect("seconds"));
    let wait = args.get(1).map_or(Wait::default(), |text| Wait::Adaptive {
        spin: Duration::from_micros(text.parse().expect("microseconds")),
    });
    let router = Router::new().method("example.Null/Call", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().expect("an address")];
    let server = Server::start(ServerConfig::default().listen(listen), router).expect("a server");
    let address = &server.addresses()[0];
    println!("{:<10} {:>7} {:>10} {:>9} {:>9} {:>9}", "mode", "threads", "calls/s", "p50 us", "p99 us", "worst us");
    let poll = Mode::Dispatched { delivery: Delivery::Poll };
    let notify = Mode::Dispatched { delivery: Delivery::Notify };
    for (name, mode) in [("direct", Mode::Direct), ("poll", poll), ("notify", notify)] {
        if args.get(2).is_some_and(|only| only != name) {
            continue;
        }
        for threads in [1, 4, 16] {
            if args.get(3).is_some_and(|only| only.parse() != Ok(threads)) {
                continue;
            }
            let config = ChannelConfig::default().mode(mode).wait(wait);
            for shared in [true, false] {
                if threads == 1 && !shared {
                    continue;
                }
                let one = Channel::new(address.clone(), config.clone()).expect("a channel");
                let channels = (0..threads)
                    .map(|_| {
                        if shared {
                            one.clone()
                        } else {
                            Channel::new(address.clone(), config.clone()).expect("a channel")
                        }
                    })
                    .collect();
                let label = format!("{name}{}", if shared { "" } else { ", each its own" });
                report(&label, measure(channels, Duration::from_secs_f64(seconds)), seconds);
            }
        }
    }
    server.drain(Duration::from_secs(1));
}

/// The times of all calls that a thread for each channel makes, one after the other.
fn measure(channels: Vec<Channel>, time: Duration) -> (usize, Vec<Duration>) {
    let threads = channels.len();
    let barrier = Barrier::new(threads);
    let times = std::thread::scope(|scope| {
        let clients: Vec<_> = channels
            .into_iter()
            .map(|channel| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let context = Context::unlimited();
                    channel.call(&context, CALL, &[7; 64]).expect("an answer");
                    barrier.wait();
                    let (begun, mut times) = (Instant::now(), Vec::with_capacity(1 << 18));
                    while begun.elapsed() < time {
                        let called = Instant::now();
                        channel.call(&context, CALL, &[7; 64]).expect("an answer");
                        times.push(called.elapsed());
                    }
                    times
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    (threads, times)
}

fn report(label: &str, (threads, mut times): (usize, Vec<Duration>), seconds: f64) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    let rate = times.len() as f64 / seconds;
    println!("{label:<26} {threads:>3} {rate:>10.0} {:>9.1} {:>9.1} {:>9.1}", at(0.5), at(0.99), at(1.0));
}
