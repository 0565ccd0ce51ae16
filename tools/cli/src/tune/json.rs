//! The recommendation as one JSON object, for machines. Times are in microseconds, sizes in bytes; what has no end or no
//! limit is null.

use std::time::Duration;

use greenwave_policy::replication::{Aim, Bandwidth, Cpu, Environment, Limit, Load, Prediction, Setting};
use greenwave_services::proto::replicated::InspectReply;
use greenwave_services::replicated::tuning::{Sizing, sizing_from_proto};
use serde_json::{Value, json};

use super::advice::{Advice, Source};
use super::apply::Applied;

/// All of it.
pub(super) fn of(advice: &Advice, applied: Option<&Applied>) -> Value {
    let (source, seen) = match &advice.source {
        Source::Told((preset, _)) => (json!({ "told": preset }), Value::Null),
        Source::Measured(measured) => (
            json!({ "measured": measured.leader }),
            json!({ "ops_per_s": measured.ops_per_s, "in_system": measured.in_system }),
        ),
    };
    let in_force = advice.in_force.as_ref().map(|(setting, prediction)| point(advice, *setting, prediction));
    let curve = advice.curve.points().iter().map(|(setting, prediction)| point(advice, *setting, prediction));
    json!({
        "source": source,
        "environment": environment(&advice.environment),
        "load": load(advice.load),
        "aim": aim(advice.aim),
        "recommended": point(advice, advice.recommended, &advice.prediction),
        "needed_window": advice.needed_window,
        "in_force": in_force,
        "seen": seen,
        "curve": curve.collect::<Vec<_>>(),
        "applied": applied.map(Applied::json),
    })
}

/// How a replica sizes batches and windows.
pub(crate) fn sizing(told: &InspectReply) -> Value {
    sizing_from_proto(told.sizing.as_ref()).map_or(Value::Null, sizing_of)
}

pub(super) fn sizing_of(sizing: Sizing) -> Value {
    match sizing {
        Sizing::Auto(wanted) => json!({ "auto": aim(wanted) }),
        Sizing::Fixed(setting) => json!({ "fixed": setting_json(setting) }),
    }
}

pub(super) fn setting_json(setting: Setting) -> Value {
    json!({ "batch_bytes": setting.batch_bytes(), "window_bytes": setting.window_bytes(), "window": setting.window() })
}

fn aim(aim: Aim) -> Value {
    match aim {
        Aim::Throughput => json!("throughput"),
        Aim::Latency(limit) => json!({ "latency_us": micros(limit) }),
    }
}

fn load(load: Load) -> Value {
    match load {
        Load::Saturated => json!("saturated"),
        Load::Open { per_s } => json!({ "rate": per_s }),
        Load::Closed { clients, think } => json!({ "clients": clients, "think_us": micros(think) }),
    }
}

fn point(advice: &Advice, setting: Setting, prediction: &Prediction) -> Value {
    let used = prediction.utilisation;
    json!({
        "batch_bytes": setting.batch_bytes(),
        "batch_commands": advice.commands(setting.batch_bytes()),
        "window_bytes": setting.window_bytes(),
        "window": setting.window(),
        "ops_per_s": prediction.ops_per_s,
        "latency_us": micros(prediction.latency),
        "p99_us": micros(prediction.p99),
        "batch": prediction.batch,
        "bottleneck": prediction.bottleneck.to_string(),
        "used": {
            "window": used.window,
            "network": used.network,
            "leader_cpu": used.leader_cpu,
            "follower_cpu": used.follower_cpu,
            "disk": used.disk,
        },
    })
}

fn environment(environment: &Environment) -> Value {
    let (network, disk, sizes) = (environment.network(), environment.disk(), environment.sizes());
    json!({
        "replicas": environment.replicas(),
        "delay_us": micros(network.delay),
        "bandwidth_bytes_per_s": limited(network.bandwidth),
        "per": match network.limit { Limit::Pair => "pair", Limit::Interface => "interface" },
        "loss": network.loss,
        "framing": network.framing,
        "leader": cpu(environment.leader()),
        "follower": cpu(environment.follower()),
        "sync_us": micros(disk.sync),
        "disk_bytes_per_s": limited(disk.bandwidth),
        "request": sizes.request,
        "request_head": sizes.request_head,
        "answer": sizes.answer,
        "append_head": sizes.append_head,
        "entry_head": sizes.entry_head,
        "ack": sizes.ack,
    })
}

fn cpu(cpu: Cpu) -> Value {
    json!({
        "message_us": micros(cpu.per_message),
        "byte_ns": cpu.per_byte_ns,
        "command_us": micros(cpu.per_command),
    })
}

fn limited(bandwidth: Bandwidth) -> Option<u64> {
    Some(bandwidth.as_bytes_per_s()).filter(|_| bandwidth != Bandwidth::UNLIMITED)
}

fn micros(span: Duration) -> Option<f64> {
    Some(span.as_secs_f64() * 1e6).filter(|_| span != Duration::MAX)
}
