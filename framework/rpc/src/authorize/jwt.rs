//! Leave by tokens that somebody has signed (JWT, RFC 7519).

use super::{Authorize, AuthorizeRequest, Denied, Grant};
use greenwave_verbs::FileChanges;
use greenwave_verbs::tls::Pem;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Lets those call that send a token that is signed with a key, as `authorization: Bearer <token>`.
/// [`Peer::subject`](crate::Peer::subject) is its `sub`.
///
/// The key says by which algorithm a token must be signed; what the token's header says of it has to agree, so `none` is never
/// accepted, nor a public key taken for a secret. A token must have `sub`, `exp`, `iss` and `aud`: not be past, be of this issuer
/// and for this audience. If it has `nbf`, that must have come. Clocks may differ by 60 s. It has at most 8 KiB, as all metadata do.
///
/// Checking a signature takes as long as tens of calls, on the thread of the connection: about 1 us with a secret, 50 us and more
/// with public keys.
#[derive(Debug)]
pub struct Jwt {
    validation: Validation,
    algorithm: Algorithm,
    key: RwLock<Arc<DecodingKey>>,
    file: Option<KeyFile>,
}

/// Where a key is read again.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    /// With why it can't be used as it is now, if it can't.
    state: Mutex<(FileChanges, Option<String>)>,
}

/// How a key is read.
type Parse = fn(&[u8]) -> Result<DecodingKey, jsonwebtoken::errors::Error>;

/// What the signatures of tokens are checked with, and so how they must be made.
#[derive(Clone, Copy, Debug)]
pub enum JwtKey<'a> {
    /// A secret of 32 bytes or more, as it is: HS256.
    Secret(&'a [u8]),
    /// An RSA public key: RS256.
    Rsa(Pem<'a>),
    /// A public key on the curve P-256: ES256.
    P256(Pem<'a>),
    /// An Ed25519 public key: EdDSA.
    Ed25519(Pem<'a>),
}

/// Why tokens can't be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The key can't be read.
    #[error("can't read {place}: {reason}")]
    Read {
        /// Where it is.
        place: String,
        /// What the system said.
        reason: String,
    },
    /// It isn't such a key.
    #[error("the key in {place} can't be used: {reason}; give a public key in PEM, of the kind that was said")]
    Key {
        /// Where it is.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A secret that can be guessed.
    #[error("the secret has {found} bytes; use 32 random bytes or more")]
    Short {
        /// Its bytes.
        found: usize,
    },
    /// Nobody is named.
    #[error("`{0}` is empty; say whose tokens are accepted, and for whom they have to be")]
    Empty(&'static str),
}

/// What is read of a token.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    sub: String,
}

/// The longest subject that is kept.
const SUBJECT_BYTES: usize = 256;

impl Jwt {
    /// Tokens that `issuer` has signed for `audience`. A key in a file is read again when that changes; while it can't be, the old
    /// one holds.
    ///
    /// # Errors
    /// [`JwtError`]: the key can't be read or used, or no issuer or audience is named.
    pub fn new(key: JwtKey<'_>, issuer: &str, audience: &str) -> Result<Self, JwtError> {
        for (name, value) in [("iss", issuer), ("aud", audience)] {
            if value.is_empty() {
                return Err(JwtError::Empty(name));
            }
        }
        let algorithm = key.algorithm();
        let file = key
            .file()
            .map(|path| KeyFile { path: path.to_owned(), state: Mutex::new((FileChanges::of([path]), None)) });
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[audience]);
        validation.validate_nbf = true;
        Ok(Self { validation, algorithm, key: RwLock::new(Arc::new(key.read()?)), file })
    }

    fn check(&self, token: &[u8]) -> Result<Grant, Denied> {
        let key = Arc::clone(&self.key.read().unwrap_or_else(PoisonError::into_inner));
        let decoded = decode::<Claims>(token, &key, &self.validation).map_err(|error| match error.kind() {
            ErrorKind::ExpiredSignature => Denied::invalid("the token has expired"),
            ErrorKind::ImmatureSignature => Denied::invalid("the token is not valid yet"),
            ErrorKind::InvalidIssuer => Denied::invalid("the token is of another issuer"),
            ErrorKind::InvalidAudience => Denied::invalid("the token is for another audience"),
            ErrorKind::MissingRequiredClaim(claim) => Denied::invalid(format!("the token has no `{claim}`")),
            ErrorKind::InvalidAlgorithm => Denied::invalid("the token is signed by another algorithm"),
            _ => Denied::invalid("the token is not sound, or not signed with the key that is expected"),
        })?;
        match decoded.claims.sub {
            sub if sub.is_empty() || sub.len() > SUBJECT_BYTES => {
                Err(Denied::invalid("the token's `sub` is empty or too long"))
            }
            sub => Ok(Grant::to_subject(sub)),
        }
    }
}

impl Authorize for Jwt {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        self.check(call.bearer()?)
    }

    fn refresh(&self) {
        let Some(KeyFile { path, state }) = &self.file else { return };
        let (changes, fault) = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
        if !changes.look() {
            return;
        }
        match JwtKey::of(self.algorithm, Pem::File(path)).and_then(|key| key.read()) {
            Ok(key) => {
                *self.key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                *fault = None;
            }
            Err(error) => {
                let error = error.to_string();
                if fault.as_ref() != Some(&error) {
                    tracing::error!(%error, "the key of tokens can't be read again; the old one holds");
                    *fault = Some(error);
                }
            }
        }
    }
}

impl<'a> JwtKey<'a> {
    fn of(algorithm: Algorithm, pem: Pem<'a>) -> Result<Self, JwtError> {
        match algorithm {
            Algorithm::RS256 => Ok(Self::Rsa(pem)),
            Algorithm::ES256 => Ok(Self::P256(pem)),
            Algorithm::EdDSA => Ok(Self::Ed25519(pem)),
            _ => Err(JwtError::Key { place: pem.to_string(), reason: "a secret is in no file".to_owned() }),
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::HS256,
            Self::Rsa(_) => Algorithm::RS256,
            Self::P256(_) => Algorithm::ES256,
            Self::Ed25519(_) => Algorithm::EdDSA,
        }
    }

    fn file(&self) -> Option<&'a Path> {
        match *self {
            Self::Rsa(Pem::File(path)) | Self::P256(Pem::File(path)) | Self::Ed25519(Pem::File(path)) => Some(path),
            _ => None,
        }
    }

    fn read(&self) -> Result<DecodingKey, JwtError> {
        let (pem, parse): (_, Parse) = match *self {
            Self::Secret(secret) if secret.len() < 32 => return Err(JwtError::Short { found: secret.len() }),
            Self::Secret(secret) => return Ok(DecodingKey::from_secret(secret)),
            Self::Rsa(pem) => (pem, DecodingKey::from_rsa_pem),
            Self::P256(pem) => (pem, DecodingKey::from_ec_pem),
            Self::Ed25519(pem) => (pem, DecodingKey::from_ed_pem),
        };
        let place = pem.to_string();
        let text = match pem {
            Pem::Bytes(bytes) => bytes.to_vec(),
            Pem::File(path) => std::fs::read(path)
                .map_err(|error| JwtError::Read { place: place.clone(), reason: error.to_string() })?,
        };
        parse(&text).map_err(|error| JwtError::Key { place, reason: error.to_string() })
    }
}
