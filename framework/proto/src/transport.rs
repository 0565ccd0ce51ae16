//! What a connection's chunks are posted to.

use greenwave_policy::{Acknowledged, Bound};
use std::ops::Range;
use std::sync::Arc;

/// The way out of one connection. It takes chunks whole and delivers them whole, once, in order, or not at all.
///
/// What arrives doesn't come through it: whoever owns the connection hands that in.
pub trait Transport {
    /// Why a chunk was not posted.
    type Error;

    /// Length of the largest chunk, in bytes.
    fn chunk_bytes(&self) -> usize;

    /// Payload bytes that may be posted now, in one chunk or several: 0, or at least
    /// [`chunk_bytes`](Self::chunk_bytes). Once it was 0, whoever owns the connection transmits again when it no
    /// longer is.
    fn room(&self) -> usize;

    /// Posts one chunk, the concatenation of `parts`.
    ///
    /// # Errors
    /// If there is no room for it, or the connection is gone.
    fn post(&mut self, parts: &[&[u8]]) -> Result<(), Self::Error>;

    /// Posts the `count` chunks that `run` holds, one after the other, each with its length before it: [`PREFIX`]
    /// bytes, little-endian. All but the last of them, with their lengths, have as many bytes as
    /// [`room`](Self::room) is more than a chunk.
    ///
    /// # Errors
    /// Those of [`post`](Self::post). The first of the chunks may be posted then.
    fn post_run(&mut self, run: &[u8], count: usize) -> Result<(), Self::Error>;

    /// Posts one chunk: `head`, then a part of a body, then `tail`. The part may be written from where it lies, and
    /// the transport share the body until that is done.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    fn post_shared(
        &mut self,
        head: [&[u8]; 2],
        body: (&Arc<Vec<u8>>, Range<usize>),
        tail: &[u8],
    ) -> Result<(), Self::Error>;

    /// How far the peer has acknowledged what was posted, where the transport tells.
    fn acknowledged(&self) -> Option<Acknowledged>;

    /// Bounds from now on what of this connection can't be overtaken any more; `None`: only as all connections are.
    fn bound(&mut self, bound: Option<Bound>);

    /// Tags what leaves from now on with a code point of differentiated services, 0 to 63 (RFC 2474). Whether that is
    /// allowed.
    fn tag(&mut self, code_point: u8) -> bool;
}

/// The way out of a connection of plain bytes, which no chunks are cut into.
pub trait PlainTransport {
    /// Why they could not be posted.
    type Error;

    /// How many bytes may be posted now.
    fn room(&self) -> usize;

    /// Posts bytes, at most as many as there is [room](Self::room) for.
    ///
    /// # Errors
    /// When the connection is gone.
    fn post(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Bytes of the length before a chunk of a [run](Transport::post_run): a `u32`, little-endian.
pub const PREFIX: usize = 4;

/// The chunks of a [run](Transport::post_run), in order.
#[inline]
pub(crate) fn chunks(run: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let (prefix, after) = rest.split_first_chunk::<PREFIX>()?;
        let (chunk, after) = after.split_at_checked(u32::from_le_bytes(*prefix) as usize)?;
        rest = after;
        Some(chunk)
    })
}
