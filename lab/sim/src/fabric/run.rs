//! The loop over a network's events.

use super::FabricError;
use super::arrivals::{Arrivals, Comes};
use super::flows::Flows;
use super::guests::GuestsOutcome;
use super::network::{Network, Way};
use super::planned::{Begins, MOST_UNFINISHED, Planned, PlannedOutcome, Plans};
use super::port::{Packet, Port};
use super::tagging::{Tagging, Tags};
use super::tcp::{ACK, Follows, HEADERS, PAYLOAD, Tcp, TcpRule};
use crate::cores::Histogram;
use crate::seed::{Seed, Stream};
use crate::trace::Events;
use crate::turns::{self, NEVER, Turns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A network and how it is used.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Ports and ways.
    pub network: Network,
    /// Who is served first.
    pub tagging: Tagging,
    /// How flows are sent.
    pub tcp: TcpRule,
}

/// What became of the flows; the first tenth isn't counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From a small flow's begin until its receiver had all of it.
    pub small: Histogram,
    /// The same of large ones.
    pub large: Histogram,
    /// What a large flow got on average, in bits a second.
    pub large_rate: f64,
    /// Bits a second that receivers got in all, of flows that they had all of, until the last one began.
    pub goodput: f64,
    /// Packets that were lost, and timeouts.
    pub lost: u64,
    /// See there.
    pub timeouts: u64,
    /// Virtual time, in seconds.
    pub seconds: f64,
    /// Flows that began, packets that were sent or arrived, and timers.
    pub events: u64,
    /// A hash over all events.
    pub hash: u64,
    /// How many flows were unfinished when the run was cut.
    pub cut_at: Option<usize>,
    /// What guests had of their cores, if [flows](Flows::vcpu) have them.
    pub guests: Option<GuestsOutcome>,
}

/// Sends flows through a network.
///
/// # Errors
/// If network, flows, guests or tagging can't be meant. A run that is cut is no error: [`Outcome::cut_at`].
pub fn run(fabric: &Fabric, flows: &Flows, seed: Seed) -> Result<Outcome, FabricError> {
    let tags = validate(fabric, flows)?;
    let source = Source::Random(Arrivals::new(flows, &fabric.network, seed)?);
    Ok(Run::new(fabric, source, tags, seed).run().0)
}

/// Sends flows that are planned through a network for so long, and says what became of those of each plan. With
/// [`MOST_UNFINISHED`] unfinished ones it is cut, which is no error: [`PlannedOutcome::cut_at`].
///
/// # Errors
/// If network, plans, guests or tagging can't be meant.
pub fn run_planned(
    fabric: &Fabric,
    plans: &[Planned],
    time: Duration,
    seed: Seed,
) -> Result<PlannedOutcome, FabricError> {
    let tags = Tags::new(fabric.tagging, fabric.network.hosts)?;
    plans.iter().try_for_each(|plan| plan.validate(&fabric.network))?;
    // As many a second as nanoseconds have; what is asked is only whether instants reach so far.
    if let Some(seconds) = turns::too_long(time.as_secs(), 1.0) {
        return Err(FabricError::TooLong(seconds));
    }
    let source = Source::Planned(Plans::new(plans, time, seed)?);
    Ok(Run::new(fabric, source, tags, seed).run().1)
}

pub(crate) fn validate(fabric: &Fabric, flows: &Flows) -> Result<Tags, FabricError> {
    flows.validate()?;
    if let Some(seconds) = turns::too_long(flows.flows, flows.per_second(&fabric.network)) {
        return Err(FabricError::TooLong(seconds));
    }
    Tags::new(fabric.tagging, fabric.network.hosts)
}

const BEGINS: usize = 0;
const TIMERS: usize = 1;
const PORTS: usize = 2;

#[derive(Default)]
struct Flow {
    tcp: Tcp,
    from: usize,
    to: usize,
    there: Option<Way>,
    back: Option<Way>,
    began: u64,
    bytes: u64,
    counted: bool,
    /// What its connection has sent before it.
    sent: u64,
    /// Of which plan it is.
    plan: usize,
    is_open: bool,
    /// Tells it from those that had its place before.
    generation: u32,
    /// Its packets in the network. Its place isn't another's before there are none.
    under_way: u32,
}

/// Where flows come from.
enum Source<'a> {
    Random(Arrivals<'a>),
    Planned(Plans<'a>),
}

struct Run<'a> {
    fabric: &'a Fabric,
    source: Source<'a>,
    tags: Tags,
    now: u64,
    turns: Turns,
    ports: Vec<Port>,
    open: Vec<Flow>,
    free: Vec<u32>,
    timers: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// The ways of planned flows.
    choices: Stream,
    losses: Stream,
    trace: Events,
    delivered: u64,
    /// The instant at which the last flow began, with what was delivered until then.
    last_begin: Option<(u64, u64)>,
    large_rates: f64,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(fabric: &'a Fabric, source: Source<'a>, tags: Tags, seed: Seed) -> Self {
        let network = &fabric.network;
        Self {
            fabric,
            source,
            tags,
            now: 0,
            turns: Turns::new(PORTS + 2 * network.ports.len()),
            ports: network.ports.iter().map(Port::new).collect(),
            open: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            choices: seed.stream("flows", 0),
            losses: seed.stream("losses", 0),
            trace: Events::default(),
            delivered: 0,
            last_begin: None,
            large_rates: 0.0,
            outcome: Outcome {
                small: Histogram::new(),
                large: Histogram::new(),
                large_rate: 0.0,
                goodput: 0.0,
                lost: 0,
                timeouts: 0,
                seconds: 0.0,
                events: 0,
                hash: 0,
                cut_at: None,
                guests: None,
            },
        }
    }

    fn run(mut self) -> (Outcome, PlannedOutcome) {
        let (first, end) = match &self.source {
            Source::Random(arrivals) => (arrivals.first(), NEVER),
            Source::Planned(plans) => (plans.first().unwrap_or(NEVER), plans.end()),
        };
        self.turns.set(BEGINS, first);
        loop {
            let (instant, source) = self.turns.first();
            if instant >= end {
                break;
            }
            self.now = instant;
            self.outcome.events += 1;
            self.trace.add(instant, source as u64);
            match source {
                BEGINS => {
                    let unfinished = self.open.len() - self.free.len();
                    let (unfinished, most) = match &self.source {
                        Source::Random(arrivals) => (unfinished + arrivals.waiting(), arrivals.flows.most_unfinished),
                        Source::Planned(_) => (unfinished, MOST_UNFINISHED),
                    };
                    if unfinished >= most {
                        self.outcome.cut_at = Some(unfinished);
                        break;
                    }
                    self.begin();
                }
                TIMERS => self.ring(),
                _ if source % 2 == 0 => self.sent((source - PORTS) / 2),
                _ => self.arrives((source - PORTS) / 2),
            }
        }
        let seconds = self.now as f64 / 1e9;
        self.outcome.seconds = seconds;
        self.outcome.hash = self.trace.hash();
        let (until, delivered) = self.last_begin.filter(|(until, _)| *until > 0).unwrap_or((self.now, self.delivered));
        if until > 0 {
            self.outcome.goodput = delivered as f64 * 8e9 / until as f64;
        }
        if self.outcome.large.count() > 0 {
            self.outcome.large_rate = self.large_rates / self.outcome.large.count() as f64;
        }
        let planned = match self.source {
            Source::Random(arrivals) => {
                self.outcome.guests = arrivals.usage(self.now);
                PlannedOutcome::default()
            }
            Source::Planned(plans) => {
                let until = if self.outcome.cut_at.is_some() { self.now } else { end };
                plans.outcome(until, &self.outcome)
            }
        };
        (self.outcome, planned)
    }

    /// A flow comes, or begins.
    fn begin(&mut self) {
        let (now, tcp) = (self.now, self.fabric.tcp);
        let begins = match &mut self.source {
            Source::Random(arrivals) => {
                let comes = arrivals.next(now, tcp);
                if arrivals.are_over() && self.last_begin.is_none() {
                    self.last_begin = Some((now, self.delivered));
                }
                self.turns.set(BEGINS, arrivals.first());
                comes
            }
            Source::Planned(plans) => {
                let begins = plans.next(self.choices.number() >> 1, &tcp);
                self.turns.set(BEGINS, plans.first().unwrap_or(NEVER));
                begins.map(Comes::Begins)
            }
        };
        if let Some(Comes::Begins(begins)) = begins {
            self.begin_flow(begins);
        }
    }

    fn begin_flow(&mut self, begins: Begins) {
        let network = &self.fabric.network;
        let Begins { from, to, bytes, since, plan, counted, choice, sent, tcp } = begins;
        let at = self.free.pop().unwrap_or_else(|| {
            self.open.push(Flow::default());
            (self.open.len() - 1) as u32
        });
        let flow = &mut self.open[at as usize];
        flow.tcp.begin(&tcp, bytes);
        (flow.from, flow.to, flow.began, flow.bytes, flow.plan) = (from, to, since, bytes, plan);
        (flow.there, flow.back) = (Some(network.way(from, to, choice)), Some(network.way(to, from, choice)));
        (flow.counted, flow.sent) = (counted, sent);
        flow.is_open = true;
        flow.generation = flow.generation.wrapping_add(1);
        flow.tcp.timeout_at = self.now + flow.tcp.timeout();
        self.timers.push(Reverse((flow.tcp.timeout_at, at, flow.generation)));
        self.set_timer();
        self.send(at);
    }

    fn set_timer(&mut self) {
        let first = self.timers.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        self.turns.set(TIMERS, first);
    }

    fn ring(&mut self) {
        while let Some(&Reverse((at, number, generation))) = self.timers.peek()
            && at <= self.now
        {
            self.timers.pop();
            let flow = &mut self.open[number as usize];
            if !flow.is_open || flow.generation != generation {
                continue;
            }
            let due = flow.tcp.timeout_at;
            if due <= self.now {
                flow.tcp.time_out(self.now);
                self.outcome.timeouts += 1;
                let next = flow.tcp.timeout_at;
                self.timers.push(Reverse((next, number, generation)));
                self.send(number);
            } else {
                self.timers.push(Reverse((due, number, generation)));
            }
        }
        self.set_timer();
    }

    /// Sends what the window allows.
    fn send(&mut self, at: u32) {
        while let Some(segment) = self.open[at as usize].tcp.may_send() {
            self.send_segment(at, segment);
        }
    }

    fn send_segment(&mut self, at: u32, segment: u32) {
        let flow = &self.open[at as usize];
        let before = u64::from(segment) * PAYLOAD;
        let payload = flow.bytes.saturating_sub(before).min(PAYLOAD);
        let bytes = (payload + HEADERS) as u16;
        let (from, to, left) = (flow.from, flow.to, flow.bytes.saturating_sub(before));
        let band = self.tags.band(self.now, from, to, bytes, flow.sent + before, left);
        self.open[at as usize].under_way += 1;
        self.enter(Packet {
            flow: at,
            number: segment,
            sent: self.now,
            bytes,
            hop: 0,
            band,
            is_ack: false,
            entered: 0,
        });
    }

    /// A packet comes to its next port, or is there.
    fn enter(&mut self, packet: Packet) {
        let flow = &self.open[packet.flow as usize];
        let way = if packet.is_ack { flow.back } else { flow.there };
        let Some(port) = way.and_then(|way| way.port(packet.hop)) else { return self.is_there(packet) };
        let (had_room, sent_at) = self.ports[port].enter(self.now, packet);
        if !had_room {
            self.outcome.lost += 1;
            self.gone(packet.flow);
        }
        if let Some(sent_at) = sent_at {
            self.turns.set(PORTS + 2 * port, sent_at);
        }
    }

    fn sent(&mut self, port: usize) {
        let loss = self.ports[port].loss;
        let is_lost = loss > 0.0 && self.losses.chance(loss);
        if let Some(flow) = self.ports[port].sends().filter(|_| is_lost) {
            self.outcome.lost += 1;
            self.gone(flow);
        }
        let (next, arrives) = self.ports[port].sent(self.now, is_lost);
        self.turns.set(PORTS + 2 * port, next.unwrap_or(NEVER));
        if let Some(arrives) = arrives {
            self.turns.set(PORTS + 2 * port + 1, arrives);
        }
        while let Some(flow) = self.ports[port].dropped() {
            self.outcome.lost += 1;
            self.gone(flow);
        }
    }

    fn arrives(&mut self, port: usize) {
        let (packet, next) = self.ports[port].arrives();
        self.turns.set(PORTS + 2 * port + 1, next.unwrap_or(NEVER));
        if let Some(packet) = packet {
            self.enter(Packet { hop: packet.hop + 1, ..packet });
        }
    }

    fn is_there(&mut self, packet: Packet) {
        let at = packet.flow;
        let flow = &mut self.open[at as usize];
        if !packet.is_ack {
            let before = flow.tcp.expected;
            let (expected, has_all) = flow.tcp.receive(packet.number);
            if let Source::Planned(plans) = &mut self.source {
                plans.delivered(flow.plan, u64::from(expected - before) * PAYLOAD);
            }
            if has_all {
                self.received(at);
            }
            let flow = &self.open[at as usize];
            let band = self.tags.band(self.now, flow.to, flow.from, ACK, 0, 0);
            return self.enter(Packet { number: expected, bytes: ACK, hop: 0, band, is_ack: true, ..packet });
        }
        if !flow.is_open {
            return self.gone(at);
        }
        match flow.tcp.acknowledge(self.now, packet.number, packet.sent) {
            Follows::Send => self.send(at),
            Follows::Again(segment) => {
                self.send_segment(at, segment);
                self.send(at);
            }
            Follows::Done => self.open[at as usize].is_open = false,
        }
        self.gone(at);
    }

    /// A packet has left the network.
    fn gone(&mut self, at: u32) {
        let flow = &mut self.open[at as usize];
        flow.under_way -= 1;
        if flow.under_way == 0 && !flow.is_open {
            self.free.push(at);
        }
    }

    fn received(&mut self, at: u32) {
        let flow = &mut self.open[at as usize];
        let (took, bytes) = (self.now - flow.began, flow.bytes);
        self.delivered += bytes;
        let (plan, counted) = (flow.plan, flow.counted);
        match &mut self.source {
            Source::Random(arrivals) if counted && bytes <= arrivals.flows.small => self.outcome.small.add(took),
            Source::Random(_) if counted => {
                self.outcome.large.add(took);
                self.large_rates += bytes as f64 * 8e9 / took.max(1) as f64;
            }
            Source::Random(_) => {}
            Source::Planned(plans) => plans.received(plan, took),
        }
    }
}
