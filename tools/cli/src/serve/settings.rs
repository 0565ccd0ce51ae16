//! The settings of each process that `greenwave serve` runs.
//!
//! A field is an option, a variable and a key of a file at once, and processes that are started by another are given the
//! same structures. What nobody said is `None`: its default is the service's to know.

use std::path::PathBuf;

use clap::Args;
use greenwave::Address;
use greenwave_kv::Kv;
use greenwave_services::recommend::store::Stage;
use greenwave_services::replicated::peers::Peers;
use greenwave_services::search::index::IndexConfig;
use serde::{Deserialize, Serialize};

use super::server::ServerSettings;
use super::values::{ANY, Count, List, Share, Switch, Time, Word};

/// Serve full-text search over a directory: a process for each shard of an index, an aggregator in front
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve search                       the sources of the crates in the local Cargo registry
  greenwave serve search --dir ~/notes --shards 4 --listen tcp://127.0.0.1:7100
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"completion queue\"}'")]
pub(super) struct SearchSettings {
    /// The directory that is searched [default: the local Cargo registry]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Where the index is kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// How many shards the index is cut into, 1 to 256 [default: 18]
    #[arg(long, value_name = "N")]
    pub(super) shards: Option<Count<1, MOST_SHARDS>>,
    /// Which files are searched, by extension; * for all [default: rs,md,toml,txt]
    #[arg(long, value_name = "LIST")]
    pub(super) extensions: Option<List<String>>,
    /// How much text is indexed at most, in MiB: an even sample if there is more [default: 64]
    #[arg(long, value_name = "MIB")]
    pub(super) max_mib: Option<Count<1, ANY>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) depth: DepthSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) unit: UnitSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) adapt: AdaptSetting,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// Serve recommendations from the crates below a directory: a chain of three processes
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve recommend                    the crates in the local Cargo registry
  greenwave serve recommend --order edf --admission off --listen tcp://127.0.0.1:7200
  greenwave call tcp://127.0.0.1:7200 Profile/Recommend '{\"user\": \"serde@1.0.228\"}'")]
pub(super) struct RecommendSettings {
    /// The directory with the crates [default: the local Cargo registry]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Where the stages' stores are kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) adapt: AdaptSetting,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// Serve a store of keys and values: a GET takes about a microsecond, a SCAN of all rows hundreds
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve kv --listen tcp://127.0.0.1:7400
  greenwave serve kv --listen tcp://0.0.0.0:7400 --tls-cert server.pem --tls-key server.key --tls-client-ca ca.pem
  greenwave serve kv --id 1 --data /var/lib/kv \\
      --peers 1=tcp://10.0.0.1:7400,2=tcp://10.0.0.2:7400,3=tcp://10.0.0.3:7400 --insecure
  greenwave serve kv --join --id 4 --data /var/lib/kv --peers 1=tcp://10.0.0.1:7400,4=tcp://10.0.0.4:7400 --insecure
  greenwave serve kv --listen tcp://10.0.0.5:7400 --cores 0-3 --clusters 4 --insecure \\
      --instance tcp://10.0.1.5:7400,cores=4-7,clusters=4
  greenwave call tcp://127.0.0.1:7400 Kv/Put '{\"key\": \"ada\", \"value\": \"lovelace\"}'
  greenwave call tcp://127.0.0.1:7400 Kv/Get '{\"key\": \"ada\"}'
  greenwave call tcp://127.0.0.1:7400 Kv/Scan --receipt")]
pub(super) struct KvSettings {
    /// Where the store is kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) rows: RowsSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) replica: ReplicaSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// What a store of its own is made with, and how it is scanned.
#[derive(Args, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RowsSettings {
    /// How many rows the store is made with, if it is made [default: 2400]
    #[arg(long, value_name = "N")]
    pub(super) rows: Option<Count<0, 99_999_999>>,
    /// Bytes of each of their values [default: 100]
    #[arg(long, value_name = "N")]
    pub(super) value_bytes: Option<Count<0, LONGEST_VALUE>>,
    /// Rows that a SCAN reads before it lets others pass; 0 if it never does [default: 64]
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub(super) checkpoint_rows: Option<Count<0, MOST_ROWS>>,
}

/// Which replica of which group it is.
#[derive(Args, Clone, Default, PartialEq, Serialize, Deserialize)]
#[command(next_help_heading = "Replication")]
pub(super) struct ReplicaSettings {
    /// Serve a replica of a group instead, which are these: each one's number and address, or host's name and port, with
    /// commas between. One with a name listens at all IPv4 addresses, unless --listen says where. The other replicas call it
    /// at a port of its own, 1000 above or behind a slash: 1=tcp://10.0.0.1:7400/7500. A new group begins when all of them
    /// are there
    #[arg(long, value_name = "PEERS")]
    pub(super) peers: Option<Word<Peers>>,
    /// Which of the peers this is
    #[arg(long, value_name = "N")]
    pub(super) id: Option<u64>,
    /// The group is there already, and this replica is to be added to it by `greenwave group add`: --peers names itself
    /// and those that there are. With a directory that has its log, it goes on where it was
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(super) join: Option<Switch>,
    /// The group's name; directories and replicas of another one are refused [default: kv]
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,
    /// How large a batch may be, in place of what follows from measuring; --window-bytes belongs to it
    #[arg(long, value_name = "BYTES")]
    pub(super) batch_bytes: Option<u64>,
    /// How many bytes of batches may be on their way to each replica; --batch-bytes belongs to it
    #[arg(long, value_name = "BYTES")]
    pub(super) window_bytes: Option<u64>,
    /// Bytes of the log after which a snapshot is taken [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub(super) log_bytes: Option<Count<1, ANY>>,
    /// Where it listens for the other replicas, if not where --peers says
    #[arg(long, value_name = "ADDRESS")]
    pub(super) peer_listen: Option<List<Address>>,
    /// A file with a key that all replicas of the group have and nobody else, 32 bytes or more: only who has it is taken for
    /// a replica. Without it that takes certificates (--peer-names), or to be on the same machine, or --insecure
    #[arg(long, value_name = "FILE")]
    pub(super) group_key: Option<PathBuf>,
    /// The names of which a replica's certificate has to have one, URIs or names of hosts: only who shows one is taken for a
    /// replica. It takes --tls-client-ca [default: the hosts' names in --peers, with --tls-client-ca]
    #[arg(long, value_name = "LIST")]
    pub(super) peer_names: Option<List<String>>,
    /// The names of which a client's certificate has to have one to run the group (`greenwave group`, `greenwave tune`). It
    /// takes --tls-client-ca [default: who calls from this machine may, with --allow whom that says, with --insecure
    /// everybody]
    #[arg(long, value_name = "LIST")]
    pub(super) operators: Option<List<String>>,
    /// Whose certificates the replicas have, a PEM file: those with --tls-cert talk to one another over TLS, and each shows
    /// the others its certificate
    #[arg(long, value_name = "FILE")]
    pub(super) tls_peer_ca: Option<PathBuf>,
}

/// Serve one shard of an index that `serve search` made
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve search-shard --index ~/.cache/greenwave/search-0123456789abcdef --shard 3 \\
      --listen tcp://0.0.0.0:7103 --insecure")]
pub(super) struct ShardSettings {
    /// The directory of the index
    #[arg(long, value_name = "DIR")]
    pub(super) index: Option<PathBuf>,
    /// Which of its shards, from 0
    #[arg(long, value_name = "N")]
    pub(super) shard: Option<Count<0, LAST_SHARD>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) depth: DepthSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) adapt: AdaptSetting,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// Serve the aggregator in front of shards that run elsewhere
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve search-aggregator --shards tcp://10.0.0.1:7100,tcp://10.0.0.2:7100 --listen tcp://0.0.0.0:7100 \\
      --insecure")]
pub(super) struct AggregatorSettings {
    /// The addresses of the shards in their order, with commas between them; replicas of a shard with | between them
    #[arg(long, value_name = "ADDRESSES")]
    pub(super) shards: Option<List<List<Address, '|'>>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) unit: UnitSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// Serve one stage of the chain from stores that `serve recommend` made
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  greenwave serve recommend-stage --stage recommendation --store ~/.cache/greenwave/recommend-0123456789abcdef \\
      --listen tcp://0.0.0.0:7202 --insecure
  greenwave serve recommend-stage --stage history --store DIR --next tcp://10.0.0.3:7202 \\
      --listen tcp://0.0.0.0:7201 --insecure")]
pub(super) struct StageSettings {
    /// The stage: profile, history or recommendation
    #[arg(long, value_name = "NAME")]
    pub(super) stage: Option<Word<Stage>>,
    /// The directory of the stores
    #[arg(long, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    /// Where the next stage is
    #[arg(long, value_name = "ADDRESS")]
    pub(super) next: Option<Word<Address>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) adapt: AdaptSetting,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) server: ServerSettings,
}

/// How deep a shard looks.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(super) struct DepthSettings {
    /// Candidates that are worth reading however few match
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub(super) depth_least: Option<Count<1, ANY>>,
    /// One in so many matching sections is worth reading
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub(super) depth_one_in: Option<Count<1, ANY>>,
    /// Candidates that are worth reading however many match
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub(super) depth_most: Option<Count<1, ANY>>,
}

/// What the aggregator does about slow shards.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(super) struct UnitSettings {
    /// How many of the calls to shards may be sent a second time, 0 to 1 [default: 0.05]
    #[arg(long, value_name = "SHARE", help_heading = "Work")]
    pub(super) hedge_ratio: Option<Share>,
    /// How long a shard may take at least before it is asked a second time; it is learned [default: 1ms]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub(super) hedge_after: Option<Time>,
    /// How much of the budget is kept for merging, until that is learned [default: 200us]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub(super) aggregation: Option<Time>,
}

#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(super) struct AdaptSetting {
    /// Whether less is done when the budget is short: on or off [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "Work")]
    pub(super) adapt: Option<Switch>,
}

impl AdaptSetting {
    pub(super) fn is_on(&self) -> bool {
        self.adapt.is_none_or(|on| on == Switch::On)
    }
}

const MOST_SHARDS: u64 = IndexConfig::MOST_SHARDS as u64;
const LAST_SHARD: u64 = MOST_SHARDS - 1;
const LONGEST_VALUE: u64 = Kv::LONGEST_VALUE as u64;
const MOST_ROWS: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_services::kv::KvServiceConfig;

    fn keys<S: Args>() -> Vec<String> {
        let command = S::augment_args(clap::Command::new("test"));
        command.get_arguments().map(|option| option.get_id().to_string()).collect()
    }

    #[test]
    fn whoever_starts_all_processes_can_say_what_each_of_them_understands() {
        let of_search = keys::<SearchSettings>();
        let of_its_processes = [keys::<ShardSettings>(), keys::<AggregatorSettings>()].concat();
        for key in of_its_processes.iter().filter(|key| !["index", "shard"].contains(&key.as_str())) {
            assert!(of_search.contains(key), "{key}");
        }
        let of_recommend = keys::<RecommendSettings>();
        for key in keys::<StageSettings>().iter().filter(|key| !["stage", "store", "next"].contains(&key.as_str())) {
            assert!(of_recommend.contains(key), "{key}");
        }
    }

    #[test]
    fn the_help_states_the_rows_that_a_store_is_made_with() {
        let command = KvSettings::augment_args(clap::Command::new("test")).render_long_help().to_string();
        let rows = greenwave_kv::Rows::DEFAULT;
        for default in [rows.count, rows.value_bytes, KvServiceConfig::CHECKPOINT_ROWS] {
            assert!(command.contains(&format!("[default: {default}]")), "{default} in {command}");
        }
    }
}
