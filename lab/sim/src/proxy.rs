//! Emulated links for real processes: a TCP proxy that delays, limits, loses and cuts.
//!
//! Kernels without `netem` can't make a loopback slow. This stands between two addresses instead, and gives each
//! direction a [`LinkRule`], which can be changed at any time. The arithmetic is [`Link`]'s, as in the simulator.
//!
//! What the two ends see of it is what TCP would make of such a path:
//! - *Delay and jitter*: bytes arrive so much later, in order. Connecting itself takes no longer than without.
//! - *Bandwidth*: all connections of a proxy share it, each direction for itself. Who sends more is held up, as no
//!   more is read than fits onto the path.
//! - *Loss*: pauses of a round trip while something is sent again, with all that comes after it waiting; and the
//!   bandwidth that loss leaves to a stream ([`LinkRule::stream_bandwidth`]).
//! - *A cut*: nothing passes, and nothing is closed: bytes wait, and pass when the link is whole again. What was on
//!   its way still arrives. New connections are accepted, and lead nowhere until both directions are whole.
//!
//! # Protocol
//! Every connection has four threads: for each direction a *reader*, which takes bytes from one end, asks the
//! direction's [`Link`] when they arrive, and puts them into the passage; and a *writer*, which gives them to the
//! other end when that time has come. A reader that finds the direction cut, or the passage full, waits. The end of
//! a stream passes as bytes do. An error of either socket, a reset or the proxy's end closes both sockets, and that
//! ends all four threads; each looks at the passage's end flag whenever it wakes.

mod passage;

use crate::link::{Link, LinkRule, LinkRuleError};
use crate::seed::Seed;
use passage::{Direction, Ends, carry};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Connections that a proxy carries at once; more are closed.
const MOST_CONNECTIONS: usize = 1024;

/// A link between an address that it listens on and one that it connects to. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// Why a proxy can't start, or can't take a rule.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The rule is impossible.
    #[error(transparent)]
    Rule(#[from] LinkRuleError),
    /// A proxy carries TCP, which is ordered.
    #[error("a proxy carries streams, which are ordered; set `ordered`")]
    Unordered,
    /// The address can't be listened on.
    #[error("can't listen on {address}: {cause}; choose another address, or port 0 for any")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    forth: Arc<Direction>,
    back: Arc<Direction>,
    connections: Mutex<Vec<Connection>>,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    ends: Arc<Ends>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts to listen on `listen` (port 0 for any) and to carry what comes there to `target`: `forth` is the way
    /// there, `back` the way of what `target` answers. `seed` decides on jitter and loss.
    ///
    /// # Errors
    /// If a rule is impossible or not ordered, or the address can't be listened on.
    pub fn start(
        listen: SocketAddr,
        target: SocketAddr,
        forth: LinkRule,
        back: LinkRule,
        seed: Seed,
    ) -> Result<Self, ProxyError> {
        let failed = |cause| ProxyError::Listen { address: listen, cause };
        let origin = Instant::now();
        let direction = |rule, index| -> Result<_, ProxyError> {
            let link = Link::new(accepted(rule)?, seed.stream("proxy", index));
            Ok(Arc::new(Direction::new(link, origin)))
        };
        let (forth, back) = (direction(forth, 0)?, direction(back, 1)?);
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let connections = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { target, forth, back, connections, ended: AtomicBool::new(false) });
        let accepting = thread::Builder::new().name("proxy".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Ok(Self { shared, address, accepting: Some(accepting.map_err(failed)?) })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the way to the target, for bytes that aren't on their way yet.
    ///
    /// # Errors
    /// If the rule is impossible or not ordered; then nothing changes.
    pub fn change_forth(&self, rule: LinkRule) -> Result<(), ProxyError> {
        self.shared.forth.change(accepted(rule)?);
        Ok(())
    }

    /// Changes the way back from the target.
    ///
    /// # Errors
    /// If the rule is impossible or not ordered; then nothing changes.
    pub fn change_back(&self, rule: LinkRule) -> Result<(), ProxyError> {
        self.shared.back.change(accepted(rule)?);
        Ok(())
    }

    /// Cuts both directions. To cut one, change its rule.
    pub fn cut(&self) {
        self.set_cut(true);
    }

    /// Mends both directions; all else of their rules stays as it was.
    pub fn heal(&self) {
        self.set_cut(false);
    }

    /// Closes all connections at once, as when a host on the way forgets them. New ones are carried.
    pub fn reset(&self) {
        for connection in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            connection.ends.close();
        }
        self.shared.wake();
    }

    fn set_cut(&self, cut: bool) {
        for direction in [&self.shared.forth, &self.shared.back] {
            direction.change(LinkRule { cut, ..direction.rule() });
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Nothing else wakes a thread that accepts. If it can't be reached, it ends with the next connection.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            let _ = accepting.join();
        }
        let connections = {
            let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *connections)
        };
        connections.iter().for_each(|connection| connection.ends.close());
        self.shared.wake();
        for thread in connections.into_iter().flat_map(|connection| connection.threads) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((near, _)) => self.open(near),
                // A want of descriptors: there is nothing to do but to try again when some are free.
                Err(_) => thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
    }

    /// Leads a connection on; whatever fails closes it.
    fn open(self: &Arc<Self>, near: TcpStream) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.threads.iter().all(JoinHandle::is_finished));
        if connections.len() >= MOST_CONNECTIONS {
            return;
        }
        let Ok(ends) = Ends::new(near).map(Arc::new) else { return };
        let shared = Arc::clone(self);
        let leading = Arc::clone(&ends);
        // Connecting may take its time, or wait for a cut link: not on the thread that accepts.
        let lead = move || {
            if shared.forth.wait_whole(&leading) && shared.back.wait_whole(&leading) {
                match TcpStream::connect(shared.target).and_then(|far| leading.connected(far)) {
                    Ok(()) => carry(&leading, &shared.forth, &shared.back),
                    Err(_) => leading.close(),
                }
            }
        };
        if let Ok(thread) = thread::Builder::new().name("proxy link".into()).spawn(lead) {
            connections.push(Connection { ends, threads: vec![thread] });
        }
    }

    fn wake(&self) {
        self.forth.wake();
        self.back.wake();
    }
}

fn accepted(rule: LinkRule) -> Result<LinkRule, ProxyError> {
    if rule.ordered { Ok(rule.checked()?) } else { Err(ProxyError::Unordered) }
}
