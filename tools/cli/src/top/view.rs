//! What is shown: flows with their rates, devices, and boosted threads, as lines or as JSON. Knows no terminal.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use greenwave_host::agent::{AgentState, DeviceState, FlowState, Status};
use greenwave_host::boost::ThreadStatus;
use serde_json::{Value, json};

use crate::agent::show;

/// One look at the host.
pub(super) struct Sample {
    pub(super) at: Instant,
    /// What agents see, or why nothing is known.
    pub(super) flows: Result<Status, String>,
    /// The threads with slices of their own, or why nothing is known.
    pub(super) threads: Result<Vec<ThreadStatus>, String>,
}

impl Sample {
    /// Why there is nothing to show, if there is no agent and no boosted thread either.
    pub(super) fn nothing(&self) -> Option<&str> {
        let no_threads = self.threads.as_ref().map_or(true, Vec::is_empty);
        self.flows.as_ref().err().filter(|_| no_threads).map(String::as_str)
    }
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Bytes,
    Packets,
    Changes,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Rate => Self::Bytes,
            Self::Bytes => Self::Packets,
            Self::Packets => Self::Changes,
            Self::Changes => Self::Rate,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Changes => "changes",
        }
    }
}

/// What was seen at the last look, and how that differs from the one before.
pub(super) struct View {
    sort: Sort,
    from: usize,
    seen: Option<Instant>,
    flows: Vec<Flow>,
    status: Result<Status, String>,
    threads: Result<Vec<ThreadStatus>, String>,
}

struct Flow {
    state: FlowState,
    /// Unknown at the first look.
    bits_per_s: Option<f64>,
    /// How often it was seen to have become large or small again.
    changes: u64,
}

/// What tells flows apart.
type Key = (String, IpAddr, IpAddr, u16, u8, u16, u16);

impl Flow {
    fn key(&self) -> Key {
        let FlowState { source, target, vlan, protocol, source_port, target_port, .. } = self.state;
        (self.state.device.clone(), source, target, vlan, protocol, source_port, target_port)
    }

    fn packets(&self) -> u64 {
        self.state.small_packets.saturating_add(self.state.large_packets)
    }
}

impl View {
    /// Nothing yet.
    pub(super) fn new(sort: Sort) -> Self {
        let (flows, status) = (Vec::new(), Ok(Status::default()));
        Self { sort, from: 0, seen: None, flows, status, threads: Ok(Vec::new()) }
    }

    /// Takes another look. Flows that aren't told of any more are forgotten.
    pub(super) fn take(&mut self, mut sample: Sample) {
        let time = self.seen.replace(sample.at).map(|before| sample.at.saturating_duration_since(before));
        let before: HashMap<_, _> = self.flows.drain(..).map(|flow| (flow.key(), flow)).collect();
        let states = sample.flows.as_mut().map(|status| std::mem::take(&mut status.flows)).unwrap_or_default();
        self.flows.extend(states.into_iter().map(|state| {
            let mut flow = Flow { state, bits_per_s: None, changes: 0 };
            if let (Some(before), Some(time)) = (before.get(&flow.key()), time.filter(|time| !time.is_zero())) {
                // A flow that was forgotten meanwhile and began again has fewer.
                let bytes = flow.state.bytes().saturating_sub(before.state.bytes());
                flow.bits_per_s = Some(8.0 * bytes as f64 / time.as_secs_f64());
                flow.changes = before.changes + u64::from(before.state.large != flow.state.large);
            }
            flow
        }));
        (self.status, self.threads) = (sample.flows, sample.threads);
        self.put_in_order();
    }

    /// Sorts by the next thing.
    pub(super) fn sort_otherwise(&mut self) {
        self.sort = self.sort.next();
        self.from = 0;
        self.put_in_order();
    }

    /// Shows flows from further down, or further up.
    pub(super) fn scroll(&mut self, lines: isize) {
        self.from = self.from.saturating_add_signed(lines).min(self.flows.len().saturating_sub(1));
    }

    fn put_in_order(&mut self) {
        let sort = self.sort;
        self.flows.sort_by(|one, other| {
            let order = match sort {
                Sort::Rate => other.bits_per_s.partial_cmp(&one.bits_per_s).unwrap_or(Ordering::Equal),
                Sort::Bytes => Ordering::Equal,
                Sort::Packets => other.packets().cmp(&one.packets()),
                Sort::Changes => other.changes.cmp(&one.changes),
            };
            order.then_with(|| other.state.bytes().cmp(&one.state.bytes())).then_with(|| one.key().cmp(&other.key()))
        });
        self.from = self.from.min(self.flows.len().saturating_sub(1));
    }

    /// What fits on a terminal of this size.
    pub(super) fn page(&self, columns: usize, rows: usize) -> Vec<String> {
        let keys = format!("sorted by {}; s: by another, arrows: scroll, q: end", self.sort.word());
        let (mut lines, threads) = (self.head(), self.of_threads());
        lines.push(keys);
        let for_threads = threads.len().min(rows / 3);
        let for_flows = rows.saturating_sub(lines.len() + for_threads);
        lines.extend(self.of_flows(self.from, for_flows.saturating_sub(1)));
        lines.extend(threads.into_iter().take(for_threads));
        lines.truncate(rows);
        lines.iter().map(|line| line.chars().take(columns).collect()).collect()
    }

    /// All of it, with so many flows at most.
    pub(super) fn lines(&self, most: usize) -> Vec<String> {
        [self.head(), self.of_flows(0, most), self.of_threads()].concat()
    }

    /// What agents say of themselves and of their devices, or why nothing is known of flows.
    fn head(&self) -> Vec<String> {
        let status = match &self.status {
            Ok(status) => status,
            Err(why) => return vec![why.clone()],
        };
        let agent = |agent: &AgentState| {
            let AgentState { pid, flows, large_flows, room, .. } = agent;
            format!("agent {pid}: {flows} flows, {large_flows} of them large, room for {room}")
        };
        let device = |device: &DeviceState| {
            let shown = |bytes, packets: u64| format!("{} in {packets} packets", scaled(bytes as f64, "B"));
            let small = shown(device.small_bytes, device.small_packets);
            let large = shown(device.large_bytes, device.large_packets);
            let untouched = device.not_ip + device.malformed + device.no_room;
            let away = if device.attached { "" } else { "; not there" };
            format!("  {}: small {small}, large {large}, untouched {untouched} packets{away}", device.name)
        };
        let agents = status.agents.iter();
        agents.flat_map(|it| std::iter::once(agent(it)).chain(it.devices.iter().map(device))).collect()
    }

    fn of_flows(&self, from: usize, most: usize) -> Vec<String> {
        if self.flows.is_empty() {
            return Vec::new();
        }
        let title = format!(
            "{:<6} {:>12} {:>10} {:>10} {:>7} {:<15} FLOW",
            "BAND", "RATE", "BYTES", "PACKETS", "CHANGES", "DEVICE"
        );
        let line = |flow: &Flow| {
            let rate = flow.bits_per_s.map_or_else(|| "-".to_owned(), |rate| scaled(rate, "bit/s"));
            let band = if flow.state.large { "large" } else { "small" };
            let (bytes, packets) = (scaled(flow.state.bytes() as f64, "B"), flow.packets());
            let (device, name) = (&flow.state.device, show::name(&flow.state));
            format!("{band:<6} {rate:>12} {bytes:>10} {packets:>10} {:>7} {device:<15} {name}", flow.changes)
        };
        std::iter::once(title).chain(self.flows.iter().skip(from).take(most).map(line)).collect()
    }

    fn of_threads(&self) -> Vec<String> {
        let threads = match &self.threads {
            Ok(threads) if threads.is_empty() => return vec!["no thread has a slice of its own".into()],
            Ok(threads) => threads,
            Err(why) => return vec![why.clone()],
        };
        let line = |it: &ThreadStatus| {
            let (slice, by) = (format!("{:?}", it.slice), if it.remembered { "boost" } else { "-" });
            format!(
                "{:>8} {:>8} {slice:>10} {:>5} {by:<6} {}",
                it.thread.process, it.thread.thread, it.nice, it.thread.name
            )
        };
        let title = format!("{:>8} {:>8} {:>10} {:>5} {:<6} THREAD", "PID", "TID", "SLICE", "NICE", "BY");
        std::iter::once(title).chain(threads.iter().map(line)).collect()
    }

    /// The same for machines, with so many flows at most.
    pub(super) fn json(&self, most: usize) -> Value {
        let flow = |flow: &Flow| {
            let mut value = serde_json::to_value(&flow.state).unwrap_or_default();
            value["bits_per_s"] = json!(flow.bits_per_s);
            value["changes"] = json!(flow.changes);
            value
        };
        let thread = |it: &ThreadStatus| {
            json!({
                "process": it.thread.process,
                "thread": it.thread.thread,
                "name": it.thread.name,
                "slice_us": micros(it.slice),
                "nice": it.nice,
                "remembered": it.remembered,
            })
        };
        let unknown = [self.status.as_ref().err(), self.threads.as_ref().err()];
        json!({
            "agents": self.status.as_ref().map(|status| json!(status.agents)).unwrap_or(json!([])),
            "flows": self.flows.iter().take(most).map(flow).collect::<Vec<_>>(),
            "threads": self.threads.as_ref().map(|all| all.iter().map(thread).collect()).unwrap_or(json!([])),
            "unknown": unknown.into_iter().flatten().collect::<Vec<_>>(),
        })
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// A number with three digits or so, and a unit with its thousands.
fn scaled(value: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefixes = ["", "k", "M", "G", "T"].into_iter().peekable();
    while let Some(prefix) = prefixes.next() {
        if value < 999.5 || prefixes.peek().is_none() {
            let digits = if prefix.is_empty() || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {prefix}{unit}");
        }
        value /= 1000.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, bytes: u64, large: bool) -> FlowState {
        FlowState {
            device: "tap0".into(),
            source: source.parse().unwrap(),
            target: "10.0.0.9".parse().unwrap(),
            vlan: 0,
            protocol: 0,
            source_port: 0,
            target_port: 0,
            large,
            tokens: 0,
            debt: 0,
            idle_ns: 0,
            small_packets: 2,
            small_bytes: bytes,
            large_packets: 0,
            large_bytes: 0,
        }
    }

    fn sample(at: Instant, flows: Vec<FlowState>) -> Sample {
        Sample { at, flows: Ok(Status { agents: Vec::new(), flows }), threads: Ok(Vec::new()) }
    }

    /// The lines about flows, without the title.
    fn shown(view: &View) -> Vec<String> {
        view.lines(10).into_iter().filter(|line| line.contains("tap0")).collect()
    }

    #[test]
    fn rates_and_changes_of_band_are_what_differs_between_two_looks() {
        let (mut view, start) = (View::new(Sort::Rate), Instant::now());
        view.take(sample(start, vec![flow("10.0.0.1", 5_000_000, false), flow("10.0.0.2", 1_000, false)]));
        assert!(shown(&view)[0].contains("10.0.0.1") && shown(&view)[0].contains(" - "), "{:?}", shown(&view));
        let later = start + Duration::from_secs(2);
        view.take(sample(later, vec![flow("10.0.0.1", 5_000_000, false), flow("10.0.0.2", 2_501_000, true)]));
        let lines = shown(&view);
        assert!(lines[0].starts_with("large") && lines[0].contains("10.0 Mbit/s"), "{lines:?}");
        assert!(lines[0].contains("10.0.0.2") && lines[1].contains("0 bit/s"), "{lines:?}");
        view.sort_otherwise();
        assert!(shown(&view)[0].contains("10.0.0.1"), "now by bytes");
        assert_eq!(view.json(10)["flows"][1]["changes"], 1);
    }

    #[test]
    fn a_flow_that_began_again_has_no_negative_rate_and_one_that_is_gone_none() {
        let (mut view, start) = (View::new(Sort::Rate), Instant::now());
        view.take(sample(start, vec![flow("10.0.0.1", 5_000, false), flow("10.0.0.2", 1_000, false)]));
        view.take(sample(start + Duration::from_secs(1), vec![flow("10.0.0.1", 1_000, false)]));
        assert_eq!(view.json(10)["flows"][0]["bits_per_s"], 0.0);
        assert_eq!(view.json(10)["flows"].as_array().unwrap().len(), 1);
        // Two looks at the same moment tell no rate.
        view.take(sample(start + Duration::from_secs(1), vec![flow("10.0.0.1", 9_000, false)]));
        assert!(view.json(10)["flows"][0]["bits_per_s"].is_null());
    }

    #[test]
    fn a_page_fits_whatever_the_size_of_the_terminal_and_however_far_it_is_scrolled() {
        let mut view = View::new(Sort::Bytes);
        let flows = (0..200).map(|i| flow(&format!("10.0.1.{i}"), i, i % 2 == 0)).collect();
        view.take(sample(Instant::now(), flows));
        for scroll in [0, 1, 1000, -3, isize::MIN, isize::MAX] {
            view.scroll(scroll);
            for (columns, rows) in [(1, 1), (20, 2), (80, 3), (80, 24), (300, 500)] {
                let page = view.page(columns, rows);
                assert!(page.len() <= rows && page.iter().all(|line| line.chars().count() <= columns));
            }
        }
        view.scroll(isize::MIN);
        assert!(view.page(80, 24).iter().any(|line| line.contains("10.0.1.199")));
        view.scroll(1);
        assert!(!view.page(80, 24).iter().any(|line| line.contains("10.0.1.199")));
    }

    #[test]
    fn why_nothing_is_known_is_said_where_it_would_be() {
        let mut view = View::new(Sort::Rate);
        let flows = Err("no agent runs; start one".to_owned());
        view.take(Sample { at: Instant::now(), flows, threads: Err("no slices here".into()) });
        assert_eq!(view.lines(10), ["no agent runs; start one", "no slices here"]);
        assert_eq!(view.json(10)["unknown"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn numbers_keep_three_digits_or_so() {
        let all = [0.0, 999.0, 1_000.0, 12_340.0, 999_600.0, 1e8, 5e16].map(|value| scaled(value, "B"));
        assert_eq!(all, ["0 B", "999 B", "1.0 kB", "12.3 kB", "1.0 MB", "100 MB", "50000 TB"]);
    }
}
