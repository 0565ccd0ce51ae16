//! A real server whose handlers compute for as long as they are told, and who calls it: what calibration and comparison measure.
//!
//! The server has one head with a core of its own, the caller another core, and a connection of TCP is between them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use greenwave::{
    Address, AdmissionConfig, CallQueue, Channel, ChannelConfig, Code, Completion, Context, Limits, Method, Order,
    Router, Server, ServerConfig, ServerHandle, Status, Wait,
};
use greenwave_bench::clock;
use greenwave_bench::pin;
use greenwave_bench::rpc::{AT_ONCE, miss};
use greenwave_bench::target::{Answer, Payloads, Reply, Request, Target};
use greenwave_policy::Time;
use greenwave_quanta::critical;

use crate::problem::Problem;

/// The methods of each stage: one for each kind of call, as servers learn of each how long it takes.
const METHODS: [[&str; 2]; 3] = [
    ["greenwave.plan.Spin/Short", "greenwave.plan.Spin/Long"],
    ["greenwave.plan.Second/Short", "greenwave.plan.Second/Long"],
    ["greenwave.plan.Third/Short", "greenwave.plan.Third/Long"],
];

/// How many stages a call may have.
pub(super) const MOST_STAGES: usize = METHODS.len();

/// How long a handler computes at a time, between which it can be preempted.
const PIECE: Duration = Duration::from_nanos(250);

/// Less than a turn of another handler.
const OTHERS: Duration = Duration::from_nanos(150);

/// A server that computes, and a connection to it.
pub(super) struct Spinning {
    pub(super) server: ServerHandle,
    pub(super) queue: CallQueue,
    /// What ended a wait, until it's polled for.
    held: Option<Completion>,
}

impl Spinning {
    /// Starts the server on a core, and connects to it from this thread, which has to be on another. A handler computes for as
    /// long as the first number of its request says, and calls the next stage with what follows, if anything does.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(core: usize, wait: Wait, order: Order, quantum: Option<Duration>) -> Result<Self, Problem> {
        let listen: Address = "tcp://127.0.0.1:0".parse().map_err(Problem::failure)?;
        let limits = Limits::default().calls(65535).chunk_bytes(1024).credits(16384);
        let config = ServerConfig::default().name("spin").listen([listen]).cores(vec![core]).wait(wait);
        // Simulations leave admission out, and what it does to keep the stages behind from having too much.
        let admission = AdmissionConfig::default().enabled(false);
        let config = config.limits(limits).order(order).quantum(quantum).admission(admission);
        let itself = Arc::new(OnceLock::new());
        let stages = METHODS.iter().zip(METHODS[1..].iter().map(Some).chain([None]));
        let methods =
            stages.flat_map(|(names, next)| (0..2).map(move |kind| (names[kind], next.map(|next| next[kind]))));
        let router = methods.fold(Router::new(), |router, (name, next)| {
            let itself = Arc::clone(&itself);
            router.method(name, move |context, request, reply| handle(context, request, reply, next, &itself))
        });
        let server = Server::start(config, router).map_err(Problem::failure)?;
        let address = server.addresses().first().cloned().ok_or_else(|| Problem::failure("it listens nowhere"))?;
        let config = ChannelConfig::default().wait(Wait::Spin).limits(limits);
        itself.get_or_init(|| Channel::new(address.clone(), config.clone()));
        let queue = CallQueue::connect(&address, &config).map_err(Problem::failure)?;
        Ok(Self { server, queue, held: None })
    }

    /// What this thread takes to send so many calls that do nothing together, and to receive the replies when all are there, in
    /// nanoseconds.
    ///
    /// # Errors
    /// When one fails.
    pub(super) fn together(&mut self, calls: u64) -> Result<(f64, f64), Problem> {
        let method = Method::named(METHODS[0][0]);
        let request = request(&[Duration::ZERO]);
        let began = clock::now();
        for tag in 0..calls {
            self.queue.submit(&Context::unlimited(), method, &request, tag);
        }
        self.queue.flush();
        let sent = clock::now();
        // By then the server has replied to all, if nobody else has its core.
        let there = sent + Duration::from_micros(50 + 4 * calls);
        while clock::now() < there {
            std::hint::spin_loop();
        }
        let (reads, mut open) = (clock::now(), calls);
        while open > 0 {
            let Some(Completion { result, .. }) = self.queue.poll() else { continue };
            let reply = result.map_err(|failure| Problem::failure(failure.status))?;
            self.queue.recycle(reply);
            open -= 1;
        }
        Ok((sent.since(began).as_nanos() as f64, clock::now().since(reads).as_nanos() as f64))
    }

    /// Calls for so long, with so many calls under way at a time, each of whose stages computes for that long. What each took.
    ///
    /// # Errors
    /// When one fails.
    pub(super) fn closed(
        &mut self,
        for_time: Duration,
        in_flight: u64,
        works: &[Duration],
    ) -> Result<Vec<f64>, Problem> {
        let method = Method::named(METHODS[0][0]);
        let request = request(works);
        let (end, mut took) = (clock::now() + for_time, Vec::new());
        let submit = |queue: &mut CallQueue, tag: u64| {
            let sent = clock::now();
            queue.submit(&Context::unlimited(), method, &request, tag);
            sent
        };
        let mut sent: Vec<Time> = (0..in_flight).map(|tag| submit(&mut self.queue, tag)).collect();
        let mut open = in_flight;
        while open > 0 {
            let Some(Completion { tag, result, .. }) = self.queue.poll() else { continue };
            let now = clock::now();
            let reply = result.map_err(|failure| Problem::failure(failure.status))?;
            self.queue.recycle(reply);
            took.push(now.since(sent[tag as usize]).as_nanos() as f64);
            if now < end { sent[tag as usize] = submit(&mut self.queue, tag) } else { open -= 1 }
        }
        Ok(took)
    }
}

impl Target for Spinning {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let method = Method::named(METHODS[0][request.class_index.min(1)]);
        self.queue.submit(&Context::unlimited(), method, request.payload, request.tag);
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        for _ in 0..AT_ONCE {
            let Some(Completion { tag, result, .. }) = self.held.take().or_else(|| self.queue.poll()) else { break };
            let received = clock::now();
            match result {
                Ok(reply) => {
                    sink(Reply { tag, received, answer: Answer::Ok, stages: &[] });
                    self.queue.recycle(reply);
                }
                Err(failure) => sink(Reply { tag, received, answer: Answer::Miss(miss(&failure.status)), stages: &[] }),
            }
        }
    }

    fn wait(&mut self, until: Time) {
        if self.held.is_none() {
            self.held = self.queue.take_timeout(until.since(clock::now()));
        }
    }
}

/// A request of these works, one for each stage.
pub(super) fn request(works: &[Duration]) -> Vec<u8> {
    works.iter().flat_map(|work| u64::try_from(work.as_nanos()).unwrap_or(u64::MAX).to_le_bytes()).collect()
}

/// What a stage's handler does; `next` is the method of the next stage, which `itself` has.
fn handle(
    context: &Context,
    request: &[u8],
    reply: &mut Vec<u8>,
    next: Option<&'static str>,
    itself: &OnceLock<Result<Channel, greenwave::ConfigError>>,
) -> Result<(), Status> {
    let Some((nanos, rest)) = request.split_first_chunk() else {
        return Err(Status::new(Code::InvalidArgument, "no number of nanoseconds"));
    };
    spin(Duration::from_nanos(u64::from_le_bytes(*nanos)));
    if !rest.is_empty() {
        let next = next.zip(itself.get().and_then(|channel| channel.as_ref().ok()));
        let (next, channel) = next.ok_or_else(|| Status::new(Code::InvalidArgument, "more stages than there are"))?;
        channel.call(context, Method::named(next), rest)?;
    }
    reply.extend_from_slice(nanos);
    Ok(())
}

/// For each class of calls how long its handlers compute, as requests.
pub(super) struct Works(pub(super) [Vec<u8>; 2]);

impl Payloads for Works {
    fn payload(&mut self, class: usize, _: u64) -> &[u8] {
        &self.0[class.min(1)]
    }
}

/// Computes for so long, on the clock: its own time, as nobody else has the thread within a piece. What is between two pieces is its
/// own too, unless it is so long that others may have run.
fn spin(work: Duration) {
    let (mut left, mut last) = (work, clock::now());
    while !left.is_zero() {
        let piece = left.min(PIECE);
        let (had, now) = critical(|| {
            let first = clock::now();
            let gap = first.since(last);
            let began = if gap < OTHERS { last } else { first };
            loop {
                let now = clock::now();
                let had = now.since(began);
                if had >= piece {
                    return (had, now);
                }
                std::hint::spin_loop();
            }
        });
        (left, last) = (left.saturating_sub(had), now);
    }
}

/// A core for the server, and this thread on another.
///
/// # Errors
/// When there is one core alone.
pub(super) fn take_cores() -> Result<usize, Problem> {
    let remedy = "run it where the process may use two cores (see `nproc` and `taskset -p $$`)";
    let cores = pin::Cores::two().map_err(|error| Problem::failure(error).remedy(remedy))?;
    pin::this_thread(cores.client).map_err(|error| Problem::failure(error).remedy(remedy))?;
    Ok(cores.server)
}
