//! What isn't gRPC is refused by HTTP's own statuses, with a text.

use super::*;
use crate::{AdmissionConfig, Context};
use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::routing::get;
use http::StatusCode;
use std::pin::pin;
use std::task::Poll;
use tower_service::Service;

/// Whether it is ready, after one poll.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

pub(super) fn request(timeout: &'static str) -> http::Request<Body> {
    http::Request::get("/").header("grpc-timeout", timeout).body(Body::empty()).expect("it is sound")
}

pub(super) async fn status_and_text(response: http::Response<Body>) -> (StatusCode, String) {
    let (status, body) = (response.status(), response.into_body());
    let text = axum::body::to_bytes(body, 1000).await.expect("it is short");
    (status, String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn refusals_have_a_status_and_a_text() {
    let hand = Hand::new();
    let settings = Settings::default().permits(1).admission(AdmissionConfig::default().max_queue(1));
    let admission = hand.admission(settings);
    let handler = || async {
        let left = Context::current().and_then(|request| request.remaining());
        if left.is_none_or(|left| left > 9 * SECOND) {
            std::future::pending::<()>().await;
        }
        format!("{left:?}")
    };
    let mut app: Router = Router::new().route("/", get(handler)).layer(admission.clone()).layer(hand.deadlines());

    let served = app.call(request("3S")).await.expect("routers never fail");
    assert_eq!(status_and_text(served).await, (StatusCode::OK, "Some(3s)".into()));

    let mut running = Box::pin(app.call(request("20S")));
    assert!(poll(running.as_mut()).is_pending());
    let mut waiting = pin!(app.call(request("3S")));
    assert!(poll(waiting.as_mut()).is_pending());
    let (status, text) = status_and_text(app.call(request("3S")).await.expect("routers never fail")).await;
    assert_eq!((status, text.contains("queue is full")), (StatusCode::SERVICE_UNAVAILABLE, true), "{text}");
    let (status, text) = status_and_text(app.call(request("soon")).await.expect("routers never fail")).await;
    assert_eq!((status, text.contains("malformed")), (StatusCode::BAD_REQUEST, true), "{text}");

    hand.pass(3 * SECOND);
    drop(running);
    let (status, text) = status_and_text(waiting.await.expect("routers never fail")).await;
    assert_eq!((status, text.contains("deadline passed")), (StatusCode::GATEWAY_TIMEOUT, true), "{text}");
    assert_eq!((admission.counters().abandoned, admission.counters().running), (1, 0));
}

#[tokio::test]
async fn paths_with_parameters_can_be_one_method() {
    let hand = Hand::new();
    let settings = Settings::default()
        .method_of(|uri, extensions| extensions.get::<MatchedPath>().map_or(uri.path(), MatchedPath::as_str));
    let admission = hand.admission(settings);
    let mut app: Router = Router::new().route("/users/{id}", get(|| async {})).layer(admission.clone());
    for path in ["/users/1", "/users/2", "/nothing", "/here"] {
        let request = http::Request::get(path).body(Body::empty()).expect("it is sound");
        app.call(request).await.expect("routers never fail");
    }
    let counters = admission.counters();
    assert_eq!((counters.methods, counters.in_time, counters.failed), (1, 2, 2));
}
