//! Calls of 64 bytes by tonic's client, 64 at a time: what a call by gRPC costs the server, in instructions.
//!
//! `valgrind --tool=callgrind --separate-threads=yes target/release/examples/null_grpc 20000`, and the same with more calls: the
//! difference of the server thread's files is that of the calls.

#[path = "../tests/as_is/mod.rs"]
mod as_is;

use as_is::AsIs;
use bytes::Bytes;
use greenwave_rpc::{Router, Server, ServerConfig, Wait};
use greenwave_verbs::Choice;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

const AT_ONCE: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: usize = std::env::args().nth(1).map_or(Ok(20_000), |calls| calls.parse())?;
    let router = Router::new().method("null.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let config = ServerConfig::default().listen(["tcp://127.0.0.1:0".parse()?]);
    let server = Server::start(config.wait(Wait::Block).backend(Choice::Epoll), router)?;
    let address = server.addresses()[0].to_string().replace("tcp", "http");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let channel = Endpoint::from_shared(address)?.tcp_nodelay(true).connect().await?;
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            let mut client = Grpc::new(channel.clone());
            callers.spawn(async move {
                let message = Bytes::from_static(&[7; 64]);
                for _ in 0..calls / AT_ONCE {
                    client.ready().await.map_err(|error| tonic::Status::unknown(error.to_string()))?;
                    let path = PathAndQuery::from_static("/null.Echo/Echo");
                    client.unary(Request::new(message.clone()), path, AsIs).await?;
                }
                Ok::<_, tonic::Status>(())
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        Ok(())
    })
}
