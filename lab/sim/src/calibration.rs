//! What the runtime costs on a machine, as it was measured there, for simulations to go by.
//!
//! `greenwave sim calibrate` writes one, and `greenwave sim compare` writes into it how far a simulation by it was from what was
//! measured: the [error](Errors) that is left. A file of TOML with a version.

use crate::cores::{CallerCosts, Costs, LoopCosts, Pauses, Sample, Work};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version that is read and written.
pub const VERSION: u32 = 1;

const MOST_BYTES: usize = 1 << 20;
const MINUTE_NS: f64 = 60e9;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    #[serde(rename = "greenwave_calibration")]
    version: u32,
    /// The machine, in words.
    pub machine: String,
    /// Whether the program that measured has probes: whether `cargo quanta` has built it.
    pub probes: bool,
    /// To a coroutine and back.
    pub switch_ns: Measured,
    /// A probe, by which code with probes is longer.
    pub probe_ns: Measured,
    /// A simple instruction that waits for the one before it.
    #[serde(default)]
    pub instruction_ns: Measured,
    /// By how much work takes longer for its probes, as a share; and how that is known.
    pub stretch: f64,
    /// See [`stretch`](Self::stretch).
    #[serde(default)]
    pub stretch_by: StretchBy,
    /// An event loop's look at its connections that finds something, whatever that is; and what each call adds.
    pub look_ns: Measured,
    /// See [`look_ns`](Self::look_ns).
    pub look_each_ns: f64,
    /// A look that finds nothing.
    pub look_empty_ns: f64,
    /// What the rest of a round that finds something takes, whatever that is.
    #[serde(default)]
    pub round_ns: f64,
    /// Its post of replies, whatever it carries; and what each reply adds.
    pub post_ns: Measured,
    /// See [`post_ns`](Self::post_ns).
    pub post_each_ns: f64,
    /// What a call takes beside that, and beside its handler: to be taken in, begun and answered.
    pub call_ns: Measured,
    /// What a call that a handler makes adds to that: to be sent, and the handler's going on once it is replied to.
    #[serde(default)]
    pub ask_ns: f64,
    /// What a look takes longer that finds something by the server's own connection, whatever that is.
    #[serde(default)]
    pub own_ns: f64,
    /// What it adds to a look that something comes by one more end of a connection: by the server's own, by which handlers call it.
    #[serde(default)]
    pub look_end_ns: f64,
    /// The same of a post, and of what goes.
    #[serde(default)]
    pub post_end_ns: f64,
    /// What a server counts as the time of a handler that does nothing: the switch and what is around the handler.
    pub handler_ns: Measured,
    /// How long it takes until an event loop that sleeps looks again.
    pub wake_ns: Measured,
    /// How long one looks on before it sleeps.
    pub spin_ns: f64,
    /// A call that does nothing, over TCP on this machine, to an event loop that doesn't sleep.
    pub null_call_ns: Measured,
    /// The same as lengths, and how many there were of each.
    pub null_calls: Vec<(u64, u64)>,
    /// What a thread that calls over one connection takes to send calls, however many, and what each adds.
    #[serde(default)]
    pub send_ns: Measured,
    /// See [`send_ns`](Self::send_ns).
    #[serde(default)]
    pub send_each_ns: f64,
    /// What it takes to receive replies that are there, however many, and what each adds.
    #[serde(default)]
    pub receive_ns: Measured,
    /// See [`receive_ns`](Self::receive_ns).
    #[serde(default)]
    pub receive_each_ns: f64,
    /// How often in a second others take a core that somebody uses.
    #[serde(default)]
    pub pauses_per_s: f64,
    /// For how long, in nanoseconds, and how many there were of each length.
    #[serde(default)]
    pub pauses: Vec<(u64, u64)>,
    /// Writing a little to the disk so that it lasts.
    pub sync_ns: Measured,
    /// How far a simulation by this was from what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Errors>,
}

/// How it is known by how much work takes longer for its probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StretchBy {
    /// Somebody said so.
    #[default]
    Said,
    /// By what a probe takes, and the instructions between two of them: [`Calibration::stretch_of_probes`].
    Probes,
    /// By the same work with probes and without, in a program that `cargo quanta` has built.
    Timing,
}

/// As many simple instructions lie between two probes of a loop as `cargo quanta` aims at: a short loop with a probe stands in a
/// row until it has so many (`REPEATED` in tools/quanta-link/src/place.rs). Probes are farther apart, up to `--bound` (1000), where
/// code has no such loops, and nearer in short functions that call one another.
pub const BETWEEN_PROBES: f64 = 64.0;

/// A time in nanoseconds: the median of many, and what nine tenths of them lay between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The median.
    pub median: f64,
    /// A twentieth was shorter.
    pub low: f64,
    /// A twentieth was longer.
    pub high: f64,
    /// How many there were.
    pub count: u64,
}

/// By which share of the measured value a prediction was away from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Of the median.
    pub p50: f64,
    /// Of p99.
    pub p99: f64,
    /// Of p99.9.
    pub p999: f64,
    /// What was compared.
    pub of: String,
}

/// A calibration that can't be read, or can't be meant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Longer than any.
    #[error("{0} bytes; allowed: up to 1 MiB")]
    TooLong(usize),
    /// Not TOML, or not with these keys.
    #[error("not a calibration: {0}; make one with `greenwave sim calibrate -o FILE`")]
    Syntax(String),
    /// Of a version that isn't known here.
    #[error("a calibration of version {0}, and this reads version {VERSION}; calibrate anew")]
    Version(u32),
    /// A value out of its range.
    #[error("{key} is {value}; allowed: {allowed}; calibrate anew")]
    Value {
        /// The key.
        key: &'static str,
        /// What it says.
        value: f64,
        /// What it may say.
        allowed: &'static str,
    },
}

impl Measured {
    /// Of these times in nanoseconds, of which there is one at least.
    #[must_use]
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().max(1) - 1)).copied();
        let at = |share| at(share).unwrap_or_default();
        Self { median: at(0.5), low: at(0.05), high: at(0.95), count: times.len() as u64 }
    }

    fn span(&self) -> Duration {
        Duration::from_nanos(self.median.round() as u64)
    }
}

impl Calibration {
    /// Nothing was measured yet, on a machine that is so in words.
    #[must_use]
    pub fn new(machine: String, probes: bool) -> Self {
        let none = Measured::default();
        Self {
            version: VERSION,
            machine,
            probes,
            switch_ns: none,
            probe_ns: none,
            instruction_ns: none,
            stretch: 0.0,
            stretch_by: StretchBy::Said,
            look_ns: none,
            look_each_ns: 0.0,
            look_empty_ns: 0.0,
            round_ns: 0.0,
            post_ns: none,
            post_each_ns: 0.0,
            call_ns: none,
            ask_ns: 0.0,
            own_ns: 0.0,
            look_end_ns: 0.0,
            post_end_ns: 0.0,
            handler_ns: none,
            wake_ns: none,
            spin_ns: 20_000.0,
            null_call_ns: none,
            null_calls: Vec::new(),
            send_ns: none,
            send_each_ns: 0.0,
            receive_ns: none,
            receive_each_ns: 0.0,
            pauses_per_s: 0.0,
            pauses: Vec::new(),
            sync_ns: none,
            error: None,
        }
    }

    /// Reads a calibration.
    ///
    /// # Errors
    /// If it is none, of another version, or says what can't be.
    pub fn parse(text: &str) -> Result<Self, CalibrationError> {
        #[derive(Deserialize)]
        struct Versioned {
            greenwave_calibration: u32,
        }
        if text.len() > MOST_BYTES {
            return Err(CalibrationError::TooLong(text.len()));
        }
        let syntax = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let what = error.message().lines().collect::<Vec<_>>().join(" ").replace('`', "\"");
            CalibrationError::Syntax(format!("line {line}: {what}"))
        };
        let Versioned { greenwave_calibration: version } = toml::from_str(text).map_err(syntax)?;
        if version != VERSION {
            return Err(CalibrationError::Version(version));
        }
        let calibration: Self = toml::from_str(text).map_err(syntax)?;
        calibration.validate()?;
        Ok(calibration)
    }

    /// As [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// What simulations go by. Heads [sleep](LoopCosts::spin) unless they are said not to.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let nanos = |nanos: f64| Duration::from_nanos(nanos.round() as u64);
        let event_loop = LoopCosts {
            look: self.look_ns.span(),
            look_each: nanos(self.look_each_ns),
            look_empty: nanos(self.look_empty_ns),
            round: nanos(self.round_ns),
            post: self.post_ns.span(),
            post_each: nanos(self.post_each_ns),
            own: nanos(self.own_ns),
            look_end: nanos(self.look_end_ns),
            post_end: nanos(self.post_end_ns),
            spin: Some(nanos(self.spin_ns)),
            wake: self.wake_ns.span(),
            wire: self.wire(self.at_server_ns()),
            caller: None,
        };
        // What is around a handler is a call's once, and the switch each turn's.
        let around = (self.handler_ns.median - self.switch_ns.median).max(0.0);
        let (switch, io) = (self.switch_ns.span(), nanos(self.call_ns.median + around));
        let length = Sample::new(self.pauses.clone()).map(|sample| Work::Measured(sample.keep()));
        let pauses = length.filter(|_| self.pauses_per_s > 0.0);
        let pauses = pauses.map(|length| Pauses { per_second: self.pauses_per_s, length });
        Costs { switch, io, ask: nanos(self.ask_ns), pauses, event_loop, ..Costs::default() }
    }

    /// The same where all calls come from one thread with one connection, to one head that looks on without sleeping.
    #[must_use]
    pub fn costs_with_caller(&self) -> Costs {
        let nanos = |nanos: f64| Duration::from_nanos(nanos.round() as u64);
        let caller = CallerCosts {
            send: self.send_ns.span(),
            send_each: nanos(self.send_each_ns),
            receive: self.receive_ns.span(),
            receive_each: nanos(self.receive_each_ns),
        };
        let costs = self.costs();
        let at_caller = self.send_ns.median + self.send_each_ns + self.receive_ns.median + self.receive_each_ns;
        let wire = self.wire(self.at_server_ns() + at_caller);
        Costs { event_loop: LoopCosts { spin: None, wire, caller: Some(caller), ..costs.event_loop }, ..costs }
    }

    /// The same without times longer than this in which others have a core.
    #[must_use]
    pub fn with_pauses_up_to(&self, longest: Duration) -> Self {
        let count = |pauses: &[(u64, u64)]| pauses.iter().map(|(_, count)| *count).sum::<u64>() as f64;
        let within = |pause: &&(u64, u64)| u128::from(pause.0) <= longest.as_nanos();
        let pauses: Vec<(u64, u64)> = self.pauses.iter().filter(within).copied().collect();
        let pauses_per_s = self.pauses_per_s * count(&pauses) / count(&self.pauses).max(1.0);
        Self { pauses, pauses_per_s, ..self.clone() }
    }

    /// What a call takes that finds an event loop with nothing to do, at the server.
    #[must_use]
    pub fn at_server_ns(&self) -> f64 {
        let looks = self.look_ns.median + self.look_each_ns + self.round_ns;
        let handler = self.handler_ns.median.max(self.switch_ns.median);
        looks + self.call_ns.median + handler + self.post_ns.median + self.post_each_ns
    }

    /// By how much work takes longer for its probes: what one takes over what [`BETWEEN_PROBES`] instructions take, each of which waits
    /// for the one before it. From 0 to 1; 0 if it isn't known how long an instruction takes.
    #[must_use]
    pub fn stretch_of_probes(&self) -> f64 {
        let between = BETWEEN_PROBES * self.instruction_ns.median;
        if between > 0.0 { (self.probe_ns.median / between).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// What is left of a call that does nothing without what is known of it.
    fn wire(&self, known_ns: f64) -> Option<Work> {
        let known = known_ns as u64;
        let sample = Sample::new(self.null_calls.clone())?;
        Some(Work::Measured(sample.map(|nanos| nanos.saturating_sub(known)).keep()))
    }

    fn validate(&self) -> Result<(), CalibrationError> {
        let times = [
            ("switch_ns", self.switch_ns),
            ("probe_ns", self.probe_ns),
            ("instruction_ns", self.instruction_ns),
            ("look_ns", self.look_ns),
            ("post_ns", self.post_ns),
            ("call_ns", self.call_ns),
            ("handler_ns", self.handler_ns),
            ("wake_ns", self.wake_ns),
            ("null_call_ns", self.null_call_ns),
            ("send_ns", self.send_ns),
            ("receive_ns", self.receive_ns),
            ("sync_ns", self.sync_ns),
        ];
        let each = [
            ("look_each_ns", self.look_each_ns),
            ("look_empty_ns", self.look_empty_ns),
            ("round_ns", self.round_ns),
            ("send_each_ns", self.send_each_ns),
            ("receive_each_ns", self.receive_each_ns),
            ("post_each_ns", self.post_each_ns),
            ("ask_ns", self.ask_ns),
            ("own_ns", self.own_ns),
            ("look_end_ns", self.look_end_ns),
            ("post_end_ns", self.post_end_ns),
            ("spin_ns", self.spin_ns),
        ];
        let all = times.into_iter().flat_map(|(key, of)| [of.median, of.low, of.high].map(|value| (key, value)));
        for (key, value) in all.chain(each) {
            if !(0.0..=MINUTE_NS).contains(&value) {
                return Err(CalibrationError::Value { key, value, allowed: "0 to a minute, in nanoseconds" });
            }
        }
        let errors = self
            .error
            .iter()
            .flat_map(|error| [("error.p50", error.p50), ("error.p99", error.p99), ("error.p999", error.p999)]);
        for (key, value) in errors.chain([("stretch", self.stretch)]) {
            if !(0.0..=10.0).contains(&value) {
                return Err(CalibrationError::Value { key, value, allowed: "a share, 0 to 10" });
            }
        }
        let others = self.pauses_per_s
            * self.pauses.iter().map(|(nanos, count)| *nanos as f64 * *count as f64).sum::<f64>()
            / self.pauses.iter().map(|(_, count)| *count as f64).sum::<f64>().max(1.0);
        if !(self.pauses_per_s >= 0.0 && others <= 9e9) {
            let (key, value) = ("pauses_per_s", self.pauses_per_s);
            return Err(CalibrationError::Value {
                key,
                value,
                allowed: "a rate, with a tenth of the time between pauses",
            });
        }
        let is_wrong = |pair: &&(u64, u64)| pair.0 as f64 > MINUTE_NS || pair.1 > 1 << 40;
        for (key, spans) in [("null_calls", &self.null_calls), ("pauses", &self.pauses)] {
            if let Some((nanos, _)) = spans.iter().find(is_wrong) {
                let (value, allowed) = (*nanos as f64, "lengths up to a minute, and how many there are");
                return Err(CalibrationError::Value { key, value, allowed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> Calibration {
        let mut made = Calibration::new("a machine".to_owned(), false);
        made.switch_ns = Measured::of(vec![80.0; 20]);
        made.look_ns = Measured::of((0..100).map(f64::from).collect());
        made.null_calls = vec![(9000, 3), (12_000, 1)];
        made
    }

    #[test]
    fn what_is_written_is_read_and_is_what_it_costs() {
        let made = calibration();
        assert_eq!((made.look_ns.median, made.look_ns.low, made.look_ns.high), (50.0, 5.0, 95.0));
        assert_eq!(Calibration::parse(&made.to_text()), Ok(made.clone()));
        let costs = made.costs();
        assert_eq!(costs.switch, Duration::from_nanos(80));
        let wire = costs.event_loop.wire.map(|wire| wire.mean_ns());
        assert_eq!(wire, Some((3.0 * (9000.0 - 130.0) + 12_000.0 - 130.0) / 4.0));
    }

    #[test]
    fn probes_make_work_longer_by_what_they_take_of_the_instructions_between_them() {
        let mut made = calibration();
        assert_eq!(made.stretch_of_probes(), 0.0, "it isn't known how long an instruction takes");
        (made.probe_ns.median, made.instruction_ns.median) = (0.6, 0.3);
        assert!((made.stretch_of_probes() - 0.6 / (64.0 * 0.3)).abs() < 1e-12);
        made.probe_ns.median = 1e6;
        assert_eq!(made.stretch_of_probes(), 1.0);
        (made.stretch, made.stretch_by) = (made.stretch_of_probes(), StretchBy::Probes);
        assert_eq!(Calibration::parse(&made.to_text()), Ok(made.clone()));
        // Written before there was any of it.
        let text = made.to_text();
        let (table, by) =
            ("[instruction_ns]\nmedian = 0.3\nlow = 0.0\nhigh = 0.0\ncount = 0\n", "stretch_by = \"probes\"\n");
        assert!(text.contains(table) && text.contains(by), "{text}");
        let before = Calibration::parse(&text.replace(table, "").replace(by, "")).unwrap();
        assert_eq!((before.stretch, before.stretch_by), (1.0, StretchBy::Said));
        assert_eq!(before.instruction_ns, Measured::default());
    }

    #[test]
    fn what_lies_between_probes_is_what_the_pass_aims_at() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/quanta-link/src/place.rs");
        let text = std::fs::read_to_string(place).unwrap();
        assert!(text.contains(&format!("const REPEATED: u32 = {BETWEEN_PROBES};")), "{place} has another number");
    }

    #[test]
    fn long_pauses_are_left_out_with_their_share() {
        let mut made = calibration();
        (made.pauses, made.pauses_per_s) = (vec![(20_000, 30), (2_000_000, 10)], 400.0);
        assert!(made.costs().pauses.is_some_and(|pauses| pauses.per_second == 400.0));
        let short = made.with_pauses_up_to(Duration::from_micros(100));
        assert_eq!((short.pauses.as_slice(), short.pauses_per_s), (&[(20_000, 30)][..], 300.0));
        assert!(made.with_pauses_up_to(Duration::ZERO).costs().pauses.is_none());
        made.pauses_per_s = 1e6;
        let told = Calibration::parse(&made.to_text()).unwrap_err().to_string();
        assert!(told.contains("pauses_per_s is 1000000"), "{told}");
    }

    #[test]
    fn a_caller_takes_its_part_of_a_call() {
        let mut made = calibration();
        (made.send_ns.median, made.send_each_ns, made.receive_ns.median) = (3000.0, 100.0, 1000.0);
        let costs = made.costs_with_caller();
        let caller = costs.event_loop.caller.unwrap();
        assert_eq!((caller.send, caller.send_each), (Duration::from_nanos(3000), Duration::from_nanos(100)));
        let mean = |costs: Costs| costs.event_loop.wire.map(|wire| wire.mean_ns()).unwrap();
        assert_eq!(mean(made.costs()) - mean(costs), 4100.0);
    }

    #[test]
    fn what_can_not_be_meant_is_refused_with_its_key() {
        let mut wrong = calibration();
        wrong.switch_ns.median = -1.0;
        assert!(Calibration::parse(&wrong.to_text()).unwrap_err().to_string().contains("switch_ns is -1"));
        let mut wrong = calibration();
        wrong.stretch = f64::NAN;
        assert!(Calibration::parse(&wrong.to_text()).unwrap_err().to_string().contains("stretch is NaN"));
        let text = calibration().to_text();
        let newer = text.replace("greenwave_calibration = 1", "greenwave_calibration = 2");
        assert_eq!(Calibration::parse(&newer), Err(CalibrationError::Version(2)));
        for text in ["", "greenwave_calibration = 1", "greenwave_calibration = 'x'", &(text.clone() + "\n[more]\n")] {
            assert!(matches!(Calibration::parse(text), Err(CalibrationError::Syntax(_))), "{text}");
        }
    }
}
