//! Greenwave: clusters in place on the server's core, a call queue or channels on the client's.
//!
//! Every call has a context with a deadline of its own, its budget travels with it, and a receipt comes back: that is
//! part of what is measured. Peers have no deadlines but those that they set by themselves.

mod calls;
mod certificates;
mod clients;
mod idle;
mod skew;
mod typed;

use std::sync::LazyLock;
use std::time::Duration;

use greenwave::tls::{Pem, TlsClient};
use greenwave::{Address, ChannelConfig, Choice, Limits, MethodId, Router, Server, ServerConfig, StealRule, Wait};
use greenwave_verbs::QueueConfig;

use certificates::Certificates;
use clients::Bytes;
use typed::Typed;

use crate::case::{Case, Kind};
use crate::harness::Figures;
use crate::run::Run;
use crate::work;
use greenwave_bench::pin::Cores;
use greenwave_bench::process::{self, ServerProcess};

const ECHO: &str = "peers.Echo/Echo";
const WORK: &str = "peers.Echo/Work";
const WHERE: &str = "peers.Echo/Where";
const DEADLINE: Duration = Duration::from_secs(10);

/// The settings of a server, and the ways of calling it, that are systems of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Plain,
    /// Clusters take calls from others that have more than they can serve.
    Stealing,
    /// Connections are encrypted.
    Tls,
    /// A channel calls, where it's a call queue otherwise.
    Channel,
    /// A channel too, and client and server are generated.
    Typed,
}

impl Flavour {
    /// Whether a channel calls in cases that are about something else.
    fn has_channel(self) -> bool {
        matches!(self, Self::Channel | Self::Typed)
    }

    /// What it changes at the server.
    fn server(self, config: ServerConfig, certificates: Option<&Certificates>) -> anyhow::Result<ServerConfig> {
        let tls = certificates.map(Certificates::server).transpose()?;
        let steal = (self == Self::Stealing).then(StealRule::default);
        Ok(config.tls(tls).steal(steal))
    }

    /// What it changes at the client, which knows the authority of the server's certificate.
    fn client(self, config: ChannelConfig, authority: Option<&str>) -> anyhow::Result<ChannelConfig> {
        let tls =
            authority.map(|authority| TlsClient::new(Pem::Bytes(authority.as_bytes()), None, None)).transpose()?;
        Ok(config.tls(tls))
    }
}

/// The variants that make sense in a case: kernel interfaces that there are here, and for long messages sizes of chunks.
pub(crate) fn variants(case: Case) -> &'static [&'static str] {
    static URING: LazyLock<bool> = LazyLock::new(|| {
        greenwave_verbs::open(&QueueConfig { backend: Choice::Uring, ..QueueConfig::default() }).is_ok()
    });
    let (uring, all): (usize, &[&str]) = match case.kind {
        Kind::Unary if case.bytes > Limits::new().announced(true).chunk_bytes as usize => {
            (2, &["uring", "uring-128KB-chunks", "epoll", "epoll-128KB-chunks"])
        }
        Kind::Unary | Kind::Blocking | Kind::Batch | Kind::Connections | Kind::Skew => (1, &["uring", "epoll"]),
        Kind::FabricShm | Kind::Client { .. } | Kind::Idle => (0, &["auto"]),
    };
    if *URING { all } else { &all[uring..] }
}

/// The variants that make sense where a channel calls. The kernel's interface is that of the server: a channel's queue moves
/// between threads, which io_uring's can't. Futures have the dispatcher, which has the client's core to share, and may block
/// at once.
pub(crate) fn channel_variants(case: Case) -> &'static [&'static str] {
    match (case.kind, variants(case)) {
        (Kind::Unary, [first, ..]) if case.in_flight > 1 => match backend(first) {
            Choice::Uring => &["uring", "uring-block", "epoll", "epoll-block"],
            _ => &["epoll", "epoll-block"],
        },
        (_, variants) => variants,
    }
}

pub(crate) fn serve(flavour: Flavour, variant: &str, case: Case, cores: Cores, rounds: u64) -> anyhow::Result<()> {
    let skewed = case.kind == Kind::Skew;
    let listen = match case.kind {
        Kind::FabricShm => format!("fabric+shm://greenwave-peers-{}", std::process::id()),
        _ => "tcp://127.0.0.1:0".to_owned(),
    };
    let config = ServerConfig::default()
        .name("echo")
        .listen([listen.parse()?])
        .clusters(if skewed { 2 } else { 1 })
        .cores(if skewed { vec![cores.server, cores.client] } else { vec![cores.server] })
        .wait(match case.kind {
            Kind::Blocking => Wait::Block,
            Kind::Idle | Kind::Skew => Wait::default(),
            _ => Wait::Spin,
        })
        .backend(backend(variant))
        .limits(limits(variant));
    let certificates = (flavour == Flavour::Tls).then(Certificates::make).transpose()?;
    let server = Server::start(flavour.server(config, certificates.as_ref())?, router(rounds))?;
    match (server.addresses(), &certificates) {
        ([Address::Tcp(socket)], Some(certificates)) => process::say_listening_with(socket, certificates.authority()),
        ([Address::Tcp(socket)], None) => process::say_listening(socket),
        ([other], _) => process::say_listening(other),
        (several, _) => anyhow::bail!("asked to listen on one address, the server listens on {several:?}"),
    }
    server.join();
    Ok(())
}

fn router(rounds: u64) -> Router {
    Router::new()
        .method(ECHO, |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method(WORK, move |_, request, reply| {
            reply.extend_from_slice(request);
            work::work(rounds);
            Ok(())
        })
        .method(WHERE, |_, _, reply| {
            reply.extend_from_slice(std::thread::current().name().unwrap_or_default().as_bytes());
            Ok(())
        })
        .merge(typed::router())
}

/// Makes the calls of a case.
pub(crate) fn drive(flavour: Flavour, server: &ServerProcess, run: &Run) -> anyhow::Result<Figures> {
    let address = match run.case.kind {
        Kind::FabricShm => server.address.parse()?,
        _ => Address::Tcp(server.socket()?),
    };
    let config = ChannelConfig::default()
        .wait(match run.case.kind {
            Kind::Blocking | Kind::Skew => Wait::Block,
            Kind::Client { .. } => Wait::default(),
            Kind::Unary if flavour.has_channel() && run.case.in_flight > 1 => match run.variant.ends_with("block") {
                true => Wait::Block,
                false => Wait::default(),
            },
            _ => Wait::Spin,
        })
        .backend(if flavour.has_channel() { Choice::Auto } else { backend(run.variant) })
        .limits(match run.case.kind {
            Kind::Connections => limits(run.variant).credits(1024),
            _ => limits(run.variant),
        });
    let config = flavour.client(config, server.authority.as_deref())?;
    match flavour {
        Flavour::Channel => return by_channel::<Bytes>(&address, &config, run),
        Flavour::Typed => return by_channel::<Typed>(&address, &config, run),
        Flavour::Plain | Flavour::Stealing | Flavour::Tls => {}
    }
    match run.case.kind {
        Kind::Unary | Kind::Blocking | Kind::FabricShm => calls::unary(&address, &config, run),
        Kind::Batch => calls::batches(&address, &config, run),
        Kind::Connections => calls::connections(&address, &config, run),
        Kind::Skew => skew::drive(&address, &config, run),
        Kind::Client { .. } => by_channel::<Bytes>(&address, &config, run),
        Kind::Idle => idle::drive(&address, &config, server, run),
    }
}

/// The same over channels: waiting where one call is in flight at a time, or each has a thread, and by futures elsewhere.
fn by_channel<E: clients::Echo>(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    match run.case.kind {
        Kind::Client { shared, mode } => clients::threads::<E>(address, config, shared, mode, run),
        _ if run.case.in_flight == 1 => clients::one::<E>(address, config, run),
        _ => clients::tasks::<E>(address, config, run),
    }
}

fn echo() -> MethodId {
    MethodId::of(ECHO)
}

fn backend(variant: &str) -> Choice {
    match variant {
        "auto" => Choice::Auto,
        variant if variant.starts_with("epoll") => Choice::Epoll,
        _ => Choice::Uring,
    }
}

/// How long a connection may take until it is greeted: a thousand of them may share their cores with others.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// With larger chunks fewer of them, so that both take as much memory.
fn limits(variant: &str) -> Limits {
    let limits = Limits::default().handshake(HANDSHAKE);
    match variant.ends_with("128KB-chunks") {
        true => limits.chunk_bytes(128 << 10).credits(64),
        false => limits,
    }
}
