//! The sockets at which the queues of a fabric meet: how a connection is made, and how its end is noticed.

use std::net::IpAddr;
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, getsockname, recv, send, sockopt};

use super::connection::{Closing, Connection, Link, Stage, Untold};
use super::place;
use super::wire::{End, NoNote, Note as Said};
use super::{FabricQueue, about};
use crate::detached::Carrier;
use crate::framing::PREFIX;
use crate::pending::{Due, Note};
use crate::socket::{ACCEPT_PAUSE, connect_outcome, lack_of, peer_of, reason_of};
use crate::{AcceptMode, Address, CloseReason, DetachedEndpoint, EndpointId, Event, FabricAddress, ListenerId};

/// Asks the kernel to find out whether the machine at the other end still lives, and not to take longer for it than
/// about five seconds.
pub(super) fn keep_alive(socket: &OwnedFd, address: &FabricAddress) {
    if !matches!(address, FabricAddress::Shm(_)) {
        // They fail for no TCP socket that is open.
        let _ = sockopt::set_socket_keepalive(socket, true);
        let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(2));
        let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1));
        let _ = sockopt::set_tcp_keepcnt(socket, 3);
    }
}

/// Wakes a peer that asked for it.
pub(super) fn ring(connection: &Connection) {
    let mut bytes = Vec::with_capacity(8);
    Said::Ring { sent: connection.sent }.encode(&mut bytes);
    // There is room for a few bytes that were asked for; a socket that has failed is reported as such.
    let _ = send(&connection.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

impl FabricQueue {
    /// Connections accepted before it is the others' turn.
    const ACCEPTS: usize = 8;
    /// Fruitless reads after which a fabric has no more of a peer whose socket has ended.
    const LAST_READS: usize = 64;
    /// Reports after which a socket is at its end.
    const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

    /// Looks at the sockets, if it is time.
    #[inline]
    pub(super) fn look_around(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.turns += 1;
        let is_meeting = self.connections.len() > self.settled;
        let turns = if is_meeting { Self::TURNS_WHILE_MEETING } else { Self::TURNS };
        if self.turns >= turns || self.now >= self.look_at || !self.ready.is_empty() {
            self.look(sink);
        }
    }

    fn look(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.turns = 0;
        self.look_at = self.now + Self::LOOK;
        if self.ready.is_empty() {
            self.reap(Some(Duration::ZERO));
        }
        if self.ready.is_empty() {
            return;
        }
        let mut reports = std::mem::take(&mut self.ready);
        for (data, flags) in reports.drain(..) {
            let key = data & !about::MASK;
            match data & about::MASK {
                about::CONNECTION => self.socket_ready(key, flags, sink),
                about::LISTENER => self.accept(key, sink),
                // The flag tells whether there was a wake; the bell has done its job by ending the wait.
                _ => {}
            }
        }
        // Listeners with connections left were listed meanwhile.
        reports.append(&mut self.ready);
        self.ready = reports;
    }

    fn accept(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) {
        for _ in 0..Self::ACCEPTS {
            let Some(listener) = self.listeners.at(key) else { return };
            self.stats.system_calls += 1;
            let socket = match listener.socket.accept() {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    self.stats.accept_errors += 1;
                    let Some(error) = lack_of(errno) else { continue };
                    self.timers.set(self.now + ACCEPT_PAUSE, Due::Accept(key));
                    sink(Event::AcceptFailed { listener: ListenerId(key), error });
                    return;
                }
            };
            let peer = peer_of(&socket, &listener.socket.address);
            let (address, mode) = (listener.address.clone(), listener.mode);
            let peer = Address::Fabric(place::beside(&address, &peer));
            let listener = ListenerId(key);
            self.stats.accepted += 1;
            if mode == AcceptMode::Detach {
                self.stats.system_calls += 1;
                say(&socket, &Said::Patience);
                let endpoint = DetachedEndpoint { peer: peer.clone(), carrier: Carrier::Fabric(socket, address) };
                sink(Event::AcceptedDetached { listener, endpoint, peer });
                continue;
            }
            match self.admit(socket, address, Stage::Offered) {
                Ok(endpoint) => {
                    if let Some(connection) = self.connections.at_mut(endpoint) {
                        connection.untold_event = Some(Untold::Accepted(listener, peer));
                    }
                }
                Err(_) => self.stats.accept_errors += 1,
            }
        }
        // There may be more, and the socket reports them but once.
        self.ready.push((key | about::LISTENER, EventFlags::IN));
    }

    fn socket_ready(&mut self, key: u64, flags: EventFlags, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        if connection.stage == Stage::Connecting {
            match connect_outcome(&connection.socket) {
                Err(reason) => return self.end(key, reason, sink),
                Ok(()) if !flags.contains(EventFlags::OUT) => return,
                Ok(()) => {}
            }
            match place::available(&connection.address) {
                Ok(providers) => self.say(key, &Said::Hello { providers }),
                Err(error) => return self.end(key, CloseReason::Io(std::io::Error::from(error).kind()), sink),
            }
            let Some(connection) = self.connections.at_mut(key) else { return };
            connection.stage = Stage::Greeting;
            connection.untold_event = Some(Untold::Connected);
        }
        if !flags.intersects(EventFlags::IN | Self::ENDED) {
            return;
        }
        let is_over = self.listen_to(key, sink).unwrap_or_else(|reason| {
            self.notes.push_back((key, Note::Closed(reason)));
            false
        });
        if is_over {
            self.hear_out(key, sink);
        }
    }

    /// Reads what a socket has, and acts on it. True: it is at its end.
    fn listen_to(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) -> Result<bool, CloseReason> {
        loop {
            let Some(connection) = self.connections.at_mut(key) else { return Ok(false) };
            let mut bytes = [0; 512];
            self.stats.system_calls += 1;
            match recv(&connection.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(true),
                Ok((count, _)) => connection.notes.extend_from_slice(&bytes[..count]),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) if connection.stage == Stage::Up || reason_of(errno) == CloseReason::Reset => {
                    return Ok(true);
                }
                Err(errno) => return Err(reason_of(errno)),
            }
            while let Some(connection) = self.connections.at_mut(key) {
                match Said::parse(&connection.notes) {
                    Ok(None) => break,
                    Ok(Some((Said::Patience, len))) if connection.stage == Stage::Greeting => {
                        connection.notes.drain(..len);
                        self.announce(key, sink);
                    }
                    Ok(Some((said, len))) => {
                        connection.notes.drain(..len);
                        self.heed(key, said)?;
                    }
                    Err(NoNote) => return Err(CloseReason::Reset),
                }
            }
        }
    }

    fn heed(&mut self, key: u64, said: Said) -> Result<(), CloseReason> {
        let Some(connection) = self.connections.at_mut(key) else { return Ok(()) };
        match (connection.stage, said) {
            (Stage::Offered, Said::Hello { providers }) => self.welcome(key, providers),
            (Stage::Greeting, Said::Welcome { provider, end }) => {
                let known = place::providers_of(&connection.address).iter().find(|known| **known as u8 == provider);
                let provider = *known.ok_or(CloseReason::Reset)?;
                let source = source_of(&connection.socket);
                let port = self.port_for(provider, source).map_err(|error| CloseReason::Io(error.kind()))?;
                self.link(key, port, end)?;
                let end = self.own_end(key, port);
                self.say(key, &Said::Ready { end });
                self.settle(key)
            }
            (Stage::Greeting, Said::Sorry) => Err(CloseReason::Io(std::io::ErrorKind::Unsupported)),
            (Stage::Welcomed, Said::Ready { end }) => {
                let port = connection.port.ok_or(CloseReason::Reset)?;
                self.link(key, port, end)?;
                self.settle(key)
            }
            (Stage::Up, Said::Ring { sent }) => {
                connection.owed = Some(sent);
                if connection.is_told {
                    connection.is_told = false;
                    self.awake.push(key);
                    self.expecting.push(key);
                }
                Ok(())
            }
            _ => Err(CloseReason::Reset),
        }
    }

    /// Answers a client's hello with the best provider that both have.
    fn welcome(&mut self, key: u64, providers: u8) -> Result<(), CloseReason> {
        let Some(connection) = self.connections.at(key) else { return Ok(()) };
        let source = source_of(&connection.socket);
        let common = place::providers_of(&connection.address).iter().filter(|known| known.bit() & providers != 0);
        let mut refused = std::io::ErrorKind::Unsupported;
        for &provider in common {
            match self.port_for(provider, source) {
                Ok(port) => {
                    let end = self.own_end(key, port);
                    self.say(key, &Said::Welcome { provider: provider as u8, end });
                    if let Some(connection) = self.connections.at_mut(key) {
                        connection.stage = Stage::Welcomed;
                        connection.port = Some(port);
                    }
                    return Ok(());
                }
                Err(error) => refused = error.kind(),
            }
        }
        self.say(key, &Said::Sorry);
        Err(CloseReason::Io(refused))
    }

    fn own_end(&self, key: u64, port: usize) -> End {
        let name = self.ports[port].port.as_ref().map_or_else(Vec::new, |port| port.name().to_vec());
        End {
            slot: key as u32 & 0xff_ffff,
            secret: self.connections.at(key).map_or(0, |connection| connection.secret),
            window: self.window,
            chunk_bytes: self.chunk_bytes as u32,
            name,
        }
    }

    /// Makes the peer's end known to the port.
    fn link(&mut self, key: u64, port: usize, end: End) -> Result<(), CloseReason> {
        let slot = &mut self.ports[port];
        let Some(found) = &mut slot.port else { return Err(CloseReason::Reset) };
        let fits = place::is_name(slot.provider, &end.name, found.name());
        if !fits {
            return Err(CloseReason::Reset);
        }
        let peer = found.meet(&end.name).map_err(|error| CloseReason::Io(std::io::Error::from(error).kind()))?;
        if let Some(connection) = self.connections.at_mut(key) {
            connection.port = Some(port);
            connection.link = Some(Link { peer, end });
        }
        Ok(())
    }

    /// Both ends know each other: what was posted before can leave.
    fn settle(&mut self, key: u64) -> Result<(), CloseReason> {
        let Some(connection) = self.connections.at_mut(key) else { return Ok(()) };
        connection.stage = Stage::Up;
        self.settled += 1;
        self.awake.push(key);
        let early = std::mem::take(&mut connection.early);
        connection.unsent = 0;
        let mut rest = early.as_slice();
        while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX>() {
            let (chunk, after) = after.split_at(u32::from_le_bytes(*prefix) as usize);
            self.fill(key, &[chunk], chunk.len()).map_err(|_| CloseReason::QueueFailed(std::io::ErrorKind::Other))?;
            rest = after;
        }
        self.flush(key);
        Ok(())
    }

    fn say(&mut self, key: u64, said: &Said) {
        let Some(connection) = self.connections.at(key) else { return };
        self.stats.system_calls += 1;
        if !say(&connection.socket, said) {
            self.notes.push_back((key, Note::Closed(CloseReason::Reset)));
        }
    }

    /// The socket has ended, and with it the peer: takes what it has sent before.
    fn hear_out(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(connection) = self.connections.at(key) else { return };
        let (stage, port) = (connection.stage, connection.port);
        if connection.closing == Closing::Linger {
            return self.end(key, CloseReason::Flushed, sink);
        }
        let mut fruitless = 0;
        while let Some(port) = port.filter(|_| fruitless < Self::LAST_READS && self.connections.at(key).is_some()) {
            fruitless = if self.drain(port, sink) == 0 { fruitless + 1 } else { 0 };
        }
        self.end(key, if stage == Stage::Up { CloseReason::Reset } else { CloseReason::PeerClosed }, sink);
    }

    /// Tells the owner of a connection that is there, unless it was told.
    pub(super) fn announce(&mut self, key: u64, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(connection) = self.connections.at_mut(key) else { return };
        let endpoint = EndpointId(key);
        match connection.untold_event.take() {
            Some(Untold::Accepted(listener, peer)) => sink(Event::Accepted { listener, endpoint, peer }),
            Some(Untold::Connected) if connection.takes_posts() => sink(Event::Connected { endpoint }),
            _ => {}
        }
    }

    pub(super) fn end(&mut self, key: u64, reason: CloseReason, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(connection) = self.connections.at_mut(key) {
            // Who has not heard of a connection that it asked for hears of its end alone; who accepts, of both.
            connection.untold_event.take_if(|untold| matches!(untold, Untold::Connected));
            self.announce(key, sink);
        }
        if self.remove(key) {
            sink(Event::Closed { endpoint: EndpointId(key), reason });
        }
    }

    /// Asks epoll what is ready.
    pub(super) fn reap(&mut self, timeout: Option<Duration>) {
        const REPORTS: usize = 64;
        let timeout = timeout.map(epoll_time);
        self.stats.system_calls += 1;
        let mut reports = [const { std::mem::MaybeUninit::uninit() }; REPORTS];
        // The only error that can come of valid arguments is an interruption, and then there is nothing to report.
        let Ok((reports, _)) = epoll::wait(&self.epoll, &mut reports, timeout.as_ref()) else { return };
        self.ready.extend(reports.iter().map(|report| (report.data.u64(), report.flags)));
    }
}

/// Writes to a socket. False: it has failed. A few hundred bytes fit into any socket that is new.
fn say(socket: &OwnedFd, said: &Said) -> bool {
    let mut bytes = Vec::new();
    said.encode(&mut bytes);
    send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Ok(bytes.len())
}

fn epoll_time(span: Duration) -> rustix::event::Timespec {
    span.try_into().unwrap_or(rustix::event::Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// The local address of a socket on the network: where the peer has reached this machine, or is reached from.
fn source_of(socket: &OwnedFd) -> Option<IpAddr> {
    let name = getsockname(socket).ok()?;
    std::net::SocketAddr::try_from(name).ok().map(|address| address.ip())
}
