//! The services over TCP, as their processes serve them: clients, servers and stores are the real ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenwave::{
    Address, AdmissionConfig, Channel, ChannelConfig, Code, Context, MethodId, ServerConfig, ServerHandle, Status,
};
use greenwave_kv::{KvConfig, Rows};
use greenwave_services::kv::{KvServiceConfig, serve_kv};
use greenwave_services::proto::{kv, recommend as rec, search as proto};
use greenwave_services::recommend::{StageConfig, StageRole, serve_stage, store};
use greenwave_services::search::corpus::CorpusConfig;
use greenwave_services::search::index::{self, IndexConfig};
use greenwave_services::search::shard::Depth;
use greenwave_services::search::{AggregatorConfig, ShardConfig, serve_aggregator, serve_shard};
use prost::Message;

const LONG: Duration = Duration::from_secs(60);

fn call<R: Message + Default>(address: &Address, method: &str, request: &impl Message) -> Result<R, Status> {
    call_within(&Context::with_deadline(LONG), address, method, request)
}

fn call_within<R: Message + Default>(
    context: &Context,
    address: &Address,
    method: &str,
    request: &impl Message,
) -> Result<R, Status> {
    let channel = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
    let reply = channel.call(context, MethodId::of(method), &request.encode_to_vec())?;
    Ok(R::decode(&*reply.body).unwrap())
}

/// A server at a free port.
fn server(name: &str) -> ServerConfig {
    ServerConfig::default().name(name).listen(["tcp://127.0.0.1:0".parse().unwrap()])
}

fn shard(index: PathBuf, shard: usize) -> ShardConfig {
    ShardConfig { index, shard, depth: Depth::default(), adapt: true, server: server(&format!("shard-{shard:02}")) }
}

/// An index of three shards over a small corpus, each shard served.
struct Search {
    _root: tempfile::TempDir,
    shards: Vec<ServerHandle>,
    aggregator: ServerHandle,
}

impl Search {
    fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// With shards that are told more.
    fn start_with(more: impl Fn(&mut ShardConfig)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().join("text");
        fs::create_dir(&text).unwrap();
        for i in 0..60 {
            fs::write(text.join(format!("note{i}.md")), format!("note number {i}\n\nthe queue is long\n")).unwrap();
        }
        fs::write(text.join("best.md"), "nothing\n\nthe completion queue drains\n").unwrap();
        let config = IndexConfig { shards: 3, ..IndexConfig::new(root.path().join("index")) };
        index::ensure(&CorpusConfig::new(&text), &config, &|_| {}).unwrap();
        let serve = |number: usize| {
            let mut config = shard(config.directory.clone(), number);
            more(&mut config);
            serve_shard(config).unwrap()
        };
        let shards: Vec<_> = (0..3).map(serve).collect();
        let addresses = shards.iter().map(|shard| vec![shard.addresses()[0].clone()]).collect();
        let unit = greenwave::AggregatorConfig::default();
        let aggregator = AggregatorConfig { shards: addresses, unit, server: server("aggregator") };
        let aggregator = serve_aggregator(aggregator).unwrap();
        Self { _root: root, shards, aggregator }
    }

    fn ask(&self, text: &str) -> Result<proto::QueryReply, Status> {
        let request = proto::QueryRequest { text: text.to_owned(), limit: 5 };
        call(&self.aggregator.addresses()[0], proto::QUERY, &request)
    }
}

#[test]
fn the_aggregator_finds_the_best_of_all_shards() {
    let search = Search::start();
    let reply = search.ask("completion queue").unwrap();
    assert_eq!((reply.hits[0].file.as_str(), reply.hits[0].line), ("best.md", 3));
    assert_eq!(reply.hits[0].passage, "the completion queue drains");
    assert_eq!((reply.shards, reply.missing.len()), (3, 0));
    let precision = reply.precision.unwrap();
    assert!(precision.wanted > 0 && precision.examined == precision.wanted);
}

#[test]
fn copies_of_a_passage_in_other_shards_are_shown_once() {
    let search = Search::start();
    let reply = search.ask("long").unwrap();
    assert_eq!(reply.hits.len(), 1);
    assert!(reply.hits[0].copies >= 10, "{}", reply.hits[0].copies);
}

#[test]
fn a_shard_that_died_is_missing_and_the_others_answer() {
    let mut search = Search::start();
    search.ask("queue").unwrap();
    search.shards.remove(1).shutdown();
    let reply = search.ask("queue").unwrap();
    let missing: Vec<_> = reply.missing.iter().map(|it| it.shard).collect();
    assert_eq!(missing, [1]);
    assert!(!reply.missing[0].why.is_empty());
    assert!(!reply.hits.is_empty());
}

#[test]
fn without_any_shard_there_is_an_error_and_no_empty_answer() {
    let mut search = Search::start();
    search.shards.drain(..).for_each(ServerHandle::shutdown);
    assert_eq!(search.ask("queue").unwrap_err().code, Code::Unavailable);
}

#[test]
fn a_question_without_words_is_refused_by_the_aggregator_itself() {
    let search = Search::start();
    let status = search.ask("?!").unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument);
    assert!(status.message.contains("one word at least"), "{status}");
    assert_eq!(search.shards.iter().map(|shard| shard.counters().calls).sum::<u64>(), 0);
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let search = Search::start();
    let channel = Channel::new(search.aggregator.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    let status = channel.call(&Context::with_deadline(LONG), MethodId::of(proto::QUERY), &[0xff; 7]).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument);
}

#[test]
fn a_late_question_that_is_served_all_the_same_degrades_unless_told_not_to() {
    let spent = Context::observed(Duration::ZERO);
    let request = proto::QueryRequest { text: "queue".to_owned(), limit: 5 };
    let precision = |adapt: bool| {
        let search = Search::start_with(|shard| {
            shard.adapt = adapt;
            shard.server = server("shard").admission(AdmissionConfig::default().enabled(false)).report_only(true);
        });
        let shard = &search.shards[0].addresses()[0];
        let reply: proto::ShardReply = call_within(&spent, shard, proto::SHARD_QUERY, &request).unwrap();
        assert!(!reply.hits.is_empty());
        reply.precision.unwrap()
    };
    let adapting = precision(true);
    assert!(adapting.examined == 0 && adapting.wanted > 0);
    let stubborn = precision(false);
    assert_eq!(stubborn.examined, stubborn.wanted);
}

/// The three stages over a small registry, each served.
struct Chain {
    _root: tempfile::TempDir,
    profile: ServerHandle,
    _later: [ServerHandle; 2],
}

impl Chain {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let crates = root.path().join("crates");
        for (name, dependencies) in [("web1", "http log tls"), ("web2", "http log tls"), ("newcomer", "http log")] {
            let listed: String = dependencies.split(' ').map(|it| format!("{it} = \"1\"\n")).collect();
            fs::create_dir_all(crates.join(name)).unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n[dependencies]\n{listed}");
            fs::write(crates.join(name).join("Cargo.toml"), manifest).unwrap();
        }
        let stores = root.path().join("stores");
        store::ensure(&crates, &stores).unwrap();
        let next = |server: &ServerHandle| server.addresses()[0].clone();
        let last = Self::stage(&stores, "recommendation", StageRole::Recommendation);
        let middle = Self::stage(&stores, "history", StageRole::History { next: next(&last) });
        let profile = Self::stage(&stores, "profile", StageRole::Profile { next: next(&middle) });
        Self { _root: root, profile, _later: [middle, last] }
    }

    fn stage(stores: &Path, name: &str, stage: StageRole) -> ServerHandle {
        serve_stage(StageConfig { store: stores.to_owned(), stage, adapt: true, server: server(name) }).unwrap()
    }

    fn ask(&self, user: &str, limit: u32) -> Result<rec::RecommendReply, Status> {
        call(&self.profile.addresses()[0], rec::PROFILE, &rec::ProfileRequest { user: user.to_owned(), limit })
    }
}

#[test]
fn the_chain_recommends_and_every_stage_says_how_precise_it_was() {
    let chain = Chain::start();
    let reply = chain.ask("newcomer@1.0.0", 3).unwrap();
    assert_eq!(reply.crates[0].name, "tls");
    assert!(reply.crates[0].because.starts_with("web"));
    let stages: Vec<_> = reply.stages.iter().map(|it| it.stage.as_str()).collect();
    assert_eq!(stages, ["profile", "history", "recommendation"]);
    assert!(reply.stages.iter().skip(1).all(|it| it.examined == it.wanted && it.wanted > 0));
}

#[test]
fn the_receipt_of_the_chain_names_the_stages_behind_the_first() {
    let chain = Chain::start();
    let channel = Channel::new(chain.profile.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    let request = rec::ProfileRequest { user: "newcomer@1.0.0".to_owned(), limit: 3 };
    let context = Context::with_deadline(LONG);
    let reply = channel.call(&context, MethodId::of(rec::PROFILE), &request.encode_to_vec()).unwrap();
    let text = format!("{:?}", reply.receipt);
    assert!(text.contains("history") && text.contains("recommendation"), "{text}");
}

#[test]
fn an_unknown_user_and_an_impossible_limit_are_refused_by_the_first_stage() {
    let chain = Chain::start();
    assert_eq!(chain.ask("nobody@1.0.0", 3).unwrap_err().code, Code::NotFound);
    assert_eq!(chain.ask("newcomer@1.0.0", 101).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn a_stage_whose_next_one_is_gone_says_so() {
    let Chain { _root, profile, _later } = Chain::start();
    for stage in _later {
        stage.shutdown();
    }
    let request = rec::ProfileRequest { user: "newcomer@1.0.0".to_owned(), limit: 3 };
    let result: Result<rec::RecommendReply, _> = call(&profile.addresses()[0], rec::PROFILE, &request);
    assert_eq!(result.unwrap_err().code, Code::Unavailable);
}

/// A small store, served.
struct KvServer {
    root: tempfile::TempDir,
    server: ServerHandle,
}

impl KvServer {
    fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// With a server that is told more.
    fn start_with(more: impl Fn(&mut KvServiceConfig)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = Self::config(&root);
        more(&mut config);
        Self { server: serve_kv(config).unwrap(), root }
    }

    fn config(root: &tempfile::TempDir) -> KvServiceConfig {
        let rows = Rows { count: 200, value_bytes: 50 };
        let store = KvConfig { directory: root.path().join("kv"), rows };
        KvServiceConfig { store, checkpoint_rows: KvServiceConfig::CHECKPOINT_ROWS, server: server("kv") }
    }

    fn ask<R: Message + Default>(&self, method: &str, request: &impl Message) -> Result<R, Status> {
        call(&self.server.addresses()[0], method, request)
    }

    fn get(&self, key: &str) -> kv::GetReply {
        self.ask(kv::GET, &kv::GetRequest { key: key.to_owned() }).unwrap()
    }

    fn scan(&self, prefix: &str) -> Result<kv::ScanReply, Status> {
        self.ask(kv::SCAN, &kv::ScanRequest { prefix: prefix.to_owned() })
    }
}

#[test]
fn a_store_is_read_written_and_scanned_over_the_network() {
    let store = KvServer::start();
    assert_eq!(store.get("row00000042").value.len(), 50);
    assert_eq!(store.get("ada"), kv::GetReply::default());
    let put = kv::PutRequest { key: "ada".into(), value: "lovelace".into() };
    store.ask::<kv::PutReply>(kv::PUT, &put).unwrap();
    assert_eq!(store.get("ada"), kv::GetReply { found: true, value: "lovelace".into() });
    let all = store.scan("").unwrap();
    assert_eq!((all.rows, all.bytes), (201, 200 * 61 + 11));
    assert_eq!(store.scan("row0000001").unwrap().rows, 10);
    let made: kv::DescribeReply = store.ask(kv::DESCRIBE, &kv::DescribeRequest {}).unwrap();
    assert_eq!((made.rows, made.value_bytes), (200, 50));
}

#[test]
fn what_was_put_outlives_the_server() {
    let KvServer { root, server } = KvServer::start();
    let put = kv::PutRequest { key: "ada".into(), value: "lovelace".into() };
    call::<kv::PutReply>(&server.addresses()[0], kv::PUT, &put).unwrap();
    server.shutdown();
    let server = serve_kv(KvServer::config(&root)).unwrap();
    assert_eq!(KvServer { root, server }.get("ada").value, "lovelace");
}

#[test]
fn a_scan_whose_time_is_up_is_given_up_and_one_in_time_reads_all_with_checkpoints_and_without() {
    let spent = Context::with_deadline(Duration::from_nanos(1));
    let store = KvServer::start_with(|config| {
        config.checkpoint_rows = 1;
        config.server = server("kv").admission(AdmissionConfig::default().enabled(false));
    });
    let address = &store.server.addresses()[0];
    let status = call_within::<kv::ScanReply>(&spent, address, kv::SCAN, &kv::ScanRequest::default()).unwrap_err();
    assert_eq!(status.code, Code::DeadlineExceeded);
    let without = KvServer::start_with(|config| config.checkpoint_rows = 0);
    assert_eq!(without.scan("").unwrap(), store.scan("").unwrap());
}

#[test]
fn keys_that_no_row_can_have_are_the_callers_mistake() {
    let store = KvServer::start();
    let long = "k".repeat(1025);
    let status = store.ask::<kv::GetReply>(kv::GET, &kv::GetRequest { key: long }).unwrap_err();
    assert_eq!((status.code, status.message.contains("allowed are 1 to 1024")), (Code::InvalidArgument, true));
}

#[test]
fn a_store_that_is_served_already_is_refused_with_a_remedy() {
    let store = KvServer::start();
    let error = serve_kv(KvServer::config(&store.root)).err().unwrap();
    assert!(error.to_string().contains("open in another process; stop that one"), "{error}");
}

#[test]
fn a_shard_without_an_index_does_not_start() {
    let root = tempfile::tempdir().unwrap();
    let error = serve_shard(shard(root.path().to_owned(), 0)).err().unwrap();
    assert!(error.to_string().contains("nothing was built"), "{error}");
}
