//! A call's metadata: pairs of a name and a value, for what travels with a request and is not its message (who asks,
//! which trace it belongs to).
//!
//! An entry is `name_len: u8`, the name, `value_len: u16`, the value. Names are ASCII, 1 to 255 bytes; values are any
//! bytes. A name may occur more than once; order is kept.

use super::META_BYTES_MOST;

/// A call's metadata as they arrived: an iterator over their entries.
///
/// Metadata that don't parse fail the call that they came with, not the connection: what is around them is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a>(&'a [u8]);

/// Why metadata are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// An entry goes on after the end.
    #[error("the metadata end within an entry, at byte {at}")]
    Short {
        /// Where the entry begins.
        at: usize,
    },
    /// A name is empty, or not ASCII, or longer than 255 bytes.
    #[error("the name of the entry at byte {at} of the metadata is not 1 to 255 ASCII characters")]
    Name {
        /// Where the entry begins.
        at: usize,
    },
    /// The metadata would be longer than a call may have.
    #[error("the metadata would have {found} bytes, expected at most {META_BYTES_MOST}: send it in the message")]
    TooLong {
        /// Bytes they would have.
        found: usize,
    },
}

impl<'a> Meta<'a> {
    /// The metadata in these bytes, if all of them are entries.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MetaError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let (name, _, after) = split_entry(rest).ok_or(MetaError::Short { at })?;
            check_name(name, at)?;
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// The first value of this name.
    pub fn value(&self, name: &str) -> Option<&'a [u8]> {
        self.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for Meta<'a> {
    type Item = (&'a str, &'a [u8]);
    type IntoIter = MetaEntries<'a>;

    fn into_iter(self) -> MetaEntries<'a> {
        MetaEntries(self.0)
    }
}

/// The entries of a call's metadata, in the order they were written.
#[derive(Clone, Debug)]
pub struct MetaEntries<'a>(&'a [u8]);

impl<'a> Iterator for MetaEntries<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value, rest) = split_entry(self.0)?;
        self.0 = rest;
        // Checked when the metadata were parsed; an iterator made of anything else ends here.
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// The entries of metadata that were parsed before, with their names as bytes: to look for some of them costs less so.
pub(crate) fn raw_entries(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name, value, after) = split_entry(rest)?;
        rest = after;
        Some((name, value))
    })
}

/// Adds an entry to metadata that are being written. Whatever is refused, `into` is as before.
pub fn push_meta(into: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), MetaError> {
    check_name(name.as_bytes(), into.len())?;
    let found = into.len() + 1 + name.len() + 2 + value.len();
    let too_long = MetaError::TooLong { found };
    let value_len = u16::try_from(value.len()).map_err(|_| too_long)?;
    if found > META_BYTES_MOST {
        return Err(too_long);
    }
    let name_len = u8::try_from(name.len()).map_err(|_| MetaError::Name { at: into.len() })?;
    into.push(name_len);
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(&value_len.to_le_bytes());
    into.extend_from_slice(value);
    Ok(())
}

/// Of these entries those that fit into `most` bytes, in their order; none if they are not entries.
pub(crate) fn fitting(entries: &[u8], most: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    for (name, value) in Meta::parse(entries).into_iter().flatten() {
        if kept.len() + 1 + name.len() + 2 + value.len() <= most {
            // What is too long beside the others is left out like what doesn't fit.
            let _ = push_meta(&mut kept, name, value);
        }
    }
    kept
}

fn check_name(name: &[u8], at: usize) -> Result<(), MetaError> {
    let sound = (1..=255).contains(&name.len()) && name.is_ascii();
    sound.then_some(()).ok_or(MetaError::Name { at })
}

/// The first entry's name and value, and what follows them.
fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name_len, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(name_len))?;
    let (&value_len, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(value_len)))?;
    Some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn metadata_come_back_as_they_were_written(entries in vec(("[a-z-]{1,20}", vec(any::<u8>(), 0..40)), 0..20)) {
            let mut bytes = Vec::new();
            for (name, value) in &entries {
                push_meta(&mut bytes, name, value).unwrap();
            }
            let read: Vec<_> = Meta::parse(&bytes).unwrap().into_iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
            prop_assert_eq!(read, entries);
        }

        #[test]
        fn what_parses_is_written_the_same(bytes in vec(0_u8..5, 0..60)) {
            if let Ok(meta) = Meta::parse(&bytes) {
                let mut again = Vec::new();
                for (name, value) in meta {
                    push_meta(&mut again, name, value).unwrap();
                }
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn an_entry_beyond_the_end_is_refused() {
        assert_eq!(Meta::parse(&[1, b'a', 0, 0, 3, b'a']), Err(MetaError::Short { at: 4 }));
        assert_eq!(Meta::parse(&[1, b'a', 9, 0, 1]), Err(MetaError::Short { at: 0 }));
        assert_eq!(Meta::parse(&[0, 0, 0]), Err(MetaError::Name { at: 0 }));
    }

    #[test]
    fn what_is_too_long_leaves_the_metadata_as_they_were() {
        let mut bytes = Vec::new();
        push_meta(&mut bytes, "a", &[0; 8000]).unwrap();
        let before = bytes.clone();
        assert_eq!(push_meta(&mut bytes, "b", &[0; 200]), Err(MetaError::TooLong { found: 8208 }));
        assert!(push_meta(&mut bytes, "b", &[0; 70_000]).is_err());
        assert_eq!(bytes, before);
    }
}
