//! What became of a call: the answer or the refusal, and where its time went.

use crate::compression::{Encoding, Undecodable};
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use crate::wire::{Meta, StageName};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A message's bytes as they came in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body(Vec<u8>);

impl Body {
    /// The bytes, without copying them.
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

/// An answer in time, with what it cost.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The reply message.
    pub body: Body,
    /// What the callee, and the stages behind it, spent.
    pub receipt: Receipt,
    /// Round trip less the callee's own time: both ways on the wire and in socket queues.
    pub network: Duration,
    /// From the call to the reply, as the caller saw it. Waiting for a connection, a credit or a call slot counts.
    pub total: Duration,
    /// Metadata of the answer, if it had any.
    pub metadata: Option<Box<AnswerMetadata>>,
}

/// An answer decoded into a message.
#[derive(Clone, Debug)]
pub struct Typed<T> {
    /// The message.
    pub message: T,
    /// What the callee, and the stages behind it, spent.
    pub receipt: Receipt,
    /// Round trip less the callee's own time.
    pub network: Duration,
    /// From the call to the reply, as the caller saw it.
    pub total: Duration,
    /// Metadata of the answer, if it had any.
    pub metadata: Option<Box<AnswerMetadata>>,
}

impl<T> Typed<T> {
    /// The message alone.
    pub fn into_inner(self) -> T {
        self.message
    }
}

impl<T> Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl Reply {
    /// Decodes the body.
    ///
    /// # Errors
    /// Whatever `decode` says, with what the call has cost.
    pub fn decode<T>(self, decode: impl FnOnce(&[u8]) -> Result<T, Status>) -> Result<Typed<T>, Failure> {
        let Self { body, receipt, network, total, metadata } = self;
        match decode(&body) {
            Ok(message) => Ok(Typed { message, receipt, network, total, metadata }),
            Err(status) => Err(Failure { status, receipt: Some(Box::new(receipt)), total, metadata }),
        }
    }
}

/// Anything but an answer in time, with what is known of where the time went. It is its status to whoever needs no more: a
/// handler passes it on with `?`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{status}")]
pub struct Failure {
    /// What happened.
    pub status: Status,
    /// What the callee, and the stages behind it, spent, if the callee said so.
    pub receipt: Option<Box<Receipt>>,
    /// From the call to its end, as the caller saw it. Waiting for a connection, a credit or a call slot counts.
    pub total: Duration,
    /// Metadata that came with the failure, if there were any.
    pub metadata: Option<Box<AnswerMetadata>>,
}

impl Deref for Failure {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.status
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        failure.status
    }
}

/// Metadata that came with an answer: entries as on the wire, sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerMetadata {
    /// Those that go before the answer, unless they came [before](crate::connection::StreamEvent::Began) its end.
    pub leading: Option<Arc<[u8]>>,
    /// Those that go with its end.
    pub trailing: Option<Arc<[u8]>>,
}

impl AnswerMetadata {
    /// The first value of this name before the answer.
    pub fn lead(&self, name: &str) -> Option<&[u8]> {
        find(self.leading.as_deref(), name)
    }

    /// The first value of this name with its end.
    pub fn trail(&self, name: &str) -> Option<&[u8]> {
        find(self.trailing.as_deref(), name)
    }
}

fn find<'a>(entries: Option<&'a [u8]>, name: &str) -> Option<&'a [u8]> {
    let mut entries = Meta::parse(entries?).into_iter().flatten();
    entries.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Who answered a call, and what it said beside the message.
#[derive(Clone, Debug)]
pub struct Answerer {
    /// Its own name for itself.
    pub name: StageName,
    /// Metadata of this answer, if it had any.
    pub metadata: Option<Box<AnswerMetadata>>,
    /// How the answer's message is compressed, if it is, and how many bytes it may have without that.
    pub compressed: Option<(Encoding, usize)>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer's message, or how the call failed.
    pub result: Result<Body, Status>,
    /// What the callee said it spent; `None` if it never answered.
    pub receipt: Option<Receipt>,
    /// Round trip less the callee's own time; zero if it never answered.
    pub network: Duration,
    /// From the call to its end.
    pub total: Duration,
    /// Who answered, where that was asked for: on behalf of another, of failures, and of answers with metadata.
    pub stage: Option<Arc<Answerer>>,
}

impl Outcome {
    /// A call that ended on this side.
    pub fn local(status: Status, total: Duration) -> Self {
        Self { result: Err(status), receipt: None, network: Duration::ZERO, total, stage: None }
    }

    /// Metadata of the answer, if it had any.
    pub fn metadata(&self) -> Option<&AnswerMetadata> {
        self.stage.as_ref()?.metadata.as_deref()
    }

    /// Whether its message came compressed, and still is.
    #[inline]
    pub fn is_compressed(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.compressed.is_some())
    }

    /// Has its message decompressed here and now, if it came compressed.
    pub fn decompress(&mut self) {
        if let Some(stage) = self.stage.as_mut().filter(|stage| stage.compressed.is_some()) {
            let compressed = Arc::make_mut(stage).compressed.take();
            let result = std::mem::replace(&mut self.result, Ok(Body::default()));
            self.result = decompressed(result, compressed);
        }
    }

    /// As it is reported to whoever made the call. A message that came compressed is decompressed here, so in the time of whoever
    /// asks.
    ///
    /// # Errors
    /// Unless it was answered with success.
    #[inline(always)]
    pub fn into_reply(self) -> Result<Reply, Failure> {
        let metadata = self.stage.as_ref().and_then(|stage| stage.metadata.clone());
        let result = match &self.stage {
            Some(stage) if stage.compressed.is_some() => decompressed(self.result, stage.compressed),
            _ => self.result,
        };
        match result {
            Ok(body) => {
                let receipt = self.receipt.unwrap_or_default();
                Ok(Reply { body, receipt, network: self.network, total: self.total, metadata })
            }
            Err(mut status) => {
                if status.code == Code::DeadlineExceeded {
                    let behind = self.receipt.as_ref().and_then(|receipt| receipt.costliest()).map(|stage| stage.stage);
                    status.stage = behind.map(Box::new).or(self.stage.map(|stage| Box::new(stage.name)));
                }
                Err(Failure { status, receipt: self.receipt.map(Box::new), total: self.total, metadata })
            }
        }
    }
}

#[cold]
fn decompressed(result: Result<Body, Status>, compressed: Option<(Encoding, usize)>) -> Result<Body, Status> {
    match (result, compressed) {
        (Ok(body), Some((encoding, most))) => {
            encoding.decompress(&body, most).map(Body).map_err(Undecodable::of_answer)
        }
        (result, _) => result,
    }
}
