//! What is printed of one program.

use std::str::FromStr;
use std::time::Duration;

use anyhow::ensure;
use greenwave_bench::pin;
use greenwave_programs::{Program, UnknownProgram};
use greenwave_quanta::is_instrumented;
use serde::Serialize;

use crate::How;
use crate::gaps::{Limit, Overshoot, raw_spin};
use crate::run::Runner;

/// What is interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    Program(&'static Program),
    RawSpin,
}

impl Subject {
    const RAW_SPIN: &str = "raw-spin";

    fn name(self) -> &'static str {
        match self {
            Self::Program(program) => program.name,
            Self::RawSpin => Self::RAW_SPIN,
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            Self::RAW_SPIN => Ok(Self::RawSpin),
            _ => Program::named(name)
                .map(Self::Program)
                .map_err(|unknown: UnknownProgram| format!("{unknown}, and {}", Self::RAW_SPIN)),
        }
    }
}

#[derive(Serialize)]
struct Times {
    program: &'static str,
    origin: &'static str,
    instrumented: bool,
    quantum_ns: Option<u64>,
    times_ms: Vec<f64>,
    /// How often each run was preempted.
    preempted: Vec<u64>,
    /// As text, since not all readers of JSON keep 64 bits.
    checksum: String,
}

#[derive(Serialize)]
struct Overshoots {
    program: &'static str,
    #[serde(flatten)]
    overshoot: Overshoot,
}

/// Times some runs.
pub(crate) fn time(program: &'static Program, runs: u32, quantum: Option<Duration>, how: &How) -> anyhow::Result<()> {
    how.core.map(pin::this_thread).transpose()?;
    let mut runner = Runner::new(program, how.scale);
    let first = runner.run(quantum)?;
    let runs = (0..runs).map(|_| runner.run(quantum)).collect::<anyhow::Result<Vec<_>>>()?;
    let same = runs.iter().all(|run| run.checksum == first.checksum);
    ensure!(same, "{} came to something else in each run: being preempted broke it", program.name);
    let times = Times {
        program: program.name,
        origin: program.origin,
        instrumented: is_instrumented(),
        quantum_ns: quantum.map(|quantum| quantum.as_nanos() as u64),
        times_ms: runs.iter().map(|run| run.ms).collect(),
        preempted: runs.iter().map(|run| run.preempted).collect(),
        checksum: format!("{:016x}", first.checksum),
    };
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

/// Interrupts a program again and again.
pub(crate) fn gaps(subject: Subject, quantum: Duration, limit: Limit, how: &How) -> anyhow::Result<()> {
    how.core.map(pin::this_thread).transpose()?;
    let gaps = match subject {
        Subject::Program(program) => Runner::new(program, how.scale).gaps(quantum, limit)?,
        Subject::RawSpin => raw_spin(quantum, limit),
    };
    let overshoots = Overshoots { program: subject.name(), overshoot: gaps.overshoot() };
    println!("{}", serde_json::to_string(&overshoots)?);
    Ok(())
}

/// Runs it once and prints the checksum.
pub(crate) fn once(program: &'static Program, how: &How) -> anyhow::Result<()> {
    how.core.map(pin::this_thread).transpose()?;
    println!("{:016x}", Runner::new(program, how.scale).run(None)?.checksum);
    Ok(())
}
