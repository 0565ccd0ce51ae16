//! Which of several servers that can answer a call is given it.
//!
//! Two of them are drawn at random, and the one at which the call is expected to be answered sooner gets it (the power of
//! two choices: Mitzenmacher 2001). Compared with asking all, that keeps clients that have seen the same from all going
//! to the same server at once. If one of the two would take many times as long as the other, that was no choice, and a
//! third is drawn in its place.
//!
//! The time expected at a server is the sum of what its receipts say and of what this client has under way there:
//!
//! > network + queued + served + each × calls under way
//!
//! A server that says nothing else is taken to do one call at a time, so each is as long as a call is served. Of one that
//! does many at once its [`LoadReport`](crate::LoadReport) says what each takes.
//!
//! Each is a mean of late; what grows, the queue and the network, is believed sooner than what shrinks (after Finagle's
//! peak EWMA). Refusals for want of time or room double the queue. While a server has no calls its time is taken to be less
//! and less, half every [`Load::HALF_LIFE`], so it is tried again without being probed. A server that nobody has
//! heard of yet gets a call at once, and no further ones before its answer as long as there are others.
//!
//! Who fails is left out for a while: [`outlier`](crate::outlier).

use crate::outlier::{Health, OutlierConfig, Standing, Tally};
use crate::random::XorShift;
use crate::time::{Time, nanos};
use std::time::Duration;

/// By which rule servers are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalanceRule {
    /// Of two at random the one that is expected to answer sooner.
    #[default]
    ExpectedWait,
    /// One after the other. For comparison, and where calls are all the same and so are servers.
    RoundRobin,
}

/// What an answer says of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// How long the call waited at the server before it ran.
    pub queued: Duration,
    /// How long it took then, the stages behind included.
    pub served: Duration,
    /// What is left of the round trip.
    pub network: Duration,
    /// How much longer a call takes there for each that is under way before it; `None`: as long as it is served.
    pub each: Option<Duration>,
}

/// How a call that was given to a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an answer, be it an error of the caller's making. Without a sample the server said nothing of its time.
    Answered(Option<Sample>),
    /// Refused for want of time or room.
    PushedBack,
    /// In a way that is the server's fault, after this long.
    Failed(Duration),
    /// Not at all within this time, after which it was given up or taken back.
    Unanswered(Duration),
    /// The server can't be reached, or is about to leave.
    Gone,
    /// In a way that says nothing of the server, such as that the caller took it back.
    Undecided,
}

/// How long a call to one server is expected to take.
#[derive(Clone, Debug, Default)]
pub struct Load {
    under_way: u32,
    /// Nanoseconds.
    estimate: Option<Estimate>,
    /// When there was a call last: made, or over.
    touched: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    network: f64,
    queued: f64,
    served: f64,
    each: f64,
    /// Of the last sample.
    at: Time,
}

impl Load {
    /// While it has no calls a server's time is taken to be half of what it was after this long.
    pub const HALF_LIFE: Duration = Duration::from_secs(5);
    /// A sample counts for half after this long without one.
    const MEMORY: Duration = Duration::from_millis(250);
    /// What a sample counts at least.
    const LEAST: f64 = 1.0 / 16.0;
    /// What each call under way counts at a server that has never answered: it is given no more if others can be.
    const UNHEARD: f64 = 1e9;
    /// No queue is taken to be longer.
    const LONGEST: f64 = 10e9;

    /// Counts a call that is made.
    pub fn begun(&mut self, now: Time) {
        self.under_way = self.under_way.saturating_add(1);
        self.touched = now;
    }

    /// Counts a call that is over.
    pub fn ended(&mut self, now: Time, ended: Ended) {
        self.under_way = self.under_way.saturating_sub(1);
        self.touched = now;
        match ended {
            Ended::Answered(Some(sample)) => self.observe(now, sample),
            Ended::PushedBack => {
                let estimate = self.estimate.get_or_insert(Estimate { at: now, ..Estimate::default() });
                let longer = (estimate.queued * 2.0).max(estimate.served).max(nanos(Duration::from_millis(1)) as f64);
                estimate.queued = longer.min(Self::LONGEST);
            }
            // At least so long. A quick failure says nothing of how long answers take.
            Ended::Failed(after) | Ended::Unanswered(after) => {
                let known = self.estimate.map_or(0.0, |it| it.network + it.queued + it.served);
                if nanos(after) as f64 > known {
                    self.observe(now, Sample { served: after, ..Sample::default() });
                }
            }
            Ended::Answered(None) | Ended::Gone | Ended::Undecided => {}
        }
    }

    fn observe(&mut self, now: Time, sample: Sample) {
        let Sample { queued, served, network, each } = sample;
        let each = each.unwrap_or(served);
        let [queued, served, network, each] = [queued, served, network, each].map(|span| nanos(span) as f64);
        let Some(known) = &mut self.estimate else {
            self.estimate = Some(Estimate { network, queued, served, each, at: now });
            return;
        };
        let (passed, memory) = (nanos(now.since(known.at)) as f64, nanos(Self::MEMORY) as f64);
        let share = (passed / (passed + memory)).max(Self::LEAST);
        let towards = |known: f64, seen: f64, share: f64| known + (seen - known) * share;
        let sooner = |known: f64, seen: f64| towards(known, seen, if seen > known { share.max(0.5) } else { share });
        known.network = sooner(known.network, network);
        known.queued = sooner(known.queued, queued);
        known.served = towards(known.served, served, share);
        known.each = towards(known.each, each, share);
        known.at = now;
    }

    /// How long a further call is expected to take, in nanoseconds. Finite, and not negative.
    #[must_use]
    pub fn expected(&self, now: Time) -> f64 {
        if self.under_way > 0 {
            return self.learned();
        }
        let idle = nanos(now.since(self.touched)) as f64 / nanos(Self::HALF_LIFE) as f64;
        self.learned() * (-idle).exp2()
    }

    /// The same, however long ago it was learned.
    fn learned(&self) -> f64 {
        let under_way = f64::from(self.under_way);
        let Some(known) = self.estimate else { return under_way * Self::UNHEARD };
        known.network + known.queued + known.served + known.each * under_way
    }

    /// Whether an answer takes far less than this, as far as is known: several times less.
    #[must_use]
    pub fn is_overdue(&self, after: Duration) -> bool {
        self.estimate.is_none_or(|it| nanos(after) as f64 > (it.network + it.queued + it.served) * FAR)
    }

    /// How many calls are under way.
    #[must_use]
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }
}

/// A server's name in a [`Balance`], never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Where it was when it was chosen; it may have moved since.
    index: usize,
    serial: u64,
}

/// Several servers that can answer the same calls, and what is known of each.
///
/// `T` is what stands for a server. Choosing allocates nothing; it looks at all servers only while some are left out.
#[derive(Clone, Debug)]
pub struct Balance<T> {
    rule: BalanceRule,
    outliers: OutlierConfig,
    servers: Vec<Known<T>>,
    /// How many are left out.
    out: usize,
    /// Whose turn is next, in round robin.
    turn: usize,
    serial: u64,
    random: XorShift,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Known<T> {
    serial: u64,
    what: T,
    load: Load,
    health: Health,
}

impl<T> Balance<T> {
    /// No servers yet. The same `seed` draws the same.
    #[must_use]
    pub const fn new(rule: BalanceRule, outliers: OutlierConfig, seed: u64) -> Self {
        let random = XorShift::new(seed);
        Self { rule, outliers, servers: Vec::new(), out: 0, turn: 0, serial: 0, random, seed }
    }

    /// A further server.
    pub fn add(&mut self, what: T) {
        let serial = self.serial;
        self.serial += 1;
        let health = Health::new(&self.outliers, self.seed.wrapping_add(serial));
        self.servers.push(Known { serial, what, load: Load::default(), health });
    }

    /// Keeps those servers for which this is so. Calls that are under way at others end without being counted.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.servers.retain(|known| stays(&known.what));
        self.out = self.servers.iter().filter(|known| known.health.is_out()).count();
    }

    /// All servers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.servers.iter().map(|known| &known.what)
    }

    /// How many servers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The server for a call, which is counted as under way there: another than `avoided` if there is one. `None` only if
    /// there are no servers.
    ///
    /// A server that was left out and may be tried again comes first, once. If all are left out, any may be chosen.
    pub fn choose(&mut self, now: Time, avoided: Option<Server>) -> Option<(Server, &T)> {
        let avoided = avoided.and_then(|server| self.find(server));
        let index = match self.due(now, avoided) {
            Some(due) => due,
            None => self.pick(now, avoided)?,
        };
        let known = &mut self.servers[index];
        known.load.begun(now);
        known.health.begun(now);
        Some((Server { index, serial: known.serial }, &known.what))
    }

    /// A call is over that was given to a server.
    pub fn ended(&mut self, now: Time, server: Server, ended: Ended) {
        let Some(index) = self.find(server) else { return };
        let known = &mut self.servers[index];
        // Who wanted an answer sooner than any could come says nothing of the server.
        let ended = match ended {
            Ended::Unanswered(after) if !known.load.is_overdue(after) => Ended::Undecided,
            ended => ended,
        };
        known.load.ended(now, ended);
        match ended {
            Ended::Answered(_) => self.answered(now, index),
            Ended::Failed(_) | Ended::Unanswered(_) => self.failed(now, index),
            Ended::Gone => self.leave_out(now, index),
            // A server that is back and has no room is back.
            Ended::PushedBack if known.health.is_on_trial() => self.answered(now, index),
            Ended::PushedBack => {}
            Ended::Undecided => known.health.undecided(),
        }
    }

    /// How long a call is expected to take at the best of them; nothing if nothing is known.
    #[must_use]
    pub fn expected(&self, now: Time) -> Duration {
        let expected = self.servers.iter().filter(|known| !known.health.is_out()).map(|known| known.load.expected(now));
        Duration::from_nanos(expected.reduce(f64::min).unwrap_or_default() as u64)
    }

    /// Whether a further call can go to another server than this one, without asking those that are left out.
    #[must_use]
    pub fn has_another(&self, server: Server) -> bool {
        let is_in = self.find(server).is_some_and(|index| !self.servers[index].health.is_out());
        self.servers.len() - self.out > usize::from(is_in)
    }

    /// How many are left out.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.out
    }

    fn find(&self, Server { index, serial }: Server) -> Option<usize> {
        match self.servers.get(index) {
            Some(known) if known.serial == serial => Some(index),
            // Serials ascend.
            _ => self.servers.binary_search_by_key(&serial, |known| known.serial).ok(),
        }
    }

    /// A server that is to be tried again.
    fn due(&self, now: Time, avoided: Option<usize>) -> Option<usize> {
        if self.out == 0 {
            return None;
        }
        let mut servers = self.servers.iter().enumerate();
        let is_due = |known: &Known<T>| known.health.standing(now) == Standing::Due;
        servers.find(|(index, known)| is_due(known) && Some(*index) != avoided).map(|(index, _)| index)
    }

    fn pick(&mut self, now: Time, avoided: Option<usize>) -> Option<usize> {
        // Those that are left out are chosen from only if there are no others, and so is who is avoided.
        let (many, all_out) = (self.servers.len(), self.out == self.servers.len());
        let can = |servers: &[Known<T>], index: usize| all_out || !servers[index].health.is_out();
        let able = if all_out { many } else { many - self.out };
        let avoided = avoided.filter(|avoided| able > 1 && can(&self.servers, *avoided));
        let candidates = able - usize::from(avoided.is_some());
        if candidates == 0 {
            return None;
        }
        let nth = |servers: &[Known<T>], nth: usize| {
            if able == many && avoided.is_none() {
                return nth;
            }
            let mut those = (0..many).filter(|index| can(servers, *index) && Some(*index) != avoided);
            those.nth(nth).unwrap_or_default()
        };
        if self.rule == BalanceRule::RoundRobin {
            self.turn = self.turn.wrapping_add(1);
            return Some(nth(&self.servers, self.turn % candidates));
        }
        let first = self.random.below(candidates);
        if candidates == 1 {
            return Some(nth(&self.servers, first));
        }
        let second = (first + 1 + self.random.below(candidates - 1)) % candidates;
        let [one, other] = [first, second].map(|at| nth(&self.servers, at));
        let expected = |index: usize| self.servers[index].load.expected(now);
        let (sooner, later) = if expected(other) < expected(one) { (other, one) } else { (one, other) };
        // A server that is far slower was no choice: beside it calls would go to the other one however much that has.
        if candidates == 2 || self.servers[later].load.learned() < expected(sooner) * FAR {
            return Some(sooner);
        }
        let mut third = self.random.below(candidates - 2);
        for drawn in [first.min(second), first.max(second)] {
            third += usize::from(third >= drawn);
        }
        let third = nth(&self.servers, third);
        Some(if expected(third) < expected(sooner) { third } else { sooner })
    }

    fn answered(&mut self, now: Time, index: usize) {
        let health = &mut self.servers[index].health;
        self.out -= usize::from(health.is_out());
        health.answered(now);
    }

    fn failed(&mut self, now: Time, index: usize) {
        if self.servers[index].health.is_on_trial() {
            return self.leave_out(now, index);
        }
        let others = self.servers.iter().enumerate().filter(|(other, known)| *other != index && !known.health.is_out());
        let others = others.fold(Tally::default(), |sum, (_, known)| sum.and(known.health.tally()));
        let health = &mut self.servers[index].health;
        if health.failed(&self.outliers, others) && self.outliers.allows(self.servers.len(), self.out) {
            self.leave_out(now, index);
        }
    }

    fn leave_out(&mut self, now: Time, index: usize) {
        let health = &mut self.servers[index].health;
        self.out += usize::from(!health.is_out());
        health.leave_out(now);
    }
}

/// A server that is expected to take this many times as long as another is no choice beside it.
const FAR: f64 = 2.0;
