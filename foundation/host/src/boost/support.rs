//! Whether the kernel lets a thread have a slice of its own: asked of a thread that was made for it.

use std::io;
use std::time::Duration;

use rustix::thread::gettid;

use super::Error;
use super::attributes::Attributes;
use super::slice::Slice;

/// What the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The slice of threads that have none of their own.
    pub default: Duration,
}

impl Offered {
    /// Whether a slice is the kernel's own.
    pub(super) fn is_default(self, nanos: u64) -> bool {
        u128::from(nanos) == self.default.as_nanos()
    }
}

/// Whether threads can have slices of their own, and which they have otherwise. Changes no thread but one of its own,
/// which ends with the call. Needs no privilege.
///
/// # Errors
/// [`Error::Unsupported`] with what was seen.
pub fn offered() -> Result<Offered, Error> {
    let unsupported = |found: String| Error::Unsupported { found };
    let thread = std::thread::Builder::new().name("slice-probe".into());
    let tried = thread.spawn(tried).map_err(|error| unsupported(format!("no thread to try it with: {error}")))?;
    match tried.join() {
        Ok(Ok(Tried { default, set, read })) if set == read && default > 0 => {
            Ok(Offered { default: Duration::from_nanos(default) })
        }
        Ok(Ok(Tried { set, read, .. })) => Err(unsupported(format!("{set} ns were set, {read} ns are read back"))),
        Ok(Err(error)) => Err(unsupported(format!("setting it is refused: {error}"))),
        Err(_) => Err(unsupported("the thread to try it with ended".into())),
    }
}

struct Tried {
    default: u64,
    set: u64,
    read: u64,
}

/// Tries it on the thread that it runs on.
fn tried() -> io::Result<Tried> {
    let me = gettid();
    let mine = Attributes::of(me)?.usual();
    mine.with_slice(0).apply(me)?;
    let default = Attributes::of(me)?.slice();
    // Neither the kernel's own nor one that it would come to by itself.
    let set = Slice::SHORTEST.nanos() + if default == Slice::SHORTEST.nanos() + 7 { 11 } else { 7 };
    mine.with_slice(set).apply(me)?;
    Ok(Tried { default, set, read: Attributes::of(me)?.slice() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_leaves_the_slice_of_who_asks_as_it_was() {
        let before = Attributes::of(gettid()).unwrap().slice();
        let _supported_or_not = offered();
        assert_eq!(Attributes::of(gettid()).unwrap().slice(), before);
    }
}
