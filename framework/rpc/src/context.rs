//! What travels with a request: how much time is left, since when it lives, whether anybody still waits.
//!
//! Every outgoing call needs a [`Context`], so that forgetting the deadline takes more effort than passing it on.
//! A handler is given one; calls that it makes with it inherit what is left ([`Context::tighten`] leaves them less).
//! Work that should outlive the request says so in so many words: [`Context::detach`].

use crate::clock::monotonic;
use greenwave_policy::{Budget, Criticality, Deadline, Time};
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::Terms;
use greenwave_proto::context::{Aside, Received, called};
use greenwave_proto::status::{Check, Status};
use greenwave_proto::wire::MetaError;
use greenwave_proto::{Gate, Peer, Ruling};
use greenwave_quanta::critical;
use std::sync::Arc;
use std::time::Duration;

/// A request's deadline, age and cancellation. Cheap to clone; clones are the same request.
#[derive(Clone, Debug)]
pub struct Context(greenwave_proto::Context);

impl From<Context> for greenwave_proto::Context {
    fn from(context: Context) -> Self {
        context.0
    }
}

impl From<Context> for Terms {
    fn from(context: Context) -> Self {
        context.0.into()
    }
}

impl Context {
    /// A request that is made now and expected to be answered within `expected`.
    pub fn with_deadline(expected: Duration) -> Self {
        Self::born(monotonic(), Budget::expected(expected), true)
    }

    /// A request without a deadline. It can still be cancelled.
    pub fn unlimited() -> Self {
        Self::born(monotonic(), Budget::UNLIMITED, true)
    }

    /// A request whose deadline travels and is scored, but whose client waits for the answer however late it is.
    ///
    /// For measuring, and for introducing deadlines where nobody knows yet what they should be.
    pub fn observed(expected: Duration) -> Self {
        Self::born(monotonic(), Budget::expected(expected), false)
    }

    pub(crate) fn born(now: Time, budget: Budget, enforced: bool) -> Self {
        Self(greenwave_proto::Context::born(now, budget, enforced))
    }

    /// A request that came in, which this peer has made.
    pub(crate) fn received(request: Received, peer: Option<&Arc<Peer>>) -> Self {
        Self(greenwave_proto::Context::received(request, peer))
    }

    /// Becomes another request's, which this peer has made, in the memory of this one's if nobody else has a clone of it.
    #[inline]
    pub(crate) fn renew(&mut self, request: Received, peer: Option<&Arc<Peer>>) {
        self.0.renew(request, peer);
    }

    /// Where it lies, and in how many bytes.
    #[inline]
    pub(crate) fn place(&self) -> (*const u8, usize) {
        self.0.place()
    }

    /// Who makes the call that is served: what its connection says, shared by all calls of it, and, where a call's credentials
    /// were checked, whose they are. Contexts that are made of this one say the same; one that was made here, or
    /// [detached](Self::detach), knows of nobody.
    pub fn peer(&self) -> &Peer {
        self.0.peer()
    }

    /// The same request with at most `limit` left from now on. Cancelling it does not cancel this one.
    #[must_use]
    pub fn tighten(&self, limit: Duration) -> Self {
        self.until(Deadline::at(monotonic(), Budget::expected(limit)))
    }

    /// The same request until `limit`, if that is earlier than its own deadline. Cancelling it does not cancel this one.
    #[must_use]
    pub fn until(&self, limit: Deadline) -> Self {
        Self(self.0.tighten_to(limit))
    }

    /// The same request with something more to say of it, such as who asks or which trace it belongs to. Whoever
    /// is called with it can read that. They pass it on to those whom they call only if their
    /// [`ServerConfig::pass_on`](crate::ServerConfig::pass_on) names it, as by default the trace. Cancelling it does not
    /// cancel this one.
    ///
    /// # Errors
    /// When the name is not 1 to 255 ASCII characters, or all that is said has more than 8192 bytes.
    pub fn with_metadata(&self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, MetaError> {
        self.0.with_metadata(name, value.as_ref()).map(Self)
    }

    /// The same request, of which it matters more or less that it is answered: where a server can't serve all, those that matter
    /// least are turned away first. It travels as metadata ([`CRITICALITY`](crate::CRITICALITY)), and calls that handlers make with
    /// the contexts that they are given carry it on. Cancelling it does not cancel this one.
    ///
    /// # Errors
    /// When all that is said of the request has more than 8192 bytes.
    pub fn with_criticality(&self, criticality: Criticality) -> Result<Self, MetaError> {
        self.0.with_criticality(criticality).map(Self)
    }

    /// How much it matters that the request is answered: what its caller said, or [`Criticality::Critical`].
    pub fn criticality(&self) -> Criticality {
        self.0.criticality()
    }

    /// What was said of the request, by whoever made it and by [`with_metadata`](Self::with_metadata) here, in that order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.metadata()
    }

    /// Says something before the answer to the request that is served: metadata that the caller has before the first message
    /// (gRPC's initial metadata). For a stream, before its first message is sent.
    ///
    /// # Errors
    /// As [`with_metadata`](Self::with_metadata).
    pub fn lead(&self, name: &str, value: impl AsRef<[u8]>) -> Result<(), MetaError> {
        critical(|| self.0.say(true, name, value.as_ref()))
    }

    /// Says something with the end of the answer to the request that is served (gRPC's trailing metadata), whether it
    /// succeeds or fails.
    ///
    /// # Errors
    /// As [`with_metadata`](Self::with_metadata).
    pub fn trail(&self, name: &str, value: impl AsRef<[u8]>) -> Result<(), MetaError> {
        critical(|| self.0.say(false, name, value.as_ref()))
    }

    /// Whether the answer to the request that is served, or what is sent of it from here on, is compressed, where it may be: its
    /// method is one of those that do ([`Router::compress`](crate::Router::compress)), and the caller takes it. As long as
    /// nothing is said it is.
    pub fn compress(&self, wanted: bool) {
        self.0.compress(wanted);
    }

    /// Whether the one message of the request that is served came compressed, as gRPC's may. Of a stream's messages
    /// [`Incoming::was_compressed`](crate::Incoming::was_compressed) says it.
    pub fn came_compressed(&self) -> bool {
        self.0.came_compressed()
    }

    pub(crate) fn compresses(&self) -> bool {
        self.0.compresses()
    }

    pub(crate) fn note_compressed(&self) {
        self.0.note_compressed();
    }

    pub(crate) fn say_compressed(&self, encoding: Encoding) {
        critical(|| self.0.say_compressed(encoding));
    }

    /// The same request, for a call whose request is compressed so.
    pub(crate) fn with_compressed(&self, encoding: Encoding) -> Self {
        Self(self.0.with_compressed(encoding))
    }

    pub(crate) fn take_leading(&self) -> Option<Arc<[u8]>> {
        critical(|| self.0.take_leading())
    }

    pub(crate) fn take_said(&self) -> Option<Box<Aside>> {
        self.0.take_said()
    }

    /// The context of the branches of a parallel unit, which have until `limit`.
    pub(crate) fn branch(&self, limit: Deadline) -> Self {
        Self(self.0.branch(limit))
    }

    /// A new request that outlives this one: no deadline, not cancelled with it, born now, nothing said of it.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self::unlimited()
    }

    /// What is left of the expected deadline.
    pub fn budget(&self) -> Budget {
        self.deadline().budget(monotonic())
    }

    /// When the time is up, on this machine's monotonic clock.
    pub fn deadline(&self) -> Deadline {
        self.0.deadline()
    }

    /// When the request was made, as far as this machine knows: its first client's clock, carried along as an age.
    pub fn birth(&self) -> Time {
        self.0.birth()
    }

    /// How long ago the request was made.
    pub fn elapsed(&self) -> Duration {
        monotonic().since(self.birth())
    }

    /// What the request was given at its birth; `None` without a deadline.
    pub fn expected(&self) -> Option<Duration> {
        self.deadline().expires().map(|expires| expires.since(self.birth()))
    }

    /// Whether the deadline has passed.
    pub fn is_spent(&self) -> bool {
        self.deadline().is_past(monotonic())
    }

    /// Whether this is a branch of a parallel unit (D2P's PU flag).
    pub fn parallel_unit(&self) -> bool {
        self.0.parallel_unit()
    }

    /// The method that is being served, as `package.Service/Method`; empty for a request made here.
    pub fn method(&self) -> &str {
        self.0.method()
    }

    /// The method by the name that it was called by: as [`method`](Self::method), but where that stands for all methods of a
    /// service ([`Router::hosted`](crate::Router::hosted)), the one that is meant, or itself if nobody said so.
    pub fn called(&self) -> &str {
        called(self.method(), self.metadata())
    }

    /// Whether somebody said that the answer is no longer wanted, here or further up.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Says that the answer is no longer wanted. Calls made with this context, and theirs, are cancelled too.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Lets more urgent requests pass, then says whether going on makes sense. Long handlers call it between steps.
    ///
    /// # Errors
    /// `CANCELLED`, or `DEADLINE_EXCEEDED` where deadlines are enforced; a handler passes either on with `?`.
    pub fn checkpoint(&self) -> Result<(), Status> {
        crate::local::give_way();
        self.ask(Check::Reply, monotonic()).into_result()
    }

    /// Whether the request goes on at this check.
    pub(crate) fn ask(&self, check: Check, now: Time) -> Ruling {
        self.0.ask(check, now)
    }

    /// Its deadline, and whether this side gives up at it.
    pub(crate) fn gate(&self) -> Gate {
        self.0.gate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::Code;
    use greenwave_proto::context::{CALLED, CRITICALITY, Metadata};

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_child_never_has_more_time_than_its_parent() {
        let parent = Context::with_deadline(HOUR);
        assert_eq!(parent.tighten(2 * HOUR).deadline(), parent.deadline());
        assert!(parent.tighten(HOUR / 2).deadline() < parent.deadline());
        assert_eq!(parent.tighten(HOUR / 2).birth(), parent.birth());
    }

    #[test]
    fn cancellation_goes_down_and_not_up() {
        let parent = Context::with_deadline(HOUR);
        let (child, detached) = (parent.tighten(HOUR), parent.detach());
        let grandchild = child.tighten(HOUR);
        child.cancel();
        assert!(!parent.is_cancelled() && grandchild.is_cancelled());
        assert_eq!(grandchild.checkpoint().unwrap_err().code, Code::Cancelled);
        parent.cancel();
        assert!(!detached.is_cancelled());
        assert!(detached.budget().is_unlimited());
    }

    #[test]
    fn what_is_said_of_a_request_is_inherited_in_order() {
        let parent = Context::with_deadline(HOUR).with_metadata("user", "ada").unwrap();
        let child = parent.tighten(HOUR / 2).with_metadata("user", [0, 255]).unwrap();
        let said: Vec<_> = child.metadata().collect();
        assert_eq!(said, [("user", &b"ada"[..]), ("user", &[0, 255])]);
        assert_eq!(parent.metadata().count(), 1);
        assert_eq!(child.detach().metadata().count(), 0);
        parent.cancel();
        assert!(child.is_cancelled());
        assert!(parent.with_metadata("", "").is_err());
        assert!(parent.with_metadata("long", vec![0; 8192]).is_err());
    }

    #[test]
    fn criticality_is_said_once_inherited_and_carried_on() {
        let plain = Context::with_deadline(HOUR);
        assert_eq!(plain.criticality(), Criticality::Critical);
        let batch = plain.with_criticality(Criticality::Sheddable).unwrap().with_metadata("user", "ada").unwrap();
        assert_eq!(batch.tighten(HOUR / 2).criticality(), Criticality::Sheddable);
        let other = batch.with_criticality(Criticality::CriticalPlus).unwrap();
        assert_eq!(other.criticality(), Criticality::CriticalPlus);
        let said: Vec<_> = other.metadata().collect();
        assert_eq!(said, [("user", &b"ada"[..]), (CRITICALITY, b"critical-plus")]);
        assert_eq!(batch.detach().criticality(), Criticality::Critical);
        // What comes in is carried on whatever else is, and nonsense counts as nothing and ends here.
        let cases = [
            ("Sheddable-Plus", Criticality::SheddablePlus, Some("sheddable-plus")),
            ("most", Criticality::Critical, None),
        ];
        for (value, is, carried_on) in cases {
            let mut entries = Vec::new();
            for (name, value) in [("token", "secret"), (CRITICALITY, value)] {
                greenwave_proto::wire::push_meta(&mut entries, name, value.as_bytes()).unwrap();
            }
            let metadata = Metadata::received(Some(entries.into()), &[]);
            let gate = Gate::new(Deadline::NEVER, true);
            let request = Received { gate, birth: monotonic(), parallel_unit: false, method: "a.A/One", metadata };
            let served = Context::received(request, None);
            assert_eq!(served.criticality(), is);
            let carried = greenwave_proto::Context::from(served);
            let carried = greenwave_proto::wire::Meta::parse(carried.encoded_metadata()).unwrap();
            let expected: Vec<_> = carried_on.map(|name| (CRITICALITY, name.as_bytes())).into_iter().collect();
            assert_eq!(carried.into_iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_hosted_method_is_called_by_the_name_that_was_said_if_it_is_the_services() {
        let served = |method, said: &str| {
            let mut entries = Vec::new();
            greenwave_proto::wire::push_meta(&mut entries, CALLED, said.as_bytes()).unwrap();
            let metadata = Metadata::received(Some(entries.into()), &[]);
            let gate = Gate::new(Deadline::NEVER, true);
            let birth = monotonic();
            let request = Received { gate, birth, parallel_unit: false, method, metadata };
            Context::received(request, None).called().to_owned()
        };
        assert_eq!(served("a.A/*", "a.A/One"), "a.A/One");
        assert_eq!(served("a.A/*", "b.B/One"), "a.A/*");
        assert_eq!(served("a.A/Two", "a.A/One"), "a.A/Two");
    }

    #[test]
    fn a_deadline_of_nothing_is_past_at_once_and_one_for_ever_never() {
        assert!(Context::with_deadline(Duration::ZERO).is_spent());
        assert!(!Context::with_deadline(Duration::MAX).is_spent());
        assert!(Context::observed(Duration::ZERO).checkpoint().is_ok());
    }
}
