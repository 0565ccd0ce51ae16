//! How far what takes its time has come, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for so many steps; behind it how many are done, and the rest of the line, in indicatif's words.
pub(crate) fn bar(steps: usize, rest: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template(&format!("{{bar:32.green/dim}} {{pos}} of {{len}} {rest}"));
    bar.set_style(style.expect("the template is fixed and well-formed").progress_chars("━━─"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
