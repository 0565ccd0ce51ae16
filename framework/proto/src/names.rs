//! What frames refer to: calls, methods, stages and moments.

use std::collections::HashMap;
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::{PoisonError, RwLock};

/// Most bytes of a stage's name: enough for `service/zone-7`, and 64 of them with their numbers fit in 8 KiB.
pub const STAGE_NAME_MOST: usize = 64;

/// The number of a call, chosen by the caller: its low 16 bits are a *slot* below the number of calls that the callee
/// accepts at once, its high 16 bits a generation of the slot. Never zero, which stands for no call.
///
/// A slot is taken from the CALL to the REPLY, so both peers find a call by indexing an array; the generation tells
/// a late frame of an earlier call in the slot from one of this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(NonZeroU32);

impl CallId {
    /// The call with this number, `None` for zero.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The call of this generation in this slot.
    pub const fn in_slot(slot: u16, generation: NonZeroU16) -> Self {
        let number = (generation.get() as u32) << 16 | slot as u32;
        Self(NonZeroU32::new(number).expect("a generation is not zero"))
    }

    /// The number as it is written.
    pub const fn as_u32(self) -> u32 {
        self.0.get()
    }

    /// The slot.
    pub const fn slot(self) -> u16 {
        self.0.get() as u16
    }

    /// The generation of the slot.
    pub const fn generation(self) -> u16 {
        (self.0.get() >> 16) as u16
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which method a call is for: the FNV-1a hash (64 bits) of its full name.
///
/// A hash keeps the fixed part of a CALL fixed, and needs no table that both peers would have to agree on. Two
/// methods of one server that collide are refused when the server is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId(u64);

impl MethodId {
    /// The method of this full name, `package.Service/Method`.
    pub const fn of(full_name: &str) -> Self {
        let bytes = full_name.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        Self(hash)
    }

    /// The method with this hash.
    pub const fn from_u64(hash: u64) -> Self {
        Self(hash)
    }

    /// The hash as it is written.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A method to call: its number, which Greenwave's own protocol sends, and its full name, which gRPC needs.
///
/// Whoever calls Greenwave's servers alone may leave the name out: a [`MethodId`] is a method too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method {
    id: MethodId,
    name: Option<&'static str>,
}

impl Method {
    /// The method of this full name, `package.Service/Method`.
    pub const fn named(full_name: &'static str) -> Self {
        Self { id: MethodId::of(full_name), name: Some(full_name) }
    }

    /// Its number.
    #[inline]
    pub const fn id(self) -> MethodId {
        self.id
    }

    /// Its full name, if it was said.
    #[inline]
    pub const fn name(self) -> Option<&'static str> {
        self.name
    }
}

impl From<MethodId> for Method {
    #[inline]
    fn from(id: MethodId) -> Self {
        Self { id, name: None }
    }
}

impl From<&'static str> for Method {
    fn from(full_name: &'static str) -> Self {
        Self::named(full_name)
    }
}

/// The names of methods that are called, by their numbers. As many as the program has such names.
#[derive(Debug, Default)]
pub struct MethodNames(RwLock<HashMap<MethodId, &'static str>>);

impl MethodNames {
    /// Keeps a method's name, if it has one.
    pub fn learn(&self, method: Method) {
        let Some(name) = method.name else { return };
        let is_known = self.name(method.id).is_some();
        if !is_known {
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(method.id, name);
        }
    }

    /// The name of the method with this number, if it was [learned](Self::learn).
    pub fn name(&self, id: MethodId) -> Option<&'static str> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied()
    }
}

/// A moment on the realtime clock, in nanoseconds since 1970 (UTC). Good until 2554.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realtime(u64);

impl Realtime {
    /// The moment this many nanoseconds after 1970 began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970 began.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// The name of a stage, as it appears in receipts and in HELLO: UTF-8, at most [`STAGE_NAME_MOST`] bytes, no
/// control characters (names end up in terminals and pages). Kept in place, so that receipts need no allocation
/// per stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StageName {
    len: u8,
    bytes: [u8; STAGE_NAME_MOST],
}

/// Why bytes are not the name of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than a stage's name may be.
    #[error("the stage name has {len} bytes, expected at most {STAGE_NAME_MOST}: choose a shorter one")]
    TooLong {
        /// Bytes in the name.
        len: usize,
    },
    /// Not UTF-8.
    #[error("the stage name is not UTF-8 from byte {valid} on")]
    NotUtf8 {
        /// How many bytes before it are.
        valid: usize,
    },
    /// A control character, such as a line feed or an escape.
    #[error("the stage name has a control character at byte {at}: leave it out")]
    Control {
        /// Where it stands.
        at: usize,
    },
}

impl StageName {
    /// The name of a stage that did not state one.
    pub const UNNAMED: Self = Self { len: 0, bytes: [0; STAGE_NAME_MOST] };

    /// A stage's name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let Some(len) = u8::try_from(name.len()).ok().filter(|_| name.len() <= STAGE_NAME_MOST) else {
            return Err(NameError::TooLong { len: name.len() });
        };
        if let Some(at) = control_character(name) {
            return Err(NameError::Control { at });
        }
        let mut bytes = [0; STAGE_NAME_MOST];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { len, bytes })
    }

    /// The name in these bytes of a frame or a receipt.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        let name = std::str::from_utf8(bytes).map_err(|error| NameError::NotUtf8 { valid: error.valid_up_to() })?;
        Self::new(name)
    }

    /// The name as text; empty for [`StageName::UNNAMED`].
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("made from a str")
    }

    /// The name as it is written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Where the first control character stands.
fn control_character(name: &str) -> Option<usize> {
    if name.is_ascii() {
        // Receipts bring many names, and nearly all are ASCII.
        return name.bytes().position(|letter| letter.is_ascii_control());
    }
    name.char_indices().find(|(_, letter)| letter.is_control()).map(|(at, _)| at)
}

impl std::str::FromStr for StageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.len == 0 { "(unnamed)" } else { self.as_str() })
    }
}

impl fmt::Debug for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_methods_number_is_fnv_1a_of_its_name() {
        assert_eq!(MethodId::of("").as_u64(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(MethodId::of("a").as_u64(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(MethodId::of("foobar").as_u64(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_calls_number_is_its_slot_and_its_generation() {
        let call = CallId::in_slot(0xffff, NonZeroU16::MIN);
        assert_eq!(call.as_u32(), 0x0001_ffff);
        assert_eq!((call.slot(), call.generation()), (0xffff, 1));
        assert_eq!(CallId::new(call.as_u32()), Some(call));
        assert_eq!(CallId::new(0), None);
    }

    #[test]
    fn a_stage_name_is_refused_for_its_length_its_encoding_and_its_control_characters() {
        assert_eq!(StageName::new(&"x".repeat(64)).unwrap().as_str().len(), 64);
        assert_eq!(StageName::new(&"x".repeat(65)), Err(NameError::TooLong { len: 65 }));
        assert_eq!(StageName::new(&"x".repeat(300)), Err(NameError::TooLong { len: 300 }));
        assert_eq!(StageName::from_bytes(b"ab\xff"), Err(NameError::NotUtf8 { valid: 2 }));
        assert_eq!(StageName::new("a\x1b[2J"), Err(NameError::Control { at: 1 }));
        assert_eq!(StageName::new("é\u{85}"), Err(NameError::Control { at: 2 }));
        assert_eq!(StageName::UNNAMED.to_string(), "(unnamed)");
    }
}
