//! The servers that a channel's target stands for: which of them is given a call, and whether it is given to another one
//! when it failed.
//!
//! What is decided is greenwave-policy's: [`Balance`], [`Retries`], [`Hedge`]. Here is what they decide about, under one lock
//! that is held for the decision alone, and never by a handler that is preempted meanwhile. Where the addresses come from
//! doesn't matter: those of a name come from its resolver, which tells of them by [`Servers::resolved`].

use super::alarm::Alarm;
use super::call_queue::Completion;
use super::config::ChannelConfig;
use super::line::{Line, Queue};
use super::target::{Kind, SERVERS_MOST, Target};
use super::verdict::{another_try, completed, ended};
use crate::clock::monotonic;
use crate::context::Context;
use crate::promise::{Awaited, Promise, promise};
use crate::status::{Check, Reason, Status};
use crate::wire::{MethodId, StageName};
use greenwave_policy::balance::Server;
use greenwave_policy::{Balance, Ended, Hedge, Retries, ServiceTimes, Time};
use greenwave_proto::outcome::Outcome;
use greenwave_quanta::critical;
use greenwave_verbs::Address;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The servers of one channel.
pub(crate) struct Servers {
    target: Target,
    config: ChannelConfig,
    stage: StageName,
    queue: Arc<Queue>,
    state: Mutex<State>,
    /// Says which of too many addresses are kept: others at each client, the same ones each time.
    seed: RandomState,
    #[cfg(feature = "resolver")]
    nudge: super::resolver::Nudge,
}

struct State {
    balance: Balance<Line>,
    retries: Retries,
    hedge: Hedge,
    /// How long calls take that may be hedged, by method.
    times: HashMap<MethodId, ServiceTimes>,
    found: Found,
    /// Whether a call was made since the addresses were looked up.
    used: bool,
    /// Whether they are to be looked up again with the next call.
    old: bool,
}

/// What has come of resolving.
enum Found {
    /// Nobody has asked for it yet.
    Unasked,
    /// Those who wait for it.
    Awaited(Vec<Promise<()>>),
    /// There are addresses, or were.
    Addresses,
    /// There never were any.
    Nothing(Status),
}

/// So many methods' times are told apart for hedging.
const METHODS_MOST: usize = 256;

/// What there is for a call.
pub(super) enum Choice {
    Chosen(Chosen),
    /// The name is being resolved: then choose.
    Wait(Awaited<()>),
    Nobody(Status),
}

impl Servers {
    pub(super) fn new(target: Target, config: ChannelConfig) -> Arc<Self> {
        let seed = RandomState::new();
        let number = config.jitter_seed.unwrap_or_else(|| seed.hash_one(0));
        let state = State {
            balance: Balance::new(config.balance, config.outliers, number),
            retries: Retries::new(config.retries.unwrap_or_default(), number),
            hedge: Hedge::new(config.hedge_ratio, config.hedge_quantile, config.hedge_after),
            times: HashMap::new(),
            found: Found::Unasked,
            used: false,
            old: false,
        };
        let addresses = match target.kind() {
            Kind::Addresses(addresses) => addresses.clone(),
            Kind::Address(address) => vec![address.clone()],
            Kind::Name(_) => Vec::new(),
        };
        let (stage, queue) = (super::line::short_name(&target.to_string()), Arc::new(Queue::new(&config)));
        let servers = Arc::new(Self {
            target,
            config,
            stage,
            queue,
            state: Mutex::new(state),
            seed,
            #[cfg(feature = "resolver")]
            nudge: super::resolver::Nudge::default(),
        });
        if !addresses.is_empty() {
            servers.resolved(Ok(addresses));
        }
        servers
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// What the stage is called until one of the servers has introduced itself.
    pub(super) const fn stage(&self) -> StageName {
        self.stage
    }

    /// Reads or changes what is known. Who does isn't preempted: others would wait for the lock.
    fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        critical(|| change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A server for a call: another than `avoided`, the one that it was given to before, if there is one.
    pub(super) fn choose(self: &Arc<Self>, avoided: Option<Server>) -> Choice {
        let now = monotonic();
        let Some((server, line, _old)) = self.state(|state| state.choose(now, avoided)) else { return self.wait() };
        #[cfg(feature = "resolver")]
        if _old {
            self.nudge.look_again();
        }
        Choice::Chosen(Chosen { servers: Arc::clone(self), line, server, made: now, over: false })
    }

    /// Has the name resolved, and waits for that.
    #[cold]
    fn wait(self: &Arc<Self>) -> Choice {
        let (asks, choice) = self.state(|state| {
            state.used = true;
            #[cfg(feature = "resolver")]
            if std::mem::take(&mut state.old) {
                self.nudge.look_again();
            }
            let asks = matches!(state.found, Found::Unasked);
            match &mut state.found {
                Found::Nothing(status) => return (false, Choice::Nobody(status.clone())),
                // What was there a moment ago is gone, for a moment.
                Found::Addresses => {
                    return (false, Choice::Nobody(Status::refused(Reason::Unreachable, self.target.to_string())));
                }
                Found::Unasked => state.found = Found::Awaited(Vec::new()),
                Found::Awaited(_) => {}
            }
            let (promise, awaited) = promise();
            if let Found::Awaited(waiting) = &mut state.found {
                // Those who have given up are let go, so that there are no more than twice as many as wait.
                if waiting.len() == waiting.capacity() {
                    waiting.retain(Promise::is_wanted);
                }
                waiting.push(promise);
            }
            (asks, Choice::Wait(awaited))
        });
        if asks && let Err(status) = self.ask() {
            // Whoever waits is told, and who comes next asks again.
            self.state(|state| state.found = Found::Unasked);
            return Choice::Nobody(status);
        }
        choice
    }

    #[cfg(feature = "resolver")]
    fn ask(self: &Arc<Self>) -> Result<(), Status> {
        match self.target.kind() {
            Kind::Name(name) => super::resolver::keep_resolved(self, name.clone(), self.nudge.clone()),
            Kind::Address(_) | Kind::Addresses(_) => Ok(()),
        }
    }

    #[cfg(not(feature = "resolver"))]
    fn ask(self: &Arc<Self>) -> Result<(), Status> {
        Err(Status::refused(Reason::Unreachable, "this was built without the feature `resolver`"))
    }

    /// Waits until there is a server for a call of this context.
    pub(super) fn chosen(self: &Arc<Self>, context: &Context, avoided: Option<Server>) -> Result<Chosen, Status> {
        loop {
            match self.choose(avoided) {
                Choice::Chosen(chosen) => return Ok(chosen),
                Choice::Nobody(status) => return Err(status),
                Choice::Wait(awaited) => awaited.wait(context).map_err(|status| self.unresolved(status))?,
            }
        }
    }

    /// Why a call came to nothing that waited for the name to be resolved. It never ran.
    pub(super) fn unresolved(&self, status: Status) -> Status {
        match status.reason {
            Reason::Expired(_) => {
                let text = format!("the name of {} was not resolved by then", self.target);
                Status::refused(Reason::Expired(Check::Send), text)
            }
            _ => status,
        }
    }

    /// Calls and waits for the outcome; makes the call again where that is allowed. `repeatable`: it may run twice.
    pub(super) fn call(
        self: &Arc<Self>,
        context: &Context,
        method: MethodId,
        request: &[u8],
        repeatable: bool,
    ) -> Outcome {
        let started = monotonic();
        let (mut made, mut avoided) = (0, None);
        loop {
            let chosen = match self.chosen(context, avoided) {
                Ok(chosen) => chosen,
                Err(status) => return Outcome::local(status, monotonic().since(started)),
            };
            let (server, waited) = (chosen.server, chosen.made > started);
            made += 1;
            let mut outcome = chosen.line.call(context, method, Cow::Borrowed(request));
            chosen.ended(&outcome);
            let pause = self.again(context, made, server, &outcome, repeatable);
            let goes_on = pause.is_some_and(|pause| pause.is_zero() || wait(pause, context).is_ok());
            if !goes_on {
                if made > 1 || waited {
                    outcome.total = monotonic().since(started);
                }
                return outcome;
            }
            avoided = Some(server);
        }
    }

    /// Whether a call that ended so, the last of several attempts, is made once more, and after which pause.
    pub(super) fn again(
        &self,
        context: &Context,
        made: u32,
        server: Server,
        outcome: &Outcome,
        repeatable: bool,
    ) -> Option<Duration> {
        let status = outcome.result.as_ref().err()?;
        let later = another_try(status, outcome.metadata(), repeatable).filter(|_| !context.is_cancelled())?;
        let now = monotonic();
        let left = context.deadline().budget(now);
        self.state(|State { balance, retries, .. }| {
            let expected = balance.expected(now).saturating_add(later);
            retries.try_again(now, made, balance.has_another(server), left, expected)
        })
        .map(|pause| pause.max(later))
    }

    /// How long to wait for an answer before a call is made to another server too; `None`: not at all.
    pub(super) fn hedge_delay(&self, method: MethodId) -> Option<Duration> {
        self.state(|state| {
            let times = state.times.get(&method)?;
            (state.balance.len() > 1).then(|| state.hedge.delay(times)).flatten()
        })
    }

    /// Whether a call is made to another server too. Spends an attempt.
    pub(super) fn try_hedge(&self, context: &Context, method: MethodId) -> bool {
        let left = context.deadline().budget(monotonic());
        self.state(|State { hedge, times, .. }| {
            let expected = times.get(&method).and_then(|times| times.quantile(0.5)).unwrap_or_default();
            hedge.try_hedge(left, expected)
        })
    }

    /// How long an answer took, for hedging.
    pub(super) fn took(&self, method: MethodId, total: Duration) {
        self.state(|State { times, .. }| {
            if times.len() < METHODS_MOST || times.contains_key(&method) {
                times.entry(method).or_insert_with(ServiceTimes::new).observe(total);
            }
        });
    }

    pub(super) fn hedges(&self) -> bool {
        self.config.hedge_ratio > 0.0
    }

    /// What resolving has brought: addresses, or why there are none. Addresses that were there stay until there are others.
    pub(super) fn resolved(&self, found: Result<Vec<Address>, Status>) {
        let wanted = found.map(|addresses| self.few(addresses));
        let mut gone = Vec::new();
        let waiting = self.state(|state| {
            match wanted {
                Ok(wanted) => {
                    gone.extend(state.balance.iter().filter(|line| !wanted.contains(line.address())).cloned());
                    state.balance.retain(|line| wanted.contains(line.address()));
                    let known: HashSet<Address> = state.balance.iter().map(|line| line.address().clone()).collect();
                    for address in wanted.into_iter().filter(|address| !known.contains(address)) {
                        state.balance.add(Line::new(address, &self.config, Arc::clone(&self.queue)));
                    }
                }
                Err(_) if !state.balance.is_empty() => {}
                Err(status) => {
                    return std::mem::replace(&mut state.found, Found::Nothing(status));
                }
            }
            std::mem::replace(&mut state.found, Found::Addresses)
        });
        // Their connections end with the calls that are under way on them. Not under the lock, which those may want.
        drop(gone);
        if let Found::Awaited(waiting) = waiting {
            waiting.into_iter().for_each(|promise| promise.keep(()));
        }
    }

    /// As many as a channel has at most.
    fn few(&self, mut addresses: Vec<Address>) -> HashSet<Address> {
        if addresses.len() > SERVERS_MOST {
            addresses.sort_by_cached_key(|address| self.seed.hash_one(address));
            addresses.dedup();
            addresses.truncate(SERVERS_MOST);
        }
        addresses.into_iter().collect()
    }

    /// Told by the resolver that it waits for the next call.
    #[cfg(feature = "resolver")]
    pub(super) fn is_unused(&self) -> bool {
        self.state(|state| {
            state.old = !std::mem::take(&mut state.used);
            state.old
        })
    }

    #[cfg(feature = "resolver")]
    pub(super) fn config(&self) -> &ChannelConfig {
        &self.config
    }
}

impl State {
    /// A server, the line to it, and whether the addresses are to be looked up again.
    fn choose(&mut self, now: Time, avoided: Option<Server>) -> Option<(Server, Line, bool)> {
        let (server, line) = self.balance.choose(now, avoided)?;
        if avoided.is_none() {
            self.retries.on_call();
            self.hedge.on_request();
        }
        self.used = true;
        Some((server, line.clone(), std::mem::take(&mut self.old)))
    }
}

#[cfg(feature = "resolver")]
impl Drop for Servers {
    fn drop(&mut self) {
        // Nobody is there any more for whom it could look.
        self.nudge.look_again();
    }
}

/// Waits before a call is made again.
fn wait(pause: Duration, context: &Context) -> Result<(), Status> {
    Alarm::at(monotonic() + pause)?.wait(context)
}

/// A server that a call was given to, until it is said how that ended.
pub(crate) struct Chosen {
    servers: Arc<Servers>,
    pub(super) line: Line,
    pub(super) server: Server,
    pub(super) made: Time,
    over: bool,
}

impl Chosen {
    /// The call is over.
    pub(crate) fn ended(mut self, outcome: &Outcome) {
        self.end(ended(outcome));
    }

    /// The same, of a call of a stream.
    pub(super) fn completed(mut self, completion: &Completion) {
        self.end(completed(&completion.result, completion.total));
    }

    /// Nobody waits any more.
    pub(crate) fn unanswered(mut self) {
        self.end(Ended::Unanswered(monotonic().since(self.made)));
    }

    fn end(&mut self, ended: Ended) {
        self.over = true;
        let now = monotonic();
        self.servers.state(|state| state.balance.ended(now, self.server, ended));
        #[cfg(feature = "resolver")]
        if ended == Ended::Gone {
            self.servers.nudge.look_again();
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        if !self.over {
            self.end(Ended::Undecided);
        }
    }
}
