//! The kernel's table of flows, read and cleaned.
//!
//! It is read in batches: one system call for thousands of flows. Guests change it at will meanwhile, and it is bounded
//! by its size; so is the time to read it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aya::maps::MapData;
use greenwave_policy::Time;
use greenwave_policy::flow::Pace;
use rustix::time::{ClockId, clock_gettime};

use super::error::AgentError;
use super::object::{Counters, Devices, Flow, Key, no_counts};

/// Flows, and devices with their counters.
pub(super) struct Table {
    /// Programs that are loaded later name it by this very descriptor, so it has to stay open.
    flows: MapData,
    devices: Mutex<Devices>,
    /// How many flows it has room for.
    pub(super) room: u32,
    /// What its flows are judged by.
    pub(super) pace: Pace,
}

impl Table {
    pub(super) fn new(flows: MapData, devices: Devices, room: u32, pace: Pace) -> Self {
        Self { flows, devices: Mutex::new(devices), room, pace }
    }

    /// Lets packets of a device be judged.
    pub(super) fn enter(&self, device: u32) -> Result<(), AgentError> {
        let refused = |cause: io::Error| AgentError::System { what: "counters for a device", cause };
        let counts = no_counts().map_err(refused)?;
        let entered = self.locked().insert(device, counts, 0);
        entered.map_err(|error| refused(io::Error::other(error.to_string())))
    }

    /// Forgets a device, and its flows with the next cleaning.
    pub(super) fn leave(&self, device: u32) {
        let _it_may_not_be_there = self.locked().remove(&device);
    }

    /// What has passed a device.
    pub(super) fn counters(&self, device: u32) -> Counters {
        self.locked().get(&device, 0).map(|each| each.iter().copied().sum()).unwrap_or_default()
    }

    /// Shows each flow. One that comes or goes meanwhile may be missed.
    pub(super) fn each(&self, mut see: impl FnMut(&Key, &Flow)) -> io::Result<()> {
        const BATCH: usize = 4096;
        let mut keys = vec![Key::default(); BATCH];
        let mut flows = vec![Flow::default(); BATCH];
        let (mut from, mut next) = (0_u32, 0_u32);
        // A table that is full is through after so many; guests can't keep us here longer.
        let most = self.room as usize / BATCH * 4 + 64;
        for round in 0..most {
            let mut batch = Batch {
                in_batch: if round == 0 { 0 } else { (&raw const from) as u64 },
                out_batch: (&raw mut next) as u64,
                keys: keys.as_mut_ptr() as u64,
                values: flows.as_mut_ptr() as u64,
                count: BATCH as u32,
                map: self.flows.fd().as_fd().as_raw_fd().cast_unsigned(),
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: both vectors have room for as many entries as the count says, of the sizes that the map was made
            // with; the cursors are 32 bits, as for every hash map; all of them outlive the call.
            let told = unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &raw mut batch) };
            let through = match told {
                Ok(()) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                Err(error) => return Err(error),
            };
            let found = (batch.count as usize).min(BATCH);
            keys[..found].iter().zip(&flows[..found]).for_each(|(key, flow)| see(key, flow));
            if through {
                return Ok(());
            }
            from = next;
        }
        Ok(())
    }

    /// Forgets flows that were quiet for so long and owe nothing, and those of devices that are gone.
    pub(super) fn clean(&self, idle: Duration, is_attached: impl Fn(u32) -> bool) -> io::Result<usize> {
        let now = now();
        let mut old = Vec::new();
        self.each(|key, flow| {
            let quiet = now.since(Time::from_nanos(flow.seen)) >= idle && flow.bucket().clears <= now;
            if quiet || !is_attached(key.device) {
                old.push(*key);
            }
        })?;
        Ok(old.iter().filter(|key| self.forget(key).is_ok()).count())
    }

    fn forget(&self, key: &Key) -> io::Result<()> {
        let mut element = Element {
            map: self.flows.fd().as_fd().as_raw_fd().cast_unsigned(),
            spare: 0,
            key: std::ptr::from_ref(key) as u64,
            value: 0,
            flags: 0,
        };
        // SAFETY: the key has the size that the map was made with, and outlives the call.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &raw mut element) }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel's clock, by which flows are dated.
pub(super) fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0);
    Time::from_nanos(nanos)
}

const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The member `batch` of `union bpf_attr`.
#[repr(C)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    elem_flags: u64,
    flags: u64,
}

/// The member of `union bpf_attr` for single elements.
#[repr(C)]
struct Element {
    map: u32,
    spare: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Calls the kernel.
///
/// # Safety
/// What the attributes point to must be as the command wants it.
unsafe fn bpf<T>(command: libc::c_long, attributes: *mut T) -> io::Result<()> {
    // SAFETY: the attributes are as large as said; what they point to is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
