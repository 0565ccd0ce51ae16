//! What a way of choosing batches and windows is worth in an environment: throughput and latency of the real core on
//! simulated links, processors and disks.

mod aimd;
mod run;

use super::node::StartError;
use crate::cores::Histogram;
use crate::seed::Seed;
use aimd::Aimd;
use greenwave_policy::replication::{Aim, Environment, Load, Setting, recommend};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_replica::core::Sizing;
use run::{Run, span};
use std::time::Duration;

/// A way of choosing batches and windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The best of all settings of [`grid`], found by trying each: what can be had at most.
    BestOfGrid,
    /// What the model recommends for the environment as it is ([`recommend`]), fixed.
    Model,
    /// A window of so many batches, of at most 1 MiB each as etcd has it, fixed.
    Static(u64),
    /// The controller, from nothing, once it has settled.
    Controller,
    /// The controller, with so much latency as its limit.
    Within(Duration),
    /// Batches of at most 1 MiB, and a window that grows by one in every round that used it up, and is halved when batches
    /// take twice as long from the log to their commit as they did at best lately: additive increase, multiplicative
    /// decrease.
    Aimd,
    /// This setting, fixed.
    Fixed(Setting),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Commands answered a second.
    pub ops_per_s: f64,
    /// What half of the commands stayed within, from their arrival at the leader to their answer.
    pub p50: Duration,
    /// What 99 of 100 stayed within.
    pub p99: Duration,
    /// The setting at the end.
    pub setting: Setting,
    /// Batches that the slowest follower was behind the leader's log then, those on their way to it included.
    pub behind: u64,
    /// After what time as much was answered as in the end, but for a tenth.
    pub settled: Duration,
    /// For which share of the time the leader's processor was at work, from 0 to 1, since it had settled.
    pub leader_busy: f64,
    /// A hash over all that has happened: the same seed gives the same.
    pub hash: u64,
}

/// Where and under what a group is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What it runs on.
    pub environment: &'a Environment,
    /// [`Load::Saturated`] is taken as 4096 clients.
    pub load: Load,
    /// How far each follower is from the leader, in multiples of the environment's delay, the nearest first; 1 if nothing is
    /// said of it. The environment's delay is that of the follower that completes the quorum.
    pub distances: &'a [f64],
    /// What changes in the middle of it.
    pub change: Option<Change>,
}

/// What changes while a group is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many times as many clients as there were; in the end, those of the load.
    MoreClients(u32),
    /// All ways are so many times as long, and carry so many times less in a second.
    SlowerPath(u32),
    /// A follower dies, the nearest to the leader.
    DeadFollower,
}

/// Runs a group in `environment` under `load`, and measures it once it has settled. [`Load::Saturated`] is taken as
/// 4096 clients.
///
/// # Errors
/// If no such group can be started.
pub fn measure(environment: &Environment, system: System, load: Load, seed: Seed) -> Result<Measured, StartError> {
    measure_in(&Scene { environment, load, distances: &[], change: None }, system, seed)
}

/// The same, with followers at several distances, or with something that changes: then what is answered from before the
/// change to long after it counts, by the time that passed.
///
/// # Errors
/// If no such group can be started.
pub fn measure_in(scene: &Scene<'_>, system: System, seed: Seed) -> Result<Measured, StartError> {
    let &Scene { environment, load, .. } = scene;
    let fixed = |setting| measure_with(scene, Sizing::Fixed(setting), seed, None);
    match system {
        System::Fixed(setting) => fixed(setting),
        System::Static(window) => fixed(Setting::with_window(STATIC_BATCH, window)),
        System::Model => fixed(recommend(environment, load, Aim::Throughput)),
        System::Within(limit) => measure_with(scene, Sizing::Auto(Aim::Latency(limit)), seed, None),
        System::Controller => measure_with(scene, Sizing::Auto(Aim::Throughput), seed, None),
        System::Aimd => {
            let first = Sizing::Fixed(Setting::with_window(STATIC_BATCH, 1));
            measure_with(scene, first, seed, Some(Aimd::new(environment)))
        }
        System::BestOfGrid => {
            let mut best: Option<Measured> = None;
            for setting in grid(environment) {
                let measured = fixed(setting)?;
                if best.is_none_or(|best| measured.ops_per_s > best.ops_per_s) {
                    best = Some(measured);
                }
            }
            Ok(best.unwrap_or(fixed(Setting::FIRST)?))
        }
    }
}

/// All settings that are tried for the best: batches of 1, 2, 4, ... 1024 commands (up to 1 MiB, but at least eight of
/// them), times windows of 1, 2, 4, ... 256 batches.
#[must_use]
pub fn grid(environment: &Environment) -> Vec<Setting> {
    let command = u64::from(environment.sizes().request) + COMMAND_OVERHEAD as u64;
    let batches = (0..=10).map(|power| command << power).filter(|&bytes| bytes <= STATIC_BATCH.max(command << 7));
    batches.flat_map(|bytes| (0..=8).map(move |power| Setting::with_window(bytes, 1 << power))).collect()
}

/// Commands that are measured.
const COMMANDS: usize = 8_000;

const STATIC_BATCH: u64 = 1 << 20;

/// What each of so many commands took by a fixed setting, the shortest first, and how many were answered a second.
///
/// # Errors
/// If no such group can be started.
pub fn latencies(
    scene: &Scene<'_>,
    setting: Setting,
    commands: usize,
    seed: Seed,
) -> Result<(Vec<Duration>, f64), StartError> {
    let mut run = Run::start(scene, Sizing::Fixed(setting), seed, None)?;
    run.settle(Duration::ZERO);
    run.go_on(commands, Duration::ZERO);
    Ok((run.took(), run.measured().ops_per_s))
}

/// What came of commands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What each took, from the leader's having it to its answer.
    pub took: Histogram,
    /// Commands answered a second.
    pub ops_per_s: f64,
    /// Commands of a batch, and batches committed a second; 0 if none was.
    pub commands_per_batch: f64,
    /// See [`commands_per_batch`](Self::commands_per_batch).
    pub batches_per_s: f64,
    /// The setting at the end, for the follower after the leader.
    pub setting: Setting,
    /// Batches that the slowest follower was behind the leader's log then, those on their way to it included.
    pub behind: u64,
    /// Why it was ended before all were answered, if it was.
    pub cut: Option<Cut>,
    /// Events that were simulated.
    pub events: u64,
    /// A hash over all of them.
    pub hash: u64,
}

/// Why a run was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cut {
    /// More come than can be served.
    #[error("cut at {0} unfinished commands: more come than the group can serve")]
    Unfinished(usize),
    /// Another replica leads than at first.
    #[error("cut as another replica leads: signs of life didn't come through for a minute")]
    Leader,
    /// No answer for [`SILENCE`].
    #[error("cut as nothing was answered for {SILENCE:?}")]
    Silence,
}

/// How long nothing may be answered.
pub const SILENCE: Duration = Duration::from_secs(600);

/// Runs a group under a load that may be more than it can do, until so many commands are answered, of which the first tenth isn't
/// counted, or until more than `most_unfinished` are under way or wait. A controller is given time to settle first, though for no
/// more than as many commands again.
///
/// # Errors
/// If no such group can be started.
pub fn commands(
    scene: &Scene<'_>,
    sizing: Sizing,
    commands: u64,
    most_unfinished: usize,
    seed: Seed,
) -> Result<Outcome, StartError> {
    Ok(Run::start(scene, sizing, seed, None)?.counted(commands, settling(scene.environment, sizing), most_unfinished))
}

/// Whoever looks for a setting has to have looked often enough.
fn settling(environment: &Environment, sizing: Sizing) -> Duration {
    if matches!(sizing, Sizing::Auto(_)) { span(environment) * 60 } else { Duration::ZERO }
}

fn measure_with(scene: &Scene<'_>, sizing: Sizing, seed: Seed, aimd: Option<Aimd>) -> Result<Measured, StartError> {
    let &Scene { environment, change, .. } = scene;
    let settling = aimd.as_ref().map_or_else(|| settling(environment, sizing), |aimd| aimd.every * 200);
    let mut run = Run::start(scene, sizing, seed, aimd)?;
    let clients = run.clients();
    run.settle(settling);
    if let Some(change) = change {
        return Ok(run.measured_through(change));
    }
    let least = if matches!(sizing, Sizing::Auto(_)) { span(environment) * 10 } else { Duration::ZERO };
    run.go_on(COMMANDS.max(4 * clients), least);
    Ok(run.measured())
}
