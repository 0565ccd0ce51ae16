//! Header compression (RFC 7541).

/// A header that is sent often, known to one [`Connection`](crate::Connection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known(pub(crate) u16);
