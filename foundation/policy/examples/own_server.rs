//! A small server of one's own, over plain TCP with threads of the standard library, that goes by this crate's decisions; and
//! a client that asks for half as much again as it can do, to show what that changes.
//!
//! `cargo run --release -p greenwave-policy --example own_server` runs it twice: first come, first served with nobody refused,
//! and by deadlines. What there is of this crate is in `Server` and `Method`; the rest is sockets.
//!
//! A request is three little-endian numbers of four bytes: its number, its method, and how many microseconds its client
//! waits. An answer is two: the number, and 1 if it was served. A method's work is a sleep here, as a disk's or another
//! service's would be.

use greenwave_policy::{
    Admission, AdmissionConfig, Budget, Deadline, Margin, Order, ReadyQueue, ServiceTimes, Time, Urgency, Verdict,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// What the two methods take, and how often the second is called.
const WORK: [Duration; 2] = [MS, Duration::from_millis(10)];
const ONE_LONG_IN: u32 = 10;
/// Two workers can serve about 1050 requests of that mixture a second.
const WORKERS: usize = 2;
const GAP: Duration = Duration::from_micros(640);
const REQUESTS: u32 = 3000;
/// How long the client waits for an answer.
const WAITS: Duration = Duration::from_millis(50);

/// What is known of a method, and decided about its calls: for each method apart, as they differ.
struct Method {
    admission: Admission,
    times: ServiceTimes,
    margin: Margin,
}

impl Method {
    /// A method whose times are learned before anything is refused because of them.
    const ENOUGH: u64 = 16;

    /// What a call has to have left when it begins: what the method takes when nothing holds it up, times a margin.
    fn needed(&self) -> Option<Duration> {
        let work = self.times.quantile(0.1).filter(|_| self.times.count() >= Self::ENOUGH)?;
        Some(self.margin.needed(work))
    }
}

/// A request that was let in.
struct Call {
    number: u32,
    method: usize,
    deadline: Deadline,
    /// What its client gave it.
    whole: Budget,
    answers: Arc<Mutex<TcpStream>>,
}

struct Server {
    /// The clock that times are of.
    origin: Instant,
    state: Mutex<State>,
    has_work: Condvar,
}

struct State {
    queue: ReadyQueue<Call>,
    methods: [Method; 2],
    is_over: bool,
}

impl Server {
    fn new(order: Order, config: AdmissionConfig) -> Self {
        let method =
            || Method { admission: Admission::new(config), times: ServiceTimes::new(), margin: Margin::new(0.01) };
        let most = if config.enabled { config.max_queue } else { usize::MAX };
        let queue = ReadyQueue::new(order).with_most(most);
        let state = Mutex::new(State { queue, methods: [method(), method()], is_over: false });
        Self { origin: Instant::now(), state, has_work: Condvar::new() }
    }

    /// The policies have no clock of their own.
    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come: let in and queued, or refused before it has cost anything.
    fn arrive(&self, number: u32, method: usize, waits: Duration, answers: &Arc<Mutex<TcpStream>>) {
        let now = self.now();
        let whole = Budget::expected(waits);
        let deadline = Deadline::at(now, whole);
        let mut state = self.state();
        let queued = state.queue.len();
        let asked = &mut state.methods[method];
        let (needed, here) = (asked.needed(), asked.times.mean().unwrap_or_default());
        if let Verdict::Refuse(_why) = asked.admission.decide(now, whole, needed, queued) {
            drop(state);
            return answer(answers, number, false);
        }
        let needed = asked.admission.config().needed(whole, needed);
        let urgency = Urgency { arrived: now, birth: now, deadline, here, needed, ..Urgency::default() };
        let call = Call { number, method, deadline, whole, answers: Arc::clone(answers) };
        state.queue.push(now, urgency, call);
        self.has_work.notify_one();
    }

    /// A worker: takes what goes first, looks whether it still makes sense, does it, and learns from it.
    fn work(&self) {
        let mut state = self.state();
        loop {
            let now = self.now();
            let Some((_, call)) = state.queue.pop(now) else {
                if state.is_over {
                    return;
                }
                state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (left, queued) = (call.deadline.budget(now), state.queue.len());
            let method = &mut state.methods[call.method];
            let needed = method.needed();
            let verdict = method.admission.recheck(now, left, call.whole, needed, queued);
            drop(state);
            if verdict == Verdict::Admit {
                thread::sleep(WORK[call.method]);
                let after = self.now();
                state = self.state();
                let Method { times, margin, .. } = &mut state.methods[call.method];
                let work = times.quantile(0.1).unwrap_or_default();
                times.observe(after.since(now));
                margin.observe(call.deadline.is_past(after), work, left.remaining());
                drop(state);
            }
            answer(&call.answers, call.number, verdict == Verdict::Admit);
            state = self.state();
        }
    }

    /// Reads requests until the client is done.
    fn serve(&self, mut requests: TcpStream) -> io::Result<()> {
        let answers = Arc::new(Mutex::new(requests.try_clone()?));
        let mut request = [0; 12];
        while requests.read_exact(&mut request).is_ok() {
            let [number, method, micros] = numbers(request);
            let method = (method as usize).min(WORK.len() - 1);
            self.arrive(number, method, Duration::from_micros(micros.into()), &answers);
        }
        self.state().is_over = true;
        self.has_work.notify_all();
        Ok(())
    }
}

/// Whoever has gone needs no answer.
fn answer(to: &Mutex<TcpStream>, number: u32, is_served: bool) {
    let bytes = [number, u32::from(is_served)].map(u32::to_le_bytes).concat();
    let _gone = to.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
}

fn numbers<const BYTES: usize, const NUMBERS: usize>(bytes: [u8; BYTES]) -> [u32; NUMBERS] {
    std::array::from_fn(|at| u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * at + byte])))
}

/// How a client's requests ended.
#[derive(Default)]
struct Ended {
    in_time: u32,
    late: u32,
    refused: u32,
}

/// Asks at a steady pace, whether or not there are answers.
fn ask(stream: TcpStream) -> io::Result<Ended> {
    let mut requests = stream.try_clone()?;
    let begun = Instant::now();
    let due = move |number: u32| begun + GAP * number;
    let asks = thread::spawn(move || -> io::Result<()> {
        for number in 0..REQUESTS {
            thread::sleep(due(number).saturating_duration_since(Instant::now()));
            let method = u32::from(number % ONE_LONG_IN == 0);
            // What is left of the time since it was to be asked.
            let left = (due(number) + WAITS).saturating_duration_since(Instant::now());
            let request = [number, method, left.as_micros() as u32].map(u32::to_le_bytes).concat();
            requests.write_all(&request)?;
        }
        requests.shutdown(Shutdown::Write)
    });
    let (mut answers, mut ended) = (stream, Ended::default());
    for _ in 0..REQUESTS {
        let mut bytes = [0; 8];
        answers.read_exact(&mut bytes)?;
        let [number, is_served] = numbers(bytes);
        let is_late = Instant::now() > due(number) + WAITS;
        let counted = match (is_served, is_late) {
            (0, _) => &mut ended.refused,
            (_, false) => &mut ended.in_time,
            (_, true) => &mut ended.late,
        };
        *counted += 1;
    }
    asks.join().map_err(|_panicked| io::Error::other("the client panicked"))??;
    Ok(ended)
}

fn run(name: &str, order: Order, config: AdmissionConfig) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = &Server::new(order, config);
    let client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let ended = thread::scope(|threads| {
        let (requests, _) = listener.accept()?;
        requests.set_nodelay(true)?;
        threads.spawn(|| server.serve(requests));
        (0..WORKERS).for_each(|_| drop(threads.spawn(|| server.work())));
        ask(client)
    })?;
    println!("{name:<25} {:>7} {:>7} {:>7}", ended.in_time, ended.late, ended.refused);
    Ok(())
}

fn main() -> io::Result<()> {
    println!("{:<25} {:>7} {:>7} {:>7}", "of 3000 requests", "in time", "late", "refused");
    run("first come, first served", Order::Fcfs, AdmissionConfig::default().enabled(false))?;
    run("by this crate", Order::Guarded, AdmissionConfig::default())
}
