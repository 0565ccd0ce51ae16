//! A server's head and a client's stream in virtual time, over a network in memory with faults.
//!
//! One thread turns both by hand. Time stands still while anything happens and then jumps to when the next thing is
//! due, so a test takes no time, and every instant in it is exact. With the same seed the same happens.

mod deadlines;
mod delays;
mod faults;
mod futures;
mod overload;
mod permits;
mod promises;
mod stalls;

use crate::client::call_queue::{CallQueue, Completion};
use crate::client::config::ChannelConfig;
use crate::clock::Clock;
use crate::config::{Limits, ServerConfig};
use crate::context::Context;
use crate::counters::{Counters, Snapshot};
use crate::local::{self, Installed};
use crate::server::{EventLoop, event_loop_by_hand};
use crate::service::Router;
use crate::status::{Reason, Status};
use crate::wire::MethodId;
use greenwave_policy::{Budget, Order, Time};
use greenwave_verbs::memory::{Direction, Faults, Network};
use greenwave_verbs::{Address, Choice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SERVER: &str = "server";
const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);
const ECHO: MethodId = MethodId::of("lab.Lab/Echo");
const WORK: MethodId = MethodId::of("lab.Lab/Work");
const NAP: MethodId = MethodId::of("lab.Lab/Nap");
const LEFT: MethodId = MethodId::of("lab.Lab/Left");
const LARGE: MethodId = MethodId::of("lab.Lab/Large");

/// A virtual hand of a virtual clock.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn pass(&self, span: Duration) {
        self.0.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        Clock::Virtual(Arc::clone(&self.0))
    }
}

/// A network, a server on it, and a client.
struct Lab {
    hand: Hand,
    network: Network,
    head: EventLoop,
    counters: Arc<Counters>,
    stream: CallQueue,
    done: Vec<Completion>,
    _installed: Installed,
}

/// How a lab is set up. The least that differs from the defaults is what a test is about.
#[derive(Default)]
struct Setup {
    seed: u64,
    /// The way there and the way back.
    delays: [Duration; 2],
    /// Who goes first, if it isn't who came first.
    order: Option<Order>,
    server: ServerConfig,
    client: ChannelConfig,
}

impl Setup {
    fn checksums(mut self) -> Self {
        (self.server.checksums, self.client.checksums) = (true, true);
        self
    }

    fn limits(mut self, limits: Limits) -> Self {
        (self.server.limits, self.client.limits) = (limits, limits);
        self
    }

    fn build(self) -> Lab {
        // Not at the origin of time, before which no request could be born.
        let hand = Hand(Arc::new(AtomicU64::new(1_000_000_000)));
        let network = Network::new(self.seed);
        let (backend, address) = (Choice::Memory(network.clone()), Address::Memory(SERVER.into()));
        let listen = vec![address.clone()];
        let server = self.server.listen(listen).backend(backend.clone());
        let server = server.order(self.order.unwrap_or(Order::Fcfs));
        let (head, counters) = event_loop_by_hand(&server, methods(&hand), hand.clock()).unwrap();
        let client = self.client.backend(backend).jitter_seed(self.seed);
        let stream = CallQueue::with_clock(&address, &client, hand.clock()).unwrap();
        let (done, _installed) = (Vec::new(), head.install());
        let lab = Lab { hand, network, head, counters, stream, done, _installed };
        let [there, back] = self.delays.map(|delay| Faults { delay, ..Faults::default() });
        lab.faults(Direction::ToListener, there);
        lab.faults(Direction::FromListener, back);
        lab
    }
}

fn methods(hand: &Hand) -> Router {
    let (working, napping, reading) = (hand.clone(), hand.clone(), hand.clone());
    let nanos = |request: &[u8]| Duration::from_nanos(request.try_into().map(u64::from_le_bytes).unwrap_or_default());
    Router::new()
        .method("lab.Lab/Echo", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        // Works for as many nanoseconds as the request says. What the same turn posts leaves at the turn's beginning.
        .method("lab.Lab/Work", move |_, request, _| {
            working.pass(nanos(request));
            Ok(())
        })
        // Waits for as many nanoseconds, unless it is cancelled.
        .method("lab.Lab/Nap", move |context, request, _| {
            let until = napping.now() + nanos(request);
            local::mailbox().expect("in a handler").sleep(1, Some(until));
            if context.is_cancelled() {
                return Err(Status::refused(Reason::Cancelled, ""));
            }
            assert_eq!(napping.now(), until, "it is woken at the very instant");
            Ok(())
        })
        .method("lab.Lab/Await", promises::wait_for_it)
        .method("lab.Lab/Poll", futures::poll_it)
        .method("lab.Lab/Large", |_, _, reply| {
            reply.resize(200_000, 9);
            Ok(())
        })
        // Answers what it sees of the budget, and of the request's age.
        .method("lab.Lab/Left", move |context, _, reply| {
            let now = reading.now();
            reply.extend_from_slice(&context.deadline().budget(now).as_nanos().to_le_bytes());
            reply.extend_from_slice(&(now.since(context.birth()).as_nanos() as u64).to_le_bytes());
            Ok(())
        })
}

impl Lab {
    fn new() -> Self {
        Setup::default().build()
    }

    fn now(&self) -> Time {
        self.hand.now()
    }

    fn faults(&self, direction: Direction, faults: Faults) {
        self.network.set_faults(SERVER, direction, faults);
    }

    fn counters(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// A request whose client gives up when its time is over.
    fn within(&self, expected: Duration) -> Context {
        Context::born(self.now(), Budget::expected(expected), true)
    }

    /// A request whose client waits however late the answer is, so that it is the server's to find out.
    fn observed(&self, expected: Duration) -> Context {
        Context::born(self.now(), Budget::expected(expected), false)
    }

    fn submit(&mut self, context: &Context, method: MethodId, request: &[u8], tag: u64) {
        self.stream.submit(context, method, request, tag);
    }

    /// Turns both ends until neither has anything to do at this instant. When there will be something.
    fn settle(&mut self) -> Option<Time> {
        let mut quiet = 0;
        loop {
            let now = self.now();
            let (worked, head_next) = self.head.round(now);
            let stream_next = self.stream.round(now);
            let before = self.done.len();
            while let Some(done) = self.stream.poll() {
                self.done.push(done);
            }
            let under_way = self.network.next_due();
            if worked || self.done.len() > before || self.now() > now {
                quiet = 0;
            } else if under_way.is_none_or(|due| due > now) || quiet == 3 {
                // What is due and is not taken is for somebody whom the test leaves alone.
                return [head_next, stream_next, under_way].into_iter().flatten().filter(|next| *next > now).min();
            } else {
                quiet += 1;
            }
        }
    }

    /// Lets time pass until this instant, and no further.
    fn run_until(&mut self, end: Time) {
        while let Some(next) = self.settle().filter(|next| *next <= end) {
            self.hand.0.store(next.as_nanos(), Ordering::Relaxed);
        }
        self.hand.0.fetch_max(end.as_nanos(), Ordering::Relaxed);
        self.settle();
    }

    fn run_for(&mut self, span: Duration) {
        self.run_until(self.now() + span);
    }

    /// Lets time pass until every call is over; an hour is longer than any may take.
    fn finish(&mut self) -> Vec<Completion> {
        let end = self.now() + Duration::from_secs(3600);
        while self.stream.in_flight() > 0 {
            let next = self.settle().filter(|next| *next <= end);
            if self.stream.in_flight() == 0 {
                break;
            }
            let next = next.expect("a call that is under way is answered or given up");
            self.hand.0.store(next.as_nanos(), Ordering::Relaxed);
        }
        std::mem::take(&mut self.done)
    }

    /// Calls and waits.
    fn call(&mut self, context: &Context, method: MethodId, request: &[u8]) -> Completion {
        self.submit(context, method, request, 0);
        let mut done = self.finish();
        assert_eq!(done.len(), 1, "one call has one outcome");
        done.remove(0)
    }

    /// Connects, and lets both ends learn what can be learned of the way by one call.
    fn connected(mut self) -> Self {
        let context = self.observed(Duration::from_secs(60));
        self.call(&context, ECHO, b"").result.expect("nothing is in the way yet");
        self
    }
}
