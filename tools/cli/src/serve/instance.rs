//! A further instance of a server: where it listens at another network interface, and what serves what comes in there.

use std::str::FromStr;

use clap::{Args, Command, FromArgMatches};
use greenwave::{Address, Choice, Instance};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::server::with;
use super::values::{Cores, Count, List, Word};
use crate::problem;

/// A further instance, in an option `tcp://10.0.1.5:7000,clusters=2,cores=4-7`, in a file a table with these keys.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstanceSettings {
    #[arg(long)]
    pub(crate) listen: List<Address>,
    #[arg(long)]
    pub(crate) clusters: Option<Count<1, 256>>,
    #[arg(long)]
    pub(crate) cores: Option<Cores>,
    #[arg(long)]
    pub(crate) backend: Option<Word<Choice>>,
}

impl FromStr for InstanceSettings {
    type Err = String;

    /// Commas stand between what is said of an instance, and also within lists. So a part without a key goes on with the
    /// key before it, and those at the beginning say where the instance listens.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim) {
            match words.last_mut() {
                _ if has_key(part) => words.push(format!("--{part}")),
                Some(word) => word.extend([",", part]),
                None => words.push(format!("--listen={part}")),
            }
        }
        let command = Self::augment_args(Command::new("instance").no_binary_name(true).disable_help_flag(true));
        let matches = command.try_get_matches_from(words);
        matches.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|error| problem::in_a_line(&error))
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

/// Whether it is `key=value`, and no address with a `=` in it.
fn has_key(part: &str) -> bool {
    part.split_once('=').is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Tables, each an instance.
pub(super) fn tables<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<InstanceSettings>, D::Error> {
    let wrong = |error| format!("{error}; allowed: tables with the keys listen, clusters, cores and backend");
    Vec::deserialize(from).map_err(|error: D::Error| D::Error::custom(wrong(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_of_an_instance_is_left_open() {
        let alone: InstanceSettings = "tcp://127.0.0.1:7000".parse().unwrap();
        assert_eq!((alone.listen.0.len(), alone.clusters, alone.cores), (1, None, None));
    }

    #[test]
    fn an_instance_has_addresses_clusters_and_cores_of_its_own() {
        let said = "tcp://127.0.0.1:1,unix:///a=b,clusters=2,cores=0-2,7,backend=epoll";
        let instance: InstanceSettings = said.parse().unwrap();
        assert_eq!(instance.listen.to_string(), "tcp://127.0.0.1:1,unix:///a=b");
        assert_eq!((instance.clusters, instance.cores), (Count::new(2), Some(Cores(vec![0, 1, 2, 7]))));
        assert!(matches!(instance.backend, Some(Word(Choice::Epoll))));
        assert_eq!("listen=unix:///c".parse::<InstanceSettings>().unwrap().listen.to_string(), "unix:///c");
    }

    #[test]
    fn an_instance_that_can_not_be_meant_is_refused_with_its_key() {
        for (said, why) in [
            ("clusters=2", "the following required arguments were not provided: --listen"),
            ("7000", "invalid value '7000' for '--listen <LISTEN>': `7000` is no address"),
            (
                "tcp://127.0.0.1:1,clusters=0",
                "invalid value '0' for '--clusters <CLUSTERS>': allowed: a number, 1 to 256",
            ),
            ("tcp://127.0.0.1:1,cores=3-1", "invalid value '3-1' for '--cores <CORES>': allowed: numbers"),
            ("tcp://127.0.0.1:1,color=red", "unexpected argument '--color' found"),
            ("tcp://127.0.0.1:1,listen=unix:///x", "the argument '--listen <LISTEN>' cannot be used multiple times"),
        ] {
            let told = said.parse::<InstanceSettings>().unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
    }
}
