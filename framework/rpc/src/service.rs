//! What a server can be asked: methods by name, and the handler of each.

mod access;

use crate::authorize::{Authorize, Rules};
use crate::config::ServerConfig;
use crate::context::Context;
use crate::local;
use crate::status::{Code, Status};
use crate::stream::{Incoming, Outgoing};
use crate::transcoding::{Decompression, Types};
use crate::wire::MethodId;
use bytes::Bytes;
use greenwave_grpc::{Methods, Named};
use greenwave_proto::compression::{Encodings, Undecodable};
use greenwave_proto::{Coding, Format, Limits};
use greenwave_web::WebSettings;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Answers one method: reads the request's bytes, appends the reply's to the buffer.
///
/// Plain blocking Rust. It runs in a coroutine on a cluster or worker thread, so a nested call suspends it and not the
/// thread; what blocks in the kernel blocks its cluster.
pub type Handler = Arc<dyn Fn(&Context, &[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync>;

/// Like a [`Handler`], but the request is its own: it may keep it, or slices of it, for as long as it likes, without a copy.
pub type KeepingHandler = Arc<dyn Fn(&Context, Bytes, &mut Vec<u8>) -> Result<(), Status> + Send + Sync>;

/// Serves one method whose request, answer or both are streams of messages. It runs in a coroutine as a [`Handler`] does;
/// the answer ends with it, by what it returns.
pub type StreamHandler = Arc<dyn Fn(&Context, Incoming, Outgoing) -> Result<(), Status> + Send + Sync>;

/// The methods of a server. Made once, before the server starts.
#[derive(Clone, Default)]
pub struct Router {
    methods: Vec<Method>,
    by_id: HashMap<MethodId, usize, BuildHasherDefault<Hashed>>,
    descriptors: Vec<&'static [u8]>,
    types: Types,
    decompression: Option<Decompression>,
    /// The longest request in JSON, in bytes.
    json_bytes: Option<usize>,
    conflict: Option<Conflict>,
    rules: Rules,
}

/// The hash of what is a hash already. Peers choose what is looked up, and not what is there to collide with.
#[derive(Clone, Copy, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// One method and its handler.
#[derive(Clone)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    handler: Either,
    compresses: bool,
    /// Who decides who may call it, in a server.
    authorizer: Option<Arc<dyn Authorize>>,
}

#[derive(Clone)]
enum Either {
    Reads(Handler),
    Keeps(KeepingHandler),
    Streams(StreamHandler),
}

/// What runs around handlers.
type Interceptor = dyn Fn(&Context, Next<'_>) -> Result<(), Status> + Send + Sync;

/// What an [interceptor](Router::intercept) goes on with: the next one, or the handler.
#[must_use = "the handler doesn't run otherwise"]
pub struct Next<'a>(&'a mut dyn FnMut(&Context) -> Result<(), Status>);

impl Next<'_> {
    /// Runs it, with the context that was given or one made of it.
    ///
    /// # Errors
    /// The handler's.
    pub fn run(self, context: &Context) -> Result<(), Status> {
        (self.0)(context)
    }
}

impl std::fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Next")
    }
}

impl Either {
    /// The same handler, run within an interceptor.
    fn within(&self, interceptor: Arc<Interceptor>) -> Self {
        match self.clone() {
            Self::Reads(handler) => Self::Reads(Arc::new(move |context, request, reply| {
                interceptor(context, Next(&mut |context| handler(context, request, reply)))
            })),
            Self::Keeps(handler) => Self::Keeps(Arc::new(move |context, request, reply| {
                interceptor(context, Next(&mut |context| handler(context, request.clone(), reply)))
            })),
            Self::Streams(handler) => Self::Streams(Arc::new(move |context, incoming, outgoing| {
                let mut halves = Some((incoming, outgoing));
                interceptor(
                    context,
                    Next(&mut |context| {
                        let again = || Status::new(Code::Internal, "a stream can't be served twice");
                        let (incoming, outgoing) = halves.take().ok_or_else(again)?;
                        handler(context, incoming, outgoing)
                    }),
                )
            })),
        }
    }
}

impl Method {
    fn new(name: &str, handler: Either) -> Self {
        // Names are as many as the program has methods and live as long as it does; leaked, they cost nothing per call.
        Self { name: String::leak(name.to_owned()), handler, compresses: false, authorizer: None }
    }

    /// Runs the handler. The memory of the request, if that is free again.
    #[inline]
    pub(crate) fn serve(
        &self,
        context: &Context,
        request: Vec<u8>,
        reply: &mut Vec<u8>,
        halves: impl FnOnce() -> Option<(Incoming, Outgoing)>,
    ) -> (Vec<u8>, Result<(), Status>) {
        match &self.handler {
            Either::Reads(handler) => {
                let result = handler(context, &request, reply);
                (request, result)
            }
            Either::Keeps(handler) => (Vec::new(), handler(context, request.into(), reply)),
            Either::Streams(handler) => {
                let lost = || Status::new(Code::Internal, "the call has no streams");
                let result =
                    halves().ok_or_else(lost).and_then(|(incoming, outgoing)| handler(context, incoming, outgoing));
                (request, result)
            }
        }
    }

    /// Who decides who may call it.
    #[inline]
    pub(crate) fn authorizer(&self) -> Option<&dyn Authorize> {
        self.authorizer.as_deref()
    }

    /// Whether its request, its answer or both are streams.
    #[inline]
    pub(crate) fn streams(&self) -> bool {
        matches!(self.handler, Either::Streams(_))
    }
}

/// Two methods that a call could not tell apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("methods `{first}` and `{second}` have the same 64-bit id; {remedy}", remedy = if first == second {
    "register it once"
} else {
    "rename one of them"
})]
pub struct Conflict {
    first: String,
    second: String,
}

impl Router {
    /// A router without methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method by its full name, `package.Service/Method`. A clash of names is reported when the server starts.
    #[must_use]
    pub fn method(
        mut self,
        name: &str,
        handler: impl Fn(&Context, &[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        self.insert(Method::new(name, Either::Reads(Arc::new(handler))));
        self
    }

    /// [`method`](Self::method), for a handler that keeps its request, or parts of it: a value that goes into a store, say.
    ///
    /// The request is the memory that it was received into. For short requests that are only looked at `method` is
    /// cheaper, as there that memory is used again at once.
    #[must_use]
    pub fn method_bytes(
        mut self,
        name: &str,
        handler: impl Fn(&Context, Bytes, &mut Vec<u8>) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        self.insert(Method::new(name, Either::Keeps(Arc::new(handler))));
        self
    }

    /// Adds a method whose request, answer or both are streams. Who is called with one message, or answers with one, takes
    /// or sends just that.
    #[must_use]
    pub fn streaming(
        mut self,
        name: &str,
        handler: impl Fn(&Context, Incoming, Outgoing) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        self.insert(Method::new(name, Either::Streams(Arc::new(handler))));
        self
    }

    /// Adds a service whose methods are not known by name: every method of it that was not added otherwise is the handler's,
    /// as a stream in both directions. [`Context::called`] says which one is meant. `service` is its full name,
    /// `package.Service`.
    ///
    /// Clients of gRPC call it by whatever name. Greenwave's own call the method `package.Service/*` as a stream, and say the
    /// full name as metadata named [`CALLED`](crate::CALLED).
    #[must_use]
    pub fn hosted(
        self,
        service: &str,
        handler: impl Fn(&Context, Incoming, Outgoing) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        self.streaming(&format!("{service}/*"), handler)
    }

    /// Has all methods that were added so far run within this: it is given each call before its handler, and its result
    /// afterwards. What was added last is outermost. Methods added later, and servers without any, pay nothing for it.
    ///
    /// It runs where the handler does, so it may wait, and make calls, as a handler may. What it refuses has been admitted, and
    /// counts as the handler's failure. Who may call at all is better decided before, by [`authorize`](Self::authorize).
    ///
    /// ```
    /// use greenwave_rpc::{Code, Router, Status};
    ///
    /// let router = Router::new().method("a.A/Orders", |_, _, _| Ok(())).intercept(|context, next| {
    ///     match context.metadata().find(|(name, _)| *name == "tenant") {
    ///         Some(_) => next.run(context),
    ///         None => Err(Status::new(Code::InvalidArgument, "say whose orders, by metadata `tenant`")),
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn intercept(
        mut self,
        interceptor: impl Fn(&Context, Next<'_>) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        let interceptor: Arc<Interceptor> = Arc::new(interceptor);
        for method in &mut self.methods {
            method.handler = method.handler.within(Arc::clone(&interceptor));
        }
        self
    }

    /// Has the answers of all methods that were added so far compressed for those callers that say that they take it, of gRPC,
    /// gRPC-Web and Connect: with zstd if this program and the caller have it, else with gzip. A handler can say otherwise, for a
    /// call or a message, by [`Context::compress`]. Answers of other methods, and those that don't become shorter, are sent as
    /// they are.
    ///
    /// It is done in the handler's time. Over a fast network it takes longer than what it saves.
    #[must_use]
    pub fn compress(mut self) -> Self {
        self.methods.iter_mut().for_each(|method| method.compresses = true);
        self
    }

    /// Adds a `FileDescriptorSet` (protobuf) that clients may ask for, so that they can build requests from JSON.
    #[must_use]
    pub fn descriptors(mut self, set: &'static [u8]) -> Self {
        if !self.descriptors.contains(&set) {
            self.descriptors.push(set);
        }
        self
    }

    /// Adds all of another router's methods.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.conflict = self.conflict.or(other.conflict);
        self.rules.merge(other.rules, other.methods.iter().map(|method| method.name));
        other.methods.into_iter().for_each(|method| self.insert(method));
        other.descriptors.into_iter().fold(self, Self::descriptors)
    }

    /// The names of the methods, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().map(|method| method.name)
    }

    fn insert(&mut self, method: Method) {
        match self.by_id.entry(MethodId::of(method.name)) {
            std::collections::hash_map::Entry::Occupied(taken) => {
                let first = self.methods[*taken.get()].name.to_owned();
                self.conflict.get_or_insert(Conflict { first, second: method.name.to_owned() });
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(self.methods.len());
                self.methods.push(method);
            }
        }
    }

    /// The same in a server that is set up so.
    pub(crate) fn served(self, config: &ServerConfig) -> Self {
        let stack = config.stack.bytes();
        let too_small = Decompression::is_too_much_for(stack);
        let decompression = Some(Decompression::of(&config.limits).on_stacks(too_small));
        let json_bytes = config.web.as_ref().map(WebSettings::most_json_bytes);
        let mut served = Self { types: self.types.clone().on_stacks(stack), decompression, json_bytes, ..self };
        served.guard(config);
        served
    }

    /// How compressed messages are read.
    pub(crate) fn decompression(&self) -> Decompression {
        self.decompression.unwrap_or_else(|| Decompression::of(&Limits::default()))
    }

    /// What a method's answers are compressed with, for a caller that takes these.
    pub(crate) fn compression(&self, index: usize, taken: Encodings) -> Encodings {
        if self.at(index).compresses { taken } else { Encodings::NONE }
    }

    /// Says whether calls can be told apart.
    pub(crate) fn check(&self) -> Result<(), Conflict> {
        self.conflict.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn find(&self, id: MethodId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// What paths of gRPC's name here.
    pub(crate) fn names_of_paths(self: &Arc<Self>) -> Methods {
        let router = Arc::clone(self);
        Arc::new(move |path| router.named(path))
    }

    fn named(&self, path: &str) -> Option<Named> {
        let named = |id, stands_for_all| {
            let method = self.find(id)?;
            let Method { compresses, .. } = *self.at(method);
            Some(Named { method: id, takes_stream: self.at(method).streams(), stands_for_all, compresses })
        };
        let id = MethodId::of(path);
        let hosted = || named(MethodId::of(&format!("{}/*", path.split_once('/')?.0)), true);
        named(id, false).or_else(hosted)
    }

    pub(crate) fn at(&self, index: usize) -> &Method {
        &self.methods[index]
    }

    /// Runs a method's handler between what has to be done to the request and to the reply. The memory of the request, if that is
    /// free again.
    pub(crate) fn serve_coded(
        &self,
        index: usize,
        coding: Coding,
        context: &Context,
        request: Vec<u8>,
        reply: &mut Vec<u8>,
        halves: impl FnOnce() -> Option<(Incoming, Outgoing)>,
    ) -> (Vec<u8>, Result<(), Status>) {
        let method = self.at(index);
        if let Some(encoding) = coding.request().filter(|_| !method.streams()) {
            context.note_compressed();
            let most = if coding.format() == Format::Json { self.json_bytes.unwrap_or(usize::MAX) } else { usize::MAX };
            let compressed = request.len();
            let room = &mut |bytes| local::hold(compressed.saturating_add(bytes));
            let read = self.decompression().up_to(most).read(encoding, &request, room, Undecodable::of_request);
            return match read {
                Ok(message) => {
                    let coding = coding.with_request(None);
                    (request, self.serve_coded(index, coding, context, message, reply, halves).1)
                }
                Err(status) => (request, Err(status)),
            };
        }
        let (request, result) = self.serve_decompressed(index, coding, context, request, reply, halves);
        if result.is_ok() && !method.streams() && context.compresses() {
            let compression = self.compression(index, coding.answer());
            if let Some(encoding) = self.decompression().write(compression, reply) {
                context.say_compressed(encoding);
            }
        }
        (request, result)
    }

    fn serve_decompressed(
        &self,
        index: usize,
        coding: Coding,
        context: &Context,
        request: Vec<u8>,
        reply: &mut Vec<u8>,
        halves: impl FnOnce() -> Option<(Incoming, Outgoing)>,
    ) -> (Vec<u8>, Result<(), Status>) {
        let method = self.at(index);
        if coding.format() == Format::Proto && !coding.is_safe() {
            return method.serve(context, request, reply, halves);
        }
        let types = match self.types.method(&self.descriptors, method.name) {
            Ok(types) => types,
            Err(status) => return (request, Err(status)),
        };
        if coding.is_safe() && !types.is_safe() {
            let text = "its .proto doesn't say idempotency_level = NO_SIDE_EFFECTS, so it is called by POST alone";
            return (request, Err(Status::new(Code::Unimplemented, text)));
        }
        match coding.format() {
            Format::Proto => method.serve(context, request, reply, halves),
            Format::Json => {
                let (json, mut made) = (request, Vec::new());
                let result =
                    types.request(&json).and_then(|request| method.serve(context, request, &mut made, halves).1);
                (json, result.and_then(|()| types.reply(&made, reply)))
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.methods.len()
    }

    pub(crate) fn descriptor_sets(&self) -> &[&'static [u8]] {
        &self.descriptors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &Context, _: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        Ok(())
    }

    #[test]
    fn a_method_is_found_by_the_id_of_its_name() {
        let router = Router::new().method("a.A/One", nothing).merge(Router::new().method("a.A/Two", nothing));
        assert_eq!(router.find(MethodId::of("a.A/Two")), Some(1));
        assert_eq!(router.find(MethodId::of("a.A/Three")), None);
        assert!(router.check().is_ok());
    }

    #[test]
    fn the_last_interceptor_is_outermost_and_those_added_later_have_none() {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move |context: &Context, next: Next<'_>| {
                seen.lock().unwrap().push(name);
                next.run(context)
            }
        };
        let router = Router::new().method("a.A/One", nothing).intercept(note("inner")).intercept(note("outer"));
        let router = router.method("a.A/Two", nothing);
        for method in [0, 1] {
            let (_, result) = router.at(method).serve(&Context::unlimited(), Vec::new(), &mut Vec::new(), || None);
            assert_eq!(result, Ok(()));
        }
        assert_eq!(*seen.lock().unwrap(), ["outer", "inner"]);
    }

    #[test]
    fn a_path_names_its_method_or_the_service_that_is_hosted() {
        let router = Router::new().method("a.A/One", nothing).hosted("a.A", |_, _, _| Ok(()));
        let named = |path| {
            let Named { method, takes_stream, stands_for_all, .. } = router.named(path).unwrap();
            (method, takes_stream, stands_for_all)
        };
        assert_eq!(named("a.A/One"), (MethodId::of("a.A/One"), false, false));
        assert_eq!(named("a.A/Two"), (MethodId::of("a.A/*"), true, true));
        assert_eq!(router.named("b.B/One"), None);
    }

    #[test]
    fn the_same_name_twice_is_a_conflict_that_names_it() {
        let router = Router::new().method("a.A/One", nothing).method("a.A/One", nothing);
        assert!(router.check().unwrap_err().to_string().contains("`a.A/One`"));
    }
}
