//! Which calls an attack consists of.

use std::time::Duration;

use greenwave_bench::arrivals::Seeded;

use crate::case::Case;
use crate::mix::Units;
use crate::work::{self, Kernel, ORDER};

/// A call that is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) kernel: Kernel,
    pub(super) deadline: Option<Duration>,
    /// Bytes of its message.
    pub(super) length: u32,
    order: [u8; ORDER],
}

/// The calls of a connection.
pub(super) struct Calls {
    case: Case,
    units: Units,
    /// How many calls may be made, where that isn't as many as possible.
    leave: u64,
    made: u64,
    filling: Vec<u8>,
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// The longest message that the servers take.
const BULK: u32 = (16 << 20) - 1024;
/// What a hog's calls take, and the deadlines that they claim.
const HOGGED: Duration = us(500);
const CLAIMED: (usize, usize) = (1000, 5000);
/// One in so many of a poisoner's calls takes longer than it has, so that of all calls of the method, those of others
/// included, more are late than the one in a hundred that a server puts up with.
const LATE_ONE_IN: u64 = 20;
const LATE: (Duration, Duration) = (us(15_000), us(10_000));
/// The others are as those of clients that behave.
const IN_TIME: (Duration, Duration) = (us(100), us(100_000));

/// What is filled in for messages.
const FILLING: usize = 16 << 10;

impl Calls {
    pub(super) fn new(case: Case, units: Units) -> Self {
        Self { case, units, leave: 0, made: 0, filling: vec![7; FILLING] }
    }

    /// How many may be under way on a connection.
    pub(super) fn at_once(&self) -> u32 {
        match self.case {
            Case::Bulk => 8,
            Case::Connections => 1,
            _ => 1024,
        }
    }

    /// Whether it keeps to credits, windows and numbers of streams.
    pub(super) fn has_manners(&self) -> bool {
        self.case != Case::FloodUncredited
    }

    /// Whether it reads on after it has read what the server says of itself.
    pub(super) fn reads(&self, is_greeted: bool) -> bool {
        self.case != Case::Unread || !is_greeted
    }

    /// A poisoner makes a call with each visit.
    pub(super) fn visit(&mut self) {
        self.leave = 1;
    }

    /// The next call, if there is one for now.
    pub(super) fn next(&mut self, random: &mut Seeded) -> Option<Asked> {
        let row = random_row(random);
        let of = |kernel, work, deadline| {
            let order = work::order(row, self.units.amount(kernel, work));
            Asked { kernel, deadline, length: ORDER as u32, order }
        };
        let asked = match self.case {
            Case::Bulk => Asked { length: BULK, ..of(Kernel::Digest, Duration::ZERO, None) },
            Case::Hog => {
                let claimed = us((CLAIMED.0 + (self.made as usize * 487) % (CLAIMED.1 - CLAIMED.0)) as u64);
                of(Kernel::Scan, HOGGED, Some(claimed))
            }
            Case::Poisoner => {
                self.leave = self.leave.checked_sub(1)?;
                let (work, deadline) = if self.made % LATE_ONE_IN == LATE_ONE_IN - 1 { LATE } else { IN_TIME };
                of(Kernel::Scan, work, Some(deadline))
            }
            Case::Unread => of(Kernel::Large, Duration::ZERO, None),
            // Introducing itself is all that it does.
            Case::Connections | Case::Silent | Case::SlowLoris | Case::HandshakeStorm => return None,
            Case::Flood | Case::FloodUncredited | Case::Reset => of(Kernel::Get, Duration::ZERO, None),
        };
        self.made += 1;
        Some(asked)
    }

    /// A part of a call's message.
    pub(super) fn body(&mut self, asked: Asked, from: u32, bytes: u32) -> &[u8] {
        if asked.length as usize == ORDER {
            self.filling[..ORDER].copy_from_slice(&asked.order);
            return &self.filling[from as usize..ORDER.min((from + bytes) as usize)];
        }
        &self.filling[..bytes as usize]
    }
}

fn random_row(random: &mut Seeded) -> u32 {
    random.below(20_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { look_up_ns: 50.0, row_ns: 50.0 };

    fn calls(case: Case, count: usize) -> Vec<Asked> {
        let (mut calls, mut random) = (Calls::new(case, UNITS), Seeded::new(1));
        let mut next = || {
            calls.visit();
            calls.next(&mut random)
        };
        (0..count).map_while(|_| next()).collect()
    }

    #[test]
    fn a_hog_claims_tight_deadlines() {
        let deadlines = calls(Case::Hog, 1000).into_iter().map(|asked| asked.deadline.unwrap());
        let (least, most) = (deadlines.clone().min().unwrap(), deadlines.max().unwrap());
        assert!(least >= us(1000) && most <= us(5000) && least < most, "{least:?} {most:?}");
    }

    #[test]
    fn some_of_a_poisoners_calls_take_longer_than_they_have() {
        let asked = calls(Case::Poisoner, 100);
        let late = asked.iter().filter(|asked| asked.deadline == Some(LATE.1)).count();
        assert_eq!((asked.len(), late), (100, 5));
        const { assert!(LATE.0.as_micros() > LATE.1.as_micros()) }
    }

    #[test]
    fn bulk_is_as_long_as_a_message_may_be() {
        let longest = greenwave::Limits::new().most_message_bytes();
        assert!(calls(Case::Bulk, 1)[0].length as usize <= longest);
        assert!(calls(Case::Connections, 1).is_empty(), "these have nothing to say");
    }
}
