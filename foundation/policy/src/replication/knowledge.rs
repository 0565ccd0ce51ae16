//! What the controller knows of the group: what it would fill into an environment.

use super::bandwidth::Bandwidth;
use super::environment::{Cpu, Disk, Environment, Limit, Network, Sizes};
use super::estimate::{Fit, Mean, Syncs};
use super::instance::duration;
use super::measure::Measure;
use super::peer::{Peer, PeerId, PeerSpan};
use super::setting::Setting;
use crate::time::Time;
use std::time::Duration;

/// Everything that is estimated.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    peers: Vec<Peer>,
    /// The follower that completes the quorum.
    pub(super) quorum: Option<PeerId>,
    /// Of messages, commands and their bytes, in this order: what is as much a command's as its bytes' goes to the command.
    pub(super) cpu: Fit<3>,
    pub(super) syncs: Syncs,
    pub(super) entries: Totals,
    pub(super) answers: Totals,
}

/// Things, their bytes, and the average size of those of the last few spans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    things: u64,
    bytes: u64,
    size: Mean,
}

impl Knowledge {
    pub(super) const fn new() -> Self {
        Self {
            peers: Vec::new(),
            quorum: None,
            cpu: Fit::new([0.0; 3]),
            syncs: Syncs::new(),
            entries: Totals::NONE,
            answers: Totals::NONE,
        }
    }

    pub(super) fn add_peer(&mut self, peer: PeerId) {
        if self.peer(peer).is_none() {
            self.peers.push(Peer::new(peer));
        }
    }

    pub(super) fn remove_peer(&mut self, peer: PeerId) {
        self.peers.retain(|known| known.id != peer);
        self.quorum = self.quorum.filter(|quorum| *quorum != peer);
    }

    pub(super) fn peer(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.iter().find(|known| known.id == peer)
    }

    #[inline]
    pub(super) fn peer_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|known| known.id == peer)
    }

    /// A span has ended in which `in_force` was set, and came to `measure`. What was seen of the quorum's path, if
    /// anything.
    pub(super) fn end_span(&mut self, now: Time, measure: &Measure, in_force: Setting) -> Option<PeerSpan> {
        self.entries.settle();
        self.answers.settle();
        self.syncs.solve();
        self.cpu.solve(0.8);
        let free = measure.working < BUSY && measure.syncing < BUSY;
        self.peers.iter_mut().for_each(|peer| peer.take_span(now, measure.seconds));
        let anybody = self.peers.iter().any(|peer| peer.last_span().acks() > 0);
        for peer in &mut self.peers {
            peer.note_silence(anybody);
            peer.learn_capacity(now, in_force.window(), free);
        }
        self.choose_quorum(in_force);
        let span = self.peer(self.quorum?)?.last_span();
        (span.acks() > 0).then_some(span)
    }

    /// What was seen of paths since the last span belongs to none.
    pub(super) fn skip(&mut self, now: Time) {
        for peer in &mut self.peers {
            peer.take_span(now, 0.0);
            peer.note_silence(false);
        }
    }

    /// The environment as the quorum's follower has it; `None` before it has acknowledged anything.
    pub(super) fn environment(&self) -> Option<Environment> {
        let peer = self.peer(self.quorum?)?;
        let [message, command, byte] = self.cpu.coefficients();
        let [sync, sync_byte] = if self.syncs.samples() > 0 { self.syncs.costs() } else { [0.0; 2] };
        let (round_trip, sync) = peer.split(sync)?;
        let cpu = Cpu {
            per_message: duration(message.min(1.0)),
            per_byte_ns: (byte * 1e9).clamp(0.0, 1e6),
            per_command: duration(command.min(1.0)),
        };
        let delay = duration(((round_trip - 4.0 * message) / 2.0).clamp(0.0, 60.0));
        let size = |mean: &Mean| mean.value().unwrap_or(1.0).clamp(1.0, f64::from(Sizes::MOST)) as u32;
        let sizes = Sizes {
            request: size(&self.entries.size),
            request_head: 0,
            answer: size(&self.answers.size),
            append_head: HEAD,
            entry_head: 0,
            ack: HEAD,
        };
        let network = Network {
            delay,
            bandwidth: Bandwidth::estimated(peer.bandwidth()),
            limit: Limit::Pair,
            loss: 0.0,
            framing: 0.0,
        };
        let disk = Disk { sync: duration(sync.min(60.0)), bandwidth: Bandwidth::estimated(1.0 / sync_byte.max(1e-18)) };
        let follower = Cpu { per_command: Duration::ZERO, ..cpu };
        let replicas = u32::try_from(self.peers.len() + 1).unwrap_or(u32::MAX).min(Environment::MOST_REPLICAS);
        // All is clamped into its range, so there is nothing to refuse.
        Environment::new(replicas, network, cpu, follower, disk, sizes).ok()
    }

    /// What an append takes lately, there and back, to the follower that completes the quorum.
    pub(super) fn usual_round_trip(&self) -> Duration {
        let usual = self.quorum.and_then(|quorum| self.peer(quorum)?.usual());
        usual.unwrap_or_default().min(Duration::from_secs(60))
    }

    /// The follower that completes the quorum is that with the `n/2`-th least round trip. It stays if it is near that.
    fn choose_quorum(&mut self, in_force: Setting) {
        let time = |peer: &Peer| {
            peer.least().map_or(f64::INFINITY, |least| least + in_force.batch_bytes() as f64 / peer.bandwidth())
        };
        let needed = self.peers.len().div_ceil(2);
        let faster =
            |peer: &Peer, slack: f64| self.peers.iter().filter(|other| time(other) < time(peer) * slack).count();
        let no_slower =
            |peer: &Peer, slack: f64| self.peers.iter().filter(|other| time(other) <= time(peer) * slack).count();
        let completes = |peer: &Peer, slack: f64| {
            time(peer).is_finite() && faster(peer, 1.0 - slack) < needed && no_slower(peer, 1.0 + slack) >= needed
        };
        let stays = self.peers.iter().find(|peer| Some(peer.id) == self.quorum && completes(peer, 0.1));
        let chosen = stays.or_else(|| self.peers.iter().find(|peer| completes(peer, 0.0)));
        self.quorum = chosen.or_else(|| self.peers.iter().find(|peer| peer.least().is_some())).map(|peer| peer.id);
    }
}

impl Totals {
    pub(super) const NONE: Self = Self { things: 0, bytes: 0, size: Mean::new(0.5) };

    pub(super) fn add(&mut self, things: u64, bytes: u64) {
        self.things = self.things.saturating_add(things);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn settle(&mut self) {
        if self.things > 0 {
            self.size.observe(self.bytes as f64 / self.things as f64);
        }
        (self.things, self.bytes) = (0, 0);
    }
}

/// Bytes that a message has beside what is told of it: heads of Ethernet, IP and TCP, and of a frame.
const HEAD: u32 = 80;

/// A core or a disk that is used for more than this share of the time may be what holds appends up.
const BUSY: f64 = 0.8;
