//! How long a call takes that does nothing, and how many a connection carries.
//!
//! The server's cluster spins on core 0, the client on core 1. `null_call [SECONDS] [IN_FLIGHT] [BACKEND]`
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().map_or(2.0, |text| text.parse().expect("seconds"));
    let in_flight: usize = args.next().map_or(1, |text| text.parse().expect("calls in flight"));
    let backend = match args.next().as_deref() {
        Some("epoll") => Choice::Epoll,
        Some("uring") => Choice::Uring,
        _ => Choice::Auto,
    };
    let router = Router::new().method("example.Null/Call", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().expect("an address")];
    let config =
        ServerConfig { listen, cores: vec![0], wait: Wait::Spin, backend: backend.clone(), ..ServerConfig::default() };
    let server = Server::start(config, router).expect("a server");
    let mut cores = CpuSet::new();
    cores.set(1);
    sched_setaffinity(None, &cores).expect("a second core");
    let config = ChannelConfig { wait: Wait::Spin, backend, ..ChannelConfig::default() };
    let mut stream = CompletionStream::connect(&server.addresses()[0], &config).expect("a stream");
    let context = Context::unlimited();
    let method = MethodId::of("example.Null/Call");
    let mut times = Vec::with_capacity(1 << 22);
    (0..in_flight).for_each(|tag| stream.submit(&context, method, &[7; 64], tag as u64));
    let begun = Instant::now();
    let mut calls = 0_u64;
    while begun.elapsed().as_secs_f64() < seconds {
        let done = stream.take().expect("calls are under way");
        times.push(done.total);
        stream.recycle(done.result.expect("an answer"));
        stream.submit(&context, method, &[7; 64], done.tag);
        calls += 1;
    }
    let rate = calls as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    println!(
        "{in_flight} in flight: {rate:.0} calls/s, p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us",
        at(0.5),
        at(0.99),
        at(0.999)
    );
    server.drain(Duration::from_secs(1));
}
