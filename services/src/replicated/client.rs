//! A client of the replicated store, which finds the leader.
//!
//! It asks one replica after another until one leads, and goes where it is sent. A write has a number in the client's
//! session, so that it is applied once however often it is sent; it is sent again until its deadline. An attempt gets a
//! part of what is left, as a replica that hangs doesn't say so.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use greenwave::{Channel, ChannelConfig, Code, ConfigError, Context, Failure, Status};
pub use greenwave_replica::Place;
use greenwave_replica::PlaceError;
use prost::bytes::Bytes;
use thiserror::Error;

use super::elsewhere::leader_in;
use crate::proto::replicated as proto;
use proto::{AdminClient, Session, StoreClient};

/// The shortest attempt, if there is as much time.
const ATTEMPT_LEAST: Duration = Duration::from_millis(100);

/// The longest attempt: some elections.
const ATTEMPT_MOST: Duration = Duration::from_secs(2);

/// Pauses while nobody leads.
const PAUSE_LEAST: Duration = Duration::from_millis(2);
const PAUSE_MOST: Duration = Duration::from_millis(50);

/// Why a request came to nothing.
#[derive(Debug, Error)]
pub enum StoreClientError {
    /// There is nobody to ask.
    #[error("no replica was named; name one of the group at least")]
    Nobody,
    /// A channel can't be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A replica has a name that is none.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No certificate could be for a replica's name.
    #[error("no certificate could be for the name of a replica: {0}")]
    Name(String),
    /// The request makes no sense.
    #[error("{0}")]
    Refused(Status),
    /// Nobody did it in time. Nothing was done.
    #[error("nobody in the group did it in time, and nothing was done; last: {last}")]
    Unavailable {
        /// What the last one said.
        last: Status,
    },
    /// It was sent, and no answer came in time.
    #[error("no answer came in time, and it may be done or not; last: {last}")]
    Uncertain {
        /// What the last one said.
        last: Status,
    },
}

/// A client, for one request at a time.
pub struct GroupClient {
    replicas: Vec<Replica>,
    config: ChannelConfig,
    /// Whom to ask next.
    at: usize,
    client: u64,
    sequence: u64,
    open: bool,
}

/// One replica, and its methods.
pub(super) struct Replica {
    place: Place,
    store: StoreClient,
    pub(super) admin: AdminClient,
}

/// What a compare-and-swap did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The row was what it was expected to be, and has been written.
    Yes,
    /// It was something else, and is still.
    No {
        /// What it is, if there is one.
        found: Option<Bytes>,
    },
}

/// Some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Keys and values.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Whether there are more.
    pub more: bool,
}

/// How a read is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// It sees every write that was acknowledged before it began.
    #[default]
    Linearizable,
    /// Any replica answers with what it has.
    Stale,
}

impl GroupClient {
    /// A client of the group to which these replicas belong; all of them are best named.
    ///
    /// # Errors
    /// When there is none, or a setting of the channels can't be meant.
    pub fn new(
        places: impl IntoIterator<Item = impl Into<Place>>,
        config: ChannelConfig,
    ) -> Result<Self, StoreClientError> {
        let (client, replicas) = (fresh(), Vec::new());
        let mut group = Self { replicas, config, at: 0, client, sequence: 0, open: false };
        for place in places {
            group.known(&place.into())?;
        }
        if group.replicas.is_empty() {
            return Err(StoreClientError::Nobody);
        }
        // Not all clients begin with the same one.
        group.at = client as usize % group.replicas.len();
        Ok(group)
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn put(&mut self, context: &Context, key: &[u8], value: &[u8]) -> Result<(), StoreClientError> {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        self.write(context, |store, context, session| {
            let request = proto::PutRequest { key: key.clone(), value: value.clone(), session: Some(session) };
            store.put(context, &request).map(|_| ())
        })
    }

    /// Removes a row; says whether there was one.
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn delete(&mut self, context: &Context, key: &[u8]) -> Result<bool, StoreClientError> {
        let key = Bytes::copy_from_slice(key);
        self.write(context, |store, context, session| {
            let request = proto::DeleteRequest { key: key.clone(), session: Some(session) };
            store.delete(context, &request).map(|reply| reply.message.found)
        })
    }

    /// Writes a row, or removes it, if its value is the one that is expected, or if there is none and none is expected.
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn compare_and_swap(
        &mut self,
        context: &Context,
        key: &[u8],
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Swapped, StoreClientError> {
        let key = Bytes::copy_from_slice(key);
        let (expected, value) = (expected.map(Bytes::copy_from_slice), value.map(Bytes::copy_from_slice));
        self.write(context, |store, context, session| {
            let (key, expected, value) = (key.clone(), expected.clone(), value.clone());
            let request = proto::CompareAndSwapRequest { key, expected, value, session: Some(session) };
            let reply = store.compare_and_swap(context, &request)?.message;
            Ok(if reply.swapped { Swapped::Yes } else { Swapped::No { found: reply.found } })
        })
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn get(&mut self, context: &Context, key: &[u8], how: Freshness) -> Result<Option<Bytes>, StoreClientError> {
        let request = proto::GetRequest { key: Bytes::copy_from_slice(key), stale: how == Freshness::Stale };
        self.ask(context, false, |store, context| store.get(context, &request).map(|reply| reply.message.value))
    }

    /// The rows from `from` on and before `to`, in order, `limit` of them at most.
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn range(
        &mut self,
        context: &Context,
        from: &[u8],
        to: Option<&[u8]>,
        limit: u32,
        how: Freshness,
    ) -> Result<Rows, StoreClientError> {
        let (from, to) = (Bytes::copy_from_slice(from), to.map(Bytes::copy_from_slice));
        let request = proto::RangeRequest { from, to, limit, stale: how == Freshness::Stale };
        self.ask(context, false, |store, context| {
            let proto::RangeReply { rows, more } = store.range(context, &request)?.message;
            Ok(Rows { rows: rows.into_iter().map(|row| (row.key, row.value)).collect(), more })
        })
    }

    /// What the replicas that answer know of the group, each with its address.
    pub fn describe(&mut self, context: &Context) -> Vec<(Place, Result<proto::DescribeReply, Status>)> {
        let share = context.budget().remaining().map_or(ATTEMPT_MOST, |left| left / self.replicas.len() as u32);
        let describe = |replica: &Replica| {
            let context = context.tighten(share.min(ATTEMPT_MOST));
            let reply = replica.store.describe(&context, &proto::DescribeRequest {});
            (replica.place.clone(), reply.map(|reply| reply.message).map_err(Status::from))
        };
        self.replicas.iter().map(describe).collect()
    }

    /// A write under the next number of the session, which is opened first if it isn't.
    fn write<T>(
        &mut self,
        context: &Context,
        send: impl Fn(&StoreClient, &Context, Session) -> Result<T, Failure>,
    ) -> Result<T, StoreClientError> {
        loop {
            if !self.open {
                let session = Some(Session { client: self.client, sequence: 0 });
                self.ask(context, false, |store, context| store.open(context, &proto::OpenRequest { session }))?;
                self.open = true;
            }
            self.sequence += 1;
            let session = Session { client: self.client, sequence: self.sequence };
            let done = self.ask(context, true, |store, context| send(store, context, session));
            match done {
                // The group has forgotten the session, and has never seen the command.
                Err(StoreClientError::Refused(status)) if status.code == Code::FailedPrecondition => {
                    (self.client, self.sequence, self.open) = (fresh(), 0, false);
                }
                done => return done,
            }
        }
    }

    /// Asks for something of the store, as below.
    fn ask<T>(
        &mut self,
        context: &Context,
        changes: bool,
        send: impl Fn(&StoreClient, &Context) -> Result<T, Failure>,
    ) -> Result<T, StoreClientError> {
        self.ask_replica(context, changes, |replica, context| send(&replica.store, context))
    }

    /// Asks one replica after another until one answers or the time is over.
    pub(super) fn ask_replica<T>(
        &mut self,
        context: &Context,
        changes: bool,
        send: impl Fn(&Replica, &Context) -> Result<T, Failure>,
    ) -> Result<T, StoreClientError> {
        let (mut uncertain, mut pause, mut asked) = (false, PAUSE_LEAST, 0);
        // What says more than that the time is over.
        let mut told: Option<Status> = None;
        loop {
            let replica = &self.replicas[self.at];
            let status = match send(replica, &context.tighten(attempt(context))) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure.status,
            };
            let over = context.is_spent() || context.is_cancelled();
            uncertain |= changes && may_be_done(&status);
            match status.code {
                Code::InvalidArgument | Code::Unimplemented | Code::PermissionDenied | Code::Unauthenticated => {
                    return Err(StoreClientError::Refused(status));
                }
                // Without an earlier attempt the command isn't applied; with one, nobody can tell.
                Code::FailedPrecondition if !uncertain => return Err(StoreClientError::Refused(status)),
                Code::FailedPrecondition => return Err(StoreClientError::Uncertain { last: status }),
                Code::OutOfRange => return Err(StoreClientError::Uncertain { last: status }),
                _ if over && uncertain => return Err(StoreClientError::Uncertain { last: told.unwrap_or(status) }),
                _ if over => return Err(StoreClientError::Unavailable { last: told.unwrap_or(status) }),
                _ => {}
            }
            let busy = status.code == Code::ResourceExhausted;
            // One that this client can't follow, such as a name without the feature `resolver`, is none.
            let hint = leader_in(&status).and_then(|place| self.known(&place).ok());
            if status.code != Code::DeadlineExceeded || told.is_none() {
                told = Some(status);
            }
            asked += 1;
            match hint {
                // It is named by one that may be wrong: not without a pause each time.
                Some(at) if asked % (self.replicas.len() + 1) != 0 => {
                    self.at = at;
                    continue;
                }
                Some(at) => self.at = at,
                None if busy => {}
                None => self.at = (self.at + 1) % self.replicas.len(),
            }
            if busy || asked % self.replicas.len() == 0 {
                let left = context.budget().remaining().unwrap_or(PAUSE_MOST);
                std::thread::sleep(pause.min(left));
                pause = (pause * 2).min(PAUSE_MOST);
            }
        }
    }

    /// The number of a replica here, whom this client may not have heard of before. Of one with a name the certificate is for
    /// that.
    pub(super) fn known(&mut self, place: &Place) -> Result<usize, StoreClientError> {
        if let Some(number) = self.replicas.iter().position(|replica| replica.place == *place) {
            return Ok(number);
        }
        let config = self.config.clone();
        let config = match place.host() {
            Some(host) => config.tls_name(host).map_err(|error| StoreClientError::Name(error.to_string()))?,
            None => config,
        };
        let channel = Channel::to(place.target()?, config)?;
        let (store, admin) = (StoreClient::new(channel.clone()), AdminClient::new(channel));
        self.replicas.push(Replica { place: place.clone(), store, admin });
        Ok(self.replicas.len() - 1)
    }

    /// The replica of a number that [`known`](Self::known) has given.
    pub(super) fn replica<T>(&self, number: usize, ask: impl FnOnce(&Replica) -> T) -> T {
        ask(&self.replicas[number])
    }
}

/// How long the next attempt may take.
fn attempt(context: &Context) -> Duration {
    let part = context.budget().remaining().map_or(ATTEMPT_MOST, |left| left / 4);
    part.clamp(ATTEMPT_LEAST, ATTEMPT_MOST)
}

/// Whether a command that failed so may have been applied, or still be.
fn may_be_done(status: &Status) -> bool {
    let certain = [Code::Unavailable, Code::ResourceExhausted, Code::InvalidArgument, Code::FailedPrecondition];
    let said_by_the_store = status.reason == greenwave::Reason::None && certain.contains(&status.code);
    !(said_by_the_store || status.never_ran())
}

/// A client's number; not 0.
fn fresh() -> u64 {
    RandomState::new().hash_one(std::process::id()).max(1)
}
