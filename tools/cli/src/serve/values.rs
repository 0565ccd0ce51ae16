//! Values of settings. Each is read by one rule, its `FromStr`, wherever it was said: in an option, a variable, a file,
//! or by the process that started this one.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use greenwave::Wait;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of a type from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<T>(pub(crate) T);

/// A whole number within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Count<const LEAST: u64, const MOST: u64>(u64);

/// No limit to a [`Count`].
pub(crate) const ANY: u64 = u64::MAX;

/// A share of something, 0 to 1, or to less than 1 where it can't be the whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Share<const WHOLE: bool = true>(pub(crate) f64);

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    On,
    Off,
}

/// A time with its unit.
pub(crate) type Time = Word<humantime::Duration>;

/// How long a handler runs at a time, or that it runs until it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantum(pub(crate) Option<Duration>);

/// A time with its unit that bounds something, or no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound(pub(crate) Option<Duration>);

/// What an idle thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle(pub(crate) Wait);

/// Values with a character between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T, const BETWEEN: char = ','>(pub(crate) Vec<T>);

/// Cores, written as numbers and ranges: `0,2`, `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// A value as a file has it.
#[derive(Deserialize)]
#[serde(untagged, expecting = "allowed: a text, a number, or a list of them")]
enum Said {
    Switch(bool),
    Whole(u64),
    Number(f64),
    Text(String),
    List(Vec<Said>),
}

impl Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::List(list) => joined(f, list, ','),
        }
    }
}

/// Makes serde read types as options are read.
macro_rules! read_as_text {
    ($([$($parameters:tt)*] $type:ty,)*) => {$(
        impl<'de, $($parameters)*> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Said::deserialize(from)?.to_string().parse().map_err(D::Error::custom)
            }
        }
    )*};
}

/// Makes serde write types as they are shown.
macro_rules! write_as_text {
    ($([$($parameters:tt)*] $type:ty,)*) => {$(
        impl<$($parameters)*> Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )*};
}

read_as_text! {
    [T: FromStr<Err: Display>] Word<T>,
    [T: FromStr<Err: Display>, const BETWEEN: char] List<T, BETWEEN>,
    [const LEAST: u64, const MOST: u64] Count<LEAST, MOST>,
    [const WHOLE: bool] Share<WHOLE>,
    [] Switch,
    [] Quantum,
    [] Bound,
    [] Idle,
    [] Cores,
}

write_as_text! {
    [T: Display] Word<T>,
    [T: Display, const BETWEEN: char] List<T, BETWEEN>,
    [] Quantum,
    [] Bound,
    [] Idle,
}

impl<const LEAST: u64, const MOST: u64> Count<LEAST, MOST> {
    pub(crate) fn usize(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The number, if it is within the range.
    pub(crate) fn new(number: u64) -> Option<Self> {
        (LEAST..=MOST).contains(&number).then_some(Self(number))
    }
}

impl<const LEAST: u64, const MOST: u64> FromStr for Count<LEAST, MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| match MOST {
            ANY => format!("allowed: a number, {LEAST} or more"),
            most => format!("allowed: a number, {LEAST} to {most}"),
        })
    }
}

impl<const WHOLE: bool> FromStr for Share<WHOLE> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |share: &f64| (0.0..=1.0).contains(share) && (WHOLE || *share < 1.0);
        let allowed = if WHOLE { "allowed: a number, 0 to 1" } else { "allowed: a number, 0 to less than 1" };
        text.parse().ok().filter(fits).map(Self).ok_or(allowed)
    }
}

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err("allowed: on or off"),
        }
    }
}

impl FromStr for Quantum {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "off" => Ok(Self(None)),
            Ok(Word::<humantime::Duration>(time)) if *time >= Duration::from_nanos(500) => Ok(Self(Some(*time))),
            _ => Err("allowed: off, or a time such as 5us, 500ns or more"),
        }
    }
}

impl Display for Quantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(time) => humantime::format_duration(time).fmt(f),
        }
    }
}

impl Bound {
    /// The time; for ever without a bound.
    pub(crate) fn time(self) -> Duration {
        self.0.unwrap_or(Duration::MAX)
    }
}

impl FromStr for Bound {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "off" => Ok(Self(None)),
            Ok(Word::<humantime::Duration>(time)) if !time.is_zero() => Ok(Self(Some(*time))),
            _ => Err("allowed: off, or a time such as 5m, more than nothing"),
        }
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quantum(self.0).fmt(f)
    }
}

impl FromStr for Idle {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(match text {
            "spin" => Wait::Spin,
            "block" => Wait::Block,
            _ => match text.strip_prefix("adaptive:").unwrap_or(text).parse() {
                Ok(Word::<humantime::Duration>(spin)) => Wait::Adaptive { spin: *spin },
                Err(_) => return Err("allowed: spin, block or adaptive:20us"),
            },
        }))
    }
}

impl Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wait::Spin => f.write_str("spin"),
            Wait::Block => f.write_str("block"),
            Wait::Adaptive { spin } => write!(f, "adaptive:{}", humantime::format_duration(spin)),
        }
    }
}

impl<T: FromStr> FromStr for Word<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(Self)
    }
}

impl<T: Display> Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: FromStr, const BETWEEN: char> FromStr for List<T, BETWEEN> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.split(BETWEEN).map(|part| part.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl<T: Display, const BETWEEN: char> Display for List<T, BETWEEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        joined(f, &self.0, BETWEEN)
    }
}

impl FromStr for Cores {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        cores(text).map(Self).ok_or("allowed: numbers and ranges with commas between them, such as 0,1 or 4-7")
    }
}

fn cores(text: &str) -> Option<Vec<usize>> {
    /// More than machines have; a slip of the pen is not to cost memory.
    const MOST: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last.checked_sub(first)? >= MOST - cores.len() {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

fn joined(f: &mut fmt::Formatter<'_>, values: &[impl Display], between: char) -> fmt::Result {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            write!(f, "{between}")?;
        }
        value.fmt(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave::Address;
    use greenwave::{Choice, Order};
    use std::fmt::Debug;

    /// As a file has it.
    fn from_file<T: for<'de> Deserialize<'de>>(value: serde_json::Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_again_as_the_same() {
        fn check<T: FromStr<Err: Display> + Debug + Serialize + for<'de> Deserialize<'de>>(texts: &[&str]) {
            for text in texts {
                let value = text.parse::<T>().unwrap_or_else(|error| panic!("{text}: {error}"));
                let read: T = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
                assert_eq!(format!("{read:?}"), format!("{value:?}"));
            }
        }
        check::<Word<Order>>(&["guarded", "edf", "stage-laxity"]);
        check::<Count<4, 65535>>(&["4", "65535"]);
        check::<Count<1, ANY>>(&["18446744073709551615"]);
        check::<Share>(&["0", "0.05", "1"]);
        check::<Time>(&["200us", "1m 30s"]);
        check::<Switch>(&["on", "off"]);
        check::<Quantum>(&["off", "5us"]);
        check::<Bound>(&["off", "1ns", "2h"]);
        check::<Idle>(&["spin", "block", "adaptive:20us"]);
        check::<Word<Choice>>(&["auto", "uring", "epoll", "fabric"]);
        check::<Cores>(&["0,2,7"]);
        check::<List<List<Address, '|'>>>(&["tcp://127.0.0.1:1|tcp://127.0.0.1:2,unix:///a=b"]);
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_what_is_allowed() {
        for text in ["0", "257", "-1", "many", "", "1.5"] {
            assert_eq!(text.parse::<Count<1, 256>>(), Err("allowed: a number, 1 to 256".to_owned()), "{text}");
        }
        assert_eq!("0".parse::<Count<1, ANY>>(), Err("allowed: a number, 1 or more".to_owned()));
        for text in ["-0.1", "1.1", "NaN", "half", ""] {
            assert_eq!(text.parse::<Share>(), Err("allowed: a number, 0 to 1"), "{text}");
        }
        assert_eq!("1".parse::<Share<false>>(), Err("allowed: a number, 0 to less than 1"));
        for text in ["0s", "on", "5", ""] {
            assert!(text.parse::<Bound>().unwrap_err().contains("off, or a time such as 5m"), "{text}");
        }
        for text in ["499ns", "0", "on", "5"] {
            assert!(text.parse::<Quantum>().unwrap_err().contains("500ns or more"), "{text}");
        }
    }

    #[test]
    fn a_file_says_numbers_texts_and_lists() {
        use serde_json::json;
        assert_eq!(from_file::<Count<1, 9>>(json!(9)), Ok(Count(9)));
        assert_eq!(from_file::<Count<1, 9>>(json!("9")), Ok(Count(9)));
        assert_eq!(from_file::<Share>(json!(0.5)), Ok(Share(0.5)));
        assert_eq!(from_file::<Count<1, 9>>(json!(-1)), Err("allowed: a number, 1 to 9".to_owned()));
        assert_eq!(from_file::<Cores>(json!([0, 1])), Ok(Cores(vec![0, 1])));
        assert_eq!(from_file::<Cores>(json!("0-1")), Ok(Cores(vec![0, 1])));
        let words = ["rs", "md"].map(str::to_owned).to_vec();
        assert_eq!(from_file::<List<String>>(json!(["rs", "md"])), Ok(List(words)));
        assert_eq!(from_file::<Switch>(json!(true)), Err("allowed: on or off".to_owned()));
        assert_eq!(from_file::<Count<1, 9>>(json!(true)), Err("allowed: a number, 1 to 9".to_owned()));
        assert_eq!(from_file::<Cores>(json!({})), Err("allowed: a text, a number, or a list of them".to_owned()));
    }

    #[test]
    fn cores_are_numbers_and_ranges_of_them() {
        assert_eq!(cores("4, 0-2"), Some(vec![4, 0, 1, 2]));
        for odd in ["", "1,", "2-1", "-1", "0-", "a", "0-18446744073709551615", "0-60000,0-60000"] {
            assert_eq!(cores(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!("20us".parse(), Ok(Idle(Wait::Adaptive { spin: Duration::from_micros(20) })));
        assert_eq!("3s".parse::<Time>().map(|time| *time.0), Ok(Duration::from_secs(3)));
        assert!(["20", "us", ""].iter().all(|text| text.parse::<Time>().is_err()));
    }
}
