//! What ends an answer of gRPC-Web, and values that stand in headers and trailers.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use greenwave_proto::receipt::{Receipt, decode_stages};
use greenwave_proto::status::{Code, Status};
use std::time::Duration;

/// Values of names that end in `-bin`: servers pad them or don't.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Trailers as gRPC-Web has them in a frame: lines of names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers(Vec<(String, Vec<u8>)>);

impl Trailers {
    /// Reads them. What is no line with a name and a value is left out.
    pub fn parse(bytes: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..at]).ok()?.trim().to_ascii_lowercase();
            (!name.is_empty()).then(|| (name, line[at + 1..].trim_ascii().to_vec()))
        };
        Self(bytes.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// The same of headers, for an answer that has nothing else.
    pub fn of_headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect())
    }

    /// Names in lower case, and values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The first value of this name.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.entries().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// How the call ended; `None` if they don't say.
    pub fn status(&self) -> Option<Result<(), Status>> {
        let number = self.value("grpc-status")?;
        let message = self.value("grpc-message").map(unescaped).unwrap_or_default();
        let code = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).and_then(Code::from_u8);
        Some(match code {
            Some(Code::Ok) => Ok(()),
            Some(code) => Err(Status::new(code, message).by_handler()),
            None => {
                let number = String::from_utf8_lossy(number);
                Err(Status::new(Code::Unknown, format!("gRPC knows no status {number}: {message}")).by_handler())
            }
        })
    }
}

/// The bytes of a value whose name ends in `-bin`; `None` if it is no Base64.
pub fn binary(value: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(value.trim_ascii()).ok()
}

/// What `greenwave-receipt-bin` says: three little-endian numbers of 8 bytes, the nanoseconds queued, served and in all, and the
/// stages behind (docs/grpc.md). `None` if it is nothing of the kind.
pub fn receipt(value: &[u8]) -> Option<Receipt> {
    let bytes = binary(value)?;
    let (own, stages) = bytes.split_at_checked(24)?;
    let (numbers, _) = own.as_chunks::<8>();
    let time = |at: usize| Duration::from_nanos(u64::from_le_bytes(numbers[at]));
    let (children, omitted) = decode_stages(stages).unwrap_or_default();
    Some(Receipt { queue: time(0), service: time(1), total: time(2), children, omitted })
}

/// Percent-encoded text; what isn't stays as it is.
pub fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.get(..2).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.filter(|digits| !digits.starts_with('+')).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_unescaped_and_what_is_no_escape_stays() {
        for (text, expected) in [
            ("no user %227%22: 100 %25%0A%C3%BCnknown", "no user \"7\": 100 %\nünknown"),
            ("100% of %zz, %+1 and %4", "100% of %zz, %+1 and %4"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), expected);
        }
    }

    #[test]
    fn trailers_say_how_the_call_ended() {
        let failed = Trailers::parse(b"grpc-status: 5\r\nGrpc-Message:no%20row\r\nx-cost: 7\r\nnonsense\r\n: 1\r\n");
        let status = failed.status().unwrap().unwrap_err();
        assert_eq!((status.code, &*status.message), (Code::NotFound, "no row"));
        assert_eq!((failed.value("x-cost"), failed.entries().count()), (Some(&b"7"[..]), 3));
        assert_eq!(Trailers::parse(b"grpc-status:0").status(), Some(Ok(())));
        assert_eq!(Trailers::parse(b"x: 0\r\n").status(), None);
        for unknown in ["grpc-status: 17", "grpc-status: -1", "grpc-status: soon"] {
            assert_eq!(Trailers::parse(unknown.as_bytes()).status().unwrap().unwrap_err().code, Code::Unknown);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(unescaped(&text).chars().count() <= text.len());
            let _ = receipt(&text);
            let _ = Trailers::parse(&text).status();
        }
    }
}
