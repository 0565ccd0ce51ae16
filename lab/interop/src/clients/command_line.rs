//! Commands for gRPC and HTTP/2: grpcurl, ghz and curl.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Client, Outcome};
use crate::at::At;
use crate::program::{self, Ended};
use crate::tools::{self, Tool};

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(30);
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
const SERVICE: &str = "grpc.testing.TestService";

pub(crate) const GRPCURL: Client = Client {
    name: "grpcurl",
    tool: Ok(Tool::Go {
        name: "grpcurl",
        package: "github.com/fullstorydev/grpcurl/cmd/grpcurl",
        version: "v1.9.3",
        on_path: true,
    }),
    features: &[
        "empty_unary",
        "large_unary",
        "client_streaming",
        "server_streaming",
        "ping_pong",
        "deadline",
        "expired",
        "status_code_and_message",
        "special_status_message",
        "custom_metadata",
        "reflection",
    ],
    is_secured: false,
    run: |found, at, features| each(features, |feature| grpcurl(&found.path, at, feature)),
};

pub(crate) const GRPCURL_SECURED: Client = Client { name: "grpcurl-tls", is_secured: true, ..GRPCURL };

pub(crate) const GHZ: Client = Client {
    name: "ghz",
    tool: Ok(Tool::Go { name: "ghz", package: "github.com/bojand/ghz/cmd/ghz", version: "v0.93.0", on_path: true }),
    features: &["many_at_once", "many_connections"],
    is_secured: false,
    run: |found, at, features| each(features, |feature| ghz(&found.path, at, feature)),
};

pub(crate) const CURL: Client = Client {
    name: "curl",
    tool: Ok(Tool::System { names: &["curl"], package: "curl (with HTTP/2)" }),
    features: &[
        "empty_unary",
        "deadline",
        "expired",
        "unimplemented_method",
        "server_compressed_unary",
        "server_compressed_streaming",
        "health_check",
    ],
    is_secured: false,
    run: |found, at, features| each(features, |feature| curl(&found.path, at, feature)),
};

/// Over TLS curl has hardly ever sent its message when a method that there isn't is answered at the HEADERS of its call. Were the
/// stream reset then, curl would take that for a failure.
pub(crate) const CURL_SECURED: Client = Client { name: "curl-tls", is_secured: true, ..CURL };

fn each(features: &[&'static str], of: impl Fn(&str) -> Result<(), String>) -> Vec<Outcome> {
    features.iter().map(|feature| ((*feature).to_owned(), of(feature))).collect()
}

fn check(holds: bool, ended: &Ended) -> Result<(), String> {
    if holds { Ok(()) } else { Err(ended.why()) }
}

fn grpcurl(path: &Path, at: &At, feature: &str) -> Result<(), String> {
    let security: Vec<OsString> = match at.authority() {
        Some(authority) => vec!["-cacert".into(), authority.into()],
        None => vec!["-plaintext".into()],
    };
    let run = |method: &str, message: &str, more: &[&str]| {
        let mut grpcurl = Command::new(path);
        grpcurl.args(&security).args(["-import-path", PROTO, "-proto", "testing.proto", "-proto", "witness.proto"]);
        grpcurl.args(["-max-msg-sz", "16777216", "-emit-defaults", "-v"]).args(more).args(["-d", message]);
        program::run(grpcurl.arg(at.to_string()).arg(method), PATIENCE)
    };
    let method = |name: &str| format!("{SERVICE}/{name}");
    let sizes = r#""response_parameters":[{"size":31415},{"size":9}]"#;
    match feature {
        "empty_unary" => {
            let ended = run(&method("EmptyCall"), "{}", &[]);
            check(ended.code == Some(0) && ended.out.contains("{}"), &ended)
        }
        "large_unary" => {
            let message = format!(r#"{{"response_size":314159,"payload":{{"body":"{}"}}}}"#, "AAAA".repeat(25_000));
            let ended = run(&method("UnaryCall"), &message, &[]);
            check(ended.code == Some(0) && ended.out.len() > 314_159, &ended)
        }
        "client_streaming" => {
            let message = r#"{"payload":{"body":"AAAA"}}"#.repeat(4);
            let ended = run(&method("StreamingInputCall"), &message, &[]);
            check(ended.code == Some(0) && ended.out.contains(r#""aggregatedPayloadSize": 12"#), &ended)
        }
        "server_streaming" | "ping_pong" => {
            let (name, times) = if feature == "ping_pong" { ("FullDuplexCall", 3) } else { ("StreamingOutputCall", 1) };
            let ended = run(&method(name), &format!("{{{sizes}}}").repeat(times), &[]);
            let answers = ended.out.matches(r#""payload""#).count();
            check(ended.code == Some(0) && answers == 2 * times, &ended)
        }
        "deadline" => {
            let ended = run("greenwave.interop.Witness/Budget", "{}", &["-max-time", "7"]);
            let micros = ended.out.split(r#""micros": ""#).nth(1).and_then(|rest| rest.split('"').next());
            let micros: Option<u64> = micros.and_then(|number| number.parse().ok());
            check(micros.is_some_and(|micros| (1_000_000..=7_000_000).contains(&micros)), &ended)
        }
        "expired" => {
            let ended = run(&method("EmptyCall"), "{}", &["-max-time", "0.000001"]);
            check(ended.code != Some(0) && format!("{}{}", ended.err, ended.out).contains("xceeded"), &ended)
        }
        "status_code_and_message" => {
            let failing = |name| run(&method(name), r#"{"response_status":{"code":2,"message":"on purpose"}}"#, &[]);
            let is_so = |ended: &Ended| ended.err.contains("Unknown") && ended.err.contains("on purpose");
            let (unary, stream) = (failing("UnaryCall"), failing("FullDuplexCall"));
            check(is_so(&unary), &unary).and_then(|()| check(is_so(&stream), &stream))
        }
        "special_status_message" => {
            let ended = run(&method("UnaryCall"), r#"{"response_status":{"code":2,"message":"\t☺ 😈"}}"#, &[]);
            check(ended.err.contains("☺ 😈"), &ended)
        }
        "custom_metadata" => {
            let said = ["-H", "x-grpc-test-echo-initial: this", "-H", "x-grpc-test-echo-trailing-bin: q6ur"];
            let ended = run(&method("UnaryCall"), r#"{"response_size":1}"#, &said);
            // What was sent is shown before what came.
            let came = ended.out.split_once("Response headers received").map_or("", |(_, came)| came);
            let is_there = |line: &str| came.contains(line);
            let echoed = is_there("x-grpc-test-echo-initial: this") && is_there("x-grpc-test-echo-trailing-bin: q6ur");
            if echoed { Ok(()) } else { Err("what was sent doesn't come back".to_owned()) }
        }
        "reflection" => {
            let mut list = Command::new(path);
            let ended = program::run(list.args(&security).args([&at.to_string(), "list"]), PATIENCE);
            check(ended.out.contains(SERVICE), &ended)?;
            let mut describe = Command::new(path);
            describe.args(&security).args([&at.to_string(), "describe", SERVICE]);
            let ended = program::run(&mut describe, PATIENCE);
            check(ended.out.contains("rpc UnaryCall"), &ended)
        }
        other => Err(format!("grpcurl has no way to try {other}")),
    }
}

fn ghz(path: &Path, at: &At, feature: &str) -> Result<(), String> {
    let connections = if feature == "many_connections" { "50" } else { "1" };
    let mut ghz = Command::new(path);
    ghz.args(["--insecure", "--import-paths", PROTO, "--proto", &format!("{PROTO}/testing.proto")]);
    ghz.args(["--call", &format!("{SERVICE}/UnaryCall"), "-d", r#"{"response_size":100}"#, "-n", "5000"]);
    ghz.args(["-c", "500", "--connections", connections, "-O", "json", &at.to_string()]);
    let ended = program::run(&mut ghz, PATIENCE);
    let said: Option<serde_json::Value> = serde_json::from_str(&ended.out).ok();
    let codes = said.as_ref().and_then(|said| said.get("statusCodeDistribution")).map(ToString::to_string);
    match codes.as_deref() {
        Some(r#"{"OK":5000}"#) => Ok(()),
        Some(codes) => Err(format!("5000 calls ended with {codes}")),
        None => Err(ended.why()),
    }
}

fn curl(path: &Path, at: &At, feature: &str) -> Result<(), String> {
    let call = |method: &str, message: &[u8], headers: &[&str]| -> Result<(Ended, Vec<u8>), String> {
        let (sent, came) = (tools::folder().join("curl.sent"), tools::folder().join("curl.came"));
        let length = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
        fs::create_dir_all(tools::folder()).map_err(|error| error.to_string())?;
        fs::write(&sent, [&[0], &length[..], message].concat()).map_err(|error| error.to_string())?;
        fs::write(&came, []).map_err(|error| error.to_string())?;
        let mut curl = Command::new(path);
        match at.authority() {
            // What is spoken is agreed on in the handshake, by ALPN.
            Some(authority) => curl.arg("--http2").arg("--cacert").arg(authority),
            None => curl.arg("--http2-prior-knowledge"),
        };
        curl.args(["--silent", "--show-error", "--dump-header", "-", "--max-time", "10"]);
        curl.args(["-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary"]);
        curl.arg(format!("@{}", sent.display())).arg("-o").arg(&came);
        curl.args(headers.iter().flat_map(|header| ["-H", header]));
        let ended = program::run(curl.arg(format!("{}://{at}/{method}", at.scheme())), PATIENCE);
        let body = fs::read(&came).map_err(|error| error.to_string())?;
        Ok((ended, body))
    };
    let ends_with = |ended: &Ended, code: u8| ended.out.contains(&format!("grpc-status: {code}\r\n"));
    let empty = "grpc.testing.TestService/EmptyCall";
    match feature {
        "empty_unary" => {
            let (ended, body) = call(empty, &[], &[])?;
            check(ends_with(&ended, 0) && body == [0; 5], &ended)
        }
        "deadline" => {
            let (ended, body) = call("greenwave.interop.Witness/Budget", &[], &["grpc-timeout: 7S"])?;
            // Field 1 is true: there is a limit.
            check(ends_with(&ended, 0) && body.get(5..7) == Some(&[8, 1]), &ended)
        }
        "expired" => {
            let (ended, _) = call(empty, &[], &["grpc-timeout: 0n"])?;
            check(ends_with(&ended, 4), &ended)
        }
        "unimplemented_method" => {
            let (ended, _) = call("grpc.testing.TestService/UnimplementedCall", &[], &[])?;
            check(ends_with(&ended, 12), &ended)
        }
        "server_compressed_unary" | "server_compressed_streaming" => {
            // A thousand bytes, compressed.
            let (method, message): (&str, &[u8]) = match feature {
                "server_compressed_unary" => ("UnaryCall", &[0x10, 0xe8, 0x07, 0x32, 2, 8, 1]),
                _ => ("StreamingOutputCall", &[0x12, 7, 8, 0xe8, 0x07, 0x1a, 2, 8, 1]),
            };
            let accepts = ["grpc-accept-encoding: gzip"];
            let (ended, body) = call(&format!("{SERVICE}/{method}"), message, &accepts)?;
            let is_so = ended.out.contains("grpc-encoding: gzip") && body.first() == Some(&1) && body.len() < 500;
            if ends_with(&ended, 0) && !is_so {
                Err("the answer is not compressed".into())
            } else {
                check(is_so, &ended)
            }
        }
        "health_check" => {
            let (ended, body) = call("grpc.health.v1.Health/Check", &[], &[])?;
            check(ends_with(&ended, 0) && body.get(5..) == Some(&[8, 1]), &ended)
        }
        other => Err(format!("curl has no way to try {other}")),
    }
}
