//! What stands for a socket of `h2`: bytes in memory.

#![allow(unreachable_pub)]

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One end of a socket, and what its other side sees of it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl Memory {
    /// Adds what is to be read.
    pub fn feed(&self, bytes: &[u8]) {
        self.0.lock().unwrap().0.extend_from_slice(bytes);
    }

    /// Takes what was written.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl AsyncRead for Memory {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (input, _) = &mut *self.0.lock().unwrap();
        if input.is_empty() {
            return Poll::Pending;
        }
        let len = input.len().min(into.remaining());
        into.put_slice(&input[..len]);
        input.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Memory {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls once.
pub fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut context())
}

/// Nobody is woken: whoever waits is polled again.
pub fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
