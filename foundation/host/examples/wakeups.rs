//! How long a thread that is woken waits for a processor that a neighbour uses, with and without a short slice, and
//! what that costs the neighbour. `docs/boost.md` has what it showed.
//!
//! `cargo run --release -p greenwave-host --example wakeups [WAKES] [SECONDS] [SKIP]` (1000 undisturbed wakes per row,
//! or as many as come in 20 s; all cases, or all but the first so many). Needs two processors and root.
//!
//! A service thread and the neighbours, processes that count, are bound to one core. From the other core the service is
//! woken by an eventfd, at times that have nothing to do with the kernel's ticks; each wake is timed from just before the
//! write to when the service has read it. The neighbours write down how far they have counted, a hundred times a second.
//!
//! What else runs on that core would spoil it. So wakes count only from windows of 200 ms in which no neighbour had to
//! wait for longer than the service and the other neighbours ran. Where that never happens, put the whole into a cgroup
//! with much weight, and name one below it in `NEIGHBOURS_CGROUP`, into which neighbours with a session of their own go.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use greenwave_host::boost::{Memory, Selection, Slice, boost, off};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, setpriority_process, setsid};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The core of the service and its neighbours, and that of who wakes it.
const CORE: usize = 1;
const WAKER: usize = 0;

#[derive(Clone, Copy, Default)]
struct Levers {
    slice_us: Option<u64>,
    neighbour_slice_us: Option<u64>,
    nice: i32,
    fifo: bool,
}

#[derive(Clone, Copy)]
struct Service {
    /// What it does when it is woken.
    work_us: u64,
    /// How long it is left alone: this to three times this, evenly.
    pause_us: u64,
}

#[derive(Clone, Copy)]
struct Neighbours {
    /// How many are in a session, and so a group for the scheduler, of their own.
    apart: usize,
    /// How many are in the service's group.
    beside: usize,
    /// Of 10 ms of its processor time, how many it runs before it sleeps for the others.
    busy_ms: u64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "neighbour") {
        return neighbour(arguments[1].parse()?, arguments[2] == "apart");
    }
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let enough = Enough { wakes: number(0, 1000)? as usize, time: Duration::from_secs(number(1, 20)?) };
    println!(
        "{:<26} {:>7} {:>7} {:<20} {:>6} {:>8} {:>8} {:>8} {:>8} {:>10}",
        "neighbours", "work us", "pause", "lever", "wakes", "p50 us", "p95 us", "p99 us", "max", "neighbours"
    );
    let levers = |slice_us, neighbour_slice_us, nice| Levers { slice_us, neighbour_slice_us, nice, fifo: false };
    let all = [
        ("none", Levers::default()),
        ("slice 200us", levers(Some(200), None, 0)),
        ("slice 100us", levers(Some(100), None, 0)),
        ("neighbours' 100ms", levers(None, Some(100_000), 0)),
        ("200us, theirs 100ms", levers(Some(200), Some(100_000), 0)),
        ("nice -10", levers(None, None, -10)),
        ("SCHED_FIFO (limit)", Levers { fifo: true, ..Levers::default() }),
    ];
    let one = Neighbours { apart: 1, beside: 0, busy_ms: 10 };
    let (most, three) = (Neighbours { busy_ms: 9, ..one }, Neighbours { apart: 3, ..one });
    let (beside, both) = (Neighbours { apart: 0, beside: 1, ..one }, Neighbours { beside: 1, ..one });
    let short = Service { work_us: 20, pause_us: 2_000 };
    let busy = Service { pause_us: 200, ..short };
    let long = Service { work_us: 300, pause_us: 1_000 };
    let greedy = Service { work_us: 2_000, pause_us: 500 };
    let cases = [
        (one, short),
        (one, busy),
        (one, long),
        (beside, busy),
        (most, short),
        (most, busy),
        (three, short),
        (three, busy),
        (one, greedy),
        (both, short),
    ];
    for (neighbours, service) in cases.into_iter().skip(number(2, 0)? as usize) {
        let mut without = None;
        for (name, levers) in all {
            row(neighbours, service, name, levers, enough, &mut without)?;
        }
    }
    Ok(())
}

fn row(
    neighbours: Neighbours,
    service: Service,
    lever: &str,
    levers: Levers,
    enough: Enough,
    without: &mut Option<f64>,
) -> Outcome<()> {
    let sessions = [(true, neighbours.apart), (false, neighbours.beside)];
    let each = sessions.into_iter().flat_map(|(apart, count)| std::iter::repeat_n(apart, count));
    let others: Vec<_> = each.map(|apart| Other::start(neighbours.busy_ms, apart)).collect::<Outcome<_>>()?;
    let folder = std::env::temp_dir().join(format!("wakeups-{}", std::process::id()));
    let memory = Memory::at(folder.join("boost.json"));
    if let Some(slice) = levers.neighbour_slice_us {
        for other in &others {
            let slice = Slice::try_from(Duration::from_micros(slice))?;
            boost(&Selection::Process(other.process.id() as i32), slice, &memory)?;
        }
    }
    let woken = wakes(service, levers, &others, enough, &memory);
    off(None, &memory)?;
    let _kept = std::fs::remove_dir_all(folder);
    drop(others);
    let woken = woken.and_then(|it| if it.latencies.is_empty() { Err("never left alone".into()) } else { Ok(it) });
    let Woken { mut latencies, speed } = match woken {
        Ok(woken) => woken,
        Err(error) => {
            println!("{lever}: {error}");
            return Ok(());
        }
    };
    latencies.sort_unstable();
    let at = |q: f64| latencies[((latencies.len() - 1) as f64 * q) as usize] as f64 / 1e3;
    let share = 100.0 * speed / *without.get_or_insert(speed);
    let Neighbours { apart, beside, busy_ms } = neighbours;
    let who = format!("{apart} apart, {beside} beside, {} %", busy_ms * 10);
    println!(
        "{who:<26} {:>7} {:>7} {lever:<20} {:>6} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {share:>8.1} %",
        service.work_us,
        service.pause_us,
        latencies.len(),
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0),
    );
    Ok(())
}

#[derive(Clone, Copy)]
struct Enough {
    wakes: usize,
    time: Duration,
}

/// What the undisturbed windows showed.
struct Woken {
    latencies: Vec<u64>,
    /// How far the neighbours counted in a second.
    speed: f64,
}

/// Wakes a service thread until it is enough; how long it waited each time, in nanoseconds.
fn wakes(service: Service, levers: Levers, others: &[Other], enough: Enough, memory: &Memory) -> Outcome<Woken> {
    let Service { work_us, pause_us } = service;
    let bell = Arc::new(eventfd(0, EventfdFlags::empty())?);
    let sent = Arc::new(AtomicU64::new(0));
    let (tell, told) = channel();
    let (tell_latency, latency) = channel();
    {
        let (bell, sent) = (bell.clone(), sent.clone());
        thread::spawn(move || {
            pin(CORE);
            let _nobody_waits = tell.send(gettid());
            while rustix::io::read(&*bell, &mut [0; 8]).is_ok() {
                let latency = nanos(ClockId::Monotonic) - sent.load(Ordering::Acquire);
                let begun = nanos(ClockId::ThreadCPUTime);
                while nanos(ClockId::ThreadCPUTime) - begun < work_us * 1000 {}
                if tell_latency.send(latency).is_err() {
                    return;
                }
            }
        });
    }
    let thread = told.recv()?;
    let number = thread.as_raw_nonzero().get();
    if levers.nice != 0 {
        setpriority_process(Some(thread), levers.nice)?;
    }
    if levers.fifo {
        let set = Command::new("chrt").args(["-f", "-p", "1", &number.to_string()]).stderr(Stdio::null()).status()?;
        if !set.success() {
            return Err("not allowed here".into());
        }
    }
    if let Some(slice) = levers.slice_us {
        boost(&Selection::Thread(number), Slice::try_from(Duration::from_micros(slice))?, memory)?;
    }
    pin(WAKER);
    let start = nanos(ClockId::Monotonic);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut kept, mut window) = (Vec::new(), Vec::new());
    let (mut counted, mut counted_for) = (0, 0);
    let times = || -> Outcome<Vec<Times>> {
        std::iter::once(Times::of(number)).chain(others.iter().map(|it| Times::of(it.process.id() as i32))).collect()
    };
    while kept.len() < enough.wakes && nanos(ClockId::Monotonic) - start < enough.time.as_nanos() as u64 {
        let (begun, before, count) = (nanos(ClockId::Monotonic), times()?, Other::counted(others));
        while nanos(ClockId::Monotonic) - begun < WINDOW_NS {
            // Not regularly, so that no moment between two ticks is met more often than another.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            thread::sleep(Duration::from_micros(pause_us + (random >> 33) % (2 * pause_us)));
            sent.store(nanos(ClockId::Monotonic), Ordering::Release);
            rustix::io::write(&*bell, &1_u64.to_ne_bytes())?;
            window.push(latency.recv()?);
        }
        let spent: Vec<_> = times()?.iter().zip(before).map(|(after, before)| after.since(before)).collect();
        let ran: u64 = spent.iter().map(|it| it.ran).sum();
        if spent.iter().skip(1).all(|it| it.waited <= ran - it.ran + WINDOW_NS / 30) {
            kept.append(&mut window);
            counted += Other::counted(others) - count;
            counted_for += nanos(ClockId::Monotonic) - begun;
        }
        window.clear();
    }
    drop(latency);
    rustix::io::write(&*bell, &1_u64.to_ne_bytes())?;
    Ok(Woken { latencies: kept, speed: counted as f64 / counted_for.max(1) as f64 * 1e9 })
}

const WINDOW_NS: u64 = 200_000_000;

/// How long a thread has run and has waited to run, in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    ran: u64,
    waited: u64,
}

impl Times {
    fn of(thread: i32) -> Outcome<Self> {
        let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat"))?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next().ok_or("an odd schedstat");
        Ok(Self { ran: next()??, waited: next()?? })
    }

    fn since(self, before: Self) -> Self {
        Self { ran: self.ran - before.ran, waited: self.waited - before.waited }
    }
}

/// A process that counts, and tells how far it has come.
struct Other {
    process: Child,
    count: Arc<AtomicU64>,
}

impl Other {
    fn start(busy_ms: u64, apart: bool) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["neighbour", &busy_ms.to_string(), if apart { "apart" } else { "beside" }])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = process.stdout.take().ok_or("no output")?;
        let mut told = [0; 8];
        // It has begun when it has counted for a while.
        out.read_exact(&mut told)?;
        let count = Arc::new(AtomicU64::new(0));
        let latest = count.clone();
        thread::spawn(move || {
            while out.read_exact(&mut told).is_ok() {
                latest.store(u64::from_ne_bytes(told), Ordering::Release);
            }
        });
        Ok(Self { process, count })
    }

    fn counted(others: &[Self]) -> u64 {
        others.iter().map(|it| it.count.load(Ordering::Acquire)).sum()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn neighbour(busy_ms: u64, apart: bool) -> Outcome<()> {
    pin(CORE);
    if apart {
        setsid()?;
        if let Some(group) = std::env::var_os("NEIGHBOURS_CGROUP") {
            std::fs::write(Path::new(&group).join("cgroup.procs"), "0")?;
        }
    }
    let (mut count, mut slept, mut told) = (0_u64, 0, 0);
    loop {
        for _ in 0..10_000 {
            count = black_box(count) + 1;
        }
        let used = nanos(ClockId::ThreadCPUTime);
        if busy_ms < 10 && used - slept > busy_ms * 1_000_000 {
            thread::sleep(Duration::from_millis(10 - busy_ms));
            slept = used;
        }
        let now = nanos(ClockId::Monotonic);
        if now - told > 10_000_000 {
            std::io::stdout().write_all(&count.to_ne_bytes())?;
            std::io::stdout().flush()?;
            told = now;
        }
    }
}

fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None::<Pid>, &cores).expect("this needs two processors");
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
