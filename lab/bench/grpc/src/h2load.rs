//! h2load, a load generator of others, where it is on the path: what it finds beside what ours does.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use greenwave_bench::result::bench_folder;

use crate::case::Case;

/// Whether it is there.
pub(crate) fn is_there() -> bool {
    let said = Command::new("h2load").arg("--version").stdin(Stdio::null()).output();
    said.is_ok_and(|output| output.status.success())
}

/// Calls a second; `None` if it isn't there. It runs on the core of the calling thread.
pub(crate) fn rate(server: SocketAddr, path: &str, case: Case, time: Duration) -> anyhow::Result<Option<f64>> {
    let message = bench_folder().join("h2load.message");
    let length = u32::try_from(case.bytes)?.to_be_bytes();
    fs::create_dir_all(bench_folder())?;
    fs::write(&message, [&[0], &length[..], &vec![7; case.bytes]].concat())?;
    let mut h2load = Command::new("h2load");
    h2load.args(["-t", "1", "-c", &case.connections.to_string()]);
    h2load.args(["-m", &case.in_flight.div_ceil(case.connections).to_string()]);
    h2load.args(["--duration", &time.as_secs_f64().ceil().to_string(), "--data"]).arg(&message);
    h2load.args(["-H", "content-type: application/grpc", "-H", "te: trailers", &format!("http://{server}{path}")]);
    let output = match h2load.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("can't run h2load"),
    };
    ensure!(output.status.success(), "h2load ended with {}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    found(&said).map(Some).with_context(|| format!("h2load says no rate: {said}"))
}

/// `finished in 1.00s, 12345.00 req/s, 1.5MB/s`.
fn found(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("finished in"))?;
    line.split(", ").find_map(|part| part.strip_suffix(" req/s"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_it_says() {
        let said = "starting benchmark...\n\nfinished in 1.00s, 187654.50 req/s, 21.5MB/s\nrequests: 1 total\n";
        assert_eq!(found(said), Some(187_654.5));
        assert_eq!(found(""), None);
    }
}
