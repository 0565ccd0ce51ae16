//! tower services in a Greenwave server: tonic's generated servers as they are, whose futures are polled in coroutines.
//!
//! ```
//! # use bytes::Bytes;
//! # use greenwave_tower::RequestBody;
//! # use http::{Request, Response};
//! # use std::{convert::Infallible, future::Ready, task::{Context, Poll}};
//! # #[derive(Clone)]
//! # struct GreeterServer;
//! # impl tower_service::Service<Request<RequestBody>> for GreeterServer {
//! #     type Response = Response<RequestBody>;
//! #     type Error = Infallible;
//! #     type Future = Ready<Result<Self::Response, Infallible>>;
//! #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> { Poll::Ready(Ok(())) }
//! #     fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
//! #         std::future::ready(Ok(Response::new(request.into_body())))
//! #     }
//! # }
//! use greenwave_rpc::{Server, ServerConfig};
//! use greenwave_tower::host;
//!
//! // In place of `tonic::transport::Server::builder().add_service(GreeterServer::new(MyGreeter))`.
//! let router = host(GreeterServer, "hello.Greeter").unary("SayHello").router();
//! let server = Server::start(ServerConfig::default().listen(["tcp://127.0.0.1:0".parse()?]), router)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod descriptors;
mod request;
mod runtime;

pub use request::RequestBody;

use crate::clock::Clock;
use crate::context::Context;
use crate::trace::Trace;
use answer::Sink;
use greenwave_rpc::{Code, Router, Status, block_on};
use http::{Request, Response};
use http_body::Body;
use runtime::InRuntime;
use std::error::Error;
use std::future::poll_fn;
use tokio::runtime::Handle;
use tower_service::Service;

/// An error of a service's or a body's.
type BoxError = Box<dyn Error + Send + Sync>;

/// A service that a Greenwave server is to have: [`host`] makes it, [`router`](Self::router) gives the server's part.
#[derive(Clone, Debug)]
#[must_use = "a service is hosted by a server, as a part of its router"]
pub struct Hosted<S> {
    hosting: Hosting<S>,
    methods: Vec<Method>,
    descriptors: Option<&'static [u8]>,
}

/// What is needed to serve a call.
#[derive(Clone, Debug)]
struct Hosting<S> {
    service: S,
    name: String,
    runtime: Option<Handle>,
}

/// A method whose name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Method {
    name: String,
    streams: bool,
}

/// Why a service's methods can't be had from a `FileDescriptorSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The bytes are none.
    Malformed,
    /// There is no service of this name in it.
    NoService(String),
}

impl std::fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("these bytes are not a google.protobuf.FileDescriptorSet"),
            Self::NoService(name) => write!(f, "the FileDescriptorSet has no service {name}"),
        }
    }
}

impl Error for DescriptorError {}

/// Makes a tower service that speaks gRPC a part of a Greenwave server: a server that tonic has generated, with layers and
/// interceptors or without. `name` is the service's full name, `package.Service`, as tonic's `NamedService::NAME` has it.
///
/// A call is admitted, queued and counted as any other. Its handler's future is polled in a coroutine, on the server's own
/// thread; while it is pending others are served. It is dropped when the deadline passes, and when the client cancels. Built by
/// `cargo quanta`, it is preempted where it computes.
///
/// Within it [`Context::current`] is the request's, so [`PropagateService`](crate::PropagateService) passes the deadline on;
/// `greenwave_rpc::Context` is in the request's extensions, for calls by Greenwave's own channels. Blocking calls of those
/// suspend the coroutine in the middle of a poll: await `call_async` instead.
///
/// gRPC's clients can call all methods. Greenwave's own call methods by the ids of their names, so those that are to be called
/// by them have to be [named](Hosted::unary). A named method also has estimates of its own, by which it is admitted and put in
/// order; those without a name share one.
pub fn host<S>(service: S, name: impl Into<String>) -> Hosted<S> {
    Hosted { hosting: Hosting { service, name: name.into(), runtime: None }, methods: Vec::new(), descriptors: None }
}

impl<S> Hosted<S> {
    /// Polls its futures within this runtime: handlers that use tokio's timers, sockets or tasks need one. The runtime's own
    /// threads drive what these wait for, so it has to be one that runs by itself: of several threads, or blocked on elsewhere.
    pub fn on(mut self, runtime: Handle) -> Self {
        self.hosting.runtime = Some(runtime);
        self
    }

    /// Names a method that takes one message and answers one.
    pub fn unary(self, method: &str) -> Self {
        self.named(method, false)
    }

    /// Names a method whose request, answer or both are streams.
    pub fn streaming(self, method: &str) -> Self {
        self.named(method, true)
    }

    fn named(mut self, name: &str, streams: bool) -> Self {
        self.methods.push(Method { name: name.to_owned(), streams });
        self
    }

    /// Names all methods of the service that this `FileDescriptorSet` has (protobuf: tonic-build's `file_descriptor_set_path`), and
    /// has the server give it to clients that ask for it.
    ///
    /// # Errors
    /// When it can't be read, or the service is not in it.
    pub fn descriptors(mut self, set: &'static [u8]) -> Result<Self, DescriptorError> {
        self.methods.extend(descriptors::methods(set, &self.hosting.name)?);
        self.descriptors = Some(set);
        Ok(self)
    }
}

impl<S, B> Hosted<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    /// The server's part, to be merged with others or served as it is.
    #[must_use]
    pub fn router(self) -> Router {
        let Self { hosting, methods, descriptors } = self;
        let all = hosting.clone();
        let mut router = Router::new().hosted(&hosting.name, move |context, incoming, outgoing| {
            all.serve(context, RequestBody::stream(incoming), &mut Sink::Stream(outgoing))
        });
        for Method { name, streams } in methods {
            let (name, hosting) = (format!("{}/{name}", hosting.name), hosting.clone());
            router = if streams {
                router.streaming(&name, move |context, incoming, outgoing| {
                    hosting.serve(context, RequestBody::stream(incoming), &mut Sink::Stream(outgoing))
                })
            } else {
                router.method_bytes(&name, move |context, request, reply| {
                    hosting.serve(context, RequestBody::one(request), &mut Sink::One { reply, is_there: false })
                })
            };
        }
        descriptors.into_iter().fold(router, Router::descriptors)
    }
}

impl<S, B> From<Hosted<S>> for Router
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    fn from(hosted: Hosted<S>) -> Self {
        hosted.router()
    }
}

impl<S, B> Hosting<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    /// Serves a call in its handler.
    fn serve(&self, context: &greenwave_rpc::Context, body: RequestBody, sink: &mut Sink<'_>) -> Result<(), Status> {
        let mut request = request::request(context, body)?;
        let trace = Trace::of(request.headers()).unwrap_or_default();
        let own = Context::received(Clock::default(), context.birth(), context.deadline(), trace);
        request.extensions_mut().insert(own.clone());
        request.extensions_mut().insert(context.clone());
        let mut service = self.service.clone();
        let answered = async {
            poll_fn(|task| service.poll_ready(task)).await.map_err(failed)?;
            let response = service.call(request).await.map_err(failed)?;
            answer::pass_on(context, response, sink).await
        };
        block_on(context, InRuntime::new(self.runtime.clone(), own.scope(answered)))?
    }
}

/// The service gave no answer of gRPC's.
fn failed(error: impl Into<BoxError>) -> Status {
    Status::new(Code::Unknown, error.into().to_string())
}
