//! A peer that speaks the wire format by hand, well or badly, over a plain TCP socket.

// Each test binary uses a part of this.
#![allow(dead_code)]

use greenwave_policy::{Budget, DeadlineField};
use greenwave_proto::wire::{
    Call, CallHeader, CallId, Cancel, Data, DataHeader, Direction, Features, Frame, GoAwayCode, Hello, HelloLimits,
    MethodId, Reply, ReplyHeader, StageName,
};
use greenwave_rpc::{Code, Reason};
use greenwave_verbs::Address;
use rustix::net;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Longer than anything here takes: a test that waits for so long has found something that hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// The socket address in an address that is one.
pub(crate) fn socket_of(address: &Address) -> SocketAddr {
    match address {
        Address::Tcp(socket) => *socket,
        other => panic!("{other} is no TCP address"),
    }
}

/// Looks again and again until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "never happened: {what}");
        std::thread::yield_now();
    }
}

/// Does something on a thread of its own, and panics when it hangs.
pub(crate) fn within_reason<T: Send + 'static>(what: &str, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _nobody_waits_any_more = sender.send(job());
    });
    match receiver.recv_timeout(HANG) {
        Ok(result) => result,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the job ended and sent nothing"),
        },
    }
}

/// The number of the call of this generation in this slot.
pub(crate) fn call_id(slot: u16, generation: u16) -> CallId {
    CallId::in_slot(slot, NonZeroU16::new(generation).unwrap())
}

/// What a well-behaved caller says of itself.
pub(crate) fn hello() -> Hello<'static> {
    let limits = HelloLimits { credits: 64, chunk_bytes: 16 << 10, message_bytes: 16 << 20, calls: 0 };
    Hello::new(Features::RECEIPTS, limits, StageName::UNNAMED)
}

/// What a well-behaved callee says of itself.
pub(crate) fn server_hello() -> Hello<'static> {
    let limits = HelloLimits { credits: 64, chunk_bytes: 16 << 10, message_bytes: 16 << 20, calls: 16 };
    Hello::new(Features::RECEIPTS, limits, StageName::new("imposter").unwrap())
}

/// The head of a call without a deadline.
pub(crate) fn call_header(call: CallId, method: MethodId, message_len: usize) -> CallHeader {
    CallHeader {
        call,
        credits: 0,
        method,
        deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: false },
        elapsed: Duration::ZERO,
        message_len: message_len as u32,
        meta_len: 0,
        expires: None,
        streams: false,
    }
}

pub(crate) fn call(call: CallId, method: MethodId, body: &[u8]) -> Frame<'_> {
    part_of_call(call, method, body, body.len())
}

pub(crate) fn part_of_call(call: CallId, method: MethodId, body: &[u8], message_len: usize) -> Frame<'_> {
    Frame::Call(Call { header: call_header(call, method, message_len), meta: &[], body })
}

pub(crate) fn data(call: CallId, offset: u32, body: &[u8]) -> Frame<'_> {
    Frame::Data(Data { header: DataHeader { call, credits: 0, direction: Direction::Request, offset }, body })
}

pub(crate) fn reply_data(call: CallId, offset: u32, body: &[u8]) -> Frame<'_> {
    Frame::Data(Data { header: DataHeader { call, credits: 0, direction: Direction::Reply, offset }, body })
}

pub(crate) fn cancel(call: CallId) -> Frame<'static> {
    Frame::Cancel(Cancel { call, credits: 0 })
}

pub(crate) fn reply(call: CallId, body: &[u8], message_len: usize) -> Frame<'_> {
    let header = ReplyHeader {
        call,
        credits: 0,
        message_len: message_len as u32,
        code: Code::Ok,
        reason: Reason::None,
        by_handler: false,
        receipts_len: 0,
        queue: Duration::ZERO,
        service: Duration::ZERO,
        total: Duration::ZERO,
    };
    Frame::Reply(Reply { header, receipts: &[], body })
}

/// One end of a connection, by hand.
pub(crate) struct Raw {
    stream: TcpStream,
    /// Whether chunks carry a checksum.
    pub(crate) crc: bool,
}

/// What ended a connection, as this end saw it.
#[derive(Debug)]
pub(crate) struct Farewell {
    /// The GOAWAY, if there was one.
    pub(crate) told: Option<(GoAwayCode, String)>,
    /// The frames before it, by their kinds.
    pub(crate) before: Vec<String>,
}

impl Raw {
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, crc: false }
    }

    pub(crate) fn connect(address: &Address) -> Self {
        Self::over(TcpStream::connect(socket_of(address)).unwrap())
    }

    /// Connects, and exchanges HELLOs.
    pub(crate) fn introduced(address: &Address) -> Self {
        Self::connect(address).introduces_itself()
    }

    /// The same from another address of this machine.
    pub(crate) fn introduced_from(own: Ipv4Addr, address: &Address) -> Self {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::from((own, 0))).unwrap();
        net::connect(&socket, &socket_of(address)).unwrap();
        Self::over(TcpStream::from(socket)).introduces_itself()
    }

    fn introduces_itself(mut self) -> Self {
        let raw = &mut self;
        raw.send(&Frame::Hello(hello()));
        let theirs = raw.read().expect("a HELLO");
        assert!(matches!(Frame::parse(&theirs, false), Ok(Frame::Hello(_))));
        self
    }

    /// Writes bytes as they are. A peer that has closed meanwhile is no error: its farewell is to be read.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes one chunk.
    pub(crate) fn write_chunk(&mut self, chunk: &[u8]) {
        self.write(&framed(chunk));
    }

    /// Writes one frame.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        self.write_chunk(&frame.encode(self.crc));
    }

    /// Writes frames in one go, so that they are read together.
    pub(crate) fn send_all(&mut self, frames: &[Frame<'_>]) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| framed(&frame.encode(self.crc))).collect();
        self.write(&bytes);
    }

    /// Says that nothing more will be written.
    pub(crate) fn finish(&self) {
        let _it_may_be_closed_already = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads one chunk; `None` at the end of the connection, in order or not.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let mut prefix = [0; 4];
        self.read_exact(&mut prefix)?;
        let mut chunk = vec![0; u32::from_le_bytes(prefix) as usize];
        self.read_exact(&mut chunk)?;
        Some(chunk)
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(into) {
            Ok(()) => Some(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing to read")
            }
            Err(_) => None,
        }
    }

    /// Reads up to the REPLY to a call: its code, its reason and its body, if it is in one piece.
    pub(crate) fn reply_to(&mut self, call: CallId) -> (Code, Reason, Vec<u8>) {
        loop {
            let chunk = self.read().expect("the connection lasts until the reply");
            match Frame::parse(&chunk, self.crc).unwrap() {
                Frame::Reply(reply) if reply.header.call == call => {
                    return (reply.header.code, reply.header.reason, reply.body.to_vec());
                }
                Frame::Credit(_) | Frame::Ping(_) | Frame::GoAway(_) => {}
                other => panic!("a {} came instead of the reply", other.kind()),
            }
        }
    }

    /// Reads up to the next REPLY: to which call, and its code.
    pub(crate) fn reply_to_any(&mut self) -> (CallId, Code) {
        loop {
            let chunk = self.read().expect("the connection lasts until a reply");
            if let Frame::Reply(reply) = Frame::parse(&chunk, self.crc).unwrap() {
                return (reply.header.call, reply.header.code);
            }
        }
    }

    /// Reads the next CALL that a client makes.
    pub(crate) fn next_call(&mut self) -> (CallHeader, Vec<u8>) {
        loop {
            let chunk = self.read().expect("the connection lasts until the call");
            if let Frame::Call(call) = Frame::parse(&chunk, self.crc).unwrap() {
                return (call.header, call.body.to_vec());
            }
        }
    }

    /// Reads to the end.
    pub(crate) fn farewell(&mut self) -> Farewell {
        let mut farewell = Farewell { told: None, before: Vec::new() };
        while let Some(chunk) = self.read() {
            match Frame::parse(&chunk, self.crc).or_else(|_| Frame::parse(&chunk, false)).unwrap() {
                Frame::GoAway(away) => farewell.told = Some((away.code, away.text.to_owned())),
                other => farewell.before.push(other.kind().to_string()),
            }
        }
        farewell
    }
}

fn framed(chunk: &[u8]) -> Vec<u8> {
    [&(chunk.len() as u32).to_le_bytes(), chunk].concat()
}
