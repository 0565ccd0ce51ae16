//! What a real service was seen to do: its methods' times, their rates, and the stages behind them.
//!
//! A server tells it by `greenwave.Meta/Recorded`, growing as it goes; two answers, one [taken from](Recording::since) the other,
//! are a recording of the time between them, which `greenwave record` writes to a file. Both are the same TOML, with a version:
//!
//! ```
//! use greenwave_sim::recording::Recording;
//!
//! let text = r#"
//!     greenwave_recording = 1
//!     seconds = 2.0
//!     [server]
//!     name = "kv"
//!     threads = 1
//!     order = "guarded"
//!     quantum_ns = 0
//!     probes = false
//!     [[method]]
//!     name = "kv.Kv/Get"
//!     calls = 3
//!     service = [[500, 2], [900, 1]]
//! "#;
//! let recording = Recording::parse(text)?;
//! assert_eq!(recording.per_second(), 1.5);
//! assert!(Recording::parse("greenwave_recording = 9").is_err());
//! # Ok::<(), greenwave_sim::recording::RecordingError>(())
//! ```

use crate::cores::{Load, Method, PlanError, Sample, Work};
use greenwave_policy::Order;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version that is read and written.
pub const VERSION: u32 = 1;

/// The most bytes of a recording.
pub const MOST_BYTES: usize = 16 << 20;

const MOST_METHODS: usize = 256;
const MOST_STAGES: usize = 64;
const MOST_SPANS: usize = 8192;
/// More calls than anybody records, and exact as floating-point numbers.
const MOST_CALLS: u64 = 1 << 52;
const DAY_NS: u64 = 86_400_000_000_000;

/// A recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    #[serde(rename = "greenwave_recording")]
    version: u32,
    /// Where it was recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// When, on the server's monotonic clock: of an answer of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// How long was recorded: of the difference of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Calls that came while it was recorded and are not in it.
    #[serde(default)]
    pub unrecorded: u64,
    /// The server as it was run.
    pub server: Server,
    /// Its methods that were called.
    #[serde(default, rename = "method")]
    pub methods: Vec<MethodRecord>,
}

/// A server as it was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name in receipts.
    pub name: String,
    /// Threads that run handlers.
    pub threads: usize,
    /// Whose turn it was.
    pub order: String,
    /// How long a turn was; 0: to the call's end.
    pub quantum_ns: u64,
    /// Whether it has probes, so whether it was built by `cargo quanta`.
    pub probes: bool,
}

/// Lengths in nanoseconds, and how many there are of each.
pub type Spans = Vec<(u64, u64)>;

/// What a method's calls took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodRecord {
    /// `package.Service/Method`.
    pub name: String,
    /// Calls whose handlers began.
    pub calls: u64,
    /// Those that failed.
    #[serde(default)]
    pub failed: u64,
    /// Calls that were refused after they had waited.
    #[serde(default)]
    pub refused: u64,
    /// How long all of them together waited for a thread.
    #[serde(default)]
    pub queue_ns: u64,
    /// The most calls a second, over some time of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<f64>,
    /// How long handlers ran.
    pub service: Spans,
    /// How long they waited for calls of their own, if any made some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Spans,
    /// Whom they called.
    #[serde(default, rename = "stage", skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRecord>,
}

/// What calls of a method to a stage took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRecord {
    /// The stage, as receipts name it.
    pub name: String,
    /// Whether they were branches of parallel units.
    pub branches: bool,
    /// Calls of the method that called it.
    pub requests: u64,
    /// How often they did.
    pub calls: u64,
    /// How long its handlers ran.
    pub service: Spans,
    /// The rest of the round trips: the wire, queues, and its own waits.
    pub around: Spans,
}

/// A recording that can't be read, or can't be meant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// Longer than any.
    #[error("{0} bytes; allowed: up to 16 MiB")]
    TooLong(usize),
    /// Not TOML, or not with these keys.
    #[error("not a recording: {0}; make one with `greenwave record ADDRESS -o FILE`")]
    Syntax(String),
    /// Of a version that isn't known here.
    #[error("a recording of version {0}, and this reads version {VERSION}; record anew")]
    Version(u32),
    /// A value out of its range.
    #[error("{place}: {what}; record anew")]
    Value {
        /// Where.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// Two that don't belong together.
    #[error("the server was started anew, or is another one: {0}; record again")]
    Apart(String),
    /// Nothing was called.
    #[error("no call was recorded in {0:.1} s; record while the service has its load")]
    Nothing(f64),
    /// The load that it makes can't be simulated.
    #[error(transparent)]
    Load(#[from] PlanError),
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// If it is none, of another version, or says what can't be.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        #[derive(Deserialize)]
        struct Versioned {
            greenwave_recording: u32,
        }
        if text.len() > MOST_BYTES {
            return Err(RecordingError::TooLong(text.len()));
        }
        let syntax = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let what = error.message().lines().collect::<Vec<_>>().join(" ").replace('`', "\"");
            RecordingError::Syntax(format!("line {line}: {what}"))
        };
        let Versioned { greenwave_recording: version } = toml::from_str(text).map_err(syntax)?;
        if version != VERSION {
            return Err(RecordingError::Version(version));
        }
        let recording: Self = toml::from_str(text).map_err(syntax)?;
        recording.validate()?;
        Ok(recording)
    }

    /// What was recorded since an earlier answer of the same server.
    ///
    /// # Errors
    /// If the two aren't of the same run of a server.
    pub fn since(&self, earlier: &Self) -> Result<Self, RecordingError> {
        let apart = |what: &str| RecordingError::Apart(what.to_owned());
        let ([Some(from), Some(to)], true) = ([earlier.at_ns, self.at_ns], self.server == earlier.server) else {
            return Err(apart("it says something else of itself"));
        };
        let nanos = to.checked_sub(from).filter(|nanos| *nanos > 0).ok_or_else(|| apart("its clock went back"))?;
        let less = |now: u64, before: u64| now.checked_sub(before).ok_or_else(|| apart("it has counted fewer calls"));
        let mut methods = Vec::new();
        for now in &self.methods {
            let nothing = MethodRecord::nothing(&now.name);
            let before = earlier.methods.iter().find(|before| before.name == now.name).unwrap_or(&nothing);
            let mut stages = Vec::new();
            for stage in &now.stages {
                let is_it = |of: &&StageRecord| of.name == stage.name && of.branches == stage.branches;
                let before = before.stages.iter().find(is_it);
                stages.push(StageRecord {
                    name: stage.name.clone(),
                    branches: stage.branches,
                    requests: less(stage.requests, before.map_or(0, |before| before.requests))?,
                    calls: less(stage.calls, before.map_or(0, |before| before.calls))?,
                    service: difference(&stage.service, before.map_or(&[], |before| &before.service)),
                    around: difference(&stage.around, before.map_or(&[], |before| &before.around)),
                });
            }
            // Calls before the first that waited are counted as having waited for nothing when that comes.
            let zeros = [(0, before.calls)];
            let waited = if before.waiting.is_empty() { &zeros[..] } else { &before.waiting };
            let method = MethodRecord {
                name: now.name.clone(),
                calls: less(now.calls, before.calls)?,
                failed: less(now.failed, before.failed)?,
                refused: less(now.refused, before.refused)?,
                queue_ns: less(now.queue_ns, before.queue_ns)?,
                busiest: None,
                service: difference(&now.service, &before.service),
                waiting: difference(&now.waiting, waited),
                stages: stages.into_iter().filter(|stage| stage.calls > 0).collect(),
            };
            if method.calls + method.refused > 0 {
                methods.push(method);
            }
        }
        let unrecorded = less(self.unrecorded, earlier.unrecorded)?;
        let (seconds, at_ns) = (Some(nanos as f64 / 1e9), None);
        Ok(Self { seconds, at_ns, unrecorded, methods, ..self.clone() })
    }

    /// As [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Calls a second, of all methods.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let calls: u64 = self.methods.iter().map(|method| method.calls + method.refused).sum();
        self.seconds.map_or(0.0, |seconds| calls as f64 / seconds)
    }

    /// The jobs that the server had: each method with the times that it was seen to take, less what a turn costs there, which is
    /// counted beside them.
    ///
    /// # Errors
    /// If nothing was recorded.
    pub fn load(&self, turn: Duration) -> Result<Load, RecordingError> {
        let turn = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
        let measured = |spans: &Spans| Sample::new(spans.clone());
        let mut methods = Vec::new();
        for method in self.methods.iter().filter(|method| method.calls > 0) {
            let Some(service) = measured(&method.service) else { continue };
            let work = Work::Measured(service.map(|nanos| nanos.saturating_sub(turn).max(1)).keep());
            let behind = measured(&method.waiting).map(|waiting| Work::Measured(waiting.keep()));
            methods.push(Method { behind, ..Method::new(&method.name, method.calls as f64, work) });
        }
        if methods.is_empty() {
            return Err(RecordingError::Nothing(self.seconds.unwrap_or_default()));
        }
        Ok(Load::new(methods)?)
    }

    fn validate(&self) -> Result<(), RecordingError> {
        let wrong = |place: &str, what: String| Err(RecordingError::Value { place: place.to_owned(), what });
        match (self.seconds, self.at_ns) {
            (Some(seconds), None) if seconds.is_finite() && seconds > 0.0 && seconds <= 1e7 => {}
            (None, Some(_)) => {}
            (Some(seconds), None) => return wrong("seconds", format!("{seconds}; allowed: more than 0, up to 10^7")),
            _ => return wrong("seconds", "one of seconds and at_ns is to be said".to_owned()),
        }
        if !(1..=4096).contains(&self.server.threads) {
            return wrong("server.threads", format!("{}; allowed: 1 to 4096", self.server.threads));
        }
        if let Err(error) = self.server.order.parse::<Order>() {
            return wrong("server.order", error.to_string());
        }
        if self.server.quantum_ns > DAY_NS {
            return wrong("server.quantum_ns", format!("{}; allowed: up to a day", self.server.quantum_ns));
        }
        if self.methods.len() > MOST_METHODS {
            return wrong("method", format!("{} of them; allowed: {MOST_METHODS}", self.methods.len()));
        }
        for method in &self.methods {
            let place = |key: &str| format!("method {:?}, {key}", method.name);
            if [method.calls, method.refused, method.failed].into_iter().any(|count| count > MOST_CALLS) {
                return wrong(&place("calls"), "more than 2^52".to_owned());
            }
            spans(&place("service"), &method.service, Some(method.calls))?;
            spans(&place("waiting"), &method.waiting, None)?;
            if !method.waiting.is_empty() && count(&method.waiting) != method.calls {
                return wrong(&place("waiting"), "not as many as calls".to_owned());
            }
            if method.busiest.is_some_and(|most| !(most.is_finite() && most >= 0.0)) {
                return wrong(&place("busiest"), "allowed: numbers that are not negative".to_owned());
            }
            if method.stages.len() > MOST_STAGES {
                return wrong(&place("stage"), format!("{} of them; allowed: {MOST_STAGES}", method.stages.len()));
            }
            for stage in &method.stages {
                let place = format!("method {:?}, stage {:?}", method.name, stage.name);
                if stage.calls > MOST_CALLS || stage.requests > stage.calls || stage.requests > method.calls {
                    return wrong(&place, "more requests than calls, or than the method had".to_owned());
                }
                spans(&place, &stage.service, Some(stage.calls))?;
                spans(&place, &stage.around, Some(stage.calls))?;
            }
        }
        Ok(())
    }
}

impl MethodRecord {
    fn nothing(name: &str) -> Self {
        let (calls, failed, refused, queue_ns, busiest) = (0, 0, 0, 0, None);
        let (service, waiting, stages) = (Spans::new(), Spans::new(), Vec::new());
        Self { name: name.to_owned(), calls, failed, refused, queue_ns, busiest, service, waiting, stages }
    }
}

/// How many there are.
fn count(spans: &[(u64, u64)]) -> u64 {
    spans.iter().fold(0, |all, (_, count)| all.saturating_add(*count))
}

/// Those that weren't there before.
fn difference(now: &[(u64, u64)], before: &[(u64, u64)]) -> Spans {
    let had = |nanos| before.iter().find(|(of, _)| *of == nanos).map_or(0, |(_, count)| *count);
    let left = now.iter().map(|(nanos, count)| (*nanos, count.saturating_sub(had(*nanos))));
    left.filter(|(_, count)| *count > 0).collect()
}

fn spans(place: &str, spans: &[(u64, u64)], expected: Option<u64>) -> Result<(), RecordingError> {
    let wrong = |what: String| Err(RecordingError::Value { place: place.to_owned(), what });
    if spans.len() > MOST_SPANS {
        return wrong(format!("{} lengths; allowed: {MOST_SPANS}", spans.len()));
    }
    if let Some((nanos, _)) = spans.iter().find(|(nanos, _)| *nanos > DAY_NS) {
        return wrong(format!("{nanos} ns; allowed: up to a day"));
    }
    if !spans.is_sorted_by(|one, next| one.0 < next.0) {
        return wrong("lengths have to grow".to_owned());
    }
    match expected {
        Some(expected) if count(spans) != expected => wrong(format!("{} of them, and {expected} calls", count(spans))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "greenwave_recording = 1\nat_ns = 5000000000\n[server]\nname = 'a'\nthreads = 1\norder = 'fcfs'\n\
        quantum_ns = 0\nprobes = false\n[[method]]\nname = 'a.B/C'\ncalls = 3\nservice = [[500, 2], [900, 1]]\n";

    #[test]
    fn what_is_written_is_read() {
        let recording = Recording::parse(TEXT).unwrap();
        assert_eq!(Recording::parse(&recording.to_text()), Ok(recording));
    }

    #[test]
    fn the_difference_of_two_is_what_came_between() {
        let early = Recording::parse(TEXT).unwrap();
        let later = "at_ns = 7000000000";
        let late = TEXT.replace("at_ns = 5000000000", later).replace("calls = 3", "calls = 7").replace("2]", "6]");
        let late = Recording::parse(&(late + "waiting = [[0, 5], [70, 2]]\n")).unwrap();
        let between = late.since(&early).unwrap();
        assert_eq!((between.seconds, between.per_second()), (Some(2.0), 2.0));
        assert_eq!(between.methods[0].service, [(500, 4)]);
        assert_eq!(between.methods[0].waiting, [(0, 2), (70, 2)]);
        assert_eq!(Recording::parse(&between.to_text()), Ok(between));
        assert!(matches!(early.since(&late), Err(RecordingError::Apart(_))));
        assert!(matches!(early.since(&early), Err(RecordingError::Apart(_))));
    }

    #[test]
    fn what_can_not_be_meant_is_refused_with_its_place() {
        let stage = "[[method.stage]]\nname = 's'\nbranches = true\nrequests = 9\ncalls = 9\nservice = [[1, 9]]\naround = [[1, 9]]";
        for (text, part) in [
            (String::new(), "line 1"),
            (TEXT.replace("= 1\nat", "= 2\nat"), "version 2"),
            (TEXT.replace("at_ns", "seconds"), "seconds"),
            (TEXT.replace("threads = 1", "threads = 0"), "server.threads"),
            (TEXT.replace("fcfs", "lifo"), "server.order"),
            (TEXT.replace("calls = 3", "calls = 4"), "3 of them, and 4 calls"),
            (TEXT.replace("calls = 3", "calls = -3"), "line 11"),
            (TEXT.replace("900", "500"), "grow"),
            (TEXT.replace("900", "90000000000000000"), "a day"),
            (TEXT.replace("name = 'a.B/C'", "name = 'a.B/C'\nspeed = 3"), "speed"),
            (format!("{TEXT}{stage}"), "more requests"),
        ] {
            let told = Recording::parse(&text).unwrap_err().to_string();
            assert!(told.contains(part), "no {part:?} in {told}");
        }
        let nothing = TEXT.replace("calls = 3", "calls = 0").replace("[[500, 2], [900, 1]]", "[]");
        assert!(matches!(Recording::parse(&nothing).unwrap().load(Duration::ZERO), Err(RecordingError::Nothing(_))));
    }

    #[test]
    fn a_load_has_the_times_without_the_turn_and_the_waits() {
        let recording = Recording::parse(&(TEXT.to_owned() + "waiting = [[0, 1], [7000, 2]]\n")).unwrap();
        let load = recording.load(Duration::from_nanos(100)).unwrap();
        assert!((load.mean_ns() - (2.0 * 400.0 + 800.0) / 3.0).abs() < 1e-9);
        assert_eq!(load.methods()[0].behind.map(|behind| behind.mean_ns().round()), Some(4667.0));
    }
}
