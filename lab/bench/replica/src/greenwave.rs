//! Greenwave's replicated store: three replicas on this machine, each this program as a process of its own.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use greenwave::{Address, Channel, ChannelConfig, Context};
use greenwave_bench::target::Target;
use greenwave_policy::replication::Setting;
use greenwave_services::proto::replicated as proto;
use greenwave_services::replicated::client::{Freshness, GroupClient};
use greenwave_services::replicated::member::{MemberConfig, serve_member};
use greenwave_services::replicated::peers::Peers;
use prost::Message as _;

use crate::clients::Clients;
use crate::cluster::{Client, Cluster, Folder, MEMBERS, PATIENCE, free_ports, wait_until_led};
use crate::member::Member;

/// How long one attempt of a client's may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A group.
pub(crate) struct Greenwave {
    // In the order in which they end.
    members: [Member; MEMBERS],
    addresses: Vec<Address>,
    stores: Vec<proto::StoreClient>,
    _folder: Folder,
}

/// A replica, as its process is told.
#[derive(Args)]
pub(crate) struct Replica {
    #[arg(long)]
    id: u64,
    #[arg(long)]
    peers: Peers,
    #[arg(long)]
    data: PathBuf,
    /// One command a batch, one batch at a time
    #[arg(long)]
    alone: bool,
}

impl Replica {
    /// Serves it until this process is killed.
    pub(crate) fn serve(self) -> anyhow::Result<()> {
        // A command is in no batch with another, and waits for the one before it.
        let sizing = self.alone.then(|| Setting::new(1, 1)).transpose()?;
        let usual = MemberConfig::new(self.id, self.peers, self.data)?;
        let member = serve_member(MemberConfig { sizing, ..usual })?;
        loop {
            if let Some(why) = member.failure() {
                anyhow::bail!("the replica has stopped: {why:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Greenwave {
    /// Starts a new one, whose commands are `alone` in their batches or not, and waits until it has a leader.
    pub(crate) fn start(alone: bool) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let ports: [u16; MEMBERS] = free_ports()?;
        let addresses = ports.map(|port| Address::Tcp(([127, 0, 0, 1], port).into()));
        let peers = Peers::new((1..).zip(addresses.iter().cloned()))?.to_string();
        let own = env::current_exe().context("can't tell where this program is")?;
        let member = |nth: usize| {
            let data = folder.path().join(format!("r{nth}"));
            let (id, data) = (format!("--id={}", nth + 1), format!("--data={}", data.display()));
            let words = ["replica".to_owned(), id, format!("--peers={peers}"), data].into_iter();
            let words = words.chain(alone.then(|| "--alone".to_owned()));
            Member::start(&own, words.map(OsString::from).collect(), &[])
        };
        let members = [member(0)?, member(1)?, member(2)?];
        let addresses = addresses.to_vec();
        let store =
            |address: &Address| Ok(proto::StoreClient::new(Channel::new(address.clone(), ChannelConfig::default())?));
        let stores = addresses.iter().map(store).collect::<anyhow::Result<_>>()?;
        let mut group = Self { members, addresses, stores, _folder: folder };
        wait_until_led(&mut group)?;
        Ok(group)
    }
}

impl Cluster for Greenwave {
    /// All calls of one thread go over one connection, whatever the number.
    fn target(&self, clients: usize, _connections: usize) -> anyhow::Result<Box<dyn Target>> {
        let leader = self.leader().context("the group has no leader")?;
        Ok(Box::new(Clients::connect(&self.addresses[leader], &ChannelConfig::default(), clients)?))
    }

    /// Its client adds its session.
    fn message(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let (key, value) = (key.to_vec().into(), value.to_vec().into());
        proto::PutRequest { key, value, session: None }.encode_to_vec()
    }

    fn client(&self) -> anyhow::Result<Box<dyn Client>> {
        Ok(Box::new(StoreClient(GroupClient::new(self.addresses.iter().cloned(), ChannelConfig::default())?)))
    }

    fn leader(&self) -> Option<usize> {
        self.stores.iter().position(|store| {
            let context = Context::with_deadline(Duration::from_millis(200));
            let said = store.describe(&context, &proto::DescribeRequest {});
            said.is_ok_and(|said| said.message.replica == said.message.leader)
        })
    }

    fn members(&mut self) -> &mut [Member; MEMBERS] {
        &mut self.members
    }

    fn processes(&self) -> Vec<u32> {
        self.members.iter().filter_map(Member::process).collect()
    }
}

struct StoreClient(GroupClient);

impl Client for StoreClient {
    fn try_put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.0.put(&Context::with_deadline(ATTEMPT), key, value).is_ok()
    }

    fn read(&mut self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let found = self.0.get(&Context::with_deadline(PATIENCE), key, Freshness::Linearizable)?;
        Ok(found.map(|value| value.to_vec()))
    }
}
