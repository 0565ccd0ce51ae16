//! What goes between replicas in one call: some messages, or a piece of a snapshot.
//!
//! Both begin with a [`Header`], whose numbers are little-endian: `group: u128`, `from: u64`, `incarnation: u128`,
//! `since: u64`, `to: u64`, and `meant: u128`, zero if it isn't known. A frame of messages goes on with each message's
//! length as `u32` and the message. A piece goes on with `offset: u64`, `last: u8` (0 or 1), the snapshot's message
//! with its length as `u32`, and the bytes.

use crate::door::Header;
use crate::{GroupId, Incarnation, Index, Message, MessageError, MessageKind, NodeId};
use bytes::{Buf, BufMut, Bytes};

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the snapshot its bytes begin.
    pub offset: u64,
    /// Whether it is the last one.
    pub last: bool,
    /// The message that goes with the snapshot; its metadata name it.
    pub message: Message,
    /// The bytes.
    pub bytes: Bytes,
}

/// Why bytes aren't what a replica sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// They end early, or a value can't be.
    #[error("a frame of {found} bytes can't be read at byte {at}")]
    Unreadable {
        /// Bytes there are.
        found: usize,
        /// Where it went wrong.
        at: usize,
    },
    /// A message in it can't be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A piece of a snapshot came with a message of another kind.
    #[error("a piece of a snapshot came with another kind of message")]
    NoSnapshot,
}

/// Begins a frame.
pub fn begin(header: &Header, out: &mut Vec<u8>) {
    out.put_u128_le(header.group.bits());
    out.put_u64_le(header.from.number());
    out.put_u128_le(header.incarnation.bits());
    out.put_u64_le(header.since.0);
    out.put_u64_le(header.to.number());
    out.put_u128_le(header.meant.map_or(0, Incarnation::bits));
}

/// Appends a message to a frame that was begun. Messages have less than 2^32 bytes; the core's limits are below that.
pub fn push(message: &Message, out: &mut Vec<u8>) {
    let at = out.len();
    out.put_u32_le(0);
    message.encode(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads a frame of messages.
///
/// # Errors
/// It is something else.
pub fn read(mut frame: Bytes) -> Result<(Header, Vec<Message>), FrameError> {
    let found = frame.len();
    let header = header(&mut frame).ok_or(FrameError::Unreadable { found, at: 0 })?;
    let mut messages = Vec::new();
    while frame.has_remaining() {
        let at = found - frame.len();
        let message = part(&mut frame).ok_or(FrameError::Unreadable { found, at })?;
        messages.push(Message::decode(message)?);
    }
    Ok((header, messages))
}

/// Writes a piece of a snapshot.
pub fn write_piece(header: &Header, piece: &Piece, out: &mut Vec<u8>) {
    begin(header, out);
    out.put_u64_le(piece.offset);
    out.put_u8(piece.last.into());
    push(&piece.message, out);
    out.extend_from_slice(&piece.bytes);
}

/// Reads a piece of a snapshot.
///
/// # Errors
/// It is something else.
pub fn read_piece(mut frame: Bytes) -> Result<(Header, Piece), FrameError> {
    let found = frame.len();
    let parse = |frame: &mut Bytes| {
        let header = header(frame)?;
        let offset = frame.try_get_u64_le().ok()?;
        let last = match frame.try_get_u8().ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some((header, offset, last, part(frame)?))
    };
    let Some((header, offset, last, message)) = parse(&mut frame) else {
        return Err(FrameError::Unreadable { found, at: found - frame.len() });
    };
    let message = Message::decode(message)?;
    if message.kind != MessageKind::Snapshot {
        return Err(FrameError::NoSnapshot);
    }
    Ok((header, Piece { offset, last, message, bytes: frame }))
}

/// Who a frame says that it is from.
pub(super) fn sender(frame: &Bytes) -> Option<(NodeId, Incarnation)> {
    header(&mut frame.clone()).map(|header| (header.from, header.incarnation))
}

fn header(frame: &mut Bytes) -> Option<Header> {
    Some(Header {
        group: GroupId::of_bits(frame.try_get_u128_le().ok()?),
        from: NodeId::new(frame.try_get_u64_le().ok()?)?,
        incarnation: Incarnation::of_bits(frame.try_get_u128_le().ok()?)?,
        since: Index(frame.try_get_u64_le().ok()?),
        to: NodeId::new(frame.try_get_u64_le().ok()?)?,
        meant: Incarnation::of_bits(frame.try_get_u128_le().ok()?),
    })
}

fn part(frame: &mut Bytes) -> Option<Bytes> {
    let length = frame.try_get_u32_le().ok()? as usize;
    (length <= frame.len()).then(|| frame.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Membership, Peer, SnapshotMeta, Term};
    use proptest::prelude::*;

    const HEADER: Header = Header {
        group: GroupId::of_bits(7),
        from: NodeId::new(3).expect("not zero"),
        incarnation: Incarnation::of_bits(30).expect("not zero"),
        since: Index(5),
        to: NodeId::new(1).expect("not zero"),
        meant: Incarnation::of_bits(10),
    };

    fn messages() -> Vec<Message> {
        let mut snapshot = Message::new(MessageKind::Snapshot, Term(4));
        let peer = Peer::new(HEADER.from, "tcp://127.0.0.1:1");
        let membership = Membership::of_voters([peer]).expect("one voter");
        snapshot.snapshot = Some(SnapshotMeta { index: Index(9), term: Term(4), membership });
        vec![Message::new(MessageKind::Heartbeat, Term(3)), Message::new(MessageKind::Vote, Term(4)), snapshot]
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut frame = Vec::new();
        begin(&HEADER, &mut frame);
        messages().iter().for_each(|message| push(message, &mut frame));
        assert_eq!(read(frame.into()), Ok((HEADER, messages())));

        let [heartbeat, _, message] = messages().try_into().expect("three");
        let piece = Piece { offset: 5, last: true, message, bytes: Bytes::from_static(b"state") };
        let mut frame = Vec::new();
        write_piece(&HEADER, &piece, &mut frame);
        assert_eq!(read_piece(frame.into()), Ok((HEADER, piece.clone())));
        let mut frame = Vec::new();
        write_piece(&HEADER, &Piece { message: heartbeat, ..piece }, &mut frame);
        assert_eq!(read_piece(frame.into()), Err(FrameError::NoSnapshot));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_or_read(
            spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut frame = Vec::new();
            begin(&HEADER, &mut frame);
            messages().iter().for_each(|message| push(message, &mut frame));
            for (at, byte) in spoiled {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame.truncate(cut.index(frame.len() + 1));
            if let Ok((header, messages)) = read(frame.clone().into()) {
                let mut again = Vec::new();
                begin(&header, &mut again);
                messages.iter().for_each(|message| push(message, &mut again));
                prop_assert_eq!(again, frame.clone());
            }
            let _ = read_piece(frame.into());
        }
    }
}
