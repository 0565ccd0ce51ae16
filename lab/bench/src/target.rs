//! What the load generator drives.

use std::time::Duration;

use greenwave_policy::Time;

use crate::classes::Class;

/// A service as the generator sees it: a stream of requests in, a stream of answers out, and a clock.
///
/// One thread drives it. No method but [`wait`](Target::wait) may block: time spent in them delays the requests that are
/// due, and is counted against the target.
pub trait Target {
    /// The time now, on the clock by which this target is driven.
    fn now(&self) -> Time;

    /// Sends a request, or takes it up to be sent. An error is the answer: a miss under that name.
    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str>;

    /// Hands over every answer that is there, and sends what was taken up.
    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>));

    /// Returns when an answer is there, at `until`, or earlier.
    fn wait(&mut self, until: Time);
}

/// A request that is due.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the answer has to carry.
    pub tag: u64,
    /// The class it belongs to.
    pub class: &'a Class,
    /// The index of that class among those of the run.
    pub class_index: usize,
    /// When it was to be sent. Its expected deadline counts from here, however late the generator is.
    pub scheduled: Time,
    /// The encoded message.
    pub payload: &'a [u8],
}

impl Request<'_> {
    /// When the answer has to be there.
    pub fn expires(&self) -> Time {
        self.scheduled + self.class.deadline
    }
}

/// The end of a request, whatever it was.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The tag of the request.
    pub tag: u64,
    /// When it arrived.
    pub received: Time,
    /// What it says.
    pub answer: Answer,
    /// Where the time went, one receipt a stage in the order of their arrival; empty if nothing is known.
    pub stages: &'a [StageReceipt<'a>],
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The result that was asked for.
    Ok,
    /// Anything else, by the name under which it is counted, such as `deadline-exceeded`.
    Miss(&'static str),
}

/// What one stage spent on a request.
#[derive(Clone, Copy, Debug)]
pub struct StageReceipt<'a> {
    /// The stage.
    pub name: &'a str,
    /// How many calls lie between it and the client's own call.
    pub depth: u8,
    /// How long after the client's call its caller sent the request here.
    pub sent: Duration,
    /// Time on the way, there and back.
    pub network: Duration,
    /// Time for which it was ready and not at work.
    pub queue: Duration,
    /// Time at work.
    pub service: Duration,
    /// Time from arrival to the answer, waits for other stages included.
    pub total: Duration,
}

/// Where the messages come from.
pub trait Payloads {
    /// The message of the `sequence`th request, which is of the class with index `class`.
    fn payload(&mut self, class: usize, sequence: u64) -> &[u8];
}

/// The same messages over and over, whatever the class.
#[derive(Clone, Debug)]
pub struct Rotation(Vec<Vec<u8>>);

impl Rotation {
    /// The given messages in turn; without any, an empty one.
    pub fn new(messages: Vec<Vec<u8>>) -> Self {
        Self(messages)
    }

    /// One message for all requests.
    pub fn single(message: Vec<u8>) -> Self {
        Self(vec![message])
    }
}

impl Payloads for Rotation {
    fn payload(&mut self, _class: usize, sequence: u64) -> &[u8] {
        match self.0.len() as u64 {
            0 => &[],
            messages => &self.0[(sequence % messages) as usize],
        }
    }
}
