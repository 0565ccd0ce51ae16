//! The replica group of `greenwave sim plan`: which batches and windows it is to have for the writes that come.

use std::time::Duration;

use clap::Args;
use greenwave_bench::progress::Progress;
use greenwave_policy::replication::Bandwidth;
use greenwave_reproduce::page;
use greenwave_sim::calibration::Calibration;
use greenwave_sim::cores::Load;
use greenwave_sim::planning::batches::{self, Group, Tried};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::quantity;

/// A group that some methods' calls are written by.
#[derive(Args)]
#[command(next_help_heading = "A replica group")]
pub(super) struct Writes {
    /// Methods whose calls are commands of a replica group, with commas between: they wait for it, in place of what was recorded
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    writes: Vec<String>,
    /// Members of the group
    #[arg(long, value_name = "N", default_value_t = 3, requires = "writes", value_parser = clap::value_parser!(u32).range(1..=9))]
    members: u32,
    /// How long a message is on its way between two of them
    #[arg(long, value_name = "TIME", default_value = "50us", requires = "writes", value_parser = quantity::span)]
    path: Duration,
    /// How fast bytes leave each of them: bits per second, or unlimited
    #[arg(long, value_name = "RATE", default_value = "10gbit", requires = "writes", value_parser = quantity::bandwidth)]
    link: Bandwidth,
    /// Bytes of a command
    #[arg(long, value_name = "BYTES", default_value = "128", requires = "writes", value_parser = quantity::message)]
    command: usize,
}

/// What each batch comes to, and which is chosen.
pub(super) struct Chosen {
    per_second: f64,
    tried: Vec<Tried>,
    chosen: usize,
}

impl Writes {
    /// The batch with the lowest p99.9 of those that keep up with `per_second` calls of `load`, whose writes wait for it from then
    /// on. `None` if nothing is written.
    ///
    /// # Errors
    /// If there is no such method, or no batch keeps up.
    pub(super) fn choose(
        &self,
        load: &Load,
        per_second: f64,
        calibration: Option<&Calibration>,
        seed: u64,
    ) -> Result<Option<Chosen>, Problem> {
        if self.writes.is_empty() {
            return Ok(None);
        }
        let Some(costs) = calibration else {
            let problem = Problem::wrong_use("--writes: what a sync of the disk takes is not known");
            return Err(problem.remedy("say --costs, of `greenwave sim calibrate`"));
        };
        let methods = load.methods();
        if let Some(unknown) = self.writes.iter().find(|name| methods.iter().all(|method| method.name != **name)) {
            let names = methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Problem::wrong_use(format!("--writes: no {unknown:?} was recorded; there are {names}")));
        }
        let written = methods.iter().filter(|method| self.writes.contains(&method.name));
        let per_second = per_second * written.map(|method| method.share).sum::<f64>();
        let nanos = |nanos: f64| Duration::from_nanos(nanos as u64);
        let group = Group {
            members: self.members,
            path: self.path,
            bandwidth: self.link,
            sync: nanos(costs.sync_ns.median),
            message: nanos(costs.at_server_ns()),
            command: nanos(costs.call_ns.median + costs.handler_ns.median),
            request: u32::try_from(self.command).unwrap_or(u32::MAX),
            per_second,
        };
        let mut progress = Progress::new(1);
        progress.step("batches of the group");
        let tried = batches::batches(&group, seed, |share| progress.show(share, 0));
        drop(progress);
        let tried = tried.map_err(|error| Problem::wrong_use(error).remedy("see --help, A replica group"))?;
        let able = tried.iter().enumerate().filter(|(_, of)| of.keeps_up);
        match able.min_by_key(|(_, of)| of.quantiles[2]).map(|(at, _)| at) {
            Some(chosen) => Ok(Some(Chosen { per_second, tried, chosen })),
            None => {
                let what = format!("no batch keeps up with {per_second:.0} writes a second, of up to 1024 commands");
                Err(Problem::failure(what).remedy("lower the load, or divide the rows among several groups"))
            }
        }
    }

    /// The load whose writes wait for the group.
    pub(super) fn behind(&self, load: &Load, chosen: &Chosen) -> Result<Load, Problem> {
        let mut methods = load.methods().to_vec();
        for method in methods.iter_mut().filter(|method| self.writes.contains(&method.name)) {
            method.behind = Some(chosen.tried[chosen.chosen].took);
        }
        Load::new(methods).map_err(Problem::wrong_use)
    }
}

impl Chosen {
    pub(super) fn table(&self) -> String {
        let head = ["batch", "window", "p50", "p99", "p99.9", ""].map(str::to_owned);
        let line = |(at, of): (usize, &Tried)| {
            let [p50, p99, p999] = of.quantiles.map(|span| format!("{span:.1?}"));
            let note = match () {
                () if !of.keeps_up => "can't keep up",
                () if at == self.chosen => "chosen",
                () => "",
            };
            vec![of.commands.to_string(), of.window.to_string(), p50, p99, p999, note.to_owned()]
        };
        let lines: Vec<Vec<String>> = self.tried.iter().enumerate().map(line).collect();
        let head_line =
            format!("{:.0} writes a second, by commands of a batch and batches under way:", self.per_second);
        format!("{head_line}\n{}", page::aligned(&head, &lines).trim_end())
    }

    pub(super) fn object(&self) -> Value {
        let us = |span: Duration| span.as_nanos() as f64 / 1e3;
        let each = |of: &Tried| {
            let [p50, p99, p999] = of.quantiles.map(us);
            json!({
                "commands": of.commands, "window": of.window, "p50_us": p50, "p99_us": p99, "p999_us": p999,
                "keeps_up": of.keeps_up,
            })
        };
        json!({
            "per_second": self.per_second,
            "chosen": each(&self.tried[self.chosen]),
            "tried": self.tried.iter().map(each).collect::<Vec<_>>(),
        })
    }
}
