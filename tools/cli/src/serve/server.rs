//! What every server can be told, and the server that this describes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use greenwave::tls::{Identity, Pem, TlsServer};
use greenwave::{
    Address, AdmissionConfig, Choice, Features, Instance, Limits, Order, ServerConfig, StageName, StealRule,
    WebSettings,
};
use serde::{Deserialize, Serialize};

use super::access::AccessOptions;
use super::bounds::BoundsOptions;
use super::events::Ending;
use super::grpc::GrpcOptions;
use super::instance::{InstanceSettings, tables};
use super::needed;
use super::shares::ShareOptions;
use super::values::{ANY, Cores, Count, Idle, List, Quantum, Share, Switch, Time, Word};
use crate::problem::Problem;

/// What every server can be told.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerSettings {
    /// Where it listens; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<List<Address>>,
    /// Its name in receipts, up to 64 bytes
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<Word<StageName>>,
    /// What runs next: guarded, fcfs, ps, edf, least-laxity, oldest-first, stage-laxity [default: guarded]
    #[arg(long, value_name = "ORDER")]
    pub(super) order: Option<Word<Order>>,
    /// Whether what can't be answered in time is refused: on or off [default: on]
    #[arg(long, value_name = "MODE")]
    pub(super) admission: Option<Switch>,
    /// The longest queue, in requests [default: 4096]
    #[arg(long, value_name = "N")]
    pub(super) max_queue: Option<Count<1, ANY>>,
    /// The largest share of requests that may be refused as infeasible, 0 to 1 [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub(super) reject_cap: Option<Share>,
    /// The share of the budget it came with that a request must still have when it begins and others wait, 0 to less
    /// than 1
    /// [default: 0.3]
    #[arg(long, value_name = "SHARE")]
    pub(super) reserve: Option<Share<false>>,
    /// For which quantile of its learned work a request must have time, 0 to 1; the margin on it follows the outcomes
    /// [default: 0.1]
    #[arg(long, value_name = "QUANTILE")]
    pub(super) work_quantile: Option<Share>,
    /// The share of begun requests that may come too late, 0 to 1 [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    pub(super) late_share: Option<Share>,
    /// Refuse nothing and give nothing up, for deadlines or by admission: count what would have been, by which check.
    /// `greenwave call ADDRESS greenwave.Meta/Counters` shows the counts, report_only_... [default: off]
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(super) report_only: Option<Switch>,
    /// How long a handler runs before others have their turn: off, or a time such as 5us. It takes a program that
    /// `cargo quanta` has built [default: 5us in such a one]
    #[arg(long, value_name = "TIME")]
    pub(super) quantum: Option<Quantum>,
    /// What an idle thread does: spin, block, or adaptive:20us (spins so long, then blocks)
    /// [default: adaptive:20us]
    #[arg(long, value_name = "MODE")]
    pub(super) wait: Option<Idle>,
    /// How many clusters, each a completion queue with its thread, 1 to 256 [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) clusters: Option<Count<1, 256>>,
    /// Whether a cluster that has too much to do lets others serve its calls: on or off; off keeps the calls of a
    /// connection in order, with --order fcfs [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(super) steal: Option<Switch>,
    /// How many receive buffers each connection has, 4 to 65535: as many chunks may be on their way to it
    /// [default: 256]
    #[arg(long, value_name = "N")]
    pub(super) credits: Option<Count<4, 65535>>,
    /// How many worker threads for each cluster, 0 to 256; 0 runs handlers in place [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) workers: Option<Count<0, 256>>,
    /// How many requests each thread may have begun and unfinished, at most; with admission on it begins as few as
    /// keep the stages behind busy [default: 1024]
    #[arg(long, value_name = "N")]
    pub(super) coroutines: Option<Count<1, 65536>>,
    /// The cores that its threads are pinned to, such as 0,1 or 0-3 [default: not pinned]
    #[arg(long, value_name = "LIST")]
    pub(super) cores: Option<Cores>,
    /// A further instance, for another network interface: where it listens, and clusters, cores and backend of its own,
    /// such as tcp://10.0.1.5:7000,clusters=2,cores=4-7. Can be said several times; in a
    /// variable, with semicolons between
    #[arg(long, value_name = "ADDRESS[,KEY=VALUE]...", value_delimiter = ';')]
    #[serde(default, deserialize_with = "tables")]
    pub(super) instance: Vec<InstanceSettings>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) grpc: GrpcOptions,
    /// Whether methods can be called by HTTP too, at the same addresses, by pages, scripts and probes: on or off
    /// [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(super) web: Option<Switch>,
    /// The origins whose pages may call by HTTP, such as https://shop.example; * for all [default: none]
    #[arg(long, value_name = "LIST")]
    pub(super) web_origins: Option<List<String>>,
    /// Which features of Greenwave's protocol it offers its peers at most: all, none, or some with commas between, such as
    /// receipts,origins. With fewer it speaks as older releases do [default: all]
    #[arg(long, value_name = "LIST")]
    pub(super) wire_features: Option<Word<Features>>,
    /// What moves the bytes: auto, uring, epoll or fabric [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(super) backend: Option<Word<Choice>>,
    /// Its certificate, a PEM file: it then takes connections over TLS alone. Processes of the same service that it
    /// starts on this machine are not secured
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key: Option<PathBuf>,
    /// Whose certificates clients have to have, a PEM file [default: clients need none]
    #[arg(long, value_name = "FILE")]
    pub(super) tls_client_ca: Option<PathBuf>,
    /// Which clients' certificates were revoked: a PEM file of lists of all authorities in their chains
    #[arg(long, value_name = "FILE")]
    pub(super) tls_crl: Option<PathBuf>,
    /// How many TLS handshakes may be under way at a time, 1 to 65536; who comes beyond that takes the place of the
    /// oldest [default: 1024]
    #[arg(long, value_name = "N")]
    pub(super) tls_handshakes: Option<Count<1, 65536>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) bounds: BoundsOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) shares: ShareOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) access: AccessOptions,
    /// How long what was accepted may take to be finished at the end [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Process")]
    pub(super) drain: Option<Time>,
}

impl ServerSettings {
    /// How the process is to end.
    pub(super) fn ending(&self, follow_stdin: bool) -> Ending {
        Ending { limit: self.drain.map_or(Duration::from_secs(10), |drain| *drain.0), follow_stdin }
    }

    /// The same for a process of this machine behind the one that clients call: it listens at a port of its own, is not
    /// secured, and begins at another one of the cores, so that of several not all are on the first.
    pub(super) fn behind(&self, place: usize) -> Self {
        let (tls_cert, tls_key, tls_client_ca, tls_crl) = (None, None, None, None);
        let (listen, name, instance, access) = (None, None, Vec::new(), AccessOptions::default());
        // All of its calls are made by the one in front.
        let shares = ShareOptions::default();
        let mut own =
            Self { listen, name, instance, tls_cert, tls_key, tls_client_ca, tls_crl, shares, access, ..self.clone() };
        if let Some(Cores(cores)) = &mut own.cores {
            let by = place % cores.len().max(1);
            cores.rotate_left(by);
        }
        own
    }

    /// The server that these settings describe. What they leave open is as `usual` has it.
    ///
    /// # Errors
    /// A setting out of its range, or a certificate or key that can't be used.
    pub(super) fn config(&self, usual: ServerConfig) -> Result<ServerConfig, Problem> {
        let said = self.clone();
        let admission = AdmissionConfig::default();
        let admission = with(admission, said.admission, |it, on| it.enabled(on == Switch::On));
        let admission = with(admission, said.max_queue, |it, most| it.max_queue(most.usize()));
        let admission = with(admission, said.reject_cap, |it, Share(share)| it.reject_cap(share));
        let admission = with(admission, said.reserve, |it, Share(share)| it.reserve(share));
        let instances: Vec<_> = said.instance.into_iter().map(Instance::from).collect();
        let config = usual.admission(admission).instances(instances).tls(self.tls()?);
        let config = with(config, said.name, |it, Word(name)| it.name(name.as_str()));
        let config = with(config, said.listen, |it, List(listen)| it.listen(listen));
        let config = with(config, said.clusters, |it, clusters| it.clusters(clusters.usize()));
        let config = with(config, said.workers, |it, workers| it.workers(workers.usize()));
        let config = with(config, said.cores, |it, Cores(cores)| it.cores(cores));
        let config = with(config, said.order, |it, Word(order)| it.order(order));
        let config = with(config, said.report_only, |it, on| it.report_only(on == Switch::On));
        let config = with(config, said.wait, |it, Idle(wait)| it.wait(wait));
        let config = with(config, said.backend, |it, Word(backend)| it.backend(backend));
        let config = with(config, said.wire_features, |it, Word(features)| it.features(features));
        let config = with(config, said.steal, |it, on| it.steal((on == Switch::On).then(StealRule::default)));
        let limits = with(Limits::new(), said.credits, |it, credits| it.credits(credits.u32()));
        let limits = with(limits, said.tls_handshakes, |it, handshakes| it.handshakes(handshakes.u32()));
        let config = if limits == Limits::new() { config } else { config.limits(limits) };
        let config = config.bounds(said.bounds.bounds()).shares(said.shares.config()?);
        let config = with(config, said.quantum, |it, Quantum(quantum)| it.quantum(quantum));
        let config = with(config, said.coroutines, |it, coroutines| it.coroutines(coroutines.usize()));
        let config = with(config, said.work_quantile, |it, Share(share)| it.work_quantile(share));
        let config = config.grpc(said.grpc.settings()?);
        let web = with(WebSettings::new(), said.web_origins, |it, List(origins)| it.origins(origins));
        let web = with(web, said.grpc.grpc_trust_envoy, |it, on| it.trust_envoy(on == Switch::On));
        let config = config.web((said.web != Some(Switch::Off)).then_some(web));
        let config = with(config, said.late_share, |it, Share(share)| it.late_share(share));
        config.validate().map_err(|error| Problem::wrong_use(error).remedy("see --help"))?;
        self.access.guard(config, (self.tls_cert.is_some(), self.tls_client_ca.is_some()))
    }

    /// How the server is secured: by a certificate and its key, if there are any, and by who may connect.
    pub(super) fn tls(&self) -> Result<Option<TlsServer>, Problem> {
        let authority = self.tls_client_ca.as_deref().map(Pem::File);
        let revoked = self.tls_crl.as_deref().map(Pem::File);
        let Some(identity) = self.identity(authority.is_some() || revoked.is_some())? else { return Ok(None) };
        let server = match revoked {
            None => TlsServer::new(identity, authority),
            Some(lists) => {
                let authority =
                    needed(authority, "tls_client_ca", "a PEM file, as only clients' certificates are looked up")?;
                TlsServer::revoking(identity, authority, &[lists])
            }
        };
        server.map(Some).map_err(Problem::wrong_use)
    }

    /// Its certificate and its key; none if nothing was said of either, unless an authority makes them `necessary`.
    ///
    /// # Errors
    /// One of them is missing.
    pub(super) fn identity(&self, necessary: bool) -> Result<Option<Identity<'_>>, Problem> {
        if !necessary && self.tls_cert.is_none() && self.tls_key.is_none() {
            return Ok(None);
        }
        let certificate = needed(self.tls_cert.as_deref(), "tls_cert", "a PEM file").map(Pem::File)?;
        let key = needed(self.tls_key.as_deref(), "tls_key", "a PEM file").map(Pem::File)?;
        Ok(Some(Identity { certificate, key }))
    }
}

/// What was configured before, with what was said, if anything was.
pub(super) fn with<C, T>(config: C, said: Option<T>, set: impl FnOnce(C, T) -> C) -> C {
    match said {
        Some(said) => set(config, said),
        None => config,
    }
}

/// A server of this name with nothing said, at this port of this machine; 0 is any that is free.
pub(super) fn usual(name: impl Into<String>, port: u16) -> ServerConfig {
    ServerConfig::default().name(name).listen([here(port)])
}

/// A port of this machine.
pub(super) fn here(port: u16) -> Address {
    Address::Tcp(([127, 0, 0, 1], port).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};
    use greenwave::GrpcSettings;
    use greenwave::Wait;

    fn server(words: &[&str]) -> Result<ServerConfig, Problem> {
        let command = ServerSettings::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words)?;
        ServerSettings::from_arg_matches(&matches)?.config(usual("stage", 0))
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(format!("{:?}", server(&[]).unwrap()), format!("{:?}", usual("stage", 0)));
    }

    #[test]
    fn what_is_said_counts() {
        let listen = ["tcp://127.0.0.1:1", "unix:///x", "tcp://127.0.0.1:2", "unix:///y"].map(|it| it.parse().unwrap());
        let [own, other, first, second] = listen;
        let expected = usual("front", 0)
            .listen([own, other])
            .order(Order::EarliestDeadline)
            .admission(AdmissionConfig::default().enabled(false).max_queue(9).reject_cap(0.25).reserve(0.5))
            .wait(Wait::Adaptive { spin: Duration::from_micros(7) })
            .cores([0, 1])
            .clusters(2)
            .workers(3)
            .report_only(true)
            .quantum(Duration::from_micros(2))
            .steal(None)
            .limits(Limits::new().credits(99))
            .coroutines(77)
            .work_quantile(0.75)
            .late_share(0.125)
            .backend(Choice::Epoll)
            .grpc(GrpcSettings::new().trust_envoy(true))
            .web(WebSettings::new().origins(["https://a.example", "http://b:1"]).trust_envoy(true))
            .instances([Instance::default().listen([first]).clusters(2), Instance::default().listen([second])]);
        let words = "--name=front --listen=tcp://127.0.0.1:1,unix:///x --order=edf --admission=off --max-queue=9 \
                     --reject-cap=0.25 --reserve=0.5 --wait=7us --cores=0,1 --clusters=2 --workers=3 --report-only \
                     --quantum=2us --steal=off --credits=99 --coroutines=77 --work-quantile=0.75 --late-share=0.125 \
                     --backend=epoll --grpc-trust-envoy=on --web-origins=https://a.example,http://b:1 --instance=tcp://127.0.0.1:2,clusters=2 --instance=unix:///y";
        let words: Vec<_> = words.split_whitespace().collect();
        assert_eq!(format!("{:?}", server(&words).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn other_protocols_can_be_switched_off() {
        let expected = usual("stage", 0).grpc(None);
        assert_eq!(format!("{:?}", server(&["--grpc=off"]).unwrap()), format!("{expected:?}"));
        let expected = usual("stage", 0).web(None);
        assert_eq!(format!("{:?}", server(&["--web=off"]).unwrap()), format!("{expected:?}"));
        let wrong = server(&["--web-origins=shop.example"]).unwrap_err().to_string();
        assert!(wrong.contains("web.origins"), "{wrong}");
    }

    /// What the types refuse and what servers refuse are the same.
    #[test]
    fn the_ends_of_each_range_are_a_servers_own() {
        for (option, least, most) in [
            ("clusters", "1", Some("256")),
            ("workers", "0", Some("256")),
            ("coroutines", "1", Some("65536")),
            ("credits", "4", Some("65535")),
            ("max-queue", "1", None),
            ("reject-cap", "0", Some("1")),
            ("reserve", "0", None),
            ("work-quantile", "0", Some("1")),
            ("late-share", "0", Some("1")),
            ("quantum", "500ns", None),
        ] {
            for end in [Some(least), most].into_iter().flatten() {
                assert!(server(&[&format!("--{option}={end}")]).is_ok(), "{option} {end}");
            }
        }
        for (option, allowed) in [("--name=", "1 to 64 bytes"), ("--cores=70000,1-9", "cores that this machine has")] {
            let told = server(&[option]).unwrap_err().to_string();
            assert!(told.contains(allowed), "{told}");
        }
    }

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        for (words, missing) in [(["--tls-key=/k"], "tls_cert"), (["--tls-cert=/c"], "tls_key")] {
            let told = server(&words).unwrap_err().to_string();
            assert!(told.starts_with(&format!("setting `{missing}` is missing; allowed: a PEM file")), "{told}");
        }
        assert!(server(&["--tls-client-ca=/a"]).unwrap_err().to_string().contains("`tls_cert` is missing"));
    }

    #[test]
    fn of_several_processes_each_begins_at_another_core() {
        let said = |cores: &str| ServerSettings { cores: Some(cores.parse().unwrap()), ..ServerSettings::default() };
        let turned = |said: ServerSettings, by| said.behind(by).cores.unwrap().0;
        assert_eq!([0, 1, 5].map(|by| turned(said("0,1,4"), by)), [[0, 1, 4], [1, 4, 0], [4, 0, 1]]);
        assert_eq!(turned(said("0-2"), 1), [1, 2, 0]);
    }

    #[test]
    fn the_help_states_the_defaults_that_there_are() {
        let (defaults, admission) = (format!("{:?}", ServerConfig::default()), AdmissionConfig::default());
        let number = |key: &str| {
            let (_, after) = defaults.split_once(&format!(" {key}: ")).expect("it is a setting");
            after.split([',', ' ']).next().unwrap_or_default().to_owned()
        };
        let command = ServerSettings::augment_args(Command::new("test"));
        let helps = |key: &str| {
            let option = command.get_arguments().find(|option| option.get_id() == key);
            option.and_then(|option| option.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        let numbers = [
            ("max_queue", admission.max_queue.to_string()),
            ("reject_cap", admission.reject_cap.to_string()),
            ("reserve", admission.reserve.to_string()),
        ];
        let others = ["coroutines", "work_quantile", "late_share", "clusters", "workers", "credits"];
        let numbers = numbers.into_iter().chain(others.map(|key| (key, number(key))));
        let names = [("order", Order::default().name()), ("admission", "on"), ("report_only", "off")];
        let names = names.into_iter().chain([("backend", "auto")]).map(|(key, name)| (key, name.to_owned()));
        for (key, default) in names.chain(numbers) {
            assert!(helps(key).contains(&format!("[default: {default}]")), "{key}: {}", helps(key));
        }
    }
}
