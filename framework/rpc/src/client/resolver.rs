//! Resolving names: hickory-resolver, on one thread of the process, for all channels to names.
//!
//! A channel's name is looked up with its first call, and again when what was found is no longer valid, within bounds
//! ([`ChannelConfig::refresh`](super::config::ChannelConfig::refresh)), or when a server is gone. A channel without calls
//! waits for the next one first. The system's settings, `/etc/resolv.conf` and `/etc/hosts`, are read for each look-up.

use super::servers::Servers;
use super::target::Name;
use crate::clock::monotonic;
use crate::status::{Code, Reason, Status};
use greenwave_policy::Backoff;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How long a look-up may take, of SRV records and then of their addresses.
const LOOK_UP_MOST: Duration = Duration::from_secs(15);
/// So many targets of SRV records are looked up, and so many addresses of each are taken.
const TARGETS_MOST: usize = 64;
const ADDRESSES_MOST: usize = 4096;

/// What has a channel's name looked up again.
#[derive(Clone, Default)]
pub(super) struct Nudge(Arc<Notify>);

impl Nudge {
    pub(super) fn look_again(&self) {
        self.0.notify_one();
    }
}

/// Resolves a channel's name from now on, until there is no such channel any more.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` without a thread to do it on.
pub(super) fn keep_resolved(servers: &Arc<Servers>, name: Name, nudge: Nudge) -> Result<(), Status> {
    let (least, most) = servers.config().refresh;
    let name = Name { server: name.server.or(servers.config().dns), ..name };
    let backoff = super::super::net::backoff(least, servers.config().jitter_seed);
    let keeper = Keeper { servers: Arc::downgrade(servers), name, nudge, least, most, backoff };
    let _detached = thread()?.spawn(keeper.run());
    Ok(())
}

/// The thread's runtime, which is there from the first name on.
fn thread() -> Result<Handle, Status> {
    static THREAD: Mutex<Option<Handle>> = Mutex::new(None);
    greenwave_quanta::critical(|| {
        let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*thread {
            return Ok(handle.clone());
        }
        let refuse = |error| Status::new(Code::ResourceExhausted, format!("no thread for resolving names: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refuse)?;
        let handle = runtime.handle().clone();
        let builder = std::thread::Builder::new().name("greenwave-names".into());
        let _detached = builder.spawn(move || runtime.block_on(std::future::pending::<()>())).map_err(refuse)?;
        Ok(thread.insert(handle).clone())
    })
}

/// One channel's name.
struct Keeper {
    servers: Weak<Servers>,
    name: Name,
    nudge: Nudge,
    least: Duration,
    most: Duration,
    backoff: Backoff,
}

/// Addresses, and until when they are valid.
type Found = (Vec<SocketAddr>, Instant);

impl Keeper {
    async fn run(mut self) {
        loop {
            let looked_up = tokio::time::timeout(LOOK_UP_MOST, look_up(&self.name)).await;
            let found = looked_up.unwrap_or_else(|_| Err("no DNS server has answered".into()));
            let Some(servers) = self.servers.upgrade() else { return };
            let pause = self.tell(&servers, found);
            drop(servers);
            // Not sooner than the least, whatever happens; then when it is time, or when somebody asks for it.
            tokio::time::sleep(self.least.min(pause)).await;
            let _in_time = tokio::time::timeout(pause.saturating_sub(self.least), self.nudge.0.notified()).await;
            let Some(servers) = self.servers.upgrade() else { return };
            let unused = servers.is_unused();
            drop(servers);
            if unused {
                self.nudge.0.notified().await;
            }
        }
    }

    /// Tells the channel, and says after which time it is looked up again.
    fn tell(&mut self, servers: &Servers, found: Result<Found, String>) -> Duration {
        let now = monotonic();
        match found {
            Ok((addresses, valid_until)) => {
                self.backoff.succeeded(now);
                let protocol = self.name.protocol;
                servers.resolved(Ok(addresses.into_iter().map(|socket| protocol.at(socket)).collect()));
                valid_until.saturating_duration_since(Instant::now()).clamp(self.least, self.most)
            }
            Err(text) => {
                self.backoff.failed(now);
                let Name { host, .. } = &self.name;
                let text = format!("{host}: {text}; check the name, and that DNS knows it: getent ahosts {host}");
                tracing::warn!(name = host, text, "a name was not resolved; known addresses are kept");
                servers.resolved(Err(Status::refused(Reason::Unreachable, text)));
                self.backoff.due().since(now).clamp(self.least / 2, self.most)
            }
        }
    }
}

/// Asks for a name's addresses, by its SRV records if those say the port.
async fn look_up(name: &Name) -> Result<Found, String> {
    let resolver = resolver(name.server)?;
    match (name.srv(), name.port) {
        (None, Some(port)) => {
            let (ips, valid_until) = addresses(&resolver, &name.host).await?;
            Ok((ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(), valid_until))
        }
        (srv, _) => services(resolver, &srv.unwrap_or_default()).await,
    }
}

/// As the system is set up now; or a certain DNS server, which alone is asked then.
fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, String> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = match server {
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
            let server = NameServerConfig::new(server.ip(), true, connections.into());
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            let mut builder = TokioResolver::builder_with_config(config, provider);
            *builder.options_mut() = ResolverOpts::default();
            builder.options_mut().use_hosts_file = ResolveHosts::Never;
            builder
        }
        None => TokioResolver::builder(provider).map_err(|error| format!("/etc/resolv.conf can't be read: {error}"))?,
    };
    let options = builder.options_mut();
    // What is looked up again is to be asked for again.
    options.cache_size = 0;
    builder.build().map_err(|error| error.to_string())
}

/// A name's A records, or if there are none its AAAA records: a server with addresses of both kinds would be counted twice.
async fn addresses(resolver: &TokioResolver, host: &str) -> Result<(Vec<IpAddr>, Instant), String> {
    let found = match resolver.ipv4_lookup(host).await {
        Err(error) if error.is_no_records_found() => resolver.ipv6_lookup(host).await,
        found => found,
    };
    let found = found.map_err(|error| told(&error))?;
    let ips = found.answers().iter().filter_map(|record| record.data.ip_addr());
    let ips: Vec<IpAddr> = ips.take(ADDRESSES_MOST).collect();
    if ips.is_empty() { Err(NO_RECORDS.into()) } else { Ok((ips, found.valid_until())) }
}

/// The targets of a name's SRV records: those of the least priority that have addresses. Weights play no part, as what a
/// server can do is found out from its answers.
async fn services(resolver: TokioResolver, srv: &str) -> Result<Found, String> {
    let found = resolver.srv_lookup(srv).await.map_err(|error| told(&error))?;
    let mut targets: Vec<(u16, String, u16)> = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(srv) if srv.port != 0 && !srv.target.is_root() => {
                Some((srv.priority, srv.target.to_string(), srv.port))
            }
            _ => None,
        })
        .collect();
    targets.sort();
    targets.truncate(TARGETS_MOST);
    let mut last = Err(NO_RECORDS.to_owned());
    for same in targets.chunk_by(|one, other| one.0 == other.0) {
        let mut looks = JoinSet::new();
        for (_, target, port) in same {
            let (resolver, target, port) = (resolver.clone(), target.clone(), *port);
            let _handle = looks.spawn(async move { (addresses(&resolver, &target).await, port) });
        }
        let (mut sockets, mut valid_until) = (Vec::new(), found.valid_until());
        while let Some(looked_up) = looks.join_next().await {
            match looked_up {
                Ok((Ok((ips, until)), port)) => {
                    let room = ADDRESSES_MOST - sockets.len();
                    sockets.extend(ips.into_iter().take(room).map(|ip| SocketAddr::new(ip, port)));
                    valid_until = valid_until.min(until);
                }
                Ok((Err(text), _)) => last = Err(text),
                Err(error) => last = Err(error.to_string()),
            }
        }
        if !sockets.is_empty() {
            return Ok((sockets, valid_until));
        }
    }
    last
}

const NO_RECORDS: &str = "the name has no addresses";

/// What came of a look-up, in the words of those who ask what is wrong.
fn told(error: &NetError) -> String {
    if error.is_nx_domain() {
        return "there is no such name (NXDOMAIN)".into();
    }
    if error.is_no_records_found() { NO_RECORDS.into() } else { error.to_string() }
}
