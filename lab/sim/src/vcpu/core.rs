//! A core and its guests in virtual time.

use super::credits::{Books, Credits};
use super::{CreditRule, GuestError, MOST_NEIGHBOURS, Neighbour, VcpuRule, weighs};
use crate::seed::Stream;
use greenwave_policy::{Span, Time};
use std::time::Duration;

/// The guest that is woken from outside; its neighbours follow.
const WOKEN: usize = 0;

/// Never, and more work than there is time.
const NEVER: u64 = u64::MAX / 4;

#[derive(Clone, Debug)]
struct Guest {
    /// Of a neighbour: its work and sleep.
    runs: Duration,
    sleeps: Duration,
    /// What is left of its work, in nanoseconds.
    work: u64,
    /// What is left of the switch to it.
    switch: u64,
    /// When a neighbour that sleeps wakes.
    wakes: u64,
    ran: u64,
    preempted: u64,
}

/// A core that a guest, which is woken from outside, shares with neighbours that have work of their own.
///
/// The guest is [woken](Self::done_at) in the order of time, and what the neighbours do is worked out as far as that takes.
#[derive(Clone, Debug)]
pub struct Core {
    credits: Credits,
    rate_limit: u64,
    switch: u64,
    guests: Vec<Guest>,
    stream: Stream,
    now: u64,
    next_tick: u64,
    turn: u64,
    running: Option<usize>,
    /// Who ran last.
    last: Option<usize>,
    /// Since when who runs does without a break.
    began: u64,
    /// When it is decided again who runs.
    decides: u64,
    /// The woken guest has done its work just now, and sleeps if there is no more by then.
    is_done: bool,
    switching: u64,
}

/// What guests had of a core.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreUse {
    /// Over how long, in seconds of virtual time.
    pub seconds: f64,
    /// The guest that is woken from outside, and its neighbours.
    pub guests: Vec<GuestUse>,
    /// The share of the time that switches took.
    pub switching: f64,
}

/// What a guest had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GuestUse {
    /// The share of the time in which it did its work.
    pub share: f64,
    /// How often it lost the core while it had work to do.
    pub preempted: u64,
}

impl Core {
    /// With neighbours that all have work now, and a guest that sleeps.
    ///
    /// # Errors
    /// If the rule, a weight or a neighbour can't be meant.
    pub fn new(rule: &CreditRule, weight: u32, neighbours: &[Neighbour], stream: Stream) -> Result<Self, GuestError> {
        rule.validate()?;
        weighs(weight)?;
        neighbours.iter().try_for_each(Neighbour::validate)?;
        if neighbours.len() > MOST_NEIGHBOURS {
            return Err(GuestError::Neighbours(neighbours.len()));
        }
        let guest = |runs, sleeps| Guest { runs, sleeps, work: 0, switch: 0, wakes: NEVER, ran: 0, preempted: 0 };
        let woken = guest(Duration::ZERO, Duration::ZERO);
        let others = neighbours.iter().map(|neighbour| guest(neighbour.runs, neighbour.sleeps));
        let weights = std::iter::once(weight).chain(neighbours.iter().map(|neighbour| neighbour.weight));
        let credits = Credits::new(rule, weights);
        let mut new = Self {
            rate_limit: Span::from(rule.rate_limit).as_nanos(),
            switch: Span::from(rule.switch).as_nanos(),
            guests: std::iter::once(woken).chain(others).collect(),
            stream,
            now: 0,
            next_tick: credits.tick_length(),
            turn: Span::from(rule.period).as_nanos(),
            credits,
            running: None,
            last: None,
            began: 0,
            decides: NEVER,
            is_done: false,
            switching: 0,
        };
        for neighbour in WOKEN + 1..new.guests.len() {
            new.has_work(neighbour);
            new.credits.enter(neighbour);
        }
        new.decide();
        Ok(new)
    }

    pub(crate) fn of(rule: &VcpuRule, stream: Stream) -> Result<Self, GuestError> {
        rule.validate()?;
        Self::new(&rule.credit, rule.weight, &vec![rule.neighbour; rule.neighbours], stream)
    }

    /// When the guest has done so much work that it is woken for at `now`. Calls have to come in the order of time; what it
    /// hadn't done by then comes first.
    pub fn done_at(&mut self, now: Time, work: Duration) -> Time {
        self.run_until(now);
        // At least a nanosecond, so that it does run.
        self.guests[WOKEN].work = Span::from(work).as_nanos().max(1);
        if self.is_done {
            self.is_done = false;
        } else {
            self.wake(WOKEN);
        }
        while !self.is_done {
            self.step(NEVER);
        }
        Time::from_nanos(self.now)
    }

    /// Lets time go on to `until`, if it isn't there.
    pub fn run_until(&mut self, until: Time) {
        let until = until.as_nanos().min(NEVER);
        if until <= self.now {
            return;
        }
        if self.is_done {
            self.is_done = false;
            self.sleep();
        }
        while self.step(until) {}
    }

    /// What guests had until now.
    #[must_use]
    pub fn usage(&self) -> CoreUse {
        let seconds = self.now.max(1) as f64 / 1e9;
        let share = |nanos: u64| nanos as f64 / 1e9 / seconds;
        let guests = self.guests.iter().map(|guest| GuestUse { share: share(guest.ran), preempted: guest.preempted });
        CoreUse { seconds, guests: guests.collect(), switching: share(self.switching) }
    }

    /// What became of all credits until now.
    #[must_use]
    pub fn books(&self) -> Books {
        self.credits.books()
    }

    /// Does what is next, unless that is later than `until`: then time is `until`, and there is nothing more.
    fn step(&mut self, until: u64) -> bool {
        let ends = self.running.map_or(NEVER, |guest| self.now + self.guests[guest].work + self.guests[guest].switch);
        let (wakes, neighbour) =
            self.guests.iter().enumerate().map(|(at, guest)| (guest.wakes, at)).min().unwrap_or((NEVER, WOKEN));
        let next = ends.min(wakes).min(self.decides).min(self.next_tick);
        self.pass(next.min(until));
        if next > until {
            return false;
        }
        if next == ends {
            self.end();
        } else if next == wakes {
            self.has_work(neighbour);
            self.wake(neighbour);
        } else if next == self.next_tick {
            self.credits.tick(self.running);
            self.next_tick += self.credits.tick_length();
        } else {
            self.decide();
        }
        true
    }

    fn pass(&mut self, to: u64) {
        let span = to - self.now;
        self.now = to;
        let Some(running) = self.running else { return };
        self.credits.ran(running, span);
        let guest = &mut self.guests[running];
        let switch = span.min(guest.switch);
        guest.switch -= switch;
        guest.work -= span - switch;
        guest.ran += span - switch;
        self.switching += switch;
    }

    /// A neighbour's next work; one that never sleeps has more than there is time.
    fn has_work(&mut self, neighbour: usize) {
        let guest = &mut self.guests[neighbour];
        guest.wakes = NEVER;
        guest.work = match guest.sleeps {
            Duration::ZERO => NEVER,
            _ => Span::from(self.stream.exponential(guest.runs)).as_nanos().max(1),
        };
    }

    /// Who runs has done its work.
    fn end(&mut self) {
        match self.running {
            Some(WOKEN) => self.is_done = true,
            Some(neighbour) => {
                let sleeps = self.stream.exponential(self.guests[neighbour].sleeps);
                self.guests[neighbour].wakes = self.now + Span::from(sleeps).as_nanos().max(1);
                self.sleep();
            }
            None => {}
        }
    }

    /// Who runs leaves the core.
    fn sleep(&mut self) {
        self.running = None;
        self.decide();
    }

    fn wake(&mut self, guest: usize) {
        if !self.credits.wake(guest, self.running) {
            return;
        }
        let allowed = self.began + self.rate_limit;
        if self.running.is_some() && self.now < allowed {
            self.decides = self.decides.min(allowed);
        } else {
            self.decide();
        }
    }

    /// Lets the first run of those that could.
    fn decide(&mut self) {
        let before = self.running.take();
        if let Some(guest) = before {
            self.credits.enter(guest);
        }
        self.running = self.credits.first();
        self.decides = NEVER;
        let Some(guest) = self.running else { return };
        self.decides = self.now + self.turn;
        if before == Some(guest) {
            return;
        }
        if let Some(preempted) = before {
            self.guests[preempted].preempted += 1;
        }
        self.began = self.now;
        // What is left of a switch that was itself preempted is begun again.
        self.guests[guest].switch = if self.last.is_some_and(|last| last != guest) { self.switch } else { 0 };
        self.last = Some(guest);
    }
}
