//! Stand-ins for a crate without the feature `tls`: types without values.

use std::convert::Infallible;

use super::{Heard, Identity, Opened, Pem, TlsError, TlsFault};
use crate::{Address, VerbsError};

/// How a listener secures its connections. Can't be made without the cargo feature `tls`.
#[derive(Clone, Debug)]
pub struct TlsServer(Infallible);

/// How a connection to a server is secured. Can't be made without the cargo feature `tls`.
#[derive(Clone, Debug)]
pub struct TlsClient(Infallible);

impl TlsServer {
    /// There is no TLS here.
    ///
    /// # Errors
    /// [`TlsError::Absent`].
    pub fn new(_: Identity<'_>, _: Option<Pem<'_>>) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    /// There is none to offer anything with.
    #[must_use]
    pub fn offering(&self, _: &[u8]) -> Self {
        match self.0 {}
    }

    pub(crate) fn accept(&self) -> Result<Box<Session>, VerbsError> {
        match self.0 {}
    }
}

impl TlsClient {
    /// There is no TLS here.
    ///
    /// # Errors
    /// [`TlsError::Absent`].
    pub fn new(_: Pem<'_>, _: Option<Identity<'_>>, _: Option<&str>) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    /// There is none to be for a name.
    ///
    /// # Errors
    /// Always.
    pub fn for_name(&self, _: &str) -> Result<Self, TlsError> {
        match self.0 {}
    }

    pub(crate) fn connect(&self, _: &Address) -> Result<Box<Session>, VerbsError> {
        match self.0 {}
    }
}

/// A session that never is.
#[derive(Debug)]
pub(crate) struct Session(Infallible);

impl Session {
    pub(crate) fn is_client(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn has_output(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn has_said_goodbye(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn receive(&mut self, _: &mut [u8], _: &mut dyn FnMut(Opened<'_>)) -> Result<Heard, TlsFault> {
        match self.0 {}
    }

    pub(crate) fn seal(&mut self, _: &[u8], _: bool, _: &mut Vec<u8>) -> Result<(), TlsFault> {
        match self.0 {}
    }
}
