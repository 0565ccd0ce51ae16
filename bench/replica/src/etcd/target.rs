//! etcd as a target of load: the generator's thread runs the calls, over some connections.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::task::Poll;

use anyhow::Context as _;
use bytes::Bytes;
use greenwave_bench::clock;
use greenwave_bench::target::{Answer, Reply, Request, Target};
use greenwave_policy::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::transport::Channel;

use super::{grpc, wire};

/// Puts over some connections in turn.
pub(crate) struct EtcdTarget {
    runtime: Runtime,
    channels: Vec<Channel>,
    next: usize,
    done: UnboundedSender<Done>,
    dones: UnboundedReceiver<Done>,
    /// tokio's own timers are exact to a millisecond; etcd is not to be charged for that.
    timer: AsyncFd<OwnedFd>,
    /// What ended a wait, until it's polled for.
    held: Option<Done>,
}

struct Done {
    tag: u64,
    received: Time,
    answer: Answer,
}

impl EtcdTarget {
    pub(crate) fn new(port: u16, connections: usize) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let channels = (0..connections).map(|_| grpc::channel(port)).collect::<anyhow::Result<_>>()?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("no timer can be had")?;
        #[expect(deprecated, reason = "an `OwnedFd` stays open for as long as it is registered")]
        let timer = AsyncFd::new(timer)?;
        drop(entered);
        let (done, dones) = unbounded_channel();
        Ok(Self { runtime, channels, next: 0, done, dones, timer, held: None })
    }
}

impl Target for EtcdTarget {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        self.next = (self.next + 1) % self.channels.len();
        let (channel, done, tag) = (self.channels[self.next].clone(), self.done.clone(), request.tag);
        let message = Bytes::copy_from_slice(request.payload);
        self.runtime.spawn(async move {
            let answer = match grpc::call(channel, wire::PUT, message).await {
                Ok(_) => Answer::Ok,
                Err(status) if status.code() == tonic::Code::Unavailable => Answer::Miss("unreachable"),
                Err(_) => Answer::Miss("error"),
            };
            // Nobody hears of it once the run is over.
            let _ = done.send(Done { tag, received: clock::now(), answer });
        });
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        self.runtime.block_on(tokio::task::yield_now());
        while let Some(Done { tag, received, answer }) = self.held.take().or_else(|| self.dones.try_recv().ok()) {
            sink(Reply { tag, received, answer, stages: &[] });
        }
    }

    fn wait(&mut self, until: Time) {
        if self.held.is_some() || arm(&self.timer, until).is_err() {
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

fn arm(timer: &AsyncFd<OwnedFd>, at: Time) -> rustix::io::Result<()> {
    // An instant of zero would disarm it.
    let nanos = at.as_nanos().max(1);
    let at = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once).map(|_before| ())
}
