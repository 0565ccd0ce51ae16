//! The clients, each with what it is and how it is run.

mod browser;
mod command_line;
mod grpc_go;
mod h2spec;
mod ours;
mod tonic;

pub(crate) use ours::GRPCIO_PACKAGES;

use crate::at::At;
use crate::tools::{Found, Tool};

/// What came of a feature: nothing to say if it works, and why not if it doesn't.
pub(crate) type Outcome = (String, Result<(), String>);

/// A client of gRPC, or a tool that speaks HTTP/2.
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// What it is run by; `None` if it's part of this program, as its version says.
    pub(crate) tool: Result<Tool, &'static str>,
    /// What it can try; nothing if it says so itself.
    pub(crate) features: &'static [&'static str],
    /// Whether it is to call a server that is secured.
    pub(crate) is_secured: bool,
    /// Tries some features.
    pub(crate) run: fn(&Found, &At, &[&'static str]) -> Vec<Outcome>,
}

/// All of them.
pub(crate) const CLIENTS: [Client; 14] = [
    grpc_go::CLIENT,
    ours::GRPCIO,
    tonic::CLIENT,
    ours::GRPC_JS,
    ours::DUBBO,
    command_line::GRPCURL,
    command_line::GHZ,
    command_line::CURL,
    browser::CHROMIUM,
    h2spec::CLIENT,
    grpc_go::SECURED,
    ours::GRPCIO_SECURED,
    command_line::GRPCURL_SECURED,
    command_line::CURL_SECURED,
];
