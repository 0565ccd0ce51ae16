//! Short messages that are as good as posted.
//!
//! Most messages are short, find nothing waiting before them, and there are credits for them. Which of such goes first
//! makes no difference that anybody could measure, as all leave with the next write. So they wait in a queue of their own,
//! first in, first out, encoded as they will be sent, and are posted together by one copy. Only what isn't known before is
//! written into them then: the credits given back, and the time that is left.

use super::{Link, Queue};
use crate::transport::{PREFIX, Transport, chunks};
use crate::wire::{self, CALL_FIXED, CREDITS_OFFSET, Call, CallId};
use greenwave_policy::Time;

/// Encoded messages, the one that came first in front.
///
/// 1. `bytes` are `count` chunks of one message each, as in [`Transport::post_run`]. Each begins with the fixed part of a CALL or of a
///    REPLY, which are of the same length.
/// 2. A CALL has *dates* where its times will stand, until it is [stamped](ShortQueue::stamp).
/// 3. With `is_stuck` there was no room for all of it.
#[derive(Default)]
pub(super) struct ShortQueue {
    bytes: Vec<u8>,
    count: u32,
    pub(super) is_stuck: bool,
}

/// Length of the fixed part of a message's first chunk.
pub(super) const FIXED: usize = CALL_FIXED;

const _: () = assert!(FIXED == wire::REPLY_FIXED);

/// Bytes of the body and what precedes it up to which a message is short.
pub(super) const SHORT: usize = 1024;

/// The queue isn't longer than this, in bytes: about what a socket takes at once.
const MOST: usize = 64 << 10;

impl Link {
    /// Whether a message with so many bytes beside the fixed part of its head may go into the [short queue](Self::queue_short).
    #[inline]
    pub(in crate::connection) fn may_queue_short(&self, len: usize) -> bool {
        // Nothing in the queue may be passed over for ever.
        let is_short = self.short_most.is_some_and(|short| len <= short);
        is_short && self.waiting == 0 && self.short_queue.is_open(self.credits.available())
    }

    /// Adds a message, whole in one chunk, to those that leave next. It [may](Self::may_queue_short).
    #[inline]
    pub(in crate::connection) fn queue_short(&mut self, fixed: &[u8; FIXED], extra: &[u8], body: &[u8]) -> Queue {
        self.short_queue.push(fixed, extra, body);
        Queue::Short
    }

    /// Memory for the short queue, if it has none.
    #[inline]
    pub fn lend(&mut self, memory: impl FnOnce() -> Vec<u8>) {
        if self.short_queue.bytes.capacity() == 0 {
            self.short_queue.bytes = memory();
        }
    }

    /// The memory of the short queue, unless something waits in it: an idle connection holds none.
    #[inline]
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        let is_idle = self.short_queue.is_empty() && self.short_queue.bytes.capacity() > 0;
        is_idle.then(|| std::mem::take(&mut self.short_queue.bytes))
    }

    /// Posts what waits in the short queue, as far as there is room.
    pub(super) fn transmit_short<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        begun: &mut impl FnMut(CallId),
    ) -> Result<(), T::Error> {
        let room = transport.room();
        self.short_queue.is_stuck = room == 0;
        if room == 0 {
            return Ok(());
        }
        let (len, count) = self.short_queue.within(room.saturating_sub(transport.chunk_bytes()));
        let credits = self.returned();
        self.short_queue.give_back(credits);
        if !self.serves {
            self.short_queue.stamp(len, now + self.forward.estimate(), &mut *begun);
        }
        self.credits.take_for(count as u32);
        self.chunks += count as u64;
        let sent = transport.post_run(self.short_queue.run(len), count);
        self.short_queue.shift(len, count);
        self.short_queue.is_stuck = !self.short_queue.is_empty();
        sent
    }
}

impl ShortQueue {
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a further message may be added, with credits for `credits` in all.
    #[inline]
    pub(super) fn is_open(&self, credits: u32) -> bool {
        self.count < credits && self.bytes.len() < MOST && !self.is_stuck
    }

    /// Adds a message.
    #[inline(always)]
    pub(super) fn push(&mut self, fixed: &[u8; FIXED], extra: &[u8], body: &[u8]) {
        let len = FIXED + extra.len() + body.len();
        self.bytes.reserve(PREFIX + len);
        self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
        self.bytes.extend_from_slice(fixed);
        if !extra.is_empty() {
            self.bytes.extend_from_slice(extra);
        }
        self.bytes.extend_from_slice(body);
        self.count += 1;
    }

    /// How many bytes, of how many messages, may be posted where there is `room` for so many and one chunk more.
    #[inline]
    pub(super) fn within(&self, room: usize) -> (usize, usize) {
        if self.bytes.len() <= room { (self.bytes.len(), self.count()) } else { self.part_within(room) }
    }

    #[cold]
    fn part_within(&self, room: usize) -> (usize, usize) {
        let (mut len, mut count) = (0, 0);
        for chunk in chunks(&self.bytes) {
            if len > room {
                break;
            }
            (len, count) = (len + PREFIX + chunk.len(), count + 1);
        }
        (len, count)
    }

    /// States with the first message how many receive buffers are given back.
    #[inline]
    pub(super) fn give_back(&mut self, credits: u16) {
        if let Some(front) = self.bytes.first_chunk_mut::<{ PREFIX + FIXED }>() {
            front[PREFIX + CREDITS_OFFSET..][..2].copy_from_slice(&credits.to_le_bytes());
        }
    }

    /// Turns the dates of the CALLs in the first `len` bytes into times, as of their arrival, and says which they are.
    #[inline]
    pub(super) fn stamp(&mut self, len: usize, arrival: Time, mut begun: impl FnMut(CallId)) {
        let age = arrival.since(Time::ZERO);
        let mut rest = &mut self.bytes[..len];
        while let Some((front, after)) = rest.split_first_chunk_mut::<{ PREFIX + FIXED }>() {
            let (prefix, fixed) = front.split_at_mut(PREFIX);
            let (Ok(prefix), Ok(fixed)) = (<[u8; PREFIX]>::try_from(&*prefix), <&mut [u8; FIXED]>::try_from(fixed))
            else {
                return;
            };
            if let Some(call) = wire::stamp(fixed, arrival, age) {
                begun(call);
            }
            let follows = (u32::from_le_bytes(prefix) as usize).saturating_sub(FIXED);
            let Some(after) = after.get_mut(follows..) else { return };
            rest = after;
        }
    }

    /// The messages in the first `len` bytes.
    #[inline]
    pub(super) fn run(&self, len: usize) -> &[u8] {
        &self.bytes[..len]
    }

    /// Drops the messages in the first `len` bytes.
    #[inline]
    pub(super) fn shift(&mut self, len: usize, count: usize) {
        if len == self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..len);
        }
        self.count -= count as u32;
    }

    /// Takes out the CALLs that are `over`; each and its body go to `removed`. One pass over all.
    pub(super) fn remove(&mut self, over: impl Fn(CallId) -> bool, mut removed: impl FnMut(CallId, &[u8])) {
        let (mut kept, mut at) = (0, 0);
        while at < self.bytes.len() {
            let Some(chunk) = chunks(&self.bytes[at..]).next() else { break };
            let next = at + PREFIX + chunk.len();
            if let Some(call) = Call::parse(chunk).ok().filter(|call| over(call.header.call)) {
                removed(call.header.call, call.body);
                self.count -= 1;
            } else {
                self.bytes.copy_within(at..next, kept);
                kept += next - at;
            }
            at = next;
        }
        self.bytes.truncate(kept);
        self.is_stuck &= !self.is_empty();
    }

    /// Panics unless the invariants hold.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        let run = || chunks(&self.bytes);
        assert_eq!(run().count(), self.count());
        assert_eq!(run().map(|chunk| PREFIX + chunk.len()).sum::<usize>(), self.bytes.len());
        assert!(run().all(|chunk| (FIXED..=FIXED + SHORT).contains(&chunk.len())));
        assert!(self.bytes.len() <= MOST + PREFIX + FIXED + SHORT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{call_in, request::Request, request::Terms};
    use crate::wire::{Frame, MethodId};
    use greenwave_policy::Budget;
    use std::time::Duration;

    const BORN: Time = Time::from_nanos(1000);

    /// Queues a CALL in each of these slots, born then and expected within so many nanoseconds.
    fn queue_of(expected: &[Budget]) -> ShortQueue {
        let mut queue = ShortQueue::default();
        for (slot, budget) in expected.iter().enumerate() {
            let terms = Terms::born(BORN, *budget);
            let (deadline, birth) = (terms.gate.deadline(), terms.birth());
            let request = Request { token: slot, terms, method: MethodId::of("any"), started: BORN };
            let body = vec![slot as u8; slot];
            queue.push(&request.header(call_in(slot, 1), body.len()).dated(deadline, birth), &[], &body);
            queue.check();
        }
        queue
    }

    fn calls(queue: &ShortQueue) -> Vec<Call<'_>> {
        let (len, _) = queue.within(usize::MAX);
        let calls = chunks(queue.run(len)).map(|chunk| match Frame::parse(chunk, false) {
            Ok(Frame::Call(call)) => call,
            other => panic!("{other:?}"),
        });
        calls.collect()
    }

    fn removed(queue: &mut ShortQueue, over: &[CallId]) -> Vec<(CallId, Vec<u8>)> {
        let mut removed = Vec::new();
        queue.remove(|call| over.contains(&call), |call, body| removed.push((call, body.to_vec())));
        removed
    }

    #[test]
    fn what_is_left_is_stated_as_of_the_arrival() {
        let mut queue = queue_of(&[Budget::from_nanos(500), Budget::from_nanos(80), Budget::UNLIMITED]);
        let (len, _) = queue.within(usize::MAX);
        let mut begun = Vec::new();
        queue.stamp(len, BORN + Duration::from_nanos(100), |call| begun.push(call));
        queue.give_back(7);
        let times = calls(&queue).into_iter().map(|call| (call.header.deadline.budget.as_nanos(), call.header.elapsed));
        let elapsed = Duration::from_nanos(100);
        assert_eq!(times.collect::<Vec<_>>(), [(400, elapsed), (-20, elapsed), (i64::MAX, elapsed)]);
        assert_eq!(begun, [0, 1, 2].map(|slot| call_in(slot, 1)));
        assert_eq!(calls(&queue).iter().map(|call| call.header.credits).collect::<Vec<_>>(), [7, 0, 0]);
    }

    #[test]
    fn what_finds_no_room_stays_in_order() {
        let mut queue = queue_of(&[Budget::UNLIMITED; 5]);
        // All but the last have to lie within it.
        let (len, count) = queue.within(2 * (PREFIX + FIXED) + 1);
        assert_eq!((len, count), (3 * (PREFIX + FIXED) + 3, 3));
        queue.shift(len, count);
        queue.check();
        assert_eq!(calls(&queue).iter().map(|call| call.body.len()).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_call_that_is_withdrawn_leaves_the_others() {
        let mut queue = queue_of(&[Budget::UNLIMITED; 4]);
        assert_eq!(removed(&mut queue, &[call_in(2, 1)]), [(call_in(2, 1), vec![2; 2])]);
        assert_eq!(removed(&mut queue, &[call_in(2, 1)]), []);
        queue.check();
        assert_eq!(calls(&queue).iter().map(|call| call.body.len()).collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn calls_that_are_withdrawn_together_leave_the_others() {
        let mut queue = queue_of(&[Budget::UNLIMITED; 6]);
        let over = [0, 3, 4].map(|slot| call_in(slot, 1));
        assert_eq!(removed(&mut queue, &over), [0, 3, 4].map(|slot| (call_in(slot, 1), vec![slot as u8; slot])));
        assert_eq!(removed(&mut queue, &over), []);
        queue.check();
        assert_eq!(calls(&queue).iter().map(|call| call.body.len()).collect::<Vec<_>>(), [1, 2, 5]);
    }
}
