//! What becomes of the bytes that are read from a connection.

use super::{Phase, Plain, Reads, Stream};
use crate::framing::{Framer, PREFIX, WrongLength};
use crate::tls::{Heard, Opened, Session};
use crate::{CloseReason, EndpointId, Event, QueueStats, TlsFault};

impl Stream {
    /// Hands on the chunks in what was read. An error ends the connection. The bytes may be used as scratch.
    ///
    /// What was asked for is done only if something was handed on: otherwise the owner would not know that it has to ask again.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        id: EndpointId,
        bytes: &mut [u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        if self.reads != Reads::Once {
            return self.receive_all(id, bytes, limit, stats, sink);
        }
        let before = stats.bytes_in;
        let received = self.receive_all(id, bytes, limit, stats, sink);
        if stats.bytes_in != before && self.reads == Reads::Once {
            self.reads = Reads::Metered;
        }
        received
    }

    fn receive_all(
        &mut self,
        id: EndpointId,
        bytes: &mut [u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        let Some(mut session) = self.session.take() else {
            return if self.phase == Phase::Open { self.deliver(id, bytes, limit, stats, sink) } else { Ok(()) };
        };
        let received = self.open(&mut session, id, bytes, limit, stats, sink);
        self.session = Some(session);
        received
    }

    /// Opens what was read, and hands on the chunks in it.
    fn open(
        &mut self,
        session: &mut Session,
        id: EndpointId,
        bytes: &mut [u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        // What was held back comes before what comes now.
        if self.is_to_go() {
            self.release(id, limit, stats, sink)?;
        }
        let handshaking = session.is_handshaking();
        let open = self.phase == Phase::Open;
        if !open && (self.phase != Phase::Flushing || !handshaking || self.fault.is_some()) {
            return Ok(());
        }
        // The side that connected is told when it has, the other who the client is; that comes before the first chunk.
        let is_client = session.is_client();
        let mut delivered = Ok(());
        let heard = session.receive(bytes, &mut |opened| {
            if !open || delivered.is_err() {
                return;
            }
            if let Some(held) = &mut self.held {
                match opened {
                    Opened::Up(names) => (held.is_up, held.names) = (true, names),
                    Opened::Plain(plain) => held.plain.extend_from_slice(plain),
                }
                return;
            }
            match opened {
                Opened::Up(_) if is_client => sink(Event::Connected { endpoint: id }),
                Opened::Up(Some(names)) => sink(Event::Authenticated { endpoint: id, names }),
                Opened::Up(None) => {}
                Opened::Plain(plain) => delivered = self.deliver(id, plain, limit, stats, sink),
            }
        });
        delivered?;
        let done = handshaking && !session.is_handshaking();
        self.urgent |= session.has_output() || done;
        match heard {
            Ok(Heard::Open) => Ok(()),
            Ok(Heard::End) => Err(self.reason_at_goodbye(done || !handshaking, stats)),
            Err(fault) => {
                stats.tls_faults += 1;
                if !session.has_output() {
                    return Err(fault.into());
                }
                self.fault = Some(fault.into());
                self.outbox.give_up_posted();
                self.phase = Phase::Flushing;
                // As after every close, it is read to its end.
                self.reads = Reads::Freely;
                Ok(())
            }
        }
    }

    /// Hands on the chunks in plain bytes.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        id: EndpointId,
        bytes: &[u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        if self.plain != Plain::Never {
            return self.deliver_first(id, bytes, limit, stats, sink);
        }
        let (chunks_in, bytes_in) = (&mut stats.chunks_in, &mut stats.bytes_in);
        let fed = self.framer.feed(bytes, limit, &mut |chunk| {
            *chunks_in += 1;
            *bytes_in += chunk.len() as u64;
            sink(Event::Received { endpoint: id, chunk });
        });
        fed.map_err(|WrongLength { len, .. }| self.oversized(len, limit, stats))
    }

    /// Hands on what may yet be plain, or is: the first chunk decides.
    fn deliver_first(
        &mut self,
        id: EndpointId,
        bytes: &[u8],
        limit: usize,
        stats: &mut QueueStats,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CloseReason> {
        let mut receive = |chunk: &[u8], chunks: u64| {
            stats.chunks_in += chunks;
            stats.bytes_in += chunk.len() as u64;
            sink(Event::Received { endpoint: id, chunk });
        };
        let Plain::After(prefaces) = self.plain else {
            receive(bytes, 0);
            return Ok(());
        };
        let plain = &mut self.plain;
        let fed = self.framer.feed(bytes, limit, &mut |chunk| {
            *plain = Plain::Never;
            receive(chunk, 1);
        });
        let Err(WrongLength { len, behind }) = fed else { return Ok(()) };
        let preface = prefaces.iter().copied().find(|preface| u32::from_le_bytes(*preface) as usize == len);
        let Some(preface) = preface.filter(|_| self.plain != Plain::Never) else {
            return Err(self.oversized(len, limit, stats));
        };
        self.plain = Plain::Always;
        self.framer = Framer::default();
        sink(Event::Plain { endpoint: id, preface });
        stats.bytes_in += (PREFIX + behind) as u64;
        sink(Event::Received { endpoint: id, chunk: &preface });
        if behind > 0 {
            sink(Event::Received { endpoint: id, chunk: &bytes[bytes.len() - behind..] });
        }
        Ok(())
    }

    /// Why a connection ends whose peer announced a chunk of this length.
    fn oversized(&self, len: usize, limit: usize, stats: &mut QueueStats) -> CloseReason {
        stats.oversized += 1;
        if u32::try_from(len).is_ok_and(|len| TlsFault::is_record(len.to_le_bytes())) && self.session.is_none() {
            stats.tls_faults += 1;
            return CloseReason::Tls(TlsFault::PeerIsTls);
        }
        CloseReason::Oversized { len, limit }
    }
}
