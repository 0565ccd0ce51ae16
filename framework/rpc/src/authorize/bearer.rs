//! Leave for those that know a secret.

use super::{Authorize, AuthorizeRequest, Denied, Grant};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Lets those call that send one of some secrets, as `authorization: Bearer <token>`. [`Peer::subject`](crate::Peer::subject) says
/// whose it was.
///
/// What is kept and compared is the tokens' SHA-256, all of them in constant time: how long it takes says nothing of how much of a
/// guess is right. A token should be 32 random bytes or more, in base64 or hexadecimal; over connections without TLS anybody on the
/// way reads it.
#[derive(Clone, Debug, Default)]
pub struct BearerTokens {
    tokens: Vec<(TokenHash, Arc<str>)>,
    covers_meta: bool,
}

/// The SHA-256 of a token.
#[derive(Clone, Copy)]
pub(super) struct TokenHash([u8; 32]);

impl BearerTokens {
    /// No token at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// This token too, which is of this subject.
    #[must_use]
    pub fn token(mut self, subject: &str, token: impl AsRef<[u8]>) -> Self {
        self.tokens.push((TokenHash::of(token.as_ref()), subject.into()));
        self
    }

    /// Whether their owners may ask the server about itself, too; see [`Authorize::covers_meta`]. As a rule they may not.
    #[must_use]
    pub fn covering_meta(self, covers_meta: bool) -> Self {
        Self { covers_meta, ..self }
    }
}

impl Authorize for BearerTokens {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        let hash = TokenHash::of(call.bearer()?);
        let subject = hash.find(self.tokens.iter().map(|(own, subject)| (own, subject)));
        subject.map(|subject| Grant::to_subject(Arc::clone(subject))).ok_or_else(unknown)
    }

    fn covers_meta(&self) -> bool {
        self.covers_meta
    }
}

/// Nobody has this token.
pub(super) fn unknown() -> Denied {
    Denied::invalid("the token is of nobody here")
}

impl TokenHash {
    pub(super) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// What belongs to the token with this hash. It takes as long for one that is there as for one that isn't.
    pub(super) fn find<'a, T>(&self, all: impl Iterator<Item = (&'a Self, T)>) -> Option<T> {
        all.fold(None, |found, (own, it)| if bool::from(own.0.ct_eq(&self.0)) { Some(it) } else { found })
    }

    /// A hash in hexadecimal, 64 digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes().as_chunks::<2>();
        let (pairs, []) = digits else { return None };
        let mut hash = [0; 32];
        (pairs.len() == hash.len()).then_some(())?;
        for (byte, pair) in hash.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        pairs.iter().flatten().all(u8::is_ascii_hexdigit).then_some(Self(hash))
    }
}

/// Nobody needs to see it.
impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_in_hexadecimal() {
        // `printf secret | sha256sum`
        let said = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let read = TokenHash::from_hex(said).unwrap();
        assert_eq!(read.0, TokenHash::of(b"secret").0);
        assert_eq!(TokenHash::of(b"secret").find([(&read, "ada")].into_iter()), Some("ada"));
        assert_eq!(TokenHash::of(b"Secret").find([(&read, "ada")].into_iter()), None);
        for wrong in ["", "2b", &said[1..], &format!("{said}00"), &said.replace("2b", "+b"), &said.replace('2', "ä")] {
            assert!(TokenHash::from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
