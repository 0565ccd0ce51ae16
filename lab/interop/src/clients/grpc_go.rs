//! gRPC for Go: the client that its own project tests servers with.

use std::process::Command;
use std::time::Duration;

use super::{Client, Outcome};
use crate::at::At;
use crate::program;
use crate::tools::{Found, Tool};

/// How long a case may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CLIENT: Client = Client {
    name: "grpc-go",
    tool: Ok(Tool::Go {
        name: "grpc-go-interop",
        package: "google.golang.org/grpc/interop/client",
        version: "v1.85.0",
        on_path: false,
    }),
    features: &[
        "empty_unary",
        "large_unary",
        "client_streaming",
        "server_streaming",
        "ping_pong",
        "empty_stream",
        "cancel_after_begin",
        "cancel_after_first_response",
        "timeout_on_sleeping_server",
        "status_code_and_message",
        "special_status_message",
        "custom_metadata",
        "unimplemented_method",
        "unimplemented_service",
        "rpc_soak",
        "channel_soak",
    ],
    is_secured: false,
    run,
};

pub(crate) const SECURED: Client = Client { name: "grpc-go-tls", is_secured: true, ..CLIENT };

fn run(found: &Found, at: &At, features: &[&'static str]) -> Vec<Outcome> {
    let try_one = |feature: &&str| {
        let mut client = Command::new(&found.path);
        client.args([&format!("--use_tls={}", at.authority().is_some()), &format!("--server_host={}", at.socket.ip())]);
        if let Some(authority) = at.authority() {
            client.arg("--use_test_ca").arg("--ca_file").arg(authority);
        }
        client.args([&format!("--server_port={}", at.socket.port()), &format!("--test_case={feature}")]);
        let iterations = if *feature == "rpc_soak" { 1000 } else { 100 };
        client.args([&format!("--soak_iterations={iterations}"), "--soak_min_time_ms_between_rpcs=0"]);
        // Small payloads: what is tried is many calls.
        client.args(["--soak_request_size=314", "--soak_response_size=271"]);
        let ended = program::run(&mut client, PATIENCE);
        let outcome = if ended.code == Some(0) { Ok(()) } else { Err(ended.why()) };
        ((*feature).to_owned(), outcome)
    };
    features.iter().map(try_one).collect()
}
