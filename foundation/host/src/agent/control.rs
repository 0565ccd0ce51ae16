//! What an agent can be asked while it runs, over a socket that only its own user can reach.
//!
//! A line of JSON there, a line of JSON back. Asked are root's processes by root's processes; bounds are for those that
//! stop halfway.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::AgentError;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The answer is a [`Status`](super::Status).
    Status { most_flows: usize },
    /// To end. The answer is the agent's process.
    End,
}

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the agent behind a socket; nothing if there is none.
pub(super) fn ask<A: DeserializeOwned>(socket: &Path, request: &Request) -> Result<Option<A>, AgentError> {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(cause) => match cause.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => return Ok(None),
            io::ErrorKind::PermissionDenied => {
                return Err(AgentError::NotPermitted { what: "to ask the agent", cause });
            }
            _ => return Err(AgentError::Silent { path: socket.to_owned(), cause }),
        },
    };
    let answer = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut text = serde_json::to_vec(request)?;
        text.push(b'\n');
        stream.write_all(&text)?;
        let mut answer = Vec::new();
        stream.take(1 << 30).read_to_end(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    })();
    answer.map(Some).map_err(|cause| AgentError::Silent { path: socket.to_owned(), cause })
}

/// Answers whoever asks next, if somebody does.
pub(super) fn answer(
    listener: &UnixListener,
    answer: impl FnOnce(Request) -> serde_json::Result<Vec<u8>>,
) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new((&stream).take(4096)).read_until(b'\n', &mut line)?;
    let request = serde_json::from_slice(&line)?;
    let text = answer(request)?;
    (&stream).write_all(&text)
}
