//! A thread of the server, from its start to its end.
//!
//! It pins itself to its core, and only then makes its completion queue, whose buffers are therefore in the memory of the
//! core's NUMA node: a page lies where it is touched first. When all threads are ready it is told to go.
//!
//! A head doesn't die. Handlers' panics end their calls and nothing else, so if one dies all the same, that is a defect of
//! this crate, which should cost the connections of one cluster and not the server: it is said aloud, whoever waits for
//! an answer of the head's is told, and another head begins in its place, with what it had listened at. After several
//! times of that none follows.

use super::StartError;
use super::event_loop::{EventLoop, Role};
use super::mail::LIVES;
use super::plan::ThreadPlan;
use crate::net::{ConnectionConfig, Net, prefaces};
use greenwave_verbs::{Address, ListenerId, TlsServer, VerbsError};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What the starter of a thread has of it until it goes.
pub(super) struct Supervised {
    ready: Receiver<Result<Vec<Address>, VerbsError>>,
    go: Sender<()>,
}

impl Supervised {
    /// Starts the thread with this number.
    pub(super) fn start(index: usize, plan: &ThreadPlan, role: Role) -> io::Result<(Self, JoinHandle<()>)> {
        let kind = if plan.is_head { "head" } else { "worker" };
        let (ready, is_ready) = channel();
        let (go, may_go) = channel();
        let plan = plan.clone();
        let thread = std::thread::Builder::new().name(format!("greenwave-{kind}-{index}"));
        let thread = thread.spawn(move || {
            pin(plan.core);
            Supervisor { plan, role }.supervise(&ready, &may_go);
        })?;
        Ok((Self { ready: is_ready, go }, thread))
    }

    /// Waits until the thread has its completion queue, and says where it listens.
    pub(super) fn is_ready(&self) -> Result<Vec<Address>, StartError> {
        let gone = || StartError::Thread(io::Error::other("it ended as it began"));
        Ok(self.ready.recv().map_err(|_| gone())??)
    }

    /// Lets the thread serve. One whose handle is dropped instead ends.
    pub(super) fn go(self) {
        // A thread that is gone has said why.
        let _ = self.go.send(());
    }
}

/// Receive buffers of a thread: as many connections may have something at once, before any has to wait for another's
/// buffer. They take memory as they are used.
const BUFFERS: u16 = 1024;

struct Supervisor {
    plan: ThreadPlan,
    role: Role,
}

impl Supervisor {
    fn supervise(mut self, ready: &Sender<Result<Vec<Address>, VerbsError>>, may_go: &Receiver<()>) {
        let (net, addresses) = match self.open(0) {
            Ok(opened) => opened,
            Err(error) => {
                let _nobody_may_wait_any_more = ready.send(Err(error));
                return;
            }
        };
        // After a death it listens where it did, whatever port that was.
        self.plan.listen.clone_from(&addresses);
        if ready.send(Ok(addresses)).is_ok() && may_go.recv().is_ok() {
            self.live(net);
        }
        self.role.inbox.end();
    }

    fn live(&mut self, mut net: Net) {
        for life in 1..=LIVES {
            let role = self.role.clone();
            // Whatever the head left half done is dropped with it, but for its inbox, counters and what it shares with
            // others, all of which are whole after each of their operations.
            if catch_unwind(AssertUnwindSafe(|| EventLoop::new(role, net).run())).is_ok() {
                return;
            }
            let lost = self.role.counters.connections.load();
            self.role.counters.connections.sub(lost);
            self.role.counters.threads_died.add(1);
            let thread = std::thread::current();
            let thread = thread.name().unwrap_or_default();
            tracing::error!(
                thread,
                connections = lost,
                "a thread of the server died, and its connections with it; please report this"
            );
            if life == LIVES {
                tracing::error!(thread, "this thread has died too often, and is not followed by another");
                return;
            }
            net = match self.open(life) {
                Ok((net, _)) => net,
                Err(error) => {
                    tracing::error!(thread, %error, "no thread can follow the one that died");
                    return;
                }
            };
        }
    }

    /// Makes the completion queue of the `life`th head here.
    fn open(&mut self, life: usize) -> Result<(Net, Vec<Address>), VerbsError> {
        let Self { plan, role } = self;
        let config = &role.config;
        let mut net =
            Net::new(plan.backend.clone(), &config.limits, role.clock.clone(), false, prefaces(config), Some(BUFFERS))?;
        let serving = ConnectionConfig::of(config).serving(role.router.names_of_paths());
        net.serve(serving, role.counters.clone(), role.usage.clone());
        if let Some((interface, nth)) = &plan.interface {
            net.share_rotation(interface.clone(), *nth);
        }
        let hand_out = plan.heads.len() > 1 || role.handshaker.is_some();
        let (listeners, addresses) = listen(&mut net, &plan.listen, config.tls.as_ref(), hand_out)?;
        role.listeners = listeners;
        role.inbox.begin(life, net.waker());
        Ok((net, addresses))
    }
}

/// Listens at all of the addresses. `hand_out`: what comes in is shared out.
pub(super) fn listen(
    net: &mut Net,
    addresses: &[Address],
    tls: Option<&TlsServer>,
    hand_out: bool,
) -> Result<(Vec<ListenerId>, Vec<Address>), VerbsError> {
    let listening = addresses.iter().map(|address| net.listen(address, tls, hand_out));
    Ok(listening.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

/// Binds the calling thread to a core. A machine that forbids it runs on unpinned.
fn pin(core: Option<usize>) {
    let Some(core) = core else { return };
    let mut cores = CpuSet::new();
    cores.set(core);
    if let Err(error) = sched_setaffinity(None, &cores) {
        tracing::warn!(core, %error, "could not pin a thread to its core");
    }
}
