//! How a call fails: a code that programs act on, a reason that says which check refused it, a text for people.
//!
//! Codes are gRPC's, numbers and names, so that a Greenwave service can be offered over gRPC without a table of
//! its own. The reason is what gRPC leaves to the text: whether a call was refused before it cost anything, and
//! by what. It is advice; a peer of a later version may know more reasons.

use std::fmt;

use crate::wire::StageName;

/// How a call ended: gRPC's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// It succeeded.
    Ok = 0,
    /// The caller no longer wanted the answer.
    Cancelled = 1,
    /// It failed in a way that has no code.
    Unknown = 2,
    /// The request makes no sense, whatever the state of the service.
    InvalidArgument = 3,
    /// The expected deadline passed, or would have.
    DeadlineExceeded = 4,
    /// What was asked for is not there.
    NotFound = 5,
    /// What was to be made is there already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A queue, a quota or a limit is full.
    ResourceExhausted = 8,
    /// The service is not in the state that the call needs.
    FailedPrecondition = 9,
    /// It ran into another call; starting over may help.
    Aborted = 10,
    /// A position beyond the end.
    OutOfRange = 11,
    /// The service has no such method.
    Unimplemented = 12,
    /// Something that should hold, doesn't.
    Internal = 13,
    /// The service can't be reached for now.
    Unavailable = 14,
    /// Data are gone or damaged.
    DataLoss = 15,
    /// The caller did not say who it is.
    Unauthenticated = 16,
}

impl Code {
    /// All codes, by number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code with this number.
    pub const fn from_u8(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Its number.
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// Its name, as gRPC writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where on its way a call was when its deadline was found to have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// At the caller, before it was written.
    Send,
    /// At the callee, when it arrived.
    Enqueue,
    /// At the callee, when a worker took it from the queue.
    Dequeue,
    /// At the callee, by admission.
    Admission,
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
    /// What was left was less than what the method is known to need.
    Infeasible,
    /// The callee's queue was full.
    QueueFull,
    /// More calls were under way than the peer or a limit allows.
    TooManyCalls,
    /// The message was longer than the receiver takes.
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
    /// A reason that this version doesn't know, by its number.
    Other(u8),
}

impl Reason {
    /// The reason with this number.
    pub const fn from_u8(number: u8) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Expired(Check::Send),
            2 => Self::Expired(Check::Enqueue),
            3 => Self::Expired(Check::Dequeue),
            4 => Self::Expired(Check::Admission),
            5 => Self::Expired(Check::Reply),
            6 => Self::Expired(Check::Wait),
            7 => Self::Infeasible,
            8 => Self::QueueFull,
            9 => Self::TooManyCalls,
            10 => Self::MessageTooLarge,
            11 => Self::UnknownMethod,
            12 => Self::Panicked,
            13 => Self::ConnectionLost,
            14 => Self::Unreachable,
            15 => Self::GoingAway,
            16 => Self::Decode,
            17 => Self::Metadata,
            18 => Self::Cancelled,
            19 => Self::Violation,
            other => Self::Other(other),
        }
    }

    /// Its number.
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Expired(Check::Send) => 1,
            Self::Expired(Check::Enqueue) => 2,
            Self::Expired(Check::Dequeue) => 3,
            Self::Expired(Check::Admission) => 4,
            Self::Expired(Check::Reply) => 5,
            Self::Expired(Check::Wait) => 6,
            Self::Infeasible => 7,
            Self::QueueFull => 8,
            Self::TooManyCalls => 9,
            Self::MessageTooLarge => 10,
            Self::UnknownMethod => 11,
            Self::Panicked => 12,
            Self::ConnectionLost => 13,
            Self::Unreachable => 14,
            Self::GoingAway => 15,
            Self::Decode => 16,
            Self::Metadata => 17,
            Self::Cancelled => 18,
            Self::Violation => 19,
            Self::Other(number) => number,
        }
    }

    /// The code that goes with it, where it is not the handler's to choose.
    pub const fn code(self) -> Code {
        match self {
            Self::None | Self::Other(_) => Code::Unknown,
            Self::Expired(_) | Self::Infeasible => Code::DeadlineExceeded,
            Self::QueueFull | Self::TooManyCalls | Self::MessageTooLarge => Code::ResourceExhausted,
            Self::UnknownMethod => Code::Unimplemented,
            Self::Panicked | Self::Violation => Code::Internal,
            Self::ConnectionLost | Self::Unreachable | Self::GoingAway => Code::Unavailable,
            Self::Decode | Self::Metadata => Code::InvalidArgument,
            Self::Cancelled => Code::Cancelled,
        }
    }

    /// Whether the handler was never started, so that the call can be made again, elsewhere, without doing
    /// anything twice.
    pub const fn was_refused(self) -> bool {
        match self {
            Self::Expired(check) => matches!(check, Check::Send | Check::Enqueue | Check::Dequeue | Check::Admission),
            Self::Infeasible
            | Self::QueueFull
            | Self::TooManyCalls
            | Self::MessageTooLarge
            | Self::UnknownMethod
            | Self::Unreachable
            | Self::GoingAway
            | Self::Metadata => true,
            Self::None
            | Self::Panicked
            | Self::ConnectionLost
            | Self::Decode
            | Self::Cancelled
            | Self::Violation
            | Self::Other(_) => false,
        }
    }

    /// What happened, and what can be done about it. Nothing for what the handler's own text has to say.
    const fn cause_and_remedy(self) -> Option<(&'static str, &'static str)> {
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
            Self::Expired(Check::Admission) => {
                ("the deadline had passed at admission", "expect the answer later, or add workers")
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
            Self::Metadata => ("the call's metadata can't be read", "write them as pairs of a name and a value"),
            Self::Cancelled => ("the caller gave up", "nothing to do"),
            Self::Violation => ("the peer broke the protocol", "check the versions of both, and report it"),
        })
    }
}

/// How a call failed.
///
/// Handlers make one with [`Status::new`]; the framework's own refusals have a [`Reason`] and are made with
/// [`Status::refused`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What programs act on.
    pub code: Code,
    /// Which check refused it.
    pub reason: Reason,
    /// More about it, for people. May be empty.
    pub message: String,
    /// The stage that used the time up, where a receipt tells.
    pub stage: Option<StageName>,
}

impl Status {
    /// A handler's failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, reason: Reason::None, message: message.into(), stage: None }
    }

    /// A failure for one of the framework's reasons, with the code that goes with it. The message adds the
    /// particulars: which limit, how much.
    pub fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self { code: reason.code(), reason, message: message.into(), stage: None }
    }

    /// The same failure, put down to this stage.
    #[must_use]
    pub fn at_stage(mut self, stage: StageName) -> Self {
        self.stage = Some(stage);
        self
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        let told = self.reason.cause_and_remedy();
        if let Some((cause, _)) = told {
            write!(f, ": {cause}")?;
        }
        match (told, self.message.as_str()) {
            (_, "") => {}
            (None, message) => write!(f, ": {message}")?,
            (Some(_), message) => write!(f, " ({message})")?,
        }
        if let Some(stage) = self.stage {
            write!(f, "; stage {stage} used the time up")?;
        }
        match told {
            Some((_, remedy)) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_code_leads_back_to_it() {
        for (number, code) in (0..).zip(Code::ALL) {
            assert_eq!(code.as_u8(), number);
            assert_eq!(Code::from_u8(number), Some(code));
        }
        assert_eq!(Code::from_u8(17), None);
        assert_eq!(Code::from_u8(255), None);
    }

    #[test]
    fn every_number_of_a_reason_leads_back_to_it() {
        for number in 0..=u8::MAX {
            assert_eq!(Reason::from_u8(number).as_u8(), number);
        }
    }

    #[test]
    fn a_refusal_reads_as_cause_particulars_stage_and_remedy() {
        let status = Status::refused(Reason::Expired(Check::Dequeue), "late by 3 ms")
            .at_stage(StageName::new("history").unwrap());
        assert_eq!(
            status.to_string(),
            "DEADLINE_EXCEEDED: the deadline passed in the callee's queue (late by 3 ms); stage history used the \
             time up; add workers, or let admission refuse earlier"
        );
    }

    #[test]
    fn a_handlers_failure_reads_as_its_own_text() {
        assert_eq!(Status::new(Code::NotFound, "no user 7").to_string(), "NOT_FOUND: no user 7");
        assert_eq!(Status::new(Code::Internal, "").to_string(), "INTERNAL");
    }
}
