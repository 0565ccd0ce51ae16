//! Which check a call failed at, and what can be done about it.

use super::Code;

/// Where on its way a call was when its deadline was found to have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// At the caller, before it was written.
    Send,
    /// At the callee, when it arrived.
    Enqueue,
    /// At the callee, when a worker took it from the queue.
    Dequeue,
    /// At the callee, before the answer was written.
    Reply,
    /// At the caller, by its own clock, while it waited for the answer.
    Wait,
}

/// Why a call failed, more closely than its code says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing to add: the handler's own failure.
    #[default]
    None,
    /// The deadline had passed.
    Expired(Check),
    /// What was left was less than what the method is known to need, or than the share of the budget that a call must
    /// still have when it begins.
    Infeasible,
    /// The callee's queue was full.
    QueueFull,
    /// More calls were under way than the peer or a limit allows.
    TooManyCalls,
    /// The request was longer than the callee takes.
    MessageTooLarge,
    /// The callee has no such method.
    UnknownMethod,
    /// The handler panicked.
    Panicked,
    /// The connection broke before the answer came.
    ConnectionLost,
    /// No connection could be made.
    Unreachable,
    /// The callee shuts down and took no further calls.
    GoingAway,
    /// The message is not of the type that the method takes or returns.
    Decode,
    /// The call's metadata are not what they should be.
    Metadata,
    /// The caller gave up.
    Cancelled,
    /// The peer broke the protocol.
    Violation,
    /// The handler's reply was longer than the caller takes.
    ReplyTooLarge,
    /// The caller has not proved who it is.
    Unauthenticated,
    /// The caller may not call this method.
    PermissionDenied,
    /// A reason that this version doesn't know, by its number.
    Other(u8),
}

/// The reasons by their numbers on the wire. Number 4 was never given.
const BY_NUMBER: [Reason; 23] = [
    Reason::None,
    Reason::Expired(Check::Send),
    Reason::Expired(Check::Enqueue),
    Reason::Expired(Check::Dequeue),
    Reason::Other(4),
    Reason::Expired(Check::Reply),
    Reason::Expired(Check::Wait),
    Reason::Infeasible,
    Reason::QueueFull,
    Reason::TooManyCalls,
    Reason::MessageTooLarge,
    Reason::UnknownMethod,
    Reason::Panicked,
    Reason::ConnectionLost,
    Reason::Unreachable,
    Reason::GoingAway,
    Reason::Decode,
    Reason::Metadata,
    Reason::Cancelled,
    Reason::Violation,
    Reason::ReplyTooLarge,
    Reason::Unauthenticated,
    Reason::PermissionDenied,
];

impl Reason {
    /// The reason with this number.
    pub fn from_u8(number: u8) -> Self {
        BY_NUMBER.get(usize::from(number)).copied().unwrap_or(Self::Other(number))
    }

    /// Its number.
    #[inline]
    pub fn as_u8(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Other(number) => number,
            known => (0..).zip(BY_NUMBER).find(|(_, reason)| *reason == known).map_or(0, |(number, _)| number),
        }
    }

    /// The code that goes with it, where it is not the handler's to choose.
    pub const fn code(self) -> Code {
        match self {
            Self::None | Self::Other(_) => Code::Unknown,
            Self::Expired(_) | Self::Infeasible => Code::DeadlineExceeded,
            Self::QueueFull | Self::TooManyCalls | Self::MessageTooLarge | Self::ReplyTooLarge => {
                Code::ResourceExhausted
            }
            Self::UnknownMethod => Code::Unimplemented,
            Self::Panicked | Self::Violation => Code::Internal,
            Self::ConnectionLost | Self::Unreachable | Self::GoingAway => Code::Unavailable,
            Self::Decode | Self::Metadata => Code::InvalidArgument,
            Self::Cancelled => Code::Cancelled,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::PermissionDenied => Code::PermissionDenied,
        }
    }

    /// Whether the check is one before the handler runs. What that says of a call depends on who checked:
    /// [`Status::never_ran`](super::Status::never_ran).
    pub(crate) const fn is_refusal(self) -> bool {
        match self {
            Self::Expired(check) => matches!(check, Check::Send | Check::Enqueue | Check::Dequeue),
            Self::Infeasible
            | Self::QueueFull
            | Self::TooManyCalls
            | Self::MessageTooLarge
            | Self::UnknownMethod
            | Self::Unreachable
            | Self::GoingAway
            | Self::Metadata
            | Self::Unauthenticated
            | Self::PermissionDenied => true,
            Self::None
            | Self::Panicked
            | Self::ConnectionLost
            | Self::Decode
            | Self::Cancelled
            | Self::Violation
            | Self::ReplyTooLarge
            | Self::Other(_) => false,
        }
    }

    /// What happened, and what can be done about it. Nothing for what the handler's own text has to say.
    pub(super) const fn cause_and_remedy(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::None | Self::Other(_) => return None,
            Self::Expired(Check::Send) => (
                "the deadline passed before the request was written",
                "expect the answer later, or look at what used the time up before this call",
            ),
            Self::Expired(Check::Enqueue) => (
                "the deadline had passed when the request arrived",
                "expect the answer later, or look at the stages before this one",
            ),
            Self::Expired(Check::Dequeue) => {
                ("the deadline passed in the callee's queue", "add workers, or let admission refuse earlier")
            }
            Self::Expired(Check::Reply) => (
                "the deadline passed while the handler ran",
                "expect the answer later, or let the handler do less when its budget is small",
            ),
            Self::Expired(Check::Wait) => (
                "the deadline passed without an answer",
                "expect the answer later, or look at the receipts for the stage that takes the time",
            ),
            Self::Infeasible => {
                ("less time was left than the method needs", "expect the answer later, or ask for less")
            }
            Self::QueueFull => ("the callee's queue is full", "send less, try another server, or raise its max_queue"),
            Self::TooManyCalls => {
                ("too many calls are under way on the connection", "wait for some to end, or open another connection")
            }
            Self::MessageTooLarge => (
                "the message is longer than the receiver takes",
                "send it in pieces, or raise the receiver's message_bytes",
            ),
            Self::ReplyTooLarge => {
                ("the reply is longer than the caller takes", "ask for less, or raise the caller's message_bytes")
            }
            Self::UnknownMethod => {
                ("the callee has no such method", "check the address, and that both were built from the same .proto")
            }
            Self::Panicked => ("the handler panicked", "look for the panic in the callee's log"),
            Self::ConnectionLost => {
                ("the connection broke before the answer came", "call again if the method may run twice")
            }
            Self::Unreachable => ("no connection could be made", "check the address, and that the server runs"),
            Self::GoingAway => ("the callee is shutting down", "call again: another server or connection will answer"),
            Self::Decode => {
                ("the message is not of the method's type", "check that both were built from the same .proto")
            }
            Self::Metadata => (
                "the call's metadata can't be read, or don't fit into a chunk",
                "write pairs of a name and a value, and what is long into the message",
            ),
            Self::Cancelled => ("the caller gave up", "nothing to do"),
            Self::Unauthenticated => (
                "the caller has not proved who it is",
                "send credentials that the server accepts: a certificate or a token",
            ),
            Self::PermissionDenied => ("the caller may not do this", "have it allowed where the server is set up"),
            Self::Violation => ("the peer broke the protocol", "check the versions of both, and report it"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_reason_leads_back_to_it() {
        for number in 0..=u8::MAX {
            assert_eq!(Reason::from_u8(number).as_u8(), number);
        }
    }

    #[test]
    fn every_reason_but_the_handlers_own_tells_a_cause_and_a_remedy() {
        for number in 0..=u8::MAX {
            let reason = Reason::from_u8(number);
            let handlers_own = matches!(reason, Reason::None | Reason::Other(_));
            assert_eq!(reason.cause_and_remedy().is_none(), handlers_own);
            assert_eq!(reason.code() == Code::Unknown, handlers_own);
        }
    }
}
