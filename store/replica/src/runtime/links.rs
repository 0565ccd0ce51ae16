//! The ways to the other replicas.
//!
//! All messages of a turn to one peer go as one call, whose answer is empty and says that they arrived. Calls of one
//! link are sent in order. A call that fails, or a peer that lets too much wait, means that messages are lost: the core
//! is told so, and sends them again. Snapshots go over a connection of their own, so that nothing waits behind them.
//!
//! A member with a name has no way until its address is known, and another one when that changes.

use super::access::{Asked, Sealing, Sent};
use super::entrance::Entrance;
use super::frame;
use super::names::{Lookup, Names};
use crate::door::Header;
use crate::founding::Greeting;
use crate::{Membership, Message, NodeId, Place, PlaceError};
use bytes::Bytes;
use greenwave_rpc::{
    Channel, ChannelConfig, ChannelStream, Code, Context, Delivery, Dispatcher, MethodId, Mode, Reason, SendOrder,
    Status,
};
use greenwave_verbs::Address;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The method that takes messages.
pub(super) const MESSAGES: &str = "greenwave.Replica/Messages";

/// The method that takes greetings, and answers with one.
pub(super) const HELLO: &str = "greenwave.Replica/Hello";

/// What a greeting under way is called, in the place of the bytes of messages.
const GREETING: u64 = u64::MAX;

/// A frame that has reached this many bytes goes, and the next one begins.
const FRAME: usize = 1 << 20;

/// Calls that may be under way to a peer. Beyond that it isn't there, or can't keep up.
const UNDER_WAY: usize = 1024;

/// Bytes that may be under way to a peer.
const BYTES_UNDER_WAY: usize = 64 << 20;

/// How an address in a membership is read, to call a replica there.
#[derive(Clone)]
pub struct Reach(Arc<Read>);

type Read = dyn Fn(&str) -> Result<Place, PlaceError> + Send + Sync;

impl Reach {
    /// Reads it by this.
    #[must_use]
    pub fn new(read: impl Fn(&str) -> Result<Place, PlaceError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(super) fn read(&self, address: &str) -> Result<Place, PlaceError> {
        (self.0)(address)
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self::new(str::parse)
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reach(..)")
    }
}

/// The ways to the other replicas.
pub(super) struct Links {
    me: NodeId,
    entrance: Arc<Entrance>,
    /// Of the connections for messages, and of those for snapshots.
    config: ChannelConfig,
    for_snapshots: ChannelConfig,
    reach: Reach,
    /// How long messages are worth something.
    patience: Duration,
    names: Names,
    links: BTreeMap<NodeId, Link>,
    /// What was answered to greetings.
    greetings: Vec<Greeting>,
}

struct Link {
    address: String,
    place: Place,
    /// What goes before messages; `None` while this replica belongs to no group.
    header: Option<Header>,
    /// `None` while it isn't known where its host is.
    way: Option<Way>,
    frame: Vec<u8>,
    lost: bool,
}

/// Connections to a member.
struct Way {
    address: Address,
    stream: ChannelStream,
    snapshots: Channel,
    bytes_under_way: usize,
    /// Whether the member has answered since it was connected to.
    answered: bool,
    /// Whether a greeting is under way, and what its answer is known by.
    greets: bool,
    asked: Option<Asked>,
    /// What seals messages, once it has been greeted.
    sealing: Option<Sealing>,
}

impl Links {
    pub(super) fn new(
        me: NodeId,
        entrance: Arc<Entrance>,
        config: ChannelConfig,
        lookup: Lookup,
        reach: Reach,
        patience: Duration,
    ) -> Result<Self, Status> {
        let for_snapshots = config;
        let config = for_snapshots
            .clone()
            .mode(Mode::Dispatched { delivery: Delivery::Notify })
            .dispatcher(Dispatcher::new(&for_snapshots)?)
            .send_order(SendOrder::InOrder);
        config.validate().map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        let (names, links, greetings) = (Names::new(lookup), BTreeMap::new(), Vec::new());
        Ok(Self { me, entrance, config, for_snapshots, reach, patience, names, links, greetings })
    }

    /// Has links to these nodes and no others.
    pub(super) fn set(&mut self, membership: &Membership) {
        let me = self.me;
        self.links.retain(|node, link| membership.address(*node) == Some(link.address.as_str()));
        for node in membership.nodes().filter(|node| *node != me) {
            let Some(address) = membership.address(node).filter(|_| !self.links.contains_key(&node)) else { continue };
            match self.reach.read(address) {
                Ok(place) => {
                    let (address, way, frame) = (address.to_owned(), None, Vec::new());
                    self.links.insert(node, Link { address, place, header: None, way, frame, lost: false });
                }
                Err(error) => unreachable(node, address, &error),
            }
        }
        for (node, link) in &mut self.links {
            let header = self.entrance.header(*node);
            if link.header != header {
                // What was begun says what was before.
                link.frame.clear();
                link.header = header;
            }
        }
        let wanted = |name: &str, port| {
            let mut places = self.links.values().map(|link| &link.place);
            places.any(|place| matches!(place, Place::Host { name: host, port: at } if host == name && *at == port))
        };
        self.names.keep(wanted);
        self.open();
    }

    /// Has ways to where members are, as far as that is known.
    fn open(&mut self) {
        let Self { config, for_snapshots, names, links, .. } = self;
        for (node, link) in links {
            let address = match &link.place {
                Place::Address(address) => Some(address.clone()),
                Place::Host { name, port } => names.address(name, *port).map(Address::Tcp),
            };
            let Some(address) = address else { continue };
            if link.way.as_ref().is_some_and(|way| way.address == address) {
                continue;
            }
            // What is under way on an old one is lost.
            link.lost |= link.way.is_some();
            match Way::open(&link.place, address, config, for_snapshots) {
                Ok(way) => link.way = Some(way),
                Err(why) => unreachable(*node, &link.address, &why),
            }
        }
    }

    /// A message, which goes with the next [`flush`](Self::flush).
    pub(super) fn send(&mut self, to: NodeId, message: &Message) {
        let patience = self.patience;
        let Some(link) = self.links.get_mut(&to) else { return };
        let Some(header) = &link.header else { return };
        let takes = |way: &Way| way.stream.in_flight() < UNDER_WAY && way.bytes_under_way < BYTES_UNDER_WAY;
        if !link.way.as_ref().is_some_and(takes) {
            link.lost = true;
            return;
        }
        if let Some(way) = link.way.as_mut().filter(|way| way.sealing.is_none() && self.entrance.seals().are_needed()) {
            way.greet(&self.entrance, to, patience);
            link.lost = true;
            return;
        }
        if link.frame.is_empty() {
            frame::begin(header, &mut link.frame);
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
            if let Some(way) = &mut link.way {
                way.stream.flush();
            }
        }
    }

    /// Greets all others that no greeting is under way to.
    pub(super) fn greet(&mut self) {
        for (node, link) in &mut self.links {
            if let Some(way) = &mut link.way {
                way.greet(&self.entrance, *node, self.patience);
            }
        }
    }

    /// What was answered to greetings since this was last asked, as far as [`lost`](Self::lost) has taken note of it.
    pub(super) fn greetings(&mut self) -> Vec<Greeting> {
        std::mem::take(&mut self.greetings)
    }

    /// Takes note of what has arrived; the peers to whom messages were lost.
    pub(super) fn lost(&mut self) -> Vec<NodeId> {
        if self.names.have_changed() {
            self.open();
        }
        let mut lost = Vec::new();
        for (node, link) in &mut self.links {
            if let Some(way) = &mut link.way {
                let (some_lost, is_elsewhere) = way.take_note(&self.entrance, &mut self.greetings);
                link.lost |= some_lost;
                if let (true, Place::Host { name, port }) = (is_elsewhere, &link.place) {
                    self.names.unreachable(name, *port);
                }
            }
            if std::mem::take(&mut link.lost) {
                lost.push(*node);
            }
        }
        lost
    }

    /// The way for snapshots to a peer, and what goes before each piece.
    pub(super) fn for_snapshots(&self, to: NodeId) -> Option<(Channel, Header)> {
        let link = self.links.get(&to)?;
        Some((link.way.as_ref()?.snapshots.clone(), link.header?))
    }
}

fn unreachable(node: NodeId, address: &str, why: &dyn fmt::Display) {
    tracing::error!(%node, address, %why, "a replica can't be reached");
}

impl Way {
    /// `address`: that of the place. The certificate of one with a name is for that.
    fn open(
        place: &Place,
        address: Address,
        config: &ChannelConfig,
        for_snapshots: &ChannelConfig,
    ) -> Result<Self, String> {
        let channel = |config: &ChannelConfig| {
            let config = match place.host() {
                Some(host) => config.clone().tls_name(host).map_err(|error| error.to_string())?,
                None => config.clone(),
            };
            Channel::new(address.clone(), config).map_err(|error| error.to_string())
        };
        let stream = channel(config)?.stream().map_err(|status| status.to_string())?;
        let snapshots = channel(for_snapshots)?;
        Ok(Self {
            address,
            stream,
            snapshots,
            bytes_under_way: 0,
            answered: false,
            greets: false,
            asked: None,
            sealing: None,
        })
    }

    /// Says who this is, unless that is under way.
    fn greet(&mut self, entrance: &Entrance, to: NodeId, patience: Duration) {
        if self.greets {
            return;
        }
        let mut greeting = Vec::new();
        entrance.greeting().encode(&mut greeting);
        match entrance.seals().greet(&mut greeting, entrance.ends(to)) {
            Ok(asked) => self.asked = asked,
            Err(error) => return tracing::warn!(%error, "a replica can't be greeted; it is tried again"),
        }
        self.greets = true;
        self.stream.submit(&Context::with_deadline(patience), MethodId::of(HELLO), &greeting, GREETING);
        self.stream.flush();
    }

    /// Takes note of what has arrived: whether something was lost, and whether the member may be somewhere else.
    fn take_note(&mut self, entrance: &Entrance, greetings: &mut Vec<Greeting>) -> (bool, bool) {
        let (mut lost, mut is_elsewhere) = (false, false);
        while let Some(completion) = self.stream.poll() {
            let greeted = completion.tag == GREETING;
            if greeted {
                self.greets = false;
            } else {
                self.bytes_under_way = self.bytes_under_way.saturating_sub(completion.tag as usize);
            }
            let failure = match &completion.result {
                Ok(reply) => {
                    self.answered = true;
                    if greeted {
                        let answer = Bytes::copy_from_slice(&reply.body);
                        // What isn't sealed, or can't be read, says nothing.
                        if let Some((answer, sealing)) = entrance.seals().answered(&answer, self.asked.take()) {
                            self.sealing = sealing;
                            greetings.extend(Greeting::decode(answer).ok());
                        }
                    }
                    continue;
                }
                Err(failure) => failure,
            };
            lost |= !greeted;
            if failure.status.code == Code::Unauthenticated {
                // It may be another process by now.
                self.sealing = None;
            }
            match failure.reason {
                // It may be back at once.
                Reason::ConnectionLost => self.answered = false,
                Reason::Unreachable => is_elsewhere = true,
                _ => is_elsewhere |= !self.answered,
            }
        }
        (lost, is_elsewhere)
    }
}

impl Link {
    fn submit(&mut self, patience: Duration) {
        let Some(way) = self.way.as_mut().filter(|_| !self.frame.is_empty()) else { return };
        let bytes = self.frame.len();
        if let Some(sealing) = &mut way.sealing {
            sealing.seal(Sent::Messages, &mut self.frame);
        }
        let context = Context::with_deadline(patience);
        way.stream.submit(&context, MethodId::of(MESSAGES), &self.frame, bytes as u64);
        way.bytes_under_way += bytes;
        self.frame.clear();
        self.frame.shrink_to(FRAME);
    }
}
