//! Clients that ask the store for all it can do, one call at a time each, and write down what they asked and heard.
//!
//! Each round has keys of its own, so that the search for an order stays short; what was written in rounds before is read now
//! and then. No two writes have the same value.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use greenwave::{ChannelConfig, Context};
use greenwave_services::replicated::client::{Freshness, GroupClient, StoreClientError, Swapped};
use greenwave_services::replicated::peers::Place;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

use crate::history::{Ask, Call, Outcome};
use crate::pairs;
use crate::replica;
use crate::value;

/// Clients beside those of [`pairs`].
pub(crate) const CLIENTS: usize = 6;

/// Keys of a round.
pub(crate) const KEYS: usize = 16;

/// How long a client rests between two calls, at most.
const REST_MS: u64 = 12;

/// After its deadline a call may take so much longer until it is called lost: the machine is busy.
const OVERDUE: Duration = Duration::from_secs(20);

/// The longest deadline of a call.
const LONGEST: Duration = Duration::from_secs(5);

/// What all clients and the run share.
pub(crate) struct Shared {
    began: Instant,
    /// How clients read.
    pub(crate) reads: Freshness,
    /// The round, whose keys are used.
    pub(crate) round: AtomicUsize,
    /// Calls that were made.
    pub(crate) accepted: AtomicU64,
    /// What shouldn't be.
    findings: Mutex<Vec<String>>,
    /// What wasn't taken yet.
    calls: Mutex<Vec<Call>>,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Default)]
struct Gate {
    paused: bool,
    over: bool,
    busy: usize,
}

/// Clients under way.
pub(crate) struct Load {
    /// What they share with the run.
    pub(crate) shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts clients of a group of so many replicas, in the namespace of the calling thread.
    ///
    /// # Errors
    /// When one can't be made.
    pub(crate) fn start(replicas: usize, seed: u64, reads: Freshness) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            reads,
            round: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            findings: Mutex::default(),
            calls: Mutex::default(),
            gate: Mutex::default(),
            moved: Condvar::new(),
        });
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (shared, store) = (Arc::clone(&shared), client(replicas)?);
            let draw = ChaCha8Rng::seed_from_u64(seed.wrapping_add((number as u64 + 1) << 40));
            let mut client = Client { number, store, draw, written: 0, seen: vec![None; KEYS], of_round: 0, shared };
            clients.push(thread::spawn(move || client.run()));
        }
        clients.extend(pairs::start(&shared, replicas)?);
        Ok(Self { shared, clients })
    }

    /// Ends the clients.
    pub(crate) fn stop(self) -> Arc<Shared> {
        held(&self.shared.gate).over = true;
        self.shared.moved.notify_all();
        if self.shared.pause() == 0 {
            self.clients.into_iter().for_each(|client| {
                if client.join().is_err() {
                    self.shared.find("a client panicked");
                }
            });
        }
        self.shared
    }
}

impl Shared {
    /// Has no new calls begin, and waits for those that are open. Says how many weren't answered, long after their deadlines.
    pub(crate) fn pause(&self) -> usize {
        let mut gate = held(&self.gate);
        gate.paused = true;
        let waited = self.moved.wait_timeout_while(gate, LONGEST + OVERDUE, |gate| gate.busy > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.busy
    }

    /// Lets calls begin again.
    pub(crate) fn resume(&self) {
        held(&self.gate).paused = false;
        self.moved.notify_all();
    }

    /// Waits until a call may begin. False: the run is over.
    pub(crate) fn enter(&self) -> bool {
        let gate = held(&self.gate);
        let mut gate =
            self.moved.wait_while(gate, |gate| gate.paused && !gate.over).unwrap_or_else(PoisonError::into_inner);
        if gate.over {
            return false;
        }
        gate.busy += 1;
        true
    }

    /// The call that began has ended.
    pub(crate) fn leave(&self) {
        held(&self.gate).busy -= 1;
        self.moved.notify_all();
    }

    /// Makes a call and writes it down.
    pub(crate) fn call(&self, client: usize, ask: Ask, make: impl FnOnce(&Ask) -> Outcome) -> Outcome {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let called = self.now();
        let outcome = make(&ask);
        let call = Call { client, called, ended: self.now(), ask, outcome: outcome.clone() };
        held(&self.calls).push(call);
        outcome
    }

    /// Takes what was written down since the last time.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        mem::take(&mut *held(&self.calls))
    }

    /// Whether no call of a client is open.
    pub(crate) fn is_at_rest(&self) -> bool {
        held(&self.gate).busy == 0
    }

    /// Writes down what shouldn't be.
    pub(crate) fn find(&self, what: impl Into<String>) {
        held(&self.findings).push(what.into());
    }

    /// What was found so far.
    pub(crate) fn findings(&self) -> Vec<String> {
        held(&self.findings).clone()
    }

    /// How much was found so far.
    pub(crate) fn found(&self) -> usize {
        held(&self.findings).len()
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

struct Client {
    number: usize,
    store: GroupClient,
    draw: ChaCha8Rng,
    written: u64,
    /// What was seen last of each key of the round.
    seen: Vec<Option<String>>,
    of_round: usize,
    shared: Arc<Shared>,
}

impl Client {
    fn run(&mut self) {
        while self.shared.enter() {
            self.step();
            self.shared.leave();
            thread::sleep(Duration::from_millis(self.draw.next_u64() % REST_MS));
        }
    }

    fn step(&mut self) {
        let round = self.shared.round.load(Ordering::Relaxed);
        if round != self.of_round {
            (self.of_round, self.seen) = (round, vec![None; KEYS]);
        }
        let number = self.draw.next_u64() as usize % KEYS;
        let key = key(round, number);
        let ask = match self.draw.next_u32() % 100 {
            0..34 => Ask::Get { key },
            34..62 => Ask::Put { key, value: self.value() },
            62..82 => Ask::Swap { key, expected: self.seen[number].clone(), value: self.value() },
            82..88 => Ask::Delete { key },
            88..96 => Ask::Scan { keys: keys(round) },
            _ => Ask::Get { key: self::key(self.draw.next_u64() as usize % (round + 1), number) },
        };
        let old = matches!(&ask, Ask::Get { key } if *key != self::key(round, number));
        let limits = [Duration::from_millis(400), Duration::from_millis(1500), LONGEST];
        let context = Context::with_deadline(limits[self.draw.next_u64() as usize % limits.len()]);
        let (store, reads) = (&mut self.store, self.shared.reads);
        let outcome = self.shared.call(self.number, ask, |ask| make(store, &context, ask, reads));
        match outcome {
            Outcome::Value(value) | Outcome::NotSwapped(value) if !old => self.seen[number] = value,
            _ => {}
        }
    }

    fn value(&mut self) -> String {
        self.written += 1;
        format!("{}-{}", self.number, self.written)
    }
}

/// Asks the store.
pub(crate) fn make(store: &mut GroupClient, context: &Context, ask: &Ask, reads: Freshness) -> Outcome {
    let done = match ask {
        Ask::Get { key } => {
            store.get(context, key.as_bytes(), reads).map(|read| Outcome::Value(read.map(|bytes| value::name(&bytes))))
        }
        Ask::Put { key, value } => store.put(context, key.as_bytes(), &value::bytes(value)).map(|()| Outcome::Written),
        Ask::Delete { key } => store.delete(context, key.as_bytes()).map(Outcome::Deleted),
        Ask::Swap { key, expected, value } => {
            let expected = expected.as_deref().map(value::bytes);
            let swapped =
                store.compare_and_swap(context, key.as_bytes(), expected.as_deref(), Some(&value::bytes(value)));
            swapped.map(|swapped| match swapped {
                Swapped::Yes => Outcome::Swapped,
                Swapped::No { found } => Outcome::NotSwapped(found.map(|bytes| value::name(&bytes))),
            })
        }
        Ask::Scan { keys } => scan(store, context, keys, reads),
    };
    done.unwrap_or_else(|error| match error {
        StoreClientError::Uncertain { .. } => Outcome::Unknown(error.to_string()),
        error => Outcome::Failed(error.to_string()),
    })
}

/// Keys are neighbours, and there are few.
fn scan(
    store: &mut GroupClient,
    context: &Context,
    keys: &[String],
    reads: Freshness,
) -> Result<Outcome, StoreClientError> {
    let (from, last) = (keys.first().cloned().unwrap_or_default(), keys.last().cloned().unwrap_or_default());
    let to = last + "\0";
    let rows = store.range(context, from.as_bytes(), Some(to.as_bytes()), 1000, reads)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Outcome::Rows(rows.rows.iter().map(|(key, bytes)| (text(key), value::name(bytes))).collect()))
}

/// A client of the group.
///
/// # Errors
/// When it can't be made.
pub(crate) fn client(replicas: usize) -> anyhow::Result<GroupClient> {
    let places = (0..replicas).map(|node| replica::place(node).parse()).collect::<Result<Vec<Place>, _>>()?;
    Ok(GroupClient::new(places, ChannelConfig::default())?)
}

/// The keys of a round, in order.
pub(crate) fn keys(round: usize) -> Vec<String> {
    (0..KEYS).map(|number| key(round, number)).collect()
}

fn key(round: usize, number: usize) -> String {
    format!("round-{round:05}-key-{number:02}")
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
