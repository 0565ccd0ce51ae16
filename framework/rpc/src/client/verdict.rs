//! What the outcome of a call says of the server that it was given to, and of making it again.

use crate::receipt::Receipt;
use crate::status::{Check, Code, Origin, Reason, Status};
use greenwave_grpc::{Load, Pushback};
use greenwave_policy::{Ended, LoadReport, Sample};
use greenwave_proto::outcome::{AnswerMetadata, Failure, Outcome, Reply};
use std::time::Duration;

/// What it says of the server.
pub(super) fn ended(outcome: &Outcome) -> Ended {
    let Outcome { result, receipt, network, total, .. } = outcome;
    of(result.as_ref().err(), receipt.as_ref(), outcome.metadata(), *network, *total)
}

/// The same of a completion.
pub(super) fn completed(result: &Result<Reply, Failure>, total: Duration) -> Ended {
    match result {
        Ok(reply) => {
            // One without receipts has an empty one here.
            let receipt = Some(&reply.receipt).filter(|receipt| !receipt.total.is_zero());
            of(None, receipt, reply.metadata.as_deref(), reply.network, total)
        }
        Err(failure) => {
            of(Some(&failure.status), failure.receipt.as_deref(), failure.metadata.as_deref(), Duration::ZERO, total)
        }
    }
}

/// What a server has said of its load beside an answer, as servers of gRPC do.
fn load(metadata: Option<&AnswerMetadata>) -> Option<LoadReport> {
    let Load { cpu_utilization, application_utilization, rps, eps, wait_seconds } =
        Load::parse(metadata?.trail(Load::NAME)?)?;
    let waiting = wait_seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    // One that says how long calls wait has them in what the application's utilization counts, too.
    let utilization = match application_utilization > 0.0 && waiting.is_none() {
        true => application_utilization,
        false => cpu_utilization,
    };
    Some(LoadReport { utilization, calls: rps, failing: eps, waiting })
}

/// What a server has said of asking again.
fn pushback(metadata: Option<&AnswerMetadata>) -> Option<Pushback> {
    metadata?.trail(Pushback::NAME).map(Pushback::parse)
}

fn of(
    failure: Option<&Status>,
    receipt: Option<&Receipt>,
    metadata: Option<&AnswerMetadata>,
    network: Duration,
    total: Duration,
) -> Ended {
    let sample = receipt.map(|receipt| Sample {
        queued: receipt.queue,
        served: receipt.total.saturating_sub(receipt.queue),
        network,
        each: None,
    });
    let answered = Ended::Answered(Some(match load(metadata) {
        Some(load) => load.sample(sample, total),
        // Of a peer without receipts the round trip says it all.
        None => sample.unwrap_or(Sample { served: total, ..Sample::default() }),
    }));
    let Some(status) = failure else { return answered };
    if status.origin == Origin::Handler {
        if pushback(metadata).is_some() {
            return Ended::PushedBack;
        }
        let is_its_fault = matches!(status.code, Code::Unavailable | Code::Internal | Code::Unknown | Code::DataLoss);
        return if is_its_fault { Ended::Failed(total) } else { answered };
    }
    match status.reason {
        Reason::Infeasible | Reason::QueueFull | Reason::TooManyCalls | Reason::Expired(Check::Dequeue) => {
            Ended::PushedBack
        }
        Reason::Unreachable | Reason::GoingAway => Ended::Gone,
        Reason::ConnectionLost | Reason::Panicked | Reason::Violation | Reason::UnknownMethod => Ended::Failed(total),
        Reason::Expired(Check::Wait) => Ended::Unanswered(total),
        Reason::Expired(Check::Reply) | Reason::ReplyTooLarge if sample.is_some() => answered,
        Reason::Expired(_)
        | Reason::ReplyTooLarge
        | Reason::None
        | Reason::MessageTooLarge
        | Reason::Decode
        | Reason::Metadata
        | Reason::Cancelled
        | Reason::Unauthenticated
        | Reason::PermissionDenied
        | Reason::Other(_) => Ended::Undecided,
    }
}

/// A server that wants to be asked again later than this isn't.
const PUSHBACK_MOST: Duration = Duration::from_secs(60);

/// Whether another attempt at a call can help, and does no harm, and after which pause at least: it certainly never ran,
/// because its server is not there; or it may run twice (`repeatable`), and was lost on the way or found no service.
///
/// What was refused for want of time or room isn't sent again, unless the server says when (gRPC's A6): more calls are the last
/// thing that it needs.
pub(super) fn another_try(status: &Status, metadata: Option<&AnswerMetadata>, repeatable: bool) -> Option<Duration> {
    let helps = match status.reason {
        Reason::Unreachable | Reason::GoingAway if status.never_ran() => true,
        Reason::ConnectionLost => repeatable && status.origin != Origin::Handler,
        _ => repeatable && status.origin == Origin::Handler,
    };
    let unavailable = status.origin != Origin::Handler || status.code == Code::Unavailable;
    match pushback(metadata).filter(|_| status.origin == Origin::Handler) {
        None => (helps && unavailable).then_some(Duration::ZERO),
        Some(Pushback::Never) => None,
        Some(Pushback::After(millis)) => {
            let room = unavailable || status.code == Code::ResourceExhausted;
            Some(Duration::from_millis(millis.into())).filter(|pause| helps && room && *pause <= PUSHBACK_MOST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: Reason, origin: Origin) -> Status {
        Status { origin, ..Status::refused(reason, "") }
    }

    #[test]
    fn only_what_never_ran_is_made_again_unless_it_may_run_twice() {
        let tries = |status: &Status| [false, true].map(|repeatable| another_try(status, None, repeatable).is_some());
        for never_ran in [refused(Reason::Unreachable, Origin::Here), refused(Reason::GoingAway, Origin::Callee)] {
            assert_eq!(tries(&never_ran), [true, true]);
        }
        let unavailable = Status::new(Code::Unavailable, "").by_handler();
        for may_have_run in
            [refused(Reason::ConnectionLost, Origin::Here), refused(Reason::Unreachable, Origin::Handler), unavailable]
        {
            assert_eq!(tries(&may_have_run), [false, true], "{may_have_run:?}");
        }
        // For want of time or room; the handler's own answer; of no use anywhere.
        let checks = [Check::Send, Check::Enqueue, Check::Dequeue, Check::Reply, Check::Wait];
        let late = checks.map(Reason::Expired);
        let others = [Reason::Infeasible, Reason::QueueFull, Reason::TooManyCalls, Reason::MessageTooLarge]
            .into_iter()
            .chain([Reason::UnknownMethod, Reason::Panicked, Reason::Decode, Reason::Cancelled, Reason::Violation])
            .chain([Reason::Unauthenticated, Reason::PermissionDenied]);
        for reason in late.into_iter().chain(others) {
            assert_eq!(tries(&refused(reason, Origin::Callee)), [false, false], "{reason:?}");
        }
        assert_eq!(tries(&Status::new(Code::NotFound, "").by_handler()), [false, false]);
    }

    #[test]
    fn an_error_of_the_callers_making_is_an_answer_and_a_fault_of_the_servers_is_none() {
        let says = |status: Status| ended(&Outcome::local(status, Duration::from_millis(3)));
        assert!(matches!(says(Status::new(Code::NotFound, "").by_handler()), Ended::Answered(_)));
        assert!(matches!(says(Status::new(Code::Internal, "").by_handler()), Ended::Failed(_)));
        assert!(matches!(says(refused(Reason::Panicked, Origin::Callee)), Ended::Failed(_)));
        assert_eq!(says(refused(Reason::Unreachable, Origin::Here)), Ended::Gone);
        assert!(matches!(says(refused(Reason::Unreachable, Origin::Handler)), Ended::Failed(_)));
        assert_eq!(says(refused(Reason::QueueFull, Origin::Callee)), Ended::PushedBack);
        assert_eq!(
            says(refused(Reason::Expired(Check::Wait), Origin::Here)),
            Ended::Unanswered(Duration::from_millis(3))
        );
        assert_eq!(says(refused(Reason::Cancelled, Origin::Here)), Ended::Undecided);
    }

    fn trailer(name: &str, value: &[u8]) -> AnswerMetadata {
        let mut entries = Vec::new();
        crate::wire::push_meta(&mut entries, name, value).unwrap();
        AnswerMetadata { leading: None, trailing: Some(entries.into()) }
    }

    #[test]
    fn a_server_says_when_it_is_asked_again() {
        let tries = |code: Code, said: &[u8], repeatable| {
            let status = Status::new(code, "").by_handler();
            another_try(&status, Some(&trailer(Pushback::NAME, said)), repeatable)
        };
        for code in [Code::Unavailable, Code::ResourceExhausted] {
            assert_eq!(tries(code, b"20", true), Some(Duration::from_millis(20)));
            for (said, repeatable) in [(&b"-1"[..], true), (b"soon", true), (b"3600000", true), (b"20", false)] {
                assert_eq!(tries(code, said, repeatable), None);
            }
        }
        assert_eq!(tries(Code::Internal, b"20", true), None);
        let status = Status::new(Code::ResourceExhausted, "").by_handler();
        let pushed = of(Some(&status), None, Some(&trailer(Pushback::NAME, b"-1")), Duration::ZERO, Duration::ZERO);
        assert_eq!(pushed, Ended::PushedBack);
    }

    #[test]
    fn what_a_server_says_of_its_load_is_in_what_its_answers_say() {
        // Utilizations of 0.25 and 0.5, 100 calls a second; and the same with a wait of a second.
        let double = |key: u8, value: f64| [&[key << 3 | 1][..], &value.to_le_bytes()].concat();
        let report = [double(1, 0.25), double(9, 0.5), double(6, 100.0)].concat();
        let wait = [&b"\x42\x21\x0a\x16greenwave.wait_seconds"[..], &double(2, 1.0)].concat();
        let ms = Duration::from_millis;
        let says = |report: &[u8]| of(None, None, Some(&trailer(Load::NAME, report)), Duration::ZERO, ms(20));
        let sample = |queued, served, each| {
            Ended::Answered(Some(Sample { queued, served, network: Duration::ZERO, each: Some(each) }))
        };
        assert_eq!(says(&report), sample(ms(5), ms(15), ms(5)));
        assert_eq!(says(&[report, wait].concat()), sample(ms(1000), ms(0), Duration::from_micros(2500)));
        let nothing = Ended::Answered(Some(Sample { served: ms(20), ..Sample::default() }));
        assert_eq!(says(b"\xff"), nothing, "no report");
    }
}
