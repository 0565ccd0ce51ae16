//! The client and the server that `greenwave-build` makes of a `.proto`, used as the README does.

use std::sync::Arc;

use greenwave::{Channel, Context, Router, Status};

use super::DEADLINE;
use super::clients::{Echo, ensure_length};

#[allow(dead_code, missing_docs, unreachable_pub)]
mod made {
    include!(concat!(env!("OUT_DIR"), "/peers.typed.rs"));
}

use made::{EchoClient, EchoServer, Message};

/// Messages of a generated type.
#[derive(Clone)]
pub(super) struct Typed {
    client: EchoClient,
    message: Message,
}

impl Echo for Typed {
    fn over(channel: Channel, bytes: usize) -> Self {
        Self { client: EchoClient::new(channel), message: Message { text: "t".repeat(bytes) } }
    }

    fn call(&self) -> anyhow::Result<()> {
        let reply = self.client.echo(&Context::with_deadline(DEADLINE), &self.message);
        ensure_length(reply.map_err(|failure| failure.status)?.message.text.len(), self.message.text.len())
    }

    async fn call_async(&self) -> anyhow::Result<()> {
        let reply = self.client.echo_async(&Context::with_deadline(DEADLINE), &self.message).await;
        ensure_length(reply.map_err(|failure| failure.status)?.message.text.len(), self.message.text.len())
    }
}

struct Same;

impl made::Echo for Same {
    fn echo(&self, _: &Context, request: Message) -> Result<Message, Status> {
        Ok(request)
    }
}

/// Serves them.
pub(super) fn router() -> Router {
    EchoServer::new(Arc::new(Same)).into()
}
