//! What others put in front of their handlers, as an interceptor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use greenwave::{Code, Context, Promise, Status, promise};
use greenwave_bench::clock;
use greenwave_policy::{CodelLifo, CodelLifoRule, Time};

use super::gradient::Gradient;

/// How many requests are at work in a stage at once behind an adaptive LIFO, as it stands before a pool of threads. A stage
/// has one core, and of those at work most wait for the stages behind: these are enough to keep it busy, and fewer than
/// would make another queue.
const AT_WORK: usize = 4;

/// Which gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rule {
    /// A queue that serves the newest first once it stands, with a short limit on the time in it.
    CodelLifo,
    /// A limit on how many are under way that follows their latency; beyond it they are refused.
    Gradient,
}

/// A gate of a stage.
pub(crate) enum Gate {
    Lifo(Arc<Lifo>),
    Gradient(Limit),
}

impl Gate {
    /// The gate of this rule. `times` is by how much a controlled delay is longer than as published: services whose deadlines
    /// are longer have more time to give.
    pub(crate) fn new(rule: Rule, times: u32) -> Self {
        let usual = CodelLifoRule::default();
        let (interval, target) = (usual.interval * times, usual.target * times);
        match rule {
            Rule::CodelLifo => Self::Lifo(Lifo::new(CodelLifoRule { interval, target, forms_at: AT_WORK })),
            Rule::Gradient => Self::Gradient(Limit::new()),
        }
    }

    /// Lets a call pass, waits until it may, or refuses it.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if it is turned away, and whatever the handler says.
    pub(crate) fn pass(
        &self,
        context: &Context,
        handler: impl FnOnce(&Context) -> Result<(), Status>,
    ) -> Result<(), Status> {
        match self {
            Self::Lifo(lifo) => {
                let _turn = lifo.turn(context)?;
                handler(context)
            }
            Self::Gradient(limit) => {
                let under_way = limit.enter()?;
                let done = handler(context);
                under_way.end(done.is_ok());
                done
            }
        }
    }
}

fn turned_away(why: &'static str) -> Status {
    Status::new(Code::ResourceExhausted, why)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Few at work, and a queue before them.
pub(crate) struct Lifo(Mutex<Queue>);

struct Queue {
    waiting: CodelLifo<Promise<Option<Turn>>>,
    at_work: usize,
}

/// The right to be at work. Whoever has it gives it up by dropping it, and the next one's turn comes.
pub(crate) struct Turn(Arc<Lifo>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.pass_on(clock::now());
    }
}

impl Lifo {
    fn new(rule: CodelLifoRule) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Queue { waiting: CodelLifo::new(rule), at_work: 0 })))
    }

    /// Waits for one's turn.
    fn turn(self: &Arc<Self>, context: &Context) -> Result<Turn, Status> {
        let now = clock::now();
        self.turn_away_late(now);
        let (place, awaited) = {
            let mut queue = lock(&self.0);
            if queue.at_work < AT_WORK && queue.waiting.is_empty() {
                queue.at_work += 1;
                return Ok(Turn(Arc::clone(self)));
            }
            let (given, awaited) = promise();
            (queue.waiting.push(now, given), awaited)
        };
        match awaited.wait(context) {
            Ok(turn) => turn.ok_or_else(|| turned_away("it has waited for too long in a queue that stands")),
            Err(status) => {
                // If its turn has come meanwhile, that is dropped with the promise, and the next one's comes.
                drop(lock(&self.0).waiting.remove(clock::now(), place));
                Err(status)
            }
        }
    }

    /// One is done: the next one's turn comes, if one waits.
    fn pass_on(self: &Arc<Self>, now: Time) {
        self.turn_away_late(now);
        let next = {
            let mut queue = lock(&self.0);
            let next = queue.waiting.pop(now);
            queue.at_work -= usize::from(next.is_none());
            next
        };
        // Not under the lock: if nobody waits for it any more, the turn is dropped here, and passed on.
        if let Some(next) = next {
            next.keep(Some(Turn(Arc::clone(self))));
        }
    }

    fn turn_away_late(&self, now: Time) {
        loop {
            let Some(late) = lock(&self.0).waiting.take_late(now) else { return };
            late.keep(None);
        }
    }
}

/// A limit on how many are under way.
pub(crate) struct Limit(Mutex<Counted>);

struct Counted {
    limit: Gradient,
    under_way: usize,
}

/// A call that was let in.
struct UnderWay<'a> {
    limit: &'a Limit,
    since: Time,
    /// How many were under way when it came, itself included.
    among: usize,
    answered: bool,
}

impl Limit {
    fn new() -> Self {
        Self(Mutex::new(Counted { limit: Gradient::new(), under_way: 0 }))
    }

    fn enter(&self) -> Result<UnderWay<'_>, Status> {
        let mut counted = lock(&self.0);
        if counted.under_way >= counted.limit.limit() {
            return Err(turned_away("as many are under way as the limit allows"));
        }
        counted.under_way += 1;
        Ok(UnderWay { limit: self, since: clock::now(), among: counted.under_way, answered: false })
    }
}

impl UnderWay<'_> {
    /// It has ended; what wasn't answered tells nothing of how long answers take.
    fn end(mut self, answered: bool) {
        self.answered = answered;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut counted = lock(&self.limit.0);
        counted.under_way -= 1;
        if self.answered {
            counted.limit.observe(clock::now().since(self.since), self.among);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn few_are_at_work_and_the_others_turns_come_as_these_end() {
        let lifo = Lifo::new(CodelLifoRule { interval: MINUTE, ..CodelLifoRule::default() });
        let context = Context::with_deadline(MINUTE);
        let turns: Vec<Turn> = (0..AT_WORK).map(|_| lifo.turn(&context).unwrap()).collect();
        let served = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let turn = lifo.turn(&context).unwrap();
                    assert!(lock(&lifo.0).at_work <= AT_WORK);
                    served.fetch_add(1, Ordering::Relaxed);
                    drop(turn);
                });
            }
            drop(turns);
        });
        let queue = lock(&lifo.0);
        assert_eq!((served.into_inner(), queue.at_work, queue.waiting.len()), (8, 0, 0));
    }

    #[test]
    fn who_gives_up_leaves_the_queue_and_takes_nobodys_turn() {
        let lifo = Lifo::new(CodelLifoRule::default());
        let turns: Vec<Turn> = (0..AT_WORK).map(|_| lifo.turn(&Context::with_deadline(MINUTE)).unwrap()).collect();
        let late = lifo.turn(&Context::with_deadline(Duration::from_millis(1))).err().unwrap();
        assert_eq!((late.code, lock(&lifo.0).waiting.len()), (Code::DeadlineExceeded, 0));
        drop(turns);
        assert_eq!(lock(&lifo.0).at_work, 0);
    }

    #[test]
    fn who_has_waited_for_too_long_is_turned_away_by_who_comes() {
        let lifo = Lifo::new(CodelLifoRule { interval: Duration::ZERO, target: Duration::ZERO, forms_at: 1 });
        let context = Context::with_deadline(MINUTE);
        let turns: Vec<Turn> = (0..AT_WORK).map(|_| lifo.turn(&context).unwrap()).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lifo.turn(&context).err().map(|status| status.code));
            while lock(&lifo.0).waiting.is_empty() && !waiting.is_finished() {
                std::thread::yield_now();
            }
            lifo.turn_away_late(clock::now());
            assert_eq!(waiting.join().unwrap(), Some(Code::ResourceExhausted));
        });
        drop(turns);
    }

    #[test]
    fn beyond_the_limit_calls_are_refused_until_others_end() {
        let limit = Limit::new();
        let most = lock(&limit.0).limit.limit();
        let under_way: Vec<_> = (0..most).map(|_| limit.enter().unwrap()).collect();
        assert_eq!(limit.enter().err().map(|status| status.code), Some(Code::ResourceExhausted));
        under_way.into_iter().for_each(|call| call.end(false));
        assert!(limit.enter().is_ok());
        assert_eq!(lock(&limit.0).under_way, 0);
    }
}
