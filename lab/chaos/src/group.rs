//! The group under test: its replicas, their disks, the network between them, and who leads.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use greenwave::Context;
use greenwave_services::replicated::client::{Freshness, GroupClient};

use crate::disk::Disk;
use crate::load;
use crate::network::Network;
use crate::replica::{self, Program, Replica};

/// How often something is tried again for which there is nothing to wait.
const AGAIN: Duration = Duration::from_millis(100);

/// How long one replica may take to say what it knows.
const EACH: Duration = Duration::from_millis(800);

/// Rows that are asked for at a time.
const PAGE: u32 = 500;

/// All of it. It ends with this.
pub(crate) struct Group {
    /// By node.
    pub(crate) replicas: Vec<Replica>,
    /// By node.
    pub(crate) disks: Vec<Disk>,
    /// Nodes of replicas come first, that of the clients last.
    pub(crate) network: Network,
    /// What replicas are processes of; the second one for rolling restarts.
    pub(crate) programs: [Program; 2],
    /// The nodes of replicas to which something failed since the group was last at rest, of which they may end by themselves.
    pub(crate) may_end: BTreeSet<usize>,
    /// Asks who leads.
    client: GroupClient,
}

/// What a replica says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its node.
    pub(crate) node: usize,
    /// The node of who leads, as far as it knows.
    pub(crate) leader: Option<usize>,
    term: u64,
    /// Up to which entry it has applied commands.
    pub(crate) applied: u64,
}

/// What replicas have: keys and the bytes of their values.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

impl Group {
    /// A group of so many, which is not started yet. The calling thread is where the clients are from now on.
    ///
    /// # Errors
    /// When the machine doesn't have what it takes.
    pub(crate) fn new(of: usize, seed: u64, programs: [Program; 2], folder: &Path) -> anyhow::Result<Self> {
        replica::write_key(folder, seed)?;
        let network = Network::up(of + 1, seed)?;
        Network::move_to(of)?;
        let disks = (0..of).map(Disk::new).collect::<anyhow::Result<Vec<_>>>()?;
        let replica = |node: usize| Replica::new(node, of, &programs[0], folder, disks[node].data());
        let (replicas, client) = ((0..of).map(replica).collect(), load::client(of)?);
        Ok(Self { replicas, disks, network, programs, may_end: BTreeSet::new(), client })
    }

    /// The node where clients are.
    pub(crate) const fn clients(&self) -> usize {
        self.replicas.len()
    }

    /// Who leads, by the newest of what replicas say; if they say nothing, the first.
    pub(crate) fn leader(&mut self) -> usize {
        let told = self.standings();
        let newest = told.iter().filter_map(|standing| Some((standing.term, standing.leader?)));
        newest.max().map_or(0, |(_, leader)| leader)
    }

    /// What the replicas say that answer.
    pub(crate) fn standings(&mut self) -> Vec<Standing> {
        let of = self.replicas.len();
        let told = self.client.describe(&Context::with_deadline(EACH * of as u32));
        let node = |id: u64| usize::try_from(id).ok()?.checked_sub(1).filter(|node| *node < of);
        let standing = |reply: greenwave_services::proto::replicated::DescribeReply| {
            let (leader, node) = (node(reply.leader), node(reply.replica)?);
            Some(Standing { node, leader, term: reply.term, applied: reply.applied })
        };
        told.into_iter().filter_map(|(_, reply)| standing(reply.ok()?)).collect()
    }

    /// Waits until all replicas answer, have applied the same and know of one leader. Says who doesn't, if that takes too
    /// long.
    pub(crate) fn settle(&mut self, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let told = self.standings();
            let same =
                told.windows(2).all(|pair| (pair[0].applied, pair[0].leader) == (pair[1].applied, pair[1].leader));
            if told.len() == self.replicas.len() && same && told.iter().all(|standing| standing.leader.is_some()) {
                return Ok(());
            }
            if begun.elapsed() > limit {
                return Err(format!("{told:?}"));
            }
            thread::sleep(AGAIN);
        }
    }

    /// Writes something, and says how long it took; or why it can't be done.
    pub(crate) fn probe(&mut self, limit: Duration) -> Result<Duration, String> {
        let begun = Instant::now();
        let written = self.client.put(&Context::with_deadline(limit), b"probe", b"");
        written.map(|()| begun.elapsed()).map_err(|error| error.to_string())
    }

    /// All rows of a replica as it has them.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub(crate) fn rows(node: usize) -> anyhow::Result<Rows> {
        let place: greenwave_services::replicated::peers::Place = replica::place(node).parse()?;
        let mut client = GroupClient::new([place], greenwave::ChannelConfig::default())?;
        let (mut rows, mut from) = (Rows::new(), Vec::new());
        loop {
            let context = Context::with_deadline(Duration::from_secs(10));
            let page = client.range(&context, &from, None, PAGE, Freshness::Stale)?;
            rows.extend(page.rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            match rows.last() {
                Some((last, _)) if page.more => from = [last.as_slice(), b"\0"].concat(),
                _ => return Ok(rows),
            }
        }
    }
}
