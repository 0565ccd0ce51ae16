//! The processes of a service, started from this same program.
//!
//! A child reads from its standard input what it is to serve, as JSON in a line. It follows its input from then on, whose
//! other end this process holds: however this process ends, its children do.
//! What a child prints is passed on under its name.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use greenwave::Address;

use super::Service;
use super::events::{self, DRAIN, Event};
use super::here::tell;
use crate::problem::Problem;

/// How long a child may take until it listens.
const START: Duration = Duration::from_secs(60);

/// How long a child may take to end, beyond the time that it has to finish what it accepted.
const GRACE: Duration = Duration::from_secs(2);

/// The processes of a service. Those that still run when this is dropped are killed.
pub(super) struct Children {
    program: PathBuf,
    events: Sender<Event>,
    members: Vec<Member>,
}

struct Member {
    name: String,
    process: Child,
    /// Open for as long as this process cares for the child.
    orders: Option<ChildStdin>,
    /// Whether it was told to end.
    asked: bool,
    /// The last that it had to say.
    said: String,
    state: State,
}

enum State {
    Starting,
    Listening,
    Ended,
}

/// What children have come to.
#[derive(Debug)]
enum News {
    /// A child listens.
    Listening(Listening),
    /// A child ended by itself.
    Died(Problem),
    /// A child ended that was asked to.
    Ended,
    /// This process is to finish what was accepted, and to end.
    Drain,
    /// This process is to end now.
    Stop,
}

/// A child that listens, and the line in which it says so.
#[derive(Debug)]
pub(super) struct Listening {
    child: usize,
    pub(super) address: Address,
    pub(super) line: String,
}

impl Children {
    /// None yet. What they do will arrive at `events`.
    ///
    /// # Errors
    /// When this program can't be found any more.
    pub(super) fn new(events: Sender<Event>) -> Result<Self, Problem> {
        let program = std::env::current_exe();
        let program = program.map_err(|error| Problem::failure(format!("this program can't find itself: {error}")))?;
        Ok(Self { program, events, members: Vec::new() })
    }

    /// Starts a child and returns its number.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(&mut self, name: &str, service: &Service) -> Result<usize, Problem> {
        let told = serde_json::to_string(service).map_err(Problem::failure)?;
        let mut command = Command::new(&self.program);
        command.args(["serve", "child"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C is for this process, which then tells its children, in the right order.
        command.process_group(0);
        let mut process =
            command.spawn().map_err(|error| Problem::failure(format!("{name} can't be started: {error}")))?;
        let child = self.members.len();
        let mut orders = process.stdin.take();
        // If it has ended already, that is noticed by its silence.
        let _ended_already = orders.as_mut().map(|orders| writeln!(orders, "{told}"));
        let (out, err) = (process.stdout.take(), process.stderr.take());
        self.members.push(Member {
            name: name.to_owned(),
            process,
            orders,
            asked: false,
            said: String::new(),
            state: State::Starting,
        });
        let (saying, all_said) = mpsc::channel::<()>();
        if let Some(err) = err {
            let told = self.events.clone();
            events::spawn("said", move || {
                let _all_is_said = saying;
                lines(err, |line| told.send(Event::Said { child, line }).is_ok());
            })?;
        }
        if let Some(out) = out {
            let told = self.events.clone();
            events::spawn("told", move || {
                lines(out, |line| told.send(Event::Told { child, line }).is_ok());
                // Its last words come first: they say why.
                let _silent_or_said = all_said.recv_timeout(GRACE);
                let _ended_anyway = told.send(Event::Closed { child });
            })?;
        }
        Ok(child)
    }

    /// Waits until `count` more children listen, and returns them in the order in which they were started; `None` if this
    /// process is told to end before.
    ///
    /// # Errors
    /// When a child ends before it listens, or takes too long.
    pub(super) fn await_listening(
        &mut self,
        count: usize,
        events: &Receiver<Event>,
    ) -> Result<Option<Vec<Listening>>, Problem> {
        let until = Instant::now() + START;
        let mut listening = Vec::new();
        while listening.len() < count {
            match self.next(events, Some(until)) {
                Some(News::Listening(one)) => listening.push(one),
                Some(News::Died(problem)) => return Err(problem),
                Some(News::Drain | News::Stop) => return Ok(None),
                Some(News::Ended) => {}
                None => {
                    let silent = self.members.iter().filter(|member| matches!(member.state, State::Starting));
                    let silent: Vec<_> = silent.map(|member| member.name.as_str()).collect();
                    let problem = Problem::failure(format!("{} did not start within {START:?}", silent.join(", ")));
                    return Err(problem.remedy("try fewer --shards, or a machine with less to do"));
                }
            }
        }
        listening.sort_by_key(|one: &Listening| one.child);
        Ok(Some(listening))
    }

    /// Waits until this process is told to end; then whether it is to finish what was accepted. What else comes to listen
    /// meanwhile is announced.
    ///
    /// # Errors
    /// Those of `died`, which is told why a child ended by itself.
    pub(super) fn watch(
        &mut self,
        events: &Receiver<Event>,
        mut died: impl FnMut(Problem) -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        loop {
            match self.next(events, None) {
                Some(News::Died(problem)) => died(problem)?,
                Some(News::Drain) => return Ok(true),
                Some(News::Stop) => return Ok(false),
                Some(News::Listening(further)) => tell(&further.line),
                Some(News::Ended) | None => {}
            }
        }
    }

    /// The next thing that happens that is worth knowing; `None` when the time is over.
    fn next(&mut self, events: &Receiver<Event>, until: Option<Instant>) -> Option<News> {
        loop {
            let event = match until {
                None => events.recv().unwrap_or(Event::Stop),
                Some(until) => match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout) => return None,
                    Err(RecvTimeoutError::Disconnected) => Event::Stop,
                },
            };
            if let Some(news) = self.hear(event) {
                return Some(news);
            }
        }
    }

    /// Lets children finish what they accepted, and waits for their end.
    pub(super) fn drain(&mut self, children: Range<usize>, limit: Duration, events: &Receiver<Event>) {
        for member in &mut self.members[children.clone()] {
            member.asked = true;
            let _ended_already = member.orders.as_mut().map(|orders| writeln!(orders, "{DRAIN}"));
        }
        let until = Instant::now() + limit + GRACE;
        while self.members[children.clone()].iter().any(|member| !matches!(member.state, State::Ended)) {
            if self.next(events, Some(until)).is_none() {
                return self.members[children].iter_mut().for_each(Member::kill);
            }
        }
    }

    fn hear(&mut self, event: Event) -> Option<News> {
        match event {
            Event::Drain => Some(News::Drain),
            Event::Stop => Some(News::Stop),
            Event::Said { child, line } => {
                let member = &mut self.members[child];
                // An error at the start becomes this process's own.
                if !(matches!(member.state, State::Starting) && line.starts_with("error: ")) {
                    tell!("{}: {line}", member.name);
                }
                member.said = line;
                None
            }
            Event::Told { child, line } => {
                let address = line.strip_prefix("listening ")?.split(' ').next()?.parse().ok()?;
                self.members[child].state = State::Listening;
                Some(News::Listening(Listening { child, address, line }))
            }
            Event::Closed { child } => {
                let member = &mut self.members[child];
                let status = member.reap();
                Some(if member.asked { News::Ended } else { News::Died(member.obituary(status)) })
            }
        }
    }
}

impl Member {
    fn reap(&mut self) -> Option<ExitStatus> {
        self.state = State::Ended;
        self.orders = None;
        self.process.wait().ok()
    }

    fn kill(&mut self) {
        if !matches!(self.state, State::Ended) {
            let _ended_already = self.process.kill();
            self.reap();
        }
    }

    fn obituary(&self, status: Option<ExitStatus>) -> Problem {
        let how = status.map_or_else(|| "for an unknown reason".to_owned(), |status| format!("with {status}"));
        let problem = Problem::failure(format!("{} ended {how}", self.name));
        match self.said.strip_prefix("error: ") {
            Some(said) => problem.at(said),
            None => problem,
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }
}

/// Hands over line after line until the stream ends or nobody wants more.
fn lines(stream: impl Read, mut each: impl FnMut(String) -> bool) {
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { return };
        if !each(String::from_utf8_lossy(&line).into_owned()) {
            return;
        }
    }
}
