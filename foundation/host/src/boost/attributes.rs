//! A thread's scheduling attributes, as the kernel gives and takes them: `sched_getattr(2)`, `sched_setattr(2)`.

use std::fmt;
use std::io;

use rustix::process::Pid;

/// How a thread is scheduled: `sched(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `SCHED_OTHER`, the usual one, and the only one in which a short slice preempts.
    Other,
    /// `SCHED_BATCH`; it never preempts when it wakes.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// One that this code doesn't know, by its number.
    Unknown(u32),
}

impl From<u32> for Policy {
    fn from(number: u32) -> Self {
        match number as i32 {
            libc::SCHED_OTHER => Self::Other,
            libc::SCHED_BATCH => Self::Batch,
            libc::SCHED_IDLE => Self::Idle,
            libc::SCHED_FIFO => Self::Fifo,
            libc::SCHED_RR => Self::RoundRobin,
            libc::SCHED_DEADLINE => Self::Deadline,
            _ => Self::Unknown(number),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.pad("other"),
            Self::Batch => f.pad("batch"),
            Self::Idle => f.pad("idle"),
            Self::Fifo => f.pad("fifo"),
            Self::RoundRobin => f.pad("rr"),
            Self::Deadline => f.pad("deadline"),
            Self::Unknown(number) => f.pad(&format!("policy {number}")),
        }
    }
}

/// What `sched_getattr` tells of a thread. What isn't touched goes back to the kernel as it came.
#[derive(Clone, Copy)]
pub(super) struct Attributes(libc::sched_attr);

impl Attributes {
    /// Those of a thread.
    pub(super) fn of(thread: Pid) -> io::Result<Self> {
        let mut attributes = nothing();
        // SAFETY: the kernel writes `size` bytes at most to the pointer, and that is what is there.
        let done = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                thread.as_raw_nonzero().get(),
                &raw mut attributes,
                attributes.size,
                0_u32,
            )
        };
        if done == 0 { Ok(Self(attributes)) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes them those of a thread.
    pub(super) fn apply(&self, thread: Pid) -> io::Result<()> {
        // SAFETY: the kernel reads as many bytes as `size` says, which is what is there.
        let done =
            unsafe { libc::syscall(libc::SYS_sched_setattr, thread.as_raw_nonzero().get(), &raw const self.0, 0_u32) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn policy(&self) -> Policy {
        self.0.sched_policy.into()
    }

    pub(super) fn nice(&self) -> i32 {
        self.0.sched_nice
    }

    /// In nanoseconds, for a thread of the usual policy; kernels without slices of a thread's own say 0.
    pub(super) fn slice(&self) -> u64 {
        self.0.sched_runtime
    }

    /// The same with another slice; 0 is the kernel's own.
    pub(super) fn with_slice(self, nanos: u64) -> Self {
        Self(libc::sched_attr { sched_runtime: nanos, ..self.0 })
    }

    /// The same for a thread of the usual policy, with whatever of it there was.
    pub(super) fn usual(self) -> Self {
        Self(libc::sched_attr { sched_policy: libc::SCHED_OTHER as u32, sched_priority: 0, ..self.0 })
    }
}

/// With the size of what was there in the first place, without the clamps of utilisation. What isn't in it is kept.
fn nothing() -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}
