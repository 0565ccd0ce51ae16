//! A connection of the load generator's: HTTP/2 as far as calls of gRPC need it, and as cheap as it can be.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use greenwave_policy::Time;

use super::frame::flag::{ACK, END_HEADERS, END_STREAM, PADDED, PRIORITY};
use super::frame::kind::{DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE};
use super::frame::{self, FIRST_WINDOW, HEAD, Head, PREFACE, WIDEST, head, setting};
use super::hpack::{Decoder, Encoder};

/// After so many bytes the connection's window is raised again.
const REFILL: u32 = 1 << 30;
/// How long a server may take to say its settings.
const GREETING: Duration = Duration::from_secs(10);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this code, and so many bytes of messages.
    Status(u32, usize),
    /// The server reset the stream, or answered what is no gRPC.
    Failed,
}

/// A call that is outstanding, or a stream that goes on.
#[derive(Clone, Copy, Debug)]
struct Call {
    tag: u64,
    /// How many bytes of messages answer the message that was sent last, if the stream goes on after it.
    each: Option<usize>,
    /// How many bytes of the answer came.
    came: usize,
    code: Option<u32>,
    refused: bool,
    /// What the server's window of the stream has left.
    window: i64,
}

/// The rest of a message that the server's windows have no room for.
#[derive(Debug)]
struct Waiting {
    stream: u32,
    rest: Vec<u8>,
    /// Of the last frame.
    flags: u8,
}

/// The fields that calls are made with.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) authority: String,
    pub(super) paths: Vec<String>,
}

// The numbers of fields for the encoder; paths come behind.
const AUTHORITY: usize = 0;
const TE: usize = 1;
const CONTENT_TYPE: usize = 2;
const USER_AGENT: usize = 3;
const TIMEOUT: usize = 4;
const PATHS: usize = 5;

#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    out: Vec<u8>,
    /// The beginning of a frame whose rest hasn't come.
    partial: Vec<u8>,
    /// How many bytes of a frame of DATA are still to come, of which stream, and whether it ends with them.
    passing: usize,
    passing_of: u32,
    ends: bool,
    /// The calls by stream, from that of `first` on; streams have odd numbers.
    calls: VecDeque<Option<Call>>,
    first: u32,
    in_flight: usize,
    most: usize,
    frame: usize,
    stream_window: i64,
    window: i64,
    /// Bytes that came since the window was raised.
    came: u32,
    waiting: VecDeque<Waiting>,
    decoder: Decoder,
    encoder: Encoder,
    greeted: bool,
    /// Streams that go on, and wait for another message.
    idle: Vec<u32>,
}

impl Connection {
    /// Connects, and waits for the server's settings.
    ///
    /// # Errors
    /// When there's no server, or it doesn't speak HTTP/2.
    pub(super) fn open(server: SocketAddr, buffer: &mut [u8]) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(server).with_context(|| format!("can't connect to {server}"))?;
        socket.set_nodelay(true)?;
        let mut out = PREFACE.to_vec();
        // No pushes, and windows so wide that no answer waits for the client.
        frame::settings(&[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WIDEST)], &mut out);
        frame::window_update(0, WIDEST - FIRST_WINDOW, &mut out);
        let mut connection = Self {
            socket,
            out,
            partial: Vec::new(),
            passing: 0,
            passing_of: 0,
            ends: false,
            calls: VecDeque::new(),
            first: 1,
            in_flight: 0,
            most: usize::MAX,
            frame: 16_384,
            stream_window: i64::from(FIRST_WINDOW),
            window: i64::from(FIRST_WINDOW),
            came: 0,
            waiting: VecDeque::new(),
            decoder: Decoder::new(),
            encoder: Encoder::default(),
            greeted: false,
            idle: Vec::new(),
        };
        connection.socket.set_read_timeout(Some(GREETING))?;
        let until = Instant::now() + GREETING;
        while !connection.greeted {
            connection.flush()?;
            // A read may be interrupted, as by the end of a ring of io_uring that this thread had.
            let came = connection.read(buffer, &mut |_, _| {})?;
            ensure!(came || Instant::now() < until, "the server said nothing");
        }
        connection.flush()?;
        connection.socket.set_nonblocking(true)?;
        Ok(connection)
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether there is room for another call.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.most
    }

    /// Whether a stream waits for a message.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether something waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Makes a call; it is sent with the next [`flush`](Self::flush).
    pub(super) fn call(&mut self, tag: u64, fields: &Fields, path: usize, timeout: Option<Duration>, message: &[u8]) {
        let stream = self.begin(tag, fields, path, timeout, None);
        self.send(stream, message, END_STREAM);
    }

    /// Sends a message on a stream that waits for one, or on another if none does. So many bytes are the answer to it.
    pub(super) fn go_on(&mut self, tag: u64, fields: &Fields, path: usize, message: &[u8], answer: usize) {
        let stream = match self.idle.pop() {
            Some(stream) => stream,
            None => self.begin(tag, fields, path, None, Some(answer)),
        };
        if let Some(call) = self.slot(stream).and_then(Option::as_mut) {
            call.tag = tag;
        }
        self.send(stream, message, 0);
    }

    /// Sends the headers of a call.
    fn begin(&mut self, tag: u64, fields: &Fields, path: usize, timeout: Option<Duration>, each: Option<usize>) -> u32 {
        let stream = self.first + 2 * self.calls.len() as u32;
        let at = self.out.len();
        self.out.extend([0; HEAD]);
        let Self { encoder, out, .. } = self;
        // POST over plain HTTP, of the static table.
        out.extend([0x83, 0x86]);
        encoder.field(PATHS + path, ":path", &fields.paths[path], out);
        encoder.field(AUTHORITY, ":authority", &fields.authority, out);
        encoder.field(TE, "te", "trailers", out);
        encoder.field(CONTENT_TYPE, "content-type", "application/grpc", out);
        encoder.field(USER_AGENT, "user-agent", "greenwave-bench", out);
        if let Some(timeout) = timeout {
            encoder.changing(TIMEOUT, "grpc-timeout", &written(timeout), out);
        }
        let length = out.len() - at - HEAD;
        Head { length, kind: HEADERS, flags: END_HEADERS, stream }.put(&mut out[at..]);
        self.calls.push_back(Some(Call { tag, each, came: 0, code: None, refused: false, window: self.stream_window }));
        self.in_flight += 1;
        stream
    }

    /// Sends a message, with these flags, as far as there is room.
    fn send(&mut self, stream: u32, message: &[u8], flags: u8) {
        let whole = message.len() + 5;
        let own = self.slot(stream).and_then(Option::as_mut).map_or(0, |call| call.window);
        let fits = whole <= self.frame && whole as i64 <= self.window.min(own);
        if fits && self.waiting.is_empty() {
            self.window -= whole as i64;
            head(whole, DATA, flags, stream, &mut self.out);
            self.out.push(0);
            self.out.extend((message.len() as u32).to_be_bytes());
            self.out.extend_from_slice(message);
            if let Some(call) = self.slot(stream).and_then(Option::as_mut) {
                call.window -= whole as i64;
            }
            return;
        }
        let mut rest = Vec::with_capacity(whole);
        rest.push(0);
        rest.extend((message.len() as u32).to_be_bytes());
        rest.extend_from_slice(message);
        self.waiting.push_back(Waiting { stream, rest, flags });
        self.send_waiting();
    }

    /// Sends of what waits as much as the windows allow, the first call first.
    fn send_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain_mut(|Waiting { stream, rest, flags }| {
            let at = (*stream - self.first) as usize / 2;
            let Some(Some(call)) = self.calls.get_mut(at) else { return false };
            let mut sent = 0;
            while sent < rest.len() {
                let room = self.window.min(call.window).max(0) as usize;
                let take = (rest.len() - sent).min(self.frame).min(room);
                if take == 0 {
                    break;
                }
                let ends = if sent + take == rest.len() { *flags } else { 0 };
                head(take, DATA, ends, *stream, &mut self.out);
                self.out.extend_from_slice(&rest[sent..sent + take]);
                self.window -= take as i64;
                call.window -= take as i64;
                sent += take;
            }
            rest.drain(..sent);
            !rest.is_empty()
        });
        self.waiting = waiting;
    }

    /// Sends what there is, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.socket.write(&self.out[sent..]) {
                Ok(0) => bail!("the server takes nothing more"),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("can't write to the server"),
            }
        }
        self.out.drain(..sent);
        Ok(())
    }

    /// Reads once, and hands over the calls that ended; whether anything came.
    ///
    /// # Errors
    /// When the connection is lost, or the server says what it shouldn't.
    pub(super) fn read(&mut self, buffer: &mut [u8], sink: &mut dyn FnMut(u64, End)) -> anyhow::Result<bool> {
        let kept = self.partial.len();
        buffer[..kept].copy_from_slice(&self.partial);
        self.partial.clear();
        let bytes = match self.socket.read(&mut buffer[kept..]) {
            Ok(0) => bail!("the server has closed the connection"),
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.partial.extend_from_slice(&buffer[..kept]);
                return Ok(false);
            }
            Err(error) => return Err(error).context("can't read from the server"),
        };
        let rest = self.take(&buffer[..kept + bytes], sink)?;
        let from = kept + bytes - rest;
        self.partial.extend_from_slice(&buffer[from..kept + bytes]);
        Ok(true)
    }

    /// Goes through frames; how many bytes of the last aren't whole.
    fn take(&mut self, mut input: &[u8], sink: &mut dyn FnMut(u64, End)) -> anyhow::Result<usize> {
        loop {
            if self.passing > 0 {
                let bytes = self.passing.min(input.len());
                input = &input[bytes..];
                self.passing -= bytes;
                self.data(bytes, sink);
                if self.passing > 0 {
                    return Ok(0);
                }
                if self.ends {
                    self.end(self.passing_of, sink);
                }
            }
            let Some((head, rest)) = input.split_first_chunk() else { return Ok(input.len()) };
            let Head { length, kind, flags, stream } = Head::parse(head);
            if kind == DATA {
                ensure!(flags & PADDED == 0, "the server pads, which isn't read here");
                (self.passing, self.passing_of, self.ends) = (length, stream, flags & END_STREAM != 0);
                if length == 0 && self.ends {
                    self.end(stream, sink);
                }
                input = rest;
                continue;
            }
            let Some((payload, after)) = rest.split_at_checked(length) else { return Ok(input.len()) };
            self.frame(kind, flags, stream, payload, sink)?;
            input = after;
        }
    }

    /// Part of an answer's messages.
    fn data(&mut self, bytes: usize, sink: &mut dyn FnMut(u64, End)) {
        self.came += bytes as u32;
        if self.came >= REFILL {
            frame::window_update(0, std::mem::take(&mut self.came), &mut self.out);
        }
        let stream = self.passing_of;
        let Some(call) = self.slot(stream).and_then(Option::as_mut) else { return };
        call.came += bytes;
        if call.each.is_some_and(|each| call.came >= each) {
            sink(call.tag, End::Status(0, std::mem::take(&mut call.came)));
            self.idle.push(stream);
        }
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        sink: &mut dyn FnMut(u64, End),
    ) -> anyhow::Result<()> {
        match kind {
            HEADERS => {
                ensure!(flags & END_HEADERS != 0, "the server has headers of several frames, which aren't read here");
                ensure!(flags & (PADDED | PRIORITY) == 0, "the server pads headers, which isn't read here");
                let said = self.decoder.decode(payload)?;
                if let Some(call) = self.slot(stream).and_then(Option::as_mut) {
                    call.code = said.code.or(call.code);
                    call.refused |= said.refused;
                }
                if flags & END_STREAM != 0 {
                    self.end(stream, sink);
                }
            }
            RST_STREAM => {
                if let Some(call) = self.remove(stream) {
                    // A server that has answered may reset what it doesn't want to read.
                    sink(call.tag, call.code.map_or(End::Failed, |code| End::Status(code, call.came)));
                }
            }
            SETTINGS if flags & ACK == 0 => self.settings(payload)?,
            PING if flags & ACK == 0 => {
                head(payload.len(), PING, ACK, 0, &mut self.out);
                self.out.extend_from_slice(payload);
            }
            GOAWAY => {
                bail!("the server says GOAWAY: {}", String::from_utf8_lossy(payload.get(8..).unwrap_or_default()))
            }
            WINDOW_UPDATE => {
                let more = i64::from(number(payload)? & WIDEST);
                match stream {
                    0 => self.window += more,
                    stream => {
                        if let Some(call) = self.slot(stream).and_then(Option::as_mut) {
                            call.window += more;
                        }
                    }
                }
                if !self.waiting.is_empty() {
                    self.send_waiting();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn settings(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        for (id, value) in frame::parse_settings(payload) {
            match id {
                setting::HEADER_TABLE_SIZE => {
                    ensure!(value >= 1024, "the server keeps a table of {value} bytes, which is too small here");
                }
                setting::MAX_CONCURRENT_STREAMS => self.most = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.stream_window;
                    self.stream_window += change;
                    self.calls.iter_mut().flatten().for_each(|call| call.window += change);
                }
                setting::MAX_FRAME_SIZE => self.frame = value as usize,
                _ => {}
            }
        }
        head(0, SETTINGS, ACK, 0, &mut self.out);
        self.greeted = true;
        self.send_waiting();
        Ok(())
    }

    fn end(&mut self, stream: u32, sink: &mut dyn FnMut(u64, End)) {
        if let Some(call) = self.remove(stream) {
            let end = match call.code {
                Some(code) if !call.refused => End::Status(code, call.came),
                _ => End::Failed,
            };
            sink(call.tag, end);
        }
    }

    fn slot(&mut self, stream: u32) -> Option<&mut Option<Call>> {
        let at = stream.checked_sub(self.first)? / 2;
        self.calls.get_mut(at as usize)
    }

    fn remove(&mut self, stream: u32) -> Option<Call> {
        let call = self.slot(stream)?.take()?;
        // It ends while nobody waits for an answer: rare, and then it's looked for.
        self.idle.retain(|idle| call.each.is_none() || *idle != stream);
        self.in_flight -= 1;
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
            self.first += 2;
        }
        Some(call)
    }
}

fn number(payload: &[u8]) -> anyhow::Result<u32> {
    Ok(u32::from_be_bytes(payload.first_chunk().copied().context("a frame is too short")?))
}

/// A time limit as gRPC writes it: up to eight digits and a unit.
fn written(timeout: Duration) -> String {
    let nanos = timeout.as_nanos();
    let (count, unit) = match nanos {
        0..100_000_000 => (nanos, 'n'),
        100_000_000..100_000_000_000 => (nanos / 1000, 'u'),
        _ => (nanos / 1_000_000, 'm'),
    };
    format!("{}{unit}", count.min(99_999_999))
}

/// What is left until a call's deadline.
pub(super) fn left(expires: Time, now: Time) -> Duration {
    expires.since(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_eight_digits_at_most() {
        let cases = [(5, "5n"), (20_000_000, "20000000n"), (500_000_000, "500000u"), (3_600_000_000_000, "3600000m")];
        for (nanos, text) in cases {
            assert_eq!(written(Duration::from_nanos(nanos)), text);
        }
    }
}
