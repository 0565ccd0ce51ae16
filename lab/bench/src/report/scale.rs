//! From values to places on an axis, and the marks that let a reader go back.

/// An axis: where values lie between 0 and 1, and where its marks are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Equal differences, equal distances.
    Linear { begin: f64, end: f64 },
    /// Equal factors, equal distances.
    Log { begin: f64, end: f64 },
    /// Shares below one, spread out towards one: 0, 90%, 99%, 99.9% are equally far apart.
    Nines { nines: u32 },
}

/// A mark on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Whether it's labelled.
    pub(super) major: bool,
}

impl Scale {
    /// From zero to a round number at or above `value`.
    pub(super) fn up_to(value: f64) -> Self {
        let step = step(value);
        Self::Linear { begin: 0.0, end: (value / step - 1e-9).ceil().max(1.0) * step }
    }

    /// A logarithmic axis that holds both values, and is a factor of `least` long at least.
    pub(super) fn log(begin: f64, end: f64, least: f64) -> Self {
        let begin = begin.max(f64::MIN_POSITIVE);
        let end = end.max(begin);
        let missing = (least / (end / begin)).max(1.0).sqrt();
        Self::Log { begin: begin / missing, end: end * missing }
    }

    /// Where a value lies, 0 being the beginning of the axis and 1 its end; values beyond are put at the ends.
    pub(super) fn position(self, value: f64) -> f64 {
        let position = match self {
            Self::Linear { begin, end } => (value - begin) / (end - begin),
            Self::Log { begin, end } => (value.max(f64::MIN_POSITIVE) / begin).ln() / (end / begin).ln(),
            Self::Nines { nines } => -(1.0 - value).max(1e-12).log10() / f64::from(nines),
        };
        position.clamp(0.0, 1.0)
    }

    /// The marks, from the beginning to the end.
    pub(super) fn ticks(self) -> Vec<Tick> {
        match self {
            Self::Linear { begin, end } => {
                let step = step(end - begin);
                let steps = (begin / step - 1e-9).ceil() as i64..=(end / step + 1e-9).floor() as i64;
                steps.map(|n| Tick { value: n as f64 * step, major: true }).collect()
            }
            Self::Log { begin, end } => log_ticks(begin, end),
            Self::Nines { nines } => nine_ticks(nines),
        }
    }
}

/// A round step that divides an axis up to `end` into four to seven.
fn step(end: f64) -> f64 {
    let rough = end.max(f64::MIN_POSITIVE) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().min_by(|a, b| {
        let off = |factor: &f64| (factor * power / rough).ln().abs();
        off(a).total_cmp(&off(b))
    });
    factor.unwrap_or(1.0) * power
}

fn log_ticks(begin: f64, end: f64) -> Vec<Tick> {
    let decades = (end / begin).log10();
    let labelled: &[u32] = if decades < 1.5 { &[1, 2, 5] } else { &[1] };
    let powers = begin.log10().floor() as i32..=end.log10().ceil() as i32;
    let all = powers.flat_map(|power| (1..10u32).map(move |digit| (digit, f64::from(digit) * 10f64.powi(power))));
    let within = all.filter(|(_, value)| (begin * 0.999..=end * 1.001).contains(value));
    within.map(|(digit, value)| Tick { value, major: labelled.contains(&digit) }).collect()
}

fn nine_ticks(nines: u32) -> Vec<Tick> {
    let mut ticks = vec![Tick { value: 0.0, major: true }, Tick { value: 0.5, major: true }];
    ticks.extend((1..=nines).map(|n| Tick { value: 1.0 - 0.1f64.powi(n as i32), major: true }));
    ticks
}

/// A duration given in nanoseconds, in words.
pub(super) fn time(nanos: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| nanos >= unit * 0.9995).unwrap_or((1.0, "ns"));
    let value = nanos / unit;
    let digits = match value {
        _ if (value - value.round()).abs() < 1e-6 => 0,
        value if value < 9.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

/// A share in percent, with as many digits as tell it from all and from nothing.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let off = percent.min(100.0 - percent).abs();
    match off {
        off if off < 1e-9 => format!("{percent:.0}%"),
        off if off < 0.095 => format!("{percent:.2}%"),
        off if off < 9.95 && (percent - percent.round()).abs() > 1e-9 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// A rate or count, short.
pub(super) fn count(value: f64) -> String {
    match value {
        value if value >= 9.995e5 => format!("{:.1} M", value / 1e6),
        value if value >= 9_999.5 => format!("{:.0} k", value / 1e3),
        value if value >= 99.5 || (value - value.round()).abs() < 1e-9 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// A number with three significant digits at the least.
pub(super) fn number(value: f64) -> String {
    if value.abs() >= 99.5 || value == 0.0 {
        return count(value);
    }
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, name: fn(f64) -> String) -> Vec<String> {
        scale.ticks().into_iter().filter(|tick| tick.major).map(|tick| name(tick.value)).collect()
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(labels(Scale::up_to(947.0), count), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(labels(Scale::up_to(0.4), percent), ["0%", "10%", "20%", "30%", "40%"]);
    }

    #[test]
    fn a_logarithmic_axis_is_labelled_at_powers_of_ten_and_a_short_one_in_between() {
        assert_eq!(labels(Scale::log(2e5, 3e8, 10.0), time), ["1 ms", "10 ms", "100 ms"]);
        assert_eq!(labels(Scale::log(9e5, 1.1e7, 10.0), time), ["1 ms", "2 ms", "5 ms", "10 ms"]);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let scale = Scale::Nines { nines: 3 };
        let positions = [0.0, 0.9, 0.99, 0.999, 1.0].map(|share| (scale.position(share) * 3.0 * 1e6).round() / 1e6);
        assert_eq!(positions, [0.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!(labels(scale, percent), ["0%", "50%", "90%", "99%", "99.9%"]);
    }

    #[test]
    fn numbers_are_short_and_keep_what_matters() {
        assert_eq!([850.0, 1500.0, 12_300.0, 2e6, 1e9].map(time), ["850 ns", "1.5 µs", "12 µs", "2 ms", "1 s"]);
        assert_eq!(
            [0.0, 0.0004, 0.034, 0.5, 0.9996, 1.0].map(percent),
            ["0%", "0.04%", "3.4%", "50%", "99.96%", "100%"]
        );
        assert_eq!([0.5, 99.0, 1234.0, 45_000.0, 2.5e6].map(count), ["0.5", "99", "1234", "45 k", "2.5 M"]);
        assert_eq!([0.0, 0.85, 0.0625, 1.0, 12.5, 2.5e6].map(number), ["0", "0.85", "0.0625", "1", "12.5", "2.5 M"]);
    }
}
