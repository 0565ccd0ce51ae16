//! How a call fails: a code that programs act on, a reason that says which check refused it, a text for people.
//!
//! Codes are gRPC's, numbers and names, so that a Greenwave service can be offered over gRPC without a table of
//! its own. The reason is what gRPC leaves to the text: whether a call was refused before it cost anything, and
//! by what. It is advice; a peer of a later version may know more reasons.

mod reason;

use std::fmt;

pub use reason::{Check, Reason};

use crate::names::StageName;

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

/// Who made a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// This side: the code here, or the framework as the call's caller.
    #[default]
    Here,
    /// The framework at the callee.
    Callee,
    /// The callee's handler, or somebody behind it. Callees that don't say who made a failure are taken to mean this.
    Handler,
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
    /// Who made it.
    pub origin: Origin,
    /// More about it, for people. May be empty.
    pub message: String,
    /// The stage that used the time up, where a receipt tells.
    pub stage: Option<Box<StageName>>,
}

impl Status {
    /// A handler's failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, reason: Reason::None, origin: Origin::Here, message: message.into(), stage: None }
    }

    /// A failure for one of the framework's reasons, with the code that goes with it. The message adds the
    /// particulars: which limit, how much.
    pub fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self { code: reason.code(), reason, origin: Origin::Here, message: message.into(), stage: None }
    }

    /// Whether the call that failed so was refused before its handler ran, so that it can be made again, elsewhere,
    /// without doing anything twice. What a handler passes on of a call of its own is no such refusal: it ran.
    pub const fn never_ran(&self) -> bool {
        !matches!(self.origin, Origin::Handler) && self.reason.is_refusal()
    }

    /// What a handler returned.
    #[must_use]
    pub fn by_handler(mut self) -> Self {
        self.origin = Origin::Handler;
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
        if let Some(stage) = &self.stage {
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
    fn a_refusal_reads_as_cause_particulars_stage_and_remedy() {
        let refused = Status::refused(Reason::Expired(Check::Dequeue), "late by 3 ms");
        let status = Status { stage: Some(Box::new(StageName::new("history").unwrap())), ..refused };
        assert_eq!(
            status.to_string(),
            "DEADLINE_EXCEEDED: the deadline passed in the callee's queue (late by 3 ms); stage history used the \
             time up; add workers, or let admission refuse earlier"
        );
    }

    #[test]
    fn a_refusal_that_a_handler_passes_on_is_none_of_its_own_call() {
        let refused = Status::refused(Reason::QueueFull, "");
        assert!(refused.never_ran() && Status { origin: Origin::Callee, ..refused.clone() }.never_ran());
        assert!(!refused.by_handler().never_ran());
        let after_it_ran = [Reason::ReplyTooLarge, Reason::ConnectionLost, Reason::Expired(Check::Reply)];
        assert!(!after_it_ran.iter().any(|reason| Status::refused(*reason, "").never_ran()));
    }

    #[test]
    fn a_handlers_failure_reads_as_its_own_text() {
        assert_eq!(Status::new(Code::NotFound, "no user 7").to_string(), "NOT_FOUND: no user 7");
        assert_eq!(Status::new(Code::Internal, "").to_string(), "INTERNAL");
    }
}
