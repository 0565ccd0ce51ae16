//! What is said beside messages.

use greenwave_proto::wire::{Meta, MetaError, push_meta};
use std::sync::Arc;

/// What is said beside messages: names with values, in the order in which they were said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(pub(crate) Option<Arc<[u8]>>);

impl Metadata {
    /// Nothing.
    pub const fn new() -> Self {
        Self(None)
    }

    /// The same, with something more.
    ///
    /// # Errors
    /// When the name is not 1 to 255 ASCII characters, or all that is said has more than 8192 bytes.
    pub fn with(self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, MetaError> {
        let mut entries = self.0.as_deref().unwrap_or_default().to_vec();
        push_meta(&mut entries, name, value.as_ref())?;
        Ok(Self(Some(entries.into())))
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        Meta::parse(self.0.as_deref().unwrap_or_default()).into_iter().flatten()
    }

    /// The first value of this name.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}
