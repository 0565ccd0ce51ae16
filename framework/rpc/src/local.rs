//! Between a coroutine and the head that runs it: what the coroutine asks for, and what comes back.
//!
//! Both live on one thread, and a coroutine only runs while its head waits in `resume`. So the protocol is a mailbox:
//! 1. the coroutine puts [`Command`]s into the thread's [`Mailbox`] and suspends;
//! 2. the head, back from `resume`, carries them out;
//! 3. completions are stored in the [`OutcomeCell`]s that the coroutine holds, and the head resumes it when enough of
//!    them are there, or when the time that it named has come.
//!
//! No borrow of the mailbox lives across a suspension, and a handler may be suspended anywhere when its quantum ends. So
//! it touches what it shares with the head (the mailbox, the cells, their counts) in critical sections alone, none of
//! which suspends. What one handler has put into the mailbox is taken out when it is left, in whatever way, and is back
//! when it goes on: commands are carried out when it suspends by itself, which is when it has said all of them.

use crate::clock::monotonic;
use crate::net::Route;
use crate::receipt::{Receipt, StageReceipt};
use crate::waiter::Waiter;
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_proto::Context;
use greenwave_proto::outcome::Outcome;
use greenwave_quanta::critical;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

mod shared;

pub(crate) use shared::Shared;

thread_local! {
    static MAILBOX: RefCell<Option<Shared<Mailbox>>> = const { RefCell::new(None) };
}

/// How long a handler may run before [`give_way`] looks whether somebody else should.
const SLICE: Duration = Duration::from_micros(50);

/// What a coroutine asks of its head.
pub(crate) enum Command {
    /// Send a call; its outcome goes into the cell.
    Start(Box<Start>),
    /// Nobody waits for this call any more.
    Abandon(Shared<OutcomeCell>),
    /// Resume me when this many more calls have completed, or at that time.
    Sleep { completions: usize, until: Option<Time> },
    /// Resume me when this promise is kept or broken, or at that time.
    Await { promise: Arc<dyn Pending>, until: Time },
    /// Count what my request takes once it is decompressed.
    Hold(Shared<Hold>),
    /// Resume me when it is my turn.
    GiveWay,
}

/// What a handler waits for and another thread brings about, as the head sees it.
pub(crate) trait Pending: Send + Sync {
    /// Has this waiter woken when it is there; false if it was, or if nobody waits any more.
    fn register(&self, waiter: Waiter) -> bool;
}

/// A call to be sent.
pub(crate) struct Start {
    pub(crate) route: Arc<Route>,
    pub(crate) context: Context,
    pub(crate) method: MethodId,
    pub(crate) body: Vec<u8>,
    pub(crate) cell: Shared<OutcomeCell>,
}

/// How many bytes a request takes, and whether there is room for them.
pub(crate) struct Hold {
    pub(crate) bytes: usize,
    /// `Err`: for so many more.
    pub(crate) granted: Cell<Result<(), usize>>,
}

/// Where a call's outcome is put for the coroutine that waits for it.
#[derive(Default)]
pub(crate) struct OutcomeCell {
    pub(crate) outcome: RefCell<Option<Outcome>>,
    /// The head's name for the call while it is under way.
    pub(crate) token: Cell<Option<usize>>,
}

impl OutcomeCell {
    /// The outcome, if it is there and wasn't taken before.
    pub(crate) fn take(&self) -> Option<Outcome> {
        critical(|| self.outcome.take())
    }
}

/// One head's mailbox.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(crate) commands: RefCell<Vec<Command>>,
    /// What the running coroutine's calls have brought back so far, for its own receipt.
    pub(crate) behind: Cell<Option<Box<Receipt>>>,
    /// When the running coroutine's task came in and when it was resumed last.
    pub(crate) received: Cell<Time>,
    pub(crate) resumed: Cell<Time>,
    /// Whether the coroutines' stacks have no room to compress messages and decompress them.
    pub(crate) is_cramped: Cell<bool>,
}

impl Shared<Mailbox> {
    /// Makes this the mailbox of the calling thread until the guard is dropped.
    pub(crate) fn install(&self) -> Installed {
        Installed(MAILBOX.replace(Some(self.clone())))
    }
}

/// Puts the former mailbox back.
pub(crate) struct Installed(Option<Shared<Mailbox>>);

impl Drop for Installed {
    fn drop(&mut self) {
        MAILBOX.set(self.0.take());
    }
}

/// The mailbox of the head that runs the calling coroutine; `None` outside of handlers.
pub(crate) fn mailbox() -> Option<Shared<Mailbox>> {
    if !greenwave_quanta::in_coroutine() {
        return None;
    }
    critical(|| MAILBOX.with_borrow(Clone::clone))
}

impl Mailbox {
    /// Asks for a call to be sent and returns at once; it leaves with the next suspension.
    pub(crate) fn start(
        &self,
        route: &Arc<Route>,
        context: Context,
        method: MethodId,
        body: Vec<u8>,
    ) -> Shared<OutcomeCell> {
        let cell = Shared::<OutcomeCell>::default();
        let start = Start { route: Arc::clone(route), context, method, body, cell: cell.clone() };
        self.ask(Command::Start(Box::new(start)));
        cell
    }

    /// Waits for `completions` calls more, at most until `until`. May return early: the caller looks at its cells.
    pub(crate) fn sleep(&self, completions: usize, until: Option<Time>) {
        self.ask(Command::Sleep { completions, until });
        greenwave_quanta::yield_now();
    }

    /// Waits for a promise, at most until `until`. May return early: the caller looks at the promise.
    pub(crate) fn wait_for(&self, promise: Arc<dyn Pending>, until: Time) {
        self.ask(Command::Await { promise, until });
        greenwave_quanta::yield_now();
    }

    /// When the running coroutine was resumed last, by its head's clock.
    pub(crate) fn resumed(&self) -> Time {
        self.resumed.get()
    }

    /// Says that nobody waits for a call any more.
    pub(crate) fn abandon(&self, cell: Shared<OutcomeCell>) {
        self.ask(Command::Abandon(cell));
    }

    /// Keeps what a completed call reports of itself and of the stages behind it.
    pub(crate) fn record(&self, call: StageReceipt, behind: &Receipt) {
        critical(|| {
            let mut receipt = self.behind.take().unwrap_or_default();
            receipt.add(call, behind);
            self.behind.set(Some(receipt));
        });
    }

    fn ask(&self, command: Command) {
        critical(|| self.commands.borrow_mut().push(command));
    }
}

/// Has the head count what the request of the calling handler takes from now on, in bytes; `Err`: there is room for so many
/// more. Outside of handlers nobody counts.
pub(crate) fn hold(bytes: usize) -> Result<(), usize> {
    let Some(mailbox) = mailbox() else { return Ok(()) };
    let hold = Shared::new(Hold { bytes, granted: Cell::new(Ok(())) });
    mailbox.ask(Command::Hold(hold.clone()));
    greenwave_quanta::yield_now();
    hold.granted.get()
}

/// Whether the calling coroutine's stack has no room to compress messages and decompress them.
pub(crate) fn is_cramped() -> bool {
    mailbox().is_some_and(|mailbox| mailbox.is_cramped.get())
}

/// Lets somebody more urgent run, if the calling handler has run for a while.
pub(crate) fn give_way() {
    let Some(mailbox) = mailbox() else { return };
    if monotonic().since(mailbox.resumed.get()) < SLICE {
        return;
    }
    mailbox.ask(Command::GiveWay);
    greenwave_quanta::yield_now();
}
