//! Requests end when their deadline passes, on both sides.

use super::axum_router::{request, status_and_text};
use super::*;
use crate::{Context, DeadlineService, PropagateService};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::StatusCode;
use std::convert::Infallible;
use tower_layer::Layer;
use tower_service::Service;

/// Never answers.
#[derive(Clone)]
struct Silent;

impl<A> Service<http::Request<A>> for Silent {
    type Response = http::Response<String>;
    type Error = Infallible;
    type Future = std::future::Pending<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<A>) -> Self::Future {
        std::future::pending()
    }
}

#[tokio::test]
async fn a_handler_that_never_answers_is_given_up_and_its_permit_given_back() {
    let admission = AdmissionLayer::new(Settings::default().permits(1)).expect("it is sound");
    let handler = get(std::future::pending::<()>);
    let mut app: Router = Router::new().route("/", handler).layer(admission.clone()).layer(DeadlineLayer::new());
    let (one, other) = tokio::join!(app.call(request("5m")), app.clone().call(request("5m")));
    for response in [one, other] {
        let (status, text) = status_and_text(response.expect("routers never fail")).await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{text}");
    }
    assert_eq!((admission.counters().running, admission.counters().waiting), (0, 0));
}

#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_until_the_deadline() {
    let inherited = Context::with_deadline(Duration::from_millis(5));
    let mut client = PropagateService::new(Silent);
    let response = inherited.scope(async move { client.call(http::Request::new(Body::empty())).await }).await;
    assert_eq!(response.map(|response| response.status()), Ok(StatusCode::GATEWAY_TIMEOUT));
}

#[tokio::test]
async fn a_default_deadline_ends_a_request_that_has_none() {
    let mut service: DeadlineService<Silent> =
        DeadlineLayer::new().default_deadline(Duration::from_millis(5)).layer(Silent);
    let response = service.call(http::Request::new(())).await;
    assert_eq!(response.map(|response| response.status()), Ok(StatusCode::GATEWAY_TIMEOUT));
}
