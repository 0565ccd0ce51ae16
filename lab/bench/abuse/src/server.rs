//! Our server: one head, pinned to its core, that runs its handlers in place.

use std::time::Duration;

use greenwave::{Address, Code, Limits, Router, Server, ServerConfig, ShareConfig, Status};
use greenwave_bench::process;

use crate::bound;
use crate::case::Case;
use crate::certificates::Certificates;
use crate::report;
use crate::work::{self, Job, KERNELS, Kernel, LARGE, Progress};

/// How long a connection may take to introduce itself: less than by default, so that what becomes of those that don't is
/// seen within what is measured.
const HANDSHAKE: Duration = Duration::from_secs(1);

/// Serves until standard input ends, and answers reports.
pub(crate) fn serve(case: Case, core: usize) -> anyhow::Result<()> {
    work::prepare();
    let certificates = case.is_over_tls().then(Certificates::make).transpose()?;
    let config = ServerConfig::default()
        .name("abused")
        .listen(["tcp://127.0.0.1:0".parse()?])
        .cores(vec![core])
        .limits(Limits::default().handshake(HANDSHAKE))
        .bounds(bound::bounds())
        .tls(certificates.as_ref().map(Certificates::server).transpose()?);
    let server = Server::start(with_shares(config), router())?;
    match (server.addresses(), &certificates) {
        ([Address::Tcp(socket)], Some(made)) => process::say_listening_with(socket, made.authority()),
        ([Address::Tcp(socket)], None) => process::say_listening(socket),
        (others, _) => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
    }
    process::answer_all(|_| {
        let counters = server.counters();
        let held = ("most_held", server.most_held() as u64);
        Ok(Some(report::line(counters.entries().chain([held]))))
    })?;
    std::process::exit(0)
}

/// A tenant is who comes from one address: 127.0.0.1 are the clients that behave, 127.0.0.2 and those above are the attacker,
/// each of them with as large a share as those.
fn with_shares(config: ServerConfig) -> ServerConfig {
    config.shares(ShareConfig::new())
}

fn router() -> Router {
    KERNELS.into_iter().fold(Router::new(), |router, kernel| {
        router.method(&kernel.method(), move |context, request, reply| {
            let job = Job::new(kernel, request);
            let mut job = job.ok_or_else(|| Status::new(Code::InvalidArgument, "no order"))?;
            let found = loop {
                match job.step() {
                    Progress::Goes => context.checkpoint()?,
                    Progress::Done(found) => break found,
                }
            };
            reply.extend_from_slice(&found.to_le_bytes());
            if kernel == Kernel::Large {
                reply.resize(LARGE, 7);
            }
            Ok(())
        })
    })
}
