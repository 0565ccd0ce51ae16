//! How long a small call waits next to large replies of the same server, over one connection or two.
//!
//! ```text
//! same_connection serve tcp://10.0.0.1:7000
//! same_connection load tcp://10.0.0.1:7000 1 3
//! ```
//! The second command says over how many connections (with two the large replies have one to themselves) and how many
//! seconds each phase takes. Open loop: a call's time runs from when it was to be made.

use greenwave_rpc::{
    CallQueue, ChannelConfig, Completion, ConnectionId, Limits, MethodId, Router, Server, ServerConfig, Wait,
};
use greenwave_verbs::{Address, Choice};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const SMALL: MethodId = MethodId::of("flows.Flows/Small");
const BULK: MethodId = MethodId::of("flows.Flows/Bulk");
/// Large replies asked for at once.
const BULK_AT_ONCE: usize = 2;
const SMALL_EVERY: Duration = Duration::from_micros(1000);
const EXPECTED: Duration = Duration::from_secs(60);
/// So that a server whose handlers give way serves the small ones first.
const URGENT: Duration = Duration::from_secs(1);
/// Calls of this tag are large, others small and named by their number.
const BULK_TAG: u64 = u64::MAX;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args.as_slice() {
        ["serve", address] => serve(&address.parse()?),
        ["load", address, connections, seconds] => load(&address.parse()?, connections == "2", seconds.parse()?),
        _ => Err("usage: serve ADDRESS | load ADDRESS CONNECTIONS SECONDS".into()),
    }
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn backend() -> Choice {
    setting("BACKEND", Choice::Auto)
}

fn wait() -> Wait {
    if setting("SPIN", false) { Wait::Spin } else { Wait::default() }
}

fn limits() -> Limits {
    Limits::new().chunk_bytes(setting("CHUNK", 16 << 10))
}

fn serve(address: &Address) -> Result<(), Failure> {
    let config = ServerConfig::default().listen([address.clone()]).backend(backend()).limits(limits());
    let bulk = vec![7; setting("BULK", 10 << 20)];
    let router = Router::new()
        .method("flows.Flows/Small", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method("flows.Flows/Bulk", move |context, _, reply| {
            reply.reserve(bulk.len());
            for part in bulk.chunks(64 << 10) {
                reply.extend_from_slice(part);
                context.checkpoint()?;
            }
            Ok(())
        });
    let _server = Server::start(config, router)?;
    loop {
        std::thread::park();
    }
}

fn load(address: &Address, apart: bool, seconds: u64) -> Result<(), Failure> {
    let config = ChannelConfig::default().backend(backend()).wait(wait()).limits(limits());
    let mut stream = CallQueue::connect(address, &config)?;
    let other = if apart { Some(stream.open(address, &config)?) } else { None };
    let time = Duration::from_secs(seconds);
    phase(&mut stream, other, Duration::from_millis(300), true, true)?;
    for (name, small, bulk) in [("idle", true, false), ("bulk", false, true), ("both", true, true)] {
        let mut result = phase(&mut stream, other, time, small, bulk)?;
        result.times.sort_unstable();
        let at = |part: f64| {
            let index = (result.times.len() as f64 * part) as usize;
            result
                .times
                .get(index.min(result.times.len().saturating_sub(1)))
                .map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        println!(
            "{name}: calls {} p50 {:.0} p90 {:.0} p99 {:.0} p999 {:.0} us, bulk {:.1} Mbit/s",
            result.times.len(),
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            result.bulk_bytes as f64 * 8.0 / result.took.as_secs_f64() / 1e6
        );
    }
    Ok(())
}

struct Measured {
    times: Vec<Duration>,
    bulk_bytes: u64,
    took: Duration,
}

fn phase(
    stream: &mut CallQueue,
    other: Option<ConnectionId>,
    time: Duration,
    small: bool,
    bulk: bool,
) -> Result<Measured, Failure> {
    let start = Instant::now();
    let mut measured = Measured { times: Vec::new(), bulk_bytes: 0, took: time };
    let (mut made, mut large) = (0, 0);
    let mut last = start;
    loop {
        let now = Instant::now();
        let over = now - start >= time;
        while !over && small && start + SMALL_EVERY * made <= now {
            stream.submit_within(URGENT, SMALL, &[7; 64], u64::from(made));
            made += 1;
        }
        while !over && bulk && large < BULK_AT_ONCE {
            large += 1;
            match other {
                None => stream.submit_within(EXPECTED, BULK, &[], BULK_TAG),
                Some(other) => stream.submit_within_on(other, EXPECTED, BULK, &[], BULK_TAG),
            }
        }
        if over && stream.in_flight() == 0 {
            measured.took = if bulk { last - start } else { time };
            return Ok(measured);
        }
        let until = if small && !over { start + SMALL_EVERY * made } else { now + Duration::from_millis(1) };
        let Some(Completion { tag, result, .. }) = stream.take_timeout(until.saturating_duration_since(now)) else {
            continue;
        };
        let reply = result.map_err(|failure| failure.status)?;
        if tag == BULK_TAG {
            last = Instant::now();
            large -= 1;
            measured.bulk_bytes += reply.body.len() as u64;
        } else {
            measured.times.push(start.elapsed() - SMALL_EVERY * tag as u32);
        }
        stream.recycle(reply);
    }
}
