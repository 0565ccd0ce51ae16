//! The loop over what happens to calls.

use super::{
    Access, Clients, ClustersError, Costs, Interface, Outcome, Parts, Server, Serving, Stealing, Taking, Waiting,
};
use crate::cores::Histogram;
use crate::event::{Event, Simulation};
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use greenwave_policy::{Busy, Credits, ServiceTimes, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// After so many calls what they take is estimated anew.
const LEARNED_EVERY: u64 = 16;

/// With as many calls of its own a head takes no other's, as in the server.
const ENOUGH: usize = 2;

/// A head that always has as many takes one in so many turns, likewise.
const EVERY: u32 = 16;

/// Lets so many calls be answered.
///
/// # Errors
/// If server or clients can't be meant.
pub fn run(server: &Server, clients: &Clients, calls: u64, seed: Seed) -> Result<Outcome, ClustersError> {
    server.validate()?;
    clients.validate()?;
    if calls == 0 {
        return Err(ClustersError::Calls);
    }
    Ok(Run::new(server, clients, calls, seed).run())
}

enum Happens {
    /// A caller on this connection wants to call.
    Wish(usize),
    /// A request is at the server.
    Arrives(usize),
    /// The dispatcher has handed over the first that waited for it.
    HandedOver,
    /// A thread that slept can run.
    Woken(usize),
    /// A core's thread has had its slice.
    SliceOver(usize),
    /// A thread has served what it had in its hands.
    Served(usize),
    /// A reply is at the client.
    Replied(usize),
    /// A caller has its answer.
    Done(usize),
}

impl Event for Happens {
    fn trace(&self, trace: &mut Trace) {
        let (what, whom) = match *self {
            Self::Wish(at) => (0, at),
            Self::Arrives(at) => (1, at),
            Self::HandedOver => (2, 0),
            Self::Woken(at) => (3, at),
            Self::SliceOver(at) => (4, at),
            Self::Served(at) => (5, at),
            Self::Replied(at) => (6, at),
            Self::Done(at) => (7, at),
        };
        trace.numbers(&[what, whom as u64]);
    }
}

/// A caller's call; its place is the caller's for the whole run.
struct Call {
    connection: usize,
    wanted: Time,
    sent: Time,
    arrived: Time,
    began: Time,
    served: Time,
    replied: Time,
    work: Duration,
}

struct Connection {
    credits: Credits,
    /// Who waits for a credit.
    waiting: VecDeque<usize>,
    under_way: u32,
}

#[derive(Default)]
struct Thread {
    queue: VecDeque<usize>,
    running: Option<usize>,
    /// Served, and not posted yet.
    replies: Vec<usize>,
    /// Turns in a row in which there was something to do.
    rounds: u32,
    is_awake: bool,
    /// When it has served what it has in its hands, and what was left of that when it lost its core.
    ends: Time,
    left: Duration,
}

/// A lock that all threads share.
#[derive(Default)]
struct Lock {
    holder: Option<usize>,
    /// Who has a call in its hands and waits, the longest first.
    wanting: VecDeque<usize>,
}

/// An interface, and what its heads share. A connection or a head is of the interface that its number has as remainder.
struct Port {
    interface: Interface,
    /// Until when it is taken.
    taken: Time,
    /// What was given away.
    given: VecDeque<usize>,
}

struct Run<'a> {
    clients: &'a Clients,
    serving: Serving,
    costs: Costs,
    batch: usize,
    simulation: Simulation<Happens>,
    calls: Vec<Call>,
    connections: Vec<Connection>,
    threads: Vec<Thread>,
    ports: Vec<Port>,
    works: Stream,
    wires: Stream,
    steal: Option<Stealing>,
    times: ServiceTimes,
    learned: Option<Duration>,
    /// What waits for the dispatcher, and for workers.
    inbox: VecDeque<usize>,
    ready: VecDeque<usize>,
    /// Threads that have nothing to do, where others look for such.
    idle: Vec<usize>,
    /// Of threads that sleep: cores that nobody has, and who waits for one.
    free_cores: usize,
    runnable: VecDeque<usize>,
    /// Of threads that spin: how many cores there are, which thread each runs, and whether its slice is over.
    cores: usize,
    on_core: Vec<usize>,
    is_over: Vec<bool>,
    lock: Option<Lock>,
    dispatcher_free: Time,
    to_do: u64,
    uncounted: u64,
    counted_since: Time,
    parts: [Duration; 4],
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(server: &Server, clients: &'a Clients, calls: u64, seed: Seed) -> Self {
        let credits = if clients.access == Access::Direct { 1 } else { clients.credits };
        let connection = |_| Connection { credits: Credits::new(credits), waiting: VecDeque::new(), under_way: 0 };
        let connections = clients.callers.len();
        let (threads, steal) = match server.serving {
            Serving::PerConnection(_) => (connections, None),
            Serving::Shared => (server.cores - 1, None),
            Serving::Clusters { heads, steal } => (heads * server.interfaces.len(), steal),
        };
        let call = |connection| Call {
            connection,
            wanted: Time::ZERO,
            sent: Time::ZERO,
            arrived: Time::ZERO,
            began: Time::ZERO,
            served: Time::ZERO,
            replied: Time::ZERO,
            work: Duration::ZERO,
        };
        let port = |interface: &Interface| Port { interface: *interface, taken: Time::ZERO, given: VecDeque::new() };
        let callers = clients.callers.iter().enumerate();
        Self {
            clients,
            serving: server.serving,
            costs: server.costs,
            batch: server.batch,
            simulation: Simulation::new(),
            calls: callers.flat_map(|(at, callers)| (0..*callers).map(move |_| call(at))).collect(),
            connections: (0..connections).map(connection).collect(),
            threads: (0..threads).map(|_| Thread::default()).collect(),
            ports: server.interfaces.iter().map(port).collect(),
            works: seed.stream("works", 0),
            wires: seed.stream("wires", 0),
            steal,
            times: ServiceTimes::default(),
            learned: None,
            inbox: VecDeque::new(),
            ready: VecDeque::new(),
            // The first is taken first.
            idle: (0..threads).rev().collect(),
            free_cores: server.cores,
            runnable: VecDeque::new(),
            cores: server.cores,
            on_core: (0..server.cores).collect(),
            is_over: vec![false; server.cores],
            lock: matches!(server.serving, Serving::PerConnection(Waiting::Spins { locks: true, .. }))
                .then(Lock::default),
            dispatcher_free: Time::ZERO,
            to_do: calls,
            uncounted: calls / 10,
            counted_since: Time::ZERO,
            parts: [Duration::ZERO; 4],
            outcome: Outcome {
                latency: Histogram::new(),
                per_second: 0.0,
                parts: Parts::default(),
                stolen: 0,
                hash: 0,
            },
        }
    }

    fn run(mut self) -> Outcome {
        let mut begins = Vec::new();
        for call in 0..self.calls.len() {
            begins.push((self.way(), call));
        }
        for (after, call) in begins {
            self.simulation.after(after, Happens::Wish(call));
        }
        if let Serving::PerConnection(Waiting::Spins { slice, .. }) = self.serving {
            for core in (0..self.cores).filter(|core| core + self.cores < self.threads.len()) {
                // Cores don't change in step.
                let first = slice * (core as u32 + 1) / self.cores as u32;
                self.simulation.after(first, Happens::SliceOver(core));
            }
        }
        while self.to_do > 0 {
            match self.simulation.next() {
                None => break,
                Some(Happens::Wish(call)) => self.wish(call),
                Some(Happens::Arrives(call)) => self.arrives(call),
                Some(Happens::HandedOver) => self.handed_over(),
                Some(Happens::Woken(thread)) => self.woken(thread),
                Some(Happens::SliceOver(core)) => self.slice_over(core),
                Some(Happens::Served(thread)) => self.served(thread),
                Some(Happens::Replied(call)) => self.replied(call),
                Some(Happens::Done(call)) => self.done(call),
            }
        }
        let counted = self.outcome.latency.count() as f64;
        let seconds = self.simulation.now().since(self.counted_since).as_secs_f64();
        if counted > 0.0 && seconds > 0.0 {
            self.outcome.per_second = counted / seconds;
            let [client, network, waiting, service] = self.parts.map(|part| part.as_secs_f64() / counted);
            self.outcome.parts = Parts { client, network, waiting, service };
        }
        self.outcome.hash = self.simulation.hash();
        self.outcome
    }

    fn way(&mut self) -> Duration {
        self.clients.wire + self.wires.span(self.clients.jitter + Duration::from_nanos(1))
    }

    fn wish(&mut self, call: usize) {
        let now = self.simulation.now();
        self.calls[call].wanted = now;
        let connection = &mut self.connections[self.calls[call].connection];
        if connection.credits.take() {
            self.send(call);
        } else {
            connection.waiting.push_back(call);
        }
    }

    fn send(&mut self, call: usize) {
        self.calls[call].sent = self.simulation.now();
        self.calls[call].work = Duration::from_nanos(self.clients.work.draw(&mut self.works));
        self.connections[self.calls[call].connection].under_way += 1;
        let way = self.way();
        self.simulation.after(way, Happens::Arrives(call));
    }

    fn arrives(&mut self, call: usize) {
        let now = self.simulation.now();
        self.calls[call].arrived = now;
        let connection = self.calls[call].connection;
        match self.serving {
            Serving::Shared => {
                self.inbox.push_back(call);
                if self.inbox.len() == 1 {
                    self.simulation.after(self.costs.hand_over, Happens::HandedOver);
                }
            }
            Serving::PerConnection(Waiting::Sleeps) => {
                let thread = &mut self.threads[connection];
                thread.queue.push_back(call);
                if !std::mem::replace(&mut thread.is_awake, true) {
                    self.simulation.after(self.costs.wake, Happens::Woken(connection));
                }
            }
            Serving::PerConnection(Waiting::Spins { .. }) => {
                self.threads[connection].queue.push_back(call);
                if self.is_on_core(connection) && self.threads[connection].running.is_none() {
                    self.serve_next(connection, Duration::ZERO);
                }
            }
            Serving::Clusters { .. } => self.comes_to_head(connection % self.threads.len(), call),
        }
    }

    fn comes_to_head(&mut self, head: usize, call: usize) {
        if self.threads[head].running.is_none() {
            self.idle.retain(|idle| *idle != head);
            return self.begin(head, call, Duration::ZERO);
        }
        let (thread, at) = (&self.threads[head], self.port_of(head));
        let busy = Busy {
            rounds: thread.rounds,
            ready: thread.queue.len() + 1,
            work: self.learned,
            waiting: self.ports[at].given.len(),
            others: self.threads.len() / self.ports.len() - 1,
        };
        if !self.steal.is_some_and(|stealing| stealing.rule.gives(&busy)) {
            return self.threads[head].queue.push_back(call);
        }
        // Who has nothing to do polls, and finds it at once.
        match self.idle.iter().rposition(|other| self.port_of(*other) == at) {
            Some(place) => {
                let other = self.idle.remove(place);
                self.outcome.stolen += 1;
                self.begin(other, call, self.costs.steal);
            }
            None => self.ports[at].given.push_back(call),
        }
    }

    fn port_of(&self, thread: usize) -> usize {
        thread % self.ports.len()
    }

    fn handed_over(&mut self) {
        let Some(call) = self.inbox.pop_front() else { return };
        if !self.inbox.is_empty() {
            self.simulation.after(self.costs.hand_over, Happens::HandedOver);
        }
        match self.idle.pop() {
            Some(worker) => self.begin(worker, call, Duration::ZERO),
            None => self.ready.push_back(call),
        }
    }

    fn woken(&mut self, thread: usize) {
        if self.free_cores == 0 {
            return self.runnable.push_back(thread);
        }
        self.free_cores -= 1;
        self.serve_next(thread, self.costs.switch);
    }

    fn is_on_core(&self, thread: usize) -> bool {
        self.on_core[thread % self.cores] == thread
    }

    fn slice_over(&mut self, core: usize) {
        let at = self.on_core[core];
        if let Some(lock) = &self.lock {
            if lock.holder == Some(at) {
                let thread = &mut self.threads[at];
                thread.left = std::mem::replace(&mut thread.ends, Time::MAX).since(self.simulation.now());
            }
            self.change_thread(core);
        } else if self.threads[at].running.is_some() {
            self.is_over[core] = true;
        } else {
            self.change_thread(core);
        }
    }

    /// A core goes on to the next of the threads that share it.
    fn change_thread(&mut self, core: usize) {
        let Serving::PerConnection(Waiting::Spins { slice, .. }) = self.serving else { return };
        self.is_over[core] = false;
        let next = self.on_core[core] + self.cores;
        let next = if next < self.threads.len() { next } else { core };
        self.on_core[core] = next;
        self.simulation.after(self.costs.switch + slice, Happens::SliceOver(core));
        let has_lock = self.lock.as_ref().is_some_and(|lock| lock.holder == Some(next));
        if has_lock {
            let left = self.threads[next].left;
            self.ends_after(next, self.costs.switch + left);
        } else if self.threads[next].running.is_some() {
            self.pass_lock_on(self.costs.switch);
        } else {
            self.serve_next(next, self.costs.switch);
        }
    }

    /// Gives the lock to whoever has waited longest of those that run, if it is free.
    fn pass_lock_on(&mut self, cost: Duration) {
        let Some(mut lock) = self.lock.take() else { return };
        if lock.holder.is_none()
            && let Some(at) = lock.wanting.iter().position(|thread| self.is_on_core(*thread))
            && let Some(thread) = lock.wanting.remove(at)
        {
            lock.holder = Some(thread);
            self.serve(thread, cost);
        }
        self.lock = Some(lock);
    }

    /// A thread begins the next call of its queue, if there is one.
    fn serve_next(&mut self, thread: usize, cost: Duration) {
        if let Some(call) = self.threads[thread].queue.pop_front() {
            self.begin(thread, call, cost);
        }
    }

    fn begin(&mut self, thread: usize, call: usize, cost: Duration) {
        self.threads[thread].running = Some(call);
        self.threads[thread].rounds = self.threads[thread].rounds.saturating_add(1);
        if let Some(lock) = &mut self.lock {
            lock.wanting.push_back(thread);
            self.pass_lock_on(cost);
        } else {
            self.serve(thread, cost);
        }
    }

    /// Nothing keeps a thread from the call that it has in its hands.
    fn serve(&mut self, thread: usize, cost: Duration) {
        let Some(call) = self.threads[thread].running else { return };
        self.calls[call].began = self.simulation.now() + cost;
        let takes = self.costs.call + self.calls[call].work;
        self.ends_after(thread, cost + takes);
    }

    fn ends_after(&mut self, thread: usize, span: Duration) {
        self.threads[thread].ends = self.simulation.now() + span;
        self.simulation.after(span, Happens::Served(thread));
    }

    fn served(&mut self, at: usize) {
        if self.threads[at].ends != self.simulation.now() {
            // It lost its core before.
            return;
        }
        let Some(call) = self.threads[at].running.take() else { return };
        if let Some(lock) = &mut self.lock {
            lock.holder = None;
            self.pass_lock_on(Duration::ZERO);
        }
        self.calls[call].served = self.simulation.now();
        self.times.observe(self.calls[call].work);
        if self.times.count().is_multiple_of(LEARNED_EVERY) {
            self.learned = self.times.quantile(0.5);
        }
        self.threads[at].replies.push(call);
        if self.threads[at].replies.len() >= self.batch {
            self.post(at);
        }
        match self.serving {
            Serving::Clusters { .. } => {
                let port = self.port_of(at);
                if self.may_take(at)
                    && let Some(call) = self.ports[port].given.pop_front()
                {
                    self.outcome.stolen += 1;
                    return self.begin(at, call, self.costs.steal);
                }
                self.serve_next(at, Duration::ZERO);
            }
            Serving::Shared => {
                if let Some(call) = self.ready.pop_front() {
                    self.begin(at, call, Duration::ZERO);
                }
            }
            Serving::PerConnection(Waiting::Sleeps) => self.serve_next(at, Duration::ZERO),
            Serving::PerConnection(Waiting::Spins { .. }) if self.is_over[at % self.cores] => {
                self.post(at);
                return self.change_thread(at % self.cores);
            }
            Serving::PerConnection(Waiting::Spins { .. }) => self.serve_next(at, Duration::ZERO),
        }
        if self.threads[at].running.is_none() {
            self.rests(at);
        }
    }

    /// Whether a head takes what was given away, if anything was.
    fn may_take(&self, at: usize) -> bool {
        let thread = &self.threads[at];
        match self.steal.map(|stealing| stealing.taking) {
            None => false,
            Some(Taking::BeforeOwn) => true,
            Some(Taking::WithFewOwn) => thread.queue.len() < ENOUGH || thread.rounds.is_multiple_of(EVERY),
        }
    }

    /// A thread has nothing to do.
    fn rests(&mut self, at: usize) {
        self.post(at);
        self.threads[at].rounds = 0;
        match self.serving {
            Serving::Clusters { .. } | Serving::Shared => self.idle.push(at),
            Serving::PerConnection(Waiting::Sleeps) => {
                self.threads[at].is_awake = false;
                match self.runnable.pop_front() {
                    Some(next) => self.serve_next(next, self.costs.switch),
                    None => self.free_cores += 1,
                }
            }
            Serving::PerConnection(Waiting::Spins { .. }) => {}
        }
    }

    /// Posts the replies of a thread.
    fn post(&mut self, at: usize) {
        let replies = std::mem::take(&mut self.threads[at].replies);
        if replies.is_empty() {
            return;
        }
        let of = self.port_of(at);
        let port = &mut self.ports[of];
        let takes = port.interface.post + port.interface.reply * replies.len() as u32;
        port.taken = port.taken.max(self.simulation.now()) + takes;
        let departs = port.taken;
        for call in replies {
            let way = self.way();
            self.simulation.at(departs + way, Happens::Replied(call));
        }
    }

    fn replied(&mut self, call: usize) {
        let now = self.simulation.now();
        self.calls[call].replied = now;
        let connection = &mut self.connections[self.calls[call].connection];
        let seen = match self.clients.access {
            Access::Direct => now,
            Access::Shared { look } => now + look * connection.under_way,
            Access::Dispatched { each, reach } => {
                self.dispatcher_free = self.dispatcher_free.max(now) + each;
                self.dispatcher_free + reach
            }
        };
        connection.under_way -= 1;
        // Only credits that were taken come back, one for each reply.
        let _ = connection.credits.give(1);
        let next = if connection.waiting.is_empty() || !connection.credits.take() {
            None
        } else {
            connection.waiting.pop_front()
        };
        self.simulation.at(seen + self.clients.own, Happens::Done(call));
        if let Some(next) = next {
            self.send(next);
        }
    }

    fn done(&mut self, at: usize) {
        let (now, call) = (self.simulation.now(), &self.calls[at]);
        self.to_do -= 1;
        if self.uncounted > 0 {
            self.uncounted -= 1;
            self.counted_since = now;
        } else {
            let took = now.since(call.wanted);
            self.outcome.latency.add(took.as_nanos() as u64);
            let parts = [
                call.sent.since(call.wanted) + now.since(call.replied),
                call.arrived.since(call.sent) + call.replied.since(call.served),
                call.began.since(call.arrived),
                call.served.since(call.began),
            ];
            self.parts.iter_mut().zip(parts).for_each(|(all, part)| *all += part);
        }
        self.wish(at);
    }
}
