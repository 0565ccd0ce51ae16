//! The pair of rings shared with the kernel, and the requests that go over it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};

use super::buffers::Buffers;

/// An io_uring instance.
///
/// It is set up so that the kernel never interrupts the thread: completions come about when the thread enters the
/// kernel, and a flag in shared memory tells when that is worth it. Such an instance belongs to one thread, the first
/// that enters it. Until then it is disabled, so that a queue may be opened on one thread and used on another.
///
/// A request names its socket by number. The caller keeps the socket open until the request's last completion was
/// taken, lest the number come to mean another socket before the request is submitted.
pub(super) struct Ring {
    io: IoUring,
    enabled: bool,
    /// Requests for which the submission ring had no entry.
    overflow: VecDeque<squeue::Entry>,
    failure: Option<io::ErrorKind>,
    pub(super) system_calls: u64,
}

impl Ring {
    /// Sets up an instance and registers the buffers with it.
    ///
    /// # Safety
    /// The buffers stay where they are until the instance is dropped and all its receives have been given back.
    pub(super) unsafe fn open(entries: u32, buffers: &Buffers) -> io::Result<Self> {
        let io = build(entries)?;
        let mut probe = Probe::new();
        io.submitter().register_probe(&mut probe)?;
        // Receives that go on by themselves came with Linux 6.0, and so did this operation, which can be asked for.
        if !probe.is_supported(opcode::SendZc::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the ring of buffers lives as long as the instance, by the caller's word.
        unsafe {
            io.submitter().register_buf_ring_with_flags(buffers.ring_address(), buffers.count(), Buffers::GROUP, 0)?;
        }
        Ok(Self { io, enabled: false, overflow: VecDeque::new(), failure: None, system_calls: 0 })
    }

    /// Accepts connections until told otherwise.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>, user_data: u64) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags.bits() as i32).build();
        // SAFETY: the request refers to no memory.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Receives into the registered buffers until told otherwise.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), Buffers::GROUP).build();
        // SAFETY: the request refers to the registered buffers only.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Receives into one of the registered buffers, no more than `most` bytes.
    pub(super) fn receive_once(&mut self, socket: BorrowedFd<'_>, most: u32, user_data: u64) {
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), most).buf_group(Buffers::GROUP);
        let entry = receive.build().flags(squeue::Flags::BUFFER_SELECT);
        // SAFETY: the request refers to the registered buffers only.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Sends bytes, as many as the socket takes.
    ///
    /// # Safety
    /// The bytes stay where they are, unchanged, until the completion was taken.
    pub(super) unsafe fn send(&mut self, socket: BorrowedFd<'_>, bytes: *const [u8], flags: SendFlags, user_data: u64) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let flags = waiting(flags);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.cast(), len).flags(flags.bits() as i32).build();
        // SAFETY: by the caller's word.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Sends bytes from several places, as many as the socket takes.
    ///
    /// # Safety
    /// The header, the slices that it names and the bytes that these name stay where they are, unchanged, until the
    /// completion was taken.
    pub(super) unsafe fn send_message(
        &mut self,
        socket: BorrowedFd<'_>,
        message: *const libc::msghdr,
        flags: SendFlags,
        user_data: u64,
    ) {
        let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), message).flags(waiting(flags).bits()).build();
        // SAFETY: by the caller's word.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Reports when a socket is writable, once.
    pub(super) fn watch_writable(&mut self, socket: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), PollFlags::OUT.bits() as u32).build();
        // SAFETY: the request refers to no memory.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Reports each time that a bell is rung, until told otherwise.
    pub(super) fn watch_bell(&mut self, bell: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::PollAdd::new(Fd(bell.as_raw_fd()), PollFlags::IN.bits() as u32).multi(true).build();
        // SAFETY: the request refers to no memory.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Ends a request, which completes in any case.
    pub(super) fn cancel(&mut self, target: u64, user_data: u64) {
        let entry = opcode::AsyncCancel::new(target).build();
        // SAFETY: the request refers to no memory.
        unsafe { self.push(entry.user_data(user_data)) }
    }

    /// Whether entering the kernel would do something: requests to hand over, or completions to bring about.
    #[inline]
    pub(super) fn needs_kernel(&mut self) -> bool {
        let requests = self.io.submission();
        !requests.is_empty() || requests.taskrun() || requests.cq_overflow()
    }

    /// Whether a completion can be taken without entering the kernel.
    pub(super) fn has_completion(&mut self) -> bool {
        !self.io.completion().is_empty()
    }

    /// Takes completions, so many at most.
    #[inline]
    pub(super) fn take(&mut self, most: usize, into: &mut VecDeque<cqueue::Entry>) {
        into.extend(self.io.completion().take(most));
    }

    /// Hands over requests and brings completions about, without waiting.
    pub(super) fn enter(&mut self) {
        self.ready();
        loop {
            self.refill();
            self.system_calls += 1;
            let submitted = self.io.submitter().submit_and_wait(0);
            if !self.settle(submitted) || self.overflow.is_empty() {
                return;
            }
        }
    }

    /// Hands over requests and waits for a completion.
    pub(super) fn enter_and_wait(&mut self, timeout: Option<Duration>) {
        self.ready();
        self.refill();
        self.system_calls += 1;
        let submitter = self.io.submitter();
        let submitted = match timeout {
            Some(span) => submitter.submit_with_args(1, &SubmitArgs::new().timespec(&Timespec::from(span))),
            None => submitter.submit_and_wait(1),
        };
        self.settle(submitted);
    }

    /// Why the instance is of no use any more, if it is not.
    pub(super) fn failure(&self) -> Option<io::ErrorKind> {
        self.failure
    }

    /// Whether the kernel may have seen requests.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Ties the instance to this thread, the first time.
    fn ready(&mut self) {
        if !self.enabled {
            let enabled = self.io.submitter().register_enable_rings();
            self.enabled = self.settle(enabled.map(|()| 0));
        }
    }

    /// # Safety
    /// What the entry refers to stays as it is until the request's last completion was taken.
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: by the caller's word.
        if self.overflow.is_empty() && unsafe { self.io.submission().push(&entry) }.is_ok() {
            return;
        }
        self.overflow.push_back(entry);
    }

    fn refill(&mut self) {
        let mut requests = self.io.submission();
        while let Some(entry) = self.overflow.front() {
            // SAFETY: by the word of whoever called `push` with this entry.
            if unsafe { requests.push(entry) }.is_err() {
                return;
            }
            self.overflow.pop_front();
        }
    }

    /// Notes how a system call went. False: nothing more can be done now.
    fn settle(&mut self, result: io::Result<usize>) -> bool {
        let Err(error) = result else { return true };
        match Errno::from_io_error(&error) {
            // Interrupted, timed out, short of memory, or there are completions to be taken first: later.
            Some(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY) => false,
            // Most likely this is another thread than the one that the instance is tied to.
            _ => {
                self.failure.get_or_insert(error.kind());
                false
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("enabled", &self.enabled).field("failure", &self.failure).finish_non_exhaustive()
    }
}

/// The flags of a send that completes when the socket has room.
fn waiting(flags: SendFlags) -> SendFlags {
    flags.difference(SendFlags::DONTWAIT)
}

/// Sets up an instance, disabled, in the way that costs least among those that the kernel offers.
fn build(entries: u32) -> io::Result<IoUring> {
    let builder = || {
        let mut builder = IoUring::builder();
        builder.setup_r_disabled().setup_cqsize(entries * 4).setup_clamp().setup_submit_all().setup_coop_taskrun();
        builder.setup_taskrun_flag().dontfork();
        builder
    };
    let deferred = builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    match deferred {
        // Before Linux 6.1.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => builder().build(entries),
        built => built,
    }
}
