//! What servers say of themselves beside an answer: how busy they are, and when they want to be asked again.

/// How busy a server is, as it says in the trailer `endpoint-load-metrics-bin` (ORCA's `OrcaLoadReport`): what balancing may
/// go by. Anything else in it is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Share of the processor in use, 0 to 1; it may be more. 0: not said.
    pub cpu_utilization: f64,
    /// Share of what the application can do that it does, by its own account. 0: not said.
    pub application_utilization: f64,
    /// Requests a second that are served.
    pub rps: f64,
    /// Of these, how many fail.
    pub eps: f64,
}

impl Load {
    /// Where it is found.
    pub const NAME: &str = "endpoint-load-metrics-bin";

    /// Reads a report; `None` if it is none. Numbers that can't be meant (negative, infinite, none) count as not said.
    #[must_use]
    pub fn parse(mut report: &[u8]) -> Option<Self> {
        let mut load = Self::default();
        while !report.is_empty() {
            let key = varint(&mut report)?;
            match key & 7 {
                0 => _ = varint(&mut report)?,
                1 => {
                    let value = f64::from_le_bytes(take(&mut report, 8)?.try_into().ok()?);
                    let value = if value.is_finite() && value > 0.0 { value } else { 0.0 };
                    // xds/data/orca/v3/orca_load_report.proto
                    match key >> 3 {
                        1 => load.cpu_utilization = value,
                        6 => load.rps = value,
                        7 => load.eps = value,
                        9 => load.application_utilization = value,
                        _ => {}
                    }
                }
                2 => {
                    let len = usize::try_from(varint(&mut report)?).ok()?;
                    take(&mut report, len)?;
                }
                5 => _ = take(&mut report, 4)?,
                _ => return None,
            }
        }
        Some(load)
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(bytes, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// What a server says of asking again, in the trailer `grpc-retry-pushback-ms` (gRFC A6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushback {
    /// Not at all.
    Never,
    /// After so many milliseconds.
    After(u32),
}

impl Pushback {
    /// Where it is found.
    pub const NAME: &str = "grpc-retry-pushback-ms";

    /// Reads what was said: whatever is no number of milliseconds means never, as the proposal has it.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let text = std::str::from_utf8(value).unwrap_or_default();
        text.parse().map_or(Self::Never, Self::After)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_is_read_and_what_is_unknown_in_it_skipped() {
        let double = |number: u8, value: f64| [&[number << 3 | 1][..], &value.to_le_bytes()].concat();
        let report =
            [&double(9, 0.5)[..], &[0x22, 2, 1, 2], &double(1, 0.25), &[0x50, 0x80, 1], &double(6, 7.0)].concat();
        let expected = Load { cpu_utilization: 0.25, application_utilization: 0.5, rps: 7.0, eps: 0.0 };
        assert_eq!(Load::parse(&report), Some(expected));
        assert_eq!(Load::parse(&double(9, f64::NAN)), Some(Load::default()));
        assert_eq!(Load::parse(&report[..5]), None);
        let pushed = [&b"0"[..], b"12", b"-1", b"soon", b""].map(Pushback::parse);
        assert_eq!(
            pushed,
            [Pushback::After(0), Pushback::After(12), Pushback::Never, Pushback::Never, Pushback::Never]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(report in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(load) = Load::parse(&report) {
                prop_assert!(load.cpu_utilization >= 0.0 && load.application_utilization.is_finite());
            }
        }
    }
}
