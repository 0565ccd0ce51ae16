//! All connections of the attacker's, which one thread looks after.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use greenwave_bench::process;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::behaviour::{Behaviour, Io, Tallies, add};
use super::{Maker, Options, UNDER_WAY};
use crate::case::Case;

/// How many connections are begun at most before others are looked after, and in how long.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(1);
/// How long the attacker tries to have all of its connections before it says that it is under way.
const GATHERS: Duration = Duration::from_secs(4);
/// How often each connection is visited.
const EVERY: Duration = Duration::from_millis(400);
/// The same of the poisoner, whose rate it is.
const POISONS: Duration = Duration::from_millis(10);
/// What is read at a time, and how often in a row.
const BUFFER: usize = 64 << 10;
const IN_A_ROW: usize = 4;
/// Events that are looked after at a time.
const EVENTS: usize = 256;

/// One that is connecting, or connected.
struct Peer {
    socket: TcpStream,
    behaviour: Box<dyn Behaviour>,
    out: Vec<u8>,
    sent: usize,
    is_up: bool,
    /// Whether it had something to say the last time, and may have more.
    is_eager: bool,
    /// What it is told of.
    told: EventFlags,
}

pub(super) struct Swarm {
    server: SocketAddr,
    addresses: u8,
    most: usize,
    make: Maker,
    tallies: Arc<Tallies>,
    poll: OwnedFd,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    begun: u64,
    every: Duration,
    /// Which connection is visited next, and when the round began.
    next: usize,
    round: Instant,
    buffer: Vec<u8>,
}

impl Swarm {
    pub(super) fn new(options: &Options, tallies: Arc<Tallies>, make: Maker) -> anyhow::Result<Self> {
        let most = options.connections;
        Ok(Self {
            server: options.server,
            addresses: options.case.force().addresses,
            most,
            make,
            tallies,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            peers: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            begun: 0,
            every: if options.case == Case::Poisoner { POISONS } else { EVERY },
            next: 0,
            round: Instant::now(),
            buffer: vec![0; BUFFER],
        })
    }

    /// Attacks for ever; why it doesn't.
    pub(super) fn run(&mut self) -> anyhow::Error {
        let begun = Instant::now();
        let mut is_under_way = false;
        let mut opens = Instant::now();
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            if Instant::now() >= opens && !self.free.is_empty() {
                opens = Instant::now() + PAUSE;
                if let Err(error) = self.open_some() {
                    return error;
                }
            }
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as i64 };
            match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return error.into(),
            }
            for epoll::Event { flags, data } in events.drain(..) {
                self.look_after(data.u64() as usize, flags);
            }
            self.visit_some();
            // As many as were wanted came about, or as the server lets be.
            let has_all = self.tallies.opened.load(Relaxed) as usize >= self.most;
            if !is_under_way && (has_all || begun.elapsed() > GATHERS) {
                is_under_way = true;
                process::say(UNDER_WAY);
            }
        }
    }

    fn open_some(&mut self) -> anyhow::Result<()> {
        for _ in 0..AT_ONCE {
            let Some(slot) = self.free.pop() else { break };
            match self.open() {
                Ok(peer) => {
                    epoll::add(&self.poll, &peer.socket, EventData::new_u64(slot as u64), peer.told)?;
                    self.peers[slot] = Some(peer);
                }
                Err(_) => {
                    // Without a port or a descriptor it goes on with those that it has.
                    add(&self.tallies.failed, 1);
                    self.free.push(slot);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Begins to connect, from one of its addresses.
    fn open(&mut self) -> anyhow::Result<Peer> {
        let number = self.begun;
        self.begun += 1;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        let host = 2 + (number % u64::from(self.addresses)) as u8;
        bind(&socket, &SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), 0)).context("no port is free")?;
        // It is reset when it is closed, so that its port is free at once.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &self.server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let behaviour = (self.make)(number);
        let told = EventFlags::IN | EventFlags::OUT;
        Ok(Peer {
            socket: TcpStream::from(socket),
            behaviour,
            out: Vec::new(),
            sent: 0,
            is_up: false,
            is_eager: false,
            told,
        })
    }

    fn look_after(&mut self, slot: usize, flags: EventFlags) {
        let Self { peers, buffer, tallies, poll, .. } = self;
        let Some(peer) = peers[slot].as_mut() else { return };
        if !peer.is_up {
            if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
                add(&tallies.failed, 1);
                return self.drop_peer(slot, false);
            }
            peer.is_up = true;
            add(&tallies.opened, 1);
            add(&tallies.open, 1);
            tallies.most_open.fetch_max(tallies.open.load(Relaxed), Relaxed);
            let goes_on = peer.ask(&[], tallies, false);
            if !goes_on || peer.settle(slot, poll).is_err() {
                self.drop_peer(slot, goes_on);
            }
            return;
        }
        let mut goes_on = true;
        let mut is_closed =
            flags.contains(EventFlags::ERR) || (flags.contains(EventFlags::HUP) && !peer.behaviour.reads());
        if flags.contains(EventFlags::IN) && peer.behaviour.reads() {
            for _ in 0..IN_A_ROW {
                match peer.socket.read(buffer) {
                    Ok(0) => is_closed = true,
                    Ok(bytes) => {
                        goes_on &= peer.ask(&buffer[..bytes], tallies, false);
                        if bytes == BUFFER && goes_on {
                            continue;
                        }
                    }
                    Err(error) => is_closed |= error.kind() != ErrorKind::WouldBlock,
                }
                break;
            }
        }
        if flags.contains(EventFlags::OUT) && goes_on && !is_closed {
            goes_on &= peer.ask(&[], tallies, false);
        }
        if is_closed || !goes_on || peer.settle(slot, poll).is_err() {
            self.drop_peer(slot, is_closed || goes_on);
        }
    }

    /// Visits as many as it takes to come to each once in a while.
    fn visit_some(&mut self) {
        let passed = self.round.elapsed().as_secs_f64() / self.every.as_secs_f64();
        let until = ((passed * self.most as f64) as usize).min(self.most);
        while self.next < until {
            let slot = self.next;
            self.next += 1;
            let Some(peer) = self.peers[slot].as_mut().filter(|peer| peer.is_up) else { continue };
            let goes_on = peer.ask(&[], &self.tallies, true);
            if !goes_on || peer.settle(slot, &self.poll).is_err() {
                self.drop_peer(slot, goes_on);
            }
        }
        if passed >= 1.0 {
            (self.next, self.round) = (0, Instant::now());
        }
    }

    fn drop_peer(&mut self, slot: usize, by_server: bool) {
        if let Some(peer) = self.peers[slot].take() {
            self.free.push(slot);
            if peer.is_up {
                self.tallies.open.fetch_sub(1, Relaxed);
                add(&self.tallies.closed, u64::from(by_server));
            }
        }
    }
}

impl Peer {
    /// Has it behave; whether it stays.
    fn ask(&mut self, came: &[u8], tallies: &Tallies, is_visit: bool) -> bool {
        let mut io = Io { out: &mut self.out, leaves: false, tallies };
        if is_visit {
            self.behaviour.visit(&mut io);
        } else {
            self.behaviour.go(came, &mut io);
        }
        let leaves = io.leaves;
        self.is_eager = !is_visit && !self.out.is_empty();
        self.flush(tallies).is_ok() && !leaves
    }

    /// Sends what the socket takes.
    fn flush(&mut self, tallies: &Tallies) -> std::io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(bytes) => {
                    self.sent += bytes;
                    add(&tallies.bytes, bytes as u64);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.out.drain(..self.sent);
        self.sent = 0;
        Ok(())
    }

    /// Has the kernel tell what it has to know.
    fn settle(&mut self, slot: usize, poll: &OwnedFd) -> rustix::io::Result<()> {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.behaviour.reads());
        wanted.set(EventFlags::OUT, self.is_eager || !self.out.is_empty());
        if wanted != self.told {
            self.told = wanted;
            epoll::modify(poll, &self.socket, EventData::new_u64(slot as u64), wanted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::few::Silent;
    use crate::mix::Units;
    use crate::system::System;
    use std::net::TcpListener;

    #[test]
    fn connections_come_from_the_attackers_addresses_and_one_that_is_closed_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options {
            case: Case::Flood,
            system: System::Greenwave,
            server: listener.local_addr().unwrap(),
            core: 0,
            connections: 1,
            nice: 19,
            units: Units { look_up_ns: 50.0, row_ns: 50.0 },
        };
        let tallies = Arc::<Tallies>::default();
        let mut swarm = Swarm::new(&options, Arc::clone(&tallies), Box::new(|_| Box::new(Silent))).unwrap();
        for _ in 0..2 {
            swarm.open_some().unwrap();
            let (_kept, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
            swarm.look_after(0, EventFlags::OUT);
            swarm.look_after(0, EventFlags::ERR);
        }
        let counts = [&tallies.opened, &tallies.closed, &tallies.open].map(|tally| tally.load(Relaxed));
        assert_eq!(counts, [2, 2, 0]);
    }
}
