//! Services that do what servers shouldn't, called without a server.

use super::*;
use crate::{AdmissionConfig, Context};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::task::{Context as Task, Poll, Waker};
use tower_layer::Layer;
use tower_service::Service;

/// A service made of a function.
#[derive(Clone)]
struct By<F>(F);

impl<F, A, B, R> Service<http::Request<A>> for By<F>
where
    F: FnMut(http::Request<A>) -> R,
    R: Future<Output = http::Response<B>> + Send + 'static,
{
    type Response = http::Response<B>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<A>) -> Self::Future {
        let response = (self.0)(request);
        Box::pin(async move { Ok(response.await) })
    }
}

/// Says what is left of the deadline as it is sent.
struct Left;

impl Body for Left {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let left = Context::current().map(|context| context.remaining());
        Poll::Ready(Some(Ok(Frame::data(format!("{left:?}").into()))))
    }
}

fn request(timeout: &'static str) -> http::Request<()> {
    http::Request::get("/").header("grpc-timeout", timeout).body(()).expect("it is sound")
}

#[tokio::test]
async fn a_body_that_is_made_while_it_is_sent_inherits_the_deadline() {
    let hand = Hand::new();
    let answer = By(|_: http::Request<()>| async { http::Response::new(Left) });
    let mut service = hand.deadlines().layer(hand.admission(Settings::default()).layer(answer));
    let mut response = service.call(request("7S")).await.expect("it never fails");
    hand.pass(3 * SECOND);
    let frame = std::future::poll_fn(|task| pin!(response.body_mut()).poll_frame(task)).await;
    let sent = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
    assert_eq!(sent.as_deref(), Some(&b"Some(Some(4s))"[..]));
}

#[tokio::test]
async fn of_two_layers_the_first_says_when_it_arrived_and_the_least_deadline_counts() {
    let hand = Hand::new();
    let seen = By(|request: http::Request<()>| async move {
        http::Response::new(request.extensions().get::<Context>().map(|seen| (seen.arrived(), seen.remaining())))
    });
    let outer = Context::made(hand.clock(), crate::Budget::expected(7 * SECOND));
    hand.pass(SECOND);
    for (most, left) in [(5, 5), (50, 6)] {
        let mut request = request("20S");
        request.extensions_mut().insert(outer.clone());
        let response = hand.deadlines().at_most(most * SECOND).layer(seen.clone()).call(request).await;
        let response = response.expect("it never fails");
        assert_eq!(response.body().inner(), Some(&Some((outer.arrived(), Some(left * SECOND)))));
    }
}

#[tokio::test]
async fn a_handler_that_panics_gives_its_permit_back() {
    let hand = Hand::new();
    let admission = hand.admission(Settings::default().permits(1));
    let panics =
        By(|_: http::Request<()>| async { if true { panic!("as it should") } else { http::Response::new(()) } });
    let mut service = admission.layer(panics);
    let mut served = Box::pin(service.call(request("7S")));
    let mut task = Task::from_waker(Waker::noop());
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| served.as_mut().poll(&mut task)));
    assert!(panicked.is_err());
    drop(served);
    assert_eq!((admission.counters().running, admission.counters().abandoned), (0, 1));
}

/// Threads that call and go away: never more are served than there are permits, and in the end all of them are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_that_come_and_go_at_once_lose_no_permit() {
    const PERMITS: usize = 3;
    const CALLERS: usize = 32;
    const CALLS: usize = 200;
    let settings = Settings::default().permits(PERMITS).admission(AdmissionConfig::default().max_queue(CALLERS / 2));
    let admission = AdmissionLayer::new(settings).expect("it is sound");
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, high) = (Arc::clone(&running), Arc::clone(&most));
    let service = admission.layer(By(move |_: http::Request<()>| {
        let (now, high) = (Arc::clone(&now), Arc::clone(&high));
        async move {
            let inside = Inside(now);
            high.fetch_max(inside.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            http::Response::new(())
        }
    }));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let mut service = service.clone();
            tokio::spawn(async move {
                for call in 0..CALLS {
                    let served = service.call(http::Request::new(()));
                    if (caller + call) % 3 == 0 {
                        // It goes away after it was looked at once.
                        let mut served = pin!(served);
                        std::future::poll_fn(|task| Poll::Ready(served.as_mut().poll(task).is_ready())).await;
                    } else {
                        served.await.expect("it never fails");
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("nobody panicked");
    }
    assert!(most.load(Ordering::SeqCst) <= PERMITS);
    let counters = admission.counters();
    assert_eq!((counters.running, counters.waiting, running.load(Ordering::SeqCst)), (0, 0, 0));
    assert_eq!(counters.arrived, (CALLERS * CALLS) as u64);
    assert!(counters.in_time > 0 && counters.left + counters.abandoned > 0);
}

/// Counted for as long as it is there.
struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
