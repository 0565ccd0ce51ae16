//! How many turns a job takes that nobody waits behind: as many as quanta pass, or fewer if its owner wants to see to nothing
//! else meanwhile.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example turns
//! ```

use greenwave_policy::{Order, ReadyQueue, Span, Time, Urgency};
use greenwave_quanta::scheduler::{Event, Turn};
use greenwave_quanta::{Clock, Quantum, Scheduler, StackSize, is_instrumented};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

/// An owner with nothing else to do for so long at a time.
struct Owner {
    clock: Clock,
    quiet: Duration,
    turns: u32,
}

impl Turn for Owner {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn ran(&mut self, _now: Time, _span: Span) -> bool {
        self.turns += 1;
        true
    }

    fn quiet_for(&mut self, _now: Time) -> Duration {
        self.quiet
    }
}

/// The turns of a job beside another, which has more left to do.
fn turns(quiet: Duration) -> u32 {
    let mut owner = Owner { clock: Clock::new(), quiet, turns: 0 };
    let mut jobs = Scheduler::new(ReadyQueue::new(Order::Guarded), Quantum::DEFAULT, StackSize::default(), 2);
    let now = owner.now();
    let work = |here| Urgency { arrived: now, birth: now, here, ..Urgency::default() };
    for seconds in [1, 10] {
        jobs.add(now, work(Duration::from_secs(seconds)), seconds, || {
            (0..30_000_000_u64).for_each(|number| _ = black_box(number));
        });
    }
    let Some((id, _)) = jobs.next(now) else { return 0 };
    assert_eq!(jobs.key(id), 1, "the shorter one is first");
    let event = jobs.run(now, id, &mut owner);
    assert!(matches!(event, Event::Finished(_)), "{event:?}");
    owner.turns
}

fn main() -> ExitCode {
    let [each, at_once] = [Duration::ZERO, Duration::from_millis(1)].map(turns);
    println!("instrumented={} turns of a quantum: {each}, of what is quiet: {at_once}", is_instrumented());
    if each > 8 * at_once { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
