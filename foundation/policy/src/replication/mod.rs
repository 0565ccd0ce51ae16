//! Batches and windows of a replica group that size themselves.
//!
//! A leader collects commands into *batches*, sends each to its followers as one *instance*, and has several instances
//! under way at once, the *window*. Large batches share the cost of messages and syncs among many commands; large
//! windows keep a long way full. Too much of either makes commands wait. What is right depends on distances, bandwidth,
//! cores, disks, sizes and load, so nobody is asked for it: the user gives an [`Aim`], and the [`Controller`] finds out.
//!
//! - [`Environment`]: what a group runs on. [`Setting`]: a batch and a window. [`Load`]: what commands come.
//! - [`predict()`]: what comes of a setting. [`recommend()`]: the best one. [`Curve`]: what comes of all of them.
//! - [`Controller`]: measures the environment while the group runs, takes what the model recommends for it, and looks
//!   around there for what measures better.
//!
//! # Batches are pulled
//! A leader works in *turns*: it does all that has come, and then makes batches of the commands that wait, each up to its
//! limit, while the window has slots. A batch that is full before ends the turn. So a lone request leaves at once, whatever
//! the setting, and nothing ever waits for a batch to fill: batches grow because slots are taken, or because the core is
//! busy. (The source's JPaxos pulls too; its model has a time for filling, this one doesn't.)
//!
//! # The model
//! There are `n` replicas; `f = n - 1` followers, of which `q = n / 2` complete a quorum. An instance of `k` commands is
//! an append of `S = head + k (request + entry head)` bytes and an acknowledgement of `A`. `L` is the delay one way, `B`
//! the bandwidth less framing, `a` and `b` the leader's work for a message and a byte, `c` for a command, `a'`, `b'`,
//! `c'` a follower's. What an instance asks of each resource:
//! ```text
//! T_net    = S / B                                                    a limit for each pair (WAN)
//!          = max(f S + k answer, k (request + head) + f A) / B        a limit for each interface (LAN)
//! T_cpu    = f (2 a + b (S + A)) + k c                                the leader; a follower: 2 a' + b' (S + A) + k c'
//! T_disk   = k (request + entry head) / D                             syncs are shared, bytes aren't
//! ```
//! From its pull to its commit, if nothing is in its way, it takes
//! ```text
//! P        = 2 L + (S + A) / B + q (2 a + b (S + A)) + 2 a' + b' (S + A)          LAN: q S instead of S on the wire
//! T_inst   = P + F                                                    w = 1; F: a sync with its bytes
//!          = max(2 F, P + F + F/2 min(1, (w - 1) F / (P + F)))        w > 1
//! ```
//! as a follower's syncs come one after the other: what arrives during one waits for it to end, and two instances that
//! come back together don't share one. With group commit all that waits is the next sync's, so syncs bound the rate of
//! *turns*, not of instances. The *beat*, at which slots of a window of `w` become free, is the larger of what window
//! and busiest resource allow, with a soft corner (8th powers), as near it chance idles now the one, now the other:
//! ```text
//! beat     = || T_turn / w , max(T_net, T_cpu, T_cpu', T_disk) ||_8
//! T_turn   = T_inst + max(k c' - F, 0)                                saturated, open
//!          = T_inst + T_cpu                                           closed
//! X        = k / beat
//! ```
//! A follower executes a batch beside the next one's sync, and what takes longer than that is in the next one's way. In a
//! closed loop `T_cpu` is added, as the acknowledgement that ends an instance queues behind the answers of another.
//!
//! **Which `k` forms** depends on the beat, and the beat on `k`; [`predict()`] finds where both agree:
//! ```text
//! saturated    k = limit
//! open         k = rate * beat                                        if that is less than 1: 1; more than limit: overload
//! closed       k = clients * beat / (away + u beat + wait)
//! ```
//! In a closed loop `u` batches are under way: `w`, or, where the core is the busiest, as many as it makes turns in an
//! instance's time, however wide the window is. `away` is the clients' think time and, where they share the leader's
//! interface, what their commands and answers take there. If the window is what limits, a command that comes back after
//! its slot was taken again waits for the next, `wait = max(beat - away, beat / 2)`: with no think time,
//! `k = clients / (w + 1)`, and a window of one halves the throughput of a long way, as one half of the clients waits for
//! the other's round trip. Otherwise it waits for the end of the turn.
//!
//! Batches vary, and the model has them all alike. So corners are softer in a closed loop: 4th powers where the window just
//! so holds all commands, and where commands that find nobody else just so keep a resource busy; squares for a few batches
//! that queue in several places. Where the limit is above `k`, batches may bunch all the same, up to the limit: those that
//! meet merge, and nothing parts them but the limit and the turns. Then there are `m = clients / limit` of them, two at
//! least, and commands come round every
//! ```text
//! turn + min(turn of a single command, turn / (m - 1)) + away         turn = T_inst + T_cpu
//! ```
//! the second term only if the window has no room for what turns part. The worse of the two counts, so that limits are
//! recommended that leave little to bunch.
//!
//! **Loss** is TCP's: a stream has at most `1.22 MSS / (2 L sqrt(p))` (Mathis, Semke, Mahdavi and Ott 1997), and as it
//! delivers in order, all that was sent in the round trip after a lost packet waits for that to be sent again; an
//! instance is late if too few of the followers' streams aren't. What overflows a queue in front of a link isn't modelled:
//! more under way than the path takes only waits.
//!
//! **Latency** is what Little's law leaves in a closed loop; in an open one `T_inst`, answering, the wait for a slot
//! (the chance that all are taken is Sakasegawa's) and queues at resources (M/D/1). The 99th percentile is an estimate:
//! waiting for a slot is uniform, queueing exponential.
//!
//! # The controller
//! It runs in the leader and is told what happens there; all times are the caller's. Time is cut into *spans* of eight
//! round trips, in each of which one setting is in force. What it learns:
//! - *Round trip*: the least of 10 s, less what the bytes took. Of it, the sync is what heartbeats don't have. While the
//!   path or a core is full it is kept, as nobody can see it then. If more was under way than in the span before and
//!   appends took no longer, it wasn't a queue that they met, and it is learned anew.
//! - *Bandwidth*: what was acknowledged in a span, if even the luckiest append of the span found a queue, and neither
//!   core nor disk were busy; otherwise three times that, as the path was never full (BBR's start).
//! - *Work*: least squares on messages, bytes and commands, with forgetting. *Syncs*: near the median, and a part for
//!   bytes. *Load*: commands in the system, as clients that don't think, and two standard deviations for chance.
//!
//! The follower that completes the quorum decides, as it decides throughput; those behind it get windows as much larger
//! as they are farther away. What the model recommends for all this is taken at once while it is much better, by the
//! model; from there on it is trial and error, mostly in steps of a half, because no model is right: something else is in
//! force for two spans, and kept if it was better than what there was before and after.
//!
//! # Sources
//! Santos and Schiper, *Tuning Paxos for High-Throughput with Batching and Pipelining* (ICDCN 2012): `T_net`, `T_cpu`,
//! `w = ceil(T_inst / busiest)` ([`needed_window`]). The disk, the fixed point, pulled batches and the controller are
//! ours. That a window which is too large lowers throughput where syncs are slow was hashicorp/raft's experience (its
//! default went from 130 to 2), that no fixed window wins rabbitmq/ra's (512 against 4096).

mod bandwidth;
mod controller;
mod environment;
mod estimate;
mod instance;
mod knowledge;
mod measure;
mod peer;
mod predict;
mod recommend;
mod setting;
mod tuner;

pub use bandwidth::{Bandwidth, NoBandwidth};
pub use controller::Controller;
pub use environment::{Cpu, Disk, Environment, EnvironmentError, Limit, Network, Sizes};
pub use peer::PeerId;
pub use predict::{needed_window, predict};
pub use recommend::{Curve, recommend};
pub use setting::{Aim, Bottleneck, Load, Prediction, Setting, SettingError, Utilisation};
