//! What a call with a long message each way costs: a server that answers with what it was sent, and a client, in one
//! process, one call at a time, blocking whenever there is nothing to do.
//!
//! ```text
//! cargo build --release -p greenwave-rpc --example long_call
//! valgrind --tool=callgrind target/release/examples/long_call epoll 1048576 100
//! valgrind --tool=callgrind target/release/examples/long_call epoll 1048576 300
//! ```
//! The difference of the totals, over 200, is what both sides together spend on a call, the kernel's copies left out.
//! Without valgrind the time that it prints is a hint of what those are worth.

use greenwave_rpc::{CallQueue, ChannelConfig, Context, MethodId, Router, Server, ServerConfig, Wait};
use greenwave_verbs::{Address, Choice};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let backend: Choice = arguments.next().as_deref().unwrap_or("epoll").parse()?;
    let bytes: usize = arguments.next().map_or(Ok(1 << 20), |count| count.parse())?;
    let calls: u32 = arguments.next().map_or(Ok(1000), |count| count.parse())?;
    let config = ServerConfig::default()
        .listen([Address::Tcp(([127, 0, 0, 1], 0).into())])
        .wait(Wait::Block)
        .backend(backend.clone());
    let router = Router::new().method("long.Long/Call", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let server = Server::start(config, router)?;
    let config = ChannelConfig::default().wait(Wait::Block).backend(backend);
    let mut stream = CallQueue::connect(&server.addresses()[0], &config)?;
    let (method, context) = (MethodId::of("long.Long/Call"), Context::with_deadline(Duration::from_secs(600)));
    let request = vec![7; bytes];
    let start = Instant::now();
    for _ in 0..calls {
        stream.submit(&context, method, &request, 0);
        while let Some(completion) = stream.take() {
            let reply = completion.result.map_err(|failure| failure.status)?;
            assert_eq!(reply.body.len(), bytes, "the reply is the request");
            stream.recycle(reply);
        }
    }
    println!("{bytes} bytes each way: {:.1} us a call", start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    Ok(())
}
