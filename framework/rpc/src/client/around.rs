//! What runs around a channel's calls: before each, where it is made, and after it, where its end is known.
//!
//! A channel without any has none of what is here. With it, a call keeps a list of what is to be told of its end, which is
//! told once: by whoever brings the end, or by the list itself when it is dropped before, as the call was taken back.

use super::by_name::ByName;
use super::call_queue::Completion;
use crate::clock::monotonic;
use crate::context::Context;
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use greenwave_policy::Time;
use greenwave_proto::Method;
use greenwave_proto::outcome::{AnswerMetadata, Outcome};
use slab::Slab;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a call has ended, as what runs [after it](crate::Channel::intercept_around) is told.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// How it failed; `None` if it succeeded.
    pub failure: Option<&'a Status>,
    /// From the call to its end, attempts before the last included.
    pub total: Duration,
    /// Where the time went, if the server said so.
    pub receipt: Option<&'a Receipt>,
    /// Metadata of the answer, if it had any; of a call that streams, those of its end alone.
    pub metadata: Option<&'a AnswerMetadata>,
}

impl Ended<'_> {
    /// The code of the failure, or `OK`.
    #[must_use]
    pub fn code(&self) -> Code {
        self.failure.map_or(Code::Ok, |status| status.code)
    }
}

impl<'a> From<&'a Outcome> for Ended<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let Outcome { result, receipt, total, .. } = outcome;
        Self { failure: result.as_ref().err(), total: *total, receipt: receipt.as_ref(), metadata: outcome.metadata() }
    }
}

impl<'a> From<&'a Completion> for Ended<'a> {
    fn from(completion: &'a Completion) -> Self {
        let total = completion.total;
        match &completion.result {
            Ok(reply) => {
                Self { failure: None, total, receipt: Some(&reply.receipt), metadata: reply.metadata.as_deref() }
            }
            Err(failure) => Self {
                failure: Some(&failure.status),
                total,
                receipt: failure.receipt.as_deref(),
                metadata: failure.metadata.as_deref(),
            },
        }
    }
}

/// What runs before calls: it makes the context that the call is made with, and leaves what is to run after it.
pub(super) type Before = dyn Fn(&Context, &Method, &mut After) -> Result<Context, Status> + Send + Sync;

type Told = Box<dyn FnOnce(&Ended<'_>) + Send>;

/// What runs after one call, what was left last first.
pub(super) struct After {
    begun: Time,
    /// Nobody locks it: so that futures can be shared among threads, whatever is captured here.
    told: Mutex<Vec<Told>>,
}

impl After {
    fn all(&mut self) -> &mut Vec<Told> {
        self.told.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves something more to be run.
    pub(super) fn push(&mut self, told: impl FnOnce(&Ended<'_>) + Send + 'static) {
        self.all().push(Box::new(told));
    }

    /// The call has ended so.
    pub(super) fn ended<'a>(mut self, ended: impl Into<Ended<'a>>) {
        self.tell(&ended.into());
    }

    fn tell(&mut self, ended: &Ended<'_>) {
        while let Some(told) = self.all().pop() {
            told(ended);
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        if self.all().is_empty() {
            return;
        }
        let status = Status::new(Code::Cancelled, "nobody waits for the answer any more");
        let total = monotonic().since(self.begun);
        let ended = Ended { failure: Some(&status), total, receipt: None, metadata: None };
        if !std::thread::panicking() {
            return self.tell(&ended);
        }
        // A second panic that leaves a destructor ends the process; the rest is told even so.
        while !self.all().is_empty() {
            let _ = catch_unwind(AssertUnwindSafe(|| self.tell(&ended)));
        }
    }
}

/// Runs what is to run before a call. If it is refused, those who had let it pass are told so.
pub(super) fn begin(before: &Before, context: &Context, method: &Method) -> Result<(Context, After), Status> {
    let mut after = After { begun: monotonic(), told: Mutex::default() };
    match before(context, method, &mut after) {
        Ok(context) => Ok((context, after)),
        Err(status) => {
            after.ended(&Outcome::local(status.clone(), Duration::ZERO));
            Err(status)
        }
    }
}

/// The calls of a stream around which something runs: who makes them knows them by their tags, and who brings their ends by
/// their places here.
pub(super) struct Watched {
    before: Arc<Before>,
    calls: Slab<(u64, After)>,
    by_tag: ByName<u64>,
}

impl Watched {
    pub(super) fn new(before: Arc<Before>) -> Self {
        Self { before, calls: Slab::new(), by_tag: ByName::default() }
    }

    /// The context that a call is made with, and its place.
    pub(super) fn begin(&mut self, context: &Context, method: &Method, tag: u64) -> Result<(Context, u64), Status> {
        let (context, after) = begin(&*self.before, context, method)?;
        let place = self.calls.insert((tag, after));
        self.by_tag.made(|| tag, place);
        Ok((context, place as u64))
    }

    /// The place of the call made last under this tag.
    pub(super) fn find(&mut self, tag: u64) -> Option<u64> {
        let all = self.calls.iter().map(|(place, (tag, _))| (*tag, place));
        self.by_tag.find(&tag, all).map(|place| place as u64)
    }

    /// The call at the place that the completion is tagged with has ended; it is tagged as its maker did.
    pub(super) fn completed(&mut self, completion: &mut Completion) {
        let place = completion.tag as usize;
        let Some((tag, after)) = self.calls.try_remove(place) else { return };
        self.by_tag.over(|| tag, place);
        completion.tag = tag;
        after.ended(&*completion);
    }
}
