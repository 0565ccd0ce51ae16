//! Who is taken for another replica, and how one proves it.
//!
//! # With a key of the group
//! Who greets draws a nonce, says to whom it greets, and seals that with the key. Who is greeted answers with that nonce, one of
//! its own and the number of a *session*, sealed too. Both then have the session's key, HMAC of all that under the group's, and
//! each message is sealed with it: HMAC-SHA256 over the method, the session's number, a count, and the message.
//!
//! - *Replay*: a session is between two incarnations, has a nonce of both ends, and each count is taken once; counts may come in
//!   another order within [`WINDOW`]. One that was recorded says nothing to another process, nor twice to the same one.
//! - *Reflection*: what asks, what answers and what tells is sealed under different words, and says from whom and for whom it is.
//! - *Bounds*: of each replica there are [`SESSIONS`] sessions that have been used and as many that haven't, and
//!   [`NODES_MOST`] replicas; a greeting that isn't sealed with the key leaves nothing behind.
//!
//! The key keeps nothing secret: what replicas say can be read on the way without TLS.

use crate::ids::NODES_MOST;
use crate::{Incarnation, NodeId};
use bytes::{Buf, BufMut, Bytes};
use greenwave_rpc::{Code, Peer, Status};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq;

/// Sessions of a replica that are kept.
const SESSIONS: usize = 4;

/// Counts that may come later than the highest one.
const WINDOW: u64 = 4096;

const MAC: usize = 32;

/// A key that all replicas of a group have, and nobody else.
#[derive(Clone)]
pub struct GroupKey(hmac::Key);

/// A secret that can't be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group's key has 32 to 4096 bytes, found {0}; make one with `head -c 32 /dev/urandom | base64`")]
pub struct NoKey(usize);

impl GroupKey {
    /// The key that follows from a secret of 32 to 4096 bytes.
    ///
    /// # Errors
    /// It is shorter, or longer.
    pub fn new(secret: &[u8]) -> Result<Self, NoKey> {
        if !(32..=4096).contains(&secret.len()) {
            return Err(NoKey(secret.len()));
        }
        Ok(Self(hmac::Key::new(HMAC_SHA256, secret)))
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey(..)")
    }
}

/// Who is taken for another replica. What is set has all to be there; if nothing is, who calls from this machine is.
#[derive(Clone, Debug, Default)]
pub struct PeerAccess {
    /// Who has this key.
    pub key: Option<GroupKey>,
    /// Who shows a certificate with one of these names: URIs, or names of hosts. It takes a server that asks for certificates.
    pub names: Vec<String>,
    /// Everybody who can connect, from other machines too.
    pub anybody: bool,
}

impl PeerAccess {
    /// Whether who calls over a connection may be a replica, the key aside.
    pub(super) fn check(&self, peer: &Peer) -> Result<(), Status> {
        if !self.names.is_empty() {
            let is_one = |name: &String| self.names.contains(name);
            if peer.uris().iter().any(is_one) || peer.dns_names().iter().any(is_one) {
                return Ok(());
            }
            let text = format!("{peer} shows no certificate with a name of the group's replicas");
            return Err(Status::new(Code::PermissionDenied, text));
        }
        let here = peer.address().is_none_or(|address| address.ip().to_canonical().is_loopback());
        if self.anybody || self.key.is_some() || here {
            return Ok(());
        }
        let text = format!("{peer} is on another machine, and nothing proves that it is a replica of the group");
        Err(Status::new(Code::PermissionDenied, text))
    }
}

/// Between which replicas something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) to: NodeId,
}

/// What is sent: messages or a piece of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Messages = 0,
    Piece = 1,
}

/// A greeting that was sealed and is to be answered so; nothing without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    nonce: u128,
    ends: Ends,
}

/// Seals what a replica says in a session.
pub(super) struct Sealing {
    session: u64,
    key: hmac::Key,
    count: u64,
}

/// What of the seals a replica keeps: the sessions of others with it.
pub(super) struct Seals {
    key: Option<hmac::Key>,
    random: SystemRandom,
    sessions: Mutex<BTreeMap<NodeId, Sessions>>,
}

#[derive(Default)]
struct Sessions {
    fresh: VecDeque<Session>,
    used: VecDeque<Session>,
}

struct Session {
    number: u64,
    incarnation: Incarnation,
    key: hmac::Key,
    counts: Counts,
}

/// Which counts have come.
struct Counts {
    next: u64,
    seen: Box<[u64; (WINDOW / 64) as usize]>,
}

impl Seals {
    pub(super) fn new(key: Option<&GroupKey>) -> Arc<Self> {
        let key = key.map(|key| key.0.clone());
        Arc::new(Self { key, random: SystemRandom::new(), sessions: Mutex::default() })
    }

    /// Whether what is said has to be sealed.
    pub(super) const fn are_needed(&self) -> bool {
        self.key.is_some()
    }

    /// Seals a greeting; what its answer is known by.
    pub(super) fn greet(&self, greeting: &mut Vec<u8>, ends: Ends) -> io::Result<Option<Asked>> {
        let Some(key) = &self.key else { return Ok(None) };
        let asked = Asked { nonce: self.nonce()?, ends };
        greeting.put_u64_le(ends.to.number());
        greeting.put_u128_le(asked.nonce);
        let tag = tag(key, b"greenwave replica greets 1", &[greeting]);
        greeting.put_slice(tag.as_ref());
        Ok(Some(asked))
    }

    /// The greeting that was sealed, by whoever it says, for `me`.
    pub(super) fn greeted(&self, bytes: &Bytes, me: NodeId) -> Result<(Bytes, Option<u128>), Status> {
        let Some(key) = &self.key else { return Ok((bytes.clone(), None)) };
        let sealed = opened(key, b"greenwave replica greets 1", bytes).ok_or_else(unsealed)?;
        let at = sealed.len().checked_sub(24).ok_or_else(unsealed)?;
        let mut rest = sealed.slice(at..);
        let (to, nonce) = (rest.get_u64_le(), rest.get_u128_le());
        if to != me.number() {
            return Err(Status::new(
                Code::FailedPrecondition,
                format!("a greeting for replica {to} came to replica {me}"),
            ));
        }
        Ok((sealed.slice(..at), Some(nonce)))
    }

    /// Seals the answer to a greeting with this nonce, and begins a session.
    pub(super) fn answer(&self, answer: &mut Vec<u8>, nonce: Option<u128>, ends: Ends) -> Result<(), Status> {
        let (Some(key), Some(nonce)) = (&self.key, nonce) else { return Ok(()) };
        let failed = |error: io::Error| Status::new(Code::Unavailable, error.to_string());
        let own = self.nonce().map_err(failed)?;
        let number = own as u64;
        answer.put_u128_le(nonce);
        answer.put_u128_le(own);
        let tag = tag(key, b"greenwave replica answers 1", &[answer, &ends_bytes(ends)]);
        answer.put_slice(tag.as_ref());
        let session = session_key(key, ends, nonce, own);
        let session = Session { number, incarnation: ends.incarnation, key: session, counts: Counts::new() };
        greenwave_quanta::critical(|| {
            let mut sessions = self.sessions();
            if sessions.len() >= NODES_MOST && !sessions.contains_key(&ends.from) {
                sessions.pop_first();
            }
            let own = sessions.entry(ends.from).or_default();
            own.fresh.push_back(session);
            if own.fresh.len() > SESSIONS {
                own.fresh.pop_front();
            }
        });
        Ok(())
    }

    /// The answer to what was asked, and what seals from then on.
    pub(super) fn answered(&self, bytes: &Bytes, asked: Option<Asked>) -> Option<(Bytes, Option<Sealing>)> {
        let Some(key) = &self.key else { return Some((bytes.clone(), None)) };
        let Asked { nonce, ends } = asked?;
        let at = bytes.len().checked_sub(MAC)?;
        let (sealed, tag) = (bytes.slice(..at), bytes.slice(at..));
        let whole = [b"greenwave replica answers 1", &sealed[..], &ends_bytes(ends)].concat();
        hmac::verify(key, &whole, &tag).ok()?;
        let end = sealed.len().checked_sub(32)?;
        let mut rest = sealed.slice(end..);
        let (echo, other) = (rest.get_u128_le(), rest.get_u128_le());
        let sealing = Sealing { session: other as u64, key: session_key(key, ends, nonce, other), count: 0 };
        (echo == nonce).then(|| (sealed.slice(..end), Some(sealing)))
    }

    /// What was sealed in a session; `from` and `incarnation` are what it says itself.
    pub(super) fn open(
        &self,
        sent: Sent,
        bytes: &Bytes,
        of: impl Fn(&Bytes) -> Option<(NodeId, Incarnation)>,
    ) -> Result<Bytes, Status> {
        if self.key.is_none() {
            return Ok(bytes.clone());
        }
        let at = bytes.len().checked_sub(16 + MAC).ok_or_else(unsealed)?;
        let (frame, mut rest) = (bytes.slice(..at), bytes.slice(at..));
        let (number, count) = (rest.get_u64_le(), rest.get_u64_le());
        let (from, incarnation) = of(&frame).ok_or_else(unsealed)?;
        let session = |sessions: &Sessions| {
            let mut all = sessions.used.iter().chain(&sessions.fresh);
            all.find(|it| it.number == number && it.incarnation == incarnation).map(|it| it.key.clone())
        };
        let key = greenwave_quanta::critical(|| self.sessions().get(&from).and_then(session)).ok_or_else(no_session)?;
        let whole = tag(&key, b"greenwave replica tells 1", &[&[sent as u8], &bytes[..bytes.len() - MAC]]);
        if !is_same(&whole, &rest) {
            return Err(unsealed());
        }
        let first = greenwave_quanta::critical(|| {
            let mut sessions = self.sessions();
            let own = sessions.get_mut(&from)?;
            if let Some(at) = own.fresh.iter().position(|it| it.number == number) {
                own.used.extend(own.fresh.remove(at));
                if own.used.len() > SESSIONS {
                    own.used.pop_front();
                }
            }
            own.used.iter_mut().find(|it| it.number == number)?.counts.take(count).then_some(())
        });
        first.map(|()| frame).ok_or_else(|| Status::new(Code::Unauthenticated, "what was said has been said before"))
    }

    fn nonce(&self) -> io::Result<u128> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bits"))?;
        Ok(u128::from_le_bytes(bytes))
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<NodeId, Sessions>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sealing {
    /// Seals a frame.
    pub(super) fn seal(&mut self, sent: Sent, frame: &mut Vec<u8>) {
        frame.put_u64_le(self.session);
        frame.put_u64_le(self.count);
        self.count += 1;
        let tag = tag(&self.key, b"greenwave replica tells 1", &[&[sent as u8], frame]);
        frame.put_slice(tag.as_ref());
    }
}

impl Counts {
    fn new() -> Self {
        Self { next: 0, seen: Box::new([0; (WINDOW / 64) as usize]) }
    }

    /// Whether it comes for the first time, and not too late.
    fn take(&mut self, count: u64) -> bool {
        if count >= self.next {
            // What is between hasn't come.
            let between = self.next..=count;
            if count - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                between.for_each(|skipped| self.set(skipped, false));
            }
            self.next = count.saturating_add(1);
            self.set(count, true);
            return count < u64::MAX;
        }
        let late = self.next - count > WINDOW;
        let seen = self.seen[(count % WINDOW / 64) as usize] >> (count % 64) & 1 == 1;
        if !late && !seen {
            self.set(count, true);
        }
        !late && !seen
    }

    fn set(&mut self, count: u64, to: bool) {
        let word = &mut self.seen[(count % WINDOW / 64) as usize];
        *word = *word & !(1 << (count % 64)) | u64::from(to) << (count % 64);
    }
}

fn session_key(key: &hmac::Key, ends: Ends, asked: u128, answered: u128) -> hmac::Key {
    let nonces = [asked.to_le_bytes(), answered.to_le_bytes()].concat();
    let own = tag(key, b"greenwave replica session 1", &[&ends_bytes(ends), &nonces]);
    hmac::Key::new(HMAC_SHA256, own.as_ref())
}

fn ends_bytes(ends: Ends) -> Vec<u8> {
    let mut bytes = ends.from.number().to_le_bytes().to_vec();
    bytes.put_u128_le(ends.incarnation.bits());
    bytes.put_u64_le(ends.to.number());
    bytes
}

fn tag(key: &hmac::Key, word: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(word);
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

/// What a seal is around, if it is right.
fn opened(key: &hmac::Key, word: &[u8], bytes: &Bytes) -> Option<Bytes> {
    let at = bytes.len().checked_sub(MAC)?;
    let whole = tag(key, word, &[&bytes[..at]]);
    is_same(&whole, &bytes[at..]).then(|| bytes.slice(..at))
}

/// Whether they are the same, in a time that doesn't say where they aren't.
fn is_same(own: &hmac::Tag, said: &[u8]) -> bool {
    own.as_ref().ct_eq(said).into()
}

fn unsealed() -> Status {
    Status::new(
        Code::Unauthenticated,
        "what was said isn't sealed with the group's key; give all replicas the same one",
    )
}

fn no_session() -> Status {
    Status::new(Code::Unauthenticated, "there is no such session; greet first")
}

#[cfg(test)]
mod tests;
