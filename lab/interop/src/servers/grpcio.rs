//! gRPC's core under Python, by a small program of ours.

use std::process::Command;

use anyhow::Context;
use greenwave_bench::process::{Ending, Process, SOON};

use super::{FEATURES, Kept, Running, Server};
use crate::certificates::Certificates;
use crate::clients::GRPCIO_PACKAGES;
use crate::tools::{self, Found, Tool};

pub(super) const PLAIN: Server = Server {
    name: "to-grpcio",
    tool: Ok(Tool::Python { packages: GRPCIO_PACKAGES }),
    is_secured: false,
    features: FEATURES,
    start,
};

pub(super) const SECURED: Server = Server { name: "to-grpcio-tls", is_secured: true, ..PLAIN };

const LISTENS: &str = "listens on ";

fn start(found: &Found, secured: Option<&Certificates>) -> anyhow::Result<Running> {
    let mut server = Command::new(&found.path);
    server.arg(tools::clients().join("python").join("server.py"));
    server.env("PROTO", concat!(env!("CARGO_MANIFEST_DIR"), "/proto"));
    if let Some(Certificates { certificate, key, .. }) = secured {
        server.arg(certificate).arg(key);
    }
    let mut process = Process::start(server, &[])?.ended_by(Ending::Input);
    let line = process.wait_for(|line| line.starts_with(LISTENS), SOON)?;
    let socket = line[LISTENS.len()..].parse().with_context(|| format!("it doesn't say where it listens: {line}"))?;
    Ok(Running { socket, _kept: Kept::Process { _process: process } })
}
