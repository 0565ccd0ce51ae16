//! How busy a server is, in the words that balancers of gRPC's clients understand.
//!
//! A report is an `xds.data.orca.v3.OrcaLoadReport` (CNCF's ORCA; gRPC's proposal A51). `application_utilization` is the work
//! that there was, over the time in which there was one: what was served, and what is in the queue at the end. So it goes
//! beyond 1 as a queue builds up, which shares of processors never tell.

use super::health::Watchers;
use super::inbox::Inbox;
use super::protobuf::{Value, fields, put_bytes, put_double};
use crate::counters::{Counters, Snapshot};
use crate::promise::promise;
use crate::service::Router;
use crate::status::{Code, Status};
use crate::wire::push_meta;
use greenwave_policy::Time;
use std::sync::Arc;
use std::time::Duration;

/// The trailer of a call (gRPC's A51).
const TRAILER: &str = "endpoint-load-metrics-bin";

/// The method that streams reports.
const STREAM: &str = "xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

/// How often what calls are told is measured, and how often a stream of reports may tell.
const EVERY: Duration = Duration::from_millis(100);

/// What a stream is told every so often if its client doesn't say (A51).
const USUAL: Duration = Duration::from_secs(30);

/// Compares what threads did with what they had done when it was asked last.
pub(super) struct LoadMeter {
    since: Time,
    before: Snapshot,
}

impl LoadMeter {
    pub(super) fn new(now: Time, before: Snapshot) -> Self {
        Self { since: now, before }
    }

    /// A report of the time since the last one. `unfinished`: calls that these threads have; `threads`: how many they are.
    fn report(&mut self, now: Time, counters: Snapshot, unfinished: u64, threads: usize) -> Vec<u8> {
        let elapsed = now.since(std::mem::replace(&mut self.since, now)).as_secs_f64().max(1e-9);
        let before = std::mem::replace(&mut self.before, counters);
        let per_second = |of: fn(&Snapshot) -> u64| of(&counters).wrapping_sub(of(&before)) as f64 / elapsed;
        let busy = per_second(|it| it.service_nanos) * 1e-9;
        let ended = |it: &Snapshot| it.answered + it.late + it.failed;
        let each = counters.service_nanos as f64 * 1e-9 / ended(&counters).max(1) as f64;
        let waiting = unfinished as f64 * each;
        let threads = threads as f64;
        let mut report = Vec::with_capacity(64);
        put_double(&mut report, 1, busy / threads);
        put_double(&mut report, 6, per_second(|it| it.answered + it.late + it.failed));
        put_double(&mut report, 7, per_second(|it| it.failed));
        let mut wait = Vec::with_capacity(32);
        put_bytes(&mut wait, 1, b"greenwave.wait_seconds");
        put_double(&mut wait, 2, waiting / threads);
        put_bytes(&mut report, 8, &wait);
        put_double(&mut report, 9, (busy + waiting / elapsed) / threads);
        report
    }
}

/// What a thread tells with each answer, if it is to.
pub(super) struct Told {
    meter: LoadMeter,
    /// The metadata of it.
    entries: Arc<[u8]>,
}

impl Told {
    pub(super) fn new(now: Time) -> Self {
        Self { meter: LoadMeter::new(now, Snapshot::default()), entries: Arc::default() }
    }

    /// Measures anew, if it is time to.
    pub(super) fn refresh(&mut self, now: Time, counters: &Counters, unfinished: u64) {
        if self.entries.is_empty() || now.since(self.meter.since) >= EVERY {
            let report = self.meter.report(now, counters.snapshot(), unfinished, 1);
            let mut entries = Vec::new();
            if push_meta(&mut entries, TRAILER, &report).is_ok() {
                self.entries = entries.into();
            }
        }
    }

    /// The same metadata, and this.
    pub(super) fn beside(&self, trailing: Option<Arc<[u8]>>) -> Arc<[u8]> {
        match trailing {
            None => Arc::clone(&self.entries),
            Some(trailing) => [&trailing[..], &self.entries[..]].concat().into(),
        }
    }
}

/// Adds the method, unless there is one.
pub(super) fn with_load_reports(
    router: Router,
    counters: &Arc<[Arc<Counters>]>,
    inboxes: &[Arc<Inbox>],
    watchers: &Watchers,
) -> Router {
    if router.names().any(|name| name == STREAM) {
        return router;
    }
    let (counters, inboxes, watchers) = (Arc::clone(counters), inboxes.to_vec(), watchers.clone());
    router.streaming(STREAM, move |context, incoming, mut outgoing| {
        let every = interval(&incoming.only(context)?)?;
        let clock = crate::clock::monotonic;
        let mut meter = LoadMeter::new(clock(), super::snapshot(&counters));
        loop {
            let (promise, draining) = promise();
            let _watcher = watchers.add(promise);
            match draining.wait(&context.tighten(every)) {
                Err(status) if status.code == Code::DeadlineExceeded && !context.is_spent() => {}
                Err(status) => return Err(status),
                Ok(()) => return Err(Status::new(Code::Unavailable, "the server shuts down")),
            }
            let unfinished = inboxes.iter().map(|inbox| u64::from(inbox.load().unfinished)).sum();
            let report = meter.report(clock(), super::snapshot(&counters), unfinished, inboxes.len());
            outgoing.send(context, report)?;
        }
    })
}

/// How often a client wants to be told: field 1 of its request, a `google.protobuf.Duration`.
pub(super) fn interval(request: &[u8]) -> Result<Duration, Status> {
    let wrong = || Status::new(Code::InvalidArgument, "not an OrcaLoadReportRequest");
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(request) {
        if let (1, Value::Bytes(duration)) = field.ok_or_else(wrong)? {
            for field in fields(duration) {
                match field.ok_or_else(wrong)? {
                    (1, Value::Number(number)) => seconds = number,
                    (2, Value::Number(number)) => nanos = number,
                    _ => {}
                }
            }
        }
    }
    let every = Duration::from_secs(seconds.min(86400)) + Duration::from_nanos(nanos.min(999_999_999));
    Ok(if every.is_zero() { USUAL } else { every.max(EVERY) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(report: &[u8]) -> Vec<(u64, f64)> {
        let mut rest = report;
        let mut found = Vec::new();
        while let [key, tail @ ..] = rest {
            let field = u64::from(key >> 3);
            if key & 7 == 1 {
                found.push((field, f64::from_le_bytes(*tail.first_chunk().unwrap())));
                rest = &tail[8..];
            } else {
                rest = &tail[1 + usize::from(tail[0])..];
            }
        }
        found
    }

    #[test]
    fn what_waits_counts_beside_what_was_served() {
        let start = Time::ZERO;
        let mut meter = LoadMeter::new(start, Snapshot::default());
        let counters = Snapshot { answered: 90, failed: 10, service_nanos: 50_000_000, ..Snapshot::default() };
        let report = meter.report(start + Duration::from_millis(100), counters, 200, 1);
        let close = |field, expected: f64| {
            let value = doubles(&report).into_iter().find(|(found, _)| *found == field).unwrap().1;
            assert!((value - expected).abs() < 1e-6 * expected, "field {field}: {value} for {expected}");
        };
        // 50 ms of work in 100 ms, and 200 calls of 0.5 ms in the queue.
        close(1, 0.5);
        close(6, 1000.0);
        close(7, 100.0);
        close(9, 1.5);
    }

    #[test]
    fn an_interval_is_read_within_bounds() {
        assert_eq!(interval(&[]), Ok(USUAL));
        assert_eq!(interval(b"\x0a\x02\x08\x05"), Ok(Duration::from_secs(5)));
        assert_eq!(interval(b"\x0a\x02\x10\x05"), Ok(EVERY));
        assert_eq!(interval(b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Ok(Duration::from_secs(86400)));
        assert_eq!(interval(b"\x0a").unwrap_err().code, Code::InvalidArgument);
    }
}
