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
    /// How many seconds a call waits before it is begun, as servers of Greenwave say (`greenwave.wait_seconds` of the named
    /// metrics).
    pub wait_seconds: Option<f64>,
}

impl Load {
    /// Where it is found.
    pub const NAME: &str = "endpoint-load-metrics-bin";
    /// The metric of that name.
    const WAIT: &[u8] = b"greenwave.wait_seconds";

    /// Reads a report; `None` if it is none. Numbers that can't be meant (negative, infinite, none) count as not said.
    #[must_use]
    pub fn parse(mut report: &[u8]) -> Option<Self> {
        let mut load = Self::default();
        while !report.is_empty() {
            // xds/data/orca/v3/orca_load_report.proto
            match field(&mut report)? {
                (1, Value::Double(value)) => load.cpu_utilization = value,
                (6, Value::Double(value)) => load.rps = value,
                (7, Value::Double(value)) => load.eps = value,
                (8, Value::Bytes(metric)) => load.wait_seconds = wait(metric)?.or(load.wait_seconds),
                (9, Value::Double(value)) => load.application_utilization = value,
                _ => {}
            }
        }
        Some(load)
    }
}

/// The value of an entry of the named metrics, if it is the wait; `None` if it is no entry.
fn wait(mut metric: &[u8]) -> Option<Option<f64>> {
    let (mut name, mut seconds) = (&b""[..], 0.0);
    while !metric.is_empty() {
        match field(&mut metric)? {
            (1, Value::Bytes(said)) => name = said,
            (2, Value::Double(said)) => seconds = said,
            _ => {}
        }
    }
    Some((name == Load::WAIT).then_some(seconds))
}

enum Value<'a> {
    Double(f64),
    Bytes(&'a [u8]),
    Other,
}

/// The next field of a message: its number, and what it has.
fn field<'a>(message: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = varint(message)?;
    let value = match key & 7 {
        0 => {
            varint(message)?;
            Value::Other
        }
        1 => {
            let value = f64::from_le_bytes(take(message, 8)?.try_into().ok()?);
            Value::Double(if value.is_finite() && value > 0.0 { value } else { 0.0 })
        }
        2 => {
            let len = usize::try_from(varint(message)?).ok()?;
            Value::Bytes(take(message, len)?)
        }
        5 => {
            take(message, 4)?;
            Value::Other
        }
        _ => return None,
    };
    Some((key >> 3, value))
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
        let expected = Load { cpu_utilization: 0.25, application_utilization: 0.5, rps: 7.0, ..Load::default() };
        assert_eq!(Load::parse(&report), Some(expected));
        let named = |name: &[u8], value: f64| {
            let entry = [&[0x0a, name.len() as u8], name, &double(2, value)].concat();
            [&[0x42, entry.len() as u8], &entry[..]].concat()
        };
        let report = [named(b"greenwave.wait_seconds", 0.5), named(b"queue", 7.0)].concat();
        assert_eq!(Load::parse(&report), Some(Load { wait_seconds: Some(0.5), ..Load::default() }));
        let nothing_waits = named(b"greenwave.wait_seconds", 0.0);
        assert_eq!(Load::parse(&nothing_waits).and_then(|load| load.wait_seconds), Some(0.0));
        assert_eq!(Load::parse(&report[..report.len() - 3]), None);
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
        fn no_bytes_make_it_panic(
            report in prop::collection::vec(any::<u8>(), 0..40),
            metric in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            crate::fuzzing::load_report(&report);
            // What is within the named metrics too.
            crate::fuzzing::load_report(&[&[0x42, metric.len() as u8], &metric[..], &report[..]].concat());
        }
    }
}
