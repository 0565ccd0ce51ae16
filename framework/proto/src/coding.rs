//! What has to be done to a call's bytes beside serving it.

use crate::compression::{Encoding, Encodings};
use std::fmt;

/// The work that a call's bytes need: a request's before its handler reads them, a reply's before they go out.
///
/// An end of a connection only notes it. It is done where the handler runs, in the call's own time and at its place in the
/// order, so that what is long to decode holds up no other call.
///
/// All of it is a byte, so that to see that there is nothing to do is one comparison.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Coding(u8);

/// The messages are JSON.
const JSON: u8 = 1;
const SAFE: u8 = 2;
/// Where the bits of what the request is compressed with begin, and those of what the answer may be.
const REQUEST: u8 = 4;
const ANSWER: u8 = 6;

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As handlers take it: protobuf, or whatever else the bytes are.
    #[default]
    Proto,
    /// As protobuf's JSON.
    Json,
}

impl Coding {
    /// Nothing has to be done.
    pub const PLAIN: Self = Self(0);

    /// Messages that are written so, both ways. `safe`: the call came by a way that is for methods without side effects alone, as
    /// HTTP's GET is; others are refused.
    #[must_use]
    pub const fn of(format: Format, safe: bool) -> Self {
        let format = match format {
            Format::Proto => 0,
            Format::Json => JSON,
        };
        Self(if safe { format | SAFE } else { format })
    }

    /// The same where the request is compressed so.
    #[inline]
    #[must_use]
    pub fn with_request(self, encoding: Option<Encoding>) -> Self {
        let encoding = encoding.map_or(Encodings::NONE, Encodings::from);
        Self(self.0 & !(Encodings::ALL << REQUEST) | encoding.bits() << REQUEST)
    }

    /// The same where the answer may be compressed with these.
    #[inline]
    #[must_use]
    pub const fn with_answer(self, encodings: Encodings) -> Self {
        Self(self.0 & !(Encodings::ALL << ANSWER) | encodings.bits() << ANSWER)
    }

    /// Whether nothing has to be done.
    #[inline]
    #[must_use]
    pub const fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// How the messages are written, both ways.
    #[must_use]
    pub const fn format(self) -> Format {
        if self.0 & JSON == 0 { Format::Proto } else { Format::Json }
    }

    /// Whether the call came by a way that is for methods without side effects alone.
    #[must_use]
    pub const fn is_safe(self) -> bool {
        self.0 & SAFE != 0
    }

    /// How the request is compressed, if it is.
    #[must_use]
    pub fn request(self) -> Option<Encoding> {
        Encodings::of_bits(self.0 >> REQUEST).preferred()
    }

    /// What the answer may be compressed with.
    #[must_use]
    pub const fn answer(self) -> Encodings {
        Encodings::of_bits(self.0 >> ANSWER)
    }
}

impl fmt::Debug for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coding")
            .field("format", &self.format())
            .field("safe", &self.is_safe())
            .field("request", &self.request())
            .field("answer", &self.answer())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_it_is_there_whatever_the_others_are() {
        let requests = [None, Some(Encoding::Gzip), Some(Encoding::Zstd)];
        let answers =
            [Encodings::NONE, Encoding::Gzip.into(), Encoding::Zstd.into(), Encodings::of_bits(Encodings::ALL)];
        for (format, safe) in
            [(Format::Proto, false), (Format::Proto, true), (Format::Json, false), (Format::Json, true)]
        {
            for request in requests {
                for answer in answers {
                    let coding = Coding::of(format, safe).with_answer(answers[3]).with_request(requests[2]);
                    let coding = coding.with_request(request).with_answer(answer);
                    assert_eq!((coding.format(), coding.is_safe()), (format, safe));
                    assert_eq!((coding.request(), coding.answer()), (request, answer));
                    let is_plain = format == Format::Proto && !safe && request.is_none() && answer.is_empty();
                    assert_eq!((coding.is_plain(), coding == Coding::PLAIN), (is_plain, is_plain));
                }
            }
        }
    }
}
