//! What the outcome of a call says of the server that it was given to, and of making it again.

use crate::receipt::Receipt;
use crate::status::{Check, Code, Origin, Reason, Status};
use greenwave_policy::{Ended, Sample};
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use std::time::Duration;

/// What it says of the server.
pub(super) fn ended(outcome: &Outcome) -> Ended {
    let Outcome { result, receipt, network, total, .. } = outcome;
    of(result.as_ref().err(), receipt.as_ref(), *network, *total)
}

/// The same of a completion.
pub(super) fn completed(result: &Result<Reply, Failure>, total: Duration) -> Ended {
    match result {
        Ok(reply) => of(None, Some(&reply.receipt), reply.network, total),
        Err(failure) => of(Some(&failure.status), failure.receipt.as_deref(), Duration::ZERO, total),
    }
}

fn of(failure: Option<&Status>, receipt: Option<&Receipt>, network: Duration, total: Duration) -> Ended {
    let sample = receipt.map(|receipt| Sample {
        queued: receipt.queue,
        served: receipt.total.saturating_sub(receipt.queue),
        network,
    });
    // Of a peer without receipts the round trip says it all.
    let answered = Ended::Answered(sample.or(Some(Sample { served: total, ..Sample::default() })));
    let Some(status) = failure else { return answered };
    if status.origin == Origin::Handler {
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
        | Reason::Other(_) => Ended::Undecided,
    }
}

/// Whether another attempt at a call can help, and does no harm: it certainly never ran, because its server is not
/// there; or it may run twice (`repeatable`), and was lost on the way or found no service.
///
/// What was refused for want of time or room isn't sent again: more calls are the last thing such a server needs.
pub(super) fn is_worth_another_try(status: &Status, repeatable: bool) -> bool {
    match status.reason {
        Reason::Unreachable | Reason::GoingAway if status.never_ran() => true,
        Reason::ConnectionLost => repeatable && status.origin != Origin::Handler,
        _ => repeatable && status.origin == Origin::Handler && status.code == Code::Unavailable,
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
        let tries = |status: &Status| [false, true].map(|repeatable| is_worth_another_try(status, repeatable));
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
            .chain([Reason::UnknownMethod, Reason::Panicked, Reason::Decode, Reason::Cancelled, Reason::Violation]);
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
}
