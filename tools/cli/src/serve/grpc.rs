//! What a server can be told of gRPC's clients.

use std::time::Duration;

use clap::Args;
use greenwave::GrpcSettings;
use serde::{Deserialize, Serialize};

use super::server::with;
use super::values::{Bound, Switch, Time};
use crate::problem::Problem;

/// How gRPC's clients are served, and how long their connections may last.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "gRPC")]
pub(super) struct GrpcOptions {
    /// Whether clients of gRPC are served too, at the same addresses: on or off [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(super) grpc: Option<Switch>,
    /// Whether x-envoy-expected-rq-timeout-ms counts as a deadline of gRPC's calls, and of those by HTTP: on or off; on
    /// only if all of their clients are proxies of your own [default: off]
    #[arg(long, value_name = "SWITCH")]
    pub(super) grpc_trust_envoy: Option<Switch>,
    /// Whether answers tell gRPC's clients how busy the server is (endpoint-load-metrics-bin), for balancers: on or off
    /// [default: off]
    #[arg(long, value_name = "SWITCH")]
    pub(super) grpc_load: Option<Switch>,
    /// After how long without a word from a client it is asked whether it is there, or off [default: 2h]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_keepalive: Option<Bound>,
    /// How long it may then say nothing before its connection is closed [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_keepalive_timeout: Option<Time>,
    /// How long a connection may have no call before the client is told to connect anew, or off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_idle: Option<Bound>,
    /// How old a connection may become before the client is told the same, or off: so that clients of long standing come
    /// to know of new servers [default: off]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_age: Option<Bound>,
    /// How long the calls of a connection that is too old may take before they are ended, or off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_age_grace: Option<Bound>,
    /// How long a client has to wait before it asks again whether the server is there, or off; who asks sooner three times
    /// is sent away [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(super) grpc_pings: Option<Bound>,
    /// Whether clients without a call may ask as often as others: on or off [default: off, once in 2h]
    #[arg(long, value_name = "SWITCH")]
    pub(super) grpc_pings_idle: Option<Switch>,
}

/// As the library has them: how long is waited for a client's word, and how long between its questions.
const TIMEOUT: Duration = Duration::from_secs(20);
const KEEPALIVE: Duration = Duration::from_hours(2);
const PINGS: Duration = Duration::from_mins(5);

impl GrpcOptions {
    /// How gRPC's clients are served; not at all if it is off.
    ///
    /// # Errors
    /// A setting that is of no use without another one, or can't be meant.
    pub(super) fn settings(&self) -> Result<Option<GrpcSettings>, Problem> {
        let bound = |said: Option<Bound>| said.and_then(|Bound(bound)| bound);
        if self.grpc_age_grace.is_some() && bound(self.grpc_age).is_none() {
            let problem = Problem::wrong_use("setting `grpc_age_grace` is for connections that may become too old");
            return Err(problem.remedy("say how old they may become with --grpc-age"));
        }
        let timeout = self.grpc_keepalive_timeout.map_or(TIMEOUT, |time| *time.0);
        if timeout.is_zero() {
            let problem = Problem::wrong_use("setting `grpc_keepalive_timeout` is 0; allowed: more than nothing");
            return Err(problem.remedy("to ask no client, say --grpc-keepalive off"));
        }
        let after = self.grpc_keepalive.map_or(KEEPALIVE, Bound::time);
        // Without a bound between them, any time is long enough.
        let pings = self.grpc_pings.map_or(PINGS, |Bound(least)| least.unwrap_or(Duration::ZERO));
        let grpc = GrpcSettings::new()
            .keepalive(after, timeout)
            .least_between_pings(pings, self.grpc_pings_idle == Some(Switch::On));
        let grpc = with(grpc, self.grpc_trust_envoy, |it, on| it.trust_envoy(on == Switch::On));
        let grpc = with(grpc, self.grpc_load, |it, on| it.report_load(on == Switch::On));
        let grpc = with(grpc, self.grpc_idle, |it, idle| it.most_idle(idle.time()));
        let grace = self.grpc_age_grace.map_or(Duration::MAX, Bound::time);
        let grpc = with(grpc, self.grpc_age, |it, age| it.most_age(age.time(), grace));
        Ok((self.grpc != Some(Switch::Off)).then_some(grpc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn settings(words: &str) -> Result<Option<GrpcSettings>, Problem> {
        let command = GrpcOptions::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split_whitespace())?;
        GrpcOptions::from_arg_matches(&matches)?.settings()
    }

    #[test]
    fn what_is_not_said_is_as_the_library_has_it() {
        assert_eq!(settings("").unwrap(), Some(GrpcSettings::new()));
        assert_eq!(settings("--grpc=off --grpc-age=1h").unwrap(), None);
    }

    #[test]
    fn what_is_said_of_connections_counts() {
        let (minute, hour) = (Duration::from_mins(1), Duration::from_hours(1));
        let expected = GrpcSettings::new()
            .keepalive(minute, Duration::from_secs(5))
            .most_idle(2 * minute)
            .most_age(hour, 3 * minute)
            .least_between_pings(Duration::from_secs(10), true)
            .report_load(true);
        let words = "--grpc-keepalive=1m --grpc-keepalive-timeout=5s --grpc-idle=2m --grpc-age=1h --grpc-age-grace=3m \
                     --grpc-pings=10s --grpc-pings-idle=on --grpc-load=on";
        assert_eq!(settings(words).unwrap(), Some(expected));
        let unbounded =
            GrpcSettings::new().keepalive(Duration::MAX, TIMEOUT).least_between_pings(Duration::ZERO, false);
        let words = "--grpc-keepalive=off --grpc-idle=off --grpc-age=off --grpc-pings=off";
        assert_eq!(settings(words).unwrap(), Some(unbounded));
    }

    #[test]
    fn what_can_not_be_meant_is_refused_with_a_remedy() {
        for (words, what, remedy) in [
            ("--grpc-age=0s", "allowed: off, or a time such as 5m", "see --help"),
            ("--grpc-idle=never", "allowed: off, or a time such as 5m", "see --help"),
            ("--grpc-age-grace=1m", "`grpc_age_grace` is for connections that may become too old", "with --grpc-age"),
            ("--grpc-age=off --grpc-age-grace=1m", "`grpc_age_grace` is for", "with --grpc-age"),
            ("--grpc-keepalive-timeout=0s", "more than nothing", "--grpc-keepalive off"),
        ] {
            let told = settings(words).unwrap_err().to_string();
            assert!(told.contains(what) && told.contains(remedy), "{told}");
        }
    }
}
