//! Raw TCP: what is left when everything but the kernel is left out.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use greenwave_policy::Time;

use greenwave_bench::clock;

use crate::case::{Case, Kind};
use crate::harness::Figures;
use crate::run::Run;
use greenwave_bench::process;

/// What is read at a time, at least.
const BUFFER: usize = 64 << 10;

/// What a side does until bytes come.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wait {
    /// It asks again and again.
    Spin,
    /// It sleeps in the kernel.
    Block,
}

/// Sends back whatever comes, but only whole messages: no handler could begin with less.
pub(crate) fn serve(wait: Wait, case: Case) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    process::say_listening(listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    let mut connection = Connection::new(stream, wait)?;
    let mut buffer = vec![0; BUFFER.max(case.bytes)];
    let mut filled = 0;
    loop {
        match connection.read(&mut buffer[filled..])? {
            0 => return Ok(()),
            read => filled += read,
        }
        let whole = filled - filled % case.bytes;
        connection.write_all(&buffer[..whole])?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Keeps messages in flight. Those whose answers came together are sent together; in batches, all or none.
pub(crate) fn drive(wait: Wait, address: SocketAddr, run: &Run) -> anyhow::Result<Figures> {
    let (bytes, in_flight) = (run.case.bytes, run.case.in_flight);
    let mut connection = Connection::new(TcpStream::connect(address)?, wait)?;
    let mut recorder = run.recorder();
    let messages = vec![7; in_flight * bytes];
    let mut buffer = vec![0; BUFFER.max(bytes)];
    let mut sent: VecDeque<Time> = VecDeque::with_capacity(in_flight);
    let (mut due, mut partial) = (in_flight, 0);
    loop {
        let now = clock::now();
        sent.extend(std::iter::repeat_n(now, due));
        connection.write_all(&messages[..due * bytes])?;
        due = 0;
        while due == 0 || (run.case.kind == Kind::Batch && !sent.is_empty()) {
            let read = connection.read(&mut buffer)?;
            anyhow::ensure!(read > 0, "the server closed the connection");
            partial += read;
            let whole = partial / bytes;
            partial %= bytes;
            let now = clock::now();
            for sent in sent.drain(..whole) {
                if !recorder.record(sent, now) {
                    return Ok(recorder.figures());
                }
            }
            due += whole;
        }
    }
}

struct Connection {
    stream: TcpStream,
    wait: Wait,
}

impl Connection {
    fn new(stream: TcpStream, wait: Wait) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(wait == Wait::Spin)?;
        Ok(Self { stream, wait })
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if self.goes_on(&error) => std::hint::spin_loop(),
                done => return done,
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if self.goes_on(&error) => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn goes_on(&self, error: &io::Error) -> bool {
        error.kind() == ErrorKind::Interrupted || (self.wait == Wait::Spin && error.kind() == ErrorKind::WouldBlock)
    }
}
