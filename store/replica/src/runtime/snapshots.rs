//! The thread that writes snapshots to disk, the replica's own and those that come from the leader; and the sending.
//!
//! One file is written at a time. A snapshot that comes in takes precedence: while its pieces come, none of our own is
//! taken, unless the sender has been silent for long. A sender waits for the answer to each piece, so that neither end
//! holds more than one.

use super::access::Sent;
use super::entrance::Entrance;
use super::frame::{self, Piece};
use super::inbox::{Inbox, now};
use super::stored::meta_to_log;
use super::{Event, greeter};
use crate::applier::SnapshotView;
use crate::door::Header;
use crate::log::{RealDisk, SnapshotError, SnapshotWriter, Snapshots};
use crate::{GroupId, Message, NodeId};
use bytes::Bytes;
use greenwave_policy::Time;
use greenwave_rpc::{Channel, Code, Context, MethodId, Promise, Status};
use std::io::Read;
use std::time::Duration;

/// The method that takes a piece of a snapshot.
pub(super) const SNAPSHOT: &str = "greenwave.Replica/Snapshot";

/// Bytes of a piece.
const PIECE: usize = 256 << 10;

/// How long one piece may take, with the other end's disk in it.
const PIECE_TIME: Duration = Duration::from_secs(20);

/// After so long without a piece, a sender is taken to be gone.
const SILENCE: Duration = Duration::from_secs(30);

/// What the thread is asked to do.
pub(super) enum SnapshotJob {
    Take(SnapshotView),
    Piece { from: NodeId, group: GroupId, piece: Piece, done: Promise<Result<(), Status>> },
}

/// A snapshot that is coming in.
struct Incoming {
    from: NodeId,
    message: Message,
    writer: SnapshotWriter<RealDisk>,
    bytes: u64,
    last_heard: Time,
}

/// Writes until the inbox is closed.
pub(super) fn run(snapshots: &Snapshots<RealDisk>, jobs: &Inbox<SnapshotJob>, events: &Inbox<Event>) {
    let (mut taken, mut incoming) = (Vec::new(), None);
    loop {
        jobs.take(&mut taken, None);
        if taken.is_empty() && jobs.is_closed() {
            return;
        }
        for job in taken.drain(..) {
            match job {
                SnapshotJob::Take(view) => {
                    incoming = incoming.filter(|other: &Incoming| now().since(other.last_heard) < SILENCE);
                    let event = if incoming.is_some() { Event::SnapshotFailed } else { take(snapshots, view) };
                    let _ = events.push(event);
                }
                SnapshotJob::Piece { from, group, piece, done } => {
                    let outcome = receive(snapshots, &mut incoming, (from, group), piece, events);
                    if outcome.is_err() {
                        incoming = None;
                    }
                    done.keep(outcome);
                }
            }
        }
    }
}

/// Sends a snapshot and then its message, piece by piece; says how it went.
pub(super) fn send(
    snapshots: &Snapshots<RealDisk>,
    channel: &Channel,
    entrance: &Entrance,
    header: &Header,
    message: &Message,
    events: &Inbox<Event>,
) {
    let peer = header.to;
    let sent = send_all(snapshots, channel, entrance, header, message);
    if let Err(why) = &sent {
        tracing::warn!(%peer, why, "a snapshot couldn't be sent; it is tried again");
    }
    let _ = events.push(Event::SnapshotSent { peer, ok: sent.is_ok() });
}

fn send_all(
    snapshots: &Snapshots<RealDisk>,
    channel: &Channel,
    entrance: &Entrance,
    header: &Header,
    message: &Message,
) -> Result<(), String> {
    let meta = message.snapshot.as_ref().ok_or("a message without a snapshot")?;
    let mut reader = snapshots.read(meta.index.0, meta.term.0).map_err(|error| error.to_string())?;
    let mut sealing = None;
    if entrance.seals().are_needed() {
        (_, sealing) = greeter::greet(&Context::with_deadline(PIECE_TIME), channel, entrance, header.to)?;
    }
    let mut offset = 0;
    loop {
        let mut bytes = Vec::with_capacity(PIECE);
        reader.by_ref().take(PIECE as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let last = bytes.len() < PIECE;
        let length = bytes.len() as u64;
        let piece = Piece { offset, last, message: message.clone(), bytes: Bytes::from(bytes) };
        let mut frame = Vec::with_capacity(PIECE + 1024);
        frame::write_piece(header, &piece, &mut frame);
        if let Some(sealing) = &mut sealing {
            sealing.seal(Sent::Piece, &mut frame);
        }
        let context = Context::with_deadline(PIECE_TIME);
        channel.call(&context, MethodId::of(SNAPSHOT), &frame).map_err(|status| status.to_string())?;
        offset += length;
        if last {
            return Ok(());
        }
    }
}

fn take(snapshots: &Snapshots<RealDisk>, mut view: SnapshotView) -> Event {
    let write = |view: &mut SnapshotView| {
        let mut writer = snapshots.create(meta_to_log(&view.meta)).map_err(|error| error.to_string())?;
        view.write(&mut writer).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())
    };
    match write(&mut view) {
        Ok(_) => Event::SnapshotReady(view.meta),
        Err(why) => {
            tracing::warn!(why, "a snapshot couldn't be written; it is tried again later");
            Event::SnapshotFailed
        }
    }
}

fn receive(
    snapshots: &Snapshots<RealDisk>,
    incoming: &mut Option<Incoming>,
    (from, group): (NodeId, GroupId),
    piece: Piece,
    events: &Inbox<Event>,
) -> Result<(), Status> {
    let failed = |error: SnapshotError| Status::new(Code::Unavailable, error.to_string());
    let Some(meta) = &piece.message.snapshot else {
        return Err(Status::new(Code::InvalidArgument, "a piece without a snapshot's message"));
    };
    if piece.offset == 0 {
        let writer = snapshots.create(meta_to_log(meta)).map_err(failed)?;
        let message = piece.message.clone();
        *incoming = Some(Incoming { from, message, writer, bytes: 0, last_heard: now() });
    }
    let goes_on = |coming: &&mut Incoming| {
        coming.from == from && coming.bytes == piece.offset && coming.message.snapshot == piece.message.snapshot
    };
    let Some(coming) = incoming.as_mut().filter(goes_on) else {
        return Err(Status::new(Code::FailedPrecondition, "a piece that doesn't follow the last one; begin again"));
    };
    coming.writer.append(&piece.bytes).map_err(failed)?;
    coming.bytes += piece.bytes.len() as u64;
    coming.last_heard = now();
    if piece.last
        && let Some(whole) = incoming.take()
    {
        whole.writer.finish().map_err(failed)?;
        let _ = events.push(Event::Messages { from, group, messages: vec![piece.message] });
    }
    Ok(())
}
