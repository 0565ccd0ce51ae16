//! Clients of the store as a generator drives them: each has a session, and one put at a time, which is the next of that.
//! That is what [`GroupClient`](greenwave_services::replicated::client::GroupClient) does, and what it costs is measured too.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use anyhow::Context as _;
use greenwave::{Address, CallQueue, ChannelConfig, Context, Method};
use greenwave_bench::load::slot;
use greenwave_bench::rpc::{Patience, RpcTarget};
use greenwave_bench::target::{Reply, Request, Target};
use greenwave_policy::Time;
use greenwave_services::proto::replicated as proto;
use prost::Message as _;
use proto::Session;

/// How long the group may take to open a session.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many are opened at a time.
const AT_ONCE: usize = 64;

/// Some clients, whose calls go over one connection.
pub(crate) struct Clients<T> {
    target: T,
    /// That of each, with the number of its last put.
    sessions: Vec<Session>,
    message: Vec<u8>,
}

impl Clients<RpcTarget> {
    /// So many, of the replica at this address, which leads; their sessions are open.
    pub(crate) fn connect(address: &Address, config: &ChannelConfig, count: usize) -> anyhow::Result<Self> {
        let target = RpcTarget::connect(address, config, proto::PUT, "kv", Patience::Observed)?;
        let mut queue = CallQueue::connect(address, config)?;
        let sessions = sessions(count);
        for some in sessions.chunks(AT_ONCE) {
            open(&mut queue, some).context("can't open a session")?;
        }
        Ok(Self { target, sessions, message: Vec::new() })
    }
}

/// Sessions of clients that nobody else is.
fn sessions(count: usize) -> Vec<Session> {
    let random = RandomState::new();
    (0..count).map(|number| Session { client: random.hash_one(number).max(1), sequence: 0 }).collect()
}

fn open(queue: &mut CallQueue, sessions: &[Session]) -> anyhow::Result<()> {
    let context = Context::with_deadline(PATIENCE);
    for session in sessions {
        let request = proto::OpenRequest { session: Some(*session) }.encode_to_vec();
        queue.submit(&context, Method::named(proto::OPEN), &request, 0);
    }
    for _ in sessions {
        let completion = queue.take().context("no call is in flight")?;
        completion.result.map_err(|failure| failure.status)?;
    }
    Ok(())
}

impl<T: Target> Target for Clients<T> {
    fn now(&self) -> Time {
        self.target.now()
    }

    /// Who has no put under way makes it: the one with the number of the request's slot.
    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let session = self.sessions.get_mut(slot(request.tag)).ok_or("no-client-left")?;
        session.sequence += 1;
        self.message.clear();
        self.message.extend_from_slice(request.payload);
        // A message and more of its fields are the message with those.
        let more = proto::PutRequest { session: Some(*session), ..proto::PutRequest::default() };
        more.encode(&mut self.message).map_err(|_| "error")?;
        self.target.submit(&Request { payload: &self.message, ..*request })
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        self.target.poll(sink);
    }

    fn wait(&mut self, until: Time) {
        self.target.wait(until);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;
    use greenwave_bench::arrivals::Arrivals;
    use greenwave_bench::classes::Classes;
    use greenwave_bench::load::{self, Plan};
    use greenwave_bench::progress::Progress;
    use greenwave_bench::target::{Answer, Rotation};

    /// A store in virtual time that answers each put a millisecond after it came, the last of those that are due first.
    #[derive(Default)]
    struct Store {
        now: Time,
        under_way: VecDeque<(u64, Time)>,
        puts: Vec<proto::PutRequest>,
    }

    impl Target for Store {
        fn now(&self) -> Time {
            self.now
        }

        fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
            self.puts.push(proto::PutRequest::decode(request.payload).expect("a put"));
            self.under_way.push_back((request.tag, self.now + Duration::from_millis(1)));
            Ok(())
        }

        fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
            let due = self.under_way.iter().take_while(|(_, due)| *due <= self.now).count();
            for (tag, received) in self.under_way.drain(..due).rev() {
                sink(Reply { tag, received, answer: Answer::Ok, stages: &[] });
            }
        }

        fn wait(&mut self, until: Time) {
            self.now = self.under_way.front().map_or(until, |(_, due)| until.min(*due));
        }
    }

    fn driven(clients: usize, arrivals: Arrivals) -> (Vec<proto::PutRequest>, u64) {
        let (time, class) = (Duration::from_millis(100), Classes::single(Duration::from_secs(1)));
        let plan = Plan { warm_up: Duration::ZERO, ..Plan::new(arrivals, class, time) };
        let mut clients = Clients { target: Store::default(), sessions: sessions(clients), message: Vec::new() };
        let put = proto::PutRequest { key: "k".into(), value: "v".into(), session: None };
        let mut messages = Rotation::single(put.encode_to_vec());
        let measured = load::run(&plan, &mut clients, &mut messages, &mut Progress::hidden());
        (clients.target.puts, measured.total.missed())
    }

    #[test]
    fn every_client_counts_its_puts_from_one_and_has_one_at_a_time() {
        let (puts, missed) = driven(3, Arrivals::Closed { in_flight: 3 });
        let mut of_clients: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for put in &puts {
            assert_eq!((&put.key[..], &put.value[..]), (&b"k"[..], &b"v"[..]), "the session is added to what it says");
            let session = put.session.expect("it has one");
            of_clients.entry(session.client).or_default().push(session.sequence);
        }
        assert_eq!((of_clients.len(), missed), (3, 0));
        assert!(puts.len() >= 300, "{}", puts.len());
        for (client, sequences) in of_clients {
            assert_ne!(client, 0);
            assert!(sequences.into_iter().eq(1..=puts.len() as u64 / 3), "of {client}");
        }
        // Three come at the same time, one of each.
        for three in puts.chunks_exact(3) {
            let mut clients: Vec<_> = three.iter().map(|put| put.session.map(|session| session.client)).collect();
            clients.sort_unstable();
            clients.dedup();
            assert_eq!(clients.len(), 3);
        }
    }

    #[test]
    fn what_no_client_is_left_for_is_missed() {
        let arrivals = Arrivals::Poisson { per_second: 4000.0 };
        let (puts, missed) = driven(2, arrivals);
        assert!(missed > 0 && !puts.is_empty(), "four are there at a time");
        assert_eq!(driven(100, arrivals).1, 0);
    }
}
