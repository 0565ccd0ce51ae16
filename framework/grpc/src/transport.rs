//! The way out of a connection of plain bytes.

/// Takes the bytes that a connection sends.
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
