//! What a worker tells others while it works, for the price of a store each turn.
//!
//! 1. `counts` is [`Counts`] in one word, so that a reader sees both numbers of the same moment. It changes at the end of
//!    every turn: a turn adds to the quanta served, or to the jobs finished. So it is the worker's pulse, too.
//! 2. The name of the job that has its turn lies in two words under a sequence lock: `version` is odd while they are
//!    written. The writer makes it odd, passes a Release fence, writes, and stores the next even number with Release. A
//!    reader loads it with Acquire, reads, passes an Acquire fence, and believes what it read if the version is even and
//!    still the same. Only then are the words a string again.

use crate::scheduler::Counts;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Padded, fence};
use std::ptr;

pub(crate) struct Published {
    counts: Padded<AtomicU64>,
    name: Padded<Name>,
}

struct Name {
    version: AtomicU32,
    address: AtomicUsize,
    length: AtomicUsize,
}

impl Published {
    pub(crate) fn new() -> Self {
        let name = Name { version: AtomicU32::new(0), address: AtomicUsize::new(0), length: AtomicUsize::new(0) };
        Self { counts: Padded(AtomicU64::new(0)), name: Padded(name) }
    }

    /// The worker's step at the end of a turn.
    #[inline]
    pub(crate) fn publish(&self, counts: Counts) {
        let word = u64::from(counts.finished) << 32 | u64::from(counts.served);
        self.counts.0.store(word, Ordering::Relaxed);
    }

    /// Anybody's step.
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        let word = self.counts.0.load(Ordering::Relaxed);
        Counts { finished: (word >> 32) as u32, served: word as u32 }
    }

    /// The worker's step before the turn of a job with another name.
    pub(crate) fn rename(&self, name: &'static str) {
        let Name { version, address, length } = &self.name.0;
        let next = version.load(Ordering::Relaxed).wrapping_add(2);
        version.store(next.wrapping_sub(1), Ordering::Relaxed);
        fence(Ordering::Release);
        address.store(name.as_ptr().expose_provenance(), Ordering::Relaxed);
        length.store(name.len(), Ordering::Relaxed);
        version.store(next, Ordering::Release);
    }

    /// Anybody's step: the name of the job that has its turn, "" if it has none or is changing.
    pub(crate) fn name(&self) -> &'static str {
        let Name { version, address, length } = &self.name.0;
        let before = version.load(Ordering::Acquire);
        let (at, bytes) = (address.load(Ordering::Relaxed), length.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if before % 2 == 1 || version.load(Ordering::Relaxed) != before || at == 0 {
            return "";
        }
        // SAFETY: by 2 both words are of the same `&'static str`, whose address was exposed.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(ptr::with_exposed_provenance(at), bytes)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_and_names_come_out_as_they_were_published() {
        let published = Published::new();
        assert_eq!((published.counts(), published.name()), (Counts::default(), ""));
        let counts = Counts { finished: u32::MAX, served: 7 };
        published.publish(counts);
        published.rename("resize");
        assert_eq!((published.counts(), published.name()), (counts, "resize"));
    }
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn a_name_is_read_whole_or_not_at_all() {
        loom::model(|| {
            let published = Arc::new(Published::new());
            let writer = published.clone();
            let renames = loom::thread::spawn(move || {
                writer.rename("a");
                writer.rename("longer");
            });
            assert!(["", "a", "longer"].contains(&published.name()));
            renames.join().unwrap();
            assert_eq!(published.name(), "longer");
        });
    }
}
