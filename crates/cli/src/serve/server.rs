//! A server as settings describe it.

use greenwave::policy::{AdmissionConfig, StealRule};
use greenwave::rpc::{Instance, Limits};
use greenwave::verbs::TlsServer;
use greenwave::verbs::tls::{Identity, Pem};
use greenwave::{Address, ServerConfig};

use super::needed;
use super::settings::ServerSettings;
use super::values::{Cores, Idle, InstanceSettings, List, Quantum, Share, Switch, Word};
use crate::problem::Problem;

impl ServerSettings {
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
        let config = with(config, said.steal, |it, on| it.steal((on == Switch::On).then(StealRule::default)));
        let config = with(config, said.credits, |it, credits| it.limits(Limits::new().credits(credits.u32())));
        let config = with(config, said.quantum, |it, Quantum(quantum)| it.quantum(quantum));
        let config = with(config, said.coroutines, |it, coroutines| it.coroutines(coroutines.usize()));
        let config = with(config, said.confidence, |it, Share(share)| it.confidence(share));
        let config = with(config, said.late_share, |it, Share(share)| it.late_share(share));
        config.validate().map_err(|error| Problem::wrong_use(error).remedy("see --help"))?;
        Ok(config)
    }

    /// How the server is secured: by a certificate and its key, if there are any, and by who may connect.
    fn tls(&self) -> Result<Option<TlsServer>, Problem> {
        let authority = self.tls_client_ca.as_deref().map(Pem::File);
        let Some(identity) = self.identity(authority.is_some())? else { return Ok(None) };
        TlsServer::new(identity, authority).map(Some).map_err(Problem::wrong_use)
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

impl From<InstanceSettings> for Instance {
    fn from(said: InstanceSettings) -> Self {
        let instance = Self::default().listen(said.listen.0);
        let instance = with(instance, said.clusters, |it, clusters| it.clusters(clusters.usize()));
        let instance = with(instance, said.cores, |it, Cores(cores)| it.cores(cores));
        with(instance, said.backend, |it, Word(backend)| it.backend(backend))
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
    use clap::{Args, Command, FromArgMatches};
    use greenwave::policy::Order;
    use greenwave::rpc::Wait;
    use greenwave::verbs::Choice;
    use std::time::Duration;

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
            .confidence(0.75)
            .late_share(0.125)
            .backend(Choice::Epoll)
            .instances([Instance::default().listen([first]).clusters(2), Instance::default().listen([second])]);
        let words = "--name=front --listen=tcp://127.0.0.1:1,unix:///x --order=edf --admission=off --max-queue=9 \
                     --reject-cap=0.25 --reserve=0.5 --wait=7us --cores=0,1 --clusters=2 --workers=3 --report-only \
                     --quantum=2us --steal=off --credits=99 --coroutines=77 --confidence=0.75 --late-share=0.125 \
                     --backend=epoll --instance=tcp://127.0.0.1:2,clusters=2 --instance=unix:///y";
        let words: Vec<_> = words.split_whitespace().collect();
        assert_eq!(format!("{:?}", server(&words).unwrap()), format!("{expected:?}"));
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
            ("confidence", "0", Some("1")),
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
}
