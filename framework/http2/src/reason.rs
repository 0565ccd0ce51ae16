//! Why a stream or a connection ended.

use std::fmt;

/// An error code of HTTP/2 (RFC 9113, 7), known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// Nothing went wrong.
    pub const NO_ERROR: Self = Self(0);
    /// A rule was broken that has no code of its own.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The sender failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than a window allows, or a window grew beyond 2^31 - 1.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// A frame came for a stream that was closed.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has a length that its kind can't have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// Nothing of the stream was looked at: it may be tried again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// Nobody waits for it any more.
    pub const CANCEL: Self = Self(8);
    /// The state of header compression is lost.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// A tunnel's far side was lost.
    pub const CONNECT_ERROR: Self = Self(10);
    /// The peer makes more work than is acceptable.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// The transport is not safe enough.
    pub const INADEQUATE_SECURITY: Self = Self(12);
    /// HTTP/1.1 is wanted.
    pub const HTTP_1_1_REQUIRED: Self = Self(13);

    /// Its name in the RFC; `None` if it has none.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        if (self.0 as usize) < NAMES.len() { Some(NAMES[self.0 as usize]) } else { None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The peer broke a rule that ends the connection. It was told so by a GOAWAY frame, which is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text}")]
pub struct Error {
    /// The code that the peer is told.
    pub reason: Reason,
    /// Which rule, for those who look for the cause.
    pub text: &'static str,
}

impl Error {
    pub(crate) const fn new(reason: Reason, text: &'static str) -> Self {
        Self { reason, text }
    }

    pub(crate) const fn protocol(text: &'static str) -> Self {
        Self::new(Reason::PROTOCOL_ERROR, text)
    }
}
