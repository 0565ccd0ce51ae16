//! What a completion queue costs over raw sockets: 64-byte chunks over loopback TCP, both sides spinning, the server
//! pinned to core 0 and the client to core 1.
//!
//! `cargo run --release -p greenwave-verbs --example ping_pong [rounds]`; with `--features fabric`, over libfabric too
//!
//! The systems take turns within each round, so that whatever else the machine does hits all of them. Latencies are
//! round trips in microseconds: each percentile is the median over the rounds, beside the least median of all rounds.
//! A ratio is the median over the rounds of the ratio within the round. Only ratios mean anything.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use greenwave_policy::Time;
use greenwave_verbs::{Address, Choice, CompletionQueue, Event, QueueConfig, open};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::thread::{CpuSet, sched_setaffinity};

const BYTES: usize = 64;
const TRIPS: usize = 2_000;
const WARM_UP: usize = 500;
const CHUNKS: usize = 50_000;
/// The rates are measured in one round out of this many.
const RATES_EVERY: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum System {
    Raw,
    Uring,
    Epoll,
    #[cfg(feature = "fabric")]
    Shm,
    #[cfg(feature = "fabric")]
    FabricTcp,
}

impl System {
    /// Which backend, and where its server listens.
    fn queue(self) -> (Choice, &'static str) {
        match self {
            Self::Raw | Self::Uring => (Choice::Uring, "tcp://127.0.0.1:0"),
            Self::Epoll => (Choice::Epoll, "tcp://127.0.0.1:0"),
            #[cfg(feature = "fabric")]
            Self::Shm => (Choice::Fabric, "fabric+shm://"),
            #[cfg(feature = "fabric")]
            Self::FabricTcp => (Choice::Fabric, "fabric+tcp://127.0.0.1:0"),
        }
    }
}

/// How many connections, and how many chunks are under way on each.
#[derive(Clone, Copy, PartialEq)]
struct Load {
    connections: usize,
    in_flight: usize,
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(50, |text| text.parse().expect("the number of rounds is a number"));
    let systems = [
        ("raw", System::Raw),
        ("uring", System::Uring),
        ("epoll", System::Epoll),
        #[cfg(feature = "fabric")]
        ("fabric-shm", System::Shm),
        #[cfg(feature = "fabric")]
        ("fabric-tcp", System::FabricTcp),
    ];
    let mut trips = systems.map(|_| Vec::new());
    let loads = [(1, 8), (1, 64), (32, 1), (32, 8)].map(|(connections, in_flight)| Load { connections, in_flight });
    let mut rates = systems.map(|_| loads.map(|_| Vec::new()));
    for round in 0..rounds {
        for (which, (_, system)) in systems.iter().enumerate() {
            let mut nanos = run(*system, Load { connections: 1, in_flight: 1 }, WARM_UP + TRIPS).trips;
            nanos.drain(..WARM_UP);
            nanos.sort_unstable();
            trips[which].push(Round([0.5, 0.99, 0.999].map(|share| f64::from(nanos[(share * TRIPS as f64) as usize]))));
            for (load, rates) in loads.iter().zip(&mut rates[which]) {
                if round % RATES_EVERY == 0 && (*system != System::Raw || load.connections == 1) {
                    rates.push(run(*system, *load, CHUNKS).rate);
                }
            }
        }
    }
    println!("{:11}{:>9}{:>9}{:>9}{:>11}{:>9}{:>9}", "system", "p50", "p99", "p99.9", "least p50", "to raw", "least");
    let least = |rounds: &[Round]| rounds.iter().map(|round| round.0[0]).fold(f64::MAX, f64::min);
    for ((name, _), own) in systems.iter().zip(&trips) {
        let [low, high, highest] = [0, 1, 2].map(|which| median(own.iter().map(|round| round.0[which])) / 1e3);
        let ratio = median(own.iter().zip(&trips[0]).map(|(own, raw)| own.0[0] / raw.0[0]));
        let (fastest, to_fastest) = (least(own) / 1e3, least(own) / least(&trips[0]));
        println!("{name:11}{low:9.2}{high:9.2}{highest:9.2}{fastest:11.2}{ratio:9.3}{to_fastest:9.3}");
    }
    println!("\nchunks answered in a second, in thousands (median of the rounds)");
    for (index, load) in loads.iter().enumerate() {
        print!("{:2} connections, {:2} in flight each:", load.connections, load.in_flight);
        for ((name, _), rates) in systems.iter().zip(&rates) {
            if !rates[index].is_empty() {
                print!("  {name} {:7.0}", median(rates[index].iter().copied()) / 1e3);
            }
        }
        let [uring, epoll] = [1, 2].map(|which: usize| rates[which][index].iter());
        println!("  uring to epoll {:.3}", median(uring.zip(epoll).map(|(uring, epoll)| uring / epoll)));
    }
}

/// p50, p99 and p99.9 of a round, in nanoseconds.
struct Round([f64; 3]);

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Outcome {
    /// Round trips in nanoseconds, if there was one at a time.
    trips: Vec<u32>,
    /// Answers in a second.
    rate: f64,
}

fn run(system: System, load: Load, chunks: usize) -> Outcome {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| match system {
        System::Raw => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let address = listener.local_addr().expect("it is bound");
            let client = std::net::TcpStream::connect(address).expect("it listens");
            let (server, _) = listener.accept().expect("it has connected");
            for socket in [&server, &client] {
                socket.set_nodelay(true).expect("a TCP socket has this option");
                socket.set_nonblocking(true).expect("a socket has this option");
            }
            scope.spawn(|| serve_raw(&server.into(), &done));
            scope.spawn(|| call_raw(&client.into(), load, chunks, &done)).join().expect("the client ends")
        }
        _ => {
            let (backend, place) = system.queue();
            let config = QueueConfig { backend, ..QueueConfig::default() };
            let mut server = open(&config).expect("the backend runs here");
            let listener = server.listen(&place.parse().expect("an address")).expect("a port is free");
            let address = server.local_address(listener).expect("it was just made");
            let done = &done;
            scope.spawn(move || serve_queue(server.as_mut(), done));
            let client = scope.spawn(move || {
                let mut client = open(&config).expect("the backend runs here");
                call_queue(client.as_mut(), &address, load, chunks, done)
            });
            client.join().expect("the client ends")
        }
    })
}

/// Tells the server that the client is done, or has failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).expect("there are two cores");
}

fn serve_raw(socket: &OwnedFd, done: &AtomicBool) {
    pin(0);
    let mut buffer = vec![0; 64 * 1024];
    while !done.load(Ordering::Relaxed) {
        let count = receive_some(socket, &mut buffer);
        if count > 0 {
            send_all(socket, &buffer[..count]);
        }
    }
}

fn call_raw(socket: &OwnedFd, load: Load, chunks: usize, done: &AtomicBool) -> Outcome {
    pin(1);
    let _done = Done(done);
    let mut buffer = vec![0; 64 * 1024];
    measure(load, chunks, |clock| {
        send_all(socket, &vec![7; BYTES * load.in_flight]);
        let (mut answered, mut partial) = (0, 0);
        while answered < chunks {
            let count = receive_some(socket, &mut buffer);
            if count == 0 {
                spin_loop();
                continue;
            }
            let whole = (partial + count) / BYTES;
            partial = (partial + count) % BYTES;
            answered += whole;
            clock.tick();
            if whole > 0 && answered < chunks {
                send_all(socket, &buffer[..whole * BYTES]);
            }
        }
    })
}

fn receive_some(socket: &OwnedFd, buffer: &mut [u8]) -> usize {
    match recv(socket, buffer, RecvFlags::DONTWAIT) {
        Ok((count, _)) => count,
        Err(Errno::AGAIN) => 0,
        Err(errno) => panic!("{errno}"),
    }
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => spin_loop(),
            // The client is done and doesn't wait for what is under way.
            Err(Errno::PIPE | Errno::CONNRESET) => return,
            Err(errno) => panic!("{errno}"),
        }
    }
}

fn serve_queue(queue: &mut dyn CompletionQueue, done: &AtomicBool) {
    pin(0);
    let mut answers = Vec::new();
    while !done.load(Ordering::Relaxed) {
        queue.poll(Time::ZERO, &mut |event| {
            if let Event::Received { endpoint, chunk } = event {
                answers.push((endpoint, <[u8; BYTES]>::try_from(chunk).expect("chunks are of this length")));
            }
        });
        if !answers.is_empty() {
            for (endpoint, chunk) in answers.drain(..) {
                // Refused if the client is done and has closed meanwhile; it doesn't wait for what is under way.
                let _ = queue.post_send(endpoint, &[&chunk]);
            }
            queue.submit();
        }
    }
}

fn call_queue(
    queue: &mut dyn CompletionQueue,
    address: &Address,
    load: Load,
    chunks: usize,
    done: &AtomicBool,
) -> Outcome {
    pin(1);
    let _done = Done(done);
    let mut connected = 0;
    let endpoints: Vec<_> =
        (0..load.connections).map(|_| queue.connect(address).expect("there are sockets left")).collect();
    while connected < endpoints.len() {
        queue.submit();
        queue.poll(Time::ZERO, &mut |event| connected += usize::from(matches!(event, Event::Connected { .. })));
    }
    let chunk = [7; BYTES];
    measure(load, chunks, |clock| {
        let mut answers = endpoints.repeat(load.in_flight);
        let mut answered = 0;
        while answered < chunks {
            for endpoint in answers.drain(..) {
                queue.post_send(endpoint, &[&chunk]).expect("few are under way");
            }
            queue.submit();
            while answers.is_empty() {
                queue.poll(Time::ZERO, &mut |event| match event {
                    Event::Received { endpoint, .. } => answers.push(endpoint),
                    Event::Closed { reason, .. } => panic!("the server is gone: {reason}"),
                    _ => {}
                });
            }
            answered += answers.len();
            clock.tick();
        }
    })
}

/// Notes when answers came.
struct Clock {
    last: Instant,
    trips: Vec<u32>,
    is_latency: bool,
}

impl Clock {
    fn tick(&mut self) {
        if self.is_latency {
            let now = Instant::now();
            self.trips.push(now.duration_since(self.last).as_nanos() as u32);
            self.last = now;
        }
    }
}

fn measure(load: Load, chunks: usize, work: impl FnOnce(&mut Clock)) -> Outcome {
    let is_latency = load == Load { connections: 1, in_flight: 1 };
    let start = Instant::now();
    let mut clock = Clock { last: start, trips: Vec::with_capacity(chunks), is_latency };
    work(&mut clock);
    Outcome { trips: clock.trips, rate: chunks as f64 / start.elapsed().as_secs_f64() }
}
