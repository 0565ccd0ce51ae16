//! `failover`: the leader is killed, again and again, while clients write.
//!
//! 1. Writers put one key after the other, each once, and try again until it is acknowledged.
//! 2. The leader is killed. The time without a leader, as clients see it, ends with the first acknowledgement of an attempt
//!    that began after that.
//! 3. The killed one is started again on its files, and when there is a leader and writes have gone on for a while, the
//!    next is killed.
//! 4. In the end every acknowledged key is read back, linearizably, and has to have the value that was acknowledged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use greenwave_bench::latencies::Latencies;
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Figures, figures};

use crate::cluster::{Client, Cluster};

/// The case's name.
pub(crate) const NAME: &str = "failover";

const WRITERS: usize = 4;

/// How long a writer rests between two keys: what is written has to be read in the end.
const REST: Duration = Duration::from_millis(4);

/// How long all is well before the next kill.
const CALM: Duration = Duration::from_millis(1000);

/// How long nobody may be acknowledged before it is said that the group is dead.
const HOPELESS: Duration = Duration::from_secs(60);

/// An acknowledgement, as its writer tells it.
struct Acknowledged {
    attempt_began: Instant,
    at: Instant,
}

/// Kills the leader so many times.
pub(crate) fn run(cluster: &mut dyn Cluster, kills: usize, progress: &mut Progress) -> anyhow::Result<Figures> {
    let clients = (0..WRITERS).map(|_| cluster.client()).collect::<anyhow::Result<Vec<_>>>()?;
    let (stop, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; WRITERS]);
    let (tell, told) = channel();
    let gaps = Mutex::new(Latencies::new());
    let checked: anyhow::Result<Vec<u64>> = thread::scope(|scope| {
        let mut writers = Vec::new();
        for (number, client) in clients.into_iter().enumerate() {
            let (stop, count, tell) = (&stop, &counts[number], tell.clone());
            writers.push(scope.spawn(move || {
                let mut client = client;
                write(&mut *client, number, stop, count, &tell);
                read_back(&mut *client, number, count.load(Ordering::Relaxed))
            }));
        }
        drop(tell);
        let killed = kill(cluster, kills, &told, &gaps, progress);
        stop.store(true, Ordering::Relaxed);
        let checked =
            writers.into_iter().map(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?);
        let checked = checked.collect::<anyhow::Result<Vec<_>>>();
        killed.and(checked)
    });
    let lost: u64 = checked?.iter().sum();
    let gaps = gaps.into_inner().map_err(|_| anyhow::anyhow!("a kill panicked"))?;
    let ms = |q| gaps.quantile(q).map_or(f64::NAN, |gap| gap.as_secs_f64() * 1e3);
    let acknowledged: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    Ok(figures([
        ("leaderless_p50_ms", ms(0.5)),
        ("leaderless_p99_ms", ms(0.99)),
        ("kills", kills as f64),
        ("acknowledged", acknowledged as f64),
        ("lost", lost as f64),
    ]))
}

fn kill(
    cluster: &mut dyn Cluster,
    kills: usize,
    told: &Receiver<Acknowledged>,
    gaps: &Mutex<Latencies>,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    for nth in 0..kills {
        progress.show(nth as f64 / kills as f64, 0);
        let leader = calm(cluster, told)?;
        let killed = Instant::now();
        cluster.members()[leader].kill();
        let served = loop {
            let said = told.recv_timeout(HOPELESS).context("nothing is acknowledged after a kill")?;
            if said.attempt_began > killed {
                break said.at;
            }
        };
        gaps.lock().map_err(|_| anyhow::anyhow!("a kill panicked"))?.record(served - killed);
        cluster.members()[leader].restart()?;
    }
    calm(cluster, told).map(|_| ())
}

/// Waits until writes have gone on for a while, and says who leads.
fn calm(cluster: &dyn Cluster, told: &Receiver<Acknowledged>) -> anyhow::Result<usize> {
    let begun = Instant::now();
    loop {
        match told.recv_timeout(HOPELESS) {
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("all writers have ended"),
        }
        if begun.elapsed() >= CALM
            && let Some(leader) = cluster.leader()
        {
            return Ok(leader);
        }
        ensure!(begun.elapsed() < HOPELESS, "no leader after {HOPELESS:?}");
    }
}

/// Puts one key after the other.
fn write(client: &mut dyn Client, number: usize, stop: &AtomicBool, count: &AtomicU64, tell: &Sender<Acknowledged>) {
    for sequence in 0.. {
        let (key, value) = entry(number, sequence);
        loop {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let attempt_began = Instant::now();
            if client.try_put(&key, &value) {
                // Nobody counts any more in the end.
                let _ = tell.send(Acknowledged { attempt_began, at: Instant::now() });
                break;
            }
        }
        count.store(sequence + 1, Ordering::Relaxed);
        thread::sleep(REST);
    }
}

/// How many of the keys that were acknowledged are not there.
fn read_back(client: &mut dyn Client, number: usize, acknowledged: u64) -> anyhow::Result<u64> {
    let mut lost = 0;
    for sequence in 0..acknowledged {
        let (key, value) = entry(number, sequence);
        lost += u64::from(client.read(&key)?.as_ref() != Some(&value));
    }
    Ok(lost)
}

fn entry(number: usize, sequence: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("writer-{number}-{sequence:010}").into_bytes(), format!("{sequence}-by-{number}").into_bytes())
}
