//! Metrics, as Prometheus reads them.
//!
//! The format is a few lines of text, and what is served is one page, so there is no library for it here. Whoever
//! connects has a second to ask and a second to read, and may say 4 KiB; a few are served at a time.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::error::AgentError;
use super::status::{AgentState, DeviceState};

/// How many are served at a time.
const AT_A_TIME: usize = 4;

/// How long somebody may take to ask, and again to read the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serves metrics until the process ends. `state` is called for each reader.
///
/// # Errors
/// If the address can't be had.
pub(super) fn serve(
    address: SocketAddr,
    state: impl Fn() -> AgentState + Send + Sync + 'static,
) -> Result<SocketAddr, AgentError> {
    let refused = |cause| AgentError::Metrics { address, cause };
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let shared = Arc::new((listener, state));
    for _ in 0..AT_A_TIME {
        let shared = Arc::clone(&shared);
        let serving = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            loop {
                match shared.0.accept() {
                    Ok((stream, _)) => drop(answer(&stream, &shared.1)),
                    // No descriptor is left, most likely: others need time to give theirs back.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        });
        serving.map_err(refused)?;
    }
    Ok(bound)
}

fn answer(mut stream: &TcpStream, state: impl Fn() -> AgentState) -> io::Result<()> {
    let page = |status: &str, text: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        )
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = match request_line(stream)?.as_deref() {
        Some("GET /metrics") => page("200 OK", &text(&state())),
        Some(line) if line.starts_with("GET ") => page("404 Not Found", "see /metrics\n"),
        Some(_) => page("405 Method Not Allowed", "GET /metrics\n"),
        None => page("400 Bad Request", "not understood\n"),
    };
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(Shutdown::Both)
}

/// Method and path, once the whole head has come; nothing if it isn't one.
fn request_line(mut stream: &TcpStream) -> io::Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 512];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > 4096 {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    Ok(match (words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1")) => {
            Some(format!("{method} {}", target.split('?').next().unwrap_or_default()))
        }
        _ => None,
    })
}

/// The page.
fn text(state: &AgentState) -> String {
    let mut page = String::new();
    let mut gauge = |name: &str, help: &str, value: u64| {
        let _to_a_string = writeln!(
            page,
            "# HELP greenwave_agent_{name} {help}\n# TYPE greenwave_agent_{name} gauge\ngreenwave_agent_{name} {value}"
        );
    };
    gauge("flows", "Flows that are known.", state.flows);
    gauge("large_flows", "Flows whose next packet is large.", state.large_flows);
    gauge("flows_room", "Flows that can be known.", state.room.into());
    gauge("rate_bits_per_second", "What a flow may send for ever and still be small.", state.rate);
    gauge("burst_bytes", "What a flow may send at once and still be small.", state.burst);
    type Value = fn(&DeviceState) -> u64;
    let by_band: [(&str, &str, [Value; 2]); 2] = [
        ("packets_total", "Packets that were tagged.", [|it| it.small_packets, |it| it.large_packets]),
        ("bytes_total", "Their bytes on the wire.", [|it| it.small_bytes, |it| it.large_bytes]),
    ];
    for (name, help, values) in by_band {
        let _to_a_string =
            writeln!(page, "# HELP greenwave_agent_{name} {help}\n# TYPE greenwave_agent_{name} counter");
        for device in &state.devices {
            for (band, value) in ["small", "large"].iter().zip(values) {
                let labels = format!("{},band=\"{band}\"", labels(device));
                let _to_a_string = writeln!(page, "greenwave_agent_{name}{{{labels}}} {}", value(device));
            }
        }
    }
    let untouched: [(&str, Value); 3] =
        [("not_ip", |it| it.not_ip), ("malformed", |it| it.malformed), ("no_room", |it| it.no_room)];
    page += "# HELP greenwave_agent_untouched_packets_total Packets that passed as they came.\n\
             # TYPE greenwave_agent_untouched_packets_total counter\n";
    for device in &state.devices {
        for (why, value) in untouched {
            let labels = format!("{},why=\"{why}\"", labels(device));
            let _to_a_string = writeln!(page, "greenwave_agent_untouched_packets_total{{{labels}}} {}", value(device));
        }
    }
    page += "# HELP greenwave_agent_attached Whether the classifier is at work.\n\
             # TYPE greenwave_agent_attached gauge\n";
    for device in &state.devices {
        let _to_a_string =
            writeln!(page, "greenwave_agent_attached{{{}}} {}", labels(device), u8::from(device.attached));
    }
    page
}

fn labels(device: &DeviceState) -> String {
    let name = device.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("device=\"{name}\",role=\"{}\"", device.role.word())
}
