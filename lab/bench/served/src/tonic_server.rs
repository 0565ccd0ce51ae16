//! tonic's server with the same handlers: run where they are called, or as jobs of a pool that suspends them.
//!
//! The pool's threads share the server's core with tokio's. Where all calls go there nobody spins; where the long ones do,
//! tokio's thread and the pool's give one another the core, the one when it finds nothing to do, the other after each
//! quantum. Without a pool tokio is alone on it, and polls without ever sleeping, as the other servers do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use greenwave_bench::grpc::{self, Calls};
use greenwave_policy::Order;
use greenwave_quanta::Pool;
use greenwave_quanta::pool::Terms;
use greenwave_tower::{AdmissionLayer, DeadlineLayer, Settings};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::calls::{is_long, methods};
use crate::case::Mix;
use crate::work::Kernel;

/// What is around the handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    Nothing,
    /// What tonic itself has against overload.
    Limits,
    /// They are jobs of a pool.
    Pool,
    /// They are admitted by the layers of `greenwave-tower`, and the long ones are jobs of a pool that goes by
    /// deadlines.
    Layers,
}

/// How many calls tonic serves at once on a connection before it sheds.
const LIMIT: usize = 32;

/// How many calls there may be on a connection; others wait at the client. With hundreds each of them costs tonic more, and
/// it doesn't work off what has piled up.
const STREAMS: u32 = 64;

/// How many calls are served at once with our layers: all that there may be on the connections, as the pool bounds the long
/// ones.
const PERMITS: usize = 4096;

/// How many long calls there are at most with our layers. With more, those that wait would keep short ones off the
/// connections.
const LONG: usize = 64;

/// How long the pool has the core before tokio looks for what is to be read: with less tokio finds a call at a time, and
/// calls cost it twice as much.
const QUANTUM: Duration = Duration::from_micros(100);

/// Serves until standard input ends.
pub(crate) fn serve(mix: Mix, around: Around) -> anyhow::Result<()> {
    let with_pool = matches!(around, Around::Pool | Around::Layers);
    let mut builder = Pool::builder().workers(1).spin(Duration::ZERO);
    if around == Around::Layers {
        builder = builder.order(Order::EarliestDeadline).yields(true).quantum(QUANTUM).capacity(LONG);
    }
    let pool = with_pool.then(|| builder.build()).transpose()?.map(Arc::new);
    let kernels: HashMap<&str, Kernel> = methods(mix).inspect(|(_, kernel)| kernel.prepare()).collect();
    let kernels = Arc::new(kernels);
    let service = Calls(move |method: &str| {
        // Who writes a service knows which of its methods compute for long.
        let goes_to_pool = around == Around::Pool || is_long(mix, method);
        let (kernel, pool) = (kernels.get(method).copied(), pool.clone().filter(|_| goes_to_pool));
        move |request| answer(kernel, pool.clone(), request)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if around != Around::Pool {
        runtime.spawn(async move {
            loop {
                if with_pool {
                    std::thread::yield_now();
                }
                tokio::task::yield_now().await;
            }
        });
    }
    runtime.block_on(async {
        let mut server = Server::builder().max_concurrent_streams(STREAMS);
        let incoming = grpc::listen().await?;
        match around {
            Around::Nothing | Around::Pool => Ok(server.add_service(service).serve_with_incoming(incoming).await?),
            Around::Limits => {
                let server = server.concurrency_limit_per_connection(LIMIT).load_shed(true);
                Ok({ server }.add_service(service).serve_with_incoming(incoming).await?)
            }
            Around::Layers => {
                // A long call keeps its permit while it is in the pool, and short ones should not wait for those.
                let admission = AdmissionLayer::new(Settings::default().permits(PERMITS))?;
                let server = server.layer(DeadlineLayer::new()).layer(admission);
                Ok({ server }.add_service(service).serve_with_incoming(incoming).await?)
            }
        }
    })
}

/// Does what a method does, here or in the pool.
async fn answer(
    kernel: Option<Kernel>,
    pool: Option<Arc<Pool>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Status> {
    let kernel = kernel.ok_or_else(|| Status::unimplemented("no such method"))?;
    let terms = Terms::from(timeout(&request));
    let message = request.into_inner();
    let found = match pool {
        None => kernel.run(&message),
        Some(pool) => {
            let job = pool.try_spawn(terms, move || kernel.run(&message));
            let job = job.map_err(|full| Status::resource_exhausted(full.to_string()))?;
            job.await.map_err(|error| Status::deadline_exceeded(error.to_string()))?
        }
    };
    let found = found.ok_or_else(|| Status::invalid_argument("no order"))?;
    Ok(Response::new(Bytes::copy_from_slice(&found)))
}

/// How soon the answer has to be there, as gRPC writes it: up to eight digits and a unit.
fn timeout(request: &Request<Bytes>) -> Option<Duration> {
    parsed(request.metadata().get("grpc-timeout")?.to_str().ok()?)
}

fn parsed(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let nanos = match unit {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "S" => 1_000_000_000,
        "M" => 60_000_000_000,
        "H" => 3_600_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(digits.parse::<u64>().ok()?.saturating_mul(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_they_are_written() {
        let mut request = Request::new(Bytes::new());
        for micros in [7, 1500, 20_000, 500_000_000] {
            request.set_timeout(Duration::from_micros(micros));
            assert_eq!(timeout(&request), Some(Duration::from_micros(micros)));
        }
        assert_eq!([parsed(""), parsed("7"), parsed("7x"), parsed("n")], [None; 4]);
    }
}
