//! The server: clusters, each a completion queue with its head, and workers if wanted.

mod head;
mod inbox;
mod meta;
mod methods;
mod places;
mod task;

use crate::clock::Clock;
use crate::config::{ConfigError, ServerConfig};
use crate::counters::{Counters, Snapshot};
use crate::net::{Net, Serving};
use crate::service::{Conflict, Router};
use greenwave_verbs::{Address, ListenerId, VerbsError};
#[cfg(test)]
pub(crate) use head::Head;
#[cfg(not(test))]
use head::Head;
use head::Role;
use inbox::{Inbox, Message};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts servers.
pub struct Server;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting can't be meant.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two methods can't be told apart.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// An address can't be listened on, or no completion queue be had.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A thread could not be started.
    #[error("no thread for the server: {0}; lower `clusters` or `workers`")]
    Thread(io::Error),
}

/// A server that runs. Dropping it stops it at once; see [`ServerHandle::drain`] for a gentle end.
pub struct ServerHandle {
    addresses: Vec<Address>,
    counters: Arc<[Arc<Counters>]>,
    /// Of the heads, then of the workers.
    inboxes: Vec<Arc<Inbox>>,
    heads: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts a server and returns when it listens.
    ///
    /// # Errors
    /// [`StartError`]: a wrong setting, methods with the same id, an address in use.
    #[expect(clippy::needless_pass_by_value, reason = "a configuration is made for its server")]
    pub fn start(config: ServerConfig, router: impl Into<Router>) -> Result<ServerHandle, StartError> {
        config.validate()?;
        let threads = config.clusters * (1 + config.workers);
        let counters: Arc<[Arc<Counters>]> = (0..threads).map(|_| Arc::default()).collect();
        let router = meta::with_meta(router.into(), &config.name, &counters);
        router.check()?;
        let router = Arc::new(router);
        let serving = Serving { name: config.name.clone(), checksums: config.checksums, absolute: config.absolute };
        let mut nets = Vec::new();
        let backend =
            config.listen.iter().fold(config.backend.clone(), |backend, address| backend.for_address(address));
        for counters in &*counters {
            let mut net = Net::new(backend.clone(), &config.limits, Clock::Monotonic, false)?;
            net.serve(serving.clone(), Arc::clone(counters));
            nets.push(net);
        }
        let (listeners, addresses) = listen(&mut nets[0], &config)?;
        let inboxes: Vec<Arc<Inbox>> = nets.iter().map(|net| Arc::new(Inbox::new(net.waker()))).collect();
        let mut handle = ServerHandle { addresses, counters, inboxes, heads: config.clusters, threads: Vec::new() };
        let (heads, workers) = handle.inboxes.split_at(config.clusters);
        let (heads, workers) = (heads.to_vec(), workers.to_vec());
        for (index, net) in nets.into_iter().enumerate() {
            let own_workers = if index < config.clusters {
                workers.iter().skip(index).step_by(config.clusters).cloned().collect()
            } else {
                Vec::new()
            };
            let role = Role {
                config: config.clone(),
                router: Arc::clone(&router),
                counters: Arc::clone(&handle.counters[index]),
                inbox: Arc::clone(&handle.inboxes[index]),
                workers: own_workers,
                heads: if index == 0 { heads.clone() } else { Vec::new() },
                listeners: if index == 0 { listeners.clone() } else { Vec::new() },
                clock: Clock::Monotonic,
            };
            let kind = if index < config.clusters { "head" } else { "worker" };
            let core = config.cores.get(index % config.cores.len().max(1)).copied();
            let thread = std::thread::Builder::new()
                .name(format!("greenwave-{kind}-{index}"))
                .spawn(move || {
                    pin(core);
                    Head::new(role, net).run();
                })
                .map_err(StartError::Thread)?;
            handle.threads.push(thread);
        }
        Ok(handle)
    }
}

fn listen(net: &mut Net, config: &ServerConfig) -> Result<(Vec<ListenerId>, Vec<Address>), VerbsError> {
    let listening = config.listen.iter().map(|address| net.listen(address, config.clusters > 1));
    Ok(listening.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

/// A head without a thread, for tests that turn it by hand.
#[cfg(test)]
pub(crate) fn head_by_hand(
    config: &ServerConfig,
    router: Router,
    clock: Clock,
) -> Result<(Head, Arc<Counters>), StartError> {
    config.validate()?;
    let counters: Arc<Counters> = Arc::default();
    let mut net = Net::new(config.backend.clone(), &config.limits, clock.clone(), false)?;
    let serving = Serving { name: config.name.clone(), checksums: config.checksums, absolute: config.absolute };
    net.serve(serving, Arc::clone(&counters));
    let (listeners, _) = listen(&mut net, config)?;
    let role = Role {
        config: config.clone(),
        router: Arc::new(router),
        counters: Arc::clone(&counters),
        inbox: Arc::new(Inbox::new(net.waker())),
        workers: Vec::new(),
        heads: Vec::new(),
        listeners,
        clock,
    };
    Ok((Head::new(role, net), counters))
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

impl ServerHandle {
    /// Where it listens, with the ports that were picked.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What it did so far.
    pub fn counters(&self) -> Snapshot {
        snapshot(&self.counters)
    }

    /// Takes no further connections and calls, finishes those that were accepted, at most within `limit`, then stops.
    pub fn drain(mut self, limit: Duration) {
        let until = crate::clock::monotonic() + limit;
        // Each head stops its workers once it has their answers.
        self.inboxes[..self.heads].iter().for_each(|head| head.send(Message::Drain(until)));
        self.join_threads();
    }

    /// Stops now. Calls that are being served are not answered.
    pub fn shutdown(self) {}

    /// Blocks until the server was stopped by other means, that is, as a rule, for ever.
    pub fn join(mut self) {
        self.join_threads();
    }

    fn join_threads(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a server thread panicked");
            }
        }
    }
}

/// The counters of all threads together.
fn snapshot(threads: &[Arc<Counters>]) -> Snapshot {
    threads.iter().map(|counters| counters.snapshot()).sum()
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.inboxes.iter().for_each(|inbox| inbox.send(Message::Stop));
            self.join_threads();
        }
    }
}
