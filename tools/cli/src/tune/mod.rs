//! `greenwave tune`: how large batches and windows of a group should be, what limits it then, and what to expect.
//!
//! The group's environment is told ([`told`]), with one of some [`presets`] as a start, or measured by the leader of a
//! running group ([`measured`]), whose disks are measured beside it; a machine's own disk is measured by [`disk`]. The
//! rest is the model's (`greenwave_policy::replication`): [`advice`] asks it, [`report`], [`curve`] and [`json`] show
//! what it says, [`apply`] sets it.

mod advice;
mod apply;
mod curve;
pub(crate) mod disk;
mod json;
mod measured;
mod presets;
mod report;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use greenwave::Context;
use greenwave_policy::replication::Aim;
use greenwave_services::replicated::tuning::Sizing;

use crate::address::Place;
use crate::problem::Problem;
use crate::quantity::some_span;
use crate::replicas::{self, Group, Reach};
use advice::{Advice, Source};
use told::{LoadFlags, Told};

pub(crate) use json::sizing as sizing_json;

/// Recommend a batch and a window for a group of replicas, and say what to expect of them
#[derive(Args)]
#[command(after_help = "\
Without --peers the environment is told: a preset, and whatever is said beside it. With --peers it is what the leader of a
running group has measured under its load, and what is said beside it counts more than what was measured.

Examples:
  greenwave tune --preset lan-1g --request 1KiB --clients 256
  greenwave tune --preset wan-100m --replicas 5 --rate 20000 --latency-limit 200ms
  greenwave tune --delay 12ms --bandwidth 200mbit --per pair --fsync 2ms --loss 0.1% --clients 512 --think 5ms
  greenwave tune --preset lan-10g --data /var/lib/kv            with this machine's disk
  greenwave tune --peers tcp://127.0.0.1:7401                   what a running group measures
  greenwave tune --peers tcp://127.0.0.1:7401 --apply           and fix it there
  greenwave tune --peers tcp://127.0.0.1:7401 --apply auto --latency-limit 20ms
  greenwave tune --preset lan-1g --json | jq '.recommended'")]
pub(crate) struct Tune {
    #[command(flatten)]
    told: Told,
    #[command(flatten)]
    load: LoadFlags,
    /// Measure this machine's disk, by syncs of a file in this directory that is removed again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["fsync", "disk_bandwidth"], help_heading = "Environment")]
    data: Option<PathBuf>,
    /// 99 of 100 commands are to be answered within this; without it, as many commands a second as can be, or what a
    /// running group is sized for
    #[arg(long, value_name = "TIME", value_parser = some_span, help_heading = "Aim")]
    latency_limit: Option<Duration>,
    /// Replicas of a running group, with commas between: addresses, or as in `serve kv --peers`
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = replicas::replica, help_heading = "Group")]
    peers: Vec<Place>,
    /// For how long the group's load is watched
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = some_span, requires = "peers",
        help_heading = "Group")]
    watch: Duration,
    /// Set what is recommended on all replicas of the group, or, with `auto`, have its controller choose sizes again
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "recommended",
        value_parser = ["recommended", "auto"], requires = "peers", help_heading = "Group")]
    apply: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Tune {
    /// Says what is recommended, and sets it if that is wanted.
    pub(crate) fn run(self) -> Result<(), Problem> {
        self.check()?;
        if self.apply.as_deref() == Some("auto") {
            let mut group = Group::new(&self.peers, &self.reach)?;
            let aim = self.latency_limit.map_or(Aim::Throughput, Aim::Latency);
            let applied = apply::to(&mut group, Sizing::Auto(aim))?;
            if self.json {
                show!("{}", applied.json());
            } else {
                applied.show();
            }
            return Ok(());
        }
        let mut group = (!self.peers.is_empty()).then(|| Group::new(&self.peers, &self.reach)).transpose()?;
        if let Some(group) = &mut group {
            group.context = Context::with_deadline(self.reach.deadline + self.watch);
        }
        let advice = self.advice(group.as_mut())?;
        let sizing = Sizing::Fixed(advice.recommended);
        if !self.json {
            report::show(&advice);
        }
        let apply = self.apply.is_some();
        let applied = group.as_mut().filter(|_| apply).map(|group| apply::to(group, sizing)).transpose()?;
        match (self.json, applied) {
            (true, applied) => show!("{}", json::of(&advice, applied.as_ref())),
            (false, Some(applied)) => applied.show(),
            (false, None) => {}
        }
        Ok(())
    }

    fn advice(&self, group: Option<&mut Group>) -> Result<Advice, Problem> {
        let base = match group.filter(|_| !self.told.has_preset()) {
            Some(group) => Source::Measured(measured::watch(group, self.watch)?),
            None => Source::Told(self.told.preset()?),
        };
        let disk = self.data.as_deref().map(disk::measure).transpose()?;
        let environment = self.told.over(base.environment(), disk.as_ref())?;
        let load = match self.load.load() {
            Some(load) => load,
            None => base.load()?,
        };
        let aim = self.latency_limit.map_or(base.aim(), Aim::Latency);
        Ok(Advice::new(environment, load, aim, base, disk))
    }

    /// What contradicts itself.
    fn check(&self) -> Result<(), Problem> {
        let wrong = |what: &str, remedy: &str| Err(Problem::wrong_use(what).remedy(remedy));
        if self.apply.as_deref() == Some("auto") && (self.told.says_anything() || self.load.load().is_some()) {
            return wrong(
                "--apply auto has the group measure its environment and its load itself",
                "say nothing but --latency-limit beside it",
            );
        }
        if !self.peers.is_empty() && self.told.has_preset() && self.apply.is_none() {
            return wrong(
                "--preset says what the environment is, and --peers asks the group for it",
                "leave one of them out, or set on the group what follows from the preset with --apply",
            );
        }
        if !self.peers.is_empty() && self.data.is_some() && !self.told.has_preset() {
            return wrong("the group's leader measures the disks itself", "leave --data out, or tell a --preset");
        }
        Ok(())
    }
}

/// An aim in words.
pub(crate) fn aim(aim: Aim) -> String {
    match aim {
        Aim::Throughput => "as many commands a second as can be".to_owned(),
        Aim::Latency(limit) => format!("99 of 100 commands within {limit:?}"),
    }
}
