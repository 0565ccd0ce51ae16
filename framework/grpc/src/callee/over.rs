//! Why a connection ended.

use std::time::Duration;

/// How a connection came to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    /// Both sides are done with it.
    #[error("closed in order")]
    Closed,
    /// The peer broke the rules of HTTP/2, or said that this side did.
    #[error("HTTP/2: {0}")]
    Broken(String),
    /// The peer did not begin in time.
    #[error("no HTTP/2 connection was begun in {0:?}")]
    Handshake(Duration),
    /// The peer neither read nor wrote what it had begun.
    #[error("no progress in {0:?}")]
    Stalled(Duration),
    /// The peer sent a part of a frame, or of a call's headers, and no more.
    #[error("a frame that was begun did not go on in {0:?}")]
    Unfinished(Duration),
    /// The peer did not answer a PING.
    #[error("not a word in {0:?} after it was asked whether it is there")]
    Silent(Duration),
    /// The connection is as old as any may become, and its last calls took longer than they were given.
    #[error("it was older than {0:?}")]
    Old(Duration),
    /// The peer goes on writing and doesn't read.
    #[error("{0} bytes can't be taken in, as the peer doesn't read what is sent to it")]
    Unread(usize),
}
