//! What fuzz targets and tests do to TLS: whatever a peer sends, and whatever is in files.
//!
//! The certificates in the folder of this name are for this alone; nobody believes their authority.

use std::sync::OnceLock;

use rustls::pki_types::CertificateDer;

use super::config::{called, served};
use super::names::{MOST, names_of};
use super::renewal::Source;
use super::{Heard, Identity, Opened, Pem, Session, TlsClient, TlsServer};
use crate::Address;

const AUTHORITY: Pem<'static> = Pem::Bytes(include_bytes!("fuzzing/authority.pem"));
const CERTIFICATE: Pem<'static> = Pem::Bytes(include_bytes!("fuzzing/certificate.pem"));
const KEY: Pem<'static> = Pem::Bytes(include_bytes!("fuzzing/key.pem"));
const LIST: Pem<'static> = Pem::Bytes(include_bytes!("fuzzing/list.pem"));
const IDENTITY: Identity<'static> = Identity { certificate: CERTIFICATE, key: KEY };

/// A server that asks for certificates, one that doesn't, and a client.
fn settings() -> &'static (TlsServer, TlsServer, TlsClient) {
    static SETTINGS: OnceLock<(TlsServer, TlsServer, TlsClient)> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let asking = TlsServer::revoking(IDENTITY, AUTHORITY, &[LIST]).expect("they are sound");
        let open = TlsServer::new(IDENTITY, None).expect("they are sound").offering(b"h2");
        let client = TlsClient::new(AUTHORITY, Some(IDENTITY), None).expect("they are sound");
        (asking, open, client)
    })
}

/// One end of a connection.
struct End {
    session: Box<Session>,
    /// What was posted here, and what has arrived.
    posted: Vec<u8>,
    arrived: Vec<u8>,
    is_up: bool,
    /// Nothing more is read.
    is_over: bool,
    /// Nothing is written but what the session itself has to say.
    has_failed: bool,
}

impl End {
    fn new(session: Box<Session>) -> Self {
        Self { session, posted: Vec::new(), arrived: Vec::new(), is_up: false, is_over: false, has_failed: false }
    }

    /// Reads bytes, in pieces of some length.
    fn read(&mut self, bytes: &[u8], piece: usize) {
        let Self { session, arrived, is_up, is_over, has_failed, .. } = self;
        for piece in bytes.chunks(piece.max(1)) {
            // As its owner does: what comes behind a goodbye is of no interest.
            if *is_over || session.has_said_goodbye() {
                return;
            }
            let heard = session.receive(&mut piece.to_vec(), &mut |opened| match opened {
                Opened::Up(_) => assert!(!std::mem::replace(is_up, true), "the handshake has ended twice"),
                Opened::Plain(plain) => {
                    assert!(*is_up, "bytes before the handshake has ended");
                    arrived.extend_from_slice(plain);
                }
            });
            *is_over = heard != Ok(Heard::Open);
            *has_failed = heard.is_err();
            session.check(piece.len());
        }
    }

    /// What it has to write.
    fn write(&mut self, plain: &[u8], goodbye: bool) -> Vec<u8> {
        let mut wire = Vec::new();
        let waits = self.session.is_handshaking() || self.has_failed;
        let (plain, goodbye) = if waits { (&[][..], false) } else { (plain, goodbye) };
        if !self.session.has_said_goodbye() && self.session.seal(plain, goodbye, &mut wire).is_ok() {
            self.posted.extend_from_slice(plain);
        }
        wire
    }
}

/// Reads bytes as what a peer says. The first of them says which side reads them and in what pieces; or has two sides talk to one
/// another while the others say what is changed on the way. What arrives is what was posted, up to where it was changed.
///
/// # Panics
/// If something else arrives, or something is held without bound.
pub fn session(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let (asking, open, client) = settings();
    let accept = || if first & 4 == 0 { open } else { asking }.accept().expect("settings are sound");
    let connect = || client.connect(&Address::Tcp(([127, 0, 0, 1], 1).into())).expect("settings are sound");
    let piece = usize::from(first >> 3) * 3;
    match first & 3 {
        0 => End::new(accept()).read(rest, piece),
        1 => End::new(connect()).read(rest, piece),
        _ => between(End::new(connect()), End::new(accept()), rest),
    }
}

/// How much is posted while as much is on its way: in pieces of five bytes millions take seconds.
const MOST_ON_THE_WAY: usize = 1 << 17;

/// Two ends, and what happens on the way between them.
fn between(client: End, server: End, mut steps: &[u8]) {
    let mut ends = [client, server];
    // What is on its way to each of them.
    let mut wires = [Vec::new(), Vec::new()];
    let mut step = || {
        let (first, rest) = steps.split_first()?;
        steps = rest;
        Some(usize::from(*first))
    };
    while let Some(what) = step() {
        let (from, to) = if what & 1 == 0 { (0, 1) } else { (1, 0) };
        let Some(number) = step() else { break };
        match what >> 1 & 7 {
            0..=3 => {
                let written = ends[from].write(&[], false);
                wires[to].extend(written);
                let bytes = std::mem::take(&mut wires[to]);
                ends[to].read(&bytes, if number == 255 { usize::MAX } else { number * 5 });
            }
            4 | 5 => {
                let most = MOST_ON_THE_WAY.saturating_sub(wires[to].len());
                let plain = vec![number as u8; (number * number).min(most)];
                let written = ends[from].write(&plain, number == 255);
                wires[to].extend(written);
            }
            6 => {
                let at = number * wires[to].len() / 256;
                if let Some(byte) = wires[to].get_mut(at) {
                    *byte ^= 1 << (what >> 4 & 7);
                }
            }
            _ => {
                let at = number * wires[to].len() / 256;
                if what & 16 == 0 { wires[to].truncate(at) } else { wires[to].insert(at, number as u8) }
            }
        }
        let [client, server] = &ends;
        assert!(server.posted.starts_with(&client.arrived) && client.posted.starts_with(&server.arrived));
    }
}

/// Reads bytes as one of the files, or as what is in one, of which the first byte says which; and as a client's certificate.
///
/// # Panics
/// If more names are kept of a certificate than may be.
pub fn files(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let names = names_of(&CertificateDer::from(rest));
    for kind in [names.uris, names.dns] {
        assert!(kind.len() <= MOST.0 && kind.iter().all(|name| name.len() <= MOST.1));
    }
    let label = ["CERTIFICATE", "PRIVATE KEY", "CERTIFICATE", "X509 CRL"][usize::from(first & 3)];
    let text = if first & 4 == 0 { rest.to_vec() } else { pem(label, rest) };
    let pem = Pem::Bytes(&text);
    let _either = match first & 3 {
        0 => served(Identity { certificate: pem, key: KEY }, None, &[]).map(drop),
        1 => served(Identity { certificate: CERTIFICATE, key: pem }, None, &[]).map(drop),
        2 => called(pem, None).map(drop),
        _ => served(IDENTITY, Some(AUTHORITY), &[Source::of(pem)]).map(drop),
    };
}

/// What is in a file of this kind (RFC 7468).
fn pem(label: &str, bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n").into_bytes();
    for line in bytes.chunks(48) {
        for part in line.chunks(3) {
            let bits = part.iter().enumerate().fold(0, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
            let digit = |at: usize| if at > part.len() { b'=' } else { DIGITS[(bits >> (18 - 6 * at) & 63) as usize] };
            text.extend([0, 1, 2, 3].map(digit));
        }
        text.push(b'\n');
    }
    text.extend(format!("-----END {label}-----\n").into_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::replay;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_does_no_harm() {
        replay("tls_session", session);
        replay("tls_files", files);
    }

    /// Without changes on the way all arrives, so the changes are all that keeps something from arriving.
    #[test]
    fn two_sides_that_nobody_disturbs_hear_all_that_the_other_says() {
        let (asking, _, client) = settings();
        let client = client.connect(&Address::Tcp(([127, 0, 0, 1], 1).into())).unwrap();
        let (mut client, mut server) = (End::new(client), End::new(asking.accept().unwrap()));
        for _ in 0..4 {
            server.read(&client.write(b"question", false), 7);
            client.read(&server.write(b"answer", false), 7);
        }
        assert!(client.is_up && server.is_up && !client.is_over && !server.is_over);
        assert!(!client.arrived.is_empty() && client.arrived == server.posted);
        assert!(!server.arrived.is_empty() && server.arrived == client.posted);
    }

    #[test]
    fn what_is_written_as_pem_is_read_as_it_was() {
        use rustls::pki_types::pem::PemObject;
        let Pem::Bytes(text) = CERTIFICATE else { unreachable!("it is in memory") };
        let own = CertificateDer::from_pem_slice(text).unwrap();
        for cut in 0..4 {
            let bytes = &own[cut..];
            assert_eq!(&*CertificateDer::from_pem_slice(&pem("CERTIFICATE", bytes)).unwrap(), bytes);
        }
        assert!(served(Identity { certificate: Pem::Bytes(&pem("CERTIFICATE", &own)), key: KEY }, None, &[]).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_a_peer_sends_is_refused_or_what_was_posted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            session(&bytes);
            files(&bytes);
        }
    }
}
