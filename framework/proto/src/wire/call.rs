//! CALL: a request, with the deadline field and the first part of its message.

use std::time::Duration;

use greenwave_policy::{Budget, Deadline, DeadlineField, Time};

use super::fields::{bytes_at, put, u16_at, u32_at, u64_at};
use super::head::nanos;
use super::header::{ABSOLUTE, CALL_OFFSET, HAS_META, Header, PARALLEL_UNIT, STREAM, put_header};
use super::{CallId, Head, Kind, META_BYTES_MOST, MethodId, Problem, Realtime, WireError};

const METHOD_OFFSET: usize = 8;

/// Where the budget that is left stands (i64, nanoseconds).
pub const BUDGET_OFFSET: usize = 16;

/// Where the time since the request's birth stands (u64, nanoseconds).
pub const ELAPSED_OFFSET: usize = 24;

const MESSAGE_OFFSET: usize = 32;
const META_OFFSET: usize = 36;
const RESERVED_OFFSET: usize = 38;

/// Bytes of a CALL's fixed part.
pub const CALL_FIXED: usize = 40;

const EXPIRES_BYTES: usize = 8;

/// What a CALL states before its metadata and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// The number that the caller gave it.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// The method called.
    pub method: MethodId,
    /// What will be left of the expected deadline when the frame arrives, by the caller's estimate of the way, and
    /// whether the request is a branch of a parallel unit. `Budget::UNLIMITED` without a deadline.
    pub deadline: DeadlineField,
    /// The time since the request's birth, at the first client, likewise on arrival.
    pub elapsed: Duration,
    /// Bytes of the whole message, of which this frame holds the first part.
    pub message_len: u32,
    /// Bytes of the metadata, which are whole in this frame.
    pub meta_len: u16,
    /// When the deadline passes, on the realtime clock: where both peers offered
    /// [`ABSOLUTE_DEADLINE`](super::Features::ABSOLUTE_DEADLINE).
    pub expires: Option<Realtime>,
    /// Whether request and answer are streams. The CALL itself has no message then.
    pub streams: bool,
}

impl CallHeader {
    /// The head to send before the metadata and the body. Patch what changes until the last write with
    /// [`Head::set_credits`] and [`Head::set_time`].
    pub fn encode(&self) -> Head {
        let fixed = self.fixed(self.deadline.budget.as_nanos(), nanos(self.elapsed));
        match self.expires {
            None => Head::of(&[&fixed]),
            Some(expires) => Head::of(&[&fixed, &expires.as_nanos().to_le_bytes()]),
        }
    }

    /// The head of a CALL without an expiry, with *dates* in place of what is left and what has passed: [`stamp`] turns
    /// them into times at the last write.
    #[inline(always)]
    pub(crate) fn dated(&self, deadline: Deadline, birth: Time) -> [u8; CALL_FIXED] {
        debug_assert!(self.expires.is_none(), "the line has no room for one");
        self.fixed(deadline.budget(Time::ZERO).as_nanos(), birth.as_nanos())
    }

    #[inline(always)]
    fn fixed(&self, budget: i64, elapsed: u64) -> [u8; CALL_FIXED] {
        let parallel_unit = if self.deadline.parallel_unit { PARALLEL_UNIT } else { 0 };
        let has_meta = if self.meta_len != 0 { HAS_META } else { 0 };
        let absolute = if self.expires.is_some() { ABSOLUTE } else { 0 };
        let stream = if self.streams { STREAM } else { 0 };
        let flags = parallel_unit | has_meta | absolute | stream;
        let mut fixed = [0; CALL_FIXED];
        put_header(&mut fixed, Kind::Call, flags, self.credits, Some(self.call));
        put(&mut fixed, METHOD_OFFSET, self.method.as_u64().to_le_bytes());
        put(&mut fixed, BUDGET_OFFSET, budget.to_le_bytes());
        put(&mut fixed, ELAPSED_OFFSET, elapsed.to_le_bytes());
        put(&mut fixed, MESSAGE_OFFSET, self.message_len.to_le_bytes());
        put(&mut fixed, META_OFFSET, self.meta_len.to_le_bytes());
        fixed
    }
}

/// Turns the [dates](CallHeader::dated) in a CALL into times as of its `arrival`, whose `age` is the time since the clock's
/// origin. Which call it is; `None`: not one, so it stays as it is.
#[inline(always)]
pub(crate) fn stamp(fixed: &mut [u8; CALL_FIXED], arrival: Time, age: Duration) -> Option<CallId> {
    if fixed[0] != Kind::Call as u8 {
        return None;
    }
    let date = Budget::from_nanos(i64::from_le_bytes(bytes_at(fixed, BUDGET_OFFSET)));
    let elapsed = arrival.as_nanos().saturating_sub(u64_at(fixed, ELAPSED_OFFSET));
    put(fixed, BUDGET_OFFSET, date.after_wire(age).as_nanos().to_le_bytes());
    put(fixed, ELAPSED_OFFSET, elapsed.to_le_bytes());
    CallId::new(u32_at(fixed, CALL_OFFSET))
}

/// A CALL as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// What it states.
    pub header: CallHeader,
    /// The metadata, of `meta_len` bytes: see [`Meta`](super::Meta).
    pub meta: &'a [u8],
    /// The first part of the message: at most `message_len` bytes. DATA frames bring the rest.
    pub body: &'a [u8],
}

impl<'a> Call<'a> {
    #[inline(always)]
    pub(crate) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let Some((fixed, rest)) = chunk.split_first_chunk::<CALL_FIXED>() else {
            return Err(WireError::short(Some(Kind::Call), CALL_FIXED, chunk.len()));
        };
        let head = Header::of(fixed);
        let call = head.about_a_call(Kind::Call, PARALLEL_UNIT | HAS_META | ABSOLUTE | STREAM)?;
        let message_len = u32_at(fixed, MESSAGE_OFFSET);
        let meta_len = u16_at(fixed, META_OFFSET);
        let reserved = u16_at(fixed, RESERVED_OFFSET);
        let has_meta = head.flags & HAS_META != 0;
        if reserved != 0 || has_meta != (meta_len != 0) || usize::from(meta_len) > META_BYTES_MOST {
            return Err(wrong_fixed_part(has_meta, meta_len, reserved));
        }
        if head.flags & STREAM != 0 && message_len != 0 {
            return Err(WireError::at(
                Some(Kind::Call),
                MESSAGE_OFFSET,
                Problem::MessageOfStream { found: message_len },
            ));
        }
        let (expires, rest) = expiry(head.flags, rest)?;
        let Some((meta, body)) = rest.split_at_checked(usize::from(meta_len)) else {
            let needed = chunk.len() - rest.len() + usize::from(meta_len);
            return Err(WireError::short(Some(Kind::Call), needed, chunk.len()));
        };
        if body.len() > message_len as usize {
            let problem = Problem::BeyondMessage { part: body.len(), message: message_len };
            return Err(WireError::at(Some(Kind::Call), chunk.len() - body.len(), problem));
        }
        let header = CallHeader {
            call,
            credits: head.credits,
            method: MethodId::from_u64(u64_at(fixed, METHOD_OFFSET)),
            deadline: DeadlineField {
                budget: Budget::from_nanos(i64::from_le_bytes(bytes_at(fixed, BUDGET_OFFSET))),
                parallel_unit: head.flags & PARALLEL_UNIT != 0,
            },
            elapsed: Duration::from_nanos(u64_at(fixed, ELAPSED_OFFSET)),
            message_len,
            meta_len,
            expires,
            streams: head.flags & STREAM != 0,
        };
        Ok(Self { header, meta, body })
    }
}

/// The expiry, if the flags announce one, and what follows it.
#[inline(always)]
fn expiry(flags: u8, rest: &[u8]) -> Result<(Option<Realtime>, &[u8]), WireError> {
    if flags & ABSOLUTE == 0 {
        return Ok((None, rest));
    }
    match rest.split_first_chunk() {
        Some((&nanos, rest)) => Ok((Some(Realtime::from_nanos(u64::from_le_bytes(nanos))), rest)),
        None => Err(WireError::short(Some(Kind::Call), CALL_FIXED + EXPIRES_BYTES, CALL_FIXED + rest.len())),
    }
}

#[cold]
fn wrong_fixed_part(has_meta: bool, meta_len: u16, reserved: u16) -> WireError {
    if has_meta != (meta_len != 0) {
        WireError::at(Some(Kind::Call), META_OFFSET, Problem::FlagAgainstLength { len: meta_len })
    } else if usize::from(meta_len) > META_BYTES_MOST {
        WireError::at(Some(Kind::Call), META_OFFSET, Problem::MetaTooLong { found: meta_len })
    } else {
        WireError::at(Some(Kind::Call), RESERVED_OFFSET, Problem::Reserved { found: reserved.into() })
    }
}
