//! What stands for the socket: bytes in memory that `h2` reads, and a buffer that it writes to.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes between a connection and its transport. One thread at a time has both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    input: Vec<u8>,
    /// How many of the first bytes were read.
    read: usize,
    output: Vec<u8>,
}

/// Bytes to be sent beyond which `h2` is made to wait.
const OUTPUT_MOST: usize = 64 << 10;

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what arrived.
    pub(super) fn feed(&self, bytes: &[u8]) {
        let mut ends = self.ends();
        if ends.read == ends.input.len() {
            ends.input.clear();
            ends.read = 0;
        } else if ends.read > ends.input.len() / 2 {
            let read = std::mem::take(&mut ends.read);
            ends.input.drain(..read);
        }
        ends.input.extend_from_slice(bytes);
    }

    /// Has up to so many bytes sent. How many that were.
    pub(super) fn send<E>(&self, most: usize, post: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<usize, E> {
        let mut ends = self.ends();
        let len = ends.output.len().min(most);
        if len > 0 {
            post(&ends.output[..len])?;
            ends.output.drain(..len);
        }
        Ok(len)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let unread = &ends.input[ends.read..];
        // Whoever feeds it polls the connection then, and whoever sends what is there too. Nothing is taken in of a peer that
        // doesn't read, or what it calls for would pile up in `h2`.
        if unread.is_empty() || ends.output.len() >= OUTPUT_MOST {
            return Poll::Pending;
        }
        let len = unread.len().min(into.remaining());
        into.put_slice(&unread[..len]);
        ends.read += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.ends();
        let room = OUTPUT_MOST.saturating_sub(ends.output.len());
        if room == 0 {
            // Whoever sends what is there polls the connection then.
            return Poll::Pending;
        }
        let len = bytes.len().min(room);
        ends.output.extend_from_slice(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut ends = self.ends();
        let room = OUTPUT_MOST.saturating_sub(ends.output.len());
        if room == 0 {
            return Poll::Pending;
        }
        let mut written = 0;
        for slice in slices {
            let len = slice.len().min(room - written);
            ends.output.extend_from_slice(&slice[..len]);
            written += len;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
