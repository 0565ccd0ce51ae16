//! A server whose handlers are preempted: a short call overtakes a long one on the same thread, and handlers that call on
//! are left at every point of that and come to the same answers, as do those that wait for what others keep, and those that
//! wait for rayon, or call on, while they borrow a thread-local.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-rpc --example preempted_server
//! ```
//!
//! Built by plain cargo, the short call waits for the long one's end.

use greenwave_quanta::is_instrumented;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use rayon::prelude::*;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const LONG: &str = "example.Preempted/Long";
const SHORT: &str = "example.Preempted/Short";
const SUM: &str = "example.Preempted/Sum";
const PROMISED: &str = "example.Preempted/Promised";
const PARALLEL: &str = "example.Preempted/Parallel";
const SPLIT: &str = "example.Preempted/Split";

/// The long handler has begun; the short one has run.
static BEGUN: AtomicBool = AtomicBool::new(false);
static OVERTAKEN: AtomicBool = AtomicBool::new(false);

/// Rounds after which the long handler gives up: a few seconds.
const ROUNDS: u64 = 2_000_000;

/// Branches of a split call, and how many of those are made at the same time and in turn.
const BRANCHES: u8 = 4;
const CALLERS: u8 = 8;
const CALLS: u8 = 200;

fn churn(rounds: u64) -> u64 {
    (0..rounds).fold(0xcbf2_9ce4_8422_2325, |hash, next| (hash ^ next).wrapping_mul(0x0100_0000_01b3))
}

fn long(_context: &Context, _request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
    BEGUN.store(true, Ordering::Release);
    let mut rounds = 0;
    while rounds < ROUNDS && !OVERTAKEN.load(Ordering::Acquire) {
        rounds += 1;
        black_box(churn(1000));
    }
    reply.push(u8::from(OVERTAKEN.load(Ordering::Acquire)));
    Ok(())
}

fn short(_context: &Context, _request: &[u8], _reply: &mut Vec<u8>) -> Result<(), Status> {
    OVERTAKEN.store(true, Ordering::Release);
    Ok(())
}

fn sum(_context: &Context, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
    black_box(churn(2000));
    reply.push(request.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
    Ok(())
}

fn server(router: Router, quantum: Option<Duration>) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().expect("an address")];
    Server::start(ServerConfig::default().listen(listen).quantum(quantum), router).expect("a server")
}

fn channel(server: &ServerHandle) -> Channel {
    Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).expect("a channel")
}

fn is_overtaken() -> bool {
    let server = server(Router::new().method(LONG, long).method(SHORT, short), Some(Duration::from_micros(5)));
    let patient = channel(&server);
    std::thread::scope(|scope| {
        let long =
            scope.spawn(move || patient.call(&Context::unlimited(), MethodId::of(LONG), b"").expect("an answer"));
        while !BEGUN.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let context = Context::with_deadline(Duration::from_secs(60));
        channel(&server).call(&context, MethodId::of(SHORT), b"").expect("an answer");
        *long.join().expect("it does not panic").body == [1]
    })
}

/// Calls whose handlers each make several, on the shortest quantum there is. How many answers were right.
fn right_answers() -> usize {
    let quantum = Some(Duration::from_nanos(500));
    let behind = server(Router::new().method(SUM, sum), quantum);
    let next = channel(&behind);
    let aggregator = Arc::new(Aggregator::new(AggregatorConfig::default().hedge_ratio(0.0)));
    let split = move |context: &Context, request: &[u8], reply: &mut Vec<u8>| {
        let first = next.call(context, MethodId::of(SUM), request)?;
        let unit = (0..BRANCHES).fold(aggregator.unit(context), |unit, branch| {
            unit.branch(&next, MethodId::of(SUM), vec![first.body[0], branch])
        });
        let partial = unit.gather();
        black_box(churn(2000));
        context.checkpoint()?;
        reply.extend(partial.replies().map(|(_, reply)| reply.body[0]));
        Ok(())
    };
    let front = server(Router::new().method(SPLIT, split), quantum);
    std::thread::scope(|scope| {
        let caller = |caller: u8| {
            let channel = channel(&front);
            move || {
                let right = (0..CALLS).filter(|call| {
                    let context = Context::with_deadline(Duration::from_secs(60));
                    let reply = channel.call(&context, MethodId::of(SPLIT), &[caller, *call]).expect("an answer");
                    let first = caller.wrapping_add(*call);
                    reply.body.iter().copied().eq((0..BRANCHES).map(|branch| first.wrapping_add(branch)))
                });
                right.count()
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|number| scope.spawn(caller(number))).collect();
        callers.into_iter().map(|caller| caller.join().expect("it does not panic")).sum()
    })
}

/// Calls whose handlers wait for what a thread or another handler of the same head keeps. How many answers were right.
fn kept_promises() -> usize {
    let pending = Arc::new(Mutex::new(Vec::new()));
    let keep_all = |pending: &Mutex<Vec<(Promise<u8>, u8)>>| {
        let all = std::mem::take(&mut *pending.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(|(promise, asked)| promise.keep(asked.wrapping_add(1)));
    };
    let promised = {
        let pending = Arc::clone(&pending);
        move |context: &Context, request: &[u8], reply: &mut Vec<u8>| {
            keep_all(&pending);
            let (promise, awaited) = promise();
            pending.lock().unwrap_or_else(PoisonError::into_inner).push((promise, request[0]));
            black_box(churn(500));
            reply.push(awaited.wait(context)?);
            Ok(())
        }
    };
    let server = server(Router::new().method(PROMISED, promised), Some(Duration::from_nanos(500)));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                keep_all(&pending);
                std::thread::yield_now();
            }
        });
        let caller = |_| {
            let channel = channel(&server);
            move || {
                let right = (0..CALLS).filter(|call| {
                    let context = Context::with_deadline(Duration::from_secs(60));
                    let reply = channel.call(&context, MethodId::of(PROMISED), &[*call]).expect("an answer");
                    reply.body[..] == [call.wrapping_add(1)]
                });
                right.count()
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|number| scope.spawn(caller(number))).collect();
        let right = callers.into_iter().map(|caller| caller.join().expect("it does not panic")).sum();
        stop.store(true, Ordering::Release);
        right
    })
}

/// Calls of one head whose handlers wait for rayon's threads, and then for another server while they borrow a thread-local.
/// How many answers were right.
fn answers_in_parallel() -> usize {
    thread_local! {
        static PARTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }
    let quantum = Some(Duration::from_nanos(500));
    let behind = server(Router::new().method(SUM, sum), quantum);
    let next = channel(&behind);
    let parallel = move |context: &Context, request: &[u8], reply: &mut Vec<u8>| {
        PARTS.with_borrow_mut(|parts| {
            let asked = u64::from(request[0]);
            (0..16_u32)
                .into_par_iter()
                .map(|part| black_box(churn(100)).min(1) * u64::from(part) * asked)
                .collect_into_vec(parts);
            let all: Vec<u8> = parts.iter().map(|part| *part as u8).collect();
            reply.extend_from_slice(&next.call(context, MethodId::of(SUM), &all)?.body);
            Ok(())
        })
    };
    let front = server(Router::new().method(PARALLEL, parallel), quantum);
    std::thread::scope(|scope| {
        let caller = |_| {
            let channel = channel(&front);
            move || {
                let right = (0..CALLS).filter(|call| {
                    let context = Context::with_deadline(Duration::from_secs(60));
                    let reply = channel.call(&context, MethodId::of(PARALLEL), &[*call]).expect("an answer");
                    reply.body[..] == [call.wrapping_mul(120)]
                });
                right.count()
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|number| scope.spawn(caller(number))).collect();
        callers.into_iter().map(|caller| caller.join().expect("it does not panic")).sum()
    })
}

fn main() {
    println!("instrumented={}", is_instrumented());
    println!("overtaken={}", is_overtaken());
    println!("kept={}", kept_promises());
    println!("in_parallel={}", answers_in_parallel());
    println!("right={} of={}", right_answers(), usize::from(CALLERS) * usize::from(CALLS));
}
