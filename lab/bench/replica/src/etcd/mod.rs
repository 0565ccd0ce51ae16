//! etcd: three members on this machine, with their best settings, by the newest program that can be had: made by Go from what
//! its proxy has, or what is in the search path, or what Debian's `etcd-server` brings.

mod wire;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use greenwave_bench::grpc::{GrpcTarget, Settings, call};
use greenwave_bench::pin;
use greenwave_bench::target::Target;
use greenwave_bench::tools;
use prost::Message as _;
use tokio::runtime::Runtime;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::cluster::{Client, Cluster, Folder, MEMBERS, PATIENCE, free_ports, wait_until_led};
use crate::member::Member;

/// How long a client may take to put a value, and the shortest part of it that one member has to answer in. An attempt has a
/// quarter of what is left, as one of ours has.
const PUT: Duration = Duration::from_secs(2);
const ATTEMPT_LEAST: Duration = Duration::from_millis(100);
/// Between two attempts, as nobody answers while nobody leads.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a member waits for a leader before it stands for election: as long as ours do, by default. Heartbeats have to come
/// five times as often.
const ELECTION: Duration = Duration::from_millis(300);
const HEARTBEAT: Duration = Duration::from_millis(50);

/// Windows that nothing here ever fills.
const WINDOW: u32 = 4 << 20;

/// A cluster of etcd's.
pub(crate) struct Etcd {
    // In the order in which they end.
    members: [Member; MEMBERS],
    calls: Calls,
    ports: [u16; MEMBERS],
    _folder: Folder,
}

/// Channels to all members, and what runs their calls.
struct Calls {
    runtime: Runtime,
    channels: Vec<Channel>,
}

/// The newest release.
const NEWEST: &str = "v3.7.3";

/// Where the program is: made by Go, in the search path, or where Debian has it.
pub(crate) fn program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    [made().join("etcd")]
        .into_iter()
        .chain(env::split_paths(&path).chain([PathBuf::from("/usr/bin")]).map(|folder| folder.join("etcd")))
        .find(|path| path.is_file())
}

/// Where Go makes it.
fn made() -> PathBuf {
    tools::folder().join(format!("etcd-{NEWEST}"))
}

/// Has Go make the newest one, unless it has; or installs Debian's if there is none at all, where root can.
///
/// # Errors
/// There is none, and none can be had.
pub(crate) fn prepare() -> anyhow::Result<()> {
    if made().join("etcd").is_file() {
        return Ok(());
    }
    match make() {
        Err(error) if program().is_none() => Ok(tools::install("etcd-server").with_context(|| error.to_string())?),
        Err(error) => {
            println!("The newest etcd ({NEWEST}) isn't measured, but another one: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// As a dependency of a module that has no other use: by itself its module isn't to be installed, as it says where its sisters
/// are in its own repository.
fn make() -> anyhow::Result<()> {
    let folder = made();
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let module = format!("module etcd\n\ngo 1.26\n\nrequire go.etcd.io/etcd/server/v3 {NEWEST}\n");
    fs::write(folder.join("go.mod"), module).with_context(|| format!("can't write to {}", folder.display()))?;
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-o", "etcd", "go.etcd.io/etcd/server/v3"]).current_dir(&folder);
    Ok(tools::build(&mut build, "install Go 1.26 or newer (https://go.dev/dl)")?)
}

/// Which version the program is.
pub(crate) fn version() -> Option<String> {
    let output = Command::new(program()?).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

fn version_in(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(|version| version.trim().to_owned())
}

impl Etcd {
    /// Starts a new one and waits until it has a leader.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let program = program().context("there is no etcd; install Go, or: apt-get install etcd-server")?;
        let folder = Folder::new()?;
        let ports: [u16; 2 * MEMBERS] = free_ports()?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = ports.split_at(MEMBERS);
        let all: Vec<String> = (0..MEMBERS).map(|nth| format!("m{nth}={}", url(peers[nth]))).collect();
        let cores = pin::several_servers()?.0.len();
        let member = |nth: usize| {
            let (client, peer) = (url(clients[nth]), url(peers[nth]));
            let words = [
                ("--name", format!("m{nth}")),
                ("--data-dir", folder.path().join(format!("m{nth}")).display().to_string()),
                ("--listen-client-urls", client.clone()),
                ("--advertise-client-urls", client),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", all.join(",")),
                ("--initial-cluster-state", "new".to_owned()),
                // No snapshot is taken while it is measured, and no quota reached.
                ("--snapshot-count", "100000000".to_owned()),
                ("--quota-backend-bytes", (8_u64 << 30).to_string()),
                ("--logger", "zap".to_owned()),
                ("--log-level", "error".to_owned()),
                ("--heartbeat-interval", HEARTBEAT.as_millis().to_string()),
                ("--election-timeout", ELECTION.as_millis().to_string()),
                // Writes to disk are as they are by default.
            ];
            let words = words.iter().flat_map(|(name, value)| [OsString::from(name), OsString::from(value)]).collect();
            Member::start(&program, words, &[("GOMAXPROCS", cores.to_string())])
        };
        let members = [member(0)?, member(1)?, member(2)?];
        let ports = [clients[0], clients[1], clients[2]];
        let mut etcd = Self { members, calls: Calls::to(ports)?, ports, _folder: folder };
        wait_until_led(&mut etcd)?;
        Ok(etcd)
    }
}

impl Cluster for Etcd {
    /// A client of etcd's has no session: a put that is sent again is put again.
    fn target(&self, _clients: usize, connections: usize) -> anyhow::Result<Box<dyn Target>> {
        // Calls to another member would be passed on to this one, and take longer.
        let leader = self.leader().context("etcd has no leader")?;
        let settings = Settings {
            paths: vec![PathAndQuery::from_static(wire::PUT)],
            most: usize::MAX,
            deadlines: false,
            spins: false,
            miss: |code| if code == Code::Unavailable { "unreachable" } else { "error" },
        };
        let connect = async || (0..connections).map(|_| channel(self.ports[leader])).collect();
        Ok(Box::new(GrpcTarget::new(connect, settings)?))
    }

    fn message(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        put(key, value)
    }

    fn client(&self) -> anyhow::Result<Box<dyn Client>> {
        Ok(Box::new(EtcdClient { calls: Calls::to(self.ports)?, at: 0 }))
    }

    fn leader(&self) -> Option<usize> {
        (0..MEMBERS).find(|&member| {
            let said = self.calls.within(Duration::from_millis(200), member, wire::STATUS, Bytes::new());
            let status = said.and_then(|said| wire::StatusResponse::decode(said).ok());
            status.is_some_and(|status| {
                status.leader != 0 && status.header.is_some_and(|header| header.member_id == status.leader)
            })
        })
    }

    fn members(&mut self) -> &mut [Member; MEMBERS] {
        &mut self.members
    }

    fn processes(&self) -> Vec<u32> {
        self.members.iter().filter_map(Member::process).collect()
    }
}

impl Calls {
    fn to(ports: [u16; MEMBERS]) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let channels = ports.iter().map(|port| channel(*port)).collect::<anyhow::Result<_>>()?;
        drop(entered);
        Ok(Self { runtime, channels })
    }

    /// The answer of a member; `None` if there is none in time.
    fn within(&self, limit: Duration, member: usize, path: &'static str, message: Bytes) -> Option<Bytes> {
        let call = call(self.channels[member].clone(), PathAndQuery::from_static(path), Request::new(message));
        self.runtime.block_on(async { tokio::time::timeout(limit, call).await.ok()?.ok() })
    }
}

/// Asks one member after another.
struct EtcdClient {
    calls: Calls,
    at: usize,
}

impl EtcdClient {
    /// Tries one member after another for so long.
    fn within(&mut self, limit: Duration, path: &'static str, message: Vec<u8>) -> Option<Bytes> {
        let (begun, message) = (Instant::now(), Bytes::from(message));
        loop {
            let left = limit.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
            let part = (left / 4).max(ATTEMPT_LEAST).min(left);
            if let Some(reply) = self.calls.within(part, self.at, path, message.clone()) {
                return Some(reply);
            }
            self.at = (self.at + 1) % MEMBERS;
            thread::sleep(PAUSE.min(left));
        }
    }
}

impl Client for EtcdClient {
    fn try_put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.within(PUT, wire::PUT, put(key, value)).is_some()
    }

    fn read(&mut self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let request = wire::RangeRequest { key: key.to_vec() }.encode_to_vec();
        if let Some(said) = self.within(PATIENCE, wire::RANGE, request) {
            let mut found = wire::RangeResponse::decode(said)?.kvs;
            return Ok(found.pop().map(|found| found.value));
        }
        anyhow::bail!("no member of etcd answers within {PATIENCE:?}")
    }
}

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    wire::PutRequest { key: key.to_vec(), value: value.to_vec(), lease: 0 }.encode_to_vec()
}

/// A channel that connects with its first call.
fn channel(port: u16) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_timeout(Duration::from_secs(1));
    Ok(endpoint.connect_lazy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_the_program_says() {
        let said =
            "etcd Version: 3.5.16\nGit SHA: Not provided (use ./build instead of go build)\nGo Version: go1.24.4\n";
        assert_eq!(version_in(said).as_deref(), Some("3.5.16"));
        assert_eq!(version_in("Go Version: go1.24.4\n"), None);
    }
}
