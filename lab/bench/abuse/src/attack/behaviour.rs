//! What a connection of the attacker's does, and what is counted of all of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A connection's way to behave. It is asked when the connection is there, when something came, when all that it had to send
/// was taken, and every so often.
pub(super) trait Behaviour: Send {
    /// Takes what came, and adds what is to be sent.
    fn go(&mut self, came: &[u8], io: &mut Io<'_>);

    /// It's that time again.
    fn visit(&mut self, _io: &mut Io<'_>) {}

    /// Whether it reads at all.
    fn reads(&self) -> bool {
        true
    }
}

/// What a connection has to do with.
pub(super) struct Io<'a> {
    /// What is to be sent.
    pub(super) out: &'a mut Vec<u8>,
    /// Set by who has had enough: the connection is reset, and another opened.
    pub(super) leaves: bool,
    pub(super) tallies: &'a Tallies,
}

/// A connection is asked for no more while so much waits to be sent.
pub(super) const MOST_OUT: usize = 64 << 10;

impl Io<'_> {
    /// Whether there is room for something more to send.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < MOST_OUT
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What all connections did so far.
        #[derive(Debug, Default)]
        pub(super) struct Tallies {
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        impl Tallies {
            /// Names and values.
            pub(super) fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.load(Relaxed)),)*].into_iter()
            }
        }
    };
}

tallies! {
    /// Connections that came about.
    opened,
    /// Those that are open.
    open,
    /// The most that were open at a time.
    most_open,
    /// Connections that the server closed.
    closed,
    /// Attempts to connect that failed.
    failed,
    /// Calls that were made.
    calls,
    /// Calls that ended, in whatever way.
    ended,
    /// Handshakes of TLS that were finished.
    handshakes,
    /// Bytes that the sockets took.
    bytes,
}

/// Counts.
pub(super) fn add(tally: &AtomicU64, count: u64) {
    // One thread counts, others read.
    tally.store(tally.load(Relaxed).wrapping_add(count), Relaxed);
}
