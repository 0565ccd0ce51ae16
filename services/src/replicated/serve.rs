//! The store as methods of a server.

use std::sync::Arc;

use greenwave::{Code, Context, Status};
use prost::Message;
use prost::bytes::Bytes;

use super::machine::{LONGEST_KEY, StoreReader, checked, checked_value};
use crate::proto::replicated as proto;
use proto::command::Change;
use proto::outcome::Kind;

/// Rows of a reply, unless the request says.
const ROWS: usize = 1000;

/// The most rows of a reply.
const ROWS_MOST: usize = 10_000;

/// Bytes of rows after which a reply ends.
const REPLY_BYTES: usize = 4 << 20;

/// What a replica does for its clients; each may take until the context's deadline.
pub trait Replica: Send + Sync + 'static {
    /// Has a command applied, once in its session, and returns what the store said to it.
    ///
    /// # Errors
    /// As in the table of `elsewhere`.
    fn submit(&self, context: &Context, session: proto::Session, command: Bytes) -> Result<Bytes, Status>;

    /// Returns when the store has all that was acknowledged before this was called.
    ///
    /// # Errors
    /// As in the table of `elsewhere`.
    fn read(&self, context: &Context) -> Result<(), Status>;

    /// What it knows of its group.
    fn describe(&self) -> proto::DescribeReply;
}

/// The methods of a store, at one replica.
pub struct Service<R> {
    replica: Arc<R>,
    rows: StoreReader,
}

impl<R: Replica> Service<R> {
    /// Serves what this replica has.
    pub const fn new(replica: Arc<R>, rows: StoreReader) -> Self {
        Self { replica, rows }
    }

    fn change(&self, context: &Context, session: Option<proto::Session>, change: Change) -> Result<Kind, Status> {
        let session = session.unwrap_or_default();
        if session.client != 0 && session.sequence == 0 {
            return Err(wrong("sequence 0 opens the session; commands have 1 and more"));
        }
        let command = proto::Command { change: Some(change) }.encode_to_vec();
        let answer = self.replica.submit(context, session, command.into())?;
        match proto::Outcome::decode(answer).ok().and_then(|outcome| outcome.kind) {
            Some(Kind::Refused(why)) => Err(wrong(why)),
            Some(kind) => Ok(kind),
            None => Err(another()),
        }
    }

    fn fresh(&self, context: &Context, stale: bool) -> Result<(), Status> {
        if stale { Ok(()) } else { self.replica.read(context) }
    }
}

impl<R: Replica> proto::Store for Service<R> {
    fn open(&self, context: &Context, request: proto::OpenRequest) -> Result<proto::OpenReply, Status> {
        let session = request.session.unwrap_or_default();
        if session.client == 0 || session.sequence != 0 {
            return Err(wrong("a session has a client that isn't 0, and is opened by sequence 0"));
        }
        self.replica.submit(context, session, Bytes::new()).map(|_| proto::OpenReply {})
    }

    fn put(&self, context: &Context, mut request: proto::PutRequest) -> Result<proto::PutReply, Status> {
        checked(&request.key).and(checked_value(&request.value)).map_err(wrong)?;
        let session = request.session.take();
        match self.change(context, session, Change::Put(request))? {
            Kind::Put(reply) => Ok(reply),
            _ => Err(another()),
        }
    }

    fn delete(&self, context: &Context, mut request: proto::DeleteRequest) -> Result<proto::DeleteReply, Status> {
        checked(&request.key).map_err(wrong)?;
        let session = request.session.take();
        match self.change(context, session, Change::Delete(request))? {
            Kind::Delete(reply) => Ok(reply),
            _ => Err(another()),
        }
    }

    fn compare_and_swap(
        &self,
        context: &Context,
        mut request: proto::CompareAndSwapRequest,
    ) -> Result<proto::CompareAndSwapReply, Status> {
        let value = request.value.as_ref().map_or(Ok(()), checked_value);
        checked(&request.key).and(value).map_err(wrong)?;
        let session = request.session.take();
        match self.change(context, session, Change::Swap(request))? {
            Kind::Swap(reply) => Ok(reply),
            _ => Err(another()),
        }
    }

    fn get(&self, context: &Context, request: proto::GetRequest) -> Result<proto::GetReply, Status> {
        checked(&request.key).map_err(wrong)?;
        self.fresh(context, request.stale)?;
        let value = self.rows.get(&request.key).map_err(|error| engine(&error))?;
        Ok(proto::GetReply { value: value.map(|value| Bytes::copy_from_slice(&value)) })
    }

    fn range(&self, context: &Context, request: proto::RangeRequest) -> Result<proto::RangeReply, Status> {
        let proto::RangeRequest { from, to, limit, stale } = request;
        let most = if limit == 0 { ROWS } else { limit as usize };
        if most > ROWS_MOST {
            return Err(wrong(format!("{most} rows are too many at a time; allowed are 1 to {ROWS_MOST}")));
        }
        if from.len().max(to.as_ref().map_or(0, Bytes::len)) > LONGEST_KEY {
            return Err(wrong(format!("no key has more than {LONGEST_KEY} bytes")));
        }
        self.fresh(context, stale)?;
        let (mut reply, mut bytes) = (proto::RangeReply::default(), 0);
        let mut stopped = Ok(());
        let each = |key: &[u8], value: &[u8]| {
            reply.more = reply.rows.len() == most || bytes >= REPLY_BYTES;
            if reply.rows.len().is_multiple_of(64) {
                stopped = context.checkpoint();
            }
            if reply.more || stopped.is_err() {
                return false;
            }
            bytes += key.len() + value.len();
            let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
            reply.rows.push(proto::Row { key, value });
            true
        };
        self.rows.range(&from, to.as_deref(), each).map_err(|error| engine(&error))?;
        stopped.map(|()| reply)
    }

    fn describe(&self, _: &Context, _: proto::DescribeRequest) -> Result<proto::DescribeReply, Status> {
        Ok(self.replica.describe())
    }
}

fn wrong(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}

fn engine(error: &fjall::Error) -> Status {
    Status::new(Code::Internal, format!("the rows can't be read: {error}; see to the disk of the replica"))
}

fn another() -> Status {
    Status::new(Code::Internal, "the answer is another command's; are all replicas of one version?")
}
