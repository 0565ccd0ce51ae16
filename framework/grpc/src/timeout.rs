//! `grpc-timeout`: how long the caller waits ("gRPC over HTTP/2", Requests).

use greenwave_policy::Budget;

/// Digits that it may have at most.
const DIGITS_MOST: usize = 8;

/// A timeout that isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotATimeout;

/// What a `grpc-timeout` leaves of the time: at most eight digits, and H, M, S, m, u or n. More than 292 years are no limit.
pub(crate) fn parse(value: &[u8]) -> Result<Budget, NotATimeout> {
    let (unit, digits) = value.split_last().ok_or(NotATimeout)?;
    let nanos: i64 = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return Err(NotATimeout),
    };
    Ok(Budget::from_nanos(count(digits, DIGITS_MOST)?.saturating_mul(nanos)))
}

/// What so many milliseconds leave, as Envoy states them in `x-envoy-expected-rq-timeout-ms`. None are no limit there.
pub(crate) fn parse_millis(value: &[u8]) -> Result<Budget, NotATimeout> {
    match count(value, 15)? {
        0 => Ok(Budget::UNLIMITED),
        millis => Ok(Budget::from_nanos(millis.saturating_mul(1_000_000))),
    }
}

fn count(digits: &[u8], most: usize) -> Result<i64, NotATimeout> {
    if !(1..=most).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NotATimeout);
    }
    Ok(digits.iter().fold(0, |count, digit| count * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_is_what_the_specification_says() {
        for (text, nanos) in [
            ("0n", 0),
            ("7n", 7),
            ("7u", 7_000),
            ("7m", 7_000_000),
            ("7S", 7_000_000_000),
            ("7M", 420_000_000_000),
            ("7H", 25_200_000_000_000),
            ("99999999n", 99_999_999),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Budget::from_nanos(nanos)), "{text}");
        }
        assert_eq!(parse(b"99999999H"), Ok(Budget::UNLIMITED));
        assert_eq!(parse_millis(b"15000"), Ok(Budget::from_nanos(15_000_000_000)));
        assert_eq!(parse_millis(b"0"), Ok(Budget::UNLIMITED));
    }

    #[test]
    fn anything_else_is_none() {
        for text in ["", "S", "5", "5s", "-5S", "+5S", " 5S", "5 S", "1.5S", "123456789n", "5SS"] {
            assert_eq!(parse(text.as_bytes()), Err(NotATimeout), "{text}");
        }
        assert_eq!(parse_millis(b"1234567890123456"), Err(NotATimeout));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(value in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = (parse(&value), parse_millis(&value));
        }
    }
}
