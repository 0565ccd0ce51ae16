//! One measurement: a service is woken beside its neighbours.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use greenwave_bench::latencies::Latencies;
use greenwave_host::boost::{Memory, Selection, Slice, boost};

use super::case::{Case, Lever, Neighbours, Work};
use super::neighbour::Neighbour;
use super::service::Service;

/// Wakes count or don't by windows of this length.
const WINDOW: Duration = Duration::from_millis(200);
/// How long a neighbour may wait in a window beyond what the others ran: interrupts, and the kernel's own threads.
const ALLOWED: Duration = Duration::from_millis(7);

/// p95 over that of no lever.
pub(super) const OVER_NONE: &str = "p95_over_none";
/// What the neighbours got done, of what they did with no lever.
pub(super) const SHARE: &str = "neighbours_share";

/// Where and for how long it is measured.
#[derive(Debug)]
pub(super) struct Testbed {
    /// This program, which neighbours are made of.
    pub(super) own: PathBuf,
    /// The core of the service and its neighbours.
    pub(super) core: usize,
    /// How many undisturbed windows are enough.
    pub(super) windows: usize,
    /// How long they are waited for.
    pub(super) most: Duration,
}

/// What undisturbed windows showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakes {
    latencies: Latencies,
    /// How far the neighbours counted, and in which time.
    counted: u64,
    time: Duration,
}

impl Wakes {
    pub(super) fn is_empty(&self) -> bool {
        self.latencies.count() == 0
    }

    /// Adds another sample of the same.
    pub(super) fn add(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.counted += other.counted;
        self.time += other.time;
    }

    /// The figures under their names, beside those of no lever if this is of another; none if it is empty.
    pub(super) fn figures(&self, without: Option<&Self>) -> Vec<(&'static str, f64)> {
        if self.is_empty() {
            return Vec::new();
        }
        let at = |of: &Self, q| of.latencies.quantile(q).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
        let speed = |of: &Self| of.counted as f64 / of.time.as_secs_f64();
        let mut figures = vec![
            ("wakes", self.latencies.count() as f64),
            ("p50_us", at(self, 0.5)),
            ("p95_us", at(self, 0.95)),
            ("p99_us", at(self, 0.99)),
        ];
        if let Some(without) = without.filter(|without| !without.is_empty()) {
            figures.extend([(OVER_NONE, at(self, 0.95) / at(without, 0.95)), (SHARE, speed(self) / speed(without))]);
        }
        figures
    }
}

impl Testbed {
    /// Measures a case with a lever; `show` is told which share is done. It's empty if no window was undisturbed.
    pub(super) fn measure(
        &self,
        case: &Case,
        lever: &Lever,
        round: usize,
        mut show: impl FnMut(f64),
    ) -> anyhow::Result<Wakes> {
        let mut neighbours = self.neighbours(case.neighbours)?;
        // Threads and processes end with this measurement, so nothing has to be put back.
        let folder = tempfile::tempdir().context("can't make a folder; set TMPDIR to where one can be made")?;
        let memory = Memory::at(folder.path().join("boost.json"));
        if let Some(slice) = lever.neighbours_slice_us {
            neighbours.iter().try_for_each(|it| give(slice, &Selection::Process(it.id()), &memory))?;
        }
        let Work { work_us, pause_us } = case.work;
        let service = Service::start(self.core, lever.nice, Duration::from_micros(work_us))?;
        if let Some(slice) = lever.slice_us {
            give(slice, &Selection::Thread(service.thread), &memory)?;
        }
        let mut pauses = Pauses { least_us: pause_us, state: round as u64 };
        let (begun, mut windows, mut wakes) = (Instant::now(), 0, Wakes::default());
        while windows < self.windows && begun.elapsed() < self.most {
            let in_time = begun.elapsed().as_secs_f64() / self.most.as_secs_f64();
            show(in_time.max(windows as f64 / self.windows as f64));
            let before = Looked::at(&service, &mut neighbours)?;
            let mut latencies = Vec::new();
            while before.at.elapsed() < WINDOW {
                thread::sleep(pauses.next());
                latencies.push(service.wake()?);
            }
            let after = Looked::at(&service, &mut neighbours)?;
            if after.is_undisturbed_since(&before) {
                windows += 1;
                latencies.into_iter().for_each(|latency| wakes.latencies.record(latency));
                wakes.counted += after.counted.saturating_sub(before.counted);
                wakes.time += after.at - before.at;
            }
        }
        Ok(wakes)
    }

    fn neighbours(&self, of: Neighbours) -> anyhow::Result<Vec<Neighbour>> {
        let apart = (0..of.apart + of.beside).map(|nth| nth < of.apart);
        apart.map(|apart| Neighbour::start(&self.own, self.core, of.busy_percent, apart)).collect()
    }
}

fn give(slice_us: u64, whom: &Selection, memory: &Memory) -> anyhow::Result<()> {
    let report = boost(whom, Slice::try_from(Duration::from_micros(slice_us))?, memory)?;
    let denied: Vec<String> = report.denied.iter().map(|denied| denied.source.to_string()).collect();
    ensure!(denied.is_empty(), "a slice of {slice_us} us was refused: {}", denied.join(", "));
    Ok(())
}

/// How long the service is left alone each time. Not regularly, so that no moment between two ticks is met more often than
/// another; in each round otherwise, and for all levers alike.
struct Pauses {
    least_us: u64,
    state: u64,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(self.least_us + (self.state >> 33) % (2 * self.least_us))
    }
}

/// How long a thread has run, and has waited to run.
#[derive(Clone, Copy, Debug)]
struct Times {
    ran: Duration,
    waited: Duration,
}

impl Times {
    fn of(thread: i32) -> anyhow::Result<Self> {
        let path = format!("/proc/{thread}/schedstat");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("can't read {path}; the kernel needs CONFIG_SCHED_INFO and /proc"))?;
        let mut nanos = text.split_whitespace().map_while(|word| word.parse().ok().map(Duration::from_nanos));
        let times = nanos.next().zip(nanos.next()).map(|(ran, waited)| Self { ran, waited });
        times.with_context(|| format!("{path} has no times: {text}"))
    }
}

/// Who has done how much at a time.
struct Looked {
    at: Instant,
    /// Of the service, and then of the neighbours.
    times: Vec<Times>,
    counted: u64,
}

impl Looked {
    fn at(service: &Service, neighbours: &mut [Neighbour]) -> anyhow::Result<Self> {
        let counted = neighbours.iter_mut().map(Neighbour::counted).sum::<anyhow::Result<u64>>()?;
        let threads = [service.thread].into_iter().chain(neighbours.iter().map(Neighbour::id));
        Ok(Self { times: threads.map(Times::of).collect::<anyhow::Result<_>>()?, counted, at: Instant::now() })
    }

    /// Whether nobody else had their core: no neighbour waited for longer than the service and the other neighbours ran.
    /// That the service waits is what is measured.
    fn is_undisturbed_since(&self, before: &Self) -> bool {
        let spent = |after: &Times, before: &Times| Times {
            ran: after.ran.saturating_sub(before.ran),
            waited: after.waited.saturating_sub(before.waited),
        };
        let spent: Vec<Times> =
            self.times.iter().zip(&before.times).map(|(after, before)| spent(after, before)).collect();
        let ran: Duration = spent.iter().map(|it| it.ran).sum();
        spent.iter().skip(1).all(|it| it.waited <= ran - it.ran + ALLOWED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_bench::ratios;

    fn wakes(latencies: &[u64], counted: u64, time: u64) -> Wakes {
        let mut wakes = Wakes { counted, time: Duration::from_secs(time), ..Wakes::default() };
        latencies.iter().for_each(|us| wakes.latencies.record(Duration::from_micros(*us)));
        wakes
    }

    #[test]
    fn rounds_are_one_sample_and_compared_with_that_of_no_lever() {
        let mut all = wakes(&[10; 90], 100, 1);
        all.add(&wakes(&[40; 10], 500, 2));
        let figures = |without: Option<&Wakes>| all.figures(without);
        let value = |figures: &[(&str, f64)], name: &str| figures.iter().find(|it| it.0 == name).map(|it| it.1.round());
        let alone = figures(None);
        assert_eq!(["wakes", "p50_us", "p95_us"].map(|name| value(&alone, name)), [100.0, 10.0, 40.0].map(Some));
        assert_eq!(value(&alone, OVER_NONE), None);
        let compared = figures(Some(&wakes(&[20], 200, 2)));
        assert_eq!([OVER_NONE, SHARE].map(|name| value(&compared, name)), [2.0, 2.0].map(Some));
        assert_eq!(figures(Some(&Wakes::default())).len(), alone.len());
        assert!(Wakes::default().figures(Some(&all)).is_empty());
        assert_eq!(ratios::name("p95_us", "none"), OVER_NONE);
    }

    #[test]
    fn a_window_counts_in_which_neighbours_waited_for_one_another_and_the_service_alone() {
        let looked = |times: &[(u64, u64)]| Looked {
            at: Instant::now(),
            times: times.iter().map(|(ran, waited)| times_ms(*ran, *waited)).collect(),
            counted: 0,
        };
        let before = looked(&[(5, 5), (100, 100), (100, 100)]);
        let is_undisturbed = |times: &[(u64, u64)]| looked(times).is_undisturbed_since(&before);
        assert!(is_undisturbed(&[(15, 5), (195, 205), (195, 205)]));
        assert!(is_undisturbed(&[(15, 100), (195, 210), (195, 205)]), "a little, and the service may wait");
        assert!(!is_undisturbed(&[(15, 5), (155, 205), (155, 245)]));
    }

    fn times_ms(ran: u64, waited: u64) -> Times {
        Times { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) }
    }

    #[test]
    fn pauses_are_one_to_three_times_the_least_and_others_in_each_round() {
        let pauses = |state| {
            let mut pauses = Pauses { least_us: 200, state };
            (0..1000).map(|_| pauses.next().as_micros()).collect::<Vec<_>>()
        };
        assert!(pauses(0).iter().all(|us| (200..600).contains(us)));
        assert_ne!(pauses(0), pauses(1));
        assert_eq!(pauses(2), pauses(2));
    }

    #[test]
    fn times_are_those_of_the_kernel() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let before = Times::of(own).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {}
        assert!(Times::of(own).unwrap().ran >= before.ran);
        assert!(Times::of(0).unwrap_err().to_string().starts_with("can't read /proc/0/schedstat"));
    }
}
