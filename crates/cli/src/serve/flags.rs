//! The options of `greenwave serve`.
//!
//! They are texts: what they may say is the services' to know, which also read them from files. The names of the
//! fields are the keys of a file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::Keys;
use super::events::Ending;
use crate::problem::Problem;

/// Serve full-text search over a directory: a process for each shard of an index, an aggregator in front
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve search                       the sources of the crates in the local Cargo registry
  greenwave serve search --dir ~/notes --shards 4 --listen tcp://127.0.0.1:7100
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"completion queue\"}'")]
pub(crate) struct SearchFlags {
    /// The directory that is searched [default: the local Cargo registry]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Where the index is kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many shards the index is cut into, 1 to 256 [default: 18]
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// Which files are searched, by extension; * for all [default: rs,md,toml,txt]
    #[arg(long, value_name = "LIST")]
    extensions: Option<String>,
    /// How much text is indexed at most, in MiB: an even sample if there is more [default: 64]
    #[arg(long, value_name = "MIB")]
    max_mib: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    depth: DepthFlags,
    #[command(flatten)]
    #[serde(flatten)]
    unit: UnitFlags,
    #[command(flatten)]
    #[serde(flatten)]
    adapt: AdaptFlag,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// Serve recommendations from the crates below a directory: a chain of three processes
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve recommend                    the crates in the local Cargo registry
  greenwave serve recommend --order edf --admission off --listen tcp://127.0.0.1:7200
  greenwave call tcp://127.0.0.1:7200 Profile/Recommend '{\"user\": \"serde@1.0.228\"}'")]
pub(crate) struct RecommendFlags {
    /// The directory with the crates [default: the local Cargo registry]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Where the stages' stores are kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    adapt: AdaptFlag,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// Serve a store of keys and values: a GET takes about a microsecond, a SCAN of all rows hundreds
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve kv --listen tcp://127.0.0.1:7400
  greenwave serve kv --listen tcp://0.0.0.0:7400 --tls-cert server.pem --tls-key server.key
  greenwave serve kv --id 1 --data /var/lib/kv \\
      --peers 1=tcp://10.0.0.1:7400,2=tcp://10.0.0.2:7400,3=tcp://10.0.0.3:7400
  greenwave serve kv --join --id 4 --data /var/lib/kv --peers 1=tcp://10.0.0.1:7400,4=tcp://10.0.0.4:7400
  greenwave serve kv --listen tcp://10.0.0.5:7400 --cores 0-3 --clusters 4 \\
      --instance tcp://10.0.1.5:7400,cores=4-7,clusters=4
  greenwave call tcp://127.0.0.1:7400 Kv/Put '{\"key\": \"ada\", \"value\": \"lovelace\"}'
  greenwave call tcp://127.0.0.1:7400 Kv/Get '{\"key\": \"ada\"}'
  greenwave call tcp://127.0.0.1:7400 Kv/Scan --receipt")]
pub(crate) struct KvFlags {
    /// Where the store is kept [default: below ~/.cache/greenwave]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many rows the store is made with, if it is made [default: 2400]
    #[arg(long, value_name = "N")]
    rows: Option<String>,
    /// Bytes of each of their values [default: 100]
    #[arg(long, value_name = "N")]
    value_bytes: Option<String>,
    /// Rows that a SCAN reads before it lets others pass; 0 if it never does [default: 64]
    #[arg(long, value_name = "N", help_heading = "Work")]
    checkpoint_rows: Option<String>,
    /// Serve a replica of a group instead, which are these: each one's number and address, with commas between
    #[arg(long, value_name = "PEERS", help_heading = "Replication")]
    peers: Option<String>,
    /// Which of the peers this is
    #[arg(long, value_name = "N", help_heading = "Replication")]
    id: Option<String>,
    /// The group is there already, and this replica is to be added to it by `greenwave group add`: --peers names itself
    /// and those that there are. With a directory that has its log, it goes on where it was
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on",
        help_heading = "Replication")]
    join: Option<String>,
    /// The group's name; directories and replicas of another one are refused [default: kv]
    #[arg(long, value_name = "NAME", help_heading = "Replication")]
    group: Option<String>,
    /// How large a batch may be, in place of what follows from measuring; --window-bytes belongs to it
    #[arg(long, value_name = "BYTES", help_heading = "Replication")]
    batch_bytes: Option<String>,
    /// How many bytes of batches may be on their way to each replica; --batch-bytes belongs to it
    #[arg(long, value_name = "BYTES", help_heading = "Replication")]
    window_bytes: Option<String>,
    /// Bytes of the log after which a snapshot is taken [default: 67108864]
    #[arg(long, value_name = "BYTES", help_heading = "Replication")]
    log_bytes: Option<String>,
    /// Whose certificates the replicas have, a PEM file: those with --tls-cert talk to one another over TLS, and each shows
    /// the others its certificate
    #[arg(long, value_name = "FILE", help_heading = "Replication")]
    tls_peer_ca: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// Serve one shard of an index that `serve search` made
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve search-shard --index ~/.cache/greenwave/search-0123456789abcdef --shard 3 --listen tcp://0.0.0.0:7103")]
pub(crate) struct ShardFlags {
    /// The directory of the index
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    /// Which of its shards, from 0
    #[arg(long, value_name = "N")]
    shard: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    depth: DepthFlags,
    #[command(flatten)]
    #[serde(flatten)]
    adapt: AdaptFlag,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// Serve the aggregator in front of shards that run elsewhere
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve search-aggregator --shards tcp://10.0.0.1:7100,tcp://10.0.0.2:7100 --listen tcp://0.0.0.0:7100")]
pub(crate) struct AggregatorFlags {
    /// The addresses of the shards in their order, with commas between them; replicas of a shard with | between them
    #[arg(long, value_name = "ADDRESSES")]
    shards: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    unit: UnitFlags,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// Serve one stage of the chain from stores that `serve recommend` made
#[derive(Args, Serialize)]
#[command(after_help = "\
Examples:
  greenwave serve recommend-stage --stage recommendation --store ~/.cache/greenwave/recommend-0123456789abcdef \\
      --listen tcp://0.0.0.0:7202
  greenwave serve recommend-stage --stage history --store DIR --next tcp://10.0.0.3:7202 --listen tcp://0.0.0.0:7201")]
pub(crate) struct StageFlags {
    /// The stage: profile, history or recommendation
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// The directory of the stores
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where the next stage is
    #[arg(long, value_name = "ADDRESS")]
    next: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    adapt: AdaptFlag,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) run: RunFlags,
}

/// How deep a shard looks.
#[derive(Args, Serialize)]
struct DepthFlags {
    /// Candidates that are worth reading however few match
    #[arg(long, value_name = "N", help_heading = "Work")]
    depth_least: Option<String>,
    /// One in so many matching sections is worth reading
    #[arg(long, value_name = "N", help_heading = "Work")]
    depth_one_in: Option<String>,
    /// Candidates that are worth reading however many match
    #[arg(long, value_name = "N", help_heading = "Work")]
    depth_most: Option<String>,
}

/// What the aggregator does about slow shards.
#[derive(Args, Serialize)]
struct UnitFlags {
    /// How many of the calls to shards may be sent a second time, 0 to 1 [default: 0.05]
    #[arg(long, value_name = "SHARE", help_heading = "Work")]
    hedge_ratio: Option<String>,
    /// How long a shard may take at least before it is asked a second time; it is learned [default: 1ms]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    hedge_after: Option<String>,
    /// How much of the budget is kept for merging, until that is learned [default: 200us]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    aggregation: Option<String>,
}

#[derive(Args, Serialize)]
struct AdaptFlag {
    /// Whether less is done when the budget is short: on or off [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "Work")]
    adapt: Option<String>,
}

/// What every server can be told.
#[derive(Args, Serialize)]
#[command(next_help_heading = "Server")]
struct ServerFlags {
    /// Where it listens; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Its name in receipts, up to 64 bytes
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What runs next: guarded, fcfs, ps, edf, least-laxity, oldest-first, stage-laxity [default: guarded]
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Whether what can't be answered in time is refused: on or off [default: on]
    #[arg(long, value_name = "MODE")]
    admission: Option<String>,
    /// The longest queue, in requests [default: 4096]
    #[arg(long, value_name = "N")]
    max_queue: Option<String>,
    /// The largest share of requests that may be refused as infeasible, 0 to 1 [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    reject_cap: Option<String>,
    /// The share of the budget it came with that a request must still have when it begins and others wait, 0 to less
    /// than 1
    /// [default: 0.3]
    #[arg(long, value_name = "SHARE")]
    reserve: Option<String>,
    /// For which quantile of its learned work a request must have time, 0 to 1; the margin on it follows the outcomes
    /// [default: 0.1]
    #[arg(long, value_name = "QUANTILE")]
    confidence: Option<String>,
    /// The share of begun requests that may come too late, 0 to 1 [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    late_share: Option<String>,
    /// Refuse nothing and give nothing up, for deadlines or by admission: count what would have been, by which check.
    /// `greenwave call ADDRESS greenwave.Meta/Counters` shows the counts, report_only_... [default: off]
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    report_only: Option<String>,
    /// How long a handler runs before others have their turn: off, or a time such as 5us. It takes a program that
    /// `cargo quanta` has built [default: 5us in such a one]
    #[arg(long, value_name = "TIME")]
    quantum: Option<String>,
    /// What an idle thread does: spin, block, or adaptive:20us (spins so long, then blocks)
    /// [default: adaptive:20us]
    #[arg(long, value_name = "MODE")]
    wait: Option<String>,
    /// How many clusters, each a completion queue with its thread, 1 to 256 [default: 1]
    #[arg(long, value_name = "N")]
    clusters: Option<String>,
    /// Whether a cluster that has too much to do lets others serve its calls: on or off; off keeps the calls of a
    /// connection in order, with --order fcfs [default: on]
    #[arg(long, value_name = "SWITCH")]
    steal: Option<String>,
    /// How many receive buffers each connection has, 4 to 65535: as many chunks may be on their way to it
    /// [default: 256]
    #[arg(long, value_name = "N")]
    credits: Option<String>,
    /// How many worker threads for each cluster, 0 to 256; 0 runs handlers in place [default: 0]
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// How many requests each thread may have begun and unfinished, at most; with admission on it begins as few as
    /// keep the stages behind busy [default: 1024]
    #[arg(long, value_name = "N")]
    coroutines: Option<String>,
    /// The cores that its threads are pinned to, such as 0,1 or 0-3 [default: not pinned]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// A further instance, for another network interface: where it listens, and clusters, cores and backend of its own,
    /// such as tcp://10.0.1.5:7000,clusters=2,cores=4-7. Can be said several times
    #[arg(long, value_name = "ADDRESS[,KEY=VALUE]...")]
    instance: Vec<String>,
    /// What moves the bytes: auto, uring, epoll or fabric [default: auto]
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Its certificate, a PEM file: it then takes connections over TLS alone. Processes of the same service that it
    /// starts on this machine are not secured
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Whose certificates clients have to have, a PEM file [default: clients need none]
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
}

/// How the process itself is run.
#[derive(Args, Serialize)]
#[command(next_help_heading = "Process")]
pub(super) struct RunFlags {
    /// A TOML file with the same keys, underscores for hyphens; options count more than the file
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// How long what was accepted may take to be finished at the end [default: 10s]
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,
    /// Ends when standard input does, at once, or after the line `drain`
    #[arg(long, hide = true)]
    #[serde(skip)]
    follow_stdin: bool,
}

/// Everything that was said, in options and in the file, and how the process is to end. It listens at `listen` if
/// nothing else was said.
pub(super) fn gather(flags: &impl Serialize, run: &RunFlags, listen: &str) -> Result<(Keys, Ending), Problem> {
    let (mut keys, ending) = gather_all(flags, run)?;
    keys.put_default("listen", listen);
    Ok((keys, ending))
}

/// Everything that was said, and how the process is to end.
pub(super) fn gather_all(flags: &impl Serialize, run: &RunFlags) -> Result<(Keys, Ending), Problem> {
    let mut keys = Keys::gather(flags, run.config.as_deref())?;
    let limit = keys.take_as("drain", "a time, such as 10s", |text| humantime::parse_duration(text).ok())?;
    let limit = limit.unwrap_or(Duration::from_secs(10));
    Ok((keys, Ending { limit, follow_stdin: run.follow_stdin }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave::ServerConfig;
    use greenwave::policy::{AdmissionConfig, Order};
    use greenwave_services::kv::KvServiceConfig;
    use greenwave_services::recommend::StageConfig;
    use greenwave_services::replicated::member::MemberConfig;
    use greenwave_services::search::{AggregatorConfig, ShardConfig};
    use greenwave_services::settings::{SettingError, Settings};

    /// The keys of the flags that are the service's to understand.
    fn keys<F: Args + Serialize>() -> Vec<String> {
        let command = F::augment_args(clap::Command::new("test"));
        let flags = F::from_arg_matches(&command.get_matches_from(["test"])).unwrap();
        let flags = serde_json::to_value(flags).unwrap();
        flags.as_object().unwrap().keys().filter(|key| *key != "drain").cloned().collect()
    }

    /// The keys that a service understands, by its own account.
    fn understood<C>(words: &[&str], from: impl FnOnce(Settings) -> Result<C, SettingError>) -> Vec<String> {
        let words = words.iter().chain(&["listen=tcp://127.0.0.1:0", "nonsense=1"]);
        match from(Settings::parse(words).unwrap()).err() {
            Some(SettingError::Unknown { known, .. }) => {
                let mut known: Vec<_> = known.into_iter().map(str::to_owned).collect();
                known.sort_unstable();
                known
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_service_has_an_option_for_each_setting_that_it_understands() {
        assert_eq!(keys::<ShardFlags>(), understood(&["shard=0", "index=/"], ShardConfig::from_settings));
        let shards = "shards=tcp://127.0.0.1:1";
        assert_eq!(keys::<AggregatorFlags>(), understood(&[shards], AggregatorConfig::from_settings));
        let stage = ["stage=history", "store=/", "next=tcp://127.0.0.1:1"];
        assert_eq!(keys::<StageFlags>(), understood(&stage, StageConfig::from_settings));
        let member = ["data=/", "id=1", "peers=1=127.0.0.1:1", "batch_bytes=1", "window_bytes=1"];
        let alone = understood(&["data=/"], KvServiceConfig::from_settings);
        let mut either = [alone, understood(&member, MemberConfig::from_settings)].concat();
        either.sort_unstable();
        either.dedup();
        assert_eq!(keys::<KvFlags>(), either);
    }

    #[test]
    fn whoever_starts_all_processes_can_say_what_each_of_them_understands() {
        let of_search = keys::<SearchFlags>();
        let of_its_processes = [keys::<ShardFlags>(), keys::<AggregatorFlags>()].concat();
        for key in of_its_processes.iter().filter(|key| !["index", "shard"].contains(&key.as_str())) {
            assert!(of_search.contains(key), "{key}");
        }
        let of_recommend = keys::<RecommendFlags>();
        for key in keys::<StageFlags>().iter().filter(|key| !["stage", "store", "next"].contains(&key.as_str())) {
            assert!(of_recommend.contains(key), "{key}");
        }
    }

    #[test]
    fn the_help_states_the_rows_that_a_store_is_made_with() {
        let command = KvFlags::augment_args(clap::Command::new("test")).render_long_help().to_string();
        let rows = greenwave_kv::Rows::DEFAULT;
        for default in [rows.count, rows.value_bytes, KvServiceConfig::CHECKPOINT_ROWS] {
            assert!(command.contains(&format!("[default: {default}]")), "{default} in {command}");
        }
    }

    #[test]
    fn the_help_states_the_defaults_that_there_are() {
        let (defaults, admission) = (format!("{:?}", ServerConfig::default()), AdmissionConfig::default());
        let number = |key: &str| {
            let (_, after) = defaults.split_once(&format!(" {key}: ")).expect("it is a setting");
            after.split([',', ' ']).next().unwrap_or_default().to_owned()
        };
        let command = ServerFlags::augment_args(clap::Command::new("test"));
        let helps = |key: &str| {
            let option = command.get_arguments().find(|option| option.get_id() == key);
            option.and_then(|option| option.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        let numbers = [
            ("max_queue", admission.max_queue.to_string()),
            ("reject_cap", admission.reject_cap.to_string()),
            ("reserve", admission.reserve.to_string()),
        ];
        let others = ["coroutines", "confidence", "late_share", "clusters", "workers", "credits"];
        let numbers = numbers.into_iter().chain(others.map(|key| (key, number(key))));
        let names = [("order", Order::default().name()), ("admission", "on"), ("report_only", "off")];
        let names = names.into_iter().chain([("backend", "auto")]).map(|(key, name)| (key, name.to_owned()));
        for (key, default) in names.chain(numbers) {
            assert!(helps(key).contains(&format!("[default: {default}]")), "{key}: {}", helps(key));
        }
    }
}
