//! One core without cost or grain: what orders are worth if time can be divided at will.
//!
//! The server's orders have quanta and estimates; these have neither, so they are bounds to compare with, and closed
//! [`forms`](super::forms) hold for them exactly.

use super::histogram::Histogram;
use super::load::Load;
use crate::seed::Seed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How the core is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All that wait have the same part of it, at any time.
    Processor,
    /// Who has the least left has it all.
    ShortestRemaining,
    /// Who has had least has it; several that have had as much share it.
    LeastAttained,
}

/// The response times of so many jobs at this share of the core's capacity; the first tenth isn't counted. The share is taken
/// as the nearest of 0.001 to 0.999.
#[must_use]
pub fn serve(sharing: Sharing, load: &Load, share: f64, jobs: u64, seed: Seed) -> Histogram {
    let (mut gaps, mut works) = (seed.stream("gaps", 0), seed.stream("works", 0));
    let gap = load.mean_ns() / share.clamp(0.001, 0.999);
    let mut core: Box<dyn Core> = match sharing {
        Sharing::Processor => Box::new(Processor::default()),
        Sharing::ShortestRemaining => Box::new(Shortest::default()),
        Sharing::LeastAttained => Box::new(Least::default()),
    };
    let (mut now, mut number, mut done) = (0.0, 0, Histogram::new());
    let mut next = -(1.0 - gaps.unit()).ln() * gap;
    loop {
        let ends = core.next_change().map(|after| now + after);
        let arrives = if number < jobs { next } else { f64::INFINITY };
        match ends {
            Some(ends) if ends <= arrives => {
                core.go_on(ends - now);
                now = ends;
                while let Some(job) = core.finished() {
                    if job.counted {
                        done.add((now - job.arrived).round() as u64);
                    }
                }
            }
            _ if number < jobs => {
                core.go_on(arrives - now);
                now = arrives;
                let (_, work) = load.draw(&mut works);
                core.arrive(work as f64, Job { arrived: now, counted: number >= jobs / 10 });
                number += 1;
                next = now - (1.0 - gaps.unit()).ln() * gap;
            }
            _ => return done,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    arrived: f64,
    counted: bool,
}

trait Core {
    fn arrive(&mut self, work: f64, job: Job);
    /// After how long somebody is done, or has had as much as another.
    fn next_change(&self) -> Option<f64>;
    /// So much time passes, not more than until the next change.
    fn go_on(&mut self, span: f64);
    /// Who is done now.
    fn finished(&mut self) -> Option<Job>;
}

/// A job and a number that it is sorted by. Such numbers are not negative, so their bits are in their order.
#[derive(Debug)]
struct Keyed(f64, Job);

impl PartialEq for Keyed {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Keyed {}

impl PartialOrd for Keyed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keyed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What is as good as nothing left, in nanoseconds: sums of many small spans are not exact.
const NOTHING: f64 = 1e-3;

/// What each has been served since the core began is the same for all, so a job is done when that reaches a number.
#[derive(Default)]
struct Processor {
    served: f64,
    jobs: BinaryHeap<Reverse<Keyed>>,
}

impl Core for Processor {
    fn arrive(&mut self, work: f64, job: Job) {
        self.jobs.push(Reverse(Keyed(self.served + work, job)));
    }

    fn next_change(&self) -> Option<f64> {
        let Reverse(Keyed(until, _)) = self.jobs.peek()?;
        Some((until - self.served).max(0.0) * self.jobs.len() as f64)
    }

    fn go_on(&mut self, span: f64) {
        if self.jobs.is_empty() {
            self.served = 0.0;
        } else {
            self.served += span / self.jobs.len() as f64;
        }
    }

    fn finished(&mut self) -> Option<Job> {
        let Reverse(Keyed(until, _)) = self.jobs.peek()?;
        if *until > self.served + NOTHING {
            return None;
        }
        self.jobs.pop().map(|Reverse(Keyed(_, job))| job)
    }
}

#[derive(Default)]
struct Shortest {
    running: Option<Keyed>,
    waiting: BinaryHeap<Reverse<Keyed>>,
}

impl Core for Shortest {
    fn arrive(&mut self, work: f64, job: Job) {
        let mut new = Keyed(work, job);
        if let Some(running) = &mut self.running {
            if new < *running {
                std::mem::swap(running, &mut new);
            }
            self.waiting.push(Reverse(new));
        } else {
            self.running = Some(new);
        }
    }

    fn next_change(&self) -> Option<f64> {
        self.running.as_ref().map(|running| running.0)
    }

    fn go_on(&mut self, span: f64) {
        if let Some(running) = &mut self.running {
            running.0 = (running.0 - span).max(0.0);
        }
    }

    fn finished(&mut self) -> Option<Job> {
        let done = self.running.take_if(|running| running.0 <= NOTHING)?;
        self.running = self.waiting.pop().map(|Reverse(next)| next);
        Some(done.1)
    }
}

/// Jobs that have had as much are a level; the last level has had least, and is served.
#[derive(Default)]
struct Least {
    levels: Vec<Level>,
}

struct Level {
    attained: f64,
    /// By work.
    jobs: BinaryHeap<Reverse<Keyed>>,
}

impl Core for Least {
    fn arrive(&mut self, work: f64, job: Job) {
        let new = Reverse(Keyed(work, job));
        match self.levels.last_mut() {
            Some(last) if last.attained == 0.0 => last.jobs.push(new),
            _ => self.levels.push(Level { attained: 0.0, jobs: BinaryHeap::from([new]) }),
        }
    }

    fn next_change(&self) -> Option<f64> {
        let last = self.levels.last()?;
        let Reverse(Keyed(work, _)) = last.jobs.peek()?;
        let below = self.levels.len().checked_sub(2).map_or(f64::INFINITY, |below| self.levels[below].attained);
        Some((work.min(below) - last.attained).max(0.0) * last.jobs.len() as f64)
    }

    fn go_on(&mut self, span: f64) {
        let Some(last) = self.levels.last_mut() else { return };
        last.attained += span / last.jobs.len() as f64;
        let below = self.levels.len().checked_sub(2);
        if let Some(below) =
            below.filter(|below| self.levels[*below].attained <= self.levels[below + 1].attained + NOTHING)
            && let Some(mut caught_up) = self.levels.pop()
        {
            let level = &mut self.levels[below];
            // The smaller into the larger.
            if caught_up.jobs.len() > level.jobs.len() {
                std::mem::swap(&mut caught_up.jobs, &mut level.jobs);
            }
            level.jobs.extend(caught_up.jobs);
        }
    }

    fn finished(&mut self) -> Option<Job> {
        let last = self.levels.last_mut()?;
        let Reverse(Keyed(work, _)) = last.jobs.peek()?;
        if *work > last.attained + NOTHING {
            return None;
        }
        let done = last.jobs.pop().map(|Reverse(Keyed(_, job))| job);
        if last.jobs.is_empty() {
            self.levels.pop();
        }
        done
    }
}
