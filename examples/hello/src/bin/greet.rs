use greenwave::{Channel, ChannelConfig, Context};
use std::time::Duration;

#[allow(dead_code, missing_docs)]
mod hello {
    include!(concat!(env!("OUT_DIR"), "/hello.rs"));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "Ada".into());
    let channel = Channel::new("tcp://127.0.0.1:7300".parse()?, ChannelConfig::default())?;
    let client = hello::GreeterClient::new(channel);
    let context = Context::with_deadline(Duration::from_millis(50));
    let reply = client.greet(&context, &hello::GreetRequest { name })?;
    println!("{} ({:?}, of which {:?} in the handler)", reply.message.text, reply.total, reply.receipt.service);
    Ok(())
}
