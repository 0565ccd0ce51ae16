//! An ordinary service of tonic's, with a method of each kind, in a Greenwave server: what tonic's own server would be given
//! is hosted instead, unchanged. The lines that are marked with `+` stand where those with `-` stood.
//!
//! `cargo run -p greenwave-tower --example tonic_hosted` serves it, and calls each method by tonic's client.

mod words;

use bytes::Bytes;
use greenwave_rpc::{Server, ServerConfig}; // +
use greenwave_tower::host; // +
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::server::NamedService;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status, Streaming};
use words::{Words, WordsClient, WordsServer};

/// The implementation, which is tonic's and tokio's alone.
struct Plain;

fn words_of(text: &Bytes) -> Vec<Bytes> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(Bytes::copy_from_slice).collect()
}

#[tonic::async_trait]
impl Words for Plain {
    async fn count(&self, text: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        // A timer of tokio's, as any service may have.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(Response::new(words_of(text.get_ref()).len().to_string().into()))
    }

    async fn split(&self, text: Request<Bytes>) -> Result<Response<BoxStream<Bytes>>, Status> {
        // A task of tokio's makes the answer.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for word in words_of(text.get_ref()) {
                if sender.send(Ok(word)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn join(&self, words: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status> {
        let (mut words, mut text) = (words.into_inner(), Vec::new());
        while let Some(word) = words.message().await? {
            text.push(word);
        }
        Ok(Response::new(text.join(&b' ').into()))
    }

    async fn shout(&self, words: Request<Streaming<Bytes>>) -> Result<Response<BoxStream<Bytes>>, Status> {
        let shouted = words.into_inner().map(|word| Ok(word?.to_ascii_uppercase().into()));
        Ok(Response::new(Box::pin(shouted)))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = WordsServer::new(Plain);
    // - Server::builder().add_service(service).serve(address).await?;
    let name = WordsServer::<Plain>::NAME; // +
    let router = host(service, name).on(tokio::runtime::Handle::current()).router(); // +
    let server = Server::start(ServerConfig::default().listen(["tcp://127.0.0.1:0".parse()?]), router)?; // +

    let address = server.addresses()[0].to_string().replace("tcp://", "http://");
    let mut client = WordsClient::new(Endpoint::from_shared(address)?.connect().await?);
    let mut request = Request::new(Bytes::from_static(b"four words and more"));
    request.set_timeout(Duration::from_millis(500));
    println!("{} words", text(&client.count(request).await?.into_inner()));
    let mut split = client.split(Request::new("one after the other".into())).await?.into_inner();
    while let Some(word) = split.message().await? {
        println!("- {}", text(&word));
    }
    let words = tokio_stream::iter(["all", "in", "one"].map(Bytes::from));
    println!("{}", text(&client.join(words).await?.into_inner()));
    let (sender, receiver) = mpsc::channel(1);
    let mut shouted = client.shout(Request::new(ReceiverStream::new(receiver))).await?.into_inner();
    for word in ["echo", "by", "echo"] {
        sender.send(word.into()).await?;
        println!("{word}: {}", shouted.message().await?.as_ref().map(text).unwrap_or_default());
    }
    Ok(())
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
