//! What a server can be asked: methods by name, and the handler of each.

use crate::context::Context;
use crate::status::{Code, Status};
use crate::stream::{Incoming, Outgoing};
use crate::wire::MethodId;
use bytes::Bytes;
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
    conflict: Option<Conflict>,
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
}

#[derive(Clone)]
enum Either {
    Reads(Handler),
    Keeps(KeepingHandler),
    Streams(StreamHandler),
}

impl Method {
    fn new(name: &str, handler: Either) -> Self {
        // Names are as many as the program has methods and live as long as it does; leaked, they cost nothing per call.
        Self { name: String::leak(name.to_owned()), handler }
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

    /// Says whether calls can be told apart.
    pub(crate) fn check(&self) -> Result<(), Conflict> {
        self.conflict.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn find(&self, id: MethodId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn at(&self, index: usize) -> &Method {
        &self.methods[index]
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
    fn the_same_name_twice_is_a_conflict_that_names_it() {
        let router = Router::new().method("a.A/One", nothing).method("a.A/One", nothing);
        assert!(router.check().unwrap_err().to_string().contains("`a.A/One`"));
    }
}
