//! A connection's tag follows what it sends; see [`Marking`].
//!
//! The bucket is that of small flows, except that it is charged for long messages alone: here it is known where one
//! message ends and the next begins, so a caller of many small ones needn't be taken for a large flow.

use crate::sending::Marking;
use crate::transport::Transport;
use greenwave_policy::flow::{Bucket, Pace};
use greenwave_policy::{Band, FlowRule, Time};

/// The tag of a connection that is tagged.
pub(super) struct Tagging {
    small: u8,
    large: u8,
    pace: Pace,
    bucket: Bucket,
    band: Band,
}

impl Tagging {
    /// `None`: nothing is tagged.
    pub(super) fn new(marking: Marking) -> Option<Box<Self>> {
        let Marking::Bands { small, large } = marking else { return None };
        let pace = FlowRule::default().pace().ok()?;
        Some(Box::new(Self { small, large, pace, bucket: Bucket::default(), band: Band::Small }))
    }

    /// A connection begins, small. Whether it may be tagged.
    pub(super) fn begin(&self, transport: &mut impl Transport) -> bool {
        transport.tag(self.small)
    }

    /// A chunk with so many bytes of a long message is posted.
    pub(super) fn charge(&mut self, now: Time, transport: &mut impl Transport, bytes: usize) {
        let band = self.bucket.charge(&self.pace, now, bytes as u64);
        if band == Band::Large && self.band == Band::Small {
            self.band = band;
            transport.tag(self.large);
        }
    }

    /// There is nothing long to be sent; now, or it would be charged.
    pub(super) fn relax(&mut self, now: Time, transport: &mut impl Transport) {
        if self.band == Band::Large
            && self.bucket.band(&self.pace, now) == Band::Small
            && transport.acknowledged().is_none_or(|acknowledged| acknowledged.all)
        {
            self.band = Band::Small;
            transport.tag(self.small);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use std::time::Duration;

    #[test]
    fn a_connection_is_large_while_it_sends_much_and_small_again_when_its_debt_is_paid() {
        let mut transport = Memory::default();
        let mut tagging = Tagging::new(Marking::RECOMMENDED).unwrap();
        let mut now = Time::from_nanos(1_000_000_000);
        tagging.charge(now, &mut transport, 10_000);
        assert_eq!(tagging.band, Band::Small, "a bucket holds 30 KB");
        (0..100).for_each(|_| tagging.charge(now, &mut transport, 16 << 10));
        assert_eq!(tagging.band, Band::Large);
        now = now + Duration::from_millis(1);
        tagging.relax(now, &mut transport);
        assert_eq!(tagging.band, Band::Large, "it owes for what it sent");
        now = now + Duration::from_secs(1);
        tagging.relax(now, &mut transport);
        assert_eq!(tagging.band, Band::Small);
        assert!(Tagging::new(Marking::Off).is_none());
    }
}
