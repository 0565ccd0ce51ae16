//! A connection that makes calls, by whichever protocol.

use super::behaviour::{Behaviour, Io};
use super::calls::Calls;
use crate::case::Case;
use crate::mix::Units;

/// How calls are made.
pub(super) trait Protocol: Send {
    /// Adds what is said first.
    fn greet(&self, out: &mut Vec<u8>);

    /// Takes the whole frames of what came, and says how many bytes that was.
    fn take(&mut self, came: &[u8], calls: &Calls, io: &mut Io<'_>) -> usize;

    /// Whether the server has said what it takes.
    fn is_greeted(&self) -> bool;

    /// Sends all that there is leave for.
    fn send(&mut self, calls: &mut Calls, io: &mut Io<'_>);
}

/// A connection that makes the calls of a case.
pub(super) struct Caller<P> {
    protocol: P,
    calls: Calls,
    said: bool,
    /// The beginning of a frame whose rest hasn't come.
    partial: Vec<u8>,
}

impl<P: Protocol> Caller<P> {
    pub(super) fn new(protocol: P, case: Case, units: Units) -> Self {
        Self { protocol, calls: Calls::new(case, units), said: false, partial: Vec::new() }
    }

    fn send(&mut self, io: &mut Io<'_>) {
        if self.protocol.is_greeted() {
            self.protocol.send(&mut self.calls, io);
        }
    }
}

impl<P: Protocol> Behaviour for Caller<P> {
    fn go(&mut self, came: &[u8], io: &mut Io<'_>) {
        if !self.said {
            self.said = true;
            self.protocol.greet(io.out);
        }
        self.partial.extend_from_slice(came);
        let taken = self.protocol.take(&self.partial, &self.calls, io);
        self.partial.drain(..taken);
        self.send(io);
    }

    fn visit(&mut self, io: &mut Io<'_>) {
        self.calls.visit();
        self.send(io);
    }

    fn reads(&self) -> bool {
        self.calls.reads(self.protocol.is_greeted())
    }
}
