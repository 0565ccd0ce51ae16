//! Processes of the command, and waits for what they print, none of them for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use greenwave_policy::{Budget, DeadlineField};
use greenwave_proto::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process};

/// Longer than anything takes on a machine that others use, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What a finished command printed and how it ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `greenwave` to its end.
pub(crate) fn run(arguments: &[&str]) -> Finished {
    run_with_input(arguments, "")
}

/// Runs `greenwave` to its end, with this on its standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> Finished {
    let mut process = greenwave(arguments).stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Running::new(process).finish()
}

/// Runs `greenwave` to its end, with these variables in its environment.
pub(crate) fn run_with_variables(variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
    Running::start_with_variables(variables, arguments).finish()
}

/// A command that runs. It's killed if it still does when this is dropped.
pub(crate) struct Running {
    process: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    /// Starts `greenwave`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::new(greenwave(arguments).stdin(Stdio::null()).spawn().unwrap())
    }

    /// Starts `greenwave` with these variables in its environment.
    pub(crate) fn start_with_variables(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::new(greenwave(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).spawn().unwrap())
    }

    /// Starts `greenwave` by way of another command, which becomes it.
    pub(crate) fn start_by(way: &[&str], arguments: &[&str]) -> Self {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).arg(env!("CARGO_BIN_EXE_greenwave")).args(arguments);
        Self::new(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn new(mut process: Child) -> Self {
        let (out, err) = (lines(process.stdout.take().unwrap()), lines(process.stderr.take().unwrap()));
        Self { process, out, err }
    }

    /// The next line on standard output.
    pub(crate) fn told(&self) -> String {
        self.out.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            let said: Vec<String> = self.err.try_iter().collect();
            panic!("no line on standard output ({error}); on standard error: {said:#?}")
        })
    }

    /// Waits for a line on standard error that has this in it.
    pub(crate) fn await_said(&self, part: &str) -> String {
        let mut before = Vec::new();
        while let Ok(line) = self.err.recv_timeout(PATIENCE) {
            if line.contains(part) {
                return line;
            }
            before.push(line);
        }
        panic!("no line with {part:?} after {before:#?}");
    }

    /// The address in the line in which it says that it listens.
    pub(crate) fn address(&self) -> String {
        address_of(&self.told())
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn terminate(&self) {
        kill_process(pid(self.process.id()), Signal::TERM).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Finished {
        let rest = |from: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match from.recv_timeout(PATIENCE) {
                    Ok(line) => text.extend([line.as_str(), "\n"]),
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it doesn't end; so far: {text}"),
                }
            }
        };
        let (out, err) = (rest(&self.out), rest(&self.err));
        Finished { status: self.process.wait().unwrap(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The address in `listening tcp://127.0.0.1:7100 name=...`.
pub(crate) fn address_of(line: &str) -> String {
    let address = line.strip_prefix("listening ").and_then(|rest| rest.split(' ').next());
    address.unwrap_or_else(|| panic!("{line:?} is no start line")).to_owned()
}

/// The value of `key=value` in a start line.
pub(crate) fn fact<'a>(line: &'a str, key: &str) -> &'a str {
    let mut facts = line.split(' ').filter_map(|word| word.split_once('='));
    facts.find(|(name, _)| *name == key).unwrap_or_else(|| panic!("no {key} in {line:?}")).1
}

/// The process in a start line.
pub(crate) fn pid_of(line: &str) -> u32 {
    fact(line, "pid").parse().unwrap()
}

pub(crate) fn kill(process: u32) {
    kill_process(pid(process), Signal::KILL).unwrap();
}

/// Waits for the end of a process that isn't our child.
pub(crate) fn await_end(process: u32) {
    let Ok(handle) = pidfd_open(pid(process), PidfdFlags::empty()) else { return };
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ended, 1, "process {process} still runs");
}

pub(crate) fn is_gone(process: u32) -> bool {
    test_kill_process(pid(process)).is_err()
}

/// A connection with a call of which one byte is there, so that the server has something to finish.
pub(crate) fn half_a_call(address: &str) -> TcpStream {
    let limits = wire::HelloLimits { credits: 64, chunk_bytes: 16 << 10, message_bytes: 1 << 20, calls: 0 };
    let hello = wire::Hello::new(wire::Features::RECEIPTS, limits, wire::StageName::UNNAMED);
    let header = wire::CallHeader {
        call: wire::CallId::in_slot(0, std::num::NonZeroU16::MIN),
        credits: 0,
        method: wire::MethodId::of("any"),
        deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: false },
        elapsed: Duration::ZERO,
        message_len: 2,
        meta_len: 0,
        expires: None,
        streams: false,
    };
    let call = wire::Frame::Call(wire::Call { header, meta: &[], body: b"1" });
    let mut stream = TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
    for frame in [wire::Frame::Hello(hello), call] {
        let chunk = frame.encode(false);
        stream.write_all(&(chunk.len() as u32).to_le_bytes()).unwrap();
        stream.write_all(&chunk).unwrap();
    }
    // The server has said HELLO: it knows of the peer.
    stream.read_exact(&mut [0; 4]).unwrap();
    stream
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.try_into().unwrap()).unwrap()
}

fn greenwave(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}
