//! Servers of others, for our client: each with what it is and how it is started.

mod envoy;
mod greenwave;
mod grpc_go;
mod grpcio;
mod tonic;

pub(crate) use self::envoy::PLAIN_ROUTE;
pub(crate) use self::greenwave::identity;

use std::net::SocketAddr;

use greenwave_bench::process::Process;
use tokio::sync::oneshot;

use crate::certificates::Certificates;
use crate::tools::{Found, Tool};

/// A server of gRPC that has the test services.
pub(crate) struct Server {
    /// The name of its column: that of our client there.
    pub(crate) name: &'static str,
    /// What it is run by; `Err` if it's part of this program, as its version says.
    pub(crate) tool: Result<Tool, &'static str>,
    /// Whether it is started with certificates.
    pub(crate) is_secured: bool,
    /// What our client tries there.
    pub(crate) features: &'static [&'static str],
    /// Starts it at a free port of this machine.
    pub(crate) start: fn(&Found, Option<&Certificates>) -> anyhow::Result<Running>,
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) socket: SocketAddr,
    _kept: Kept,
}

/// What a server is kept alive by.
enum Kept {
    Process { _process: Process },
    Ours { _server: ::greenwave::ServerHandle },
    Behind { _proxy: Process, _server: ::greenwave::ServerHandle },
    Thread { _thread: Thread },
}

/// A thread that ends when it is told to.
struct Thread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said why.
            let _ = thread.join();
        }
    }
}

/// What our client tries at any server that is called directly.
const FEATURES: &[&str] = &features("deadline");

/// What our client tries at any server, with what asks there how much of a call's deadline is left.
const fn features(deadline: &'static str) -> [&'static str; 21] {
    [
        "empty_unary",
        "large_unary",
        "client_streaming",
        "server_streaming",
        "ping_pong",
        "half_duplex",
        "empty_stream",
        "cancel_after_begin",
        "cancel_after_first_response",
        "timeout_on_sleeping_server",
        deadline,
        "expired",
        "status_code_and_message",
        "special_status_message",
        "custom_metadata",
        "unimplemented_method",
        "unimplemented_service",
        "rpc_soak",
        "channel_soak",
        "many_at_once",
        "in_a_handler",
    ]
}

/// All of them.
pub(crate) const SERVERS: [Server; 8] = [
    grpc_go::PLAIN,
    grpcio::PLAIN,
    tonic::PLAIN,
    greenwave::PLAIN,
    envoy::PLAIN,
    grpc_go::SECURED,
    grpcio::SECURED,
    greenwave::SECURED,
];
