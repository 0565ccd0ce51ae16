//! Parallel units: one request split over many servers, whose answers are put together again.
//!
//! The branches inherit what is left less the time that putting together takes (D2P, equations (4) and (5)), and carry
//! the parallel-unit flag. When that time is up the aggregator goes on with what it has: a partial answer in time beats
//! a complete one too late. A branch that takes longer than most may be sent once more to a replica, within a ratio and
//! only if an answer can still be in time.

use crate::client::channel::Channel;
use crate::client::under_way::{CallFuture, Suspended};
use crate::clock::monotonic;
use crate::context::Context;
use crate::local::{self, Mailbox};
use crate::net::number;
use crate::receipt::{Receipt, StageReceipt};
use crate::status::{Check, Code, Origin, Reason, Status};
use crate::wire::MethodId;
use greenwave_policy::{Deadline, Hedge, ServiceTimes, Time};
use greenwave_proto::Method;
use greenwave_proto::outcome::{Outcome, Reply};
use greenwave_quanta::critical;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// How an aggregator is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AggregatorConfig {
    hedge_ratio: f64,
    hedge_quantile: f64,
    hedge_after: Duration,
    aggregation: Duration,
}

impl AggregatorConfig {
    /// Second attempts per branch, 0 (none) to 1, by default 0.05: how much more load hedging may make.
    #[must_use]
    pub const fn hedge_ratio(mut self, share: f64) -> Self {
        self.hedge_ratio = share;
        self
    }

    /// A branch is slow when it took longer than this share of branches, 0 to 1, by default 0.95.
    #[must_use]
    pub const fn hedge_quantile(mut self, share: f64) -> Self {
        self.hedge_quantile = share;
        self
    }

    /// And longer than this, by default 1 ms.
    #[must_use]
    pub const fn hedge_after(mut self, time: Duration) -> Self {
        self.hedge_after = time;
        self
    }

    /// How long putting together takes until it was learned, by default 200 us.
    #[must_use]
    pub const fn aggregation(mut self, time: Duration) -> Self {
        self.aggregation = time;
        self
    }
}

impl Default for AggregatorConfig {
    fn default() -> Self {
        Self {
            hedge_ratio: 0.05,
            hedge_quantile: 0.95,
            hedge_after: Duration::from_millis(1),
            aggregation: Duration::from_micros(200),
        }
    }
}

/// What an aggregator has learned: how long branches take, how long putting together takes, how many hedges it may
/// make. One per method, shared by its calls.
#[derive(Debug)]
pub struct Aggregator {
    config: AggregatorConfig,
    learned: Mutex<Learned>,
}

#[derive(Debug)]
struct Learned {
    branches: ServiceTimes,
    aggregation: ServiceTimes,
    hedge: Hedge,
}

impl Aggregator {
    /// An aggregator that has learned nothing.
    pub fn new(config: AggregatorConfig) -> Self {
        let hedge = Hedge::new(config.hedge_ratio, config.hedge_quantile, config.hedge_after);
        let learned = Learned { branches: ServiceTimes::new(), aggregation: ServiceTimes::new(), hedge };
        Self { config, learned: Mutex::new(learned) }
    }

    /// Splits a request.
    pub fn unit<'a>(&'a self, context: &'a Context) -> ParallelUnit<'a> {
        ParallelUnit { aggregator: self, context, branches: Vec::new() }
    }

    /// Reads or adds to what was learned. Who does isn't preempted: others would wait for the lock.
    fn learned<R>(&self, change: impl FnOnce(&mut Learned) -> R) -> R {
        critical(|| change(&mut self.learned.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The time to leave for putting together.
    fn reserve(&self) -> Duration {
        self.learned(|learned| learned.aggregation.quantile(0.9)).unwrap_or(self.config.aggregation)
    }
}

/// A request that is being split.
pub struct ParallelUnit<'a> {
    aggregator: &'a Aggregator,
    context: &'a Context,
    branches: Vec<Branch>,
}

struct Branch {
    /// The server, then its replicas.
    channels: Vec<Channel>,
    method: MethodId,
    request: Vec<u8>,
    attempts: Vec<Attempt>,
    tried: usize,
    hedged: bool,
    result: Option<Result<Reply, Status>>,
}

struct Attempt {
    channel: usize,
    sent: Time,
    ticket: Ticket,
}

/// How an attempt's outcome arrives: in a handler, or on an ordinary thread.
enum Ticket {
    Suspended(Suspended),
    Future(CallFuture),
}

/// What came of a parallel unit. How long this value lives counts as the time that putting together takes.
pub struct Partial<'a> {
    /// The branches, in the order in which they were added.
    pub branches: Vec<Answered>,
    aggregator: &'a Aggregator,
    gathered: Time,
}

/// What came of one branch.
#[derive(Debug)]
pub struct Answered {
    /// The answer, or why there is none.
    pub result: Result<Reply, Status>,
    /// Whether it was sent to a replica too.
    pub hedged: bool,
}

impl ParallelUnit<'_> {
    /// Adds a branch.
    #[must_use]
    pub fn branch(self, channel: &Channel, method: impl Into<Method>, request: Vec<u8>) -> Self {
        self.branch_with_replicas([channel.clone()], method, request)
    }

    /// Adds a branch that any of several servers can answer; the first is asked first. At least one.
    #[must_use]
    pub fn branch_with_replicas(
        mut self,
        channels: impl IntoIterator<Item = Channel>,
        method: impl Into<Method>,
        request: Vec<u8>,
    ) -> Self {
        let channels: Vec<Channel> = channels.into_iter().collect();
        let result = channels.is_empty().then(|| Err(Status::refused(Reason::Unreachable, "the branch has no server")));
        let method = number(method.into());
        let (attempts, tried, hedged) = (Vec::new(), 0, false);
        self.branches.push(Branch { channels, method, request, attempts, tried, hedged, result });
        self
    }
}

impl<'a> ParallelUnit<'a> {
    /// Sends all branches and waits until all have answered, or until it is time to put together what there is.
    pub fn gather(self) -> Partial<'a> {
        let Self { aggregator, context, branches } = self;
        let now = monotonic();
        let reserve = aggregator.reserve();
        let budget = context.deadline().budget(now).after_stage(reserve);
        let limit = Deadline::at(now, budget);
        let mailbox = local::mailbox();
        let mut gathering = Gathering {
            aggregator,
            context: context.branch(limit),
            waker: if mailbox.is_some() { Waker::noop().clone() } else { crate::waiter::Unpark::current() },
            mailbox: mailbox.as_deref(),
            branches,
            costs: Vec::new(),
        };
        gathering.run();
        gathering.account();
        let branches = gathering.branches.into_iter().map(Branch::into_answered).collect();
        Partial { branches, aggregator, gathered: monotonic() }
    }
}

struct Gathering<'a> {
    aggregator: &'a Aggregator,
    context: Context,
    mailbox: Option<&'a Mailbox>,
    waker: Waker,
    branches: Vec<Branch>,
    /// What attempts have cost, and when they were made.
    costs: Vec<(Time, StageReceipt, Receipt)>,
}

impl Gathering<'_> {
    fn run(&mut self) {
        for index in 0..self.branches.len() {
            self.aggregator.learned(|learned| learned.hedge.on_request());
            self.send(index);
        }
        loop {
            // Each attempt is asked before each wait, since that is how it learns whom to wake.
            let pending: usize = (0..self.branches.len()).map(|index| self.collect(index)).sum();
            if pending == 0 {
                return;
            }
            let now = monotonic();
            if let Some(reason) = self.context.ask(Check::Wait, now).refused() {
                let text = if reason == Reason::Cancelled { "" } else { "the aggregator's budget was reached" };
                return self.give_up(now, &Status::refused(reason, text));
            }
            match self.hedge_slow(now) {
                Hedged::Sent => {}
                Hedged::Next(hedge) => self.wait(now, pending, hedge),
            }
        }
    }

    /// Sends a branch to the next server that it has not been sent to. Whether there was one.
    fn send(&mut self, index: usize) -> bool {
        let Self { context, mailbox, branches, .. } = self;
        let branch = &mut branches[index];
        let Some(channel) = branch.channels.get(branch.tried) else { return false };
        let ticket = match mailbox {
            Some(mailbox) => {
                Ticket::Suspended(channel.start_in(mailbox, context, branch.method, branch.request.clone()))
            }
            None => Ticket::Future(channel.call_async(context, branch.method, &branch.request)),
        };
        branch.attempts.push(Attempt { channel: branch.tried, sent: monotonic(), ticket });
        branch.tried += 1;
        true
    }

    /// Takes in what a branch's attempts have brought. How many are still under way.
    fn collect(&mut self, index: usize) -> usize {
        while let Some((attempt, outcome)) = self.branches[index].next_outcome(&self.waker) {
            self.keep_account(index, &attempt, &outcome);
            if outcome.result.is_ok() {
                self.aggregator.learned(|learned| learned.branches.observe(outcome.total));
            }
            let branch = &mut self.branches[index];
            match outcome.into_reply() {
                Ok(reply) => branch.result = Some(Ok(reply)),
                Err(_) if !branch.attempts.is_empty() => {}
                Err(failure) if elsewhere(&failure.status) && self.send(index) => {}
                Err(failure) => self.branches[index].result = Some(Err(failure.status)),
            }
        }
        let branch = &mut self.branches[index];
        if branch.result.is_some() {
            let mailbox = self.mailbox;
            branch.attempts.drain(..).for_each(|attempt| attempt.ticket.abandon(mailbox));
        }
        branch.attempts.len()
    }

    /// Keeps what an attempt has cost, for the receipt of the handler that this is in.
    fn keep_account(&mut self, index: usize, attempt: &Attempt, outcome: &Outcome) {
        let Some(mailbox) = self.mailbox else { return };
        let channel = &self.branches[index].channels[attempt.channel];
        let stage = channel.cost(mailbox, attempt.sent, u16::try_from(index).ok(), outcome);
        self.costs.push((attempt.sent, stage, outcome.receipt.clone().unwrap_or_default()));
    }

    /// Sends slow branches once more, as far as that is allowed; says when the next one will be slow.
    fn hedge_slow(&mut self, now: Time) -> Hedged {
        let (mut sent, mut next) = (false, None);
        for index in 0..self.branches.len() {
            let branch = &self.branches[index];
            let Some(first) = branch.attempts.first().filter(|_| branch.can_hedge()) else { continue };
            let budget = self.context.deadline().budget(now);
            let allowed = self.aggregator.learned(|Learned { branches, hedge, .. }| {
                let slow_from = first.sent + hedge.delay(branches)?;
                let expected = branches.quantile(0.5).unwrap_or_default();
                Some(if now < slow_from { Err(slow_from) } else { Ok(hedge.try_hedge(budget, expected)) })
            });
            match allowed {
                None => break,
                Some(Err(slow_from)) => next = next.into_iter().chain([slow_from]).min(),
                Some(Ok(allowed)) => {
                    if allowed && self.send(index) {
                        self.branches[index].hedged = true;
                        sent = true;
                    }
                }
            }
        }
        if sent { Hedged::Sent } else { Hedged::Next(next) }
    }

    fn wait(&self, now: Time, pending: usize, hedge: Option<Time>) {
        let closes = Some(self.context.gate().closes()).filter(|closes| *closes < Time::MAX);
        let until = closes.into_iter().chain(hedge).min();
        match self.mailbox {
            // A failure is acted on at once where there is somebody else to ask; otherwise all may as well be awaited.
            Some(mailbox) => {
                let single = self.branches.iter().all(|branch| branch.channels.len() == 1);
                mailbox.sleep(if single { pending } else { 1 }, until);
            }
            None => match until {
                Some(until) => std::thread::park_timeout(until.since(now)),
                None => std::thread::park(),
            },
        }
    }

    /// Ends the branches that have not answered. What their attempts cost so far is accounted for all the same.
    fn give_up(&mut self, now: Time, status: &Status) {
        for index in 0..self.branches.len() {
            if self.branches[index].result.is_some() {
                continue;
            }
            for attempt in std::mem::take(&mut self.branches[index].attempts) {
                let outcome = Outcome::local(status.clone(), now.since(attempt.sent));
                self.keep_account(index, &attempt, &outcome);
                attempt.ticket.abandon(self.mailbox);
            }
            self.branches[index].result = Some(Err(status.clone()));
        }
    }

    /// Puts what the attempts cost into the receipt, in the order in which they were made.
    fn account(&mut self) {
        let Some(mailbox) = self.mailbox else { return };
        self.costs.sort_by_key(|(sent, ..)| *sent);
        self.costs.drain(..).for_each(|(_, stage, behind)| mailbox.record(stage, &behind));
    }
}

/// What came of looking for slow branches.
enum Hedged {
    Sent,
    /// Nothing; the next branch will be slow then, if any.
    Next(Option<Time>),
}

/// Whether another server may answer where this one did not: it certainly did nothing, or its machine is gone. What its
/// handler says of servers behind it is its answer.
fn elsewhere(status: &Status) -> bool {
    let is_its_own = status.origin != Origin::Handler;
    is_its_own
        && matches!(status.reason, Reason::Unreachable | Reason::GoingAway | Reason::ConnectionLost | Reason::QueueFull)
}

impl Branch {
    /// The next outcome among those of the attempts; the others know whom to wake.
    fn next_outcome(&mut self, waker: &Waker) -> Option<(Attempt, Outcome)> {
        if self.result.is_some() {
            return None;
        }
        let mut attempts = self.attempts.iter_mut().enumerate();
        let (at, outcome) = attempts.find_map(|(at, attempt)| Some((at, attempt.ticket.outcome(waker)?)))?;
        Some((self.attempts.remove(at), outcome))
    }

    fn can_hedge(&self) -> bool {
        self.result.is_none() && !self.hedged && self.attempts.len() == 1 && self.tried < self.channels.len()
    }

    fn into_answered(self) -> Answered {
        let unasked = || Err(Status::new(Code::Internal, "the branch was never sent"));
        Answered { result: self.result.unwrap_or_else(unasked), hedged: self.hedged }
    }
}

impl Ticket {
    fn outcome(&mut self, waker: &Waker) -> Option<Outcome> {
        match self {
            Self::Suspended(call) => call.take(),
            Self::Future(future) => future.outcome(waker),
        }
    }

    fn abandon(self, mailbox: Option<&Mailbox>) {
        if let (Self::Suspended(call), Some(mailbox)) = (self, mailbox) {
            call.abandon(mailbox);
        }
    }
}

impl Partial<'_> {
    /// Whether every branch has answered.
    pub fn is_complete(&self) -> bool {
        self.branches.iter().all(|branch| branch.result.is_ok())
    }

    /// The answers that are there, with their branches' numbers.
    pub fn replies(&self) -> impl Iterator<Item = (usize, &Reply)> {
        self.branches
            .iter()
            .enumerate()
            .filter_map(|(index, branch)| branch.result.as_ref().ok().map(|reply| (index, reply)))
    }

    /// The branches that have not answered, and why.
    pub fn missing(&self) -> impl Iterator<Item = (usize, &Status)> {
        self.branches
            .iter()
            .enumerate()
            .filter_map(|(index, branch)| branch.result.as_ref().err().map(|status| (index, status)))
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        let took = monotonic().since(self.gathered);
        self.aggregator.learned(|learned| learned.aggregation.observe(took));
    }
}
