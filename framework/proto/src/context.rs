//! What travels with a request, without a clock: its deadline, its age, its metadata, whether anybody still waits.

use crate::compression::Encoding;
use crate::gate::{Gate, Ruling};
use crate::peer::Peer;
use crate::status::Check;
use crate::wire::{Meta, MetaError, push_meta, raw_entries};
use greenwave_policy::{Budget, Criticality, Deadline, Time};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the metadata that say which method is called, where its id stands for all methods of a service: the full name,
/// `package.Service/Method`. No header of gRPC's can have this name.
pub const CALLED: &str = ":path";

/// The name of the metadata that say how much it matters that the call is answered ([`Criticality`]). What else they say than one
/// of the four names counts as nothing. Calls that are made with a context carry it on.
pub const CRITICALITY: &str = "greenwave-criticality";

/// A request's deadline, age and cancellation. Cheap to clone; clones are the same request.
#[derive(Clone, Debug)]
pub struct Context(Arc<Parts>);

/// What a context says of its request.
#[derive(Debug)]
struct Parts {
    /// Where deadlines are only observed they are propagated and scored all the same.
    gate: Gate,
    birth: Time,
    parallel_unit: bool,
    cancelled: AtomicBool,
    /// How the requests of calls that are made with it are compressed, if they are.
    compressed: Option<Encoding>,
    parent: Option<Context>,
    method: &'static str,
    metadata: Metadata,
    said: Said,
    /// Who made the request, if it came in.
    peer: Option<Arc<Peer>>,
}

/// What whoever serves a request says beside its answer.
#[derive(Debug, Default)]
struct Said {
    /// Of those below.
    flags: AtomicU8,
    entries: Mutex<Option<Box<Aside>>>,
}

/// Something is said.
const ANY: u8 = 1;
/// The answer is not to be compressed.
const AS_IT_IS: u8 = 2;
/// The request came compressed.
const CAME_COMPRESSED: u8 = 4;

/// Entries as they are on the wire, for before an answer and for its end.
#[derive(Debug, Default)]
pub struct Aside {
    /// What goes before the first message.
    pub leading: Option<Arc<[u8]>>,
    /// What goes with the end.
    pub trailing: Option<Arc<[u8]>>,
    /// How the answer's one message is compressed, if it is.
    pub compressed: Option<Encoding>,
}

/// What is said of a request: entries as they are on the wire, sound.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    all: Option<Arc<[u8]>>,
    /// Those that calls made with the context carry.
    passed_on: Option<Arc<[u8]>>,
    criticality: Criticality,
}

impl Metadata {
    /// What came in with a request, sound; entries of these names are passed on, and its criticality.
    #[inline]
    pub fn received(all: Option<Arc<[u8]>>, pass_on: &[String]) -> Self {
        match all {
            None => Self::default(),
            Some(all) => Self::of(all, pass_on),
        }
    }

    fn of(all: Arc<[u8]>, pass_on: &[String]) -> Self {
        let (passed_on, criticality) = read(&all, pass_on);
        Self { all: Some(all), passed_on, criticality }
    }

    /// How much it matters that the request is answered, by what is said of it.
    #[inline]
    pub fn criticality(&self) -> Criticality {
        self.criticality
    }

    /// What was said, in that order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        entries(self.all.as_deref())
    }

    fn with(&self, name: &str, value: &[u8]) -> Result<Self, MetaError> {
        let add = |entries: &Option<Arc<[u8]>>| {
            let mut entries = entries.as_deref().unwrap_or_default().to_vec();
            push_meta(&mut entries, name, value)?;
            Ok(Some(entries.into()))
        };
        let (all, passed_on) = (add(&self.all)?, add(&self.passed_on)?);
        let criticality = all.as_deref().map_or_else(Criticality::default, criticality);
        Ok(Self { all, passed_on, criticality })
    }

    /// The same with this criticality in place of what was said of it.
    fn with_criticality(&self, criticality: Criticality) -> Result<Self, MetaError> {
        let without = |said: &Option<Arc<[u8]>>| {
            let mut kept = Vec::new();
            for (name, value) in entries(said.as_deref()).filter(|(name, _)| *name != CRITICALITY) {
                push_meta(&mut kept, name, value)?;
            }
            Ok::<_, MetaError>((!kept.is_empty()).then(|| kept.into()))
        };
        let plain = Self { all: without(&self.all)?, passed_on: without(&self.passed_on)?, ..Self::default() };
        plain.with(CRITICALITY, criticality.name().as_bytes())
    }
}

/// What entries say of the criticality, the last of them if there are several.
fn criticality(all: &[u8]) -> Criticality {
    let said = entries(Some(all)).filter(|(name, _)| *name == CRITICALITY);
    said.last().and_then(|(_, value)| Criticality::parse(value)).unwrap_or_default()
}

/// How much it matters that a call is answered of which this is said, sound entries as they are on the wire.
pub fn criticality_of(metadata: Option<&[u8]>) -> Criticality {
    metadata.map_or_else(Criticality::default, criticality)
}

/// What the entries of a name say, the last of them if there are several; sound entries as they are on the wire.
pub fn said_of<'a>(metadata: Option<&'a [u8]>, name: &str) -> Option<&'a [u8]> {
    entries(metadata).filter(|(said, _)| *said == name).last().map(|(_, value)| value)
}

fn entries(all: Option<&[u8]>) -> impl Iterator<Item = (&str, &[u8])> {
    Meta::parse(all.unwrap_or_default()).into_iter().flatten()
}

/// The method by the name that it was called by: `method` itself, or, where that stands for all methods of a service, the one
/// that the [entries](Metadata) name, if they name one of that service.
pub fn called<'a>(method: &'a str, mut entries: impl Iterator<Item = (&'a str, &'a [u8])>) -> &'a str {
    let Some(service) = method.strip_suffix('*') else { return method };
    let said = entries.find(|(name, _)| *name == CALLED).and_then(|(_, value)| std::str::from_utf8(value).ok());
    said.filter(|said| said.starts_with(service)).unwrap_or(method)
}

/// What is passed on, if anything is: the entries of these names, and the criticality if it isn't the default; and that.
fn read(all: &[u8], pass_on: &[String]) -> (Option<Arc<[u8]>>, Criticality) {
    let (mut kept, mut said) = (Vec::new(), None);
    for (name, value) in raw_entries(all) {
        if name == CRITICALITY.as_bytes() {
            said = Some(value);
        } else if let Some(passed) = pass_on.iter().find(|passed| passed.as_bytes() == name)
            && push_meta(&mut kept, passed, value).is_err()
        {
            kept.clear();
            break;
        }
    }
    let criticality = said.and_then(Criticality::parse).unwrap_or_default();
    if criticality != Criticality::default() {
        // Without room for it the next stage takes the default for it.
        let _ = push_meta(&mut kept, CRITICALITY, criticality.name().as_bytes());
    }
    ((!kept.is_empty()).then(|| kept.into()), criticality)
}

/// What is said of a request that came in over the wire.
#[derive(Debug)]
pub struct Received {
    /// Its deadline, and whether this side gives up at it.
    pub gate: Gate,
    /// When it was made.
    pub birth: Time,
    /// Whether it is a branch of a parallel unit.
    pub parallel_unit: bool,
    /// The method that is called, by its name.
    pub method: &'static str,
    /// What its caller says beside it.
    pub metadata: Metadata,
}

impl Context {
    /// A request that is made at this time; `enforced`: this side gives up when the deadline passes.
    pub fn born(now: Time, budget: Budget, enforced: bool) -> Self {
        let gate = Gate::new(Deadline::at(now, budget), enforced);
        let metadata = Metadata::default();
        Self::received(Received { gate, birth: now, parallel_unit: false, method: "", metadata }, None)
    }

    /// A request that came in, which this peer has made.
    pub fn received(request: Received, peer: Option<&Arc<Peer>>) -> Self {
        let Received { gate, birth, parallel_unit, method, metadata } = request;
        Self(Arc::new(Parts {
            gate,
            birth,
            parallel_unit,
            cancelled: AtomicBool::new(false),
            compressed: None,
            parent: None,
            method,
            metadata,
            said: Said::default(),
            peer: peer.cloned(),
        }))
    }

    /// Becomes another request that came in, in the memory of this one if nobody else has a clone of it. Of two requests of one
    /// peer the second costs no count of references.
    #[inline(always)]
    pub fn renew(&mut self, request: Received, peer: Option<&Arc<Peer>>) {
        let Some(parts) = Arc::get_mut(&mut self.0) else {
            *self = Self::received(request, peer);
            return;
        };
        let Received { gate, birth, parallel_unit, method, metadata } = request;
        (parts.gate, parts.birth, parts.parallel_unit) = (gate, birth, parallel_unit);
        parts.method = method;
        // As a rule there are none, before as after.
        if metadata.all.is_some() || parts.metadata.all.is_some() {
            parts.metadata = metadata;
        } else {
            std::mem::forget(metadata);
        }
        (*parts.cancelled.get_mut(), parts.compressed, parts.parent) = (false, None, None);
        // Where no flag is set nothing was said.
        if *parts.said.flags.get_mut() != 0 {
            parts.said = Said::default();
        }
        let is_same = match (&parts.peer, peer) {
            (Some(last), Some(peer)) => Arc::ptr_eq(last, peer),
            (last, peer) => last.is_none() && peer.is_none(),
        };
        if !is_same {
            parts.peer = peer.cloned();
        }
    }

    /// Where what it says lies, and in how many bytes: for who has it fetched before it is asked. Nothing is read of it.
    #[doc(hidden)]
    #[inline]
    pub fn place(&self) -> (*const u8, usize) {
        (Arc::as_ptr(&self.0).cast(), size_of::<Parts>())
    }

    /// Who made the request that is served; nobody known, if it was made here.
    pub fn peer(&self) -> &Peer {
        static UNKNOWN: Peer = Peer::UNKNOWN;
        match &self.0.parent {
            Some(parent) => parent.peer(),
            None => self.0.peer.as_deref().unwrap_or(&UNKNOWN),
        }
    }

    /// The same request with this deadline, if it is the earlier one. Cancelling it does not cancel this one.
    #[must_use]
    pub fn tighten_to(&self, limit: Deadline) -> Self {
        self.child(self.0.gate.tighten(limit), self.0.parallel_unit, self.0.metadata.clone())
    }

    /// The same request with something more to say of it. Cancelling it does not cancel this one.
    ///
    /// # Errors
    /// When the name is not 1 to 255 ASCII characters, or all that is said has more than 8192 bytes.
    pub fn with_metadata(&self, name: &str, value: &[u8]) -> Result<Self, MetaError> {
        let metadata = self.0.metadata.with(name, value)?;
        Ok(self.child(self.0.gate, self.0.parallel_unit, metadata))
    }

    /// The same request with another criticality, which calls made with it carry on. Cancelling it does not cancel this one.
    ///
    /// # Errors
    /// When all that is said has more than 8192 bytes.
    pub fn with_criticality(&self, criticality: Criticality) -> Result<Self, MetaError> {
        let metadata = self.0.metadata.with_criticality(criticality)?;
        Ok(self.child(self.0.gate, self.0.parallel_unit, metadata))
    }

    /// How much it matters that the request is answered.
    #[inline]
    pub fn criticality(&self) -> Criticality {
        self.0.metadata.criticality
    }

    /// What was said of the request, in that order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.metadata.entries()
    }

    /// What calls made with it carry, as it is on the wire.
    #[inline]
    pub fn encoded_metadata(&self) -> &[u8] {
        self.0.metadata.passed_on.as_deref().unwrap_or_default()
    }

    /// The context of the branches of a parallel unit, which have until `limit`.
    #[must_use]
    pub fn branch(&self, limit: Deadline) -> Self {
        self.child(self.0.gate.tighten(limit), true, self.0.metadata.clone())
    }

    fn child(&self, gate: Gate, parallel_unit: bool, metadata: Metadata) -> Self {
        Self(Arc::new(self.child_parts(gate, parallel_unit, metadata)))
    }

    fn child_parts(&self, gate: Gate, parallel_unit: bool, metadata: Metadata) -> Parts {
        Parts {
            gate,
            birth: self.0.birth,
            parallel_unit,
            cancelled: AtomicBool::new(false),
            compressed: None,
            parent: Some(self.clone()),
            method: self.0.method,
            metadata,
            said: Said::default(),
            // The parent says it.
            peer: None,
        }
    }

    /// The same request, for a call whose request is compressed so. Cancelling it does not cancel this one.
    #[must_use]
    pub fn with_compressed(&self, encoding: Encoding) -> Self {
        let mut parts = self.child_parts(self.0.gate, self.0.parallel_unit, self.0.metadata.clone());
        parts.compressed = Some(encoding);
        Self(Arc::new(parts))
    }

    /// How the requests of calls that are made with it are compressed, if they are.
    #[inline]
    pub fn compressed(&self) -> Option<Encoding> {
        self.0.compressed
    }

    /// When the time is up, on this machine's monotonic clock.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.0.gate.deadline()
    }

    /// When the request was made, as far as this machine knows.
    #[inline]
    pub fn birth(&self) -> Time {
        self.0.birth
    }

    /// Whether this is a branch of a parallel unit (D2P's PU flag).
    #[inline]
    pub fn parallel_unit(&self) -> bool {
        self.0.parallel_unit
    }

    /// The method that is being served; empty for a request made here.
    pub fn method(&self) -> &str {
        self.0.method
    }

    /// Whether somebody said that the answer is no longer wanted, here or further up.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed) || self.0.parent.as_ref().is_some_and(Self::is_cancelled)
    }

    /// Says that the answer is no longer wanted.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Says something beside the answer to the request: before it, or with its end. Who runs handlers must not leave this
    /// half done.
    ///
    /// # Errors
    /// When the name is not 1 to 255 ASCII characters, or all that is said has more than 8192 bytes.
    pub fn say(&self, leading: bool, name: &str, value: &[u8]) -> Result<(), MetaError> {
        let said = self.said();
        let mut entries = said.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let aside = entries.get_or_insert_default();
        let place = if leading { &mut aside.leading } else { &mut aside.trailing };
        let mut all = place.as_deref().unwrap_or_default().to_vec();
        push_meta(&mut all, name, value)?;
        *place = Some(all.into());
        said.flags.fetch_or(ANY, Ordering::Release);
        Ok(())
    }

    /// Says how the answer's one message is compressed. Who runs handlers must not leave this half done.
    pub fn say_compressed(&self, encoding: Encoding) {
        let said = self.said();
        let mut entries = said.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get_or_insert_default().compressed = Some(encoding);
        said.flags.fetch_or(ANY, Ordering::Release);
    }

    /// Whether the answer is to be compressed, if it may be; as long as nothing is said it is.
    pub fn compress(&self, wanted: bool) {
        let flags = &self.said().flags;
        if wanted {
            flags.fetch_and(!AS_IT_IS, Ordering::Relaxed)
        } else {
            flags.fetch_or(AS_IT_IS, Ordering::Relaxed)
        };
    }

    /// What was said of that last.
    pub fn compresses(&self) -> bool {
        self.said().flags.load(Ordering::Relaxed) & AS_IT_IS == 0
    }

    /// Notes that the request came compressed.
    pub fn note_compressed(&self) {
        self.said().flags.fetch_or(CAME_COMPRESSED, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub fn came_compressed(&self) -> bool {
        self.said().flags.load(Ordering::Relaxed) & CAME_COMPRESSED != 0
    }

    /// What was said to go before the answer, once.
    pub fn take_leading(&self) -> Option<Arc<[u8]>> {
        let said = self.said();
        let any = said.flags.load(Ordering::Acquire) & ANY != 0;
        let mut entries = any.then(|| said.entries.lock())?.unwrap_or_else(PoisonError::into_inner);
        entries.as_mut()?.leading.take()
    }

    /// What was said beside the answer, if anything was.
    #[inline]
    pub fn take_said(&self) -> Option<Box<Aside>> {
        let said = &self.0.said;
        if said.flags.load(Ordering::Acquire) & ANY == 0 {
            return None;
        }
        said.entries.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where that is kept: with the request itself.
    fn said(&self) -> &Said {
        self.0.parent.as_ref().map_or(&self.0.said, Self::said)
    }

    /// Whether the request goes on at this check.
    #[inline]
    pub fn ask(&self, check: Check, now: Time) -> Ruling {
        self.0.gate.ask(check, now, self.is_cancelled())
    }

    /// Its deadline, and whether this side gives up at it.
    #[inline]
    pub fn gate(&self) -> Gate {
        self.0.gate
    }
}
