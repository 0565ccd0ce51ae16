//! What carries packets from one node to another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use tun_rs::SyncDevice;

use super::packet;

/// Packets that may be on their way at a time; what is more is lost, as in a queue that is full.
const ON_THEIR_WAY: usize = 20_000;

/// Bytes of the longest packet.
const LONGEST: usize = 1 << 16;

/// How a link treats packets. Shares are of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Nothing comes through.
    pub(crate) cut: bool,
    /// So long each packet takes.
    pub(crate) delay: Duration,
    /// So much longer it may take. Packets stay in order, but for those that are to overtake.
    pub(crate) jitter: Duration,
    /// How many are lost.
    pub(crate) loss: u32,
    /// How many come twice.
    pub(crate) duplicate: u32,
    /// How many are held back, so that others overtake them.
    pub(crate) reorder: u32,
    /// How many have a bit flipped.
    pub(crate) corrupt: u32,
    /// How many have bytes changed with their checksum still right.
    pub(crate) forge: u32,
}

/// What was done to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spoiled {
    /// All that were sent.
    pub(crate) packets: u64,
    /// Lost, by a cut or by chance.
    pub(crate) lost: u64,
    /// Sent twice.
    pub(crate) duplicated: u64,
    /// Held back.
    pub(crate) reordered: u64,
    /// With a flipped bit.
    pub(crate) corrupted: u64,
    /// With bytes changed, unseen by TCP.
    pub(crate) forged: u64,
}

#[derive(Default)]
struct Counts {
    packets: AtomicU64,
    lost: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    corrupted: AtomicU64,
    forged: AtomicU64,
}

/// A packet on its way: when it is there, its number, for whom it is.
type Sent = Reverse<(Instant, u64, usize, Vec<u8>)>;

/// The switch, whose threads run until the process ends.
pub(super) struct Switch {
    devices: Vec<SyncDevice>,
    /// By sender, then by receiver.
    links: Vec<Vec<Mutex<Link>>>,
    counts: Counts,
    late: Mutex<BinaryHeap<Sent>>,
    sooner: Condvar,
}

impl Switch {
    pub(super) fn start(devices: Vec<SyncDevice>, seed: u64) -> Arc<Self> {
        let nodes = devices.len();
        let links = (0..nodes).map(|_| (0..nodes).map(|_| Mutex::default()).collect()).collect();
        let (late, sooner) = (Mutex::default(), Condvar::new());
        let switch = Arc::new(Self { devices, links, counts: Counts::default(), late, sooner });
        for node in 0..nodes {
            let (switch, draw) = (Arc::clone(&switch), ChaCha8Rng::seed_from_u64(seed ^ (node as u64 + 1) << 32));
            thread::spawn(move || switch.read(node, draw));
        }
        let late = Arc::clone(&switch);
        thread::spawn(move || late.deliver_late());
        switch
    }

    pub(super) fn set(&self, from: usize, to: usize, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.get(from).and_then(|links| links.get(to)) {
            change(&mut held(link));
        }
    }

    pub(super) fn spoiled(&self) -> Spoiled {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { packets, lost, duplicated, reordered, corrupted, forged } = &self.counts;
        Spoiled {
            packets: read(packets),
            lost: read(lost),
            duplicated: read(duplicated),
            reordered: read(reordered),
            corrupted: read(corrupted),
            forged: read(forged),
        }
    }

    /// Takes what a node sends.
    fn read(&self, from: usize, mut draw: ChaCha8Rng) {
        let mut buffer = vec![0; LONGEST];
        // When the last packet of each link is there, so that the next one doesn't overtake it.
        let mut last: Vec<Option<Instant>> = vec![None; self.devices.len()];
        let mut number = 0;
        while let Ok(length) = self.devices[from].recv(&mut buffer) {
            let sent = &mut buffer[..length];
            let to = packet::destination(sent).and_then(|to| usize::from(to).checked_sub(1));
            let Some(to) = to.filter(|to| *to < self.devices.len()) else { continue };
            let link = *held(&self.links[from][to]);
            let mut happens = |share: u32| share > 0 && draw.next_u32() % 1000 < share;
            count(&self.counts.packets);
            if link.cut || happens(link.loss) {
                count(&self.counts.lost);
                continue;
            }
            let (twice, held_back, corrupts, forges) =
                (happens(link.duplicate), happens(link.reorder), happens(link.corrupt), happens(link.forge));
            if corrupts {
                packet::corrupt(sent, draw.next_u64());
                count(&self.counts.corrupted);
            }
            if forges && packet::forge(sent, draw.next_u64()) {
                count(&self.counts.forged);
            }
            let now = Instant::now();
            let jitter = link.jitter.mul_f64(f64::from(draw.next_u32()) / f64::from(u32::MAX));
            let mut at = now + link.delay + jitter;
            if held_back {
                count(&self.counts.reordered);
                at += Duration::from_millis(3) + link.delay / 2;
            } else {
                at = last[to].map_or(at, |last| at.max(last));
                last[to] = (at > now).then_some(at);
            }
            number += 1;
            if twice {
                count(&self.counts.duplicated);
                self.send(now, at, number, to, sent);
            }
            self.send(now, at, number, to, sent);
        }
    }

    fn send(&self, now: Instant, at: Instant, number: u64, to: usize, sent: &[u8]) {
        if at <= now {
            self.deliver(to, sent);
            return;
        }
        let mut late = held(&self.late);
        if late.len() < ON_THEIR_WAY {
            late.push(Reverse((at, number, to, sent.to_vec())));
            self.sooner.notify_one();
        } else {
            count(&self.counts.lost);
        }
    }

    /// The node's queue may be full, or the node gone: then the packet is lost.
    fn deliver(&self, to: usize, sent: &[u8]) {
        if self.devices[to].send(sent).is_err() {
            count(&self.counts.lost);
        }
    }

    fn deliver_late(&self) {
        let mut late = held(&self.late);
        loop {
            let now = Instant::now();
            let wait = late.peek().map(|Reverse(first)| first.0.saturating_duration_since(now));
            late = match wait {
                None => self.sooner.wait(late).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let due = late.pop();
                    drop(late);
                    due.into_iter().for_each(|Reverse((_, _, to, sent))| self.deliver(to, &sent));
                    held(&self.late)
                }
                Some(wait) => self.sooner.wait_timeout(late, wait).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
