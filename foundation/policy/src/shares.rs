//! Who gets how much of a server's time, where more is asked for than there is.
//!
//! A deadline says when a call has to be done, and whoever makes it may claim any. So an order alone, whichever it is, serves
//! those first who claim most, and those most who open most connections. Shares bound that: calls belong to *tenants*, each
//! has a weight, and while calls of several wait, each tenant gets the service time that its weight is of theirs. Within its
//! share a tenant goes by the server's order, deadlines and all.
//!
//! # How
//! It is fair queueing by the time that calls took, with room for the server's own order:
//! 1. Each tenant has a *mark*: the service time that it has had, divided by its weight. The time that its calls take is added
//!    when it is known, so no estimate is trusted (start-time fair queueing: Goyal, Vin and Cheng, 1996).
//! 2. There is one *level* for all. Who has gone beyond it by a round, which is [`Shares::ROUND`] of service time divided
//!    among those that have calls here, is *over* its share; all others are *under* it (the credits of Xen's scheduler).
//! 3. Whoever is over waits until nobody else is ready. Those under go by the server's order among themselves, so that within a
//!    round a tight deadline is kept whosever it is, as in borrowed virtual time (Duda and Cheriton, 1999).
//! 4. When all that wait are over, the level rises to the mark of the one that is the least so: nothing that could be done is
//!    left undone.
//! 5. A tenant that was away, or here with nothing to do, is not paid for that: its mark is raised to the level less
//!    [`Shares::LEAD`] of time, divided in the same way, when it comes and when it is served. That much it is ahead of those that have been busy all along. One that is new begins at the level.
//!
//! # What that is worth
//! Of two tenants whose calls wait all the while, neither gets more by its weight than the other, but for two rounds and a call.
//! Nobody starves: each of the others is soon over. And nobody pays later for what it had while nobody else wanted it, as
//! the level has risen with it. `foundation/policy/tests/laws/shares.rs` states these as properties of any mix.
//!
//! # What it costs
//! A call is a look-up of its tenant and a few sums. What waits of those that are over is kept [aside](Aside), each tenant's by
//! itself in the server's order, and only the first of them comes back with the tenant's turn; so a call is moved aside once at
//! most for each round, and no more is moved if more waits. Nothing allocates once a tenant is known.
//!
//! # How many
//! Tenants are bounded ([`Shares::MOST`]). One that has no call here, and is not over, gives its place to one that comes;
//! where there is no such place, who comes shares one with all the others for whom there is none ([`TenantId::REST`]). Those
//! whose weight was configured keep their places.

mod aside;
mod overhead;

use crate::time::Span;
pub use aside::{Aside, Ready};
pub use overhead::{CallOverhead, ReadOverhead};
use std::collections::HashMap;
use std::time::Duration;

/// A tenant's place. It stays a tenant's as long as that has a call here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TenantId(u32);

impl TenantId {
    /// All those together for whom there is no place.
    pub const REST: Self = Self(0);

    /// The place of this number, below [`Shares::MOST`].
    #[must_use]
    pub const fn of_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// As a number below [`Shares::MOST`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What tenants have had of a thread's time.
///
/// ```
/// use greenwave_policy::Shares;
/// use std::time::Duration;
///
/// let mut shares = Shares::new(&[(7, 3)]);
/// let (seven, other) = (shares.tenant(7), shares.tenant(8));
/// shares.came(seven);
/// shares.came(other);
/// // Each has taken 6 ms, which is less for the one with the weight of 3.
/// shares.charge(seven, Duration::from_millis(6));
/// shares.charge(other, Duration::from_millis(6));
/// assert!(shares.is_over(other) && !shares.is_over(seven));
/// ```
///
/// 1. `places` has the index of each account but the first, by its key.
/// 2. `weight` is the sum of the weights of the accounts that have calls, and `round` follows from it.
#[derive(Clone, Debug)]
pub struct Shares {
    accounts: Vec<Account>,
    places: HashMap<u64, u32>,
    level: Mark,
    /// No mark is greater.
    most: Mark,
    weight: u64,
    round: Mark,
    /// Where to look for a place next.
    hand: usize,
}

/// Service time for a weight of 1, in 2^-32 of a nanosecond.
type Mark = u128;

#[derive(Clone, Debug)]
struct Account {
    key: u64,
    weight: u32,
    /// What a nanosecond adds to the mark.
    rate: u64,
    mark: Mark,
    /// Calls that came and have not gone.
    calls: u32,
    /// Those among them that have not begun.
    waiting: u32,
    /// Whether its weight was configured.
    stays: bool,
}

impl Shares {
    /// The most tenants, those with a place of their own and the rest.
    pub const MOST: usize = 1024;
    /// The heaviest weight.
    pub const HEAVIEST: u32 = 1_000_000;
    /// The service time in which each that has calls gets its share.
    pub const ROUND: Duration = Duration::from_millis(10);
    /// The service time that is divided among those that come back, which they are ahead by.
    pub const LEAD: Duration = Duration::from_millis(20);

    /// How many places are looked at for one that is free.
    const LOOKS: usize = 8;

    /// No tenant has had anything. These have weights of their own, by their keys, 1 to [`HEAVIEST`](Self::HEAVIEST); of more
    /// than there are places for, the first. All others weigh 1.
    #[must_use]
    pub fn new(weights: &[(u64, u32)]) -> Self {
        let mut shares = Self {
            accounts: vec![Account::new(0, 1, 0)],
            places: HashMap::new(),
            level: 0,
            most: 0,
            weight: 0,
            round: 0,
            hand: 1,
        };
        for (key, weight) in weights {
            if shares.accounts.len() < Self::MOST && !shares.places.contains_key(key) {
                let id = shares.add(*key);
                let account = &mut shares.accounts[id.index()];
                *account = Account { stays: true, ..Account::new(*key, (*weight).clamp(1, Self::HEAVIEST), 0) };
            }
        }
        shares.count(0, 0);
        shares
    }

    /// The tenant of a key: a number that stands for who it is, and that others can't bring about.
    pub fn tenant(&mut self, key: u64) -> TenantId {
        match self.places.get(&key) {
            Some(place) => TenantId(*place),
            None => self.settle(key),
        }
    }

    /// A place for one that is new.
    #[cold]
    fn settle(&mut self, key: u64) -> TenantId {
        if self.accounts.len() < Self::MOST {
            return self.add(key);
        }
        for _ in 0..Self::LOOKS {
            let at = self.hand;
            self.hand = if at + 1 < self.accounts.len() { at + 1 } else { 1 };
            let there = &self.accounts[at];
            // Who is over its share would be rid of that.
            if there.calls == 0 && !there.stays && there.mark <= self.level {
                self.places.remove(&there.key);
                self.places.insert(key, at as u32);
                self.accounts[at] = Account::new(key, 1, self.level);
                return TenantId(at as u32);
            }
        }
        TenantId::REST
    }

    fn add(&mut self, key: u64) -> TenantId {
        let place = self.accounts.len() as u32;
        self.accounts.push(Account::new(key, 1, self.level));
        self.places.insert(key, place);
        TenantId(place)
    }

    /// A call of this tenant's came.
    #[inline]
    pub fn came(&mut self, tenant: TenantId) {
        let level = self.level;
        let Some(account) = self.accounts.get_mut(tenant.index()) else { return };
        account.calls = account.calls.saturating_add(1);
        account.waiting = account.waiting.saturating_add(1);
        if account.calls == 1 {
            let weight = u64::from(account.weight);
            self.count(weight, 0);
            let lead = self.lead();
            let account = &mut self.accounts[tenant.index()];
            account.mark = account.mark.max(level.saturating_sub(lead));
        }
    }

    /// One has begun, or waits elsewhere: it doesn't wait here any more.
    #[inline]
    pub fn began(&mut self, tenant: TenantId) {
        if let Some(account) = self.accounts.get_mut(tenant.index()) {
            account.waiting = account.waiting.saturating_sub(1);
        }
    }

    /// One is gone, and whether it had [begun](Self::began): answered, refused or given away.
    #[inline]
    pub fn went(&mut self, tenant: TenantId, had_begun: bool) {
        let Some(account) = self.accounts.get_mut(tenant.index()).filter(|account| account.calls > 0) else { return };
        account.calls -= 1;
        account.waiting = account.waiting.saturating_sub(u32::from(!had_begun));
        if account.calls == 0 {
            let weight = u64::from(account.weight);
            self.count(0, weight);
        }
    }

    fn count(&mut self, more: u64, less: u64) {
        self.weight = self.weight + more - less;
        self.round = divided(Self::ROUND, self.weight);
    }

    /// A call of this tenant's was served for so long.
    ///
    /// A tenant may have had calls here all along and used nothing, as one does that keeps a stream open: it was away, and is not
    /// paid for that either.
    #[inline]
    pub fn charge(&mut self, tenant: TenantId, took: impl Into<Span>) {
        let least = self.level.saturating_sub(self.lead());
        if let Some(account) = self.accounts.get_mut(tenant.index()) {
            let took = u128::from(took.into().as_nanos()) * u128::from(account.rate);
            account.mark = account.mark.max(least).saturating_add(took);
            self.most = self.most.max(account.mark);
        }
    }

    /// What somebody who was away may be ahead by.
    #[inline]
    const fn lead(&self) -> Mark {
        const { assert!(Self::LEAD.as_nanos() == 2 * Self::ROUND.as_nanos()) };
        2 * self.round
    }

    /// Whether a tenant has had more than its share, so that its calls give way to those of all that have not.
    #[must_use]
    #[inline]
    pub fn is_over(&self, tenant: TenantId) -> bool {
        self.is_beyond(self.mark(tenant))
    }

    #[inline]
    fn is_beyond(&self, mark: Mark) -> bool {
        mark > self.level.saturating_add(self.round)
    }

    /// How many calls of a tenant's are here.
    #[must_use]
    #[inline]
    pub fn calls(&self, tenant: TenantId) -> usize {
        self.accounts.get(tenant.index()).map_or(0, |account| account.calls as usize)
    }

    /// Who is to make room for a call of `tenant`, and with how many calls at most: the one with the most calls that wait, for its
    /// weight. `None`: it is `tenant` itself, or nobody has as many as two more than it, for their weights. Of a queue that is
    /// cut where it is longest, everybody has a share (Suter, Lakshman, Stiliadis and Choudhury, 1998). Linear in the tenants.
    #[must_use]
    pub fn most_crowded(&self, tenant: TenantId) -> Option<(TenantId, usize)> {
        let own = self.accounts.get(tenant.index())?;
        let by_weight = |account: &Account| f64::from(account.waiting) / f64::from(account.weight);
        let after = (f64::from(own.waiting) + 1.0) / f64::from(own.weight);
        let all = self.accounts.iter().enumerate().filter(|(index, _)| *index != tenant.index());
        let (index, most) = all.max_by(|(_, one), (_, other)| by_weight(one).total_cmp(&by_weight(other)))?;
        let excess = (f64::from(most.waiting) - after * f64::from(most.weight)) / 2.0;
        (excess >= 1.0).then_some((TenantId(index as u32), excess as usize))
    }

    /// How many tenants have places, the rest as one.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.accounts.len()
    }

    #[inline]
    fn mark(&self, tenant: TenantId) -> Mark {
        self.accounts.get(tenant.index()).map_or(0, |account| account.mark)
    }

    /// What this tenant has had beyond its share is forgiven, as nobody else wanted it.
    #[inline]
    pub fn forgive(&mut self, tenant: TenantId) {
        let most = self.level.saturating_add(self.round);
        if let Some(account) = self.accounts.get_mut(tenant.index()) {
            account.mark = account.mark.min(most);
        }
    }

    /// Nobody wants anything: what tenants have had beyond their shares is forgiven to all.
    #[inline]
    pub fn rest(&mut self) {
        self.rise(self.most);
    }

    /// Whose turn it is of some that are all over their shares while nobody else has anything to do; it is as if they were not,
    /// from now on. `None`: there are none.
    pub fn turn_among(&mut self, tenants: impl IntoIterator<Item = TenantId>) -> Option<TenantId> {
        let first = tenants.into_iter().min_by_key(|tenant| self.mark(*tenant))?;
        self.rise(self.mark(first));
        Some(first)
    }

    /// All that wait are over, and this is the least mark among them.
    fn rise(&mut self, mark: Mark) {
        self.level = self.level.max(mark);
    }
}

impl Account {
    const fn new(key: u64, weight: u32, mark: Mark) -> Self {
        Self { key, weight, rate: (1 << 32) / weight as u64, mark, calls: 0, waiting: 0, stays: false }
    }
}

/// Service time divided among so much weight.
fn divided(time: Duration, weight: u64) -> Mark {
    // Less than 2^26 ns, and so less than 2^58 of its parts.
    let parts = (time.as_nanos() as u64) << 32;
    u128::from(parts / weight.max(1))
}
