//! The agent in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use greenwave_host::agent::{self, Agent, AgentError, DeviceName, Dscp, Event, FlowRule, Role, Settings, Stop};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::problem;
use crate::problem::Problem;
use crate::quantity::{bytes, rate, span};

#[derive(Args)]
pub(super) struct Run {
    /// The host's side of a guest's device, or the beginning of their names and a * [repeatable]
    #[arg(long = "dev", value_name = "DEVICE")]
    guests: Vec<String>,
    /// A device by which the host itself sends [repeatable]
    #[arg(long = "uplink", value_name = "DEVICE")]
    uplinks: Vec<String>,
    /// A device on which tagged packets arrive: their priority here follows from their DSCP [repeatable]
    #[arg(long = "trust", value_name = "DEVICE")]
    trusted: Vec<String>,
    /// What a flow may send for ever and still be small
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = rate, help_heading = "Small or large")]
    rate: u64,
    /// What it may send at once
    #[arg(long, value_name = "SIZE", default_value = "30KB", value_parser = bytes, help_heading = "Small or large")]
    burst: u64,
    /// The most that it can owe, as time at its rate; 0 for the paper's bucket, which charges large packets nothing
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = span, help_heading = "Small or large")]
    debt: Duration,
    /// After how long a large flow may be small again at the soonest [default: 10ms; with --debt 0: 0]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Small or large")]
    recheck: Option<Duration>,
    /// What tells flows apart: addresses, or addresses, protocol and ports
    #[arg(long, value_enum, default_value_t = Key::Pair, help_heading = "Small or large")]
    key: Key,
    /// How many flows are known at most; those quiet for longest give way
    #[arg(long, value_name = "N", default_value_t = 65_536, help_heading = "Table")]
    flows: u32,
    /// After which pause a flow is forgotten
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span, help_heading = "Table")]
    idle: Duration,
    /// The DSCP of small flows, or `keep`
    #[arg(long, value_name = "DSCP", default_value = "ef", help_heading = "Tags")]
    small_dscp: String,
    /// The DSCP of large flows, or `keep`
    #[arg(long, value_name = "DSCP", default_value = "cs1", help_heading = "Tags")]
    large_dscp: String,
    /// Serve metrics as Prometheus reads them: http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// By which hook of the kernel: tcx ends with the agent, clsact is what `tc` shows
    #[arg(long, value_enum, default_value_t = Hook::Any)]
    hook: Hook,
    /// Where the agent keeps its socket and notes of what it changed
    #[arg(long, value_name = "DIR", default_value = Settings::STATE)]
    state: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Key {
    Pair,
    FiveTuple,
}

#[derive(Clone, Copy, ValueEnum)]
enum Hook {
    Any,
    Tcx,
    Clsact,
}

impl Run {
    pub(super) fn run(self) -> Result<(), Problem> {
        let rule = FlowRule { rate: self.rate, burst: self.burst, debt: self.debt, recheck: self.recheck() };
        let settings = self.settings(rule).map_err(problem)?;
        // Listened to before anything is attached, so that no signal leaves anything behind.
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Problem::failure(format!("the system refuses signals: {error}")))?;
        let mut agent = Agent::start(settings).map_err(problem)?;
        let stop = Stop::new().map_err(problem)?;
        let told = stop.clone();
        let listening = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            signals.forever().take(1).for_each(|_| told.stop());
        });
        listening.map_err(|error| Problem::failure(format!("the system refuses threads: {error}")))?;
        explain(&agent, &rule);
        agent.run(&stop, &mut |event: Event| tell!("{event}")).map_err(problem)?;
        drop(agent);
        tell!("nothing is tagged any more");
        Ok(())
    }

    /// With no debt the bucket is as published, where nothing holds a flow back.
    fn recheck(&self) -> Duration {
        let usual = if self.debt.is_zero() { FlowRule::AS_PUBLISHED } else { FlowRule::default() };
        self.recheck.unwrap_or(usual.recheck)
    }

    fn settings(self, rule: FlowRule) -> Result<Settings, AgentError> {
        let names = |texts: Vec<String>| texts.iter().map(|text| text.parse()).collect::<Result<Vec<DeviceName>, _>>();
        Ok(Settings {
            guests: names(self.guests)?,
            uplinks: names(self.uplinks)?,
            trusted: names(self.trusted)?,
            rule,
            key: match self.key {
                Key::Pair => agent::FlowKey::Pair,
                Key::FiveTuple => agent::FlowKey::FiveTuple,
            },
            flows: self.flows,
            idle: self.idle,
            small: self.small_dscp.parse::<Dscp>()?,
            large: self.large_dscp.parse::<Dscp>()?,
            hook: match self.hook {
                Hook::Any => agent::Hook::Any,
                Hook::Tcx => agent::Hook::Tcx,
                Hook::Clsact => agent::Hook::Clsact,
            },
            metrics: self.metrics,
            state: self.state,
        })
    }
}

/// Says what the agent does, where, and how it is undone.
fn explain(agent: &Agent, rule: &FlowRule) {
    let named = |wanted: &[Role]| {
        let names: Vec<_> =
            agent.devices().filter(|(_, role)| wanted.contains(role)).map(|(name, _)| name.to_owned()).collect();
        names.join(", ")
    };
    let (tagged, trusted) = (named(&[Role::Guest, Role::Uplink]), named(&[Role::Trusted]));
    if !trusted.is_empty() {
        show!("taking priorities from the tags of what arrives on {trusted}");
    }
    if let Some(address) = agent.metrics() {
        show!("metrics at http://{address}/metrics");
    }
    let mbit = rule.rate as f64 / 1e6;
    let debt = match rule.debt.is_zero() {
        true => "large packets cost nothing".to_owned(),
        false => format!("at most {} in debt", humantime::format_duration(rule.debt)),
    };
    show!("a flow is small up to {mbit} Mbit/s and {} bytes at once, {debt}; to end: SIGTERM or SIGINT", rule.burst);
    match (tagged.is_empty(), trusted.is_empty()) {
        (false, _) => show!("tagging on {tagged}"),
        (true, false) => show!("tagging on no device, as none was named for it"),
        (true, true) => show!("tagging on no device yet; waiting for one with such a name"),
    }
}
