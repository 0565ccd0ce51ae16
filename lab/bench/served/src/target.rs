//! Greenwave's server as a target of load: a call queue, one connection, polled by the generator's own thread.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

use anyhow::Context as _;
use greenwave::{Address, CallQueue, ChannelConfig, Code, Completion, Context, MethodId, Status, Wait};
use greenwave_bench::capacity::OUT_OF_REACH;
use greenwave_bench::clock;
use greenwave_bench::process::ServerProcess;
use greenwave_bench::rpc::{AT_ONCE, miss};
use greenwave_bench::target::{Answer, Reply, Request, Target};
use greenwave_policy::Time;

use crate::calls::{Calls, SERVICE};
use crate::calm::Reading;
use crate::server;
use crate::work::LENGTH;

/// A target that can say what its server has used.
pub(crate) trait Served: Target {
    /// Asks how much processor time the server's thread has had, unless the server notes that by itself; the answer is one
    /// of the [readings](Self::readings) when it has come.
    fn read(&mut self);

    /// What it has told, or noted, so far. None of a server that sleeps.
    ///
    /// # Errors
    /// When the server doesn't say.
    fn readings(&mut self, server: &mut ServerProcess) -> anyhow::Result<Vec<Reading>>;

    /// What the server has used so far, if it tells.
    fn usage(&mut self) -> anyhow::Result<Option<Usage>>;
}

/// What a server of ours says that it has used.
pub(crate) fn usage_of(address: &Address) -> anyhow::Result<Usage> {
    let config = ChannelConfig::default().wait(Wait::Spin).limits(server::limits());
    let stream = CallQueue::connect(address, &config)?;
    Greenwave { stream, methods: Vec::new(), ended: None, held_back: VecDeque::new(), readings: Vec::new() }.used()
}

/// What a server has used since it was started, or between two times; in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// The time when it was asked.
    pub(crate) at: Time,
    /// How long it is of, if it is a difference.
    pub(crate) taken: Duration,
    /// Of its thread.
    pub(crate) cpu: u64,
    /// By handlers.
    pub(crate) service: u64,
    /// By handlers for calls that were not answered in time.
    pub(crate) wasted: u64,
    /// How often it looked for what had come, and how long that took.
    pub(crate) looks: [u64; 2],
    /// How often it posted replies, and how long that took.
    pub(crate) posts: [u64; 2],
}

/// Methods of a Greenwave server over one connection.
pub(crate) struct Greenwave {
    stream: CallQueue,
    /// For each class.
    methods: Vec<MethodId>,
    /// What ended a wait, until it's polled for.
    ended: Option<Completion>,
    /// Calls that are due and not sent, as [`MOST`] are under way.
    held_back: VecDeque<Call>,
    readings: Vec<Reading>,
}

/// The tag of a call that asks for a reading; the generator's are none that great.
const READING: u64 = u64::MAX - 1;

/// So many calls are under way at most, which is twice as many as the server's queue takes. The client's own queue would
/// hold the others back too, but is made for fewer.
const MOST: usize = 8192;

/// How long a server whose queue is full is asked what it used.
const PATIENCE: Duration = Duration::from_secs(5);

/// A call that is due.
struct Call {
    tag: u64,
    method: MethodId,
    /// When its time is up; `None`: never.
    expires: Option<Time>,
    request: [u8; LENGTH],
}

impl Greenwave {
    pub(crate) fn connect(address: &Address, calls: &Calls) -> anyhow::Result<Self> {
        let config = ChannelConfig::default().wait(Wait::Spin).limits(server::limits());
        let stream = CallQueue::connect(address, &config)?;
        let methods = calls.methods().map(|name| MethodId::of(&format!("{SERVICE}/{name}"))).collect();
        Ok(Self { stream, methods, ended: None, held_back: VecDeque::new(), readings: Vec::new() })
    }

    fn send(&mut self, call: &Call, now: Time) {
        let Call { tag, method, expires, request } = call;
        match expires {
            Some(expires) => self.stream.submit_within(expires.since(now), *method, request, *tag),
            None => self.stream.submit(&Context::unlimited(), *method, request, *tag),
        }
    }

    /// Asks until the server takes the call: its queue may be full yet.
    fn ask(&mut self, method: &str) -> anyhow::Result<Vec<u8>> {
        let begun = clock::now();
        loop {
            match self.ask_once(method)? {
                Ok(body) => return Ok(body),
                Err(status) if status.code == Code::ResourceExhausted && clock::now().since(begun) < PATIENCE => {}
                Err(status) => return Err(status.into()),
            }
        }
    }

    fn used(&mut self) -> anyhow::Result<Usage> {
        let reading = server::reading(&self.ask(server::CPU)?).context("the server doesn't say what it used")?;
        let counters = String::from_utf8(self.ask("greenwave.Meta/Counters")?)?;
        let counters: BTreeMap<&str, u64> = counters
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect();
        let counter = |name: &str| counters.get(name).copied().with_context(|| format!("no counter is called {name}"));
        Ok(Usage {
            at: reading.at,
            taken: Duration::ZERO,
            cpu: reading.cpu.as_nanos() as u64,
            service: counter("service_nanos")?,
            wasted: counter("wasted_nanos")?,
            looks: [counter("looks")?, counter("look_nanos")?],
            posts: [counter("posts")?, counter("post_nanos")?],
        })
    }

    fn ask_once(&mut self, method: &str) -> anyhow::Result<Result<Vec<u8>, Status>> {
        self.stream.submit(&Context::unlimited(), MethodId::of(method), &[], u64::MAX);
        loop {
            // Answers that came too late to count may come first.
            let Completion { tag, result, .. } = self.stream.take().context("no call is in flight")?;
            if tag == u64::MAX {
                return Ok(result.map(|reply| reply.body.to_vec()).map_err(|failure| failure.status));
            }
        }
    }
}

impl Target for Greenwave {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let expires = (request.class.deadline < OUT_OF_REACH).then(|| request.expires());
        let method = self.methods[request.class_index];
        let order = request.payload.try_into().map_err(|_| "no-order")?;
        let call = Call { tag: request.tag, method, expires, request: order };
        if self.stream.in_flight() < MOST {
            self.send(&call, clock::now());
        } else {
            self.held_back.push_back(call);
        }
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        for _ in 0..AT_ONCE {
            let Some(Completion { tag, result, .. }) = self.ended.take().or_else(|| self.stream.poll()) else { break };
            let received = clock::now();
            if tag == READING {
                self.readings.extend(result.ok().and_then(|reply| server::reading(&reply.body)));
                continue;
            }
            match result {
                Ok(reply) => {
                    sink(Reply { tag, received, answer: Answer::Ok, stages: &[] });
                    self.stream.recycle(reply);
                }
                Err(failure) => {
                    sink(Reply { tag, received, answer: Answer::Miss(miss(&failure.status)), stages: &[] });
                }
            }
        }
        while self.stream.in_flight() < MOST
            && let Some(call) = self.held_back.pop_front()
        {
            let now = clock::now();
            if call.expires.is_some_and(|expires| now >= expires) {
                sink(Reply {
                    tag: call.tag,
                    received: now,
                    answer: Answer::Miss("expired-before-sending"),
                    stages: &[],
                });
            } else {
                self.send(&call, now);
            }
        }
    }

    fn wait(&mut self, until: Time) {
        if self.ended.is_none() {
            self.ended = self.stream.take_timeout(until.since(clock::now()));
        }
    }
}

impl Served for Greenwave {
    fn read(&mut self) {
        self.stream.submit(&Context::unlimited(), MethodId::of(server::CPU), &[], READING);
    }

    fn readings(&mut self, _server: &mut ServerProcess) -> anyhow::Result<Vec<Reading>> {
        Ok(mem::take(&mut self.readings))
    }

    fn usage(&mut self) -> anyhow::Result<Option<Usage>> {
        self.used().map(Some)
    }
}

impl Usage {
    /// What was used between `before` and this.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            at: self.at,
            taken: self.at.since(before.at),
            cpu: self.cpu - before.cpu,
            service: self.service - before.service,
            wasted: self.wasted - before.wasted,
            looks: [0, 1].map(|at| self.looks[at] - before.looks[at]),
            posts: [0, 1].map(|at| self.posts[at] - before.posts[at]),
        }
    }

    /// How long the thread, which never sleeps, had no core.
    pub(crate) fn kept(self) -> Duration {
        self.taken.saturating_sub(Duration::from_nanos(self.cpu))
    }

    /// The share of the thread's time that no handler had.
    pub(crate) fn head_share(self) -> f64 {
        1.0 - self.service as f64 / self.cpu as f64
    }
}
