//! Where what the others say comes in: whether it is taken, and what is said to those who greet.

use super::access::{Ends, PeerAccess, Seals, Sent};
use super::frame;
use crate::door::{Door, Header, Unwelcome};
use crate::founding::Greeting;
use crate::{GroupId, Identity, Membership, NodeId, Standing};
use bytes::Bytes;
use greenwave_rpc::{Code, Peer, Status};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::inbox::now;

/// Of what isn't taken a line is written at most this often, in nanoseconds.
const SAY_EVERY: u64 = 10_000_000_000;

/// What handlers and the replica's own threads know of who is let in.
///
/// Handlers only read it, from coroutines that may be preempted, so they do that in critical sections.
pub(super) struct Entrance {
    door: RwLock<Door>,
    number: u64,
    founders: BTreeSet<NodeId>,
    access: PeerAccess,
    seals: Arc<Seals>,
    refused: AtomicU64,
    said: AtomicU64,
}

impl Entrance {
    pub(super) fn new(
        identity: &Identity,
        founders: BTreeSet<NodeId>,
        membership: Arc<Membership>,
        access: PeerAccess,
    ) -> Arc<Self> {
        let Identity { number, node: me, incarnation, standing } = identity.clone();
        let door = RwLock::new(Door { me, incarnation, standing, membership });
        let (seals, refused, said) = (Seals::new(access.key.as_ref()), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { door, number, founders, access, seals, refused, said })
    }

    /// What seals what is said.
    pub(super) fn seals(&self) -> &Arc<Seals> {
        &self.seals
    }

    /// What another replica sends, if it is one.
    pub(super) fn open(&self, peer: &Peer, sent: Sent, bytes: &Bytes) -> Result<Bytes, Status> {
        self.noted(self.access.check(peer).and_then(|()| self.seals.open(sent, bytes, frame::sender)))
    }

    /// What somebody greets with, and what its answer has to say again.
    pub(super) fn greeted(&self, peer: &Peer, bytes: &Bytes) -> Result<(Greeting, Option<u128>), Status> {
        let me = self.with(|door| door.me);
        let read = |(bytes, nonce)| match Greeting::decode(bytes) {
            Ok(greeting) => Ok((greeting, nonce)),
            Err(error) => Err(Status::new(Code::InvalidArgument, error.to_string())),
        };
        let greeting = self.access.check(peer).and_then(|()| self.seals.greeted(bytes, me)).and_then(read);
        let (greeting, nonce) = self.noted(greeting)?;
        self.check(&greeting)?;
        Ok((greeting, nonce))
    }

    /// What is answered to a greeting.
    pub(super) fn answer(&self, greeting: &Greeting, nonce: Option<u128>) -> Result<Vec<u8>, Status> {
        let (mut answer, to) = (Vec::new(), self.with(|door| door.me));
        self.greeting().encode(&mut answer);
        self.seals.answer(&mut answer, nonce, Ends { from: greeting.node, incarnation: greeting.incarnation, to })?;
        Ok(answer)
    }

    /// Between this replica and another one.
    pub(super) fn ends(&self, to: NodeId) -> Ends {
        self.with(|door| Ends { from: door.me, incarnation: door.incarnation, to })
    }

    fn noted<T>(&self, result: Result<T, Status>) -> Result<T, Status> {
        result.map_err(|status| self.count(&status.message, status.code))
    }

    /// Whether what comes with this header is taken.
    pub(super) fn admit(&self, header: &Header) -> Result<(), Status> {
        self.with(|door| door.admit(header)).map_err(|why| self.refuse(&why))
    }

    /// What goes before a message to this replica.
    pub(super) fn header(&self, to: NodeId) -> Option<Header> {
        self.with(|door| door.header(to))
    }

    /// What this replica says of itself.
    pub(super) fn greeting(&self) -> Greeting {
        let identity = self.with(|door| {
            let Door { me, incarnation, standing, .. } = door.clone();
            Identity { number: self.number, node: me, incarnation, standing }
        });
        Greeting::of(&identity, &self.founders)
    }

    /// Checks that a greeting is of a group of the same name.
    fn check(&self, greeting: &Greeting) -> Result<(), Status> {
        if greeting.number == self.number {
            return Ok(());
        }
        let (found, own) = (greeting.number, self.number);
        let text = format!(
            "a replica of a group of the name {found:x} called one of {own:x}; check --group and the addresses"
        );
        Err(self.count(&text, Code::FailedPrecondition))
    }

    pub(super) fn is_member(&self) -> bool {
        self.with(|door| matches!(door.standing, Standing::Member { .. }))
    }

    /// Whether this replica belongs to this group.
    pub(super) fn is_of(&self, group: GroupId) -> bool {
        self.with(|door| matches!(&door.standing, Standing::Member { group: own, .. } if *own == group))
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.door.write().unwrap_or_else(PoisonError::into_inner).standing = standing;
    }

    pub(super) fn set_membership(&self, membership: Arc<Membership>) {
        self.door.write().unwrap_or_else(PoisonError::into_inner).membership = membership;
    }

    /// How much wasn't taken since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn refuse(&self, why: &Unwelcome) -> Status {
        self.count(&why.to_string(), Code::FailedPrecondition)
    }

    fn count(&self, why: &str, code: Code) -> Status {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let (time, said) = (now().as_nanos(), self.said.load(Ordering::Relaxed));
        let due = said == 0 || time.saturating_sub(said) >= SAY_EVERY;
        if due && self.said.compare_exchange(said, time.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(why, refused, "what another replica says isn't taken");
        }
        Status::new(code, why)
    }

    fn with<T>(&self, ask: impl FnOnce(&Door) -> T) -> T {
        greenwave_quanta::critical(|| ask(&self.door.read().unwrap_or_else(PoisonError::into_inner)))
    }
}
