//! gRPC for Go: the server that its own project tests clients with.

use std::process::Command;

use anyhow::Context;
use greenwave_bench::process::{Process, SOON};

use super::{FEATURES, Kept, Running, Server};
use crate::certificates::Certificates;
use crate::tools::{Found, Tool};

pub(super) const PLAIN: Server = Server {
    name: "to-grpc-go",
    tool: Ok(Tool::Go {
        name: "grpc-go-interop-server",
        package: "google.golang.org/grpc/interop/server",
        version: "v1.85.0",
        on_path: false,
    }),
    is_secured: false,
    features: FEATURES,
    start,
};

pub(super) const SECURED: Server = Server { name: "to-grpc-go-tls", is_secured: true, ..PLAIN };

/// What it says when it listens, if it is to say so much, and then its address.
const LISTENS: &str = "interop server listening on ";

fn start(found: &Found, secured: Option<&Certificates>) -> anyhow::Result<Running> {
    let mut server = Command::new(&found.path);
    server.arg("--port=0").env("GRPC_GO_LOG_SEVERITY_LEVEL", "info");
    if let Some(Certificates { certificate, key, .. }) = secured {
        server.arg("--use_tls").arg("--tls_cert_file").arg(certificate).arg("--tls_key_file").arg(key);
    }
    let mut process = Process::start(server, &[])?;
    let line = process.wait_for(|line| line.contains(LISTENS), SOON)?;
    let port = line.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.with_context(|| format!("it doesn't say where it listens: {line}"))?;
    Ok(Running { socket: ([127, 0, 0, 1], port).into(), _kept: Kept::Process { _process: process } })
}
