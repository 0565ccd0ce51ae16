//! The ways to the other replicas.
//!
//! All messages of a turn to one peer go as one call, whose answer is empty and says that they arrived. Calls of one
//! link are sent in order. A call that fails, or a peer that lets too much wait, means that messages are lost: the core
//! is told so, and sends them again. Snapshots go over a connection of their own, so that nothing waits behind them.

use super::frame::{self, Sender};
use crate::{Membership, Message, NodeId};
use greenwave_rpc::{
    Channel, ChannelConfig, ChannelStream, Code, Context, Delivery, Dispatcher, MethodId, Mode, SendOrder, Status,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The method that takes messages.
pub(super) const MESSAGES: &str = "greenwave.Replica/Messages";

/// A frame that has reached this many bytes goes, and the next one begins.
const FRAME: usize = 1 << 20;

/// Calls that may be under way to a peer. Beyond that it isn't there, or can't keep up.
const UNDER_WAY: usize = 1024;

/// Bytes that may be under way to a peer.
const BYTES_UNDER_WAY: usize = 64 << 20;

/// The ways to the other replicas.
pub(super) struct Links {
    sender: Sender,
    /// Of the connections for messages, and of those for snapshots.
    config: ChannelConfig,
    for_snapshots: ChannelConfig,
    /// How long messages are worth something.
    patience: Duration,
    links: BTreeMap<NodeId, Link>,
}

struct Link {
    address: String,
    stream: ChannelStream,
    snapshots: Channel,
    frame: Vec<u8>,
    bytes_under_way: usize,
    lost: bool,
}

impl Links {
    pub(super) fn new(sender: Sender, config: ChannelConfig, patience: Duration) -> Result<Self, Status> {
        let for_snapshots = config;
        let config = for_snapshots
            .clone()
            .mode(Mode::Dispatched { delivery: Delivery::Notify })
            .dispatcher(Dispatcher::new(&for_snapshots)?)
            .send_order(SendOrder::InOrder);
        config.validate().map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        Ok(Self { sender, config, for_snapshots, patience, links: BTreeMap::new() })
    }

    /// Has links to these nodes and no others.
    pub(super) fn set(&mut self, membership: &Membership) {
        let me = self.sender.node;
        self.links.retain(|node, link| membership.address(*node) == Some(link.address.as_str()));
        for node in membership.nodes().filter(|node| *node != me) {
            let Some(address) = membership.address(node).filter(|_| !self.links.contains_key(&node)) else { continue };
            match self.open(address) {
                Ok(link) => {
                    self.links.insert(node, link);
                }
                Err(why) => tracing::error!(%node, address, why, "a replica can't be reached"),
            }
        }
    }

    /// A message, which goes with the next [`flush`](Self::flush).
    pub(super) fn send(&mut self, to: NodeId, message: &Message) {
        let (sender, patience) = (self.sender, self.patience);
        let Some(link) = self.links.get_mut(&to) else { return };
        if link.stream.in_flight() >= UNDER_WAY || link.bytes_under_way >= BYTES_UNDER_WAY {
            link.lost = true;
            return;
        }
        if link.frame.is_empty() {
            frame::begin(sender, &mut link.frame);
        }
        frame::push(message, &mut link.frame);
        if link.frame.len() >= FRAME {
            link.submit(patience);
        }
    }

    /// Sends all that there is.
    pub(super) fn flush(&mut self) {
        for link in self.links.values_mut() {
            link.submit(self.patience);
            link.stream.flush();
        }
    }

    /// Takes note of what has arrived; the peers to whom messages were lost.
    pub(super) fn lost(&mut self) -> Vec<NodeId> {
        let mut lost = Vec::new();
        for (node, link) in &mut self.links {
            while let Some(completion) = link.stream.poll() {
                link.bytes_under_way = link.bytes_under_way.saturating_sub(completion.tag as usize);
                link.lost |= completion.result.is_err();
            }
            if std::mem::take(&mut link.lost) {
                lost.push(*node);
            }
        }
        lost
    }

    /// The way for snapshots to a peer.
    pub(super) fn for_snapshots(&self, to: NodeId) -> Option<Channel> {
        self.links.get(&to).map(|link| link.snapshots.clone())
    }

    fn open(&self, address: &str) -> Result<Link, String> {
        let parsed: greenwave_verbs::Address = address.parse().map_err(|error| format!("{error}"))?;
        let channel = Channel::new(parsed.clone(), self.config.clone()).map_err(|error| error.to_string())?;
        let stream = channel.stream().map_err(|status| status.to_string())?;
        let snapshots = Channel::new(parsed, self.for_snapshots.clone()).map_err(|error| error.to_string())?;
        Ok(Link { address: address.into(), stream, snapshots, frame: Vec::new(), bytes_under_way: 0, lost: false })
    }
}

impl Link {
    fn submit(&mut self, patience: Duration) {
        if self.frame.is_empty() {
            return;
        }
        let bytes = self.frame.len();
        let context = Context::with_deadline(patience);
        self.stream.submit(&context, MethodId::of(MESSAGES), &self.frame, bytes as u64);
        self.bytes_under_way += bytes;
        self.frame.clear();
        self.frame.shrink_to(FRAME);
    }
}
