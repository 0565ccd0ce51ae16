//! All combinations of what varies.

use super::file::{File, Subject};
use super::row::Cell;
use super::runs::Run;
use super::{MOST_RUNS, ScenarioError, Seeds};
use crate::calibration::Calibration;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use toml::{Table, Value};

/// Of services on a network each run keeps what messages took, some 10 KiB.
const MOST_OF_SERVICES: usize = 10_000;

/// The runs that a file asks for, seeds innermost.
pub(super) fn runs(text: &str, instead: Seeds) -> Result<Vec<Run>, ScenarioError> {
    // Once as it stands, as errors have their lines then.
    let file: File = toml::from_str(text).map_err(|error| at_line(text, &error))?;
    let mut table: Table = text.parse().map_err(|error| at_line(text, &error))?;
    for (key, number) in [("seed", instead.first), ("seeds", instead.count)] {
        if let Some(number) = number {
            let number =
                i64::try_from(number).map_err(|_| ScenarioError(format!("run.{key} is {number}; too large")))?;
            set(&mut table, &format!("run.{key}"), Value::Integer(number))?;
        }
    }
    if let Some((of, path)) = file.calibration() {
        calibrate(&mut table, of, path)?;
    }
    let axes = axes(&file.vary)?;
    let file = File::deserialize(Value::Table(table.clone())).map_err(|error| ScenarioError(error.message().into()))?;
    let seeds = file.run.seeds()?.count();
    let combinations = axes.iter().try_fold(seeds, |all, (_, values)| all.checked_mul(values.len()));
    if combinations.is_none_or(|all| all > MOST_RUNS) {
        return Err(ScenarioError(format!("more than {MOST_RUNS} runs; let less vary, or fewer seeds")));
    }
    let mut runs = Vec::new();
    let mut chosen = vec![0; axes.len()];
    loop {
        let mut varied = table.clone();
        let mut cells = Vec::new();
        for ((key, values), at) in axes.iter().zip(&chosen) {
            set(&mut varied, key, values[*at].clone())?;
            cells.push((key.clone(), cell(&values[*at])));
        }
        let told = |what: String| match cells.is_empty() {
            true => ScenarioError(what),
            false => ScenarioError(format!("{what}; {}", said(&cells))),
        };
        let file = File::deserialize(Value::Table(varied)).map_err(|error| told(error.message().to_owned()))?;
        let subject = file.subject().map_err(|error| told(error.0))?;
        if matches!(subject, Subject::Graph { network: Some(_), .. }) && combinations > Some(MOST_OF_SERVICES) {
            return Err(ScenarioError(format!(
                "more than {MOST_OF_SERVICES} runs of services on a network; let less vary, or fewer seeds"
            )));
        }
        for seed in file.run.seeds()? {
            runs.push(Run { cells: cells.clone(), subject: subject.clone(), seed });
        }
        // The last axis goes round first.
        let Some(turn) = (0..axes.len()).rev().find(|axis| chosen[*axis] + 1 < axes[*axis].1.len()) else { break };
        chosen[turn] += 1;
        chosen[turn + 1..].fill(0);
    }
    Ok(runs)
}

/// Puts what a calibration says where the file says nothing, in the table that names it.
fn calibrate(table: &mut Table, of: &str, path: &Path) -> Result<(), ScenarioError> {
    let wrong = |what: String| ScenarioError(format!("{of}.costs.file {:?}: {what}", path.display().to_string()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("can't be read: {error}")))?;
    let calibration = Calibration::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let Some(subject) = table.get_mut(of).and_then(Value::as_table_mut) else { return Ok(()) };
    let mut put = |under: &str, values: Vec<(&str, Value)>| {
        let at = subject.entry(under).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(at) = at {
            for (key, value) in values {
                at.entry(key).or_insert(value);
            }
        }
    };
    if of == "group" {
        // As `greenwave sim plan --writes` takes it.
        let (message, command) =
            (calibration.at_server_ns(), calibration.call_ns.median + calibration.handler_ns.median);
        put("disk", vec![("sync", nanos(calibration.sync_ns.median))]);
        put("costs", vec![("message", nanos(message)), ("command", nanos(command)), ("apply", nanos(command))]);
    } else {
        put("costs", costs_of_cores(&calibration));
    }
    Ok(())
}

fn costs_of_cores(calibration: &Calibration) -> Vec<(&'static str, Value)> {
    let costs = calibration.costs();
    let span = |span: Duration| nanos(span.as_nanos() as f64);
    let of_loop = costs.event_loop;
    let wire = of_loop.wire.map_or(0.0, |wire| wire.mean_ns());
    let mut fixed = Table::new();
    fixed.insert("fixed".to_owned(), nanos(wire.max(1.0)));
    vec![
        ("switch", span(costs.switch)),
        ("io", span(costs.io)),
        ("look", span(of_loop.look)),
        ("look_each", span(of_loop.look_each)),
        ("look_empty", span(of_loop.look_empty)),
        ("round", span(of_loop.round)),
        ("post", span(of_loop.post)),
        ("post_each", span(of_loop.post_each)),
        ("wake", span(of_loop.wake)),
        ("spin", of_loop.spin.map_or(Value::String("off".to_owned()), span)),
        ("probes", Value::Float(calibration.stretch)),
        ("wire", Value::Table(fixed)),
    ]
}

/// Nanoseconds as a file has them.
fn nanos(nanos: f64) -> Value {
    Value::String(format!("{}ns", nanos.round() as u64))
}

fn said(cells: &[(String, Cell)]) -> String {
    cells.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

/// Keys, and the values that each has one after the other.
fn axes(vary: &Table) -> Result<Vec<(String, Vec<Value>)>, ScenarioError> {
    let mut axes = Vec::new();
    for (key, value) in vary {
        match value {
            Value::Array(values) if !values.is_empty() => axes.push((key.clone(), values.clone())),
            _ => {
                let told = "allowed: a list of values, such as \"load.share\" = [0.5, 0.8]";
                return Err(ScenarioError(format!("vary.{key} is {}; {told}", cell(value))));
            }
        }
    }
    Ok(axes)
}

/// Sets the value that a dotted key leads to; in lists of tables the first is 0.
fn set(table: &mut Table, key: &str, value: Value) -> Result<(), ScenarioError> {
    let wrong = || ScenarioError(format!("vary has the key {key:?}, which leads nowhere; such as \"load.share\""));
    let mut parts = key.split('.');
    let first = parts.next().filter(|first| !matches!(*first, "vary" | "")).ok_or_else(wrong)?;
    let mut at = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
    for part in parts {
        at = match at {
            Value::Table(table) => table.entry(part).or_insert_with(|| Value::Table(Table::new())),
            Value::Array(list) => part.parse().ok().and_then(|at: usize| list.get_mut(at)).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
    }
    *at = value;
    Ok(())
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Integer(number) => Cell::Number(*number as f64),
        Value::Float(number) => Cell::Number(*number),
        other => Cell::Text(text(other)),
    }
}

/// A value as a file has it, nearly: texts at the top have no quotes.
fn text(value: &Value) -> String {
    let all = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(date) => date.to_string(),
        Value::Array(values) => format!("[{}]", all(values.iter().map(text).collect())),
        Value::Table(table) => {
            format!("{{ {} }}", all(table.iter().map(|(key, value)| format!("{key} = {}", text(value))).collect()))
        }
    }
}

fn at_line(text: &str, error: &toml::de::Error) -> ScenarioError {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let what = error.message().replace('`', "\"");
    ScenarioError(format!("{line}{}", what.lines().collect::<Vec<_>>().join(" ")))
}
