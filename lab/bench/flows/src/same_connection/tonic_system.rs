//! gRPC by tonic, as it comes but for the length of messages; or with windows into which two of the large replies fit, so that none
//! ever waits for the client.
//!
//! A large reply is the same bytes each time, not copied before they are framed.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use greenwave_bench::grpc::{Calls, call, path};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use super::outcome::{Outcome, Part, Recording};
use super::{BULK, BULK_AT_ONCE, SMALL};

/// More than two large replies have.
const WINDOW: u32 = 32 << 20;

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

pub(super) fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        crate::load::begin();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let large = Bytes::from(vec![7; BULK]);
        let service = Calls(move |method: &str| {
            let large = (method == "Bulk").then(|| large.clone());
            move |request: Request<Bytes>| {
                ready(Ok(Response::new(large.clone().unwrap_or_else(|| request.into_inner()))))
            }
        });
        Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
    })
}

/// `wide`: with windows that hold what is asked for at once.
pub(super) fn measure(to: SocketAddr, wide: bool, apart: bool, time: Duration) -> anyhow::Result<Outcome> {
    runtime()?.block_on(async {
        let mut endpoint = Endpoint::from_shared(format!("http://{to}"))?.tcp_nodelay(true);
        if wide {
            endpoint = endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        }
        let small = endpoint.connect().await?;
        let bulk = if apart { endpoint.connect().await? } else { small.clone() };
        crate::load::begin();
        ask(&small, &bulk, Part::WARM_UP, Part::WARM_UP_TIME).await?;
        Ok(Outcome {
            idle: ask(&small, &bulk, Part::IDLE, time).await?,
            alone: ask(&small, &bulk, Part::ALONE, time).await?,
            both: ask(&small, &bulk, Part::BOTH, time).await?,
        })
    })
}

async fn ask(small: &Channel, bulk: &Channel, part: Part, time: Duration) -> anyhow::Result<Recording> {
    let recording = Arc::new(Mutex::new(Recording::new()));
    let begin = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..if part.bulk { BULK_AT_ONCE } else { 0 } {
        let (channel, path, recording) = (bulk.clone(), path("Bulk")?, Arc::clone(&recording));
        calls.spawn(async move {
            while begin.elapsed() < time {
                let reply = call(channel.clone(), path.clone(), Request::new(Bytes::new())).await?;
                lock(&recording).received(reply.len());
            }
            Ok::<_, Status>(())
        });
    }
    let mut made = 0;
    while begin.elapsed() < time {
        if !part.small {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let scheduled = lock(&recording).scheduled(made);
        made += 1;
        // Tokio's timers are no finer than a millisecond, so the last bit is given to other tasks instead.
        while Instant::now() < scheduled {
            tokio::task::yield_now().await;
        }
        let (channel, path, recording) = (small.clone(), path("Small")?, Arc::clone(&recording));
        calls.spawn(async move {
            call(channel, path, Request::new(Bytes::from_static(&[7; SMALL]))).await?;
            lock(&recording).answered(scheduled);
            Ok(())
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    let recording =
        Arc::into_inner(recording).map(|recording| recording.into_inner().unwrap_or_else(PoisonError::into_inner));
    recording.ok_or_else(|| anyhow::anyhow!("a call is still under way"))
}

fn lock(recording: &Mutex<Recording>) -> std::sync::MutexGuard<'_, Recording> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}
