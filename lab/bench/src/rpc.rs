//! A Greenwave service as a target of load.

use std::time::Duration;

use greenwave::{Address, CallQueue, Channel, ChannelConfig, ChannelStream, Context, Receipt, Status};
use greenwave::{Check, Code, Completion, Method, Reason};
use greenwave_policy::Time;

use crate::clock;
use crate::target::{Answer, Reply, Request, StageReceipt, Target};

/// So many answers are taken before requests are sent that are due meanwhile: a server that makes up for something answers
/// as fast as they are taken, and what is sent after that, all at once, would hold it up again.
pub const AT_ONCE: usize = 32;

/// What the client does when an expected deadline passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It gives up and cancels the call.
    Enforced,
    /// It waits for the answer however late it is: for systems that know no deadlines.
    Observed,
}

/// The method of this name, which is kept for good: a measurement has few.
fn named(method: &str) -> Method {
    Method::named(String::leak(method.to_owned()))
}

/// A method of a Greenwave service, called over one connection that the generator's own thread polls; or over those of a
/// channel to several servers, which the channel's dispatcher polls. Some classes of requests may call another one.
pub struct RpcTarget {
    stream: Calls,
    method: Method,
    others: Vec<(String, Method)>,
    stage: String,
    patience: Patience,
    /// What ended a wait, until it's polled for.
    held: Option<Completion>,
}

/// Who makes the calls.
enum Calls {
    Own(CallQueue),
    Channel(ChannelStream),
}

impl Calls {
    fn submit(&mut self, context: &Context, method: Method, request: &[u8], tag: u64) {
        match self {
            Self::Own(queue) => queue.submit(context, method, request, tag),
            Self::Channel(stream) => stream.submit(context, method, request, tag),
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        match self {
            Self::Own(queue) => queue.poll(),
            Self::Channel(stream) => stream.poll(),
        }
    }

    fn take_timeout(&mut self, timeout: Duration) -> Option<Completion> {
        match self {
            Self::Own(queue) => queue.take_timeout(timeout),
            Self::Channel(stream) => stream.take_timeout(timeout),
        }
    }

    fn recycle(&mut self, reply: greenwave::Reply) {
        if let Self::Own(queue) = self {
            queue.recycle(reply);
        }
    }
}

impl RpcTarget {
    /// Calls `method` (`package.Service/Method`) of the service at `address`. Its receipts are listed as those of
    /// `stage`, since a service doesn't state its own name in a reply.
    ///
    /// # Errors
    /// Those of [`CallQueue::connect`]. A service that isn't there shows in the answers.
    pub fn connect(
        address: &Address,
        config: &ChannelConfig,
        method: &str,
        stage: impl Into<String>,
        patience: Patience,
    ) -> Result<Self, Status> {
        Ok(Self::over(Calls::Own(CallQueue::connect(address, config)?), method, stage, patience))
    }

    /// The same by a channel, which may lead to several servers.
    ///
    /// # Errors
    /// Those of [`Channel::stream`].
    pub fn by(channel: &Channel, method: &str, stage: impl Into<String>, patience: Patience) -> Result<Self, Status> {
        Ok(Self::over(Calls::Channel(channel.stream()?), method, stage, patience))
    }

    fn over(stream: Calls, method: &str, stage: impl Into<String>, patience: Patience) -> Self {
        Self { stream, method: named(method), stage: stage.into(), patience, others: Vec::new(), held: None }
    }

    /// Requests of the class with this name call another method.
    #[must_use]
    pub fn calling(mut self, class: impl Into<String>, method: &str) -> Self {
        self.others.push((class.into(), named(method)));
        self
    }
}

impl Target for RpcTarget {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let left = request.expires().since(self.now());
        let context = match self.patience {
            Patience::Enforced => Context::with_deadline(left),
            Patience::Observed => Context::observed(left),
        };
        let other = self.others.iter().find(|(class, _)| *class == request.class.name);
        let method = other.map_or(self.method, |(_, method)| *method);
        self.stream.submit(&context, method, request.payload, request.tag);
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        for _ in 0..AT_ONCE {
            let Some(completion) = self.held.take().or_else(|| self.stream.poll()) else { break };
            let (received, tag) = (clock::now(), completion.tag);
            match completion.result {
                Ok(reply) => {
                    let stages = stages(&self.stage, &reply.receipt, reply.total, reply.network);
                    let complete = is_complete(&reply.receipt);
                    let answer = if complete { Answer::Ok } else { Answer::Miss(INCOMPLETE) };
                    sink(Reply { tag, received, answer, stages: &stages });
                    self.stream.recycle(reply);
                }
                Err(failure) => {
                    let waited = completion.total;
                    let receipt = failure.receipt.iter();
                    let stages = receipt.flat_map(|receipt| stages(&self.stage, receipt, waited, Duration::ZERO));
                    let stages: Vec<_> = stages.collect();
                    sink(Reply { tag, received, answer: Answer::Miss(miss(&failure.status)), stages: &stages });
                }
            }
        }
    }

    fn wait(&mut self, until: Time) {
        if self.held.is_none() {
            self.held = self.stream.take_timeout(until.since(clock::now()));
        }
    }
}

/// The receipts of the callee and of the stages behind it, with the times at which each was called made absolute. The caller
/// knows how long it waited, from the call to the reply, and how much of that was both ways on the wire.
pub fn stages<'a>(name: &'a str, receipt: &'a Receipt, waited: Duration, network: Duration) -> Vec<StageReceipt<'a>> {
    let sent = waited.saturating_sub(network).saturating_sub(receipt.total);
    let (queue, service, total) = (receipt.queue, receipt.service, receipt.total);
    let mut stages = vec![StageReceipt { name, depth: 0, sent, network, queue, service, total }];
    // When the stage at each depth received its request; children follow their parent.
    let mut received = vec![sent + network / 2];
    for child in &receipt.children {
        let depth = usize::from(child.depth) + 1;
        received.truncate(depth);
        let sent = received.last().copied().unwrap_or_default() + child.sent_after;
        received.push(sent + child.network / 2);
        stages.push(StageReceipt {
            name: child.stage.as_str(),
            depth: depth.min(usize::from(u8::MAX)) as u8,
            sent,
            network: child.network,
            queue: child.queue,
            service: child.service,
            total: child.total,
        });
    }
    stages
}

/// The name under which answers are counted that went without a branch of a parallel unit: they are of use, but a
/// comparison in which one system may leave work out is none.
pub const INCOMPLETE: &str = "incomplete";

/// Whether every branch of every parallel unit has answered, itself or its hedge.
pub fn is_complete(receipt: &Receipt) -> bool {
    let children = &receipt.children;
    children.iter().enumerate().filter(|(_, child)| child.branch.is_some() && child.status != Code::Ok).all(
        |(at, failed)| {
            let is_sibling = |it: &&greenwave::StageReceipt| it.depth >= failed.depth;
            let (before, after) = children.split_at(at);
            let mut siblings = before.iter().rev().take_while(is_sibling).chain(after.iter().take_while(is_sibling));
            siblings.any(|sibling| sibling.stands_in_for(failed))
        },
    )
}

/// The name under which a failed call is counted.
pub fn miss(status: &Status) -> &'static str {
    match status.reason {
        Reason::Expired(Check::Send) => "expired-before-sending",
        Reason::Expired(Check::Enqueue) => "expired-on-arrival",
        Reason::Expired(Check::Dequeue) => "expired-in-queue",
        Reason::Expired(Check::Reply) => "expired-at-work",
        Reason::Expired(Check::Wait) => "given-up",
        Reason::Infeasible => "infeasible",
        Reason::QueueFull => "queue-full",
        Reason::TooManyCalls => "too-many-calls",
        Reason::UnknownMethod => "unknown-method",
        Reason::Unreachable | Reason::GoingAway => "unreachable",
        Reason::ConnectionLost => "connection-lost",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave::StageName;

    fn child(depth: u8, branch: Option<u16>, status: Code) -> greenwave::StageReceipt {
        greenwave::StageReceipt {
            stage: StageName::UNNAMED,
            branch,
            depth,
            sent_after: Duration::ZERO,
            network: Duration::ZERO,
            queue: Duration::ZERO,
            service: Duration::ZERO,
            total: Duration::ZERO,
            status,
        }
    }

    fn complete<const N: usize>(children: [greenwave::StageReceipt; N]) -> bool {
        is_complete(&Receipt { children: children.into(), ..Receipt::default() })
    }

    #[test]
    fn an_answer_is_complete_if_each_branch_has_answered_once() {
        let (ok, late) = (Code::Ok, Code::DeadlineExceeded);
        assert!(complete([]));
        assert!(complete([child(0, Some(0), ok), child(1, None, late), child(0, Some(1), ok)]), "no branch failed");
        assert!(!complete([child(0, Some(0), ok), child(0, Some(1), late)]));
        assert!(complete([child(0, Some(1), late), child(0, Some(0), ok), child(0, Some(1), ok)]), "its hedge did");
        let other_unit = [child(0, None, ok), child(1, Some(1), ok), child(0, None, ok), child(1, Some(1), late)];
        assert!(!complete(other_unit));
    }
}
