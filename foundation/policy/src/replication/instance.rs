//! What one instance (a batch, replicated) costs each resource, and how long it takes: the model's equations.

use super::environment::{Environment, Limit};
use std::time::Duration;

/// The environment's costs in seconds, ready to be asked about any batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    followers: f64,
    quorum: f64,
    round_trip: f64,
    /// Seconds that a byte takes on the network, framing included.
    wire: f64,
    limit: Limit,
    append_head: f64,
    entry: f64,
    ack: f64,
    request: f64,
    answer: f64,
    leader: [f64; 3],
    follower: [f64; 3],
    sync: f64,
    disk_byte: f64,
    /// Of each packet.
    loss: f64,
    framing: f64,
}

/// What an instance asks of each resource, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) network: f64,
    pub(super) leader_cpu: f64,
    pub(super) follower_cpu: f64,
    pub(super) disk: f64,
}

impl Demand {
    /// What the busiest of them is asked.
    pub(super) fn most(&self) -> f64 {
        self.network.max(self.leader_cpu).max(self.follower_cpu).max(self.disk)
    }
}

impl Instance {
    pub(super) fn new(environment: &Environment) -> Self {
        let (network, sizes, disk) = (environment.network(), environment.sizes(), environment.disk());
        let cpu = |cpu: super::environment::Cpu| {
            [cpu.per_message.as_secs_f64(), cpu.per_byte_ns * 1e-9, cpu.per_command.as_secs_f64()]
        };
        let round_trip = 2.0 * network.delay.as_secs_f64();
        // Mathis et al.: a TCP stream with loss p has at most 1.22 segments in a round trip over the root of p.
        let lossy = if network.loss > 0.0 { round_trip * network.loss.sqrt() / (1.22 * SEGMENT) } else { 0.0 };
        Self {
            followers: f64::from(environment.followers()),
            quorum: f64::from(environment.quorum_followers()),
            round_trip,
            wire: network.bandwidth.seconds_per_byte().max(lossy) * (1.0 + network.framing),
            limit: network.limit,
            append_head: f64::from(sizes.append_head),
            entry: f64::from(sizes.request) + f64::from(sizes.entry_head),
            ack: f64::from(sizes.ack),
            request: f64::from(sizes.request) + f64::from(sizes.request_head),
            answer: f64::from(sizes.answer),
            leader: cpu(environment.leader()),
            follower: cpu(environment.follower()),
            sync: disk.sync.as_secs_f64(),
            disk_byte: disk.bandwidth.seconds_per_byte(),
            loss: network.loss,
            framing: network.framing,
        }
    }

    /// The most commands in a batch of so many bytes.
    pub(super) fn most_commands(&self, batch_bytes: u64) -> f64 {
        (batch_bytes as f64 / self.entry).floor().max(1.0)
    }

    /// The bytes of so many commands in a batch.
    pub(super) fn bytes(&self, commands: f64) -> f64 {
        commands * self.entry
    }

    /// What an instance of `k` commands asks of each resource. Never nothing: what takes no time takes a nanosecond.
    pub(super) fn demand(&self, k: f64) -> Demand {
        let append = self.append_head + k * self.entry;
        let bytes = if self.followers == 0.0 { 0.0 } else { append };
        let network = match self.limit {
            Limit::Pair => bytes,
            Limit::Interface => {
                let out = self.followers * append + k * self.answer;
                out.max(k * self.request + self.followers * self.ack)
            }
        };
        let [message, byte, command] = self.leader;
        let leader_cpu = self.followers * (2.0 * message + byte * (append + self.ack)) + k * command;
        let [message, byte, command] = self.follower;
        let follower_cpu =
            if self.followers == 0.0 { 0.0 } else { 2.0 * message + byte * (append + self.ack) + k * command };
        Demand {
            network: network * self.wire,
            leader_cpu: leader_cpu.max(1e-9),
            follower_cpu,
            disk: k * self.entry * self.disk_byte,
        }
    }

    /// From the pull of a batch of `k` commands until its slot is free for the next, with `window - 1` others under way
    /// that no resource holds up: [`Instance::time`], and the leader's work for one instance, as the acknowledgement
    /// that ends it queues behind the answers of the one before.
    pub(super) fn turn(&self, k: f64, window: f64) -> f64 {
        self.time(k, window) + self.demand(k).leader_cpu
    }

    /// The same where commands wait, or come whatever is answered: the leader does its other work meanwhile. A follower
    /// executes the batch before, beside its sync, and what of that takes longer is in the way of the next.
    pub(super) fn steady_turn(&self, k: f64, window: f64) -> f64 {
        let executes = if self.followers == 0.0 { 0.0 } else { k * self.follower[2] };
        self.time(k, window) + (executes - self.sync(k)).max(0.0)
    }

    /// How long the clients' next commands take to come to the leader, beside what is theirs: where they share its
    /// interface, the answers leave behind the appends that no quorum needs, and the commands come in one after another.
    pub(super) fn away(&self, k: f64) -> f64 {
        match self.limit {
            Limit::Pair => 0.0,
            Limit::Interface => {
                let unneeded = (self.followers - self.quorum) * (self.append_head + k * self.entry);
                (k * (self.request + self.answer) + unneeded) * self.wire
            }
        }
    }

    /// All that a batch of `k` commands and those of its clients that come after it are served, one after the other: what
    /// is neither a way nor a sync, which any number can be on at a time.
    pub(super) fn service(&self, k: f64) -> f64 {
        (self.path(k) - self.round_trip).max(0.0) + self.demand(k).leader_cpu + self.away(k)
    }

    /// From the pull of a batch of `k` commands until it is committed, if nothing but `window - 1` other instances'
    /// syncs are in its way.
    pub(super) fn time(&self, k: f64, window: f64) -> f64 {
        let (path, sync) = (self.path(k), self.sync(k));
        if window <= 1.0 || sync == 0.0 {
            return path + sync;
        }
        // What arrives during a sync waits for it to end: half a sync on average, if one is under way. And two
        // instances that come back together don't share one: the first has it alone, so both take two.
        let busy = ((window - 1.0) * sync / (path + sync)).min(1.0);
        (path + sync + busy * sync / 2.0).max(2.0 * sync)
    }

    /// A sync with the bytes of `k` commands.
    pub(super) fn sync(&self, k: f64) -> f64 {
        self.sync + k * self.entry * self.disk_byte
    }

    /// What answering a command adds after its instance is committed: on average half of the batch is answered before.
    pub(super) fn answer(&self, k: f64) -> f64 {
        self.leader[2] * (k + 1.0) / 2.0
    }

    /// What loss adds to an instance, if one leaves every `every` seconds: a stream delivers in order, so all that is
    /// sent in the round trip after a lost packet waits for it to be sent again.
    pub(super) fn loss_delay(&self, k: f64, every: f64) -> f64 {
        if self.loss <= 0.0 || self.followers == 0.0 {
            return 0.0;
        }
        let again = self.round_trip.max(LEAST_RETRANSMISSION);
        let packets = ((self.append_head + k * self.entry) * (1.0 + self.framing) / SEGMENT).ceil().max(1.0);
        let lost = 1.0 - (1.0 - self.loss).powf(packets);
        // Losses come at random, so this is the chance of one in the last round trip, or in this instance itself.
        let stalled = 1.0 - (1.0 - lost) * (-lost * again / every.max(1e-9)).exp();
        self.quorum_stalled(stalled) * again * (0.5 + lost / 2.0)
    }

    /// The chance that too few followers aren't stalled, if each is with a chance of `stalled`.
    fn quorum_stalled(&self, stalled: f64) -> f64 {
        let (mut chance, mut term) = (0.0, stalled.powf(self.followers));
        let mut moving = 0.0;
        while moving < self.quorum {
            chance += term;
            term *= (self.followers - moving) / (moving + 1.0) * (1.0 - stalled) / stalled.max(1e-12);
            moving += 1.0;
        }
        chance.clamp(0.0, 1.0)
    }

    /// All of an instance's way but the sync: the leader sends to as many as complete the quorum, one of which is the
    /// last; it receives, and its acknowledgement comes back.
    fn path(&self, k: f64) -> f64 {
        if self.followers == 0.0 {
            return 0.0;
        }
        let append = self.append_head + k * self.entry;
        let leaves = match self.limit {
            Limit::Pair => append,
            Limit::Interface => self.quorum * append,
        };
        let [message, byte, _] = self.leader;
        let leader = self.quorum * (2.0 * message + byte * (append + self.ack));
        let [message, byte, _] = self.follower;
        let follower = 2.0 * message + byte * (append + self.ack);
        self.round_trip + (leaves + self.ack) * self.wire + leader + follower
    }
}

/// Seconds as a duration; what is too long, or isn't a number, is the longest there is.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Bytes of a packet's payload: Ethernet's 1500 less the headers of IPv4 and TCP with timestamps.
const SEGMENT: f64 = 1448.0;

/// Seconds until what was lost is sent again, at least.
const LEAST_RETRANSMISSION: f64 = 1e-3;
