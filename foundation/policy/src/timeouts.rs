//! Timeouts as gRPC, Connect and Envoy write them.
//!
//! `grpc-timeout` has at most eight digits and a unit ("gRPC over HTTP/2", Requests). Envoy states its own timeout in
//! `x-envoy-expected-rq-timeout-ms`; `connect-timeout-ms` has at most ten digits ("Connect protocol", Unary-Request).

use std::time::Duration;

/// A timeout that isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATimeout;

/// Digits of a `grpc-timeout` at most.
const DIGITS_MOST: usize = 8;

/// What a `grpc-timeout` says: digits, and H, M, S, m, u or n.
///
/// # Errors
/// When it is anything else.
pub fn grpc_timeout(value: &[u8]) -> Result<Duration, NotATimeout> {
    let (unit, digits) = value.split_last().ok_or(NotATimeout)?;
    let number = number(digits, DIGITS_MOST)?;
    match unit {
        b'H' => Ok(Duration::from_secs(number * 3600)),
        b'M' => Ok(Duration::from_secs(number * 60)),
        b'S' => Ok(Duration::from_secs(number)),
        b'm' => Ok(Duration::from_millis(number)),
        b'u' => Ok(Duration::from_micros(number)),
        b'n' => Ok(Duration::from_nanos(number)),
        _ => Err(NotATimeout),
    }
}

/// What Envoy's header says, in milliseconds; `None`: 0 is its word for no timeout.
///
/// # Errors
/// When it is no number of up to fifteen digits.
pub fn envoy_timeout(value: &[u8]) -> Result<Option<Duration>, NotATimeout> {
    let millis = number(value, 15)?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

/// What a `connect-timeout-ms` says, in milliseconds.
///
/// # Errors
/// When it is no number of up to ten digits.
pub fn connect_timeout(value: &[u8]) -> Result<Duration, NotATimeout> {
    number(value, 10).map(Duration::from_millis)
}

fn number(digits: &[u8], most: usize) -> Result<u64, NotATimeout> {
    if !(1..=most).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NotATimeout);
    }
    Ok(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_is_what_the_specification_says() {
        for (text, expected) in [
            ("0n", Duration::ZERO),
            ("7n", Duration::from_nanos(7)),
            ("7u", Duration::from_micros(7)),
            ("7m", Duration::from_millis(7)),
            ("7S", Duration::from_secs(7)),
            ("7M", Duration::from_secs(420)),
            ("7H", Duration::from_secs(25_200)),
            ("99999999H", Duration::from_secs(359_999_996_400)),
        ] {
            assert_eq!(grpc_timeout(text.as_bytes()), Ok(expected), "{text}");
        }
        assert_eq!(envoy_timeout(b"15000"), Ok(Some(Duration::from_secs(15))));
        assert_eq!(envoy_timeout(b"0"), Ok(None));
        assert_eq!(envoy_timeout(b"1234567890123456"), Err(NotATimeout));
        assert_eq!(connect_timeout(b"1500"), Ok(Duration::from_millis(1500)));
        assert_eq!(connect_timeout(b"0"), Ok(Duration::ZERO));
        assert!([&b""[..], b"1s", b"-1", b"12345678901"].iter().all(|wrong| connect_timeout(wrong).is_err()));
    }

    proptest! {
        #[test]
        fn whatever_bytes_come_are_read_as_the_grammar_has_it(value in "[0-9HMSmunx +.-]{0,11}") {
            let (digits, unit) = value.split_at(value.len().saturating_sub(1));
            let is_one = (1..=8).contains(&digits.len())
                && digits.bytes().all(|digit| digit.is_ascii_digit())
                && ["H", "M", "S", "m", "u", "n"].contains(&unit);
            prop_assert_eq!(grpc_timeout(value.as_bytes()).is_ok(), is_one);
        }

        #[test]
        fn no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = (grpc_timeout(&value), envoy_timeout(&value), connect_timeout(&value));
        }
    }
}
