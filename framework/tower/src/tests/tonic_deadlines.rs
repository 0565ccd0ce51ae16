//! Deadlines come in, go along, and go out again.

use super::*;
use crate::{Context, PropagateService};
use std::sync::atomic::AtomicUsize;
use tonic::metadata::MetadataValue;

fn left() -> String {
    format!("{:?}", Context::current().map(|context| context.remaining()))
}

#[tokio::test]
async fn a_handler_sees_its_deadline_in_its_task_and_in_the_extensions() {
    let hand = Hand::new();
    let clock = hand.clone();
    let handlers = move |_: &str| {
        let hand = clock.clone();
        move |request: Request<Bytes>| {
            hand.pass(3 * SECOND);
            let extension = request.extensions().get::<Context>().and_then(Context::remaining);
            async move {
                let spawned = tokio::spawn(async { left() }).await.expect("it ends");
                reply(format!("{} {extension:?} {spawned}", left()))
            }
        }
    };
    let channel = serve(hand.deadlines(), hand.admission(Settings::default()), handlers).await;
    let seen = text(call(channel.clone(), "Any", within(20 * SECOND, "")).await);
    assert_eq!(seen.as_deref(), Ok("Some(Some(17s)) Some(17s) None"), "a task that is spawned serves no request");
    let seen = text(call(channel, "Any", message("")).await);
    assert_eq!(seen.as_deref(), Ok("Some(None) None None"), "without a deadline there is a context all the same");
}

#[tokio::test]
async fn the_least_of_what_is_said_counts_and_a_header_that_anybody_can_write_only_if_trusted() {
    let hand = Hand::new();
    let default = hand.deadlines().default_deadline(90 * SECOND).at_most(60 * SECOND);
    for (layer, said, seen) in [
        (default.clone(), &[][..], "60s"),
        (default.clone(), &[("grpc-timeout", "30S")], "30s"),
        (default.clone(), &[("grpc-timeout", "2M")], "60s"),
        (default.clone(), &[("x-envoy-expected-rq-timeout-ms", "40000")], "60s"),
        (default.clone().trust_envoy(true), &[("x-envoy-expected-rq-timeout-ms", "40000")], "40s"),
        (
            default.clone().trust_envoy(true),
            &[("x-envoy-expected-rq-timeout-ms", "40000"), ("grpc-timeout", "30S")],
            "30s",
        ),
    ] {
        let handlers = |_: &str| |_: Request<Bytes>| async { reply(left()) };
        let channel = serve(layer, hand.admission(Settings::default()), handlers).await;
        let mut message = message("");
        for (name, value) in said {
            message.metadata_mut().insert(*name, MetadataValue::from_static(value));
        }
        assert_eq!(text(call(channel, "Any", message).await), Ok(format!("Some(Some({seen}))")), "{said:?}");
    }
}

#[tokio::test]
async fn a_malformed_timeout_is_an_invalid_argument_and_never_served() {
    let hand = Hand::new();
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let handlers = move |_: &str| {
        count.fetch_add(1, Ordering::Relaxed);
        |_: Request<Bytes>| async { reply(String::new()) }
    };
    let channel = serve(hand.deadlines(), hand.admission(Settings::default()), handlers).await;
    for bad in ["5", "5s", "S", "123456789n", "-1S", "1.5S", "soon"] {
        let mut message = message("");
        message.metadata_mut().insert("grpc-timeout", MetadataValue::from_static(bad));
        let refused = call(channel.clone(), "Any", message).await.expect_err("it is malformed");
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
        assert!(refused.message().contains("grpc-timeout"), "{}", refused.message());
    }
    assert_eq!(served.load(Ordering::Relaxed), 0);
}

/// A front whose handler spends the time that its message says, in seconds, and then calls a back. The latter says what it
/// has left, and the trace that it is in.
async fn front_and_back(hand: &Hand, tell: impl Fn(&mut Request<Bytes>) + Clone + Send + Sync + 'static) -> Channel {
    let at_back = |_: &str| {
        |request: Request<Bytes>| async move {
            let trace = ["traceparent", "tracestate"].map(|name| request.metadata().get(name).cloned());
            reply(format!("{} {trace:?}", left()))
        }
    };
    let back = serve(hand.deadlines(), hand.admission(Settings::default()), at_back).await;
    let clock = hand.clone();
    let at_front = move |_: &str| {
        let (hand, back, tell) = (clock.clone(), PropagateService::new(back.clone()), tell.clone());
        move |request: Request<Bytes>| {
            let (hand, back, tell) = (hand.clone(), back.clone(), tell.clone());
            async move {
                let spends: u32 = String::from_utf8_lossy(request.get_ref()).parse().expect("a number");
                hand.pass(spends * SECOND);
                let mut message = message("");
                tell(&mut message);
                call(back, "Back", message).await
            }
        }
    };
    serve(hand.deadlines(), hand.admission(Settings::default()), at_front).await
}

#[tokio::test]
async fn a_call_inherits_what_is_left_and_the_trace() {
    let front = front_and_back(&Hand::new(), |_| {}).await;
    let mut message = within(20 * SECOND, "5");
    message.metadata_mut().insert("traceparent", MetadataValue::from_static("00-4bf92f-00f067-01"));
    message.metadata_mut().insert("tracestate", MetadataValue::from_static("vendor=1"));
    let seen = text(call(front.clone(), "Front", message).await);
    assert_eq!(seen.as_deref(), Ok(r#"Some(Some(15s)) [Some("00-4bf92f-00f067-01"), Some("vendor=1")]"#));
    let seen = text(call(front, "Front", super::message("5")).await);
    assert_eq!(seen.as_deref(), Ok("Some(None) [None, None]"), "there is nothing to inherit");
}

#[tokio::test]
async fn a_call_may_have_less_time_than_its_request_and_never_more() {
    for (own, seen) in [(2, "2s"), (500, "15s")] {
        let front = front_and_back(&Hand::new(), move |message| message.set_timeout(own * SECOND)).await;
        let answer = text(call(front, "Front", within(20 * SECOND, "5")).await);
        assert_eq!(answer, Ok(format!("Some(Some({seen})) [None, None]")));
    }
}

#[tokio::test]
async fn a_call_whose_time_is_up_is_not_sent() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let nobody = Channel::from_static("http://127.0.0.1:1").connect_lazy();
    let hand = Hand::new();
    let clock = hand.clone();
    let handlers = move |_: &str| {
        let (hand, nobody, count) = (clock.clone(), PropagateService::new(nobody.clone()), Arc::clone(&count));
        move |_: Request<Bytes>| {
            let (hand, nobody, count) = (hand.clone(), nobody.clone(), Arc::clone(&count));
            async move {
                hand.pass(20 * SECOND);
                count.fetch_add(1, Ordering::Relaxed);
                call(nobody, "Nobody", message("")).await
            }
        }
    };
    let channel = serve(hand.deadlines(), hand.admission(Settings::default()), handlers).await;
    let refused = call(channel, "Any", within(20 * SECOND, "")).await.expect_err("the time is up");
    assert_eq!((refused.code(), sent.load(Ordering::Relaxed)), (Code::DeadlineExceeded, 1));
    assert!(refused.message().starts_with("not sent"), "{}", refused.message());
}

#[tokio::test]
async fn detached_work_inherits_the_trace_alone() {
    let hand = Hand::new();
    let context = Context::made(hand.clock(), crate::Budget::expected(5 * SECOND));
    let inner = context.clone().scope(async { Context::current().map(|context| context.detach().remaining()) });
    assert_eq!(inner.await, Some(None));
    let tighter = context.tighten(2 * SECOND);
    hand.pass(SECOND);
    assert_eq!((tighter.remaining(), context.remaining()), (Some(SECOND), Some(4 * SECOND)));
    assert_eq!(tighter.tighten(9 * SECOND).remaining(), Some(SECOND));
}
