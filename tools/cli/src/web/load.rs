//! A method over HTTP as a target of load: a task for each call, on a runtime of the generator's own thread.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use greenwave::{Code, Reason, Receipt, Status};
use greenwave_bench::clock;
use greenwave_bench::rpc::{self, AT_ONCE, Patience};
use greenwave_bench::target::{Answer, Reply, Request, Target};
use greenwave_policy::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::{Call, Caller, Client, Format};

/// Calls that may be under way, over HTTP/1.1 each on a connection of its own; further ones are not sent.
const CALLS_MOST: usize = 1024;

/// A method of a server, called over connections that are kept. Some classes of requests may call another one.
pub(crate) struct WebTarget {
    runtime: Option<Runtime>,
    caller: Arc<Caller>,
    call: Arc<Call>,
    others: Vec<(String, Arc<Call>)>,
    stage: String,
    patience: Patience,
    /// tokio's own timers are exact to a millisecond; the server is not to be charged for that.
    timer: Option<AsyncFd<OwnedFd>>,
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
    result: Result<(), Status>,
    receipt: Option<Receipt>,
    total: Duration,
}

impl WebTarget {
    /// Calls a method by this client. Its receipts, if it has any, are listed as those of `stage`.
    ///
    /// # Errors
    /// There can be no timer.
    pub(crate) fn new(
        mut client: Client,
        call: Call,
        stage: impl Into<String>,
        patience: Patience,
    ) -> std::io::Result<Self> {
        let runtime = client.runtime.take();
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let entered = runtime.as_ref().map(Runtime::enter);
        #[expect(deprecated, reason = "an `OwnedFd` stays open for as long as it is registered")]
        let timer = AsyncFd::new(timer)?;
        drop(entered);
        let (done, dones) = unbounded_channel();
        Ok(Self {
            runtime,
            caller: Arc::clone(&client.caller),
            call: Arc::new(call),
            others: Vec::new(),
            stage: stage.into(),
            patience,
            timer: Some(timer),
            outstanding: 0,
            done,
            dones,
            held: None,
        })
    }

    /// Requests of the class with this name call another method.
    #[must_use]
    pub(crate) fn calling(mut self, class: impl Into<String>, method: &str) -> Self {
        let call = Call { method: method.to_owned(), ..Call::clone(&self.call) };
        self.others.push((class.into(), Arc::new(call)));
        self
    }
}

impl Drop for WebTarget {
    fn drop(&mut self) {
        drop(self.timer.take());
        if let Some(runtime) = self.runtime.take() {
            // A name may still be asked for.
            runtime.shutdown_background();
        }
    }
}

impl Target for WebTarget {
    fn now(&self) -> Time {
        clock::now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        let Some(runtime) = &self.runtime else { return Err("not-sent") };
        if self.outstanding >= CALLS_MOST {
            return Err("too-many-calls");
        }
        let sent = clock::now();
        let left = request.expires().since(sent);
        let until = match self.patience {
            Patience::Enforced => Instant::now().checked_add(left),
            Patience::Observed => None,
        };
        let other = self.others.iter().find(|(class, _)| *class == request.class.name);
        let call = Arc::clone(other.map_or(&self.call, |(_, call)| call));
        let message = match (request.payload, call.format) {
            // A message without fields.
            ([], Format::Json) => Bytes::from_static(b"{}"),
            (payload, _) => Bytes::copy_from_slice(payload),
        };
        let (caller, done, tag) = (Arc::clone(&self.caller), self.done.clone(), request.tag);
        self.outstanding += 1;
        runtime.spawn(async move {
            let end = caller.call(&call, message, until, &mut |_| ()).await;
            let received = clock::now();
            let (result, receipt, total) = (end.result, end.receipt, received.since(sent));
            // If the target is gone nobody wants to know.
            let _ = done.send(Done { tag, received, result, receipt, total });
        });
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        let Some(runtime) = &self.runtime else { return };
        // Lets the tasks go on once.
        runtime.block_on(tokio::task::yield_now());
        for _ in 0..AT_ONCE {
            let Some(done) = self.held.take().or_else(|| self.dones.try_recv().ok()) else { break };
            self.outstanding -= 1;
            let Done { tag, received, result, receipt, total } = done;
            let stages = receipt.as_ref().map(|receipt| {
                let network = if result.is_ok() { total.saturating_sub(receipt.total) } else { Duration::ZERO };
                rpc::stages(&self.stage, receipt, total, network)
            });
            let answer = match &result {
                Ok(()) if receipt.as_ref().is_none_or(rpc::is_complete) => Answer::Ok,
                Ok(()) => Answer::Miss(rpc::INCOMPLETE),
                Err(status) => Answer::Miss(miss(status)),
            };
            sink(Reply { tag, received, answer, stages: stages.as_deref().unwrap_or_default() });
        }
    }

    fn wait(&mut self, until: Time) {
        let Self { runtime: Some(runtime), timer: Some(timer), dones, held, .. } = self else { return };
        if held.is_some() || ring_at(timer, until).is_err() {
            return;
        }
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

/// The name under which a failed call is counted. What HTTP brings has a code, and the reason in words alone.
fn miss(status: &Status) -> &'static str {
    match (status.reason, status.code) {
        (Reason::None, Code::DeadlineExceeded) => "deadline-exceeded",
        (Reason::None, Code::ResourceExhausted) => "resource-exhausted",
        (Reason::None, Code::Unavailable) => "unavailable",
        (Reason::None, Code::Unimplemented) => "unknown-method",
        _ => rpc::miss(status),
    }
}
