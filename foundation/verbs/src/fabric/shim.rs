//! libfabric, as shim.c hands it over: one endpoint and what belongs to it, safe to close in any state.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::ptr::{NonNull, null, null_mut};

/// An error of libfabric, in its words, with what was being done.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing}{} failed: {} (libfabric error {code})", of(.provider), text_of(*.code))]
pub(crate) struct FabricError {
    /// The function of libfabric.
    pub(crate) doing: String,
    /// The provider that was asked for, if it was one.
    pub(crate) provider: Option<&'static str>,
    /// Positive. The low ones are those of the system.
    pub(crate) code: i32,
}

impl From<FabricError> for io::Error {
    fn from(error: FabricError) -> Self {
        let kind = match error.code {
            code::NO_DATA | code::NO_SYSTEM => io::ErrorKind::Unsupported,
            low @ 1..=133 => Self::from_raw_os_error(low).kind(),
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

fn of(provider: &Option<&'static str>) -> String {
    provider.map_or_else(String::new, |name| format!(" with the provider `{name}`"))
}

fn text_of(code: i32) -> String {
    // SAFETY: the function takes any number, and what it returns is a constant of the library, ending in NUL.
    unsafe { CStr::from_ptr(greenwave_fabric_error(code)) }.to_string_lossy().into_owned()
}

/// Errors of libfabric that mean something to the caller.
pub(crate) mod code {
    /// FI_EAGAIN: not now.
    pub(crate) const AGAIN: isize = -11;
    /// FI_EAVAIL: the next completion is an error.
    pub(crate) const ERROR_WAITS: isize = -259;
    /// FI_ECANCELED: given back because the endpoint closes.
    pub(crate) const CANCELED: i32 = 125;
    /// FI_ENODATA: no provider offers what was asked for.
    pub(crate) const NO_DATA: i32 = 61;
    /// FI_ENOSYS.
    pub(crate) const NO_SYSTEM: i32 = 38;
}

/// What libfabric may write to while an operation is under way, and by which its owner knows the operation again.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Context {
    internal: [usize; 8],
    pub(crate) tag: u32,
}

impl Context {
    pub(crate) fn new(tag: u32) -> Self {
        Self { internal: [0; 8], tag }
    }
}

/// A completion, as libfabric writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    context: *const Context,
    flags: u64,
    /// Bytes that were received; means nothing for sends.
    pub(crate) len: usize,
}

// SAFETY: a context belongs to the port whose completion this is, and moves between threads with it.
unsafe impl Send for Completion {}

impl Completion {
    pub(crate) const NONE: Self = Self { context: null(), flags: 0, len: 0 };

    /// The tag of the operation's context.
    pub(crate) fn tag(&self) -> Option<u32> {
        // SAFETY: a context is null, or one that was passed to libfabric, whose owner keeps it until the port is closed.
        unsafe { self.context.as_ref() }.map(|context| context.tag)
    }
}

/// What an endpoint is like.
#[repr(C)]
pub(crate) struct Facts {
    /// Messages up to this length are copied by the send, which then has no completion.
    pub(crate) inject_bytes: u64,
    /// Receives that can be posted.
    pub(crate) receives: u64,
    /// Sends that can be under way.
    pub(crate) sends: u64,
    /// The longest message.
    pub(crate) message_bytes: u64,
    /// 1: buffers must be registered.
    pub(crate) is_registered: u32,
    name_bytes: u32,
    provider: [c_char; 64],
    name: [u8; 256],
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("inject_bytes", &self.inject_bytes).finish_non_exhaustive()
    }
}

#[repr(C)]
struct RawPort {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawMemory {
    _opaque: [u8; 0],
}

// SAFETY: as shim.c defines them.
unsafe extern "C" {
    fn greenwave_fabric_error(error: c_int) -> *const c_char;
    fn greenwave_fabric_offers(provider: *const c_char, source: *const c_char) -> c_int;
    fn greenwave_port_open(
        provider: *const c_char,
        source: *const c_char,
        receives: usize,
        out: *mut *mut RawPort,
        facts: *mut Facts,
        doing: *mut *const c_char,
    ) -> c_int;
    fn greenwave_port_close(port: *mut RawPort);
    fn greenwave_port_shut(port: *mut RawPort);
    fn greenwave_port_register(
        port: *mut RawPort,
        memory: *mut c_void,
        bytes: usize,
        key: u64,
        out: *mut *mut RawMemory,
        descriptor: *mut *mut c_void,
    ) -> c_int;
    fn greenwave_memory_close(memory: *mut RawMemory);
    fn greenwave_port_insert(port: *mut RawPort, name: *const u8, peer: *mut u64) -> c_int;
    fn greenwave_port_remove(port: *mut RawPort, peer: u64) -> c_int;
    fn greenwave_port_read(port: *mut RawPort, entries: *mut Completion, count: usize) -> isize;
    fn greenwave_port_read_error(port: *mut RawPort, context: *mut *const Context, error: *mut c_int) -> isize;
    fn greenwave_port_receive(
        port: *mut RawPort,
        buffer: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut Context,
    ) -> isize;
    fn greenwave_port_send(
        port: *mut RawPort,
        buffer: *const u8,
        bytes: usize,
        descriptor: *mut c_void,
        peer: u64,
        context: *mut Context,
    ) -> isize;
    fn greenwave_port_inject(port: *mut RawPort, buffer: *const u8, bytes: usize, peer: u64) -> isize;
}

/// Asks whether a provider, or any, offers reliable datagrams from a source.
pub(crate) fn offers(provider: Option<&'static str>, source: Option<&str>) -> Result<(), FabricError> {
    let (name, source) = (provider.map(terminated), source.map(terminated));
    // SAFETY: both are null or end in NUL.
    let result = unsafe { greenwave_fabric_offers(pointer(name.as_ref()), pointer(source.as_ref())) };
    succeeded(result as isize, "fi_getinfo", provider)
}

fn terminated(text: &str) -> CString {
    // What is passed are constants and addresses of the network or names that were checked; none holds a NUL.
    CString::new(text).unwrap_or_default()
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(null(), |text| text.as_ptr())
}

fn succeeded(result: isize, doing: &str, provider: Option<&'static str>) -> Result<(), FabricError> {
    if result >= 0 { Ok(()) } else { Err(FabricError { doing: doing.to_owned(), provider, code: -result as i32 }) }
}

/// An endpoint with its completion queue and its table of peers.
#[derive(Debug)]
pub(crate) struct RawEndpoint {
    raw: NonNull<RawPort>,
    provider: &'static str,
    pub(crate) facts: Box<Facts>,
}

// SAFETY: libfabric ties nothing to a thread, and is asked for FI_THREAD_DOMAIN, which one thread at a time satisfies:
// all calls take the endpoint, the only handle of its domain, by an exclusive reference.
unsafe impl Send for RawEndpoint {}

impl RawEndpoint {
    /// Opens an endpoint. `source`: an address of the network, or the name of a shared memory region with `://`.
    pub(crate) fn open(provider: &'static str, source: Option<&str>, receives: usize) -> Result<Self, FabricError> {
        let (name, source) = (terminated(provider), source.map(terminated));
        let (mut raw, mut doing) = (null_mut(), null());
        let mut facts = Box::new(Facts {
            inject_bytes: 0,
            receives: 0,
            sends: 0,
            message_bytes: 0,
            is_registered: 0,
            name_bytes: 0,
            provider: [0; 64],
            name: [0; 256],
        });
        // SAFETY: texts end in NUL, and all that is written to lives here.
        let result = unsafe {
            greenwave_port_open(
                name.as_ptr(),
                pointer(source.as_ref()),
                receives,
                &raw mut raw,
                &raw mut *facts,
                &raw mut doing,
            )
        };
        // SAFETY: set by the call to a constant that ends in NUL.
        let doing = unsafe { CStr::from_ptr(doing) }.to_string_lossy();
        succeeded(result as isize, &doing, Some(provider))?;
        let raw = NonNull::new(raw).ok_or(FabricError {
            doing: doing.into_owned(),
            provider: Some(provider),
            code: code::NO_SYSTEM,
        })?;
        Ok(Self { raw, provider, facts })
    }

    /// The endpoint's address, to be told to its peers.
    pub(crate) fn name(&self) -> &[u8] {
        &self.facts.name[..(self.facts.name_bytes as usize).min(self.facts.name.len())]
    }

    /// Registers memory for sends and receives.
    ///
    /// # Safety
    /// The memory stays valid until the registration is dropped.
    pub(crate) unsafe fn register(&mut self, memory: &Memory, key: u64) -> Result<Registration, FabricError> {
        let (mut out, mut descriptor) = (null_mut(), null_mut());
        let (start, bytes) = (memory.start.as_ptr().cast(), memory.bytes);
        // SAFETY: the caller answers for the memory, the rest lives here.
        let result =
            unsafe { greenwave_port_register(self.raw.as_ptr(), start, bytes, key, &raw mut out, &raw mut descriptor) };
        succeeded(result as isize, "fi_mr_reg", Some(self.provider))?;
        Ok(Registration { raw: out, descriptor })
    }

    /// Ends everything that is posted. Nothing can be done with the endpoint any more but to drop it.
    pub(crate) fn shut(&mut self) {
        // SAFETY: nothing else refers to it.
        unsafe { greenwave_port_shut(self.raw.as_ptr()) };
    }

    /// Takes a peer in, by the name that it told. The name was checked to be as long as this endpoint's own, which
    /// makes it as long as the provider's names are.
    pub(crate) fn insert(&mut self, name: &[u8]) -> Result<u64, FabricError> {
        let mut copy = [0; 257];
        if name.len() >= copy.len() {
            return Err(FabricError { doing: "fi_av_insert".to_owned(), provider: Some(self.provider), code: 22 });
        }
        copy[..name.len()].copy_from_slice(name);
        let mut peer = 0;
        // SAFETY: names of a provider are of a fixed length, or end in NUL; the copy is longer than the longest.
        let result = unsafe { greenwave_port_insert(self.raw.as_ptr(), copy.as_ptr(), &raw mut peer) };
        succeeded(result as isize, "fi_av_insert", Some(self.provider)).map(|()| peer)
    }

    /// Forgets a peer.
    pub(crate) fn remove(&mut self, peer: u64) {
        // SAFETY: the call takes any number. An error means that the peer isn't known, which is what was wanted.
        unsafe { greenwave_port_remove(self.raw.as_ptr(), peer) };
    }

    /// Makes progress and reads completions. Negative: an error of libfabric.
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [Completion]) -> isize {
        // SAFETY: the entries are as libfabric writes them, and as many as said.
        unsafe { greenwave_port_read(self.raw.as_ptr(), into.as_mut_ptr(), into.len()) }
    }

    /// The completion at the front, an error: the tag of the operation, if it has one, and the error.
    pub(crate) fn read_error(&mut self) -> Option<(Option<u32>, i32)> {
        let (mut context, mut error) = (null(), 0);
        // SAFETY: all that is written to lives here.
        let count = unsafe { greenwave_port_read_error(self.raw.as_ptr(), &raw mut context, &raw mut error) };
        (count > 0).then(|| (Completion { context, flags: 0, len: 0 }.tag(), error))
    }

    /// Posts a buffer to receive into.
    ///
    /// # Safety
    /// Buffer and context stay valid, and nobody else touches them, until the operation completes or the endpoint is
    /// closed.
    #[inline]
    pub(crate) unsafe fn receive(&mut self, buffer: Buffer) -> isize {
        let Buffer { start, bytes, descriptor, context } = buffer;
        // SAFETY: for the caller to see to.
        unsafe { greenwave_port_receive(self.raw.as_ptr(), start, bytes, descriptor, context) }
    }

    /// Sends a message that stays where it is until the completion.
    ///
    /// # Safety
    /// As for [`receive`](Self::receive), but reading is allowed.
    #[inline]
    pub(crate) unsafe fn send(&mut self, buffer: Buffer, peer: u64) -> isize {
        let Buffer { start, bytes, descriptor, context } = buffer;
        // SAFETY: for the caller to see to.
        unsafe { greenwave_port_send(self.raw.as_ptr(), start, bytes, descriptor, peer, context) }
    }

    /// Sends a short message that is copied; there is no completion.
    #[inline]
    pub(crate) fn inject(&mut self, message: &[u8], peer: u64) -> isize {
        // SAFETY: the message is read before the call returns.
        unsafe { greenwave_port_inject(self.raw.as_ptr(), message.as_ptr(), message.len(), peer) }
    }
}

impl Drop for RawEndpoint {
    fn drop(&mut self) {
        // SAFETY: nothing else refers to it. What was posted is given back by this; its owner keeps the memory longer.
        unsafe { greenwave_port_close(self.raw.as_ptr()) };
    }
}

/// What one operation works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) descriptor: *mut c_void,
    pub(crate) context: *mut Context,
}

/// Memory that operations work on while Rust looks away, so that it is reached by its address alone.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let memory: Box<[u8]> = vec![0; bytes].into_boxed_slice();
        let start = NonNull::from(Box::leak(memory)).cast();
        Self { start, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let all = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes);
        // SAFETY: made of such a box, and nobody reaches it any more.
        drop(unsafe { Box::from_raw(all) });
    }
}

/// Memory made known to an endpoint. To be dropped before the endpoint, which then is no longer used.
#[derive(Debug)]
pub(crate) struct Registration {
    raw: *mut RawMemory,
    pub(crate) descriptor: *mut c_void,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: made by fi_mr_reg, and closed once.
        unsafe { greenwave_memory_close(self.raw) };
    }
}
