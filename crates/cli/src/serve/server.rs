//! A server as settings describe it.

use greenwave::policy::{AdmissionConfig, Mode};
use greenwave::rpc::{Instance, Limits};
use greenwave::verbs::TlsServer;
use greenwave::verbs::tls::{Identity, Pem};
use greenwave::{Address, ServerConfig};

use super::needed;
use super::settings::ServerSettings;
use super::values::{Count, InstanceSettings, Switch};
use crate::problem::Problem;

impl ServerSettings {
    /// The server that these settings describe. What they leave open is as `usual` has it.
    ///
    /// # Errors
    /// A setting out of its range, or a certificate or key that can't be used.
    pub(super) fn config(&self, usual: ServerConfig) -> Result<ServerConfig, Problem> {
        let said = self.clone();
        let config = ServerConfig {
            name: said.name.map_or(usual.name, |name| name.0.as_str().to_owned()),
            listen: said.listen.map_or(usual.listen, |listen| listen.0),
            clusters: said.clusters.map_or(usual.clusters, Count::usize),
            workers: said.workers.map_or(usual.workers, Count::usize),
            cores: said.cores.map_or(usual.cores, |cores| cores.0),
            instances: said.instance.into_iter().map(Instance::from).collect(),
            order: said.order.map_or(usual.order, |order| order.0),
            admission: AdmissionConfig {
                mode: said
                    .admission
                    .map_or(usual.admission.mode, |on| if on == Switch::On { Mode::On } else { Mode::Off }),
                max_queue: said.max_queue.map_or(usual.admission.max_queue, Count::usize),
                reject_cap: said.reject_cap.map_or(usual.admission.reject_cap, |share| share.0),
                reserve: said.reserve.map_or(usual.admission.reserve, |share| share.0),
                ..usual.admission
            },
            report_only: said.report_only.map_or(usual.report_only, |on| on == Switch::On),
            wait: said.wait.map_or(usual.wait, |idle| idle.0),
            backend: said.backend.map_or(usual.backend, |backend| backend.0),
            tls: self.tls()?,
            steal: usual.steal.filter(|_| said.steal.is_none_or(|on| on == Switch::On)),
            limits: Limits { credits: said.credits.map_or(usual.limits.credits, Count::u32), ..usual.limits },
            quantum: said.quantum.map_or(usual.quantum, |quantum| quantum.0),
            coroutines: said.coroutines.map_or(usual.coroutines, Count::usize),
            confidence: said.confidence.map_or(usual.confidence, |share| share.0),
            late_share: said.late_share.map_or(usual.late_share, |share| share.0),
            ..usual
        };
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
        let usual = Self::default();
        Self {
            listen: said.listen.0,
            clusters: said.clusters.map_or(usual.clusters, Count::usize),
            cores: said.cores.map_or(usual.cores, |cores| cores.0),
            backend: said.backend.map_or(usual.backend, |backend| backend.0),
        }
    }
}

/// A server of this name with nothing said, at this port of this machine; 0 is any that is free.
pub(super) fn usual(name: impl Into<String>, port: u16) -> ServerConfig {
    ServerConfig { name: name.into(), listen: vec![here(port)], ..ServerConfig::default() }
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
    use std::time::Duration;

    fn server(words: &[&str]) -> Result<ServerConfig, Problem> {
        let command = ServerSettings::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words)?;
        ServerSettings::from_arg_matches(&matches)?.config(usual("stage", 0))
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let config = server(&[]).unwrap();
        assert_eq!((config.name.as_str(), config.listen), ("stage", vec![here(0)]));
        assert_eq!((config.clusters, config.steal), (ServerConfig::default().clusters, ServerConfig::default().steal));
    }

    #[test]
    fn what_is_said_counts() {
        let words = [
            "--listen=tcp://127.0.0.1:1,unix:///x",
            "--order=edf",
            "--admission=off",
            "--wait=7us",
            "--cores=0,1",
            "--report-only",
            "--quantum=2us",
            "--steal=off",
            "--instance=tcp://127.0.0.1:2,clusters=2",
            "--instance=unix:///y",
        ];
        let config = server(&words).unwrap();
        assert_eq!(config.listen.len(), 2);
        assert_eq!((config.order, config.steal), (Order::EarliestDeadline, None));
        assert_eq!(config.admission.mode, Mode::Off);
        assert_eq!(config.wait, Wait::Adaptive { spin: Duration::from_micros(7) });
        assert_eq!((config.cores, config.report_only), (vec![0, 1], true));
        assert_eq!(config.quantum, Some(Duration::from_micros(2)));
        assert_eq!(config.instances.iter().map(|it| it.clusters).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(server(&["--quantum=off"]).unwrap().quantum, None);
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
