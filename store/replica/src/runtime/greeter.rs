//! Asking a replica that is to be added who it is: the group takes in an incarnation, not a number.

use super::access::Sealing;
use super::entrance::Entrance;
use super::links::{HELLO, Reach};
use super::names::Lookup;
use crate::founding::{Greeting, Stands};
use crate::{Incarnation, NodeId, Peer, Place};
use bytes::Bytes;
use greenwave_rpc::{Channel, ChannelConfig, Code, Context, MethodId, Status, promise};
use greenwave_verbs::Address;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a replica may take to say who it is, at the most.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a replica can't be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoiningError {
    /// It doesn't say who it is.
    #[error("replica {number} doesn't say at {address} who it is ({why}); start it there, with --join, and try again")]
    Silent {
        /// Its number.
        number: u64,
        /// Where it was asked.
        address: String,
        /// What came instead.
        why: String,
    },
    /// Another one is there.
    #[error("at {address} is replica {found}, not {number}; check the address and --id")]
    Another {
        /// Its number.
        number: u64,
        /// Where it was asked.
        address: String,
        /// Which one is there.
        found: u64,
    },
    /// It belongs to another group.
    #[error("replica {0} belongs to another group; start it with an empty directory")]
    OtherGroup(u64),
    /// Another one is being asked.
    #[error("another replica is being asked who it is; try again")]
    Busy,
}

/// Asks replicas that are to be added who they are, one at a time.
pub(super) struct Greeter {
    channel: ChannelConfig,
    lookup: Lookup,
    reach: Reach,
    entrance: Arc<Entrance>,
    asks: Arc<AtomicBool>,
}

impl Greeter {
    pub(super) fn new(channel: ChannelConfig, lookup: Lookup, reach: Reach, entrance: Arc<Entrance>) -> Self {
        Self { channel, lookup, reach, entrance, asks: Arc::default() }
    }

    /// The incarnation of a replica. Asked on a thread of its own, as its name may have to be looked up.
    pub(super) fn ask(&self, context: &Context, peer: &Peer) -> Result<Result<Incarnation, JoiningError>, Status> {
        if self.asks.swap(true, Ordering::Acquire) {
            return Ok(Err(JoiningError::Busy));
        }
        let (config, lookup, asks) = (self.channel.clone(), self.lookup.clone(), Arc::clone(&self.asks));
        let (peer, own, (promise, awaited)) = (peer.clone(), Arc::clone(&self.entrance), promise());
        let place = self.reach.read(&peer.address).map_err(|error| error.to_string());
        let left = context.budget().remaining().map_or(PATIENCE, |left| left * 3 / 4);
        let limit = Context::with_deadline(left.min(PATIENCE));
        let ask = move || {
            let answer = ask(&limit, &peer, place, &own, config, &lookup);
            asks.store(false, Ordering::Release);
            promise.keep(answer);
        };
        if let Err(error) = std::thread::Builder::new().name("replica-greet".into()).spawn(ask) {
            self.asks.store(false, Ordering::Release);
            return Err(Status::new(Code::ResourceExhausted, format!("no thread could be started: {error}")));
        }
        awaited.wait(context)
    }
}

fn ask(
    context: &Context,
    peer: &Peer,
    place: Result<Place, String>,
    entrance: &Entrance,
    config: ChannelConfig,
    lookup: &Lookup,
) -> Result<Incarnation, JoiningError> {
    let (number, address) = (peer.node.number(), &peer.address);
    let channel = place.and_then(|place| connect(place, config, lookup));
    let greeting =
        channel.and_then(|channel| greet(context, &channel, entrance, peer.node)).map(|(greeting, _)| greeting);
    let greeting = greeting.map_err(|why| JoiningError::Silent { number, address: address.clone(), why })?;
    if greeting.node != peer.node {
        return Err(JoiningError::Another { number, address: address.clone(), found: greeting.node.number() });
    }
    match (&greeting.stands, &entrance.greeting().stands) {
        (Stands::Member(group), Stands::Member(own)) if group != own => Err(JoiningError::OtherGroup(number)),
        _ => Ok(greeting.incarnation),
    }
}

fn connect(place: Place, config: ChannelConfig, lookup: &Lookup) -> Result<Channel, String> {
    let (address, config) = match place {
        Place::Address(address) => (address, config),
        Place::Host { name, port } => {
            let found = lookup.find(&name, port).map_err(|error| error.to_string())?;
            let first = found.first().ok_or("its name has no address")?;
            (Address::Tcp(*first), config.tls_name(&name).map_err(|error| error.to_string())?)
        }
    };
    Channel::new(address, config).map_err(|error| error.to_string())
}

/// Greets a replica, and waits for its answer; what seals from then on, if there is a key.
pub(super) fn greet(
    context: &Context,
    channel: &Channel,
    entrance: &Entrance,
    to: NodeId,
) -> Result<(Greeting, Option<Sealing>), String> {
    let mut bytes = Vec::new();
    entrance.greeting().encode(&mut bytes);
    let asked = entrance.seals().greet(&mut bytes, entrance.ends(to)).map_err(|error| error.to_string())?;
    let answer = channel.call(context, MethodId::of(HELLO), &bytes).map_err(|status| status.to_string())?;
    let answer = Bytes::copy_from_slice(&answer.body);
    let (answer, sealing) =
        entrance.seals().answered(&answer, asked).ok_or("its answer isn't sealed with the group's key")?;
    Ok((Greeting::decode(answer).map_err(|error| error.to_string())?, sealing))
}
