use greenwave::{Context, Server, ServerConfig, Status};
use std::sync::Arc;
use std::time::Duration;

#[allow(dead_code, missing_docs)]
mod hello {
    include!(concat!(env!("OUT_DIR"), "/hello.rs"));
}

struct Polite;

impl hello::Greeter for Polite {
    fn greet(&self, context: &Context, request: hello::GreetRequest) -> Result<hello::GreetReply, Status> {
        let hurried = context.budget().remaining().is_some_and(|left| left < Duration::from_millis(1));
        let greeting = if hurried { "Hi" } else { "A very good morning to you," };
        Ok(hello::GreetReply { text: format!("{greeting} {}", request.name) })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = vec!["tcp://127.0.0.1:7300".parse()?];
    let config = ServerConfig::default().name("greeter").listen(listen);
    Server::start(config, hello::GreeterServer::new(Arc::new(Polite)))?.join();
    Ok(())
}
