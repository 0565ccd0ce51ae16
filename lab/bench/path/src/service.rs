//! The services as they are measured: pinned to one core, the load generator on another.

use crate::fleet::Serving;
use crate::rival::gate::Rule;
use crate::rival::stage::StageArgs;
use crate::system::{Refuses, System, classes};
use anyhow::{Context as _, Result, bail};
use greenwave::{Address, ChannelConfig, Wait};
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::result::bench_folder;
use greenwave_bench::rpc::{Patience, RpcTarget};
use greenwave_bench::target::{Payloads, Rotation};
use greenwave_kv::{Keys, Rows};
use greenwave_services::proto::{kv, recommend, search};
use greenwave_services::recommend::sampler::Sampler as Users;
use greenwave_services::recommend::store;
use greenwave_services::search::corpus::{CorpusConfig, cargo_registry};
use greenwave_services::search::index::{self, IndexConfig};
use greenwave_services::search::queries::Sampler as Questions;
use greenwave_services::search::vocabulary::Vocabulary;
use prost::Message as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A service to be measured.
pub(crate) struct Service {
    /// The case that its rows belong to.
    pub(crate) case: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: String,
    /// What `greenwave serve` calls it.
    name: &'static str,
    /// Its first stage, as receipts name it.
    stage: &'static str,
    method: &'static str,
    options: Vec<String>,
    /// Further options for the systems that know deadlines.
    pub(crate) further: Vec<String>,
    pub(crate) requests: Box<dyn Payloads>,
    /// A class whose requests call a method of their own, and that method.
    also: Option<(&'static str, &'static str)>,
    /// Its stages, as processes of their own that have a gate.
    gated: Gated,
    /// Requests by how soon they have to be answered.
    pub(crate) classes: Classes,
}

/// How a service is served behind gates.
enum Gated {
    /// These stages, each calling the next, over the stores in this folder.
    Chain(PathBuf),
    /// An aggregator and so many shards, over the index in this folder.
    Unit(PathBuf, u16),
    /// It isn't.
    No,
}

/// By how much the controlled delay of the parallel unit is longer than that of the chain: as its deadlines are.
const UNITS_TIMES: u32 = 3;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// The share of SCANs, as in the mix that the literature on preemption uses (Shinjuku, NSDI'19; TQ, ASPLOS'24).
const SCAN_PERCENT: f64 = 0.5;

/// How many different requests are sent, over and over.
const REQUESTS: usize = 4096;

impl Service {
    /// The chain: three stages over the dependency graph.
    pub(crate) fn chain(directory: Option<&PathBuf>, seed: u64) -> Result<Self> {
        let data = bench_folder().join("recommend");
        let crates = corpus(directory)?;
        store::ensure(&crates, &data)?;
        let mut users = Users::stored(&data, seed)?;
        let requests = std::iter::from_fn(|| users.request(10)).take(REQUESTS).map(|request| request.encode_to_vec());
        Ok(Self {
            case: "chain",
            title: "recommend: a chain of three stages",
            about: "profile calls history calls recommendation, each a process with a store of its own".into(),
            name: "recommend",
            stage: "profile",
            method: recommend::PROFILE,
            options: of_directory(&crates, &data).chain([UNADAPTED.to_owned()]).collect(),
            further: Vec::new(),
            requests: Box::new(Rotation::new(requests.collect())),
            also: None,
            gated: Gated::Chain(data),
            classes: classes(50 * MS, 200 * MS, 800 * MS),
        })
    }

    /// The parallel unit: an aggregator and its shards.
    pub(crate) fn unit(directory: Option<&PathBuf>, shards: u16, seed: u64) -> Result<Self> {
        let data = bench_folder().join("search");
        let text = corpus(directory)?;
        let index = IndexConfig { shards: shards.into(), ..IndexConfig::new(&data) };
        index::ensure(&CorpusConfig::new(&text), &index, &|_| ())?;
        let vocabulary = Vocabulary::read(&index::open(&data)?.path).context("reading the index's words")?;
        let mut questions =
            Questions::new(&vocabulary, seed).context("no word occurs twice; name other text by --dir")?;
        let requests = (0..REQUESTS).map(|_| questions.question().request(10).encode_to_vec()).collect();
        let further = [format!("--shards={shards}"), UNADAPTED.to_owned()];
        Ok(Self {
            case: "parallel-unit",
            title: "search: a parallel unit",
            about: format!("an aggregator asks {shards} shards, each a process with an index of its own"),
            name: "search",
            stage: "aggregator",
            method: search::QUERY,
            options: of_directory(&text, &data).chain(further).collect(),
            further: Vec::new(),
            requests: Box::new(Rotation::new(requests)),
            also: None,
            gated: Gated::Unit(data, shards),
            // A query is five times the work of a recommendation, and the longest are four times the usual ones.
            classes: classes(150 * MS, 500 * MS, 2000 * MS),
        })
    }

    /// The store: short requests behind long ones.
    pub(crate) fn kv(seed: u64) -> Result<Self> {
        let mut keys = Keys::new(Rows::DEFAULT.count, seed);
        let key = |_| String::from_utf8_lossy(&keys.key()).into_owned();
        let gets = (0..REQUESTS).map(key).map(|key| kv::GetRequest { key }.encode_to_vec()).collect();
        let [get, scan] = [("get", 100.0 - SCAN_PERCENT, 500 * US), (SCAN, SCAN_PERCENT, 50 * MS)]
            .map(|(name, share, deadline)| Class::new(name, share, deadline));
        Ok(Self {
            case: "kv",
            title: "kv: short requests behind long ones",
            about: format!(
                "a store of keys and values; {SCAN_PERCENT} % of the requests are SCANs of all rows, which take 500 times \
                 as long as a GET"
            ),
            name: "kv",
            stage: "kv",
            method: kv::GET,
            // Handlers as they are usually written: a SCAN doesn't ask by itself whether somebody waits.
            options: vec![format!("--data={}", bench_folder().join("kv").display()), "--checkpoint-rows=0".into()],
            further: Vec::new(),
            requests: Box::new(Mix(Rotation::new(gets))),
            also: Some((SCAN, kv::SCAN)),
            gated: Gated::No,
            classes: Classes::new(vec![get, scan])?,
        })
    }

    /// Starts its processes.
    pub(crate) fn start(&self, system: &System) -> Result<Serving> {
        if let Some(rule) = system.gate {
            return self.start_gated(rule);
        }
        let mut arguments = vec!["serve".to_owned(), self.name.to_owned()];
        arguments.extend(self.options.iter().cloned());
        arguments.extend(system.options());
        if system.refuses == Refuses::Infeasible {
            arguments.extend(self.further.iter().cloned());
        }
        arguments.extend(["--listen=tcp://127.0.0.1:0", "--wait=block", "--cores=0"].map(str::to_owned));
        Serving::start(&arguments)
    }

    fn start_gated(&self, rule: Rule) -> Result<Serving> {
        let stage = |stage: &str, data: &PathBuf, times, shard| StageArgs {
            rule,
            times,
            stage: stage.to_owned(),
            data: data.clone(),
            shard,
            behind: Vec::new(),
            core: 0,
        };
        match &self.gated {
            Gated::Chain(data) => {
                Serving::chain(store::Stage::ALL.map(|it| stage(it.name(), data, 1, 0)).into_iter().collect())
            }
            Gated::Unit(data, shards) => {
                let shards = (0..*shards).map(|shard| stage("shard", data, UNITS_TIMES, shard.into()));
                Serving::unit(stage("aggregator", data, UNITS_TIMES, 0), shards)
            }
            Gated::No => bail!("{} isn't served behind gates", self.case),
        }
    }

    /// A connection that load is put on, whose client does this when a deadline passes.
    pub(crate) fn connect(&self, address: &Address, patience: Patience) -> Result<RpcTarget> {
        let config = ChannelConfig::default().wait(Wait::default());
        let target = RpcTarget::connect(address, &config, self.method, self.stage, patience)?;
        Ok(match self.also {
            Some((class, method)) => target.calling(class, method),
            None => target,
        })
    }
}

/// The services do the same work however late they are.
const UNADAPTED: &str = "--adapt=off";

/// The class of the requests that call [`kv::SCAN`].
const SCAN: &str = "scan";

/// GETs in turn for the first class; for the second an empty message, a SCAN of everything.
struct Mix(Rotation);

impl Payloads for Mix {
    fn payload(&mut self, class: usize, sequence: u64) -> &[u8] {
        if class == 0 { self.0.payload(class, sequence) } else { &[] }
    }
}

/// The directory that was named, or the local Cargo registry.
fn corpus(directory: Option<&PathBuf>) -> Result<PathBuf> {
    Ok(directory.map_or_else(cargo_registry, |directory| Ok(directory.clone()))?)
}

fn of_directory(directory: &Path, data: &Path) -> impl Iterator<Item = String> {
    [format!("--dir={}", directory.display()), format!("--data={}", data.display())].into_iter()
}
