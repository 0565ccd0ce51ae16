//! Queues in the hands of a test: what they saw, in order, and how to go on until something is seen.

// Each test binary uses a part of this.
#![allow(dead_code, unused_imports, unused_macros)]

pub(crate) mod certificates;
pub(crate) mod site;

use std::time::{Duration, Instant};

use greenwave_policy::Time;
use greenwave_verbs::tls::CertificateNames;
use greenwave_verbs::{
    Address, CloseReason, CompletionQueue, DetachedEndpoint, EndpointId, Event, ListenerId, QueueConfig, TlsClient,
    TlsServer, VerbsError, open,
};

/// An event that outlives its poll.
#[derive(Debug)]
pub(crate) enum Seen {
    Accepted(EndpointId),
    Detached(DetachedEndpoint),
    AcceptFailed(VerbsError),
    Connected(EndpointId),
    Authenticated(EndpointId, CertificateNames),
    Received(EndpointId, Vec<u8>),
    Plain(EndpointId),
    Writable(EndpointId),
    Closed(EndpointId, CloseReason),
    Woken,
}

/// A queue and all it saw.
pub(crate) struct Host {
    pub(crate) queue: Box<dyn CompletionQueue>,
    pub(crate) log: Vec<Seen>,
    /// How its listeners and its connections are secured.
    pub(crate) tls: (Option<TlsServer>, Option<TlsClient>),
    start: Instant,
}

impl Host {
    /// `None` where the backend doesn't run, which is not for these tests to decide.
    pub(crate) fn new(config: &QueueConfig) -> Option<Self> {
        match open(config) {
            Ok(queue) => Some(Self { queue, log: Vec::new(), tls: (None, None), start: Instant::now() }),
            Err(error @ VerbsError::Unavailable { .. }) => {
                eprintln!("passed over: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Takes turns that lead to nothing that a test asks for.
    pub(crate) fn idle(&mut self) {
        for _ in 0..100 {
            self.turn();
        }
    }

    /// Submits and polls once.
    pub(crate) fn turn(&mut self) -> usize {
        self.queue.submit();
        let now = self.now();
        self.poll_at(now)
    }

    pub(crate) fn poll_at(&mut self, now: Time) -> usize {
        let log = &mut self.log;
        let before = log.len();
        let found = self.queue.poll(now, &mut |event| log.extend(Seen::of(event)));
        assert_eq!(found, log.len() - before, "poll says how many events there were");
        found
    }

    pub(crate) fn listen(&mut self, address: &Address) -> (ListenerId, Address) {
        let listener = self.try_listen(address).unwrap();
        (listener, self.queue.local_address(listener).unwrap())
    }

    pub(crate) fn try_listen(&mut self, address: &Address) -> Result<ListenerId, VerbsError> {
        self.queue.listen_with(address, self.tls.0.as_ref())
    }

    pub(crate) fn connect(&mut self, address: &Address) -> EndpointId {
        self.queue.connect_with(address, self.tls.1.as_ref()).unwrap()
    }

    pub(crate) fn chunks(&self) -> Vec<&[u8]> {
        let received = self.log.iter().filter_map(|seen| match seen {
            Seen::Received(_, chunk) => Some(chunk.as_slice()),
            _ => None,
        });
        received.collect()
    }

    pub(crate) fn accepted(&self) -> Option<EndpointId> {
        self.log.iter().find_map(|seen| if let Seen::Accepted(endpoint) = seen { Some(*endpoint) } else { None })
    }

    pub(crate) fn is_connected(&self, endpoint: EndpointId) -> bool {
        self.log.iter().any(|seen| matches!(seen, Seen::Connected(id) if *id == endpoint))
    }

    pub(crate) fn closed(&self, endpoint: EndpointId) -> Option<CloseReason> {
        self.log.iter().find_map(|seen| match seen {
            Seen::Closed(id, reason) if *id == endpoint => Some(*reason),
            _ => None,
        })
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.log.iter().any(|seen| matches!(seen, Seen::Woken))
    }

    pub(crate) fn is_writable(&self, endpoint: EndpointId) -> bool {
        self.log.iter().any(|seen| matches!(seen, Seen::Writable(id) if *id == endpoint))
    }
}

impl Seen {
    /// `None`: it is said ahead of what it is about.
    fn of(event: Event<'_>) -> Option<Self> {
        let seen = match event {
            Event::Ahead { .. } => return None,
            Event::Accepted { endpoint, .. } => Self::Accepted(endpoint),
            Event::AcceptedDetached { endpoint, .. } => Self::Detached(endpoint),
            Event::AcceptFailed { error, .. } => Self::AcceptFailed(error),
            Event::Connected { endpoint } => Self::Connected(endpoint),
            Event::Authenticated { endpoint, names } => Self::Authenticated(endpoint, names),
            Event::Received { endpoint, chunk } => Self::Received(endpoint, chunk.to_vec()),
            Event::Plain { endpoint, .. } => Self::Plain(endpoint),
            Event::Writable { endpoint } => Self::Writable(endpoint),
            Event::Closed { endpoint, reason } => Self::Closed(endpoint, reason),
            Event::Woken => Self::Woken,
        };
        Some(seen)
    }
}

/// Lets the hosts take turns until the condition holds. The limit is only there to end a test that fails.
pub(crate) fn until<const N: usize>(mut hosts: [&mut Host; N], condition: impl Fn(&[&mut Host; N]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition(&hosts) {
        for host in &mut hosts {
            host.turn();
        }
        assert!(Instant::now() < limit, "it never came: {:?}", hosts.map(|host| std::mem::take(&mut host.log)));
    }
}

/// A server and a client with one connection between them, by their ids of it.
pub(crate) fn connect(server: &mut Host, client: &mut Host, address: &Address) -> (EndpointId, EndpointId) {
    let (_, address) = server.listen(address);
    let at_client = client.connect(&address);
    server.log.clear();
    until([server, client], |[server, client]| server.accepted().is_some() && client.is_connected(at_client));
    (server.accepted().unwrap(), at_client)
}
