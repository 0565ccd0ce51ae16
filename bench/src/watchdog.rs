//! An end for what doesn't end by itself.

use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Ends the process if it isn't dropped in time: a server that stops answering would otherwise be waited for for ever.
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Watches something that is called `what` and should take no longer than `limit`.
    #[must_use]
    pub fn start(what: String, limit: Duration) -> Self {
        let (alive, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what} didn't end within {limit:?}; run it alone to see why");
                process::exit(2);
            }
        });
        Self { _alive: alive }
    }
}
