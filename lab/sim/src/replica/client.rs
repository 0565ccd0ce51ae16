//! Clients of the simulated group: each makes one call at a time, sends it again when nothing comes back, and writes
//! down what it was answered.

use super::history::{Answer, Call, CallId, History};
use super::kv;
use crate::seed::{Seed, Stream};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client sends to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which client.
    pub client: usize,
    /// The number of this attempt among all of the client's; what comes back says which one it is for.
    pub attempt: u32,
    /// The replica that it goes to.
    pub to: usize,
    /// What is asked.
    pub ask: Ask,
}

/// What is asked of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To replicate a command, as the `sequence`-th of `session`; with neither it is applied as often as it comes.
    Command {
        /// The session's number, drawn by the client; 0 for none.
        session: u64,
        /// The command's number within it; 0 opens it.
        sequence: u64,
        /// The command.
        command: Vec<u8>,
    },
    /// To read a key by a linearizable read, without a command.
    Read {
        /// The key.
        key: u64,
    },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What the machine answered.
    Answered(Vec<u8>),
    /// What the state was, for a read.
    Value(BTreeMap<u64, u64>),
    /// It was not and won't be done; the replica may know who leads.
    Refused(Option<usize>),
    /// It may be done or not.
    Unknown,
    /// The session isn't open. This attempt did nothing.
    NoSession,
}

/// How clients behave.
#[derive(Clone, Copy, Debug)]
pub struct ClientRule {
    /// How many there are.
    pub clients: usize,
    /// Replicas that they know of.
    pub replicas: usize,
    /// Keys that they share. Few, so that they get into each other's way.
    pub keys: u64,
    /// The mean pause between an answer and the next call.
    pub pause: Duration,
    /// After which an attempt is given up.
    pub patience: Duration,
    /// Attempts of one call.
    pub attempts: u32,
}

/// All clients, and the history that they write.
///
/// 1. A client has one call open at most, and one attempt of it.
/// 2. A call is refused in the history if all its attempts were; it stays without an answer if any may have been done.
/// 3. Values are never written twice, so a read tells whose write it saw.
#[derive(Debug)]
pub struct Clients {
    rule: ClientRule,
    clients: Vec<Client>,
    /// What they have seen.
    pub history: History,
    written: u64,
}

#[derive(Debug)]
struct Client {
    stream: Stream,
    attempt: u32,
    leader: usize,
    session: Option<Opened>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Opened {
    number: u64,
    sequence: u64,
    opened: bool,
}

#[derive(Clone, Debug)]
struct Open {
    call: Option<CallId>,
    ask: Ask,
    attempts: u32,
    /// Whether an attempt may have been done.
    unknown: bool,
    /// Whether an attempt is on its way, so that a wake is the end of patience and not of a pause.
    sent: bool,
}

impl Open {
    fn new(call: Option<CallId>, ask: Ask) -> Self {
        Self { call, ask, attempts: 0, unknown: false, sent: false }
    }
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sends this, and wakes after its patience ([`Clients::wake`] with the attempt).
    Send(Request),
    /// Wakes after this.
    Wait(Duration),
    /// Nothing: what came was old.
    Nothing,
}

impl Clients {
    /// So many, each with its own stream.
    #[must_use]
    pub fn new(rule: ClientRule, seed: Seed) -> Self {
        let client = |index| Client {
            stream: seed.stream("client", index as u64),
            attempt: 0,
            leader: 0,
            session: None,
            open: None,
        };
        Self { rule, clients: (0..rule.clients).map(client).collect(), history: History::default(), written: 0 }
    }

    /// How they behave.
    #[must_use]
    pub fn rule(&self) -> &ClientRule {
        &self.rule
    }

    /// Whether a call is open.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.clients.iter().any(|client| client.open.as_ref().is_some_and(|open| open.call.is_some()))
    }

    /// A client wakes: from its pause, or because nothing came back for `attempt`. If it has nothing open and `more` is
    /// false, it stays idle.
    pub fn wake(&mut self, index: usize, attempt: u32, more: bool) -> Next {
        let client = &mut self.clients[index];
        if client.attempt != attempt {
            return Next::Nothing;
        }
        match &mut client.open {
            None if more => self.begin(index),
            None => Next::Nothing,
            Some(open) => {
                if open.sent {
                    open.unknown = true;
                    client.leader = client.stream.below(self.rule.replicas as u64) as usize;
                }
                self.again(index)
            }
        }
    }

    /// Something came back for an attempt.
    pub fn reply(&mut self, index: usize, attempt: u32, reply: Reply) -> Next {
        let rule = self.rule;
        let client = &mut self.clients[index];
        let Some(open) = client.open.as_mut().filter(|_| client.attempt == attempt) else { return Next::Nothing };
        // What comes for this attempt from now on is old; and so is its patience.
        client.attempt += 1;
        match reply {
            Reply::Answered(answer) => {
                if let Some(call) = open.call {
                    let answer = kv::parse_answer(&answer).expect("the machine's answers are answers");
                    self.history.answer(call, answer);
                } else if let Some(session) = &mut client.session {
                    session.opened = true;
                }
                client.open = None;
                Next::Wait(client.stream.exponential(rule.pause))
            }
            Reply::Value(values) => {
                if let (Some(call), Ask::Read { key }) = (open.call, &open.ask) {
                    self.history.answer(call, Answer::Value(values.get(key).copied()));
                }
                client.open = None;
                Next::Wait(client.stream.exponential(rule.pause))
            }
            Reply::Refused(leader) => {
                client.leader = leader.unwrap_or_else(|| client.stream.below(rule.replicas as u64) as usize);
                open.sent = false;
                Next::Wait(client.stream.exponential(rule.pause))
            }
            Reply::Unknown => {
                open.unknown = true;
                open.sent = false;
                Next::Wait(client.stream.exponential(rule.pause))
            }
            Reply::NoSession => {
                client.session = None;
                self.give_up(index);
                Next::Wait(self.clients[index].stream.exponential(rule.pause))
            }
        }
    }

    /// A call of somebody who only looks: reads a key, for the end of a run. The answer goes to [`Clients::looked`].
    pub fn look(&mut self, key: u64) -> CallId {
        self.history.call(key, Call::Get)
    }

    /// What [`Clients::look`] saw.
    pub fn looked(&mut self, id: CallId, value: Option<u64>) {
        self.history.answer(id, Answer::Value(value));
    }

    fn begin(&mut self, index: usize) -> Next {
        let keys = self.rule.keys;
        let client = &mut self.clients[index];
        let key = client.stream.below(keys);
        let kind = client.stream.below(10);
        // Some do without a session; then nothing is sent again.
        let with_session = index % 4 != 3;
        if with_session && !client.session.as_ref().is_some_and(|session| session.opened) {
            let number = client.stream.number().max(1);
            client.session = Some(Opened { number, sequence: 0, opened: false });
            let ask = Ask::Command { session: number, sequence: 0, command: Vec::new() };
            client.open = Some(Open::new(None, ask));
            return self.send(index);
        }
        let written = (self.written + 1) << 8;
        let call = match kind {
            0..4 => Call::Get,
            4..7 => Call::Put(written),
            7 => Call::Swap { old: None, new: written },
            8 => Call::Swap { old: Some(client.stream.below(self.written + 1) << 8), new: written },
            _ => Call::Delete,
        };
        if matches!(call, Call::Put(_) | Call::Swap { .. }) {
            self.written += 1;
        }
        let ask = match (call, kind) {
            // Half of the reads are commands, half are reads without one.
            (Call::Get, 0 | 1) => Ask::Read { key },
            _ => {
                let (session, sequence) = match &mut client.session {
                    Some(session) => {
                        session.sequence += 1;
                        (session.number, session.sequence)
                    }
                    None => (0, 0),
                };
                Ask::Command { session, sequence, command: kv::command(key, call) }
            }
        };
        client.open = Some(Open::new(Some(self.history.call(key, call)), ask));
        self.send(index)
    }

    /// Sends again, or gives up.
    fn again(&mut self, index: usize) -> Next {
        let most = self.rule.attempts;
        let client = &mut self.clients[index];
        let Some(open) = &client.open else { return Next::Nothing };
        let once_only = matches!(open.ask, Ask::Command { session: 0, .. }) && open.unknown;
        if open.attempts >= most || once_only {
            client.attempt += 1;
            self.give_up(index);
            return Next::Wait(self.clients[index].stream.exponential(self.rule.pause));
        }
        self.send(index)
    }

    fn send(&mut self, index: usize) -> Next {
        let client = &mut self.clients[index];
        let Some(open) = &mut client.open else { return Next::Nothing };
        client.attempt += 1;
        open.attempts += 1;
        open.sent = true;
        Next::Send(Request { client: index, attempt: client.attempt, to: client.leader, ask: open.ask.clone() })
    }

    fn give_up(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if let Some(Open { call: Some(call), unknown: false, .. }) = client.open.take() {
            self.history.refuse(call);
        }
    }

    /// The attempt that a client waits with; what [`Clients::wake`] is to be called with after a wait.
    #[must_use]
    pub fn attempt(&self, index: usize) -> u32 {
        self.clients[index].attempt
    }
}
