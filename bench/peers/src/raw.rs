//! Raw TCP: what is left when everything but the kernel is left out.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use greenwave_bench::clock;
use greenwave_policy::Time;

use crate::case::{Case, MESSAGE};
use crate::child;
use crate::harness::Recorder;

/// What a side does until bytes come.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wait {
    /// It asks again and again.
    Spin,
    /// It sleeps in the kernel.
    Block,
}

/// Sends back whatever comes.
pub(crate) fn serve(wait: Wait) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    child::announce(listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    let mut connection = Connection::new(stream, wait)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match connection.read(&mut buffer)? {
            0 => return Ok(()),
            read => connection.write_all(&buffer[..read])?,
        }
    }
}

/// Keeps messages in flight. Those whose answers came together are sent together.
pub(crate) fn drive(wait: Wait, address: SocketAddr, case: Case, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut connection = Connection::new(TcpStream::connect(address)?, wait)?;
    let messages = vec![7; case.in_flight() * MESSAGE];
    let mut buffer = vec![0; 64 << 10];
    let mut sent: VecDeque<Time> = VecDeque::with_capacity(case.in_flight());
    let (mut due, mut partial) = (case.in_flight(), 0);
    loop {
        let now = clock::now();
        sent.extend(std::iter::repeat_n(now, due));
        connection.write_all(&messages[..due * MESSAGE])?;
        due = 0;
        while due == 0 {
            let read = connection.read(&mut buffer)?;
            anyhow::ensure!(read > 0, "the server closed the connection");
            partial += read;
            due = partial / MESSAGE;
            partial %= MESSAGE;
        }
        let now = clock::now();
        for sent in sent.drain(..due) {
            if !recorder.record(sent, now) {
                return Ok(());
            }
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
