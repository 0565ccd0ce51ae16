//! `cargo xtask interop`: what works between Greenwave and the gRPC of others.

use anyhow::Result;

use crate::step::{Steps, asks_for_help, cargo, say};

const HELP: &str = "\
Runs clients of gRPC against a Greenwave server, and Greenwave's client against servers of gRPC, without TLS and with it,
feature by feature; prints tables and writes target/bench/interop.json. Both are found on the path, or installed into
target/interop from their public registries; what can't be had is told with what to do about it. It fails when something fails that isn't known to.

Usage: cargo xtask interop [run] [--client NAME] [--feature NAME] [--offline]
       cargo xtask interop document
       cargo xtask interop serve [--listen ADDRESS]

  document           writes the tables of docs/interop.md anew, of docs/results/interop.json
  serve              serves the test services until standard input ends

  --client NAME      grpc-go, grpcio, tonic, grpc-js, dubbo, grpcurl, ghz, curl, chromium, h2spec, grpc-go-tls,
                     grpcio-tls, grpcurl-tls, curl-tls; our client: to-grpc-go, to-grpcio, to-tonic, to-grpc-go-tls,
                     to-grpcio-tls, and at our server greenwave, greenwave-tls, through-envoy; repeatable
  --feature NAME     this feature alone; repeatable
  --offline          installs nothing";

/// What the program can do; the first if nothing is said.
const COMMANDS: [&str; 3] = ["run", "document", "serve"];

pub(crate) fn run(words: &[String]) -> Result<()> {
    const PROGRAM: [&str; 4] = ["--package", "greenwave-interop", "--bin", "greenwave-interop"];
    if asks_for_help(words) {
        return say(HELP);
    }
    let (command, rest) = match words.split_first() {
        Some((first, rest)) if COMMANDS.contains(&first.as_str()) => (first.as_str(), rest),
        _ => (COMMANDS[0], words),
    };
    let mut steps = Steps::new(2);
    steps.run("build", cargo(["build"]).args(PROGRAM))?;
    steps.run("interop", cargo(["run", "--quiet"]).args(PROGRAM).args(["--", command]).args(rest))
}
