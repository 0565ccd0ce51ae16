//! Who may call what: asked of each call before anything is spent on it.

mod allow_list;
mod bearer;
mod certificate;
#[cfg(feature = "jwt")]
mod jwt;
mod names;
mod rules;

use crate::status::{Reason, Status};
use greenwave_proto::Peer;
use greenwave_proto::wire::Meta;
use std::borrow::Cow;
use std::sync::Arc;

#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
pub(crate) use allow_list::whoever_asks as allow_list_of;
pub use allow_list::{AllowList, AllowListError};
pub use bearer::BearerTokens;
pub use certificate::{CertificateNames, NamePatternError};
#[cfg(feature = "jwt")]
pub use jwt::{Jwt, JwtError, JwtKey};
pub(crate) use rules::{Rules, UnknownScope};

/// Decides who may call what.
///
/// It is asked on the thread of the connection, for each call before its deadline is looked at, before it is admitted or queued
/// and before its handler runs. So it must not block, nor wait for a lock that a handler may hold, and it should be quick: a microsecond or so. A panic refuses
/// the call.
///
/// A function does, too:
/// ```
/// use greenwave_rpc::{AuthorizeRequest, Denied, Grant, Router};
///
/// let router = Router::new().method("a.A/Secret", |_, _, _| Ok(())).authorize(|call: &AuthorizeRequest<'_>| {
///     match call.peer().spiffe_id() {
///         Some("spiffe://shop.example/cart") => Ok(Grant::to_peer()),
///         _ => Err(Denied::not_allowed(call)),
///     }
/// });
/// ```
pub trait Authorize: Send + Sync {
    /// Whether this call may be made.
    ///
    /// # Errors
    /// [`Denied`]: what the caller lacks.
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied>;

    /// Whether it is asked for `greenwave.Meta` and for reflection too, where it stands for all methods. They tell of all methods
    /// and of the server's load, so whoever may call everything else may not call them by that alone; unless this says so they
    /// are refused to all.
    fn covers_meta(&self) -> bool {
        false
    }

    /// Looks whether the files that it goes by have changed, and reads them again if so. A thread that serves nobody asks for it
    /// about once a second, so it may block.
    fn refresh(&self) {}
}

impl<F: Fn(&AuthorizeRequest<'_>) -> Result<Grant, Denied> + Send + Sync> Authorize for F {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        self(call)
    }
}

/// A call that somebody wants to make.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizeRequest<'a> {
    peer: &'a Peer,
    method: &'a str,
    metadata: &'a [u8],
}

impl<'a> AuthorizeRequest<'a> {
    /// `metadata`: entries as they are on the wire.
    pub(crate) fn new(peer: &'a Peer, method: &'a str, metadata: &'a [u8]) -> Self {
        Self { peer, method, metadata }
    }

    /// Who calls, as far as the connection says.
    pub fn peer(&self) -> &'a Peer {
        self.peer
    }

    /// The method, `package.Service/Method`, by the name that it is called by.
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// What is said of the request.
    pub fn metadata(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        Meta::parse(self.metadata).into_iter().flatten()
    }

    /// The token in its metadata: `authorization: Bearer ..` (RFC 6750, 2.1).
    ///
    /// # Errors
    /// [`Denied::NoCredentials`] if there is none, [`Denied::InvalidCredentials`] if there are several or none of this kind.
    pub fn bearer(&self) -> Result<&'a [u8], Denied> {
        let mut said = self.metadata().filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let Some((_, value)) = said.next() else {
            return Err(Denied::no_credentials("metadata `authorization: Bearer <token>`"));
        };
        if said.next().is_some() {
            return Err(Denied::invalid("there are several `authorization`"));
        }
        match value.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty() => Ok(token),
            _ => Err(Denied::invalid("`authorization` is not `Bearer <token>`")),
        }
    }
}

/// Leave to make a call.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    subject: Option<Arc<str>>,
}

impl Grant {
    /// To whom the connection is of.
    pub const fn to_peer() -> Self {
        Self { subject: None }
    }

    /// To whom the call's credentials are of: [`Peer::subject`] says it in the handler.
    pub fn to_subject(subject: impl Into<Arc<str>>) -> Self {
        Self { subject: Some(subject.into()) }
    }

    /// Who calls, if the call's own credentials say it.
    pub(crate) fn peer(self, connection: &Peer) -> Option<Arc<Peer>> {
        Some(Arc::new(connection.with_subject(self.subject?)))
    }

    /// This one and another: the subject is the other's if that has one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if other.subject.is_some() { other } else { self }
    }
}

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The caller has not said who it is. `UNAUTHENTICATED`.
    #[error("the call has no credentials; this method wants {wanted}")]
    NoCredentials {
        /// What it should have.
        wanted: Cow<'static, str>,
    },
    /// What the caller has said of who it is doesn't hold. `UNAUTHENTICATED`.
    #[error("the credentials are not accepted: {why}")]
    InvalidCredentials {
        /// What is wrong with it.
        why: Cow<'static, str>,
    },
    /// It is known who the caller is, and it may not do this. `PERMISSION_DENIED`.
    #[error("{who} may not call {method}")]
    NotAllowed {
        /// Who calls.
        who: String,
        /// What.
        method: String,
    },
}

impl Denied {
    /// There are no credentials, and these should be there.
    pub fn no_credentials(wanted: impl Into<Cow<'static, str>>) -> Self {
        Self::NoCredentials { wanted: wanted.into() }
    }

    /// The credentials don't hold, for this reason. It is told to the caller: say nothing that helps to guess.
    pub fn invalid(why: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidCredentials { why: why.into() }
    }

    /// This peer may not make this call.
    pub fn not_allowed(call: &AuthorizeRequest<'_>) -> Self {
        Self::NotAllowed { who: call.peer().to_string(), method: call.method().to_owned() }
    }

    /// The reason that a refusal has on the wire.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoCredentials { .. } | Self::InvalidCredentials { .. } => Reason::Unauthenticated,
            Self::NotAllowed { .. } => Reason::PermissionDenied,
        }
    }
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Self::refused(denied.reason(), denied.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::push_meta;

    fn bearer(values: &[&str]) -> Result<String, Reason> {
        let mut metadata = Vec::new();
        values.iter().for_each(|value| push_meta(&mut metadata, "authorization", value.as_bytes()).unwrap());
        let call = AuthorizeRequest::new(&Peer::UNKNOWN, "a.A/One", &metadata);
        call.bearer().map(|token| String::from_utf8_lossy(token).into_owned()).map_err(|denied| denied.reason())
    }

    #[test]
    fn a_token_is_what_follows_the_scheme_and_there_is_one() {
        assert_eq!(bearer(&["Bearer abc"]), Ok("abc".to_owned()));
        assert_eq!(bearer(&["bearer abc"]), Ok("abc".to_owned()));
        for wrong in [&[][..], &["Basic abc"], &["Bearer "], &["Bearer"], &["abc"], &["Bearer a", "Bearer b"]] {
            assert_eq!(bearer(wrong), Err(Reason::Unauthenticated), "{wrong:?}");
        }
    }
}
