//! The default order: the least work first, but whoever could miss its deadline by that goes before.
//!
//! Of all orders, the one by the shortest remaining work leaves the fewest waiting at any time (Schrage, 1968). It needs no
//! deadlines, and where these are far off it keeps them: work waits least. What it doesn't see is a long call that is
//! urgent among short ones that aren't. So it has a guard: the slack that is left is given to short work, as
//! slack stealing gives it to work without deadlines (Lehoczky and Ramos-Thuel, RTSS 1992), and not more than that.
//!
//! # Who is at risk
//! 1. A call that has used up [half](SHARE) of the time that it could wait when it arrived is *watched*: later, and the guard
//!    comes too late; earlier, and calls that are in no hurry widen it for nothing.
//! 2. All that is watched, one after the other, takes as long as the sum of its work, or as many times that as the queue was
//!    [seen to take](super::drain) where others have a part of the core. If that leaves the one whose deadline is earliest no
//!    time to spare, but for a [margin](MARGIN) or the longest time between two turns, the watched go first, the earliest
//!    deadline before the others. Whatever order they are in, none of them is late by then if the estimates are right: each
//!    of their deadlines is that one or a later one, and the sum includes all that may go before it.
//!    Where admission refuses who has too little of its budget left when it comes up, it is at risk when that is near.
//! 3. What can't be in time any more isn't watched. It would make others late and gain nothing (the domino effect).
//! 4. If all that is watched takes longer than until the latest of its deadlines, some of it will be late whatever is done.
//!    Fewest are if it is the longest that gives way (Moore and Hodgson, 1968), so that one isn't watched any more, if it
//!    is [much longer](OUTLIER) than the others: among equals the earliest deadline decides.
//! 5. A watched call that is too late, or that admission would refuse, is the sign of an overload: more of the work was at
//!    risk than the guard knew of, as calls are watched only halfway. From then on each call is watched as it comes, until
//!    there is time to spare again. So the earliest deadline goes first while an overload lasts, and admission turns away
//!    those in no hurry; without that it is the tight ones who come up too late, behind what is shorter or came earlier.
//! 6. Whoever is at risk lets one go first that is watched, too, and would be too late otherwise, if it takes
//!    [a small part](LITTLE) of its own time: of a long call that is more urgent and many short ones, an overload has to
//!    leave out the long one.
//!
//! So the guard is as wide as the work that is at risk, and no wider. Among the watched it is the deadline that counts and
//! not the laxity: of two calls with the same laxity the one that runs keeps its own while the other's shrinks, so they
//! would take turns at every quantum and be done together, as late as the later one.
//!
//! # The rest
//! The rest goes by what each has left, to within an eighth, as far as that is known: the estimate, less what it had; and
//! once that is used up, what calls that took so long went on to take. So where a method's times vary widely, its long
//! calls give way to all others, as by least attained service, and where they are exponential nobody does. Of calls that
//! have about as much left the one goes first that [has less to spare](SPARE). Nobody starves: a call goes before what comes
//! [so many times](PATIENCE) its remaining work later.
//!
//! What this is worth beside the other orders: `cargo run --release -p greenwave-sim --example orders`.

use super::Urgency;
use super::drain::Drain;
use super::urgency::signed;
use crate::sorted::Sorted;
use crate::time::{Time, nanos};
use std::cmp::Ordering;
use std::time::Duration;

/// The share of the time to spare that is left when a call is watched, in quarters.
const SHARE: i64 = 2;

/// How much time to spare, in nanoseconds, is as good as none: a quantum's overshoot and the event loop's own work.
const MARGIN: i64 = 20_000;

/// How many times its own remaining work a call can be overtaken by what comes later.
const PATIENCE: i64 = 1000;

/// How many times what its work takes a call can have to spare and go before others that have as much to do and more to spare.
/// A tenth of the above: less time to spare is worth as much as a tenth less work, where the core does nothing else.
const SPARE: i64 = 100;

/// How many times as long as the mean of those watched a call is that gives way where not all of them can be in time.
const OUTLIER: i64 = 2;

/// How many times as long a call takes that lets one go first for which it would be too late otherwise.
const LITTLE: i64 = 4;

/// The longest work that is told from longer work, in nanoseconds.
const HOUR: u64 = 3600 * 1_000_000_000;

/// How many come between two looks at how many entries are stale.
const SWEEP: u32 = 64;

/// 1. A call is in `slots` once, with a turn of its own; free slots have turn 0.
/// 2. It has one entry in `rest` until it is taken out, and if it has a deadline and isn't late one in `alarms` or in `watched`. Entries
///    whose turn isn't their slot's are stale. There are hardly more of them than of others.
/// 3. `endangered` is the sum of the work of those that are watched, and `guarded` their number. None of them is due later than
///    `latest`. Each has an entry in `longest`.
#[derive(Clone, Debug)]
pub(super) struct Guarded<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    rest: Sorted<Entry>,
    /// By the time at which they are watched; none before `next_alarm`.
    alarms: Sorted<Entry>,
    next_alarm: i64,
    /// By the time at which they have to be done.
    watched: Sorted<Entry>,
    /// The same, those with the most work first.
    longest: Sorted<Entry>,
    /// The same, by the time at which they have to begin.
    tightest: Sorted<Entry>,
    endangered: i64,
    guarded: i64,
    latest: i64,
    /// Whether calls are watched as they come, by 5 above.
    overloaded: bool,
    drain: Drain,
    /// The share of its budget that a call needs to have when it comes up.
    reserve: f64,
    pushed: i64,
    pushed_first: i64,
    inserted: u32,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    turn: i64,
    is_watched: bool,
    urgency: Urgency,
    /// `None` in free slots.
    work: Option<T>,
}

/// The greatest comes out first: the smallest key, then the smallest turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    key: i64,
    turn: i64,
    slot: u32,
}

impl<T> Guarded<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            rest: Sorted::new(),
            alarms: Sorted::new(),
            next_alarm: i64::MAX,
            watched: Sorted::new(),
            longest: Sorted::new(),
            tightest: Sorted::new(),
            endangered: 0,
            guarded: 0,
            latest: i64::MIN,
            overloaded: false,
            drain: Drain::new(),
            reserve: 0.0,
            pushed: 0,
            pushed_first: 0,
            inserted: 0,
        }
    }

    pub(super) fn set_reserve(&mut self, share: f64) {
        self.reserve = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    }

    #[inline]
    pub(super) fn push(&mut self, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.insert(self.pushed, urgency, work);
    }

    pub(super) fn push_first(&mut self, urgency: Urgency, work: T) {
        self.pushed_first -= 1;
        self.insert(self.pushed_first, urgency, work);
    }

    #[inline]
    fn insert(&mut self, turn: i64, urgency: Urgency, work: T) {
        let new = Slot { turn, is_watched: false, urgency, work: Some(work) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.rest.push(Entry { key: self.rank(&urgency), turn, slot });
        if urgency.deadline.expires().is_some() {
            let from = self.watched_from(&urgency);
            self.next_alarm = self.next_alarm.min(from);
            self.alarms.push(Entry { key: from, turn, slot });
        }
        self.inserted = self.inserted.wrapping_add(1);
        if self.inserted.is_multiple_of(SWEEP) {
            self.sweep();
        }
    }

    pub(super) fn goes_on(&mut self, now: Time, urgency: &Urgency) -> bool {
        if self.len() == 0 {
            return true;
        }
        let (now, due) = (signed(now), urgency.due());
        self.drain.asked(now);
        self.watch(now);
        // Whether there is an overload is known before it is asked whether this one would be watched.
        self.first_watched(now);
        let own = if self.watched_from(urgency) <= now && !is_late(urgency, now) { work(urgency) } else { 0 };
        let own = self.give_up(now, own, due);
        let first = self.first_watched(now);
        let begins = self.latest_start(urgency);
        let begins = (own > 0 && begins >= now).then_some(begins);
        match first.filter(|first| own == 0 || first.key <= due) {
            Some(first) if self.is_at_risk(self.urgency(&first), own, now) => {
                let tightest = self.tightest_but(&first, now);
                let other = self.urgency(&first);
                return begins.is_some_and(|begins| {
                    tightest.is_none_or(|it| begins < it.key) && self.is_spared((begins, own), work(other), now)
                });
            }
            None if own > 0 && self.is_at_risk(urgency, own, now) => {
                let tightest = self.first_tightest(now);
                return tightest.is_none_or(|it| !self.is_spared((it.key, work(self.urgency(&it))), own, now));
            }
            _ => {}
        }
        let first = self.first_of_rest();
        first.is_none_or(|first| self.rank(urgency) < first.key)
    }

    /// As the queue's method of that name says: while nobody is watched, and it is none but the rest that it goes before.
    pub(super) fn goes_on_for(&mut self, now: Time, urgency: &Urgency, sure: Duration) -> Duration {
        if self.len() == 0 {
            return Duration::MAX;
        }
        let first = self.first_of_rest();
        if self.guarded > 0 || first.is_some_and(|first| self.rank(urgency) >= first.key) {
            return Duration::ZERO;
        }
        // With less left it ranks higher.
        let quiet = self.next_alarm.saturating_sub(signed(now));
        sure.min(Duration::from_nanos(u64::try_from(quiet).unwrap_or(0)))
    }

    #[inline(always)]
    pub(super) fn pop(&mut self, now: Time) -> Option<(Urgency, T)> {
        let now = signed(now);
        let next = self.next(now)?;
        let (urgency, found) = self.take(next)?;
        self.drain.taken(now, work(&urgency), self.len() > 0);
        Some((urgency, found))
    }

    #[inline(always)]
    fn next(&mut self, now: i64) -> Option<u32> {
        self.watch(now);
        // As a rule nobody is.
        if self.guarded > 0
            && let Some(first) = self.first_at_risk(now)
        {
            let short = self
                .tightest_but(&first, now)
                .filter(|it| self.is_spared((it.key, work(self.urgency(it))), work(self.urgency(&first)), now));
            return Some(short.unwrap_or(first).slot);
        }
        self.overloaded = false;
        loop {
            let first = self.rest.pop()?;
            if !self.is_stale(&first) {
                return Some(first.slot);
            }
        }
    }

    /// Work whose turn it was comes back with so much left.
    #[inline]
    pub(super) fn preempted(&mut self, now: Time, urgency: &Urgency) {
        self.drain.put_back(signed(now), work(urgency));
    }

    /// The first of those watched, if that is at risk.
    #[inline(never)]
    fn first_at_risk(&mut self, now: i64) -> Option<Entry> {
        // Who is late is let go of before, as in `goes_on`: the work of these is no reason to give up others.
        self.first_watched(now);
        self.give_up(now, 0, i64::MIN);
        self.first_watched(now).filter(|first| self.is_at_risk(self.urgency(first), 0, now))
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes out up to `most` of those that `key` is greatest for. Linear.
    pub(super) fn shed_by<K: Ord>(
        &mut self,
        most: usize,
        key: impl Fn(&Urgency, &T) -> Option<K>,
    ) -> Vec<(Urgency, T)> {
        let mut found: Vec<(K, u32)> = Vec::new();
        for (at, slot) in self.slots.iter().enumerate() {
            if let Some(key) = slot.work.as_ref().and_then(|work| key(&slot.urgency, work)) {
                found.push((key, at as u32));
            }
        }
        super::keep_greatest(&mut found, most);
        let shed = found.into_iter().filter_map(|(_, slot)| self.take(slot)).collect();
        self.rest_if_empty();
        shed
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Urgency, &T) -> bool) {
        for slot in 0..self.slots.len() {
            let Slot { urgency, work, .. } = &self.slots[slot];
            if work.as_ref().is_some_and(|work| !keep(urgency, work)) {
                self.take(slot as u32);
            }
        }
        self.rest_if_empty();
    }

    fn rest_if_empty(&mut self) {
        if self.len() == 0 {
            self.drain.rests();
        }
    }

    /// When it has to be done here, or when it would be if it began as its reserve begins.
    #[inline]
    fn safe_due(&self, urgency: &Urgency) -> i64 {
        let due = urgency.due();
        if self.reserve == 0.0 || due == i64::MAX {
            return due;
        }
        let arrived = signed(urgency.arrived);
        // Of what lies between two times, so nothing overflows.
        let reserve = ((due.max(arrived) - arrived) as f64 * self.reserve) as i64;
        due.saturating_sub((reserve - work(urgency)).max(0))
    }

    /// From when on it is watched, by 1 and 5 above, if it has a deadline.
    #[inline]
    fn watched_from(&self, urgency: &Urgency) -> i64 {
        if self.overloaded && urgency.due() < i64::MAX {
            return i64::MIN;
        }
        let arrived = signed(urgency.arrived);
        let latest_start = self.latest_start(urgency);
        latest_start - (latest_start.max(arrived) - arrived) / 4 * SHARE
    }

    /// What the rest goes by.
    #[inline]
    fn rank(&self, urgency: &Urgency) -> i64 {
        // Times are not below zero and work is an hour at most, so nothing overflows but, at the end of all time, the sum.
        let (arrived, here) = (signed(urgency.arrived), rounded(nanos(urgency.here).min(HOUR)).cast_signed());
        let spare = urgency.due().max(arrived) - arrived - here;
        let most = (here as f64 * self.drain.stretch()) as i64 * SPARE;
        arrived.saturating_add(here * PATIENCE + spare.clamp(0, most))
    }

    /// Whether so much work besides what is watched leaves it no time to spare.
    #[inline]
    fn is_at_risk(&self, urgency: &Urgency, besides: i64, now: i64) -> bool {
        let due = self.safe_due(urgency);
        let watched = self.drain.takes(self.endangered.saturating_add(besides));
        let busy = watched.saturating_add(MARGIN.max(self.drain.gap()));
        due.saturating_sub(now) <= busy
    }

    /// Watches those whose time for it has come.
    #[inline]
    fn watch(&mut self, now: i64) {
        if now >= self.next_alarm {
            self.watch_next(now);
            self.next_alarm = self.alarms.peek().map_or(i64::MAX, |first| first.key);
        }
    }

    fn watch_next(&mut self, now: i64) {
        while let Some(&first) = self.alarms.peek()
            && (first.key <= now || self.is_stale(&first))
        {
            self.alarms.pop();
            let slot = &mut self.slots[first.slot as usize];
            if slot.turn == first.turn && !is_late(&slot.urgency, now) {
                slot.is_watched = true;
                let urgency = slot.urgency;
                let (due, work) = (urgency.due(), work(&urgency));
                self.endangered = self.endangered.saturating_add(work);
                self.guarded += 1;
                self.latest = self.latest.max(due);
                self.watched.push(Entry { key: due, ..first });
                self.longest.push(Entry { key: -work, ..first });
                self.tightest.push(Entry { key: self.latest_start(&urgency), ..first });
            }
        }
    }

    /// Gives up those by 4 above that make it impossible for all that is watched to be in time, together with one that has so
    /// much `own` work and is due then. What of that is watched still: all, or nothing.
    #[inline]
    fn give_up(&mut self, now: i64, mut own: i64, due: i64) -> i64 {
        loop {
            let (all, until) =
                (self.endangered.saturating_add(own), if own > 0 { self.latest.max(due) } else { self.latest });
            if all == 0 || self.drain.takes(all) <= until.saturating_sub(now) {
                return own;
            }
            let others = self.longest_watched();
            let most = others.map_or(0, |longest| -longest.key).max(own);
            if most.saturating_mul(self.guarded + i64::from(own > 0)) <= all.saturating_mul(OUTLIER) {
                return own;
            }
            match others {
                Some(longest) if -longest.key == most => {
                    self.longest.pop();
                    self.unwatch(longest.slot);
                }
                _ => own = 0,
            }
        }
    }

    #[inline]
    fn longest_watched(&mut self) -> Option<Entry> {
        while let Some(&first) = self.longest.peek() {
            if self.is_guarded(&first) {
                return Some(first);
            }
            self.longest.pop();
        }
        None
    }

    /// The one of those watched that has to begin first and for which it isn't too late, but for one.
    fn tightest_but(&mut self, one: &Entry, now: i64) -> Option<Entry> {
        let first = self.first_tightest(now)?;
        if first.turn != one.turn {
            return Some(first);
        }
        self.tightest.pop();
        let second = self.first_tightest(now);
        self.tightest.push(first);
        second
    }

    fn first_tightest(&mut self, now: i64) -> Option<Entry> {
        while let Some(&first) = self.tightest.peek() {
            if self.is_guarded(&first) && first.key >= now {
                return Some(first);
            }
            self.tightest.pop();
        }
        None
    }

    /// Whether it would be too late for a call, which has to begin then and has so much work, behind another that has so much, beside
    /// which its own is little.
    fn is_spared(&self, (begins, own): (i64, i64), other: i64, now: i64) -> bool {
        begins.saturating_sub(now) <= self.drain.takes(other).saturating_add(MARGIN) && own <= other / LITTLE
    }

    /// When it has to begin to be in time, and not to be refused.
    #[inline]
    fn latest_start(&self, urgency: &Urgency) -> i64 {
        self.safe_due(urgency).saturating_sub(work(urgency))
    }

    #[inline]
    fn is_guarded(&self, entry: &Entry) -> bool {
        let slot = &self.slots[entry.slot as usize];
        slot.turn == entry.turn && slot.is_watched
    }

    fn unwatch(&mut self, slot: u32) {
        let there = &mut self.slots[slot as usize];
        there.is_watched = false;
        self.endangered -= work(&there.urgency);
        self.guarded -= 1;
        if self.guarded == 0 {
            self.latest = i64::MIN;
            self.watched.clear();
            self.longest.clear();
            self.tightest.clear();
        }
    }

    /// The one of those watched that has to be done first, if it still can be. Sees whether there is an overload.
    #[inline]
    fn first_watched(&mut self, now: i64) -> Option<Entry> {
        if self.guarded == 0 {
            return None;
        }
        while let Some(&first) = self.watched.peek() {
            if self.is_guarded(&first) {
                let urgency = self.urgency(&first);
                let (is_late, is_unsafe) = (is_late(urgency, now), ends_after(self.safe_due(urgency), urgency, now));
                self.overloaded |= is_unsafe;
                if !is_late {
                    return Some(first);
                }
                self.unwatch(first.slot);
            }
            self.watched.pop();
        }
        None
    }

    #[inline]
    fn first_of_rest(&mut self) -> Option<Entry> {
        while let Some(&first) = self.rest.peek() {
            if !self.is_stale(&first) {
                return Some(first);
            }
            self.rest.pop();
        }
        None
    }

    #[inline]
    fn urgency(&self, entry: &Entry) -> &Urgency {
        &self.slots[entry.slot as usize].urgency
    }

    #[inline]
    fn is_stale(&self, entry: &Entry) -> bool {
        self.slots[entry.slot as usize].turn != entry.turn
    }

    #[inline]
    fn take(&mut self, slot: u32) -> Option<(Urgency, T)> {
        let there = &mut self.slots[slot as usize];
        let work = there.work.take()?;
        there.turn = 0;
        let (urgency, is_watched) = (there.urgency, there.is_watched);
        if is_watched {
            self.unwatch(slot);
        }
        self.free.push(slot);
        Some((urgency, work))
    }

    /// Drops stale entries when they are more than the others; asked now and then. Where they come to the front they go by
    /// themselves, so this is for what lies behind work that stays.
    #[inline]
    fn sweep(&mut self) {
        let most = 2 * self.len() + 64;
        let Self { slots, rest, alarms, watched, longest, tightest, .. } = self;
        for entries in [rest, alarms, watched, longest, tightest] {
            if entries.len() > most {
                entries.retain(|entry| slots[entry.slot as usize].turn == entry.turn);
            }
        }
    }
}

/// An estimate to within an eighth, so that calls that differ by less than any estimate is good for stay in the order in which
/// they came.
#[inline]
fn rounded(nanos: u64) -> u64 {
    const BITS: u32 = 3;
    let small = nanos.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    nanos >> small << small
}

/// The work that is left, at most an hour of it, so that sums stay in range.
#[inline]
fn work(urgency: &Urgency) -> i64 {
    nanos(urgency.here).clamp(1, HOUR).cast_signed()
}

/// Whether it can't be in time any more.
#[inline]
fn is_late(urgency: &Urgency, now: i64) -> bool {
    ends_after(urgency.due(), urgency, now)
}

/// Whether it would be done after a time if it began now.
#[inline]
fn ends_after(time: i64, urgency: &Urgency, now: i64) -> bool {
    now.saturating_add(work(urgency)) > time
}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.key, other.turn).cmp(&(self.key, self.turn))
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
