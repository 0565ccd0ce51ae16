//! Sizes and environments as messages, there and back. What comes is checked here, and nowhere else.

use std::time::Duration;

use greenwave_policy::replication::{
    Aim, Bandwidth, Cpu, Disk, Environment, EnvironmentError, Limit, Network, NoBandwidth, Setting, SettingError, Sizes,
};
use greenwave_replica::core::Sent;
pub use greenwave_replica::core::Sizing;
use thiserror::Error;

use crate::proto::replicated as proto;
use proto::sizing::Kind;

/// A message that says what can't be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TuningError {
    /// Something is left out.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A batch or a window.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Something of the environment.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A bandwidth.
    #[error(transparent)]
    Bandwidth(#[from] NoBandwidth),
    /// A limit on latency that nothing keeps.
    #[error("a limit of 0 on latency can't be kept; allowed: 1 ns and more")]
    NoTime,
}

/// How batches and windows are sized, as a message.
pub fn sizing_to_proto(sizing: Sizing) -> proto::Sizing {
    let kind = match sizing {
        Sizing::Auto(Aim::Throughput) => Kind::Throughput(proto::Throughput {}),
        Sizing::Auto(Aim::Latency(limit)) => Kind::LatencyNs(nanos(limit)),
        Sizing::Fixed(setting) => Kind::Fixed(setting_to_proto(setting)),
    };
    proto::Sizing { kind: Some(kind) }
}

/// How batches and windows are to be sized.
///
/// # Errors
/// It doesn't say, or says what can't be.
pub fn sizing_from_proto(sizing: Option<&proto::Sizing>) -> Result<Sizing, TuningError> {
    match sizing.and_then(|sizing| sizing.kind.as_ref()).ok_or(TuningError::Missing("how sizes are chosen"))? {
        Kind::Throughput(_) => Ok(Sizing::Auto(Aim::Throughput)),
        Kind::LatencyNs(0) => Err(TuningError::NoTime),
        Kind::LatencyNs(limit) => Ok(Sizing::Auto(Aim::Latency(Duration::from_nanos(*limit)))),
        Kind::Fixed(setting) => setting_from_proto(Some(setting)).map(Sizing::Fixed),
    }
}

/// A setting as a message.
pub const fn setting_to_proto(setting: Setting) -> proto::SizeSetting {
    proto::SizeSetting { batch_bytes: setting.batch_bytes(), window_bytes: setting.window_bytes() }
}

/// A setting from a message.
///
/// # Errors
/// It isn't there, or out of its range.
pub fn setting_from_proto(setting: Option<&proto::SizeSetting>) -> Result<Setting, TuningError> {
    let setting = setting.ok_or(TuningError::Missing("the setting"))?;
    Ok(Setting::new(setting.batch_bytes, setting.window_bytes)?)
}

/// An environment as a message.
pub fn environment_to_proto(environment: &Environment) -> proto::Environment {
    let (network, disk, sizes) = (environment.network(), environment.disk(), environment.sizes());
    proto::Environment {
        replicas: environment.replicas(),
        delay_ns: nanos(network.delay),
        bandwidth: network.bandwidth.as_bytes_per_s(),
        each_interface: network.limit == Limit::Interface,
        loss: network.loss,
        framing: network.framing,
        leader: Some(cpu_to_proto(environment.leader())),
        follower: Some(cpu_to_proto(environment.follower())),
        sync_ns: nanos(disk.sync),
        disk_bandwidth: disk.bandwidth.as_bytes_per_s(),
        request: sizes.request,
        request_head: sizes.request_head,
        answer: sizes.answer,
        append_head: sizes.append_head,
        entry_head: sizes.entry_head,
        ack: sizes.ack,
    }
}

/// An environment from a message.
///
/// # Errors
/// Something isn't there, or out of its range.
pub fn environment_from_proto(from: &proto::Environment) -> Result<Environment, TuningError> {
    let network = Network {
        delay: Duration::from_nanos(from.delay_ns),
        bandwidth: Bandwidth::bytes_per_s(from.bandwidth)?,
        limit: if from.each_interface { Limit::Interface } else { Limit::Pair },
        loss: from.loss,
        framing: from.framing,
    };
    let disk =
        Disk { sync: Duration::from_nanos(from.sync_ns), bandwidth: Bandwidth::bytes_per_s(from.disk_bandwidth)? };
    let sizes = Sizes {
        request: from.request,
        request_head: from.request_head,
        answer: from.answer,
        append_head: from.append_head,
        entry_head: from.entry_head,
        ack: from.ack,
    };
    let leader = cpu_from_proto(from.leader.as_ref().ok_or(TuningError::Missing("the leader's work"))?);
    let follower = cpu_from_proto(from.follower.as_ref().ok_or(TuningError::Missing("a follower's work"))?);
    Ok(Environment::new(from.replicas, network, leader, follower, disk, sizes)?)
}

/// What a replica is sent, as a message has it.
pub const fn sent_to_proto(sent: Sent) -> proto::Sent {
    match sent {
        Sent::Question => proto::Sent::Question,
        Sent::Entries => proto::Sent::Entries,
        Sent::Snapshot => proto::Sent::Snapshot,
    }
}

fn cpu_to_proto(cpu: Cpu) -> proto::CpuCosts {
    let (message_ns, command_ns) = (nanos(cpu.per_message), nanos(cpu.per_command));
    proto::CpuCosts { message_ns, byte_ns: cpu.per_byte_ns, command_ns }
}

const fn cpu_from_proto(from: &proto::CpuCosts) -> Cpu {
    Cpu {
        per_message: Duration::from_nanos(from.message_ns),
        per_byte_ns: from.byte_ns,
        per_command: Duration::from_nanos(from.command_ns),
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let network = Network {
            loss: 0.01,
            ..Network::lan(Bandwidth::bits_per_s(10_000_000_000).unwrap(), Duration::from_micros(20))
        };
        let leader =
            Cpu { per_message: Duration::from_micros(6), per_byte_ns: 0.3, per_command: Duration::from_nanos(3001) };
        let follower = Cpu { per_command: Duration::ZERO, ..leader };
        let disk = Disk { sync: Duration::from_micros(50), bandwidth: Bandwidth::UNLIMITED };
        Environment::new(5, network, leader, follower, disk, Sizes::new(128, 64)).unwrap()
    }

    #[test]
    fn an_environment_comes_back_as_it_went() {
        let there = environment_to_proto(&environment());
        assert_eq!(environment_from_proto(&there), Ok(environment()));
    }

    #[test]
    fn every_way_to_size_comes_back_as_it_went() {
        let fixed = Sizing::Fixed(Setting::new(1000, 8000).unwrap());
        for sizing in [fixed, Sizing::Auto(Aim::Throughput), Sizing::Auto(Aim::Latency(Duration::from_millis(20)))] {
            assert_eq!(sizing_from_proto(Some(&sizing_to_proto(sizing))), Ok(sizing));
        }
    }

    #[test]
    fn what_can_not_be_is_refused_by_name() {
        let good = environment_to_proto(&environment());
        let refused = |odd: proto::Environment| environment_from_proto(&odd).unwrap_err().to_string();
        assert!(refused(proto::Environment { bandwidth: 0, ..good }).contains("carries nothing"));
        assert!(refused(proto::Environment { loss: f64::NAN, ..good }).contains("network.loss is NaN"));
        assert!(refused(proto::Environment { replicas: 0, ..good }).contains("replicas is 0"));
        assert!(refused(proto::Environment { leader: None, ..good }).contains("the leader's work is missing"));
        assert!(refused(proto::Environment { delay_ns: u64::MAX, ..good }).contains("network.delay is"));
        let kind = |kind| sizing_from_proto(Some(&proto::Sizing { kind })).unwrap_err();
        assert_eq!(kind(None), TuningError::Missing("how sizes are chosen"));
        assert_eq!(kind(Some(Kind::LatencyNs(0))), TuningError::NoTime);
        let setting = proto::SizeSetting { batch_bytes: 10, window_bytes: 9 };
        assert!(matches!(kind(Some(Kind::Fixed(setting))), TuningError::Setting(_)));
    }
}
