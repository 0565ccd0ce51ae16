//! An ordinary service of tonic's, a front that calls a back, with Greenwave's layers: the ten lines that are marked with `+`
//! are all that it takes, two of which only print what is there to be seen. All else is as it was.
//!
//! `cargo run -p greenwave-tower --example tonic_layers` serves both methods, calls the front with half a
//! second, and prints what was left of that in each of them.

mod calls;

use bytes::Bytes;
use calls::{Calls, call};
use greenwave_tower::{AdmissionLayer, Context, DeadlineLayer, Pool, PropagateService, on_pool}; // +
use std::error::Error;
use std::sync::LazyLock; // +
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::builder().build().expect("the pool's settings are sound")); // +

/// Passes a text on.
async fn front(channel: Channel, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    println!("front: {:?} left", Context::current().and_then(|request| request.remaining())); // +
    let channel = PropagateService::new(channel); // +
    call(channel, "Back", Request::new(request.into_inner())).await
}

/// Counts words.
async fn back(request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    println!("back: {:?} left", Context::current().and_then(|request| request.remaining())); // +
    let text = request.into_inner();
    let count = move || text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    let words = on_pool(&POOL, count).await; // + in place of `let words = count();`
    let words = words.map_err(|error| Status::new(error.grpc_code().into(), error.to_string()))?; // +
    Ok(Response::new(words.to_string().into()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let channel = Endpoint::from_shared(format!("http://{}", listener.local_addr()?))?.connect_lazy();
    let to_itself = channel.clone();
    let service = Calls(move |method: &str| {
        let (is_back, channel) = (method == "Back", to_itself.clone());
        move |request| {
            let channel = channel.clone();
            async move { if is_back { back(request).await } else { front(channel, request).await } }
        }
    });
    let server = Server::builder()
        .layer(DeadlineLayer::new()) // +
        .layer(AdmissionLayer::default()) // +
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);

    let mut request = Request::new(Bytes::from_static(b"four words and more"));
    request.set_timeout(Duration::from_millis(500));
    let reply = call(channel, "Front", request).await?.into_inner();
    println!("{} words", String::from_utf8_lossy(&reply));
    Ok(())
}
