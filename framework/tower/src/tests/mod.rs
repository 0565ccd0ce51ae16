//! The layers in tonic's server and client over TCP, and in axum's router. Time is what the tests say it is, but for
//! tonic's own timers, whose deadlines are so far off that they never ring.

mod axum_router;
#[path = "../../examples/tonic_layers/calls.rs"]
mod calls;
#[cfg(feature = "pool")]
mod pool;
mod services;
#[cfg(feature = "timer")]
mod timer;
mod tonic_admission;
mod tonic_deadlines;

use crate::clock::Clock;
use crate::{AdmissionLayer, DeadlineLayer, Settings};
use bytes::Bytes;
use calls::{Calls, call};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};

const SECOND: Duration = Duration::from_secs(1);

/// Time, as a test sets it.
#[derive(Clone, Debug)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000_000)))
    }

    fn clock(&self) -> Clock {
        Clock::Virtual(Arc::clone(&self.0))
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }

    fn deadlines(&self) -> DeadlineLayer {
        DeadlineLayer::with_clock(self.clock())
    }

    fn admission(&self, settings: Settings) -> AdmissionLayer {
        AdmissionLayer::with_clock(settings, self.clock())
    }
}

/// Serves with both layers, until the test ends.
async fn serve<F, H, A>(deadlines: DeadlineLayer, admission: AdmissionLayer, handlers: F) -> Channel
where
    F: FnMut(&str) -> H + Clone + Send + Sync + 'static,
    H: FnMut(Request<Bytes>) -> A + Send + 'static,
    A: Future<Output = Result<Response<Bytes>, Status>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = Server::builder().layer(deadlines).layer(admission).add_service(Calls(handlers));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Endpoint::from_shared(format!("http://{address}")).expect("an address").connect_lazy()
}

/// A message without a deadline.
fn message(text: &'static str) -> Request<Bytes> {
    Request::new(Bytes::from_static(text.as_bytes()))
}

/// A message, and how long its answer is waited for.
fn within(left: Duration, text: &'static str) -> Request<Bytes> {
    let mut message = message(text);
    message.set_timeout(left);
    message
}

fn reply(text: String) -> Result<Response<Bytes>, Status> {
    Ok(Response::new(text.into()))
}

fn text(reply: Result<Response<Bytes>, Status>) -> Result<String, Code> {
    reply.map(|reply| String::from_utf8_lossy(reply.get_ref()).into_owned()).map_err(|status| status.code())
}

/// Lets all others go on until something holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_example_marks_as_many_lines_as_it_says() {
    let example = include_str!("../../examples/tonic_layers/main.rs");
    let code = example.lines().filter(|line| !line.starts_with("//"));
    assert_eq!(code.filter(|line| line.contains("// +")).count(), 10);
}
