//! An endpoint with its buffers: receives that are kept posted, and messages on their way out.

use std::collections::HashMap;
use std::mem::ManuallyDrop;

use super::graves;
use super::shim::{Buffer, Completion, Context, FabricError, Memory, RawEndpoint, Registration, code};
use super::wire::HEADER;
use crate::framing::PREFIX;

/// An endpoint of a queue, its buffers, and the peers that it knows.
///
/// Invariants:
/// 1. A receive buffer is posted, or it is being handled, or it is in `unposted`.
/// 2. A send buffer is free, or belongs to one connection's outbox, or libfabric reads it. `owners` names the
///    connection, for the case that sending fails.
/// 3. The endpoint is shut before the memory of a slab is given back.
#[derive(Debug)]
pub(crate) struct Port {
    body: ManuallyDrop<Body>,
    is_shared: bool,
    free: Vec<u32>,
    owners: Vec<u64>,
    unposted: Vec<u32>,
    peers: HashMap<Box<[u8]>, Peer>,
    /// Peers without connections that are to be forgotten once no send is under way.
    leaving: usize,
    /// Sends that libfabric has not completed.
    pub(crate) under_way: usize,
    /// Length of the longest message, in bytes.
    pub(crate) message_bytes: usize,
    pub(crate) inject_bytes: usize,
    batch: [Completion; BATCH],
    next: usize,
    fetched: usize,
    keys: u64,
}

/// What libfabric has to do with.
#[derive(Debug)]
pub(super) struct Body {
    endpoint: RawEndpoint,
    receives: Slab,
    sends: Vec<Slab>,
}

#[derive(Debug)]
struct Peer {
    number: u64,
    connections: usize,
}

/// What a completion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A message lies in this receive buffer.
    Received { buffer: u32, len: usize },
    /// This send buffer is free again.
    Sent { buffer: u32 },
    /// Nothing that concerns anybody.
    Nothing,
}

/// What became of a message that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    Over,
    /// Not now.
    Later,
    /// Never: an error of libfabric, positive.
    Failed(i32),
}

/// Completions that one call fetches.
pub(crate) const BATCH: usize = 16;

/// The bit of a tag that says that the buffer is one to send from.
const SEND: u32 = 1 << 31;

impl Port {
    /// Send buffers that are made at a time.
    const SENDS: usize = 32;

    pub(crate) fn open(
        provider: &'static str,
        source: Option<&str>,
        chunk_bytes: usize,
        receives: usize,
    ) -> Result<Self, FabricError> {
        let mut endpoint = RawEndpoint::open(provider, source, receives)?;
        let message_bytes = HEADER + PREFIX + chunk_bytes;
        let receives = receives.min(endpoint.facts.receives as usize);
        let slab = Slab::new(&mut endpoint, message_bytes, receives, 0, 1)?;
        let is_shared = provider == "shm";
        if is_shared {
            graves::enter(endpoint.name());
        }
        let mut port = Self {
            inject_bytes: endpoint.facts.inject_bytes as usize,
            body: ManuallyDrop::new(Body { endpoint, receives: slab, sends: Vec::new() }),
            is_shared,
            free: Vec::new(),
            owners: Vec::new(),
            unposted: (0..receives as u32).rev().collect(),
            peers: HashMap::new(),
            leaving: 0,
            under_way: 0,
            message_bytes,
            batch: [Completion::NONE; BATCH],
            next: 0,
            fetched: 0,
            keys: 1,
        };
        port.post();
        Ok(port)
    }

    /// The endpoint's address, to be told to its peers.
    pub(crate) fn name(&self) -> &[u8] {
        self.body.endpoint.name()
    }

    /// Takes in a connection to a peer, by the name that it told.
    pub(crate) fn meet(&mut self, name: &[u8]) -> Result<u64, FabricError> {
        if let Some(peer) = self.peers.get_mut(name) {
            self.leaving -= usize::from(peer.connections == 0);
            peer.connections += 1;
            return Ok(peer.number);
        }
        if self.is_shared {
            graves::bind(self.body.endpoint.name(), name);
        }
        let number = self.body.endpoint.insert(name)?;
        self.peers.insert(name.into(), Peer { number, connections: 1 });
        Ok(number)
    }

    /// A connection to a peer is over. A peer is forgotten with its last one.
    pub(crate) fn part(&mut self, name: &[u8]) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        peer.connections -= 1;
        if peer.connections == 0 {
            self.leaving += 1;
            self.forget();
        }
    }

    /// Forgets who is to be forgotten. Not while a send is under way: it may be to one of them.
    fn forget(&mut self) {
        if self.under_way > 0 || self.leaving == 0 {
            return;
        }
        self.leaving = 0;
        let endpoint = &mut self.body.endpoint;
        self.peers.retain(|_, peer| {
            if peer.connections == 0 {
                endpoint.remove(peer.number);
            }
            peer.connections > 0
        });
    }

    /// Makes progress, and fetches completions unless there are some that nobody has taken yet. Says how many there are.
    /// `failed` is told of connections whose message was not sent, and why. An error is the end of the port.
    #[inline]
    pub(crate) fn fetch(&mut self, failed: &mut dyn FnMut(u64, i32)) -> Result<usize, FabricError> {
        if self.next < self.fetched {
            return Ok(self.fetched - self.next);
        }
        match self.body.endpoint.read(&mut self.batch) {
            code::AGAIN => Ok(0),
            count @ 0.. => {
                (self.next, self.fetched) = (0, count as usize);
                Ok(self.fetched)
            }
            error => self.fail(error, failed),
        }
    }

    #[cold]
    fn fail(&mut self, error: isize, failed: &mut dyn FnMut(u64, i32)) -> Result<usize, FabricError> {
        if error != code::ERROR_WAITS {
            return Err(FabricError { doing: "fi_cq_read".to_owned(), provider: None, code: -error as i32 });
        }
        while let Some((tag, error)) = self.body.endpoint.read_error() {
            match tag {
                Some(tag) if tag & SEND != 0 => {
                    let owner = self.owners.get((tag & !SEND) as usize).copied();
                    self.release_sent(tag & !SEND);
                    owner.into_iter().for_each(|owner| failed(owner, error));
                }
                Some(tag) if error != code::CANCELED => self.repost(tag),
                _ => {}
            }
        }
        Ok(0)
    }

    /// The next of the completions that were fetched.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<Done> {
        if self.next == self.fetched {
            return None;
        }
        let completion = self.batch[self.next];
        self.next += 1;
        Some(self.what(&completion))
    }

    #[inline]
    fn what(&self, completion: &Completion) -> Done {
        match completion.tag() {
            Some(tag) if tag & SEND != 0 => Done::Sent { buffer: tag & !SEND },
            Some(buffer) => Done::Received { buffer, len: completion.len.min(self.message_bytes) },
            None => Done::Nothing,
        }
    }

    /// What lies in a receive buffer.
    ///
    /// # Safety
    /// The buffer was reported, and is not posted again before the caller is done with the bytes.
    #[inline]
    pub(crate) unsafe fn received<'a>(&self, buffer: u32, len: usize) -> &'a [u8] {
        // SAFETY: the buffer is of that length at least, and lives as long as the port; libfabric is done with it, for
        // which the caller answers.
        unsafe { std::slice::from_raw_parts(self.body.receives.buffer(buffer).start, len.min(self.message_bytes)) }
    }

    /// Posts a receive buffer again.
    #[inline]
    pub(crate) fn repost(&mut self, buffer: u32) {
        self.unposted.push(buffer);
        self.post();
    }

    #[inline]
    fn post(&mut self) {
        while let Some(&buffer) = self.unposted.last() {
            let body = &mut *self.body;
            // SAFETY: nobody has the buffer, and it lives until the endpoint is shut.
            if unsafe { body.endpoint.receive(body.receives.buffer(buffer)) } != 0 {
                return;
            }
            self.unposted.pop();
        }
    }

    /// A buffer to write a message of this connection into.
    pub(crate) fn take(&mut self, owner: u64) -> Result<u32, FabricError> {
        if self.free.is_empty() {
            let first = self.owners.len() as u32;
            let slab =
                Slab::new(&mut self.body.endpoint, self.message_bytes, Self::SENDS, first | SEND, self.keys + 1)?;
            self.keys += 1;
            self.body.sends.push(slab);
            self.owners.resize(self.owners.len() + Self::SENDS, 0);
            self.free.extend((first..first + Self::SENDS as u32).rev());
        }
        let buffer = self.free.pop().unwrap_or_default();
        self.owners[buffer as usize] = owner;
        Ok(buffer)
    }

    #[inline]
    fn send_buffer(&self, buffer: u32) -> Buffer {
        let index = buffer as usize;
        self.body.sends[index / Self::SENDS].buffer((index % Self::SENDS) as u32)
    }

    /// The bytes of a send buffer that was taken and not handed over.
    #[inline]
    pub(crate) fn bytes(&mut self, buffer: u32) -> &mut [u8] {
        // SAFETY: the buffer is of that length, libfabric doesn't have it, and the exclusive reference to the port is
        // held as long as the bytes are.
        unsafe { std::slice::from_raw_parts_mut(self.send_buffer(buffer).start, self.message_bytes) }
    }

    /// Hands over a message of `len` bytes in a buffer that was taken. If it is over, the buffer is gone.
    #[inline]
    pub(crate) fn send(&mut self, buffer: u32, len: usize, peer: u64) -> Handed {
        let whole = self.send_buffer(buffer);
        let result = if len <= self.inject_bytes {
            // SAFETY: as for `bytes`.
            self.body.endpoint.inject(unsafe { std::slice::from_raw_parts(whole.start, len) }, peer)
        } else {
            // SAFETY: the buffer was taken, so nobody else has it, and it isn't given out before it is complete.
            unsafe { self.body.endpoint.send(Buffer { bytes: len, ..whole }, peer) }
        };
        match result {
            0 if len <= self.inject_bytes => self.free.push(buffer),
            0 => self.under_way += 1,
            code::AGAIN => return Handed::Later,
            other => return Handed::Failed(-other as i32),
        }
        Handed::Over
    }

    /// Gives back a buffer that was taken and not handed over.
    pub(crate) fn give_back(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// A send is complete.
    #[inline]
    pub(crate) fn release_sent(&mut self, buffer: u32) {
        self.under_way = self.under_way.saturating_sub(1);
        self.free.push(buffer);
        if self.leaving > 0 {
            self.forget();
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: this is the end of the port, and its last use of the body.
        let body = unsafe { ManuallyDrop::take(&mut self.body) };
        if self.is_shared {
            let name: Box<[u8]> = body.endpoint.name().into();
            graves::bury(&name, body);
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.endpoint.shut();
        self.receives.registration = None;
        self.sends.clear();
    }
}

/// Buffers of one length in one piece of memory, with a context for each.
#[derive(Debug)]
struct Slab {
    memory: Memory,
    stride: usize,
    bytes: usize,
    contexts: Contexts,
    registration: Option<Registration>,
}

/// Contexts, which libfabric writes to while operations are under way, so that they are reached by their address alone.
#[derive(Debug)]
struct Contexts(std::ptr::NonNull<Context>, usize);

// SAFETY: a slab is plain memory, reached through its port alone.
unsafe impl Send for Slab {}

impl Slab {
    fn new(
        endpoint: &mut RawEndpoint,
        bytes: usize,
        count: usize,
        first_tag: u32,
        key: u64,
    ) -> Result<Self, FabricError> {
        // An odd number of cache lines, so that the beginnings of the buffers don't all fall into the same sets.
        let stride = (bytes.div_ceil(64) | 1) * 64;
        let memory = Memory::new(stride * count);
        let registration = if endpoint.facts.is_registered == 1 {
            // SAFETY: the registration lives in the slab, and is dropped before the memory.
            Some(unsafe { endpoint.register(&memory, key) }?)
        } else {
            None
        };
        let contexts: Box<[Context]> = (0..count as u32).map(|index| Context::new(first_tag + index)).collect();
        let contexts = Contexts(std::ptr::NonNull::from(Box::leak(contexts)).cast(), count);
        Ok(Self { memory, stride, bytes, contexts, registration })
    }

    #[inline]
    fn buffer(&self, index: u32) -> Buffer {
        let index = index as usize;
        assert!(index < self.contexts.1, "the index of a buffer comes from the slab");
        // SAFETY: the index was checked, so both lie within their allocations.
        let (start, context) =
            unsafe { (self.memory.start.as_ptr().add(index * self.stride), self.contexts.0.as_ptr().add(index)) };
        let descriptor = self.registration.as_ref().map_or(std::ptr::null_mut(), |it| it.descriptor);
        Buffer { start, bytes: self.bytes, descriptor, context }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.registration = None;
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        // SAFETY: made of such a box, and the endpoint, which wrote to it, is shut.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.0.as_ptr(), self.1)) });
    }
}
