//! Has what the server goes by read again when its files change, by a thread that serves nobody.

use crate::authorize::Authorize;
use greenwave_verbs::TlsServer;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The thread. It ends with this.
pub(super) struct Refresher {
    /// `None` once it is to end.
    ask: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refresher {
    /// Starts the thread, if there is anything that it would have to do.
    pub(super) fn start(authorizers: Vec<Arc<dyn Authorize>>, tls: Option<TlsServer>) -> io::Result<Option<Self>> {
        if authorizers.is_empty() && tls.is_none() {
            return Ok(None);
        }
        let (ask, asked) = channel();
        let thread = std::thread::Builder::new().name("greenwave-refresh".to_owned());
        let thread = thread.spawn(move || {
            loop {
                match asked.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {}
                    // Otherwise certificates have a thread of their own, that of the process.
                    Ok(()) => {
                        let _ = catch_unwind(AssertUnwindSafe(|| tls.iter().for_each(TlsServer::refresh)));
                    }
                }
                for authorizer in &authorizers {
                    // One that panics must not keep the others from being read again. What it said is in the log.
                    let _ = catch_unwind(AssertUnwindSafe(|| authorizer.refresh()));
                }
            }
        })?;
        Ok(Some(Self { ask: Some(ask), thread: Some(thread) }))
    }

    /// Has it look at once.
    pub(super) fn refresh(&self) {
        if let Some(ask) = &self.ask {
            // A thread that is gone has panicked, which was said where it did.
            let _ = ask.send(());
        }
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
