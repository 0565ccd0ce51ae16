//! Times as people write them.

use serde::de::{Deserialize, Deserializer, Error};
use std::time::Duration;

/// A time: `500ns`, `1.5us`, `20ms`, `2s`, or `0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// A time, or `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpanOrOff(pub(super) Option<Duration>);

pub(super) fn span(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number = number.trim();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    // Whole nanoseconds, which a product of two floating-point numbers may miss.
    let nanos = (number.parse::<f64>().ok()? * unit * 1e9).round();
    (nanos <= 86_400e9).then(|| Duration::from_nanos(nanos as u64))
}

const ALLOWED: &str = "a time, such as \"500ns\", \"1.5us\", \"20ms\", up to a day";

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        span(&text).map(Self).ok_or_else(|| D::Error::custom(format!("{text:?}; allowed: {ALLOWED}")))
    }
}

impl<'de> Deserialize<'de> for SpanOrOff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = || D::Error::custom(format!("{text:?}; allowed: {ALLOWED}, or \"off\""));
        span(&text).map(|span| Self(Some(span))).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        assert_eq!(span("500ns"), Some(Duration::from_nanos(500)));
        assert_eq!(span("1.5us"), Some(Duration::from_nanos(1500)));
        assert_eq!(span("0.3us"), Some(Duration::from_nanos(300)));
        assert_eq!(span("2s"), Some(Duration::from_secs(2)));
        assert_eq!(span("0"), Some(Duration::ZERO));
        for wrong in ["", "s", "-1ms", "1", "1e9s", "1h", "infs", "1..2s", "99999999s"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
