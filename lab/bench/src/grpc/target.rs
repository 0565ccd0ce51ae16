//! A gRPC service as a target of load: a task for each call, on a runtime of the generator's own thread.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::task::Poll;

use anyhow::Context;
use bytes::Bytes;
use greenwave_policy::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

use crate::capacity::OUT_OF_REACH;
use crate::clock;
use crate::target::{Answer, Reply, Request, Target};

/// How calls are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For each class the method; one for all if there is one.
    pub paths: Vec<PathAndQuery>,
    /// How many calls may be outstanding. Further ones are not sent and count as missed.
    pub most: usize,
    /// Whether a call is sent with its deadline, where that isn't out of reach.
    pub deadlines: bool,
    /// Whether the thread never sleeps.
    pub spins: bool,
    /// The name under which a failed call is counted.
    pub miss: fn(Code) -> &'static str,
}

/// Methods of a gRPC service, called over some channels in turn.
pub struct GrpcTarget {
    runtime: Runtime,
    channels: Vec<Channel>,
    settings: Settings,
    /// tokio's own timers are exact to a millisecond; the service is not to be charged for that.
    timer: AsyncFd<OwnedFd>,
    submitted: usize,
    outstanding: usize,
    done: UnboundedSender<Done>,
    dones: UnboundedReceiver<Done>,
    /// What ended a wait, until it's polled for.
    held: Option<Done>,
}

/// A call that is over.
struct Done {
    tag: u64,
    received: Time,
    answer: Answer,
}

impl GrpcTarget {
    /// Calls over as many channels as `connect` makes, which is run on the target's own runtime.
    ///
    /// # Errors
    /// Those of `connect`, and when there can be no runtime or timer.
    pub fn new(
        connect: impl AsyncFnOnce() -> anyhow::Result<Vec<Channel>>,
        settings: Settings,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let channels = runtime.block_on(connect())?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("no timer can be had")?;
        let entered = runtime.enter();
        #[expect(deprecated, reason = "an `OwnedFd` stays open for as long as it is registered")]
        let timer = AsyncFd::new(timer)?;
        drop(entered);
        let (done, dones) = unbounded_channel();
        Ok(Self { runtime, channels, settings, timer, submitted: 0, outstanding: 0, done, dones, held: None })
    }

    /// Lets the tasks go on once.
    fn run_tasks(&self) {
        self.runtime.block_on(tokio::task::yield_now());
    }
}

impl Target for GrpcTarget {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let Settings { paths, most, deadlines, miss, .. } = &self.settings;
        if self.outstanding >= *most {
            return Err("not-sent");
        }
        self.outstanding += 1;
        self.submitted += 1;
        let (tag, miss) = (request.tag, *miss);
        let mut message = tonic::Request::new(Bytes::copy_from_slice(request.payload));
        if *deadlines && request.class.deadline < OUT_OF_REACH {
            message.set_timeout(request.expires().since(clock::now()));
        }
        let channel = self.channels[self.submitted % self.channels.len()].clone();
        let path = paths[request.class_index.min(paths.len() - 1)].clone();
        let done = self.done.clone();
        self.runtime.spawn(async move {
            let answer = super::call(channel, path, message).await;
            let answer = answer.map_or_else(|status| Answer::Miss(miss(status.code())), |_| Answer::Ok);
            // If the target is gone nobody wants to know.
            let _ = done.send(Done { tag, received: clock::now(), answer });
        });
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        self.run_tasks();
        while let Some(Done { tag, received, answer }) = self.held.take().or_else(|| self.dones.try_recv().ok()) {
            self.outstanding -= 1;
            sink(Reply { tag, received, answer, stages: &[] });
        }
    }

    fn wait(&mut self, until: Time) {
        if self.settings.spins {
            while self.dones.is_empty() && clock::now() < until {
                self.run_tasks();
            }
            return;
        }
        if self.held.is_some() || ring_at(&self.timer, until).is_err() {
            return;
        }
        let Self { runtime, timer, dones, held, .. } = self;
        runtime.block_on(poll_fn(|task| {
            if let Poll::Ready(done) = dones.poll_recv(task) {
                *held = done;
                return Poll::Ready(());
            }
            timer.poll_read_ready(task).map(|rung| {
                if let Ok(mut rung) = rung {
                    rung.clear_ready();
                }
            })
        }));
    }
}

fn ring_at(timer: &AsyncFd<OwnedFd>, at: Time) -> rustix::io::Result<()> {
    // An instant of zero would disarm it.
    let nanos = at.as_nanos().max(1);
    let at = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once).map(|_before| ())
}
