//! tonic as a target of load: a task for each call, on a runtime of the generator's own thread.

use std::net::SocketAddr;

use bytes::Bytes;
use greenwave_bench::as_is::AsIs;
use greenwave_bench::capacity::OUT_OF_REACH;
use greenwave_bench::clock;
use greenwave_bench::target::{Answer, Reply, Request, Target};
use greenwave_policy::Time;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use crate::calls::{Calls, SERVICE};
use crate::calm::Reading;
use crate::target::{Served, Usage};

/// How many calls may be outstanding. Further ones are not sent and count as missed: it can't be served what is asked
/// for, and would take ever longer.
pub(crate) const MOST: usize = 4096;

/// With one alone it does less.
const CONNECTIONS: usize = 4;

pub(crate) struct Tonic {
    runtime: Runtime,
    channels: Vec<Channel>,
    /// For each class.
    paths: Vec<PathAndQuery>,
    outstanding: usize,
    sender: UnboundedSender<Over>,
    receiver: UnboundedReceiver<Over>,
}

/// A call that is over.
struct Over {
    tag: u64,
    received: Time,
    answer: Answer,
}

impl Tonic {
    pub(crate) fn connect(address: SocketAddr, calls: &Calls) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).buffer_size(MOST);
        let connect = async {
            let mut channels = Vec::new();
            for _ in 0..CONNECTIONS {
                channels.push(endpoint.connect().await?);
            }
            Ok::<_, anyhow::Error>(channels)
        };
        let channels = runtime.block_on(connect)?;
        let paths = calls.methods().map(|name| format!("/{SERVICE}/{name}").parse()).collect::<Result<_, _>>()?;
        let (sender, receiver) = unbounded_channel();
        Ok(Self { runtime, channels, paths, outstanding: 0, sender, receiver })
    }

    /// Lets the tasks go on once.
    fn turn(&self) {
        self.runtime.block_on(tokio::task::yield_now());
    }
}

impl Target for Tonic {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        if self.outstanding >= MOST {
            return Err("not-sent");
        }
        self.outstanding += 1;
        let tag = request.tag;
        let mut message = tonic::Request::new(Bytes::copy_from_slice(request.payload));
        if request.class.deadline < OUT_OF_REACH {
            message.set_timeout(request.expires().since(clock::now()));
        }
        // The low half of a tag is its slot.
        let channel = self.channels[(tag as u32) as usize % CONNECTIONS].clone();
        let (path, sender) = (self.paths[request.class_index].clone(), self.sender.clone());
        self.runtime.spawn(async move {
            let answer = match call(channel, message, path).await {
                Ok(()) => Answer::Ok,
                Err(Code::DeadlineExceeded | Code::Cancelled) => Answer::Miss("given-up"),
                Err(Code::ResourceExhausted) => Answer::Miss("queue-full"),
                Err(_) => Answer::Miss("error"),
            };
            // If the target is gone nobody wants to know.
            let _ = sender.send(Over { tag, received: clock::now(), answer });
        });
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        self.turn();
        while let Ok(Over { tag, received, answer }) = self.receiver.try_recv() {
            self.outstanding -= 1;
            sink(Reply { tag, received, answer, stages: &[] });
        }
    }

    fn wait(&mut self, until: Time) {
        while self.receiver.is_empty() && clock::now() < until {
            self.turn();
        }
    }
}

impl Served for Tonic {
    fn read(&mut self) {}

    fn readings(&self) -> &[Reading] {
        &[]
    }

    fn usage(&mut self) -> anyhow::Result<Option<Usage>> {
        Ok(None)
    }
}

async fn call(channel: Channel, message: tonic::Request<Bytes>, path: PathAndQuery) -> Result<(), Code> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|_| Code::Unavailable)?;
    client.unary(message, path, AsIs).await.map_err(|status| status.code())?;
    Ok(())
}
