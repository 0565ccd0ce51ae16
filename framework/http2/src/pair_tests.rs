//! A client and a server of this crate, which never find fault with each other.

use crate::{Connection, Event, Header, Reason, Role, Settings, Stream};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What one side has of a stream.
#[derive(Debug, Default)]
struct Kept {
    sent: Vec<u8>,
    has_ended: bool,
    received: Vec<u8>,
    was_ended: bool,
    /// What was received and not given back.
    held: usize,
    was_reset: bool,
}

struct Side {
    is_client: bool,
    connection: Connection,
    streams: BTreeMap<u32, (Stream, Kept)>,
    input: Vec<u8>,
    known: Header<'static>,
}

impl Side {
    fn new(role: Role, settings: Settings) -> Self {
        let mut connection = Connection::new(role, settings);
        let known = connection.know(b"x-known", b"something").map(Header::Known).unwrap();
        Self { is_client: role == Role::Client, connection, streams: BTreeMap::new(), input: Vec::new(), known }
    }

    /// Hands on up to so many bytes.
    fn pass(&mut self, to: &mut Self, room: usize) -> usize {
        let output = self.connection.output(room);
        let len = output.len().min(room);
        to.input.extend_from_slice(&output[..len]);
        self.connection.sent(len);
        self.connection.check();
        to.read();
        len
    }

    fn read(&mut self) {
        let mut rest = &self.input[..];
        loop {
            match self.connection.read(&mut rest).expect("nobody does anything wrong") {
                None => break,
                Some(Event::Headers { stream, fields, end }) => {
                    assert!(fields.iter().any(|field| field.value == b"something"));
                    self.streams.entry(stream.id()).or_insert((stream, Kept::default())).1.was_ended = end;
                }
                Some(Event::Data { stream, bytes, end }) => {
                    let (_, kept) = self.streams.get_mut(&stream.id()).unwrap();
                    kept.received.extend_from_slice(bytes);
                    kept.held += bytes.len();
                    kept.was_ended = end;
                }
                Some(Event::Trailers { stream, .. }) => {
                    self.streams.get_mut(&stream.id()).unwrap().1.was_ended = true;
                }
                Some(Event::Reset { stream, by_peer, .. }) => {
                    assert!(by_peer);
                    self.streams.get_mut(&stream.id()).unwrap().1.was_reset = true;
                }
                Some(Event::Refused { .. }) => panic!("no more were opened than are accepted"),
                Some(_) => {}
            }
        }
        let read = self.input.len() - rest.len();
        self.input.drain(..read);
        self.connection.check();
    }

    fn give_back(&mut self, id: u32) {
        let Some((stream, kept)) = self.streams.get_mut(&id) else { return };
        let held = std::mem::take(&mut kept.held);
        self.connection.consumed(*stream, held);
        self.connection.release(held);
    }

    fn send(&mut self, id: u32, len: usize, end: bool) {
        let Some((stream, kept)) = self.streams.get_mut(&id).filter(|(_, kept)| !kept.has_ended) else { return };
        let body: Vec<u8> = (0..len).map(|at| (at + kept.sent.len()) as u8).collect();
        kept.sent.extend_from_slice(b"<>");
        kept.sent.extend_from_slice(&body);
        kept.has_ended = end;
        self.connection.send(*stream, b"<>", body, end);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(bool),
    Respond(u32),
    Send(bool, u32, usize, bool),
    End(bool, u32),
    Reset(bool, u32),
    GiveBack(bool, u32),
    Pass(bool, usize),
    Ping(bool),
    Refill,
    GiveUp,
}

fn step() -> impl Strategy<Value = Step> {
    let id = || (0_u32..8).prop_map(|index| 2 * index + 1);
    prop_oneof![
        2 => any::<bool>().prop_map(Step::Open),
        2 => id().prop_map(Step::Respond),
        4 => (any::<bool>(), id(), prop_oneof![0_usize..100, 0_usize..100_000], prop::bool::weighted(0.2))
            .prop_map(|(side, id, len, end)| Step::Send(side, id, len, end)),
        1 => (any::<bool>(), id()).prop_map(|(side, id)| Step::End(side, id)),
        1 => (any::<bool>(), id()).prop_map(|(side, id)| Step::Reset(side, id)),
        3 => (any::<bool>(), id()).prop_map(|(side, id)| Step::GiveBack(side, id)),
        6 => (any::<bool>(), prop_oneof![1_usize..50, 1_usize..100_000]).prop_map(|(side, room)| Step::Pass(side, room)),
        1 => any::<bool>().prop_map(Step::Ping),
        1 => Just(Step::Refill),
        1 => Just(Step::GiveUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn two_ends_never_find_fault_and_lose_nothing(steps in prop::collection::vec(step(), 0..120), table in 0_u32..200) {
        let settings = Settings::new().streams(5).window(65_535).connection_window(100_000).encoder_table(table);
        let [mut client, mut server] = [Role::Client, Role::Server].map(|role| Side::new(role, settings));
        for step in steps {
            match step {
                Step::Open(end) => {
                    let head = [(":method", "POST"), (":scheme", "http"), (":path", "/")];
                    let mut all = head.map(|(name, value)| Header::Plain(name.as_bytes(), value.as_bytes())).to_vec();
                    all.push(client.known);
                    // The server has said by its settings how many it accepts, or will have before it hears of these.
                    if client.connection.peer_streams() == 5 && let Ok(stream) = client.connection.open(&all, end) {
                        let kept = Kept { has_ended: end, ..Kept::default() };
                        client.streams.insert(stream.id(), (stream, kept));
                    }
                }
                Step::Respond(id) => {
                    let known = server.known;
                    if let Some((stream, kept)) = server.streams.get(&id)
                        && kept.sent.is_empty() && !kept.has_ended
                    {
                        server.connection.respond(*stream, &[Header::Plain(b":status", b"200"), known], false);
                        server.send(id, 0, false);
                    }
                }
                Step::Send(true, id, len, end) => client.send(id, len, end),
                Step::Send(false, id, len, end) => {
                    if server.streams.get(&id).is_some_and(|(_, kept)| !kept.sent.is_empty()) {
                        server.send(id, len, end);
                    }
                }
                Step::End(is_client, id) => {
                    let side = if is_client { &mut client } else { &mut server };
                    let known = side.known;
                    if let Some((stream, kept)) = side.streams.get_mut(&id)
                        && (is_client || !kept.sent.is_empty()) && !kept.has_ended
                    {
                        kept.has_ended = true;
                        side.connection.end(*stream, &[known]);
                    }
                }
                Step::Reset(is_client, id) => {
                    let side = if is_client { &mut client } else { &mut server };
                    if let Some((stream, kept)) = side.streams.get_mut(&id) {
                        kept.was_reset = true;
                        side.connection.reset(*stream, Reason::CANCEL);
                    }
                }
                Step::GiveBack(is_client, id) => if is_client { &mut client } else { &mut server }.give_back(id),
                Step::Pass(true, room) => drop(client.pass(&mut server, room)),
                Step::Pass(false, room) => drop(server.pass(&mut client, room)),
                Step::Ping(is_client) => {
                    if is_client { &mut client } else { &mut server }.connection.ping([1; 8]);
                }
                Step::Refill => {
                    client.connection.refill();
                    server.connection.refill();
                }
                Step::GiveUp => server.connection.give_up_unread(),
            }
        }
        loop {
            for side in [&mut client, &mut server] {
                for id in side.streams.keys().copied().collect::<Vec<_>>() {
                    side.give_back(id);
                }
            }
            for _ in 0..2 {
                server.connection.give_up_unread();
            }
            if client.pass(&mut server, 10_000) + server.pass(&mut client, 10_000) == 0 {
                break;
            }
        }
        for (from, to) in [(&client, &server), (&server, &client)] {
            for (id, (_, kept)) in &from.streams {
                let Some((_, other)) = to.streams.get(id) else {
                    prop_assert!(kept.was_reset);
                    continue;
                };
                prop_assert!(kept.sent.starts_with(&other.received));
                // A server that has said its last wants nothing more.
                let is_wanted = to.is_client || !other.has_ended;
                if is_wanted && !kept.was_reset && !other.was_reset {
                    prop_assert_eq!(&kept.sent, &other.received);
                    prop_assert_eq!(kept.has_ended, other.was_ended);
                }
            }
        }
        prop_assert_eq!((client.connection.unsent(), server.connection.unsent()), (0, 0));
        prop_assert_eq!(client.connection.streams(), server.connection.streams());
    }
}
