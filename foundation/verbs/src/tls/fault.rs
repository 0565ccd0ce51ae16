//! Why a session over TLS failed.

/// What is wrong with a TLS session, or with what the peer takes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// What the peer sent is not TLS.
    #[error("the peer does not speak TLS; turn TLS on there, or off here")]
    PeerIsPlain,
    /// The peer speaks TLS where none is expected.
    #[error("the peer speaks TLS, and this side does not; turn TLS on here, or off there")]
    PeerIsTls,
    /// The connection ended before the handshake did.
    #[error("the connection ended within the TLS handshake; the peer may not speak TLS, its log may say more")]
    HandshakeCut,
    /// The connection ended and the peer had not said that it would. Anybody on the way could have cut it.
    #[error("the connection was cut off; the peer had not closed the TLS session")]
    Cut,
    /// The peer's certificate was signed by somebody unknown.
    #[error("the peer's certificate is not from an authority that is trusted here; give the authority that signed it")]
    UnknownAuthority,
    /// The peer's certificate is too old.
    #[error("the peer's certificate has expired; it needs a new one, or the clock of this machine is wrong")]
    Expired,
    /// The peer's certificate is too new.
    #[error("the peer's certificate is not valid yet; look at the clocks of both machines")]
    NotValidYet,
    /// The server's certificate is for others.
    #[error(
        "the peer's certificate is for another name; connect by a name or address that it has, or say which one to expect"
    )]
    WrongName,
    /// The peer's certificate is for another purpose.
    #[error("the peer's certificate is not for this purpose; servers need `serverAuth`, clients `clientAuth`")]
    WrongPurpose,
    /// The peer's certificate was revoked.
    #[error("the peer's certificate was revoked; it needs a new one")]
    Revoked,
    /// There is no list that would say whether the peer's certificate was revoked.
    #[error("nobody says whether the peer's certificate was revoked; give a list of the authority that signed it")]
    UnknownRevocation,
    /// Too many handshakes were under way, and this one had been for longest.
    #[error("too many TLS handshakes were under way, and this one was the oldest; try again")]
    CrowdedOut,
    /// The peer's certificate is wrong in some other way.
    #[error("the peer's certificate can't be used: it is damaged, or signed in a way that is not accepted")]
    BadCertificate,
    /// The client has no certificate, and has to have one.
    #[error("the client gave no certificate, and this server wants one")]
    NoClientCertificate,
    /// The peer refused this side.
    #[error("the peer refused the TLS session: {0}")]
    Refused(&'static str),
    /// There is nothing that both sides can speak.
    #[error("both sides speak TLS, but share no version, cipher suite or protocol (`greenwave/1`)")]
    Incompatible,
    /// The peer breaks the rules of TLS, or what it sent was changed on the way.
    #[error("the peer broke the rules of TLS, or its bytes were changed on the way")]
    Garbled,
    /// This side can't go on, for want of random numbers, of the time, or of unused nonces.
    #[error("this side can't go on with the TLS session")]
    Failed,
}

impl TlsFault {
    /// Whether bytes that should begin a chunk begin a record of TLS: the first flight of a client, or an alert.
    pub(crate) fn is_record(prefix: [u8; 4]) -> bool {
        matches!(prefix, [21 | 22, 3, 0..=4, _])
    }
}
