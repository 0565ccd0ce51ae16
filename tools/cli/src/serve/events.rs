//! What a serving process reacts to: signals, its standard input, and what its children do.
//!
//! The first SIGTERM or SIGINT asks for a gentle end, a second one ends the process at once. A process that was
//! started by another follows its standard input: the line `drain` asks for a gentle end, and the end of the input
//! says that the other one is gone, however that came about. Then nobody waits for what is unfinished.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::problem::Problem;

/// How a process is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// How long what was accepted may take to be finished.
    pub(super) limit: Duration,
    /// Whether standard input decides, too.
    pub(super) follow_stdin: bool,
}

/// Something to react to.
#[derive(Debug)]
pub(super) enum Event {
    /// Finish what was accepted, then end.
    Drain,
    /// End now.
    Stop,
    /// A child printed a line on standard output.
    Told { child: usize, line: String },
    /// A child printed a line on standard error.
    Said { child: usize, line: String },
    /// A child closed its standard output, as it does when it ends.
    Closed { child: usize },
}

/// The word on standard input that asks for a gentle end.
pub(super) const DRAIN: &str = "drain";

/// Begins to listen for signals, and to standard input if that decides, too.
///
/// # Errors
/// When the system refuses.
pub(super) fn listen(ending: Ending) -> Result<(Sender<Event>, Receiver<Event>), Problem> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| refused("signals", &error))?;
    let told = sender.clone();
    spawn("signals", move || {
        let mut signals = signals.forever();
        if signals.next().is_some() && told.send(Event::Drain).is_ok() {
            let Some(signal) = signals.next() else { return };
            tell!("a second signal: ending now, whatever is unfinished");
            end(signal);
        }
        // Nobody is there any more to finish anything.
        end(SIGTERM);
    })?;
    if ending.follow_stdin {
        let told = sender.clone();
        spawn("stdin", move || {
            let mut lines = io::stdin().lock().lines();
            if lines.any(|line| line.is_ok_and(|line| line == DRAIN)) {
                let _ended_anyway = told.send(Event::Drain);
                lines.for_each(drop);
                // Whoever started this process has ended meanwhile, and doesn't wait for what is unfinished.
                end(SIGTERM);
            }
            let _ended_anyway = told.send(Event::Stop);
        })?;
    }
    Ok((sender, receiver))
}

/// Ends the process at once. Nothing is cleaned up: other threads still use what that would take away.
fn end(signal: i32) -> ! {
    signal_hook::low_level::exit(128 + signal)
}

/// Starts a thread that lives as long as the process.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| refused("threads", &error))
}

fn refused(what: &str, error: &io::Error) -> Problem {
    Problem::failure(format!("the system refuses {what}: {error}"))
}
