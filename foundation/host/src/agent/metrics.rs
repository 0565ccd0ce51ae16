//! Metrics, as Prometheus reads them.
//!
//! The format is a few lines of text, and what is served is one page, so there is no library for it here. One thread serves
//! all readers. Whoever connects has a second to ask, in at most 4 KiB, and a second to read. When more come than are held,
//! the one goes that has said nothing for longest: who asks at once, as readers and probes do, is served beside any number
//! that say nothing.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::AgentError;
use super::status::{AgentState, DeviceState};

/// How many are held at a time.
const MOST: usize = 128;

/// How many are let in between two looks at those that are held: each of them has some looks in which to ask.
const AT_ONCE: usize = 32;

/// How long somebody may take to ask, and again to read the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long nobody is let in when no descriptor is left and nobody is held whose descriptor it could be.
const PAUSE: Duration = Duration::from_millis(100);

/// The most bytes of a request.
const LONGEST: usize = 4096;

/// Serves metrics until the process ends. `state` is called for those who read, once for all that ask at the same time.
///
/// # Errors
/// If the address can't be had.
pub(super) fn serve(
    address: SocketAddr,
    state: impl Fn() -> AgentState + Send + 'static,
) -> Result<SocketAddr, AgentError> {
    let refused = |cause| AgentError::Metrics { address, cause };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let mut readers = Readers { listener, held: Vec::new(), resumes: None };
    let serving = thread::Builder::new().name("metrics".to_owned());
    serving
        .spawn(move || {
            loop {
                readers.turn(&state);
            }
        })
        .map_err(refused)?;
    Ok(bound)
}

/// Who reads, and where they come from.
struct Readers {
    listener: TcpListener,
    /// In the order in which they came.
    held: Vec<Reader>,
    /// When somebody is let in again, if nobody is now.
    resumes: Option<Instant>,
}

/// Somebody who has connected.
struct Reader {
    stream: TcpStream,
    until: Instant,
    does: Does,
}

enum Does {
    /// What has come of the request.
    Asks(Vec<u8>),
    /// The answer, and how much of it has gone.
    Reads(Vec<u8>, usize),
    /// It has had all, or has gone.
    Ends,
}

impl Readers {
    /// Waits until somebody can be served, and serves all who can be.
    fn turn(&mut self, state: &impl Fn() -> AgentState) {
        let now = Instant::now();
        if self.resumes.is_some_and(|at| at <= now) {
            self.resumes = None;
        }
        let wakes = self.held.iter().map(|reader| reader.until).chain(self.resumes).min();
        let rest = wakes.map(|at| at.saturating_duration_since(now));
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        let wanted = if self.resumes.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = vec![PollFd::new(&self.listener, wanted)];
        polled.extend(self.held.iter().map(|reader| PollFd::new(&reader.stream, reader.waits_for())));
        // Fails only when it is interrupted, or for want of memory.
        let _the_next_turn_asks_again = poll(&mut polled, rest.as_ref());
        let is_ready: Vec<bool> = polled.iter().map(|it| !it.revents().is_empty()).collect();
        let mut page = None;
        for (reader, _) in self.held.iter_mut().zip(&is_ready[1..]).filter(|(_, is_ready)| **is_ready) {
            reader.go_on(|| page.get_or_insert_with(|| text(&state())).clone());
        }
        let now = Instant::now();
        self.held.retain(|reader| !matches!(reader.does, Does::Ends) && reader.until > now);
        if is_ready[0] {
            self.let_in(now);
        }
    }

    fn let_in(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.held.len() >= MOST {
                        self.let_go();
                    }
                    self.held.push(Reader { stream, until: now + PATIENCE, does: Does::Asks(Vec::new()) });
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => return,
                // No descriptor is left, most likely.
                Err(_) if self.held.is_empty() => {
                    self.resumes = Some(now + PAUSE);
                    return;
                }
                Err(_) => return self.let_go(),
            }
        }
    }

    /// Lets go of the one that has said nothing for longest; if all have asked, of the one that came first.
    fn let_go(&mut self) {
        let says_nothing = |reader: &Reader| matches!(&reader.does, Does::Asks(head) if head.is_empty());
        let at = self.held.iter().position(says_nothing);
        let at = at.or_else(|| self.held.iter().position(|reader| matches!(reader.does, Does::Asks(_))));
        self.held.remove(at.unwrap_or(0));
    }
}

impl Reader {
    fn waits_for(&self) -> PollFlags {
        if matches!(self.does, Does::Reads(..)) { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Takes what there is of its request, or gives it what it takes of the answer.
    fn go_on(&mut self, page: impl FnOnce() -> String) {
        match self.step(page) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.does = Does::Ends,
        }
    }

    fn step(&mut self, page: impl FnOnce() -> String) -> io::Result<()> {
        if let Does::Asks(head) = &mut self.does {
            let mut buffer = [0; 512];
            let read = self.stream.read(&mut buffer)?;
            head.extend_from_slice(&buffer[..read]);
            let is_whole = head.windows(4).any(|end| end == b"\r\n\r\n");
            if !is_whole && read > 0 && head.len() <= LONGEST {
                return Ok(());
            }
            let line = if is_whole { request_line(head) } else { None };
            self.does = Does::Reads(answer(line.as_deref(), page).into_bytes(), 0);
            self.until = Instant::now() + PATIENCE;
        }
        if let Does::Reads(answer, gone) = &mut self.does {
            while *gone < answer.len() {
                *gone += self.stream.write(&answer[*gone..])?;
            }
            self.stream.shutdown(Shutdown::Both)?;
            self.does = Does::Ends;
        }
        Ok(())
    }
}

fn answer(line: Option<&str>, page: impl FnOnce() -> String) -> String {
    let (status, text) = match line {
        Some("GET /metrics") => ("200 OK", page()),
        Some(line) if line.starts_with("GET ") => ("404 Not Found", "see /metrics\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
        None => ("400 Bad Request", "not understood\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

/// Method and path of a request's head; nothing if it isn't one.
fn request_line(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1")) => {
            Some(format!("{method} {}", target.split('?').next().unwrap_or_default()))
        }
        _ => None,
    }
}

/// The page.
fn text(state: &AgentState) -> String {
    let mut page = String::new();
    let mut gauge = |name: &str, help: &str, value: u64| {
        let _to_a_string = writeln!(
            page,
            "# HELP greenwave_agent_{name} {help}\n# TYPE greenwave_agent_{name} gauge\ngreenwave_agent_{name} {value}"
        );
    };
    gauge("flows", "Flows that are known.", state.flows);
    gauge("large_flows", "Flows whose next packet is large.", state.large_flows);
    gauge("flows_room", "Flows that can be known.", state.room.into());
    gauge("rate_bits_per_second", "What a flow may send for ever and still be small.", state.rate);
    gauge("burst_bytes", "What a flow may send at once and still be small.", state.burst);
    type Value = fn(&DeviceState) -> u64;
    let by_band: [(&str, &str, [Value; 2]); 2] = [
        ("packets_total", "Packets that were tagged.", [|it| it.small_packets, |it| it.large_packets]),
        ("bytes_total", "Their bytes on the wire.", [|it| it.small_bytes, |it| it.large_bytes]),
    ];
    for (name, help, values) in by_band {
        let _to_a_string =
            writeln!(page, "# HELP greenwave_agent_{name} {help}\n# TYPE greenwave_agent_{name} counter");
        for device in &state.devices {
            for (band, value) in ["small", "large"].iter().zip(values) {
                let labels = format!("{},band=\"{band}\"", labels(device));
                let _to_a_string = writeln!(page, "greenwave_agent_{name}{{{labels}}} {}", value(device));
            }
        }
    }
    let untouched: [(&str, Value); 3] =
        [("not_ip", |it| it.not_ip), ("malformed", |it| it.malformed), ("no_room", |it| it.no_room)];
    page += "# HELP greenwave_agent_untouched_packets_total Packets that passed as they came.\n\
             # TYPE greenwave_agent_untouched_packets_total counter\n";
    for device in &state.devices {
        for (why, value) in untouched {
            let labels = format!("{},why=\"{why}\"", labels(device));
            let _to_a_string = writeln!(page, "greenwave_agent_untouched_packets_total{{{labels}}} {}", value(device));
        }
    }
    page += "# HELP greenwave_agent_attached Whether the classifier is at work.\n\
             # TYPE greenwave_agent_attached gauge\n";
    for device in &state.devices {
        let _to_a_string =
            writeln!(page, "greenwave_agent_attached{{{}}} {}", labels(device), u8::from(device.attached));
    }
    page
}

fn labels(device: &DeviceState) -> String {
    let name = device.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("device=\"{name}\",role=\"{}\"", device.role.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    fn state() -> AgentState {
        let (pid, rate, burst, debt_ns, flows, large_flows, room) = (7, 1, 2, 3, 4, 5, 6);
        AgentState { pid, rate, burst, debt_ns, flows, large_flows, room, devices: Vec::new() }
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _it_may_not_be_read = stream.write_all(request);
        let mut answer = String::new();
        let _it_may_be_cut_off = stream.read_to_string(&mut answer);
        answer
    }

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    /// More of them than are held, and new ones all the time.
    #[test]
    fn who_says_nothing_keeps_nobody_from_being_served() {
        let address = serve("127.0.0.1:0".parse().unwrap(), state).unwrap();
        let (over, came) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut silent = VecDeque::new();
                while !over.load(Ordering::Relaxed) {
                    silent.push_back(TcpStream::connect(address).unwrap());
                    if silent.len() > 2 * MOST {
                        silent.pop_front();
                    }
                    came.fetch_add(1, Ordering::Relaxed);
                }
            });
            while came.load(Ordering::Relaxed) < 4 * MOST as u32 {
                thread::yield_now();
            }
            let answers: Vec<String> = (0..50).map(|_| ask(address, GET)).collect();
            over.store(true, Ordering::Relaxed);
            for answer in answers {
                assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
                assert!(answer.contains("\ngreenwave_agent_large_flows 5\n"), "{answer}");
            }
        });
    }

    #[test]
    fn a_request_may_come_in_pieces_and_not_without_end() {
        let address = serve("127.0.0.1:0".parse().unwrap(), state).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        for piece in GET.chunks(5) {
            stream.write_all(piece).unwrap();
            stream.flush().unwrap();
            thread::yield_now();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // Beyond its bound it isn't read any further, and what hasn't been read may take the answer with it.
        let answer = ask(address, &[b'a'; 1 << 20]);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn who_never_ends_a_request_is_let_go() {
        let mut held = Vec::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET").unwrap();
            held.push(stream);
        }
        listener.set_nonblocking(true).unwrap();
        let mut readers = Readers { listener, held: Vec::new(), resumes: None };
        let began = Instant::now();
        while began.elapsed() < PATIENCE || !readers.held.is_empty() {
            readers.turn(&state);
        }
        for mut stream in held {
            let _reset = stream.read_to_end(&mut Vec::new());
        }
    }
}
