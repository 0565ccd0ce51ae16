//! The default order, against a list that is searched from end to end by the rules that its module states.

use crate::strategies::urgency;
use greenwave_policy::{Budget, Deadline, Order, ReadyQueue, Time, Urgency};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn at(span: Duration) -> Time {
    Time::ZERO + span
}

/// Work that arrived then, with so much left to wait and to do.
fn work(arrived: Duration, budget: Option<Duration>, here: Duration) -> Urgency {
    let budget = budget.map_or(Budget::UNLIMITED, Budget::expected);
    let arrived = at(arrived);
    Urgency { arrived, birth: arrived, deadline: Deadline::at(arrived, budget), here, ..Urgency::default() }
}

fn queue<T>(all: impl IntoIterator<Item = (Urgency, T)>) -> ReadyQueue<T> {
    let mut queue = ReadyQueue::new(Order::Guarded);
    all.into_iter().for_each(|(urgency, name)| queue.push(urgency.arrived, urgency, name));
    queue
}

#[test]
fn it_is_the_default() {
    assert_eq!(Order::default(), Order::Guarded);
}

#[test]
fn a_full_queue_is_rid_of_those_that_take_longest_and_of_no_others() {
    let all = (0..100_u32).map(|n| (work(US * n, None, US * (1 + n % 10)), n));
    let mut full = queue(all);
    let shed = full.shed(15, 6 * US, |n| n % 2 == 1);
    // Of those that may go the 8s and 10s come first: there are ten each.
    assert_eq!(shed.len(), 15);
    assert!(shed.iter().all(|(_, n)| n % 2 == 1 && n % 10 >= 7), "{shed:?}");
    assert_eq!(shed.iter().filter(|(_, n)| n % 10 == 9).count(), 10);
    assert_eq!(full.len(), 85);
    assert_eq!(full.shed(100, 6 * US, |n| n % 2 == 1).len(), 5);
    assert!(full.shed(100, 6 * US, |n| n % 2 == 1).is_empty());
    let left: Vec<u32> = full.drain(at(MS)).map(|(_, n)| n).collect();
    assert_eq!(left.len(), 80);
    assert!(left.iter().all(|n| n % 2 == 0 || n % 10 < 7));
    let mut others = ReadyQueue::new(Order::Fcfs);
    others.push(at(US), work(US, None, MS), 1);
    assert!(others.shed(1, US, |_| true).is_empty() && others.len() == 1);
}

#[test]
fn short_work_goes_first_whatever_deadlines_say_that_are_far_off() {
    let order = |long, short| {
        let all = [(work(Duration::ZERO, long, 500 * US), "long"), (work(9 * US, short, US), "short")];
        queue(all).drain(at(10 * US)).map(|(_, name)| name).collect::<Vec<_>>()
    };
    for (long, short) in [(None, None), (Some(20 * MS), Some(20 * MS)), (Some(3 * MS), Some(100 * MS))] {
        assert_eq!(order(long, short), ["short", "long"], "{long:?} {short:?}");
    }
    assert_eq!(order(Some(515 * US), Some(100 * MS)), ["long", "short"]);
}

#[test]
fn the_guard_is_as_wide_as_the_work_that_is_at_risk() {
    // Each of them could wait for a while; of all together the last could not.
    let long = |n| (work(Duration::ZERO, Some(5 * MS), MS), n);
    let short = (work(2 * MS, None, US), 9);
    let first = |n| queue((0..n).map(long).chain([short])).pop(at(2500 * US)).map(|(_, name)| name);
    assert_eq!([first(1), first(2), first(3), first(4)], [9, 9, 0, 0].map(Some));
}

#[test]
fn what_cant_be_in_time_any_more_has_no_guard() {
    let late = work(Duration::ZERO, Some(2 * MS), MS);
    let mut queue = queue([(late, "late"), (work(MS, None, US), "short"), (work(MS, Some(3 * MS), MS), "in time")]);
    let order: Vec<_> = queue.drain(at(2990 * US)).map(|(_, name)| name).collect();
    assert_eq!(order, ["in time", "short", "late"]);
}

#[test]
fn what_has_begun_is_given_up_when_half_of_what_it_needs_is_left_and_no_earlier() {
    // It may be done sooner than was estimated.
    let first = |now| {
        let mut queue = queue([(work(MS, None, US), "short")]);
        queue.put_back(at(MS), work(Duration::ZERO, Some(2 * MS), MS), "begun");
        queue.pop(at(now)).map(|(_, name)| name)
    };
    assert_eq!((first(1400 * US), first(1500 * US), first(1501 * US)), (Some("begun"), Some("begun"), Some("short")));
    // In a crowd, too, it would be for nothing otherwise.
    let first_of_crowd = |has_begun| {
        let others = (1..=20).map(|n| (work(9 * MS, None, 10 * US), n));
        let (mut queue, now, long) = (queue(others).with_most(40), 60 * MS, work(60 * MS, Some(3 * MS), 2 * MS));
        if has_begun {
            queue.put_back(at(now), long, 0);
        } else {
            queue.push(at(now), long, 0);
        }
        queue.pop(at(now + 900 * US)).map(|(_, name)| name)
    };
    assert_eq!((first_of_crowd(true), first_of_crowd(false)), (Some(0), Some(1)));
}

#[test]
fn of_a_long_call_and_a_short_one_that_cant_both_be_in_time_the_long_one_is_left_out() {
    let first = |here| {
        let long = (work(100 * MS, Some(5550 * US), 500 * US), "long");
        let other = (work(Duration::ZERO, Some(105_480 * US + here), here), "other");
        queue([long, other]).pop(at(105 * MS)).map(|(_, name)| name)
    };
    // It is due later than the long one, and would be late behind it.
    assert_eq!(first(100 * US), Some("other"));
    assert_eq!(first(130 * US), Some("long"));
}

#[test]
fn who_can_wait_for_all_that_is_not_much_longer_does_not_count_as_at_risk() {
    // As many calls of 8 us as are done in half of what is left, or as there is no time for; and one that isn't at risk goes first.
    let first = |others: u64| {
        let all = (1..=others).map(|n| (work(Duration::ZERO, Some(20 * MS), 8 * US), n));
        queue(all.chain([(work(MS, None, US), 0)])).pop(at(12 * MS)).map(|(_, name)| name)
    };
    assert_eq!([500, 960, 1000].map(first), [0, 0, 1].map(Some));
    // Work that is much longer isn't waited for, and so doesn't count.
    let long = (1..=100).map(|_| (work(Duration::ZERO, Some(500 * MS), 4 * MS), 0));
    let own = (work(Duration::ZERO, Some(20 * MS), 100 * US), 1);
    let mut queue = queue(long.chain([own]));
    assert_eq!(queue.pop(at(12 * MS)).map(|(_, name)| name), Some(1));
    assert!((0..99).all(|_| queue.pop(at(12 * MS)).is_some_and(|(_, name)| name == 0)));
}

#[test]
fn where_a_crowd_waits_long_work_waits() {
    let long = |now| (work(now, Some(3 * MS), 2 * MS), 0);
    let first = |short: u64, lasts| {
        let others = (1..=short).map(|n| (work(9 * MS, None, 10 * US), n));
        let (mut queue, now) = (queue(others).with_most(40), 9 * MS + lasts);
        let (urgency, name) = long(now);
        queue.push(at(now), urgency, name);
        queue.pop(at(now + 900 * US)).map(|(_, name)| name)
    };
    // Itself it isn't one of the crowd.
    assert_eq!((first(19, 50 * MS), first(20, 50 * MS)), (Some(0), Some(1)));
    assert_eq!((first(20, 49 * MS), first(20, 40 * MS)), (Some(0), Some(0)), "that will soon be over");
    // And so does long work that comes then, until few wait.
    let first_after = |served| {
        let others = (1..=20).map(|n| (work(9 * MS, None, 10 * US), n));
        let (mut queue, now) = (queue(others).with_most(40), 60 * MS);
        for _ in 0..served {
            queue.pop(at(now));
        }
        let (urgency, name) = long(now);
        queue.push(at(now), urgency, name);
        queue.pop(at(now + 900 * US)).map(|(_, name)| name == 0)
    };
    assert_eq!([1, 10, 15, 16].map(first_after), [false, false, false, true].map(Some));
}

#[test]
fn how_long_the_longest_is_at_most_is_known_without_a_search() {
    let mut queue = queue([]);
    assert_eq!(queue.longest(), Duration::ZERO);
    for (here, at_most) in [(US, 1024), (3 * US, 4096), (2 * US, 4096), (1700 * 3600 * MS, u64::MAX)] {
        queue.push(at(MS), work(MS, None, here), 0);
        let expected = if at_most == u64::MAX { Duration::MAX } else { Duration::from_nanos(at_most) };
        assert_eq!(queue.longest(), expected, "with {here:?}");
    }
    queue.retain(|urgency, _| urgency.here == US);
    assert_eq!(queue.longest(), Duration::from_nanos(1024));
    assert_eq!(ReadyQueue::<()>::new(Order::Fcfs).longest(), Duration::MAX);
}

#[test]
fn of_the_same_kind_it_is_known_who_comes_behind_the_first() {
    let mut queue = queue((0..3).map(|n| (work(MS * n, None, US), n)));
    assert_eq!([0, 1, 2, 3].map(|by| queue.behind_first(by).copied()), [Some(0), Some(1), Some(2), None]);
    queue.pop(at(3 * MS));
    assert_eq!(queue.behind_first(0), Some(&1));
    // One at risk that goes before them doesn't stand in their way, and neither does another kind.
    queue.push(at(3 * MS), work(3 * MS, Some(4 * US), US), 9);
    assert_eq!(queue.pop(at(3 * MS)).map(|(_, name)| name), Some(9));
    assert_eq!([0, 1, 2].map(|by| queue.behind_first(by).copied()), [Some(1), Some(2), None]);
    let mut queue = ReadyQueue::new(Order::Guarded);
    queue.push(at(MS), work(MS, None, 500 * US), 8);
    (0..3).for_each(|n| queue.push(at(MS * (n + 1)), work(MS * (n + 1), None, US), n));
    assert_eq!(queue.pop(at(3 * MS)).map(|(_, name)| name), Some(0));
    assert_eq!([0, 1, 2].map(|by| queue.behind_first(by).copied()), [Some(1), Some(2), None]);
    assert!(queue.behind_first_at(1).is_some_and(|(_, bytes)| bytes > size_of::<Urgency>()));
    assert_eq!(queue.behind_first_at(2), None);
    assert_eq!(queue.drain(at(3 * MS)).map(|(_, name)| name).collect::<Vec<_>>(), [1, 2, 8]);
}

#[test]
fn nobody_is_passed_over_for_ever() {
    let long = (work(Duration::ZERO, None, 100 * US), true);
    let after = |span| {
        let mut queue = queue([long, (work(span, None, US), false)]);
        queue.pop(at(span)).map(|(_, is_long)| is_long)
    };
    assert_eq!(after(50 * MS), Some(false));
    assert_eq!(after(110 * MS), Some(true));
}

#[test]
fn work_that_had_more_than_was_expected_goes_behind_what_is_fresh() {
    let fresh = work(Duration::ZERO, None, US);
    let mut queue = queue([(fresh, "waits")]);
    assert!(!queue.goes_on(at(5 * US), &fresh.after(5 * US)));
    queue.put_back(at(5 * US), fresh.after(5 * US), "ran");
    assert_eq!(queue.drain(at(5 * US)).map(|(_, name)| name).collect::<Vec<_>>(), ["waits", "ran"]);
}

/// A queue that has drained so many times as slowly as its calls' work says, each of them a millisecond; and when.
fn drained(slowdown: u32, idle: Duration) -> (ReadyQueue<u64>, Duration) {
    let mut queue = ReadyQueue::new(Order::Guarded);
    let mut now = MS;
    // As many as are looked at before something is learned, again and again, and none more.
    for n in 0..2400 {
        // The last of three finds nobody behind it, and what comes next comes later.
        if n % 3 == 0 {
            now += idle;
            (0..3).for_each(|_| queue.push(at(now), work(now, None, MS), n));
        }
        queue.pop(at(now));
        now += MS * slowdown;
    }
    assert!(queue.is_empty());
    (queue, now)
}

/// What waits, in the order in which it came, and how the rules of the module see it.
#[derive(Default)]
struct Model {
    waiting: Vec<(i64, Urgency, u64)>,
    begun: HashSet<u64>,
    /// How many may wait, and whether there has been a crowd since there were few.
    most: usize,
    is_crowded: bool,
    /// For how long, and when it was asked last.
    crowded_for: i64,
    seen: i64,
    /// How many have come lately, and the mean of their work.
    came: u32,
    mean: f64,
    /// How many times its work a call takes; none learned is 0.
    slowdown: u32,
    /// Those whose time to be watched has come, and whether they still are.
    watched: Vec<(u64, bool)>,
    /// When those are looked at again whose time may have come later.
    again: HashMap<u64, i64>,
    /// Whether somebody was at risk when that was asked last, and those that came then.
    is_pressed: bool,
    pressed: Vec<u64>,
}

impl Model {
    fn push(&mut self, turn: i64, urgency: Urgency, id: u64, has_begun: bool) {
        self.waiting.push((turn, urgency, id));
        if has_begun {
            self.begun.insert(id);
        } else {
            self.came = (self.came + 1).min(1024);
            self.mean += (Self::left(&urgency) as f64 - self.mean) / f64::from(self.came);
        }
        self.is_crowded |= self.short() >= self.crowd();
        if self.is_pressed {
            self.pressed.push(id);
        }
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.waiting.retain(|(_, _, id)| keep(*id));
        self.is_crowded &= self.short() >= self.crowd().div_ceil(4);
    }

    fn crowd(&self) -> usize {
        self.most.div_ceil(2).min(512)
    }

    /// How many wait that aren't much longer than the mean of what has come.
    fn short(&self) -> usize {
        let most = (self.mean as i64).max(1).ilog2() + 2;
        self.waiting.iter().filter(|(_, urgency, _)| Self::left(urgency).ilog2() <= most).count()
    }

    fn due(urgency: &Urgency) -> i64 {
        let expires = urgency.deadline.expires().map(|time| time.as_nanos().cast_signed());
        expires.map_or(i64::MAX, |expires| expires - urgency.ahead.as_nanos() as i64)
    }

    /// When it has to begin, to be in time and not to be refused.
    fn start(urgency: &Urgency) -> i64 {
        Self::latest_start(urgency, Self::left(urgency))
    }

    fn latest_start(urgency: &Urgency, work: i64) -> i64 {
        let due = Self::due(urgency) - work;
        if urgency.needed.is_zero() {
            return due;
        }
        let expires = urgency.deadline.expires().map_or(i64::MAX, |time| time.as_nanos().cast_signed());
        due.min(expires - urgency.needed.as_nanos() as i64)
    }

    fn left(urgency: &Urgency) -> i64 {
        (urgency.here.as_nanos() as i64).clamp(1, 3_600_000_000_000)
    }

    fn is_late(&self, urgency: &Urgency, id: u64, now: i64) -> bool {
        let part = if self.begun.contains(&id) { 2 } else { 1 };
        now > Self::latest_start(urgency, Self::left(urgency) / part)
    }

    /// The watched, the earliest deadline first, and what each has to spare if all before it go before it.
    fn guard(&self, now: i64) -> Vec<(Urgency, u64, i64)> {
        let watched = self.waiting.iter().filter(|(_, _, id)| self.watched.contains(&(*id, true)));
        let mut watched: Vec<_> = watched.collect();
        let done = |urgency: &Urgency| Self::start(urgency) + Self::left(urgency);
        watched.sort_by_key(|(turn, urgency, _)| (Self::due(urgency), *turn));
        let mut until = 0;
        let spare = watched.into_iter().map(|(_, urgency, id)| {
            until += Self::left(urgency) * i64::from(self.slowdown.max(1));
            (*urgency, *id, done(urgency) - now - until)
        });
        spare.collect()
    }

    /// Who of these isn't to be watched any more.
    fn gives_way(&self, guard: &[(Urgency, u64, i64)], now: i64) -> Option<u64> {
        let (first, id, _) = guard.first()?;
        if self.is_late(first, *id, now) {
            return Some(*id);
        }
        let longest = |of: &[(Urgency, u64, i64)]| {
            let is_kept = |urgency: &Urgency, id| self.begun.contains(id) && Self::left(urgency) <= 20_000_000;
            let fresh = of.iter().filter(|(urgency, id, _)| !is_kept(urgency, id));
            let longest = fresh.rev().max_by_key(|(urgency, ..)| Self::left(urgency));
            longest.map(|(urgency, id, _)| (Self::left(urgency), *id))
        };
        if self.is_crowded
            && self.crowded_for >= 50_000_000
            && let Some((_, id)) = longest(guard).filter(|(work, _)| work / 4 > self.mean as i64)
        {
            return Some(id);
        }
        let at = (0..guard.len()).min_by_key(|at| guard[*at].2)?;
        let (tightest, id, spare) = guard[at];
        if spare >= 0 {
            return None;
        }
        if self.is_late(&tightest, id, now) {
            return Some(id);
        }
        longest(&guard[..=at]).filter(|(work, _)| work / 4 > Self::left(&tightest)).map(|(_, id)| id)
    }

    fn pass(&mut self, now: Time) {
        let now = now.as_nanos().cast_signed();
        let passed = now - self.seen;
        self.seen = now;
        let most = 100_000_000;
        self.crowded_for = (self.crowded_for + if self.is_crowded { passed } else { -passed }).clamp(0, most);
    }

    /// Which one goes first.
    fn first(&mut self, now: Time) -> Option<u64> {
        self.pass(now);
        let now = now.as_nanos().cast_signed();
        // A call of a millisecond is under way as a rule, if anything was learned.
        let margin = (i64::from(self.slowdown) * 1_000_000).max(200_000);
        for (_, urgency, id) in self.waiting.iter().filter(|(_, urgency, _)| urgency.deadline != Deadline::NEVER) {
            let start = Self::start(urgency);
            let half = (start - urgency.arrived.as_nanos().cast_signed()).max(0) / 4 * 2;
            let is_pressed = self.pressed.contains(id);
            let from = self.again.get(id).copied().unwrap_or(start - half.max(400_000));
            if (from > now && !is_pressed) || self.watched.iter().any(|(known, _)| known == id) {
                continue;
            }
            let size = |urgency: &Urgency| Self::left(urgency).ilog2();
            let shorter = |(_, other, them): &&(i64, Urgency, u64)| them != id && size(other) <= size(urgency) + 2;
            let before: i64 = self.waiting.iter().filter(shorter).map(|(_, other, _)| Self::left(other)).sum();
            let spare = start - now - before * i64::from(self.slowdown.max(1)) - 2 * margin;
            if spare > 200_000 && !self.is_pressed && !self.is_late(urgency, *id, now) {
                self.again.insert(*id, now + spare / 2);
            } else {
                self.watched.push((*id, !self.is_late(urgency, *id, now)));
            }
        }
        let guard = loop {
            let guard = self.guard(now);
            let Some(id) = self.gives_way(&guard, now) else { break guard };
            self.watched.iter_mut().filter(|(known, _)| *known == id).for_each(|(_, is)| *is = false);
        };
        self.is_pressed = guard.iter().any(|(_, _, spare)| *spare <= margin);
        if self.is_pressed {
            return guard.first().map(|(_, id, _)| *id);
        }
        let rank = |urgency: &Urgency| {
            let (arrived, here) = (urgency.arrived.as_nanos() as i128, urgency.here.as_nanos() as i128);
            // To within an eighth.
            let here = (0..128).find(|small| here >> small < 16).map_or(0, |small| here >> small << small);
            let spare = (i128::from(Self::due(urgency)) - arrived).max(0) - here;
            arrived + here * 1000 + spare.clamp(0, here * 100 * i128::from(self.slowdown.max(1)))
        };
        self.waiting.iter().min_by_key(|(turn, urgency, _)| (rank(urgency), *turn)).map(|(_, _, id)| *id)
    }
}

proptest! {
    /// Each pop gives what a search of the whole list would, and nothing is lost.
    #[test]
    fn the_queue_is_a_list_that_is_searched_by_the_rules(
        urgencies in vec((urgency(), 0..1_u64 << 30, 0..1_u64 << 30), 6),
        acts in vec((0..7_u8, 0..6_usize, 0..1_u64 << 28), 0..120),
        needed in prop_oneof![Just(0.0), 0.0..1.0_f64],
        most in prop_oneof![Just(usize::MAX), 1..40_usize],
        slowdown in prop_oneof![Just(0), 1..20_u32],
    ) {
        // Spans short enough for each other to matter.
        let urgencies: Vec<Urgency> = urgencies.into_iter().map(|(urgency, here, budget)| {
            let arrived = Time::from_nanos(1 << 40);
            let has_deadline = urgency.deadline != Deadline::NEVER;
            let budget = if has_deadline { Budget::expected(Duration::from_nanos(8 * budget)) } else { Budget::UNLIMITED };
            let (here, ahead) = (Duration::from_nanos(here), Duration::from_nanos(here / 3));
            let needed = budget.remaining().map_or(Duration::ZERO, |budget| budget.mul_f64(needed));
            Urgency { arrived, birth: arrived, deadline: Deadline::at(arrived, budget), here, ahead, needed }
        }).collect();
        let queue = match slowdown {
            0 => ReadyQueue::new(Order::Guarded),
            _ => drained(slowdown, Duration::ZERO).0,
        };
        let mut queue = queue.with_most(most);
        // What was learned is learned of calls of a millisecond.
        let (came, mean) = if slowdown == 0 { (0, 0.0) } else { (1024, 1e6) };
        let (mut model, mut now) = (Model { most, slowdown, came, mean, ..Model::default() }, Time::from_nanos(1 << 40));
        for (turn, (act, which, passed)) in (1_i64..).zip(acts) {
            now = now + Duration::from_nanos(passed);
            let (id, urgency) = (turn.unsigned_abs(), urgencies[which]);
            match act {
                0..2 => {
                    queue.push(now, urgency, id);
                    model.pass(now);
                    model.push(turn, urgency, id, false);
                }
                2 => {
                    queue.push_first(now, urgency, id);
                    model.push(-turn, urgency, id, true);
                }
                4 => {
                    queue.put_back(now, urgency, id);
                    model.push(turn, urgency, id, true);
                }
                3 => {
                    queue.retain(|_, id| *id % 7 != 0);
                    model.retain(|id| id % 7 != 0);
                }
                _ => {
                    let expected = model.first(now);
                    model.retain(|id| Some(id) != expected);
                    prop_assert_eq!(queue.pop(now).map(|(_, id)| id), expected);
                }
            }
            prop_assert_eq!(queue.len(), model.waiting.len());
        }
    }

    /// Who goes on would be the next, were it put back.
    #[test]
    fn who_goes_on_would_be_next(
        all in vec((0..1_u64 << 24, 0..1_u64 << 26), 1..12),
        passed in 0..1_u64 << 26,
        before in vec(0..1_u64 << 24, 0..4),
        part in 0.0..1.0_f64,
        needed in prop_oneof![Just(0.0), 0.0..1.0_f64],
        slowdown in prop_oneof![Just(0), 1..20_u32],
    ) {
        let (mut queue, began) = match slowdown {
            0 => (ReadyQueue::new(Order::Guarded), MS),
            _ => drained(slowdown, Duration::ZERO),
        };
        let mut all = all.into_iter().map(|(here, budget)| {
            let budget = (budget % 3 > 0).then(|| Duration::from_nanos(budget));
            let needed = budget.map_or(Duration::ZERO, |budget| budget.mul_f64(needed));
            Urgency { needed, ..work(began, budget, Duration::from_nanos(here)) }
        });
        let own = all.next().expect("there is one at least");
        all.for_each(|urgency| queue.push(at(began), urgency, 0));
        let mut now = at(began);
        // Some of the others go before, so that there may be an overload already.
        for passed in before {
            now = now + Duration::from_nanos(passed);
            queue.pop(now);
        }
        now = now + Duration::from_nanos(passed);
        let goes_on = queue.goes_on(now, &own);
        let mut asked_later = queue.clone();
        queue.put_back(now, own, 1);
        prop_assert_eq!(queue.pop(now).map(|(_, id)| id == 1), Some(goes_on));
        // Nor is there another answer within the time for which there is none to be expected.
        if goes_on {
            let span = asked_later.goes_on_for(now, &own, own.here).min(own.here).mul_f64(part);
            prop_assert!(asked_later.goes_on(now + span, &own.after(span)), "{span:?}");
        }
    }
}

#[test]
fn the_shortest_goes_on_until_another_may_be_at_risk_or_its_own_work_is_not_known() {
    let (own, other) = (work(Duration::ZERO, None, 100 * US), work(Duration::ZERO, Some(2 * MS), MS));
    let mut queue = queue([(other, ())]);
    assert!(queue.goes_on(at(Duration::ZERO), &own));
    // Half of the other's time to spare is gone then.
    assert_eq!(queue.goes_on_for(at(100 * US), &own, MS), 400 * US);
    assert_eq!(queue.goes_on_for(at(100 * US), &own, 100 * US), 100 * US);
    assert_eq!(queue.goes_on_for(at(600 * US), &own, MS), Duration::ZERO);
}

#[test]
fn the_guard_knows_how_long_what_waits_takes() {
    // How many calls of a millisecond make up the 21 ms that are left, with the one whose turn it may just be.
    let most = |slowdown, idle| {
        let (mut queue, now) = drained(slowdown, idle);
        (1..=30).find(|&n| {
            for id in 0..n {
                queue.push(at(now), work(now, Some(60 * MS), MS), id);
            }
            // It came later, but it takes less.
            queue.push(at(now), work(now, None, US), 99);
            let first = queue.pop(at(now + 39 * MS)).map(|(_, id)| id);
            queue.retain(|_, _| false);
            first != Some(99)
        })
    };
    for idle in [Duration::ZERO, 500 * MS] {
        assert_eq!([1, 4, 8].map(|slowdown| most(slowdown, idle)), [20, 5, 2].map(Some), "idle for {idle:?}");
    }
}

#[test]
fn a_call_that_is_put_back_is_no_sign_of_others_on_the_core() {
    let mut queue = ReadyQueue::new(Order::Guarded);
    let mut now = MS;
    queue.push(at(now), work(now, None, 1000 * MS), 1);
    for _ in 0..1000 {
        // The long one has a millisecond, and gives way to one that has come.
        let (long, id) = queue.pop(at(now)).expect("the long one");
        assert_eq!(id, 1);
        queue.push(at(now), work(now, None, MS), 2);
        now += MS;
        // It is as if it had only come, so that it isn't its turn for having waited long.
        queue.preempted(at(now), work(now, None, long.here.saturating_sub(MS).max(2 * MS)), 1);
        assert_eq!(queue.pop(at(now)).map(|(_, id)| id), Some(2));
        now += MS;
    }
    queue.retain(|_, _| false);
    let (far, near) = (work(now, Some(60 * MS), MS), work(now, None, US));
    queue.push(at(now), far, 1);
    queue.push(at(now), near, 2);
    assert_eq!(queue.pop(at(now + 57 * MS)).map(|(_, id)| id), Some(2));
}
