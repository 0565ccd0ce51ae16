//! One TLS session: bytes of the wire in and out, plain bytes out and in.
//!
//! All that is known of rustls' unbuffered interface is here. Its buffered one (`rustls::Connection`) would do in its place:
//! `receive` would be `read_tls` of the bytes, `process_new_packets`, and what its reader has; `seal` its writer and `write_tls`.
//! It copies what arrives once more before it is opened, and what is opened once more out of it, bounds neither `pending` nor
//! `output` by itself but by `set_buffer_limit`, and needs no `step`, `write` or `missing`.

use std::fmt;

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::UnixTime;
use rustls::server::UnbufferedServerConnection;
use rustls::server::danger::ClientCertVerifier;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, Error, HandshakeKind};

use super::names::names_of;
use super::{Heard, Opened, TlsFault};

/// A session.
///
/// Invariants:
/// 1. `pending` is what arrived and isn't used up: the beginning of a record, or records that are parts of one
///    handshake message. rustls may have marks in it, so it is what rustls is given whenever it is asked for anything.
/// 2. `output` is to be written before anything that is sealed later.
pub(crate) struct Session {
    connection: Connection,
    /// How a client's certificate is checked again whose session is resumed: it may have expired or been revoked since.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    pending: Vec<u8>,
    output: Vec<u8>,
    /// The owner was told that the handshake is done.
    is_up: bool,
    /// Something has arrived that was TLS.
    is_met: bool,
    has_said_goodbye: bool,
}

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What rustls made of what it was given.
enum Step {
    /// It did something, and is to be asked again.
    Again,
    /// It needs more bytes.
    Blocked,
    /// The peer has closed the session.
    Ended,
}

impl Session {
    /// The most that `pending` may hold: a handshake message of the longest length (64 KiB), in records.
    const PENDING: usize = 128 * 1024;
    /// Of a record: type, version and length.
    const HEADER: usize = 5;
    /// Payload of the longest record, and by how much a record is longer than its payload, at most.
    const RECORD: usize = 16 * 1024;
    const OVERHEAD: usize = 64;

    /// `clients`: how the certificates of clients are checked, if they are.
    pub(super) fn server(
        connection: UnbufferedServerConnection,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Box<Self> {
        let mut session = Self::new(Connection::Server(connection));
        session.clients = clients;
        session
    }

    /// The client's first message is put into the output.
    pub(super) fn client(connection: UnbufferedClientConnection) -> Result<Box<Self>, Error> {
        let mut session = Self::new(Connection::Client(connection));
        session.open(&mut [], &mut |_| {}).1?;
        Ok(session)
    }

    fn new(connection: Connection) -> Box<Self> {
        let (pending, output) = (Vec::new(), Vec::new());
        Box::new(Self {
            connection,
            clients: None,
            pending,
            output,
            is_up: false,
            is_met: false,
            has_said_goodbye: false,
        })
    }

    pub(crate) fn is_client(&self) -> bool {
        matches!(self.connection, Connection::Client(_))
    }

    /// Whether this side may not send yet, or doesn't know yet who the peer is.
    pub(crate) fn is_handshaking(&self) -> bool {
        match &self.connection {
            Connection::Client(connection) => connection.is_handshaking(),
            Connection::Server(connection) => connection.is_handshaking(),
        }
    }

    /// Whether the session itself has something to say.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    pub(crate) fn has_said_goodbye(&self) -> bool {
        self.has_said_goodbye
    }

    /// Whether what it holds is bounded, where a piece of this length was read last.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self, piece: usize) {
        assert!(self.pending.len() <= Self::PENDING + piece, "it holds {} bytes", self.pending.len());
        assert!(self.output.len() <= Self::PENDING, "it is to write {} bytes", self.output.len());
    }

    /// Takes what was read, and hands on what it says, in pieces of any length; before the first of them, that the handshake is
    /// done. The bytes are used as scratch. It is not asked any more after [`seal`](Self::seal) was told to say goodbye: rustls takes
    /// that for a fatal alert, of which there may be one alone. After an error, there may be an alert in the output that tells the peer.
    pub(crate) fn receive(
        &mut self,
        mut bytes: &mut [u8],
        deliver: &mut dyn FnMut(Opened<'_>),
    ) -> Result<Heard, TlsFault> {
        while !self.pending.is_empty() && !bytes.is_empty() {
            // No more than completes the record, so that all others are opened where they lie.
            let missing = missing(&self.pending).unwrap_or(bytes.len()).min(bytes.len());
            let (first, rest) = bytes.split_at_mut(missing);
            bytes = rest;
            self.pending.extend_from_slice(first);
            let mut pending = std::mem::take(&mut self.pending);
            let (used, opened) = self.open(&mut pending, deliver);
            pending.drain(..used);
            self.pending = pending;
            if let Some(end) = self.conclude(used, opened)? {
                return Ok(end);
            }
        }
        if bytes.is_empty() {
            return Ok(Heard::Open);
        }
        let (used, opened) = self.open(bytes, deliver);
        self.pending.extend_from_slice(&bytes[used..]);
        Ok(self.conclude(used, opened)?.unwrap_or(Heard::Open))
    }

    /// Adds to `wire` what the session has to say and, sealed, `plain`, which is empty during the handshake.
    /// `goodbye`: nothing follows. After [`receive`](Self::receive) has failed it is asked for neither: rustls would look at what it
    /// has refused once more.
    pub(crate) fn seal(&mut self, plain: &[u8], goodbye: bool, wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        wire.append(&mut self.output);
        if !plain.is_empty() {
            self.write(wire, plain.len() + (plain.len() / Self::RECORD + 1) * Self::OVERHEAD, Some(plain))?;
        }
        if goodbye && !self.has_said_goodbye {
            self.has_said_goodbye = true;
            self.write(wire, Self::OVERHEAD, None)?;
        }
        Ok(())
    }

    /// Adds bytes that are sealed, or the alert that nothing follows. `room`: how long that is about.
    fn write(&mut self, wire: &mut Vec<u8>, room: usize, plain: Option<&[u8]>) -> Result<(), TlsFault> {
        let start = wire.len();
        let mut needed = room;
        // Once more if it turns out longer.
        for _ in 0..2 {
            wire.resize(start + needed, 0);
            let (pending, room) = (&mut self.pending, &mut wire[start..]);
            let written = match &mut self.connection {
                Connection::Client(connection) => write(connection.process_tls_records(pending), room, plain),
                Connection::Server(connection) => write(connection.process_tls_records(pending), room, plain),
            };
            match written {
                Ok(count) => {
                    wire.truncate(start + count);
                    return Ok(());
                }
                Err(Some(InsufficientSizeError { required_size })) => needed = required_size,
                Err(None) => break,
            }
        }
        wire.truncate(start);
        Err(TlsFault::Failed)
    }

    /// Has rustls go on until it needs more. How many of the bytes are used up, also after an error.
    fn open(&mut self, bytes: &mut [u8], deliver: &mut dyn FnMut(Opened<'_>)) -> (usize, Result<Step, Error>) {
        let mut used = 0;
        loop {
            let (discard, step) = if self.is_up {
                self.step(&mut bytes[used..], &mut |plain| deliver(Opened::Plain(plain)))
            } else {
                // What comes in one step with the end of the handshake waits until the owner knows of that.
                let mut early = Vec::new();
                let (discard, step) = self.step(&mut bytes[used..], &mut |plain| early.extend_from_slice(plain));
                (discard, step.and_then(|step| self.come_up(&early, deliver).map(|()| step)))
            };
            used = bytes.len().min(used + discard);
            match step {
                Ok(Step::Again) => {}
                Ok(step) => return (used, Ok(step)),
                Err(error) => {
                    // What the peer is to be told, and no more: rustls is not to look at the same bytes again.
                    while self.has_alert() && self.step(&mut bytes[used..], &mut |_| {}).1.is_ok() {}
                    return (used, Err(error));
                }
            }
        }
    }

    /// Says that the handshake is done, if it is, and who the client is, if it has proved it; then what came with its end.
    fn come_up(&mut self, early: &[u8], deliver: &mut dyn FnMut(Opened<'_>)) -> Result<(), Error> {
        if self.is_handshaking() {
            return Ok(());
        }
        self.is_up = true;
        let names = match &self.connection {
            Connection::Client(_) => None,
            Connection::Server(connection) => match (connection.peer_certificates(), &self.clients) {
                (Some([own, others @ ..]), Some(verifier)) => {
                    if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
                        verifier.verify_client_cert(own, others, UnixTime::now())?;
                    }
                    Some(names_of(own))
                }
                _ => None,
            },
        };
        deliver(Opened::Up(names));
        if !early.is_empty() {
            deliver(Opened::Plain(early));
        }
        Ok(())
    }

    /// Whether rustls has something to say that comes before whatever has arrived.
    fn has_alert(&self) -> bool {
        match &self.connection {
            Connection::Client(connection) => connection.wants_write(),
            Connection::Server(connection) => connection.wants_write(),
        }
    }

    fn step(&mut self, bytes: &mut [u8], deliver: &mut dyn FnMut(&[u8])) -> (usize, Result<Step, Error>) {
        let Self { connection, output, .. } = self;
        match connection {
            Connection::Client(connection) => step(connection.process_tls_records(bytes), output, deliver),
            Connection::Server(connection) => step(connection.process_tls_records(bytes), output, deliver),
        }
    }

    /// What an attempt to open bytes means. Some end if nothing follows.
    fn conclude(&mut self, used: usize, opened: Result<Step, Error>) -> Result<Option<Heard>, TlsFault> {
        self.is_met |= used > 0;
        let step = opened.map_err(|error| fault(&error, self.is_met))?;
        if self.pending.len() > Self::PENDING {
            return Err(TlsFault::Garbled);
        }
        Ok(matches!(step, Step::Ended).then_some(Heard::End))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_handshaking", &self.is_handshaking()).finish_non_exhaustive()
    }
}

/// How many bytes the record at the start is short of. `None` if it isn't.
fn missing(pending: &[u8]) -> Option<usize> {
    let whole = match pending {
        [_, _, _, high, low, ..] => Session::HEADER + usize::from(u16::from_be_bytes([*high, *low])),
        _ => Session::HEADER,
    };
    whole.checked_sub(pending.len()).filter(|missing| *missing > 0)
}

/// Does what rustls asks for, once. How many bytes are used up, and whether to go on.
fn step<Data>(
    UnbufferedStatus { discard, state, .. }: UnbufferedStatus<'_, '_, Data>,
    output: &mut Vec<u8>,
    deliver: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Step, Error>) {
    let mut used = discard;
    let step = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    used += record.discard;
                    deliver(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(Step::Again),
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = output.len();
            match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    output.resize(start + required_size, 0);
                    match data.encode(&mut output[start..]) {
                        Ok(_) => Ok(Step::Again),
                        Err(error) => Err(Error::General(error.to_string())),
                    }
                }
                Ok(_) => Ok(Step::Again),
                Err(error) => Err(Error::General(error.to_string())),
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Step::Ended),
        // Early data isn't allowed, so there is none.
        Ok(_) => Ok(Step::Blocked),
        Err(error) => Err(error),
    };
    (used, step)
}

/// Seals bytes, or the alert that nothing follows. How many bytes it became; or how many it takes, if it is possible.
fn write<Data>(
    UnbufferedStatus { state, .. }: UnbufferedStatus<'_, '_, Data>,
    wire: &mut [u8],
    plain: Option<&[u8]>,
) -> Result<usize, Option<InsufficientSizeError>> {
    // Whatever else there was to do was done when it came up.
    let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return Err(None) };
    let written = match plain {
        Some(plain) => traffic.encrypt(plain, wire),
        None => traffic.queue_close_notify(wire),
    };
    written.map_err(|error| match error {
        EncryptError::InsufficientSize(needed) => Some(needed),
        EncryptError::EncryptExhausted => None,
    })
}

/// What an error means to whoever runs the two sides. `is_met`: there was TLS before it.
fn fault(error: &Error, is_met: bool) -> TlsFault {
    match error {
        Error::InvalidMessage(_) | Error::PeerSentOversizedRecord if !is_met => TlsFault::PeerIsPlain,
        Error::InvalidCertificate(certificate) => certificate_fault(certificate),
        Error::NoCertificatesPresented => TlsFault::NoClientCertificate,
        Error::AlertReceived(alert) => TlsFault::Refused(refusal(*alert)),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFault::Incompatible,
        Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes | Error::EncryptError | Error::General(_) => {
            TlsFault::Failed
        }
        _ => TlsFault::Garbled,
    }
}

fn certificate_fault(error: &CertificateError) -> TlsFault {
    match error {
        // Of an authority with a known name and another key: one that was made anew, as a rule.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFault::UnknownAuthority,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFault::NotValidYet,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFault::WrongName,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => TlsFault::WrongPurpose,
        CertificateError::Revoked => TlsFault::Revoked,
        CertificateError::UnknownRevocationStatus => TlsFault::UnknownRevocation,
        _ => TlsFault::BadCertificate,
    }
}

/// What a fatal alert says of this side.
fn refusal(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA => "it does not know the authority of this side's certificate",
        AlertDescription::CertificateRequired => "it wants a certificate from this side",
        AlertDescription::CertificateExpired => "this side's certificate has expired, or its clock is wrong",
        AlertDescription::CertificateRevoked => "this side's certificate was revoked",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept this side's certificate",
        AlertDescription::DecryptError | AlertDescription::BadRecordMac => "it could not check or decrypt what it got",
        AlertDescription::NoApplicationProtocol => "it does not speak greenwave/1",
        AlertDescription::ProtocolVersion => "it speaks other versions of TLS, or none at all",
        AlertDescription::HandshakeFailure => "it found no cipher suite, or no certificate, that both sides accept",
        AlertDescription::UnrecognisedName => "it has no certificate for the name that was asked for",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::InternalError => "something went wrong there",
        _ => "its log may say why",
    }
}
