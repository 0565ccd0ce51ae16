//! Receipts as bytes of a REPLY.
//!
//! `omitted: varint`, then one entry a stage up to the end: `depth: u8`, `status: u8` (bit 7: a branch follows),
//! `name_len: u8`, the name, `[branch: u16]`, then `sent_after`, `network`, `queue`, `service` and `total` as
//! varints of nanoseconds. A varint is LEB128 in its shortest form: seven bits a byte, least significant first, bit 7
//! set on all but the last. No stages and none omitted are no bytes at all.

use std::time::Duration;

use super::{Receipt, STAGES_MOST, StageReceipt};
use crate::status::Code;
use crate::wire::{NameError, RECEIPT_BYTES_MOST, ReplyHeader, StageName, nanos};

/// Depth, status, the length of an empty name, five varints.
const ENTRY_LEAST: usize = 8;

const HAS_BRANCH: u8 = 1 << 7;

/// Why bytes are not receipts. The reply that carried them stands; only where its time went stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("receipts, byte {at}: {problem}")]
pub struct ReceiptError {
    /// The byte at which the offending field begins.
    pub at: usize,
    /// What is wrong with it.
    pub problem: ReceiptProblem,
}

/// What is wrong with a field of receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptProblem {
    /// The bytes end within an entry.
    #[error("they end within a field")]
    Short,
    /// More bytes than a REPLY may carry.
    #[error("there are {found} bytes, expected at most {RECEIPT_BYTES_MOST}")]
    TooLong {
        /// How many.
        found: usize,
    },
    /// More stages than a receipt lists.
    #[error("there are more than {STAGES_MOST} stages")]
    TooManyStages,
    /// Neither a stage nor an omission: that would be no bytes at all.
    #[error("they list nothing, expected no bytes for that")]
    Nothing,
    /// A number that does not fit, or is not in its shortest form.
    #[error("the number is not a varint of 64 bits in its shortest form")]
    Varint,
    /// A count of omitted stages that does not fit in 32 bits.
    #[error("{found} stages are said to be omitted, expected fewer than 2^32")]
    Omitted {
        /// The count.
        found: u64,
    },
    /// A stage that is deeper than its predecessor by more than one is nobody's child.
    #[error("the depth is {found}, expected at most {most}: one more than that of the stage before")]
    Depth {
        /// The depth.
        found: u8,
        /// The most it could be here.
        most: u8,
    },
    /// No status has this number.
    #[error("the status is {found}, expected 0 to 16")]
    UnknownStatus {
        /// The number.
        found: u8,
    },
    /// A name that is not a stage's.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Receipt {
    /// The receipt in a REPLY.
    pub fn decode(header: &ReplyHeader, receipts: &[u8]) -> Result<Self, ReceiptError> {
        let (children, omitted) = decode_stages(receipts)?;
        Ok(Self { queue: header.queue, service: header.service, total: header.total, children, omitted })
    }

    /// Appends the stages to `out`, in at most `room` bytes, and says how many bytes those are. What doesn't fit,
    /// in `room` or in [`STAGES_MOST`], is counted as omitted: the slowest branches stay, see [`Receipt::trim`].
    ///
    /// What the callee itself spent is not among them: it has fields of its own in the REPLY.
    pub fn encode_stages(&self, room: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let room = room.min(RECEIPT_BYTES_MOST);
        if self.fits(room) {
            self.append(out);
        } else {
            let mut trimmed = self.clone();
            trimmed.trim(STAGES_MOST, room);
            if trimmed.fits(room) {
                trimmed.append(out);
            }
        }
        out.len() - start
    }

    fn fits(&self, room: usize) -> bool {
        self.children.len() <= STAGES_MOST && self.encoded_len() <= room
    }

    fn encoded_len(&self) -> usize {
        match (self.children.as_slice(), self.omitted) {
            ([], 0) => 0,
            (stages, omitted) => {
                varint_len(omitted.into()) + stages.iter().map(StageReceipt::encoded_len).sum::<usize>()
            }
        }
    }

    fn append(&self, out: &mut Vec<u8>) {
        if self.encoded_len() == 0 {
            return;
        }
        push_varint(self.omitted.into(), out);
        for stage in &self.children {
            stage.append(out);
        }
    }
}

impl StageReceipt {
    pub(super) fn encoded_len(&self) -> usize {
        let branch = if self.branch.is_some() { 2 } else { 0 };
        let spans = self.spans().map(|span| varint_len(nanos(span)));
        3 + self.stage.as_bytes().len() + branch + spans.iter().sum::<usize>()
    }

    fn spans(&self) -> [Duration; 5] {
        [self.sent_after, self.network, self.queue, self.service, self.total]
    }

    fn append(&self, out: &mut Vec<u8>) {
        let branch = if self.branch.is_some() { HAS_BRANCH } else { 0 };
        let name = self.stage.as_bytes();
        out.extend_from_slice(&[self.depth, self.status.as_u8() | branch, name.len() as u8]);
        out.extend_from_slice(name);
        if let Some(branch) = self.branch {
            out.extend_from_slice(&branch.to_le_bytes());
        }
        for span in self.spans() {
            push_varint(nanos(span), out);
        }
    }

    fn decode(from: &mut Cursor<'_>, deepest: u8) -> Result<Self, ReceiptError> {
        let at = from.at;
        let depth = from.byte()?;
        if depth > deepest {
            return Err(ReceiptError { at, problem: ReceiptProblem::Depth { found: depth, most: deepest } });
        }
        let at = from.at;
        let status = from.byte()?;
        let found = status & !HAS_BRANCH;
        let Some(code) = Code::from_u8(found) else {
            return Err(ReceiptError { at, problem: ReceiptProblem::UnknownStatus { found } });
        };
        let name_len = usize::from(from.byte()?);
        let at = from.at;
        let stage = StageName::from_bytes(from.take(name_len)?)
            .map_err(|error| ReceiptError { at, problem: ReceiptProblem::Name(error) })?;
        let branch = if status & HAS_BRANCH == 0 { None } else { Some(from.u16()?) };
        Ok(Self {
            stage,
            branch,
            depth,
            sent_after: from.span()?,
            network: from.span()?,
            queue: from.span()?,
            service: from.span()?,
            total: from.span()?,
            status: code,
        })
    }
}

/// The stages in these bytes, and how many were omitted.
///
/// Memory is taken for as many stages as the bytes can hold, never for what a field claims.
pub fn decode_stages(bytes: &[u8]) -> Result<(Vec<StageReceipt>, u32), ReceiptError> {
    if bytes.is_empty() {
        return Ok((Vec::new(), 0));
    }
    if bytes.len() > RECEIPT_BYTES_MOST {
        return Err(ReceiptError { at: 0, problem: ReceiptProblem::TooLong { found: bytes.len() } });
    }
    let mut from = Cursor { bytes, at: 0 };
    let found = from.varint()?;
    let omitted =
        u32::try_from(found).map_err(|_| ReceiptError { at: 0, problem: ReceiptProblem::Omitted { found } })?;
    let mut stages: Vec<StageReceipt> = Vec::with_capacity((bytes.len() / ENTRY_LEAST).min(STAGES_MOST));
    while from.at < bytes.len() {
        if stages.len() == STAGES_MOST {
            return Err(ReceiptError { at: from.at, problem: ReceiptProblem::TooManyStages });
        }
        let deepest = stages.last().map_or(0, |before| before.depth + 1);
        stages.push(StageReceipt::decode(&mut from, deepest)?);
    }
    if stages.is_empty() && omitted == 0 {
        return Err(ReceiptError { at: 0, problem: ReceiptProblem::Nothing });
    }
    Ok((stages, omitted))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ReceiptError> {
        let short = ReceiptError { at: self.at, problem: ReceiptProblem::Short };
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count)).ok_or(short)?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ReceiptError> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, ReceiptError> {
        let bytes = self.take(2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn span(&mut self) -> Result<Duration, ReceiptError> {
        self.varint().map(Duration::from_nanos)
    }

    fn varint(&mut self) -> Result<u64, ReceiptError> {
        let wrong = ReceiptError { at: self.at, problem: ReceiptProblem::Varint };
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(wrong);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // A last byte of zero adds nothing: there is a shorter form.
                return if byte == 0 && shift > 0 { Err(wrong) } else { Ok(value) };
            }
        }
        Err(wrong)
    }
}

fn varint_len(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
pub(super) mod tests;
