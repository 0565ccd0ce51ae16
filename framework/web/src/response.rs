//! An answer as HTTP has it, whichever of its versions carries it.

use std::borrow::Cow;

/// A response: what is said of it, and its body in parts, none of which is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// HTTP's status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// One after the other.
    pub body: [Vec<u8>; 3],
}

impl Response {
    /// One without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// One whose body is this.
    pub(crate) fn of(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type".into(), content_type.to_owned())];
        Self { status, headers, body: [body, Vec::new(), Vec::new()] }
    }

    pub(crate) fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.body.iter().map(Vec::len).sum()
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a status is called.
pub(crate) fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
