//! Built without JSON.

use crate::status::{Code, Status};
use std::convert::Infallible;

/// The types of no methods.
#[derive(Clone, Default)]
pub(crate) struct Types;

/// What is known of one method's messages.
pub(crate) struct Method(Infallible);

impl Types {
    pub(crate) fn on_stacks(self, _: usize) -> Self {
        self
    }

    pub(crate) fn method(&self, _: &[&'static [u8]], _: &str) -> Result<Method, Status> {
        let text =
            "this server reads no JSON; build it with the feature `json`, or call it with application/proto by POST";
        Err(Status::new(Code::Unimplemented, text))
    }
}

impl Method {
    pub(crate) fn is_safe(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn request(&self, _: &[u8]) -> Result<Vec<u8>, Status> {
        match self.0 {}
    }

    pub(crate) fn reply(&self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        match self.0 {}
    }
}
