//! `greenwave agent`: what this host does for its guests' small flows and for threads that must answer on time.

mod boost;
mod run;
pub(crate) mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use greenwave_host::agent::{AgentError, Settings, off, status};

use crate::problem::Problem;

/// Tag flows of guests, containers and processes as small or large; boost threads
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Agent {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Run,
}

#[derive(Subcommand)]
enum Command {
    Status(Status),
    Off(Off),
    Boost(boost::Boost),
}

/// Say what the agents of this network namespace see: devices, and flows with the most bytes first
#[derive(Args)]
struct Status {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    /// How many flows are shown at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    /// Where agents keep their sockets
    #[arg(long, value_name = "DIR", default_value = Settings::STATE)]
    state: PathBuf,
}

/// End the agents of this network namespace, and take away whatever agents have left behind
#[derive(Args)]
struct Off {
    /// Where agents keep their sockets and notes
    #[arg(long, value_name = "DIR", default_value = Settings::STATE)]
    state: PathBuf,
}

const EXAMPLES: &str = "\
Runs until SIGTERM or SIGINT. Nothing is dropped, delayed or redirected; guests don't change.

Examples:
  greenwave agent --dev tap0 --dev tap1
  greenwave agent --dev 'veth*' --uplink eth0 --key five-tuple --metrics 127.0.0.1:9464
  greenwave agent --dev tap0 --debt 0          the bucket as in the paper
  greenwave agent --trust eth1                 priorities of this host from others' tags
  greenwave agent status --json
  greenwave agent off
  greenwave agent boost --pid 4711             a short slice for threads that must answer on time";

impl Agent {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match self.command {
            None => self.run.run(),
            Some(Command::Status(status)) => status.run(),
            Some(Command::Off(off)) => off.run(),
            Some(Command::Boost(boost)) => boost.run(),
        }
    }
}

impl Status {
    fn run(&self) -> Result<(), Problem> {
        let status = status(&self.state, self.most).map_err(problem)?;
        if self.json {
            let text = serde_json::to_string(&status).map_err(Problem::failure)?;
            show!("{text}");
        } else {
            show::lines(&status).iter().for_each(|line| show!("{line}"));
        }
        Ok(())
    }
}

impl Off {
    fn run(&self) -> Result<(), Problem> {
        let undone = off(&self.state).map_err(problem)?;
        undone.agents.iter().for_each(|pid| show!("ended process {pid}"));
        undone.devices.iter().for_each(|device| show!("took away what was left on {device}"));
        if undone == Default::default() {
            show!("nothing to undo: no agent runs here, and none has left anything behind");
        }
        Ok(())
    }
}

/// What can't be meant is wrong use; the rest has failed. Both texts say the remedy themselves.
fn problem(error: AgentError) -> Problem {
    use AgentError as E;
    match error {
        E::NoDevice
        | E::UnknownDevice(_)
        | E::DeviceName(_)
        | E::NamedTwice(_)
        | E::Rule(_)
        | E::Flows(_)
        | E::Idle(_)
        | E::Dscp(_)
        | E::SameDscp => Problem::wrong_use(error),
        _ => Problem::failure(error),
    }
}
