//! Rates, sizes and spans as people write them.

use std::time::Duration;

use greenwave_policy::replication::Bandwidth;

/// Bits per second: `10mbit`, `2.5gbit`, `10000000`.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("tbit", 1e12), ("bit", 1.0)];
    let wrong = || format!("`{}` is no rate; such as 10mbit, 2.5gbit", short(text));
    scaled(text.trim_end_matches("/s"), &units).ok_or_else(wrong)
}

/// Things a second: `50k/s`, `1.2M/s`, `800`.
pub(crate) fn per_second(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{}` is no rate; such as 50k/s, 1.2M/s, 800", short(text));
    let number = text.trim().trim_end_matches("/s");
    let (number, factor) = match number.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => number.strip_suffix(['m', 'M']).map_or((number, 1.0), |number| (number, 1e6)),
    };
    let rate = number.trim().parse::<f64>().ok().map(|number| number * factor);
    rate.filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e12).ok_or_else(wrong)
}

/// Bytes: `30KB`, `64KiB`, `1500`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("kib", 1024.0),
        ("mib", 1024.0 * 1024.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("k", 1e3),
        ("m", 1e6),
        ("b", 1.0),
    ];
    scaled(text, &units).ok_or_else(|| format!("`{}` is no size; such as 30KB, 64KiB", short(text)))
}

/// Bytes that a message may have, up to 1 GiB: `16MiB`.
pub(crate) fn message(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        0 => Err("0 bytes hold no message; such as 64KiB, 16MiB".to_owned()),
        some if some > 1 << 30 => Err("a message has at most 1 GiB; such as 64KiB, 16MiB".to_owned()),
        some => usize::try_from(some).map_err(|error| error.to_string()),
    }
}

/// A span: `200ms`, `30s`, and `0`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|_| format!("`{}` is no time; such as 200ms, 30s, 0", short(text)))
}

/// A span, or a number of seconds: `200ms`, `30s`, `30`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(number) => Duration::try_from_secs_f64(number).map_err(|_| format!("`{}` is no time", short(text))),
        Err(_) => span(text),
    }
}

/// Bits per second, or `unlimited`: bytes per second come of it.
pub(crate) fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    if text == UNLIMITED {
        return Ok(Bandwidth::UNLIMITED);
    }
    Bandwidth::bits_per_s(rate(text)?).map_err(|error| error.to_string())
}

/// Bytes per second: `400MB`, `1GB/s`, or `unlimited`.
pub(crate) fn bytes_per_s(text: &str) -> Result<Bandwidth, String> {
    if text == UNLIMITED {
        return Ok(Bandwidth::UNLIMITED);
    }
    let wrong = |_| format!("`{}` is no rate; such as 400MB/s, unlimited", short(text));
    Bandwidth::bytes_per_s(bytes(text.trim_end_matches("/s")).map_err(wrong)?).map_err(|error| error.to_string())
}

/// A share: `0.001`, or `0.1%`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
    share.map(|share| share / whole).ok_or_else(|| format!("`{}` is no share; such as 0.001, 0.1%", short(text)))
}

/// A number that is more than 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{}`; allowed: a number that is more than 0", short(text)))
}

/// A span that isn't 0: `20ms`.
pub(crate) fn some_span(text: &str) -> Result<Duration, String> {
    let some = span(text)?;
    if some.is_zero() { Err("0 is no time to do anything in; such as 20ms".to_owned()) } else { Ok(some) }
}

const UNLIMITED: &str = "unlimited";

/// A number with one of these units, or without.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text.as_str(), 1.0));
    let plain = number.trim();
    if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let value = plain.parse::<f64>().ok()? * factor;
    (value.is_finite() && value < 1e18).then_some(value as u64)
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(rate("10mbit"), Ok(10_000_000));
        assert_eq!(rate("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!(rate("10Mbit/s"), Ok(10_000_000));
        assert_eq!(rate("64000"), Ok(64_000));
        assert_eq!(bytes("30KB"), Ok(30_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1500"), Ok(1500));
        assert_eq!((message("64KiB"), message("1GB")), (Ok(65_536), Ok(1_000_000_000)));
        assert!(message("0").is_err() && message("2GB").is_err());
        assert_eq!(span("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(span("0"), Ok(Duration::ZERO));
        assert_eq!(["0.5", "500ms"].map(seconds), [Ok(Duration::from_millis(500)), Ok(Duration::from_millis(500))]);
        assert!(seconds("-1").is_err() && seconds("nan").is_err() && seconds("1 parsec").is_err());
    }

    #[test]
    fn bandwidths_and_shares_are_read_as_they_are_sold() {
        assert_eq!(bandwidth("8mbit").map(Bandwidth::as_bytes_per_s), Ok(1_000_000));
        assert_eq!(bytes_per_s("400MB/s").map(Bandwidth::as_bytes_per_s), Ok(400_000_000));
        assert_eq!(
            [bandwidth("unlimited"), bytes_per_s("unlimited")],
            [Ok(Bandwidth::UNLIMITED), Ok(Bandwidth::UNLIMITED)]
        );
        assert_eq!([share("0.5"), share("50%"), share("0")], [Ok(0.5), Ok(0.5), Ok(0.0)]);
        for text in ["0", "0bit", "7bit"] {
            assert!(bandwidth(text).unwrap_err().contains("carries nothing"), "{text}");
        }
        assert!(bytes_per_s("0").unwrap_err().contains("carries nothing"));
        for text in ["", "-1", "nan", "inf", "%", "a"] {
            assert!(share(text).unwrap_err().contains("such as 0.001"), "{text}");
            assert!(positive(text).unwrap_err().contains("more than 0"), "{text}");
        }
        assert!(some_span("0").is_err() && positive("0").is_err());
    }

    #[test]
    fn rates_of_calls_have_thousands() {
        assert_eq!([per_second("50k/s"), per_second("1.5M/s"), per_second("800")], [Ok(50e3), Ok(1.5e6), Ok(800.0)]);
        for text in ["", "-5k/s", "0", "nan", "inf", "5q/s", "1e300M"] {
            assert!(per_second(text).unwrap_err().contains("such as 50k/s"), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "mbit", "-1mbit", "1e9mbit", "nan", "inf", "10 parsecs", "1..2mbit", "99999999999999999999"] {
            assert!(rate(text).unwrap_err().contains("such as 10mbit"), "{text:?}");
            assert!(bytes(text).unwrap_err().contains("such as 30KB"), "{text:?}");
        }
        for text in ["", "200", "-1s", "ms"] {
            assert!(span(text).unwrap_err().contains("such as 200ms"), "{text:?}");
        }
    }
}
