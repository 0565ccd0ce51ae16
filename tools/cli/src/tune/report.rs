//! The recommendation as text.

use std::time::Duration;

use greenwave_bench::table::significant;
use greenwave_policy::replication::{Bandwidth, Bottleneck, Cpu, Limit, Load, Prediction, Setting};

use super::advice::{Advice, Source};
use super::curve;

/// Prints it.
pub(super) fn show(advice: &Advice) {
    environment(advice);
    line("load", &load(advice.load));
    line("aim", &super::aim(advice.aim));
    show!("");
    line("recommended", &setting(advice, advice.recommended));
    line("bottleneck", &bottleneck(&advice.prediction));
    line("predicted", &prediction(&advice.prediction));
    line("used", &used(&advice.prediction));
    line("needed", &format!("{} batches under way keep the busiest resource busy", significant(advice.needed_window)));
    if !advice.keeps(&advice.prediction) {
        line("", "nothing keeps to the limit; this is the nearest to it");
    }
    if let (Source::Measured(measured), Some((force, expected))) = (&advice.source, &advice.in_force) {
        show!("");
        line("in force", &setting(advice, *force));
        line("predicted", &prediction(expected));
        let seen = format!(
            "{} commands/s, {} open on average, at replica {}",
            significant(measured.ops_per_s),
            significant(measured.in_system),
            measured.leader
        );
        line("seen", &seen);
    }
    show!("");
    show!("{}", curve::table(advice).trim_end());
    show!("");
    show!("{}", curve::plots(advice).trim_end());
    let (batch, window) = (advice.recommended.batch_bytes(), advice.recommended.window_bytes());
    show!("");
    show!(
        "to fix it: greenwave serve kv .. --batch-bytes {batch} --window-bytes {window}, or greenwave tune --peers .. --apply"
    );
}

fn line(name: &str, text: &str) {
    show!("{name:<12}  {text}");
}

fn environment(advice: &Advice) {
    let environment = &advice.environment;
    let from = match &advice.source {
        Source::Told((preset, _)) => format!("told, beginning with {preset}"),
        Source::Measured(measured) => format!("measured by replica {}, which leads", measured.leader),
    };
    line("environment", &format!("{} replicas; {from}", environment.replicas()));
    let network = environment.network();
    let of = match network.limit {
        Limit::Pair => "between any two",
        Limit::Interface => "through each interface",
    };
    let mut lies = format!("{} one way, {} {of}", time(network.delay), bits(network.bandwidth));
    if network.loss > 0.0 {
        lies += &format!(", {} % of packets lost", significant(100.0 * network.loss));
    }
    if network.framing > 0.0 {
        lies += &format!(", {} % of framing", significant(100.0 * network.framing));
    }
    line("", &lies);
    let disk = environment.disk();
    let sync =
        if disk.sync.is_zero() { "nothing is synced".to_owned() } else { format!("a sync takes {}", time(disk.sync)) };
    let measured = advice
        .disk
        .as_ref()
        .map(|disk| format!("; measured here, the median of {}, nine of ten within {}", disk.syncs, time(disk.most)));
    line("", &format!("{sync}, {}{}", bytes_per_s(disk.bandwidth), measured.unwrap_or_default()));
    let work = |name: &str, cpu: Cpu| {
        let (message, command) = (time(cpu.per_message), time(cpu.per_command));
        format!("{name}: {message} a message, {} ns a byte, {command} a command", significant(cpu.per_byte_ns))
    };
    line("", &work("the leader's core", environment.leader()));
    line("", &work("a follower's core", environment.follower()));
    let sizes = environment.sizes();
    line("", &format!("commands of {}, answers of {}", bytes(sizes.request.into()), bytes(sizes.answer.into())));
}

fn load(load: Load) -> String {
    match load {
        Load::Saturated => "saturated: there are always more commands waiting".to_owned(),
        Load::Open { per_s } => format!("{} commands/s, whatever becomes of them", significant(per_s)),
        Load::Closed { clients, think } if think.is_zero() => format!("{clients} clients that don't think"),
        Load::Closed { clients, think } => format!("{clients} clients that think for {}", time(think)),
    }
}

fn setting(advice: &Advice, setting: Setting) -> String {
    format!(
        "batches of {} ({} commands), a window of {} ({} batches)",
        bytes(setting.batch_bytes()),
        advice.commands(setting.batch_bytes()),
        bytes(setting.window_bytes()),
        setting.window()
    )
}

fn bottleneck(prediction: &Prediction) -> String {
    let why = match prediction.bottleneck {
        Bottleneck::Window => "all batches of the window wait for a round trip",
        Bottleneck::Network => "the bandwidth is what there is too little of",
        Bottleneck::Cpu => "a core is what there is too little of",
        Bottleneck::Disk => "syncs, or the disk's bandwidth, are what there is too little of",
        Bottleneck::Load => "nothing is, but commands",
    };
    format!("{}: {why}", prediction.bottleneck)
}

fn prediction(prediction: &Prediction) -> String {
    format!(
        "{} commands/s; latency {} on average, {} for 99 of 100; {} commands in a batch",
        curve::short(prediction.ops_per_s),
        time(prediction.latency),
        time(prediction.p99),
        significant(prediction.batch)
    )
}

fn used(prediction: &Prediction) -> String {
    let used = prediction.utilisation;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    format!(
        "window {}, network {}, the leader's core {}, a follower's core {}, disk {}",
        percent(used.window),
        percent(used.network),
        percent(used.leader_cpu),
        percent(used.follower_cpu),
        percent(used.disk)
    )
}

/// A time with three digits; one that has no end is said to be so.
pub(super) fn time(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match span {
        Duration::MAX => "no end".to_owned(),
        Duration::ZERO => "0".to_owned(),
        _ if seconds < 1e-6 => format!("{} ns", significant(seconds * 1e9)),
        _ if seconds < 1e-3 => format!("{} us", significant(seconds * 1e6)),
        _ if seconds < 1.0 => format!("{} ms", significant(seconds * 1e3)),
        _ => format!("{} s", significant(seconds)),
    }
}

/// A size with three digits.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        few if few < 1024.0 => format!("{bytes} B"),
        some if some < 1024.0 * 1024.0 => format!("{} KiB", significant(some / 1024.0)),
        many => format!("{} MiB", significant(many / (1024.0 * 1024.0))),
    }
}

fn bits(bandwidth: Bandwidth) -> String {
    let bits = 8.0 * bandwidth.as_bytes_per_s() as f64;
    match bandwidth {
        Bandwidth::UNLIMITED => "unlimited bandwidth".to_owned(),
        _ if bits < 1e6 => format!("{} kbit/s", significant(bits / 1e3)),
        _ if bits < 1e9 => format!("{} Mbit/s", significant(bits / 1e6)),
        _ => format!("{} Gbit/s", significant(bits / 1e9)),
    }
}

fn bytes_per_s(bandwidth: Bandwidth) -> String {
    match bandwidth {
        // More than any disk has: what an estimate comes to where bytes don't count beside the sync.
        fast if fast.as_bytes_per_s() >= 1_000_000_000_000 => "and bytes take no time".to_owned(),
        some => format!("{} MB/s are written", significant(some.as_bytes_per_s() as f64 / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        let spans = [Duration::ZERO, Duration::from_nanos(1500), Duration::from_millis(25), Duration::MAX];
        assert_eq!(spans.map(time), ["0", "1.50 us", "25.0 ms", "no end"]);
        assert_eq!([0, 1023, 1536, 5 << 20].map(bytes), ["0 B", "1023 B", "1.50 KiB", "5.00 MiB"]);
        let rate = |bits| Bandwidth::bits_per_s(bits).unwrap();
        assert_eq!(
            [rate(64_000), rate(10_000_000), rate(10_000_000_000)].map(bits),
            ["64.0 kbit/s", "10.0 Mbit/s", "10.0 Gbit/s"]
        );
        assert_eq!(bits(Bandwidth::UNLIMITED), "unlimited bandwidth");
    }
}
