//! A server, what it serves, and somebody who uses it all the time.

use crate::raw::{Farewell, Raw, eventually};
use greenwave_proto::wire::{GoAwayCode, MethodId};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const ECHO: MethodId = MethodId::of("test.Echo/Echo");
pub(crate) const COUNT: MethodId = MethodId::of("test.Echo/Count");
pub(crate) const LARGE: MethodId = MethodId::of("test.Echo/Large");
pub(crate) const NEVER: MethodId = MethodId::of("test.Echo/Never");
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// Methods, and how often they were begun.
#[derive(Clone, Default)]
pub(crate) struct Methods {
    /// How often the method that counts was served.
    pub(crate) counted: Arc<AtomicU64>,
    /// How many calls of the large one and of the one that never ends began.
    pub(crate) begun: Arc<AtomicU64>,
}

impl Methods {
    pub(crate) fn router(&self) -> Router {
        let (counts, larges, nevers) = (self.counted.clone(), self.begun.clone(), self.begun.clone());
        Router::new()
            .method("test.Echo/Echo", |_, request, reply| {
                reply.extend_from_slice(request);
                Ok(())
            })
            .method("test.Echo/Count", move |_, _, _| {
                counts.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .method("test.Echo/Large", move |_, _, reply| {
                larges.fetch_add(1, Ordering::Relaxed);
                reply.resize(LARGE_BYTES, 7);
                Ok(())
            })
            .method("test.Echo/Never", move |context, _, _| {
                nevers.fetch_add(1, Ordering::Relaxed);
                while context.checkpoint().is_ok() {}
                context.checkpoint()
            })
    }
}

/// Somebody who keeps to the rules, and calls one call after the other.
pub(crate) struct Bystander {
    /// How many calls were answered.
    calm: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Bystander {
    pub(crate) fn at(address: &Address) -> Self {
        Self::paced(address, Duration::ZERO)
    }

    /// One that is no burden: it rests between its calls.
    pub(crate) fn paced(address: &Address, rest: Duration) -> Self {
        let (calm, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let channel = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
            let (calm, over) = (Arc::clone(&calm), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let number = calm.load(Ordering::Relaxed).to_le_bytes();
                    let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &number).unwrap();
                    assert_eq!(&reply.body[..], number);
                    calm.fetch_add(1, Ordering::Relaxed);
                    if !rest.is_zero() {
                        std::thread::park_timeout(rest);
                    }
                }
            }
        });
        let bystander = Self { calm, over, thread };
        bystander.is_served();
        bystander
    }

    /// How many of its calls were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.calm.load(Ordering::Relaxed)
    }

    /// Waits until it has had some calls answered since now.
    pub(crate) fn is_served(&self) {
        let before = self.answered();
        eventually("the bystander's calls are answered", || {
            assert!(!self.thread.is_finished(), "the bystander was harmed");
            self.answered() >= before + 5
        });
    }

    /// Every call that it made was answered.
    pub(crate) fn leaves(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("every call of the bystander was answered");
        self.calm.load(Ordering::Relaxed)
    }
}

/// A server, and somebody who uses it all the time.
pub(crate) struct Siege {
    pub(crate) server: ServerHandle,
    pub(crate) counted: Arc<AtomicU64>,
    pub(crate) begun: Arc<AtomicU64>,
    pub(crate) bystander: Bystander,
}

impl Siege {
    pub(crate) fn new() -> Self {
        Self::with(ServerConfig::default())
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::with(ServerConfig::default().limits(limits))
    }

    /// A server that listens at a free port, and otherwise is set up like this.
    pub(crate) fn with(config: ServerConfig) -> Self {
        Self::listening(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]))
    }

    pub(crate) fn listening(config: ServerConfig) -> Self {
        let methods = Methods::default();
        Self::serving(config, &methods, methods.router())
    }

    /// A server of these methods, and maybe of others.
    pub(crate) fn serving(config: ServerConfig, methods: &Methods, router: Router) -> Self {
        let server = Server::start(config, router).unwrap();
        let bystander = Bystander::at(&server.addresses()[0]);
        Self { server, counted: methods.counted.clone(), begun: methods.begun.clone(), bystander }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.server.addresses()[0]
    }

    /// A peer that has introduced itself.
    pub(crate) fn attacker(&self) -> Raw {
        Raw::introduced(self.address())
    }

    /// Waits until the bystander has had some calls answered since now.
    pub(crate) fn others_are_served(&self) {
        self.bystander.is_served();
    }

    /// The attacker is closed on for a violation, told so in these words, and nobody else is.
    pub(crate) fn expels(self, attacker: &mut Raw, words: &str) -> Farewell {
        let farewell = attacker.farewell();
        let (code, text) = farewell.told.clone().unwrap_or_else(|| panic!("no GOAWAY; expected: {words}"));
        assert!(text.contains(words), "told `{text}`, expected: {words}");
        assert_eq!(code, GoAwayCode::Violation);
        self.ends_with_violations(1);
        farewell
    }

    /// Besides the bystander's no connection is left.
    pub(crate) fn ends_with_violations(self, violations: u64) {
        eventually("the violation is counted", || self.server.counters().violations == violations);
        eventually("the connection is closed", || self.server.counters().connections == 1);
        self.ends();
    }

    pub(crate) fn ends(self) {
        self.others_are_served();
        let calm = self.bystander.leaves();
        assert!(self.server.counters().answered >= calm);
    }
}
