//! What a call costs in instructions: a server and a client in one process, blocking whenever there is nothing to do, so
//! that all that is counted is work.
//!
//! ```text
//! cargo build --release -p greenwave-rpc --example null_call
//! valgrind --tool=callgrind target/release/examples/null_call 20000
//! valgrind --tool=callgrind target/release/examples/null_call 120000
//! ```
//! The difference of the totals, over 100,000, is what both sides together spend on a call.

use greenwave_rpc::{CallQueue, ChannelConfig, MethodId, Router, Server, ServerConfig, Wait};
use greenwave_verbs::{Address, Choice};
use std::time::Duration;

/// As many calls are written at once, and answered at once.
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: usize = std::env::args().nth(1).map_or(Ok(20_000), |count| count.parse())?;
    let config = ServerConfig::default()
        .listen([Address::Tcp(([127, 0, 0, 1], 0).into())])
        .wait(Wait::Block)
        .backend(Choice::Epoll);
    let router = Router::new().method("null.Null/Call", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let server = Server::start(config, router)?;
    let config = ChannelConfig::default().wait(Wait::Block).backend(Choice::Epoll);
    let mut stream = CallQueue::connect(&server.addresses()[0], &config)?;
    let (method, expected) = (MethodId::of("null.Null/Call"), Duration::from_secs(600));
    for _ in 0..calls / BATCH {
        (0..BATCH).for_each(|_| stream.submit_within(expected, method, &[7; 64], 0));
        while let Some(completion) = stream.take() {
            stream.recycle(completion.result.map_err(|failure| failure.status)?);
        }
    }
    Ok(())
}
