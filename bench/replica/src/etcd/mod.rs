//! etcd: three members on this machine, by the program that Debian's `etcd-server` brings, with their best settings.

mod grpc;
mod target;
mod wire;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use greenwave_bench::target::Target;
use prost::Message as _;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::cluster::{Client, Cluster, Folder, MEMBERS, free_ports};
use crate::cores::Cores;
use crate::member::Member;
use target::EtcdTarget;

/// How long a cluster may take until it has a leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one attempt of a client's may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A cluster of etcd's.
pub(crate) struct Etcd {
    // In the order in which they end.
    members: [Member; MEMBERS],
    runtime: Runtime,
    channels: Vec<Channel>,
    ports: [u16; MEMBERS],
    _folder: Folder,
}

/// Where the program is, in the search path or where Debian has it.
pub(crate) fn program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin")])
        .map(|folder| folder.join("etcd"))
        .find(|path| path.is_file())
}

/// Installs it where that can be done: on Debian and its like, by root.
pub(crate) fn install() -> anyhow::Result<()> {
    ensure!(rustix::process::getuid().is_root(), "only root can install it");
    for words in [&["update"][..], &["install", "--yes", "--no-install-recommends", "etcd-server"]] {
        let mut apt = Command::new("apt-get");
        // With this run level the package doesn't start a service of its own.
        apt.args(words).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        let output = apt.output().context("there is no apt-get")?;
        ensure!(output.status.success(), "apt-get {} failed", words.join(" "));
    }
    Ok(())
}

impl Etcd {
    /// Starts a new one and waits until it has a leader.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let program = program().context("there is no etcd; to install it: apt-get install etcd-server")?;
        let folder = Folder::new()?;
        let ports: [u16; 2 * MEMBERS] = free_ports()?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = ports.split_at(MEMBERS);
        let all: Vec<String> = (0..MEMBERS).map(|nth| format!("m{nth}={}", url(peers[nth]))).collect();
        let cores = Cores::of_this_machine()?.servers.len();
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
                // Heartbeats (100 ms), elections (1 s) and writes to disk are as they are by default.
            ];
            let words = words.iter().flat_map(|(name, value)| [OsString::from(name), OsString::from(value)]).collect();
            let said = folder.path().join(format!("m{nth}.log"));
            Member::start(program.clone(), words, vec![("GOMAXPROCS", cores.to_string())], said)
        };
        let members = [member(0)?, member(1)?, member(2)?];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ports = [clients[0], clients[1], clients[2]];
        let channels = {
            let _entered = runtime.enter();
            ports.iter().map(|port| grpc::channel(*port)).collect::<anyhow::Result<_>>()?
        };
        let mut etcd = Self { members, runtime, channels, ports, _folder: folder };
        etcd.wait_until_led()?;
        Ok(etcd)
    }

    fn wait_until_led(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.leader().is_none() {
            self.members.iter_mut().try_for_each(Member::check)?;
            ensure!(begun.elapsed() < PATIENCE, "etcd has no leader after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Cluster for Etcd {
    fn target(&self, connections: usize) -> anyhow::Result<Box<dyn Target>> {
        // Calls to another member would be passed on to this one, and take longer.
        let leader = self.leader().context("etcd has no leader")?;
        Ok(Box::new(EtcdTarget::new(self.ports[leader], connections)?))
    }

    fn message(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        put(key, value)
    }

    fn client(&self) -> anyhow::Result<Box<dyn Client>> {
        Ok(Box::new(EtcdClient::new(self.ports)?))
    }

    fn leader(&self) -> Option<usize> {
        (0..MEMBERS).find(|&member| {
            let channel = self.channels[member].clone();
            let said = call_within(&self.runtime, Duration::from_millis(200), channel, wire::STATUS, Bytes::new());
            let status = said.and_then(|said| wire::StatusResponse::decode(said).ok());
            status.is_some_and(|status| {
                status.leader != 0 && status.header.is_some_and(|header| header.member_id == status.leader)
            })
        })
    }

    fn kill(&mut self, member: usize) -> anyhow::Result<()> {
        self.members[member].kill();
        Ok(())
    }

    fn restart(&mut self, member: usize) -> anyhow::Result<()> {
        self.members[member].restart()
    }
}

/// Asks one member after another.
struct EtcdClient {
    runtime: Runtime,
    channels: Vec<Channel>,
    at: usize,
}

impl EtcdClient {
    fn new(ports: [u16; MEMBERS]) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let channels = {
            let _entered = runtime.enter();
            ports.iter().map(|port| grpc::channel(*port)).collect::<anyhow::Result<_>>()?
        };
        Ok(Self { runtime, channels, at: 0 })
    }

    fn attempt(&mut self, path: &'static str, message: Vec<u8>) -> Option<Bytes> {
        let reply = call_within(&self.runtime, ATTEMPT, self.channels[self.at].clone(), path, message.into());
        if reply.is_none() {
            self.at = (self.at + 1) % MEMBERS;
        }
        reply
    }
}

impl Client for EtcdClient {
    fn try_put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.attempt(wire::PUT, put(key, value)).is_some()
    }

    fn read(&mut self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let request = wire::RangeRequest { key: key.to_vec() }.encode_to_vec();
            if let Some(said) = self.attempt(wire::RANGE, request) {
                let mut found = wire::RangeResponse::decode(said)?.kvs;
                return Ok(found.pop().map(|found| found.value));
            }
        }
        anyhow::bail!("no member of etcd answers within {PATIENCE:?}")
    }
}

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    wire::PutRequest { key: key.to_vec(), value: value.to_vec(), lease: 0 }.encode_to_vec()
}

fn call_within(
    runtime: &Runtime,
    limit: Duration,
    channel: Channel,
    path: &'static str,
    message: Bytes,
) -> Option<Bytes> {
    runtime.block_on(async { tokio::time::timeout(limit, grpc::call(channel, path, message)).await.ok()?.ok() })
}
