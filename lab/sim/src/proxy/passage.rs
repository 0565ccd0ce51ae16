//! What a connection's bytes pass, in one direction.

use crate::link::{Fate, Link, LinkRule, SEGMENT};
use greenwave_policy::Time;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The two sockets of a connection.
#[derive(Debug)]
pub(super) struct Ends {
    near: TcpStream,
    far: OnceLock<TcpStream>,
    ended: AtomicBool,
}

impl Ends {
    pub(super) fn new(near: TcpStream) -> io::Result<Self> {
        near.set_nodelay(true)?;
        Ok(Self { near, far: OnceLock::new(), ended: AtomicBool::new(false) })
    }

    pub(super) fn connected(&self, far: TcpStream) -> io::Result<()> {
        far.set_nodelay(true)?;
        let _ = self.far.set(far);
        // Who closed meanwhile may not have seen the socket.
        if self.ended() {
            self.close();
        }
        Ok(())
    }

    /// Closes both sockets. Threads that wait for a direction have to be woken beside that.
    pub(super) fn close(&self) {
        self.ended.store(true, Ordering::SeqCst);
        // They may be closed already.
        let _ = self.near.shutdown(Shutdown::Both);
        if let Some(far) = self.far.get() {
            let _ = far.shutdown(Shutdown::Both);
        }
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

/// One direction of a proxy, which all its connections share.
#[derive(Debug)]
pub(super) struct Direction {
    link: Mutex<Link>,
    changed: Condvar,
    origin: Instant,
}

impl Direction {
    pub(super) fn new(link: Link, origin: Instant) -> Self {
        Self { link: Mutex::new(link), changed: Condvar::new(), origin }
    }

    pub(super) fn rule(&self) -> LinkRule {
        self.lock().rule()
    }

    pub(super) fn change(&self, rule: LinkRule) {
        self.lock().change(rule);
        self.wake();
    }

    /// Lets all who wait for a change look at their ends too.
    pub(super) fn wake(&self) {
        // Under the lock, so that nobody is between looking and waiting.
        let _link = self.lock();
        self.changed.notify_all();
    }

    /// Waits until it isn't cut; false if the connection ended first.
    pub(super) fn wait_whole(&self, ends: &Ends) -> bool {
        let mut link = self.lock();
        while link.rule().cut && !ends.ended() {
            link = self.changed.wait(link).unwrap_or_else(PoisonError::into_inner);
        }
        !ends.ended()
    }

    /// When `bytes` that are sent now arrive; waits while it is cut. `None` if the connection ended first.
    fn send(&self, ends: &Ends, bytes: usize) -> Option<Instant> {
        let mut link = self.lock();
        while !ends.ended() {
            let now = Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if let Fate::Arrives { at, .. } = link.send(now, bytes as u64) {
                return Some(self.origin + Duration::from_nanos(at.as_nanos()));
            }
            link = self.changed.wait(link).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries a connection in both directions until it has ended in both.
pub(super) fn carry(ends: &Arc<Ends>, forth: &Arc<Direction>, back: &Arc<Direction>) {
    let Some(far) = ends.far.get() else { return };
    let there = Passage::new(ends, forth, &ends.near, far);
    let here = Passage::new(ends, back, far, &ends.near);
    thread::scope(|scope| {
        let spawned = [
            thread::Builder::new().spawn_scoped(scope, || there.read()),
            thread::Builder::new().spawn_scoped(scope, || there.write()),
            thread::Builder::new().spawn_scoped(scope, || here.read()),
        ];
        if spawned.iter().any(Result::is_err) {
            there.close();
        }
        here.write();
    });
    ends.close();
}

/// One connection's bytes on their way in one direction.
struct Passage<'a> {
    ends: &'a Ends,
    direction: &'a Direction,
    from: &'a TcpStream,
    to: &'a TcpStream,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// When they arrive. Empty bytes are the end of the stream.
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl<'a> Passage<'a> {
    fn new(ends: &'a Ends, direction: &'a Direction, from: &'a TcpStream, to: &'a TcpStream) -> Self {
        Self { ends, direction, from, to, queue: Mutex::default(), changed: Condvar::new() }
    }

    fn read(&self) {
        loop {
            let rule = self.direction.rule();
            let mut chunk = vec![0; chunk_size(&rule)];
            let Ok(read) = (&mut &*self.from).read(&mut chunk) else { break };
            chunk.truncate(read);
            let Some(arrival) = self.direction.send(self.ends, read) else { break };
            let most = on_the_way(&rule);
            let mut queue = self.lock();
            while queue.bytes > most && !self.ends.ended() {
                queue = self.wait(queue, None);
            }
            queue.bytes += read;
            queue.chunks.push_back((arrival, chunk));
            self.changed.notify_all();
            if read == 0 {
                return;
            }
        }
        self.close();
    }

    fn write(&self) {
        while let Some(chunk) = self.arrived() {
            let written = match chunk.is_empty() {
                // The peer may have closed already, and then this isn't needed.
                true => return drop(self.to.shutdown(Shutdown::Write)),
                false => (&mut &*self.to).write_all(&chunk),
            };
            if written.is_err() {
                break;
            }
        }
        self.close();
    }

    /// The next chunk, when its time has come; `None` if the connection has ended.
    fn arrived(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        while !self.ends.ended() {
            let left = queue.chunks.front().map(|(arrival, _)| arrival.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                let (_, chunk) = queue.chunks.pop_front()?;
                queue.bytes -= chunk.len();
                self.changed.notify_all();
                return Some(chunk);
            }
            queue = self.wait(queue, left);
        }
        None
    }

    fn close(&self) {
        self.ends.close();
        self.wake();
        self.direction.wake();
    }

    fn wake(&self) {
        let _queue = self.lock();
        self.changed.notify_all();
    }

    /// Waits for a change, or so long. Whoever closes the connection from elsewhere can't wake a passage, so nobody
    /// waits longer than [`LONGEST_WAIT`].
    fn wait<'g>(&self, queue: MutexGuard<'g, Queue>, left: Option<Duration>) -> MutexGuard<'g, Queue> {
        let left = left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How much is read at once: what leaves in a millisecond, so that connections that share a link take turns.
fn chunk_size(rule: &LinkRule) -> usize {
    let in_a_millisecond = rule.stream_bandwidth().as_bytes_per_s() / 1000;
    in_a_millisecond.clamp(SEGMENT, 64 * 1024) as usize
}

/// How many bytes may be on the way: twice what the path holds, so that it can be full, and a queue before it.
fn on_the_way(rule: &LinkRule) -> usize {
    let seconds = (rule.delay + rule.jitter + rule.retransmission()).as_secs_f64();
    let holds = rule.stream_bandwidth().as_bytes_per_s() as f64 * seconds;
    (2.0 * holds).clamp(64.0 * 1024.0, 64.0 * 1024.0 * 1024.0) as usize
}
