//! The default order: the least work first, but whoever could miss its deadline by that goes before.
//!
//! Of all orders, the one by the shortest remaining work leaves the fewest waiting at any time (Schrage, 1968). It needs no
//! deadlines, and where these are far off it keeps them: work waits least. What it doesn't see is a long call that is
//! urgent among short ones that aren't. So it has a guard: the slack that is left is given to short work, as
//! slack stealing gives it to work without deadlines (Lehoczky and Ramos-Thuel, RTSS 1992), and not more than that.
//!
//! # Who is at risk
//! 1. A call that has used up [half](SHARE) of the time that it could wait when it arrived, or has not much more than a
//!    [margin](MARGIN) left, is *watched*, unless it could wait for [all that isn't much longer](super::backlog) and would still
//!    have time to spare; then it is looked at again when half of that is gone. Earlier, and calls that are in no hurry would
//!    cost something for nothing: a queue of thousands that take a microsecond each, all of them watched, takes more of the
//!    core than they do. But what comes while others are at risk is watched as it comes: who isn't waits for all of them, and
//!    where there is more to do than can be done, the tight ones would be too late by then.
//! 2. Of those watched each is done, if the earliest deadline goes first, when all that is due before it is done: that is
//!    known [for all of them](super::feasibility), with their estimates times what the queue was [seen to take](super::drain)
//!    where others have a part of the core. As long as each has time to spare then, more than a [margin](MARGIN) or what it takes until
//!    it is decided again, the slack is given to the rest. Otherwise the earliest deadline goes first.
//!    Where admission refuses who has too little of its budget left when it comes up, that is when it is too late.
//! 3. What can't be in time any more isn't watched. It would make others late and gain nothing (the domino effect). What has
//!    begun is watched as long as it would be in time in [half](HOPE) of what it is estimated to take still, and if that isn't
//!    [long](SOON) it doesn't give way by 4 and 5: what is done of it would be lost.
//! 4. Where one can't be in time behind those that are due before it, somebody will be late whatever is done. Fewest are if it is
//!    the longest of these that gives way (Moore and Hodgson, 1968), so that one isn't watched any more, if it takes
//!    [much longer](LITTLE): among equals the earliest deadline decides.
//! 5. Where [so many](super::crowd) wait, or half as many as may, and have waited for a while, more comes than can be done, and
//!    somebody will be turned away, whoever it is. Fewest are if long work waits: what is [much longer](LITTLE) than the mean of
//!    what has come lately isn't watched any more, and doesn't count among those many. So it stays until few
//!    wait: long work that begins as soon as there is a little room fills the queue before it is done, and was for nothing then.
//!    What comes while a core is kept from its work is a crowd, too, and served soon after.
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
use super::backlog::Backlog;
use super::crowd::Crowd;
use super::drain::Drain;
use super::feasibility::{Feasibility, Member};
use super::urgency::signed;
use crate::sorted::Sorted;
use crate::time::{Time, nanos};
use std::cmp::Ordering;
use std::time::Duration;

/// The share of the time to spare that is left when a call is watched, in quarters.
const SHARE: i64 = 2;

/// How much time to spare, in nanoseconds, is as good as none: what passes before a call that has come is looked for, until its
/// reply is posted, and on the way back, which a caller's deadline includes and its server doesn't see; and a quantum's overshoot.
const MARGIN: i64 = 200_000;

/// Calls of a method seldom take less than such a part of their median.
const HOPE: i64 = 2;

/// What takes so many nanoseconds still is soon over.
const SOON: i64 = 20_000_000;

/// How many times its own remaining work a call can be overtaken by what comes later.
const PATIENCE: i64 = 1000;

/// How many times what its work takes a call can have to spare and go before others that have as much to do and more to spare.
/// A tenth of the above: less time to spare is worth as much as a tenth less work, where the core does nothing else.
const SPARE: i64 = 100;

/// More than so many times as long as another a call is that gives way.
const LITTLE: i64 = 4;

/// The longest work that is told from longer work, in nanoseconds.
const HOUR: u64 = 3600 * 1_000_000_000;

/// How many come between two looks at how many entries are stale.
const SWEEP: u32 = 64;

/// 1. A call is in `slots` once, with a turn of its own; free slots have turn 0.
/// 2. It has one entry in `rest` until it is taken out, and one in `alarms` until it is watched, if it has a deadline.
///    Entries whose turn isn't their slot's are stale. There are hardly more of them than of others.
/// 3. `guard` has those that are watched, by their slots.
/// 4. `backlog` has the work of all.
#[derive(Clone, Debug)]
pub(super) struct Guarded<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    rest: Sorted<Entry>,
    /// By the time at which it is looked whether they are to be watched; none before `next_alarm`.
    alarms: Sorted<Entry>,
    next_alarm: i64,
    guard: Feasibility,
    /// Whether somebody was at risk when that was asked last.
    is_pressed: bool,
    backlog: Backlog,
    drain: Drain,
    crowd: Crowd,
    pushed: i64,
    pushed_first: i64,
    inserted: u32,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    turn: i64,
    is_watched: bool,
    has_begun: bool,
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
            guard: Feasibility::new(),
            is_pressed: false,
            backlog: Backlog::new(),
            drain: Drain::new(),
            crowd: Crowd::new(),
            pushed: 0,
            pushed_first: 0,
            inserted: 0,
        }
    }

    pub(super) fn set_most(&mut self, most: usize) {
        self.crowd.set_most(most, &self.backlog);
    }

    /// Work comes that has not been here before.
    #[inline]
    pub(super) fn comes(&mut self, now: Time, urgency: &Urgency) {
        self.crowd.pass(signed(now));
        self.crowd.comes(work_left(urgency));
    }

    #[inline]
    pub(super) fn push(&mut self, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.insert(self.pushed, urgency, work, false);
    }

    /// Work that has begun comes back.
    #[inline]
    pub(super) fn put_back(&mut self, urgency: Urgency, work: T) {
        self.pushed += 1;
        self.insert(self.pushed, urgency, work, true);
    }

    pub(super) fn push_first(&mut self, urgency: Urgency, work: T) {
        self.pushed_first -= 1;
        self.insert(self.pushed_first, urgency, work, true);
    }

    #[inline]
    fn insert(&mut self, turn: i64, urgency: Urgency, work: T, has_begun: bool) {
        self.backlog.add(work_left(&urgency));
        let new = Slot { turn, is_watched: false, has_begun, urgency, work: Some(work) };
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
        self.crowd.grew(self.len(), &self.backlog);
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
        let now = signed(now);
        self.crowd.pass(now);
        self.drain.asked(now);
        self.watch(now);
        let may_be_watched = urgency.deadline.expires().is_some() && !is_late(urgency, true, now);
        let own = Some(urgency).filter(|own| {
            may_be_watched && self.watched_from(own) <= now && self.looked_at_again(own, 0, now).is_none()
        });
        if own.is_some() || self.guard.len() > 0 {
            let mut first = self.first_at_risk(now, own);
            if first.is_some() && own.is_none() && may_be_watched {
                // It would be watched as it comes.
                first = self.first_at_risk(now, Some(urgency));
                self.is_pressed = true;
            }
            if let Some(first) = first {
                return first == OWN;
            }
        }
        let first = self.first_of_rest();
        first.is_none_or(|first| self.rank(urgency) < first.key)
    }

    /// As the queue's method of that name says: while nobody is at risk, and it is none but the rest that it goes before.
    pub(super) fn goes_on_for(&mut self, now: Time, urgency: &Urgency, sure: Duration) -> Duration {
        if self.len() == 0 {
            return Duration::MAX;
        }
        let first = self.first_of_rest();
        if first.is_some_and(|first| self.rank(urgency) >= first.key) {
            return Duration::ZERO;
        }
        // With less left it ranks higher, and has more to spare.
        let mut until = self.next_alarm;
        if let Some(lead) = self.guard.lead() {
            // From when on the one that runs is watched, too, those that are due later wait for it as well.
            until = until.min(lead.saturating_sub(self.margin() + 1)).min(self.watched_from(urgency));
        }
        let quiet = until.saturating_sub(signed(now));
        sure.min(Duration::from_nanos(u64::try_from(quiet).unwrap_or(0)))
    }

    #[inline(always)]
    pub(super) fn pop(&mut self, now: Time) -> Option<(Urgency, T)> {
        let now = signed(now);
        self.crowd.pass(now);
        let next = self.next(now)?;
        let (urgency, found) = self.take(next)?;
        if self.is_pressed {
            // Its entry is stale from here on, and who comes next is looked for behind those.
            self.first_of_rest();
        }
        self.drain.taken(now, work_left(&urgency), self.len() > 0);
        Some((urgency, found))
    }

    #[inline(always)]
    fn next(&mut self, now: i64) -> Option<u32> {
        self.watch(now);
        // As a rule nobody is.
        if self.guard.len() > 0
            && let Some(first) = self.first_at_risk(now, None)
        {
            return Some(slot_of(first));
        }
        self.is_pressed = false;
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
        self.drain.put_back(signed(now), work_left(urgency));
    }

    /// Who goes first as somebody is at risk, if so: one that waits, or the one that runs, its `own`, if that is watched, too.
    #[inline(never)]
    fn first_at_risk(&mut self, now: i64, own: Option<&Urgency>) -> Option<u32> {
        self.guard.set_slowdown(self.drain.slowdown());
        if let Some(own) = own {
            self.guard.insert(member(own, true, i64::MAX - 1, OWN));
        }
        // When the one that runs has given way, who else would have to is found again when it is put back.
        let mut only_asked: Vec<Member> = Vec::new();
        let mut is_own_there = own.is_some();
        let settled = loop {
            let member = match self.settled(now, own) {
                Ok(settled) => break settled,
                Err(gives_way) => gives_way,
            };
            self.guard.remove(member.id);
            if member.id == OWN {
                is_own_there = false;
            } else if own.is_some() && !is_own_there {
                only_asked.push(member);
            } else {
                self.slots[slot_of(member.id) as usize].is_watched = false;
            }
        };
        self.is_pressed = settled.is_some();
        if is_own_there {
            self.guard.remove(OWN);
        }
        only_asked.into_iter().for_each(|member| self.guard.insert(member));
        settled
    }

    /// How much time to spare is as good as none.
    #[inline]
    fn margin(&self) -> i64 {
        MARGIN.max(self.drain.gap())
    }

    /// Who has the earliest deadline, if anybody is at risk; or who isn't to be watched any more, by 3 to 5 above.
    fn settled(&self, now: i64, own: Option<&Urgency>) -> Result<Option<u32>, Member> {
        let Some(lead) = self.guard.lead() else { return Ok(None) };
        let is_late = |member: &Member| match member.id {
            OWN => own.is_some_and(|own| is_late(own, true, now)),
            id => self.slots[slot_of(id) as usize].is_late(now),
        };
        let tightest = if lead < now { self.guard.tightest() } else { None };
        if let Some(late) = tightest.and(self.guard.first()).filter(is_late) {
            return Err(late);
        }
        let mean = self.crowd.mean();
        if self.crowd.lasts()
            && let Some(longest) = self.guard.longest().filter(|longest| longest.saved / LITTLE > mean)
        {
            return Err(longest);
        }
        if let Some(tightest) = tightest {
            if is_late(&tightest) {
                return Err(tightest);
            }
            let longest = self.guard.longest_until(&tightest);
            if let Some(longest) = longest.filter(|longest| longest.saved / LITTLE > tightest.work) {
                return Err(longest);
            }
        }
        let is_at_risk = lead.saturating_sub(now) <= self.margin();
        Ok(if is_at_risk { self.guard.first().map(|first| first.id) } else { None })
    }

    /// As the queue's method of that name says.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.crowd.is_soon_over(&self.backlog, self.drain.slowdown())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// As the queue's method of that name says. Those at risk mostly go in the order in which they would without a deadline, too.
    #[inline]
    pub(super) fn behind_first(&self, by: usize) -> Option<&T> {
        self.slots[self.rest.behind_first(by)?.slot as usize].work.as_ref()
    }

    #[inline]
    pub(super) fn behind_first_at(&self, by: usize) -> Option<(usize, usize)> {
        self.rest.behind_first(by).map(|entry| super::place_of(&self.slots[entry.slot as usize]))
    }

    /// What nobody's work is longer than, as far as that is known without a search.
    #[inline]
    pub(super) fn longest(&self) -> Duration {
        self.backlog.longest()
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

    /// When it is looked at first whether it is to be watched, by 1 above, if it has a deadline.
    #[inline]
    fn watched_from(&self, urgency: &Urgency) -> i64 {
        if self.is_pressed {
            return i64::MIN;
        }
        let arrived = signed(urgency.arrived);
        let latest_start = urgency.latest_start(work_left(urgency));
        latest_start.saturating_sub(((latest_start.max(arrived) - arrived) / 4 * SHARE).max(2 * MARGIN))
    }

    /// When it is looked at again, if it isn't to be watched yet. `own`: how much of what waits is its own.
    #[inline]
    fn looked_at_again(&self, urgency: &Urgency, own: i64, now: i64) -> Option<i64> {
        if self.is_pressed {
            return None;
        }
        let work = work_left(urgency);
        let before = ((self.backlog.up_to(work) - own) as f64 * self.drain.slowdown()) as i64;
        let spare =
            urgency.latest_start(work).saturating_sub(now).saturating_sub(before).saturating_sub(2 * self.margin());
        (spare > MARGIN).then(|| now + spare / 2)
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
            let slot = &self.slots[first.slot as usize];
            if slot.turn != first.turn || slot.is_late(now) {
                continue;
            }
            if let Some(key) = self.looked_at_again(&slot.urgency, work_left(&slot.urgency), now) {
                self.alarms.push(Entry { key, ..first });
                continue;
            }
            self.guard.insert(member(&slot.urgency, slot.has_begun, first.turn, id_of(first.slot)));
            self.slots[first.slot as usize].is_watched = true;
        }
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
            self.guard.remove(id_of(slot));
        }
        self.backlog.remove(work_left(&urgency));
        self.free.push(slot);
        self.crowd.shrank(&self.backlog);
        Some((urgency, work))
    }

    /// Drops stale entries when they are more than the others; asked now and then. Where they come to the front they go by
    /// themselves, so this is for what lies behind work that stays.
    #[inline]
    fn sweep(&mut self) {
        let most = 2 * self.len() + 64;
        let Self { slots, rest, alarms, .. } = self;
        for entries in [rest, alarms] {
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
fn work_left(urgency: &Urgency) -> i64 {
    nanos(urgency.here).clamp(1, HOUR).cast_signed()
}

impl<T> Slot<T> {
    #[inline]
    fn is_late(&self, now: i64) -> bool {
        is_late(&self.urgency, self.has_begun, now)
    }
}

/// Whether it can't be in time any more, or would be refused. What has begun may be done in a [part](HOPE) of what is estimated.
#[inline]
fn is_late(urgency: &Urgency, has_begun: bool, now: i64) -> bool {
    let work = work_left(urgency);
    now > urgency.latest_start(if has_begun { work / HOPE } else { work })
}

/// As one of those watched. The earliest deadline goes first, whatever a call has to have left when it begins: of those that can't
/// all begin in time those are refused that have more to wait for than others.
#[inline]
fn member(urgency: &Urgency, has_begun: bool, turn: i64, id: u32) -> Member {
    let work = work_left(urgency);
    let until = urgency.latest_start(work).saturating_add(work);
    Member { due: urgency.due(), until, turn, work, saved: if has_begun && work <= SOON { 0 } else { work }, id }
}

/// What the guard calls the one that runs, and one that waits.
const OWN: u32 = 0;

#[inline]
const fn id_of(slot: u32) -> u32 {
    slot + 1
}

#[inline]
const fn slot_of(id: u32) -> u32 {
    id - 1
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
