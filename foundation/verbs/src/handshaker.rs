//! TLS handshakes, apart from the threads that serve.
//!
//! A handshake's signatures take as long as many calls. So whoever serves can have them made elsewhere: a connection that came in,
//! detached, is submitted here, and comes back when its handshake is done, to be [adopted](crate::CompletionQueue::adopt). What the
//! client has sent with its last flight goes along with it, and so does who it is. Who doesn't get done is closed on.
//!
//! They are begun [by turns](turns) of the addresses that they come from, a [few](AT_ONCE) at a time, and give way to threads that
//! serve where there aren't cores for both: who is served already is not to be harmed by whoever begins handshakes without end, nor
//! is who comes now.
//!
//! Each thread has a completion queue of its own, over epoll, which reads a connection no further than to the end of its handshake.

mod turns;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use greenwave_policy::Time;

use crate::detached::Carrier;
use crate::epoll::EpollQueue;
use crate::{Address, Close, CompletionQueue, DetachedEndpoint, EndpointId, Event, QueueConfig, VerbsError, Waker};

use turns::Turns;

/// How many are begun before those that are under way are looked at again.
const AT_ONCE: usize = 8;

/// By how much the threads are nicer (sched(7)) than the one that starts them: beside one that never rests they have about a tenth of
/// a core.
const NICER: i32 = 10;

/// What is done with a connection whose handshake is done. It runs on a thread of the handshakes' and must not block.
type Then = Box<dyn FnOnce(DetachedEndpoint) + Send>;

/// How many handshakes there may be, and for how long.
#[derive(Clone, Debug)]
pub struct HandshakeConfig {
    /// How many threads make them, 1 or more.
    pub threads: usize,
    /// How many may be under way at a time, 1 or more. One that comes beyond that takes the place of the oldest.
    pub most: usize,
    /// How long one may take, in all.
    pub time: Duration,
    /// As of the queues that the connections are for.
    pub chunk_bytes: usize,
    /// As of the queues that the connections are for.
    pub plain: &'static [[u8; 4]],
}

/// Threads that make the TLS handshakes of connections that came in. They end with it, and so do handshakes under way.
pub struct Handshaker {
    workers: Vec<Worker>,
    next: AtomicUsize,
    /// Of each thread.
    most: usize,
}

struct Worker {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

struct Inbox {
    submitted: Mutex<Turns<(DetachedEndpoint, Then)>>,
    stops: AtomicBool,
    /// Its thread panicked, by a defect.
    died: AtomicBool,
    waker: Waker,
}

impl Handshaker {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`VerbsError`]: there is no queue or no thread to be had.
    pub fn start(config: &HandshakeConfig) -> Result<Self, VerbsError> {
        let threads = config.threads.max(1);
        // Those that were started end with it, if a further one can't be.
        let most = config.most.div_ceil(threads).max(1);
        let mut handshaker = Self { workers: Vec::new(), next: AtomicUsize::new(0), most };
        for number in 0..threads {
            let queue = EpollQueue::open(&QueueConfig {
                chunk_bytes: config.chunk_bytes,
                handshakes: most,
                plain: config.plain,
                ..QueueConfig::default()
            })?;
            let (submitted, stops) = (Mutex::default(), AtomicBool::new(false));
            let inbox = Arc::new(Inbox { submitted, stops, died: AtomicBool::new(false), waker: queue.waker() });
            let (own, time) = (Arc::clone(&inbox), config.time);
            let thread = std::thread::Builder::new().name(format!("greenwave-tls-{number}"));
            let thread = thread.spawn(move || {
                // Who may not be nicer than it is makes handshakes all the same.
                let _ = rustix::process::nice(NICER);
                if catch_unwind(AssertUnwindSafe(|| UnderWay::new(queue, time).run(&own))).is_err() {
                    own.died.store(true, Ordering::Release);
                    own.submitted.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            });
            let failed = |source: io::Error| VerbsError::System { doing: "starting a thread for handshakes", source };
            handshaker.workers.push(Worker { inbox, thread: Some(thread.map_err(failed)?) });
        }
        Ok(handshaker)
    }

    /// Has the handshake of a connection made, of a listener with TLS; what comes of it is handed to `then`, unless it fails. Where as
    /// many wait as may be under way, the oldest is closed of the address of which most do.
    pub fn submit(&self, endpoint: DetachedEndpoint, then: impl FnOnce(DetachedEndpoint) + Send + 'static) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        let (before, from) = self.workers.split_at(turn);
        let mut alive = from.iter().chain(before).filter(|worker| !worker.inbox.died.load(Ordering::Acquire));
        let Some(Worker { inbox, .. }) = alive.next() else { return };
        let mut submitted = inbox.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        let from = endpoint.peer.socket().map(|socket| socket.ip());
        let oldest = submitted.push(from, (endpoint, Box::new(then)), self.most);
        // Its thread may have died since, and then nobody takes anything out. The lock says so for certain.
        if inbox.died.load(Ordering::Acquire) {
            submitted.clear();
        }
        drop(submitted);
        inbox.waker.wake();
        drop(oldest);
    }
}

impl Drop for Handshaker {
    fn drop(&mut self) {
        for Worker { inbox, .. } in &self.workers {
            inbox.stops.store(true, Ordering::Release);
            inbox.waker.wake();
        }
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            // If it panicked, that was said where it did.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Handshaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshaker").field("threads", &self.workers.len()).finish_non_exhaustive()
    }
}

/// The handshakes of one thread.
struct UnderWay {
    queue: EpollQueue,
    time: Duration,
    begun: std::time::Instant,
    /// By the queue's names of them.
    pending: HashMap<u64, (Address, Then)>,
    /// When each is over at the latest, in order, and some that are over.
    due: VecDeque<(Time, u64)>,
}

impl UnderWay {
    fn new(queue: EpollQueue, time: Duration) -> Self {
        let begun = std::time::Instant::now();
        Self { queue, time, begun, pending: HashMap::new(), due: VecDeque::new() }
    }

    fn run(mut self, inbox: &Inbox) {
        loop {
            let now = Time::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let Self { queue, pending, .. } = &mut self;
            // First, as it takes note of wakes: what others have left before them is seen below.
            queue.poll(now, &mut |event| {
                if let Event::Closed { endpoint, .. } = event {
                    pending.remove(&endpoint.0);
                }
            });
            if inbox.stops.load(Ordering::Acquire) {
                return;
            }
            while let Some((key, stream)) = self.queue.take_held() {
                if let Some((peer, then)) = self.pending.remove(&key) {
                    then(DetachedEndpoint { peer, carrier: Carrier::Secured(Box::new(stream)) });
                }
            }
            let more = self.begin_some(now, inbox);
            let next = self.end_overdue(now);
            if !more {
                self.queue.wait(now, next.map(|next| next.since(now)));
            }
        }
    }

    /// Begins those whose turn it is. Whether there are more.
    fn begin_some(&mut self, now: Time, inbox: &Inbox) -> bool {
        for _ in 0..AT_ONCE {
            let next = inbox.submitted.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((endpoint, then)) = next else { return false };
            self.begin(now, endpoint, then);
        }
        !inbox.submitted.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn begin(&mut self, now: Time, endpoint: DetachedEndpoint, then: Then) {
        let peer = endpoint.peer.clone();
        // One that can't be begun is closed by that, as if it had failed.
        if let Ok(key) = self.queue.hold(endpoint) {
            self.pending.insert(key, (peer, then));
            self.due.push_back((now + self.time, key));
        }
        // Most are over long before they are due.
        if self.due.len() > 2 * self.pending.len() + 64 {
            self.due.retain(|(_, key)| self.pending.contains_key(key));
        }
    }

    /// Ends those that have taken too long. When the next one will have.
    fn end_overdue(&mut self, now: Time) -> Option<Time> {
        while let Some(&(due, key)) = self.due.front() {
            if self.pending.contains_key(&key) {
                if due > now {
                    return Some(due);
                }
                self.pending.remove(&key);
                self.queue.close(EndpointId(key), Close::Abort);
            }
            self.due.pop_front();
        }
        None
    }
}
