//! The addresses that the names of members' hosts stand for, found out by a thread of their own: nobody else waits for them.
//!
//! A name is looked up when it is first wanted, every [`EVERY`], and sooner when its host can't be reached, but not sooner than
//! [`PAUSE`] after the last time. Of several addresses one is taken, IPv4 first, and kept while it is among them and
//! can be reached. A look-up that fails changes nothing where there is an address.
//!
//! There are as many names as members with names. One look-up is under way at a time, so one that the system takes
//! long for holds up others.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a name is looked up of which nobody complains.
const EVERY: Duration = Duration::from_secs(30);

/// How soon after the last time a name is looked up again.
const PAUSE: Duration = Duration::from_secs(1);

/// So many addresses of a name are looked at.
const ADDRESSES_MOST: usize = 64;

/// How the addresses of a host's name are found; by default as the system finds them (`getaddrinfo`: `/etc/hosts`, DNS and
/// what else it is set up to ask).
#[derive(Clone)]
pub struct Lookup {
    find: Arc<Find>,
    every: Duration,
    pause: Duration,
}

type Find = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl Lookup {
    /// Asks this, on a thread where it may block, for the addresses of a name, at a port.
    #[must_use]
    pub fn new(find: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), every: EVERY, pause: PAUSE }
    }

    /// The addresses of a name, IPv4 first, for a thread that may block.
    pub(super) fn find(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = (self.find)(name, port)?;
        addresses.truncate(ADDRESSES_MOST);
        addresses.sort_by_key(|address| (address.is_ipv6(), *address));
        Ok(addresses)
    }

    /// How often a name is looked up, by default every 30 s, and how soon again when its host can't be reached, by default
    /// after 1 s. More than a year is a year.
    #[must_use]
    pub fn intervals(self, every: Duration, pause: Duration) -> Self {
        let [every, pause] = [every.max(pause), pause].map(|interval| interval.min(INTERVAL_MOST));
        Self { every, pause, ..self }
    }
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(|name, port| Ok((name, port).to_socket_addrs()?.take(ADDRESSES_MOST).collect()))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { every, pause, .. } = self;
        f.debug_struct("Lookup").field("every", every).field("pause", pause).finish_non_exhaustive()
    }
}

/// So that a sum with a time is one.
const INTERVAL_MOST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A host's name and a port.
type Name = (String, u16);

/// The names that are wanted, and what is known of them.
pub(super) struct Names(Arc<Shared>);

struct Shared {
    lookup: Lookup,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether an address was found that nobody has taken note of.
    news: AtomicBool,
}

#[derive(Default)]
struct State {
    names: BTreeMap<Name, Known>,
    has_thread: bool,
    over: bool,
}

#[derive(Default)]
struct Known {
    address: Option<SocketAddr>,
    looked: Option<Instant>,
    /// The host can't be reached there.
    unreachable: bool,
    /// The last look-up has failed, and that was said.
    failed: bool,
}

impl Names {
    pub(super) fn new(lookup: Lookup) -> Self {
        let (state, changed, news) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Self(Arc::new(Shared { lookup, state, changed, news }))
    }

    /// The address that a name stands for, as far as is known. It is looked up from now on.
    pub(super) fn address(&self, name: &str, port: u16) -> Option<SocketAddr> {
        let mut state = self.0.state();
        let name = (name.to_owned(), port);
        if let Some(known) = state.names.get(&name) {
            return known.address;
        }
        state.names.insert(name, Known::default());
        self.0.changed.notify_one();
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            let started = std::thread::Builder::new().name("replica-names".into()).spawn(move || shared.look_up());
            state.has_thread = started.is_ok();
            if let Err(error) = started {
                // It is tried again with the next look for news.
                self.0.news.store(true, Ordering::Release);
                tracing::error!(%error, "no thread to look up names of replicas");
                state.names.clear();
            }
        }
        None
    }

    /// The host can't be reached at the address that was found.
    pub(super) fn unreachable(&self, name: &str, port: u16) {
        if let Some(known) = self.0.state().names.get_mut(&(name.to_owned(), port))
            && !std::mem::replace(&mut known.unreachable, true)
        {
            self.0.changed.notify_one();
        }
    }

    /// Forgets all names but these.
    pub(super) fn keep(&self, is_wanted: impl Fn(&str, u16) -> bool) {
        self.0.state().names.retain(|(name, port), _| is_wanted(name, *port));
    }

    /// Whether some address has changed since this was asked last.
    pub(super) fn have_changed(&self) -> bool {
        self.0.news.load(Ordering::Relaxed) && self.0.news.swap(false, Ordering::Acquire)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.0.state().over = true;
        // The thread may be in a look-up, for which nobody waits.
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks names up as they are due, until nobody wants any.
    fn look_up(&self) {
        let mut state = self.state();
        while !state.over {
            let now = Instant::now();
            let next = state.names.iter().map(|(name, known)| (self.due(known, now), name)).min();
            let Some((due, name)) = next.map(|(due, name)| (due, name.clone())) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if due > now {
                let waited = self.changed.wait_timeout(state, due - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(state);
            let found = (self.lookup.find)(&name.0, name.1);
            state = self.state();
            if let Some(known) = state.names.get_mut(&name) {
                known.looked = Some(Instant::now());
                if known.found(&name, found) {
                    self.news.store(true, Ordering::Release);
                }
            }
        }
    }

    fn due(&self, known: &Known, now: Instant) -> Instant {
        let Some(looked) = known.looked else { return now };
        let soon = known.unreachable || known.address.is_none();
        looked + if soon { self.lookup.pause } else { self.lookup.every }
    }
}

impl Known {
    /// Takes note of what was found. Whether the address is another one now.
    fn found(&mut self, name: &Name, found: io::Result<Vec<SocketAddr>>) -> bool {
        let mut addresses = match found {
            Ok(addresses) => addresses,
            Err(error) => {
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!(host = name.0, %error, "the name of a replica was not resolved; a known address is kept");
                }
                return false;
            }
        };
        self.failed = false;
        addresses.truncate(ADDRESSES_MOST);
        addresses.sort_by_key(|address| (address.is_ipv6(), *address));
        let at = addresses.iter().position(|address| Some(*address) == self.address);
        let next = match at {
            Some(at) if self.unreachable => addresses.get(at + 1).or(addresses.first()),
            Some(at) => addresses.get(at),
            None => addresses.first(),
        };
        // Where there is no address it is asked for again soon, if one is missed.
        let Some(next) = next.copied() else { return false };
        self.unreachable = false;
        self.address.replace(next) != Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(3600);

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// A look-up that asks a test: it sends what was asked for, and waits for the answer.
    fn asked(every: Duration, pause: Duration) -> (Names, mpsc::Receiver<String>, mpsc::Sender<Vec<SocketAddr>>) {
        let (ask, questions) = mpsc::channel();
        let (answer, answers) = mpsc::channel::<Vec<SocketAddr>>();
        let answers = Mutex::new(answers);
        let lookup = Lookup::new(move |name, port| {
            let _nobody_may_be_there = ask.send(format!("{name}:{port}"));
            answers.lock().unwrap().recv().map_err(|_| io::Error::other("the test is over"))
        });
        (Names::new(lookup.intervals(every, pause)), questions, answer)
    }

    /// Waits until there is news.
    fn changed(names: &Names) {
        let until = Instant::now() + Duration::from_secs(60);
        while !names.have_changed() {
            assert!(Instant::now() < until, "no address was found");
            std::thread::yield_now();
        }
    }

    #[test]
    fn nobody_waits_for_a_name_and_of_its_addresses_one_is_kept_while_it_can_be_reached() {
        let (names, questions, answer) = asked(LONG, Duration::ZERO);
        assert_eq!(names.address("kv-1", 7), None);
        assert_eq!(questions.recv().unwrap(), "kv-1:7");
        assert_eq!(names.address("kv-1", 7), None, "the look-up is under way");
        let [six, one, other] = [socket("[::1]:7"), socket("10.0.0.1:7"), socket("10.0.0.2:7")];
        answer.send(vec![six, other, one]).unwrap();
        changed(&names);
        assert_eq!(names.address("kv-1", 7), Some(one));
        for next in [other, six, one] {
            names.unreachable("kv-1", 7);
            assert_eq!(questions.recv().unwrap(), "kv-1:7");
            answer.send(vec![six, other, one]).unwrap();
            changed(&names);
            assert_eq!(names.address("kv-1", 7), Some(next));
        }
        // It has moved; and then there is none, which leaves what was known.
        names.unreachable("kv-1", 7);
        questions.recv().unwrap();
        answer.send(vec![other]).unwrap();
        changed(&names);
        names.unreachable("kv-1", 7);
        questions.recv().unwrap();
        answer.send(Vec::new()).unwrap();
        names.unreachable("kv-1", 7);
        questions.recv().unwrap();
        assert_eq!((names.address("kv-1", 7), names.have_changed()), (Some(other), false));
    }

    #[test]
    fn names_that_nobody_wants_are_not_looked_up() {
        let (names, questions, answer) = asked(Duration::ZERO, Duration::ZERO);
        names.address("kv-1", 7);
        questions.recv().unwrap();
        names.keep(|_, _| false);
        names.address("kv-2", 7);
        for _ in 0..3 {
            answer.send(Vec::new()).unwrap();
            assert_eq!(questions.recv().unwrap(), "kv-2:7");
        }
        drop((names, answer));
        assert!(questions.recv().is_err(), "its thread has ended");
    }

    #[test]
    fn the_system_knows_its_own_name() {
        let names = Names::new(Lookup::default());
        names.address("localhost", 7);
        changed(&names);
        assert!(names.address("localhost", 7).unwrap().ip().is_loopback());
    }
}
