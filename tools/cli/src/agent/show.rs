//! What agents see, in lines for people.

use greenwave_host::agent::{DeviceState, FlowState, Status};

/// Agents, devices and flows, a line for each.
pub(super) fn lines(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for agent in &status.agents {
        lines.push(format!(
            "process {}: {} flows known of {} at most, {} of them large; small up to {} Mbit/s and {} bytes at once",
            agent.pid,
            agent.flows,
            agent.room,
            agent.large_flows,
            agent.rate as f64 / 1e6,
            agent.burst
        ));
        lines.extend(agent.devices.iter().map(device));
    }
    if !status.flows.is_empty() {
        lines.push(format!(
            "{:<15} {:<45} {:<6} {:>12} {:>12} {:>9} {:>9}",
            "device", "flow", "band", "small bytes", "large bytes", "debt", "idle ms"
        ));
        lines.extend(status.flows.iter().map(flow));
    }
    lines
}

fn device(device: &DeviceState) -> String {
    let untouched = device.not_ip + device.malformed + device.no_room;
    let what = match &device.hook {
        Some(hook) => format!(
            "{} by {hook}; small {} packets, {} bytes; large {} packets, {} bytes; untouched {untouched} packets",
            role(device),
            device.small_packets,
            device.small_bytes,
            device.large_packets,
            device.large_bytes
        ),
        None => format!("{}; not there", role(device)),
    };
    format!("  {}: {what}", device.name)
}

fn role(device: &DeviceState) -> &'static str {
    use greenwave_host::agent::Role;
    match device.role {
        Role::Guest => "guest",
        Role::Uplink => "uplink",
        Role::Trusted => "trusted",
    }
}

/// A flow's ends, and what else tells it apart.
pub(crate) fn name(flow: &FlowState) -> String {
    let end = |address: std::net::IpAddr, port: u16| match (port, address) {
        (0, address) => address.to_string(),
        (port, address) => std::net::SocketAddr::new(address, port).to_string(),
    };
    let mut what = format!("{} -> {}", end(flow.source, flow.source_port), end(flow.target, flow.target_port));
    if flow.protocol != 0 {
        what += &match flow.protocol {
            6 => " tcp".to_owned(),
            17 => " udp".to_owned(),
            number => format!(" protocol {number}"),
        };
    }
    if flow.vlan != 0 {
        what += &format!(" vlan {}", flow.vlan);
    }
    what
}

fn flow(flow: &FlowState) -> String {
    let what = name(flow);
    format!(
        "{:<15} {what:<45} {:<6} {:>12} {:>12} {:>9} {:>9}",
        flow.device,
        if flow.large { "large" } else { "small" },
        flow.small_bytes,
        flow.large_bytes,
        flow.debt,
        flow.idle().as_millis()
    )
}
