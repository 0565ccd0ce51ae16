//! Calls of gRPC made as cheaply as can be: one thread, which needn't sleep, a few copied bytes for each call, no task and no
//! allocation. tonic's client on one core is slower than the servers that it should load.
//!
//! It is the same for all servers, and speaks HTTP/2 as other clients do: fields that were said once are an index from then
//! on, windows are respected, answers are decoded as far as their code.

mod connection;
pub mod frame;
mod hpack;
mod huffman;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use greenwave_policy::Time;
use rustix::event::epoll;

use self::connection::{Connection, End, Fields, left};
use crate::capacity::OUT_OF_REACH;
use crate::clock;
use crate::target::{Answer, Reply, Request, Target};

/// What is read at a time, at most; longer than any frame that isn't DATA.
const BUFFER: usize = 1 << 20;
/// How many connections are looked after before calls are sent again.
const READY: usize = 64;
/// How long it sleeps at most, and while something waits to be sent.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// How calls are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For each class the path, `/package.Service/Method`; one for all if there is one.
    pub paths: Vec<String>,
    /// How many connections, which calls are made on in turn.
    pub connections: usize,
    /// How many calls may be outstanding. Further ones are not sent and count as missed.
    pub most: usize,
    /// Whether a call is sent with its deadline, where that isn't out of reach.
    pub deadlines: bool,
    /// How many bytes an answer's messages have, with the five before each, if that is known: others are failures.
    pub answer: Option<usize>,
    /// Whether a call is a message on a stream that goes on, which is answered by so many bytes as [`answer`](Self::answer)
    /// says.
    pub goes_on: bool,
    /// Whether the thread sleeps while there is nothing to do, as where others use its core.
    pub sleeps: bool,
    /// The name under which a call that ended with this code is counted.
    pub miss: fn(u32) -> &'static str,
}

/// A server of gRPC.
pub struct WireTarget {
    settings: Settings,
    fields: Fields,
    connections: Vec<Connection>,
    poll: std::os::fd::OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// The connections that have something to send.
    unsent: Vec<usize>,
    next: usize,
    outstanding: usize,
    lost: Option<anyhow::Error>,
}

impl WireTarget {
    /// Connects.
    ///
    /// # Errors
    /// When the server isn't there, or doesn't speak HTTP/2.
    pub fn connect(server: SocketAddr, settings: Settings) -> anyhow::Result<Self> {
        ensure!(settings.answer.is_some() || !settings.goes_on, "who goes on has to know how long answers are");
        ensure!(settings.connections > 0 && !settings.paths.is_empty(), "calls need a connection and a path");
        let mut buffer = vec![0; BUFFER];
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for number in 0..settings.connections {
            let connection = Connection::open(server, &mut buffer)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&poll, connection.socket(), data, epoll::EventFlags::IN)?;
            connections.push(connection);
        }
        let fields = Fields { authority: server.to_string(), paths: settings.paths.clone() };
        let (events, unsent) = (Vec::with_capacity(READY), Vec::with_capacity(settings.connections));
        Ok(Self { settings, fields, connections, poll, events, buffer, unsent, next: 0, outstanding: 0, lost: None })
    }

    /// Whether all connections are still there.
    ///
    /// # Errors
    /// When one was lost.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.lost.take().map_or(Ok(()), Err)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut at = 0;
        while let Some(&number) = self.unsent.get(at) {
            let connection = &mut self.connections[number];
            connection.flush()?;
            if connection.has_output() {
                at += 1;
            } else {
                self.unsent.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Reads from connection `number` once.
    fn read(&mut self, number: usize, sink: &mut dyn FnMut(Reply<'_>)) -> anyhow::Result<()> {
        let Self { settings, connections, buffer, unsent, outstanding, .. } = self;
        let connection = &mut connections[number];
        let (had_output, mut received) = (connection.has_output(), None);
        connection.read(buffer, &mut |tag, end| {
            *outstanding -= 1;
            let answer = match end {
                End::Status(0, came) if settings.answer.is_none_or(|length| came == length) => Answer::Ok,
                End::Status(0, _) | End::Failed => Answer::Miss("no-answer"),
                End::Status(code, _) => Answer::Miss((settings.miss)(code)),
            };
            let received = *received.get_or_insert_with(clock::now);
            sink(Reply { tag, received, answer, stages: &[] });
        })?;
        if connection.has_output() && !had_output {
            unsent.push(number);
        }
        Ok(())
    }

    fn turn(&mut self, sink: &mut dyn FnMut(Reply<'_>)) -> anyhow::Result<()> {
        self.flush()?;
        if self.connections.len() == 1 {
            return self.read(0, sink);
        }
        let mut events = std::mem::take(&mut self.events);
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&none));
        for event in events.drain(..) {
            self.read(event.data.u64() as usize, sink)?;
        }
        self.events = events;
        found.map(drop).or_else(|error| if error == rustix::io::Errno::INTR { Ok(()) } else { Err(error.into()) })
    }
}

impl Target for WireTarget {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let Settings { paths, most, deadlines, .. } = &self.settings;
        if self.outstanding >= *most || self.lost.is_some() {
            return Err("not-sent");
        }
        let count = self.connections.len();
        let in_turn = || (0..count).map(|more| (self.next + more) % count);
        let idle = self.settings.goes_on.then(|| in_turn().find(|at| self.connections[*at].has_idle())).flatten();
        let number = idle.or_else(|| in_turn().find(|at| self.connections[*at].has_room())).ok_or("not-sent")?;
        self.next = (number + 1) % count;
        let is_limited = *deadlines && request.class.deadline < OUT_OF_REACH;
        let timeout: Option<Duration> = is_limited.then(|| left(request.expires(), clock::now()));
        let path = request.class_index.min(paths.len() - 1);
        let connection = &mut self.connections[number];
        if !connection.has_output() {
            self.unsent.push(number);
        }
        match self.settings.answer.filter(|_| self.settings.goes_on) {
            Some(answer) => connection.go_on(request.tag, &self.fields, path, request.payload, answer),
            None => connection.call(request.tag, &self.fields, path, timeout, request.payload),
        }
        self.outstanding += 1;
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        if self.lost.is_none()
            && let Err(error) = self.turn(sink)
        {
            self.lost = Some(error);
        }
    }

    /// Where it has a core of its own it never sleeps.
    fn wait(&mut self, until: Time) {
        if !self.settings.sleeps {
            return;
        }
        // What couldn't be sent is tried again soon.
        let most = if self.unsent.is_empty() { LONGEST_SLEEP } else { SHORTEST_SLEEP };
        let time = until.since(clock::now()).min(most);
        let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // Whatever ends it, the next look finds out.
        let _ = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut self.events), Some(&limit));
        self.events.clear();
    }
}
