//! What is kept of a long command that is interrupted.

use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::problem::Problem;

/// Has SIGINT and SIGTERM show what was done by then, and end the command with 130. `show` is called once at most, for what is
/// there then, and says how far it went. Whoever has taken `done` shows it himself, and isn't interrupted while he holds the lock.
///
/// # Errors
/// When signals can't be listened to.
pub(crate) fn keep<T: Send + 'static>(
    done: &Arc<Mutex<Option<T>>>,
    show: impl FnOnce(T) -> (Result<(), Problem>, String) + Send + 'static,
) -> Result<(), Problem> {
    let refused = |error| Problem::failure(format_args!("signals can't be listened to: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
    let done = done.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_none() {
                return;
            }
            // Kept until the end, so that nothing is shown twice.
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(done) = done.take() {
                let (shown, told) = show(done);
                if let Err(problem) = shown {
                    tell!("{problem}");
                }
                tell!("interrupted; {told}");
            }
            std::process::exit(130);
        })
        .map_err(|error| Problem::failure(format_args!("no thread for signals: {error}")))?;
    Ok(())
}
