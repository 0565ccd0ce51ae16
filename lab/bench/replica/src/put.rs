//! `put-256B`: values of 256 bytes are put, by so many clients at a time, or at a fixed rate.

use std::process;
use std::time::{Duration, Instant};

use anyhow::ensure;
use greenwave_bench::arrivals::{Arrivals, Seeded};
use greenwave_bench::classes::Classes;
use greenwave_bench::cpu;
use greenwave_bench::load::{self, Plan};
use greenwave_bench::pin;
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{self, Figures};
use greenwave_bench::target::Rotation;

use crate::cluster::Cluster;

/// Keys are chosen among so many, each of 16 bytes.
const KEYS: usize = 1 << 14;
const VALUE_BYTES: usize = 256;

/// How many clients there are in an open loop: as many as wait when nothing is answered for some seconds.
const OPEN_CLIENTS: usize = 2048;

/// Who waits for longer gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Clients share a connection for so many cores of the servers'. With two cores etcd served 512 clients best over one
/// (12 400 puts a second), worse over 4, 16 and 64 (10 900, 9 400, 8 800): what costs it most there is the processor.
const CORES_A_CONNECTION: usize = 2;

/// A case of this kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Put {
    pub(crate) name: &'static str,
    pub(crate) arrivals: Arrivals,
}

/// All of them.
pub(crate) const PUTS: [Put; 4] = [
    Put { name: "put-256B-clients-1", arrivals: Arrivals::Closed { in_flight: 1 } },
    Put { name: "put-256B-clients-64", arrivals: Arrivals::Closed { in_flight: 64 } },
    Put { name: "put-256B-clients-512", arrivals: Arrivals::Closed { in_flight: 512 } },
    Put { name: "put-256B-open-500", arrivals: Arrivals::Poisson { per_second: 500.0 } },
];

impl Put {
    /// Puts for so long and says how fast that was.
    pub(crate) fn run(
        &self,
        cluster: &dyn Cluster,
        time: Duration,
        seed: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<Figures> {
        let (servers, client) = pin::several_servers()?;
        let connections = (servers.len() / CORES_A_CONNECTION).max(1);
        let plan =
            Plan { warm_up: time / 4, samples: 0, seed, ..Plan::new(self.arrivals, Classes::single(PATIENCE), time) };
        let mut messages = messages(cluster, seed);
        let clients = match self.arrivals {
            Arrivals::Closed { in_flight } => in_flight,
            _ => OPEN_CLIENTS,
        };
        let (measured, worked) = pin::with(&[client], || {
            let mut target = cluster.target(clients, connections)?;
            let (begun, worked) = (Instant::now(), Worked::so_far(cluster)?);
            let measured = load::run(&plan, &mut *target, &mut messages, progress);
            anyhow::Ok((measured, Worked::so_far(cluster)?.since(&worked, begun.elapsed())))
        })??;
        let total = &measured.total;
        ensure!(
            total.missed() == 0,
            "{} of {} puts were not acknowledged: {:?}",
            total.missed(),
            total.scheduled,
            total.misses
        );
        let ops_per_s = total.results.count() as f64 / measured.time.as_secs_f64();
        let mut figures = rounds::figures([("ops_per_s", ops_per_s)].into_iter().chain(total.results.quantiles_us()));
        figures.extend(worked);
        if !matches!(self.arrivals, Arrivals::Closed { .. }) {
            figures.insert("max_send_lag_us".to_owned(), measured.max_send_lag.as_secs_f64() * 1e6);
        }
        Ok(figures)
    }
}

/// How long processes have run.
struct Worked {
    servers: Duration,
    generator: Duration,
}

impl Worked {
    fn so_far(cluster: &dyn Cluster) -> anyhow::Result<Self> {
        let servers = cluster.processes().into_iter().map(cpu::time).sum::<anyhow::Result<Duration>>()?;
        Ok(Self { servers, generator: cpu::time(process::id())? })
    }

    /// How many cores the servers, all together, and the generator kept busy, its warm-up included.
    fn since(&self, before: &Self, time: Duration) -> Figures {
        let busy = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / time.as_secs_f64();
        rounds::figures([
            ("server_busy_cores", busy(self.servers, before.servers)),
            ("generator_busy_cores", busy(self.generator, before.generator)),
        ])
    }
}

fn messages(cluster: &dyn Cluster, seed: u64) -> Rotation {
    let mut random = Seeded::new(seed);
    let message = |_| {
        let key = format!("key-{:012}", random.below(KEYS));
        let value: Vec<u8> = (0..VALUE_BYTES).map(|_| random.below(256) as u8).collect();
        cluster.message(key.as_bytes(), &value)
    };
    Rotation::new((0..KEYS).map(message).collect())
}
