//! The headers that say how long an answer is waited for: read from requests that come in, written into those that go out.
//! Envoy's is worth something only if nobody but Envoy can write it.

use greenwave_policy::timeouts;
pub(crate) use greenwave_policy::timeouts::NotATimeout as Malformed;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
pub(crate) const ENVOY_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// What `grpc-timeout` says, the least if it is said more than once.
///
/// # Errors
/// If one of the values is malformed.
pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Result<Option<Duration>, Malformed> {
    let mut least: Option<Duration> = None;
    for value in headers.get_all(GRPC_TIMEOUT) {
        let timeout = timeouts::grpc_timeout(value.as_bytes())?;
        least = Some(least.map_or(timeout, |least| least.min(timeout)));
    }
    Ok(least)
}

/// What Envoy says. 0 is its word for no timeout; what isn't a number says nothing.
pub(crate) fn envoy_timeout(headers: &HeaderMap) -> Option<Duration> {
    timeouts::envoy_timeout(headers.get(ENVOY_TIMEOUT)?.as_bytes()).ok().flatten()
}

/// A value of `grpc-timeout` that is `left`, in the finest unit in which it has at most eight digits, rounded down: who is
/// called never has more time than who calls.
pub(crate) fn written(left: Duration) -> HeaderValue {
    const UNITS: [(u128, char); 6] = [
        (1, 'n'),
        (1_000, 'u'),
        (1_000_000, 'm'),
        (1_000_000_000, 'S'),
        (60_000_000_000, 'M'),
        (3_600_000_000_000, 'H'),
    ];
    let nanos = left.as_nanos();
    let fits = UNITS.into_iter().find(|(unit, _)| nanos / unit <= MOST);
    let text = fits.map_or_else(|| format!("{MOST}H"), |(unit, letter)| format!("{}{letter}", nanos / unit));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0n"))
}

/// Eight digits.
const MOST: u128 = 99_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again_whatever_it_is(nanos: u64) {
            let left = Duration::from_nanos(nanos);
            let read = timeouts::grpc_timeout(written(left).as_bytes()).expect("it is well formed");
            prop_assert!(read <= left && left - read <= left / 10_000);
        }
    }

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn at_most_eight_digits_and_a_unit_are_a_timeout() {
        let read = |value| grpc_timeout(&headers(&GRPC_TIMEOUT, &[value]));
        assert_eq!(read("1H"), Ok(Some(Duration::from_secs(3600))));
        assert_eq!(read("2M"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(read("99999999S"), Ok(Some(Duration::from_secs(99_999_999))));
        assert_eq!(read("07m"), Ok(Some(Duration::from_millis(7))));
        assert_eq!(read("8u"), Ok(Some(Duration::from_micros(8))));
        assert_eq!(read("0n"), Ok(Some(Duration::ZERO)));
        for bad in ["", "n", "5", "5s", "5 m", " 5m", "+5m", "-5m", "1.5S", "100000000n", "5mm", "0x1S"] {
            assert_eq!(read(bad), Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn the_least_of_several_counts_and_one_bad_one_spoils_them() {
        assert_eq!(grpc_timeout(&headers(&GRPC_TIMEOUT, &["2S", "300m"])), Ok(Some(Duration::from_millis(300))));
        assert_eq!(grpc_timeout(&headers(&GRPC_TIMEOUT, &["2S", "soon"])), Err(Malformed));
        assert_eq!(grpc_timeout(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn envoy_counts_in_milliseconds_and_zero_is_none() {
        let read = |value| envoy_timeout(&headers(&ENVOY_TIMEOUT, &[value]));
        assert_eq!(read("15000"), Some(Duration::from_secs(15)));
        assert_eq!([read("0"), read(""), read("-1"), read("+1"), read("1.5"), read("99999999999999999999")], [None; 6]);
    }

    #[test]
    fn the_finest_unit_with_eight_digits_is_written() {
        for (nanos, value) in [(0, "0n"), (99_999_999, "99999999n"), (100_000_999, "100000u"), (u64::MAX, "5124095H")] {
            assert_eq!(written(Duration::from_nanos(nanos)), value);
        }
        assert_eq!(written(Duration::MAX), "99999999H");
    }
}
