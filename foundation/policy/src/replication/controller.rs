//! Sizes batches and windows while the group runs.

use super::environment::Environment;
use super::knowledge::Knowledge;
use super::measure::{Measure, Meter};
use super::peer::PeerId;
use super::predict::{Model, predict};
use super::recommend::recommend;
use super::setting::{Aim, Load, Prediction, Setting, worth};
use super::tuner::{Advice, Anchor, Tuner};
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
    known: Knowledge,
    meter: Meter,
    tuner: Tuner,
    /// Whether what was begun under the last setting may still be under way.
    changing: bool,
    next: Time,
    environment: Option<Environment>,
}

impl Controller {
    /// The shortest span.
    pub const SHORTEST: Duration = Duration::from_millis(100);

    /// The longest span, unless sixteen round trips are longer.
    pub const LONGEST: Duration = Duration::from_secs(2);

    /// A controller that knows nobody and nothing.
    #[must_use]
    pub fn new(aim: Aim) -> Self {
        Self {
            aim,
            known: Knowledge::new(),
            meter: Meter::new(aim),
            tuner: Tuner::new(),
            changing: false,
            next: Time::ZERO,
            environment: None,
        }
    }

    /// A follower that votes; one that is known already is left as it is. The only call that allocates.
    pub fn add_peer(&mut self, peer: PeerId) {
        self.known.add_peer(peer);
    }

    /// It is a follower no more, or doesn't vote. What is told of peers that aren't known is left aside.
    pub fn remove_peer(&mut self, peer: PeerId) {
        self.known.remove_peer(peer);
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

    /// A batch was pulled: so many commands, and whether there was no room in it for another like these.
    #[inline]
    pub fn pulled(&mut self, commands: u64, bytes: u64, full: bool) {
        self.meter.batched(commands, full);
        self.known.entries.add(commands, bytes);
    }

    /// An append with the entries up to `index` was handed to the network: so many bytes in all.
    #[inline]
    pub fn sent(&mut self, peer: PeerId, now: Time, index: u64, bytes: u64) {
        if let Some(peer) = self.known.peer_mut(peer) {
            peer.sent(now, index, bytes);
        }
    }

    /// `peer` says that all entries up to `index` are durable there.
    #[inline]
    pub fn acked(&mut self, peer: PeerId, now: Time, index: u64) {
        if let Some(peer) = self.known.peer_mut(peer) {
            peer.acked(now, index);
        }
    }

    /// A heartbeat's answer came back after so long. What an append takes longer than that at best is its sync; where
    /// nobody tells of heartbeats, a follower's sync is taken to last as long as the leader's.
    #[inline]
    pub fn echoed(&mut self, peer: PeerId, now: Time, round_trip: Duration) {
        if let Some(peer) = self.known.peer_mut(peer) {
            peer.echoed(now, round_trip);
        }
    }

    /// What was under way to `peer` is lost, or will be sent again: it was unreachable, it refused an append, or was
    /// sent a snapshot.
    pub fn reset(&mut self, peer: PeerId, now: Time) {
        if let Some(peer) = self.known.peer_mut(peer) {
            peer.reset(now);
        }
    }

    /// The leader's own disk has synced so many bytes at once.
    #[inline]
    pub fn synced(&mut self, bytes: u64, took: Duration) {
        self.known.syncs.observe(bytes, took);
        self.meter.synced(took);
    }

    /// The leader's core worked for so long on so many messages (appends and acknowledgements, sent and received), their
    /// bytes, and commands received, executed or answered (a command counts once: when it comes, say).
    ///
    /// Better told in pieces that differ than in sums of all: that is how one cost is told from the other.
    #[inline]
    pub fn worked(&mut self, took: Duration, messages: u64, bytes: u64, commands: u64) {
        self.meter.worked(took);
        if messages > 0 || bytes > 0 || commands > 0 {
            self.known.cpu.observe([messages as f64, commands as f64, bytes as f64], took.as_secs_f64());
        }
    }

    /// Commands were committed, the longest of them so long after it was submitted; their answers have so many bytes in
    /// all.
    #[inline]
    pub fn committed(&mut self, now: Time, commands: u64, answer_bytes: u64, longest: Duration) {
        self.meter.committed(now, commands, longest);
        self.known.answers.add(commands, answer_bytes);
    }

    /// When [`Controller::tick`] has something to do.
    #[must_use]
    pub const fn next_tick(&self) -> Time {
        self.next
    }

    /// Does what is due; whether any peer's setting may have changed.
    pub fn tick(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        let lasted = self.meter.lasted(now);
        if self.changing {
            self.end_change(now);
            return false;
        }
        let usual = self.known.usual_round_trip();
        let (shortest, longest) = (Self::SHORTEST.max(8 * usual), Self::LONGEST.max(16 * usual));
        if lasted < shortest || (lasted < longest && !self.meter.has_enough()) {
            self.next = now + (shortest / 4).max(shortest.saturating_sub(lasted));
            return false;
        }
        // Even if the quorum's stays as it is, paths may look different, and so others' windows are.
        self.end_span(now);
        true
    }

    /// What is to be in force towards `peer` from now on; for one that isn't known, what is for the quorum's.
    ///
    /// A follower that is farther away than the one that completes the quorum has a window as much larger, so that it
    /// keeps up, unless its path carries less.
    #[must_use]
    pub fn setting(&self, peer: PeerId) -> Setting {
        let setting = self.tuner.setting();
        let quorum = self.known.quorum.filter(|quorum| *quorum != peer).and_then(|quorum| self.known.peer(quorum));
        let (Some(quorum), Some(peer)) = (quorum, self.known.peer(peer)) else { return setting };
        let Some(least_here) = peer.least() else { return setting };
        let farther = quorum.least().map_or(1.0, |there| (least_here / there.max(1e-9)).clamp(1.0, FARTHEST));
        let window = (setting.window() as f64 * farther).ceil();
        let carried = (1.25 * peer.bandwidth() * least_here / setting.batch_bytes() as f64).ceil() + 1.0;
        Setting::with_window(setting.batch_bytes(), window.min(carried.max(setting.window() as f64)) as u64)
    }

    /// The setting for the follower that completes the quorum: by its window batches are pulled.
    #[must_use]
    pub fn quorum_setting(&self) -> Setting {
        self.tuner.setting()
    }

    /// The follower that completes the quorum; `None` before one has acknowledged.
    #[must_use]
    pub const fn quorum_peer(&self) -> Option<PeerId> {
        self.known.quorum
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
        self.environment.map(|environment| predict(&environment, self.tuner.setting(), load))
    }

    /// What was begun under the old setting has ended; what comes now counts.
    fn end_change(&mut self, now: Time) {
        self.meter.take(now);
        self.known.skip(now);
        self.changing = false;
        self.next = now + Self::SHORTEST.max(8 * self.known.usual_round_trip());
    }

    fn end_span(&mut self, now: Time) {
        let measure = self.meter.take(now);
        let in_force = self.tuner.setting();
        let quorum = self.known.end_span(now, &measure, in_force);
        self.next = now + Self::SHORTEST.max(8 * self.known.usual_round_trip());
        let (Some(span), Some(environment)) = (quorum, self.known.environment()) else { return };
        self.environment = Some(environment);
        let advice = self.advice(&environment, &measure, in_force, span.used(in_force.window()));
        self.tuner.review(&measure, &advice);
        if self.tuner.setting() != in_force {
            self.changing = true;
            self.next = now + LEAST_CHANGING.max(2 * self.known.usual_round_trip());
        }
    }

    fn advice(&self, environment: &Environment, measure: &Measure, in_force: Setting, window_used: f64) -> Advice {
        let load = load(measure.crowd);
        let recommended = recommend(environment, load, self.aim);
        let model = Model::new(environment);
        let (there, here) = (model.predict(recommended, load), model.predict(in_force, load));
        let gain = match self.aim.compare(&there, &here) {
            std::cmp::Ordering::Greater => (worth(&there) - worth(&here)).max(self.latency_gain(&there, &here)),
            _ => 0.0,
        };
        let leaner = there.turn < here.turn.mul_f64(LEANER) && worth(&there) >= worth(&here);
        let anchor = Anchor {
            in_system: measure.in_system,
            round_trip: 2.0 * environment.network().delay.as_secs_f64(),
            sync: environment.disk().sync.as_secs_f64(),
            request: f64::from(environment.sizes().request),
        };
        let batch_bytes = measure.batch * f64::from(environment.sizes().request);
        Advice { recommended, gain, leaner, anchor, batch_bytes, window_used, model, load }
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
}

/// The windows of followers are at most so many times that of the quorum's.
const FARTHEST: f64 = 64.0;

/// Advice to have so much less under way is good advice even if nothing else gets better.
const LEANER: f64 = 0.7;

/// How long what was begun under the old setting is waited for, at least.
const LEAST_CHANGING: Duration = Duration::from_millis(20);

/// The load as the leader sees it: what is in the system is what waits for answers.
fn load(in_system: f64) -> Load {
    Load::Closed { clients: (in_system.round().max(1.0)).min(f64::from(u32::MAX)) as u32, think: Duration::ZERO }
}
