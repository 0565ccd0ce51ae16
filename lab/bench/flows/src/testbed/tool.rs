//! `ip` and `tc`, run in batches: a namespace is set up by one process instead of twenty.

use std::process::{Command, Output, Stdio};

use greenwave_bench::netns;

use super::Problem;

/// Runs `ip`, in a namespace if one is named, with these lines as its batch.
pub(super) fn ip(namespace: Option<&str>, lines: &[String]) -> Result<(), Problem> {
    batch("ip", namespace, lines)
}

/// Runs `tc` in a namespace with these lines as its batch.
pub(super) fn tc(namespace: &str, lines: &[String]) -> Result<(), Problem> {
    batch("tc", Some(namespace), lines)
}

/// Runs a tool and returns what it printed.
pub(super) fn read(tool: &str, words: &[&str]) -> Result<String, Problem> {
    let output = Command::new(tool).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|source| Problem::Tool { tool: tool.to_owned(), source })?;
    checked(&output, || format!("{tool} {}", words.join(" ")))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn batch(tool: &str, namespace: Option<&str>, lines: &[String]) -> Result<(), Problem> {
    let output = netns::batch(tool, namespace, lines);
    let output = output.map_err(|source| Problem::Tool { tool: tool.to_owned(), source })?;
    let shown = || format!("{tool}{} {}", namespace.map_or(String::new(), |it| format!(" -n {it}")), lines.join("; "));
    checked(&output, shown)
}

fn checked(output: &Output, command: impl Fn() -> String) -> Result<(), Problem> {
    if output.status.success() {
        return Ok(());
    }
    let said: Vec<String> = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    Err(Problem::Refused { command: command(), said: said.join(", ") })
}
