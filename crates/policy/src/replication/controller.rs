//! Sizes batches and windows while the group runs.

use super::bandwidth::Bandwidth;
use super::environment::{Cpu, Disk, Environment, Limit, Network, Sizes};
use super::estimate::{Fit, Mean, Syncs};
use super::instance::duration;
use super::measure::{Measure, Meter};
use super::peer::{Peer, PeerId, PeerSpan};
use super::pilot::{Advice, Anchor, Pilot};
use super::predict::{Model, predict};
use super::recommend::recommend;
use super::setting::{Aim, Load, Prediction, Setting, worth};
use crate::time::Time;
use std::time::Duration;

/// Runs in the leader, is told what happens, and says how large batches and windows are to be.
///
/// Everything is told as it happens and costs a few operations; nothing allocates but [`Controller::add_peer`]. What
/// takes longer (half a millisecond) is done in [`Controller::tick`], a few times a second at most.
///
/// 1. Spans follow one another; in each one setting is in force. After a change, the time until what was begun under
///    the old one has ended belongs to no span.
#[derive(Clone, Debug)]
pub struct Controller {
    aim: Aim,
    peers: Vec<Peer>,
    /// The follower that completes the quorum.
    quorum: Option<PeerId>,
    cpu: Fit<3>,
    syncs: Syncs,
    meter: Meter,
    entries: Totals,
    answers: Totals,
    pilot: Pilot,
    /// Whether what was begun under the last setting may still be under way.
    changing: bool,
    next: Time,
    environment: Option<Environment>,
}

/// Things, their bytes, and the average size of those of the last few spans.
#[derive(Clone, Copy, Debug)]
struct Totals {
    things: u64,
    bytes: u64,
    size: Mean,
}

impl Controller {
    /// The shortest span.
    pub const SHORTEST: Duration = Duration::from_millis(100);

    /// The longest span, unless eight round trips are longer.
    pub const LONGEST: Duration = Duration::from_secs(2);

    /// Commands that a span should have, unless it gets too long.
    const ENOUGH: u64 = 500;

    /// A controller that knows nobody and nothing.
    #[must_use]
    pub fn new(aim: Aim) -> Self {
        Self {
            aim,
            peers: Vec::new(),
            quorum: None,
            cpu: Fit::new([0.0; 3]),
            syncs: Syncs::new(),
            meter: Meter::new(aim),
            entries: Totals::NONE,
            answers: Totals::NONE,
            pilot: Pilot::new(),
            changing: false,
            next: Time::ZERO,
            environment: None,
        }
    }

    /// A follower that votes; one that is known already is left as it is. The only call that allocates.
    pub fn add_peer(&mut self, peer: PeerId) {
        if self.index(peer).is_none() {
            self.peers.push(Peer::new(peer));
        }
    }

    /// It is a follower no more, or doesn't vote. What is told of peers that aren't known is left aside.
    pub fn remove_peer(&mut self, peer: PeerId) {
        self.peers.retain(|known| known.id != peer);
        self.quorum = self.quorum.filter(|quorum| *quorum != peer);
    }

    /// Commands have come, and wait to be pulled.
    #[inline]
    pub fn submitted(&mut self, now: Time, commands: u64) {
        self.meter.submitted(now, commands);
    }

    /// Commands that had been submitted will never be committed here: refused, expired, or the leadership lost.
    #[inline]
    pub fn dropped(&mut self, now: Time, commands: u64) {
        self.meter.dropped(now, commands);
    }

    /// A batch was pulled: so many commands, and whether more were waiting that found no room in it.
    #[inline]
    pub fn pulled(&mut self, commands: u64, bytes: u64, left_some: bool) {
        self.meter.batched(commands, left_some);
        self.entries.add(commands, bytes);
    }

    /// An append with the entries up to `index` was handed to the network: so many bytes in all.
    #[inline]
    pub fn sent(&mut self, peer: PeerId, now: Time, index: u64, bytes: u64) {
        if let Some(peer) = self.peer(peer) {
            peer.sent(now, index, bytes);
        }
    }

    /// `peer` says that all entries up to `index` are durable there.
    #[inline]
    pub fn acked(&mut self, peer: PeerId, now: Time, index: u64) {
        if let Some(peer) = self.peer(peer) {
            peer.acked(now, index);
        }
    }

    /// A heartbeat's answer came back after so long. What an append takes longer than that at best is its sync; where
    /// nobody tells of heartbeats, a follower's sync is taken to last as long as the leader's.
    #[inline]
    pub fn echoed(&mut self, peer: PeerId, now: Time, round_trip: Duration) {
        if let Some(peer) = self.peer(peer) {
            peer.echoed(now, round_trip);
        }
    }

    /// What was under way to `peer` is lost, or will be sent again: it was unreachable, it refused an append, or was
    /// sent a snapshot.
    pub fn reset(&mut self, peer: PeerId, now: Time) {
        if let Some(peer) = self.peer(peer) {
            peer.reset(now);
        }
    }

    /// The leader's own disk has synced so many bytes at once.
    #[inline]
    pub fn synced(&mut self, bytes: u64, took: Duration) {
        self.syncs.observe(bytes, took);
        self.meter.synced(took);
    }

    /// The leader's core worked for so long on so many messages (appends and acknowledgements, sent and received), their
    /// bytes, and commands received, executed or answered (a command counts once: when it is answered, say).
    ///
    /// Better told in pieces that differ than in sums of all: that is how one cost is told from the other.
    #[inline]
    pub fn worked(&mut self, took: Duration, messages: u64, bytes: u64, commands: u64) {
        self.meter.worked(took);
        if messages > 0 || bytes > 0 || commands > 0 {
            self.cpu.observe([messages as f64, bytes as f64, commands as f64], took.as_secs_f64());
        }
    }

    /// Commands were committed, the longest of them so long after it was submitted; their answers have so many bytes in
    /// all.
    #[inline]
    pub fn committed(&mut self, now: Time, commands: u64, answer_bytes: u64, longest: Duration) {
        self.meter.committed(now, commands, longest);
        self.answers.add(commands, answer_bytes);
    }

    /// When [`Controller::tick`] has something to do.
    #[must_use]
    pub const fn next_tick(&self) -> Time {
        self.next
    }

    /// Does what is due; whether any setting may have changed.
    pub fn tick(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        let lasted = self.meter.lasted(now);
        if self.changing {
            self.end_change(now);
            return false;
        }
        let usual = self.usual_round_trip();
        let enough = self.meter.committed_so_far() >= Self::ENOUGH;
        let shortest = Self::SHORTEST.max(8 * usual);
        if lasted < shortest || (!enough && lasted < shortest.max(Self::LONGEST)) {
            self.next = now + (shortest / 4).max(shortest.saturating_sub(lasted));
            return false;
        }
        self.end_span(now)
    }

    /// What is to be in force towards `peer` from now on; for one that isn't known, what is for the quorum's.
    ///
    /// A follower that is farther away than the one that completes the quorum has a window as much larger, so that it
    /// keeps up, unless its path carries less.
    #[must_use]
    pub fn setting(&self, peer: PeerId) -> Setting {
        let setting = self.pilot.setting();
        let least = |id: PeerId| self.peers.iter().find(|peer| peer.id == id).and_then(Peer::least);
        let (Some(quorum), Some(least_here)) = (self.quorum.filter(|quorum| *quorum != peer), least(peer)) else {
            return setting;
        };
        let farther = least(quorum).map_or(1.0, |there| (least_here / there.max(1e-9)).clamp(1.0, FARTHEST));
        let window = (setting.window() as f64 * farther).ceil();
        let carries = self.index(peer).map_or(f64::INFINITY, |index| self.peers[index].bandwidth());
        let carried = (1.25 * carries * least_here / setting.batch_bytes() as f64).ceil() + 1.0;
        Setting::with_window(setting.batch_bytes(), window.min(carried.max(setting.window() as f64)) as u64)
    }

    /// The setting for the follower that completes the quorum: the one whose free window pulls the next batch.
    #[must_use]
    pub fn quorum_setting(&self) -> Setting {
        self.pilot.setting()
    }

    /// The follower that completes the quorum; `None` before one has acknowledged.
    #[must_use]
    pub const fn quorum_peer(&self) -> Option<PeerId> {
        self.quorum
    }

    /// What the group is thought to run on; `None` before enough was seen.
    #[must_use]
    pub const fn environment(&self) -> Option<&Environment> {
        self.environment.as_ref()
    }

    /// What is thought to come of the setting in force under the load as it is; `None` before enough was seen.
    #[must_use]
    pub fn prediction(&self) -> Option<Prediction> {
        let load = load(self.meter.in_system() as f64);
        self.environment.map(|environment| predict(&environment, self.pilot.setting(), load))
    }

    /// What was begun under the old setting has ended; what comes now counts.
    fn end_change(&mut self, now: Time) {
        self.meter.take(now);
        for peer in &mut self.peers {
            peer.take_span(now, 0.0);
        }
        self.changing = false;
        self.next = now + Self::SHORTEST.max(8 * self.usual_round_trip());
    }

    fn end_span(&mut self, now: Time) -> bool {
        let measure = self.meter.take(now);
        let in_force = self.pilot.setting();
        self.entries.settle();
        self.answers.settle();
        self.syncs.solve();
        self.cpu.solve(0.8);
        self.choose_quorum(in_force);
        let quorum = self.learn_paths(now, &measure, in_force);
        self.next = now + Self::SHORTEST.max(8 * self.usual_round_trip());
        let (Some(span), Some(environment)) = (quorum, self.estimate()) else { return false };
        self.environment = Some(environment);
        let advice = self.advice(&environment, &measure, in_force, span.used(in_force.window()));
        self.pilot.review(&measure, &advice);
        let changed = self.pilot.setting() != in_force;
        if changed {
            self.changing = true;
            self.next = now + LEAST_CHANGING.max(2 * self.usual_round_trip());
        }
        changed
    }

    fn advice(&self, environment: &Environment, measure: &Measure, in_force: Setting, window_used: f64) -> Advice {
        let load = load(measure.in_system);
        let recommended = self.with_room(environment, recommend(environment, load, self.aim));
        let model = Model::new(environment);
        let (there, here) = (model.predict(recommended, load), model.predict(in_force, load));
        let gain = match self.aim.compare(&there, &here) {
            std::cmp::Ordering::Greater => (worth(&there) - worth(&here)).max(self.latency_gain(&there, &here)),
            _ => 0.0,
        };
        let anchor = Anchor {
            in_system: measure.in_system,
            round_trip: 2.0 * environment.network().delay.as_secs_f64(),
            sync: environment.disk().sync.as_secs_f64(),
            request: f64::from(environment.sizes().request),
        };
        Advice { recommended, gain, anchor, window_used }
    }

    /// Keeping to a limit that is broken now is worth as much as latency falls.
    fn latency_gain(&self, there: &Prediction, here: &Prediction) -> f64 {
        match self.aim {
            Aim::Latency(limit) if here.p99 > limit => {
                (here.p99.as_secs_f64() / there.p99.max(limit).as_secs_f64().max(1e-9)).ln()
            }
            _ => 0.0,
        }
    }

    /// Batches that hold a burst as well, as long as one hardly delays what comes behind it: an eighth of what is under
    /// way in a round trip.
    fn with_room(&self, environment: &Environment, setting: Setting) -> Setting {
        if matches!(self.aim, Aim::Latency(_)) {
            return setting;
        }
        let path = environment.network().bandwidth.as_bytes_per_s() as f64 * self.usual_round_trip().as_secs_f64();
        let room = (path / 8.0).clamp(4096.0, 65536.0) as u64;
        Setting::with_window(setting.batch_bytes().max(room), setting.window())
    }

    /// The follower that completes the quorum is that with the `n/2`-th least round trip. It stays if it is near that.
    fn choose_quorum(&mut self, in_force: Setting) {
        let time = |peer: &Peer| {
            peer.least().map_or(f64::INFINITY, |least| least + in_force.batch_bytes() as f64 / peer.bandwidth())
        };
        let needed = self.peers.len().div_ceil(2);
        let rank = |peer: &Peer, slack: f64| self.peers.iter().filter(|other| time(other) < time(peer) * slack).count();
        let is_quorum =
            |peer: &&Peer| time(peer).is_finite() && rank(peer, 1.0) < needed && rank(peer, 1.0001) + 1 >= needed;
        let stays =
            |peer: &&Peer| Some(peer.id) == self.quorum && rank(peer, 0.9) < needed && rank(peer, 1.1) + 1 >= needed;
        let chosen = self.peers.iter().find(stays).or_else(|| self.peers.iter().find(is_quorum));
        self.quorum = chosen.or_else(|| self.peers.iter().find(|peer| peer.least().is_some())).map(|peer| peer.id);
    }

    /// What each path carries; what was seen of the quorum's.
    fn learn_paths(&mut self, now: Time, measure: &Measure, in_force: Setting) -> Option<PeerSpan> {
        let commands = measure.batch.max(1.0);
        let expected = self.estimate().map(|environment| Model::new(&environment));
        let expected = expected.map(|model| model.instance.time(commands, in_force.window() as f64));
        let free = measure.working < BUSY && measure.syncing < BUSY;
        let mut of_quorum = None;
        for peer in &mut self.peers {
            let span = peer.take_span(now, measure.seconds);
            if let Some(expected) = expected {
                peer.learn_capacity(&span, in_force.window(), expected, free);
            }
            if Some(peer.id) == self.quorum && span.acks() > 0 {
                of_quorum = Some(span);
            }
        }
        of_quorum
    }

    fn estimate(&self) -> Option<Environment> {
        let peer = &self.peers[self.index(self.quorum?)?];
        let [message, byte, command] = self.cpu.coefficients();
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
            append_head: 0,
            entry_head: 0,
            ack: 0,
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

    fn usual_round_trip(&self) -> Duration {
        let quorum = self.quorum.and_then(|quorum| self.index(quorum));
        quorum.and_then(|index| self.peers[index].usual()).unwrap_or_default().min(Duration::from_secs(60))
    }

    fn index(&self, peer: PeerId) -> Option<usize> {
        self.peers.iter().position(|known| known.id == peer)
    }

    #[inline]
    fn peer(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|known| known.id == peer)
    }
}

impl Totals {
    const NONE: Self = Self { things: 0, bytes: 0, size: Mean::new(0.5) };

    fn add(&mut self, things: u64, bytes: u64) {
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

/// The windows of followers are at most so many times that of the quorum's.
const FARTHEST: f64 = 64.0;

/// A core or a disk that is used for more than this share of the time may be what holds appends up.
const BUSY: f64 = 0.8;

/// How long what was begun under the old setting is waited for, at least.
const LEAST_CHANGING: Duration = Duration::from_millis(20);

/// The load as the leader sees it: what is in the system is what waits for answers.
fn load(in_system: f64) -> Load {
    Load::Closed { clients: (in_system.round().max(1.0)).min(f64::from(u32::MAX)) as u32, think: Duration::ZERO }
}
