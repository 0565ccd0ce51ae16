//! Libraries of other languages, driven by small programs of ours in `clients`.
//!
//! Such a program is given the server's address and the features that it is to try, and prints a line for each:
//! `ok FEATURE`, or `fails FEATURE: WHY`. The variable `AUTHORITY` names the PEM file of whom it is to believe, if the server
//! is secured.

use std::process::Command;
use std::time::Duration;

use super::{Client, Outcome};
use crate::at::At;
use crate::program;
use crate::tools::{self, Tool};

/// How long all features of a client may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the libraries for gRPC try. They don't tell whether a message came compressed, so answers that should are
/// left to others.
const FEATURES: &[&str] = &[
    "empty_unary",
    "large_unary",
    "cacheable_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "half_duplex",
    "empty_stream",
    "cancel_after_begin",
    "cancel_after_first_response",
    "timeout_on_sleeping_server",
    "deadline",
    "expired",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "client_compressed_unary",
    "client_compressed_streaming",
    "health_check",
    "health_watch",
    "many_at_once",
    "many_connections",
];

/// What clients and servers by grpcio are made of.
pub(crate) const GRPCIO_PACKAGES: &[&str] = &["grpcio==1.76.0", "grpcio-tools==1.76.0"];

pub(crate) const GRPCIO: Client = Client {
    name: "grpcio",
    tool: Ok(Tool::Python { packages: GRPCIO_PACKAGES }),
    features: FEATURES,
    is_secured: false,
    run: |found, at, features| {
        let mut client = Command::new(&found.path);
        client.arg(tools::clients().join("python").join("client.py"));
        run(&mut client, at, features)
    },
};

/// What is tried over TLS.
const FEATURES_SECURED: &[&str] = &[
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
    "deadline",
    "expired",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "health_check",
    "many_at_once",
    "many_connections",
];

pub(crate) const GRPCIO_SECURED: Client =
    Client { name: "grpcio-tls", features: FEATURES_SECURED, is_secured: true, ..GRPCIO };

pub(crate) const GRPC_JS: Client = Client {
    name: "grpc-js",
    tool: Ok(Tool::Node { packages: &["@grpc/grpc-js@1.14.7", "@grpc/proto-loader@0.8.1"] }),
    features: FEATURES,
    is_secured: false,
    run: |found, at, features| {
        let mut client = Command::new(&found.path);
        client.arg(tools::clients().join("node").join("client.cjs"));
        client.env("NODE_PATH", tools::folder().join("node").join("node_modules"));
        run(&mut client, at, features)
    },
};

/// The version of Dubbo, which its `pom.xml` names too.
const DUBBO_VERSION: &str = "3.3.6";

pub(crate) const DUBBO: Client = Client {
    name: "dubbo",
    tool: Ok(Tool::Maven { name: "dubbo", version: DUBBO_VERSION }),
    features: &[
        "empty_unary",
        "large_unary",
        "client_streaming",
        "server_streaming",
        "ping_pong",
        "deadline",
        "expired",
        "special_status_message",
        "unimplemented_service",
        "many_at_once",
    ],
    is_secured: false,
    run: |found, at, features| {
        let built = tools::folder().join(format!("dubbo-{DUBBO_VERSION}"));
        let mut client = Command::new(&found.path);
        client.arg("-cp").arg(format!("{0}/classes:{0}/lib/*", built.display())).arg("Client");
        run(&mut client, at, features)
    },
};

/// Has such a program try some features.
pub(super) fn run(client: &mut Command, at: &At, features: &[&'static str]) -> Vec<Outcome> {
    client.arg(at.to_string()).args(features);
    client.envs(at.authority().map(|authority| ("AUTHORITY", authority)));
    client.env("PROTO", concat!(env!("CARGO_MANIFEST_DIR"), "/proto"));
    let ended = program::run(client, PATIENCE);
    let said: Vec<Outcome> = ended.out.lines().filter_map(outcome).collect();
    let of = |feature: &&str| {
        let told = said.iter().find(|(name, _)| name == feature).map(|(_, outcome)| outcome.clone());
        let outcome = told.unwrap_or_else(|| Err(format!("the client said nothing of it ({})", ended.why())));
        ((*feature).to_owned(), outcome)
    };
    features.iter().map(of).collect()
}

/// What a line says, if it's about a feature.
fn outcome(line: &str) -> Option<Outcome> {
    if let Some(feature) = line.strip_prefix("ok ") {
        return Some((feature.trim().to_owned(), Ok(())));
    }
    let (feature, why) = line.strip_prefix("fails ")?.split_once(": ")?;
    Some((feature.to_owned(), Err(program::shortened(why))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_came_of_a_feature() {
        assert_eq!(outcome("ok empty_unary"), Some(("empty_unary".to_owned(), Ok(()))));
        assert_eq!(outcome("fails a: b: c"), Some(("a".to_owned(), Err("b: c".to_owned()))));
        assert_eq!(outcome("a warning"), None);
    }
}
