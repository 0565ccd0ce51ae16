//! How far a benchmark has come: a bar on a terminal, elsewhere a plain line every few seconds.

use std::io::IsTerminal;
use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
const TICKS_PER_STEP: u64 = 1000;

/// Shows the progress of some steps, such as the runs of a benchmark, on standard error.
#[derive(Debug)]
pub struct Progress {
    steps: usize,
    begun: usize,
    step: String,
    display: Display,
}

#[derive(Debug)]
enum Display {
    Hidden,
    Bar(ProgressBar),
    Lines { next: Instant },
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Self {
        Self { steps: 1, begun: 0, step: String::new(), display: Display::Hidden }
    }

    /// Progress over `steps` steps.
    pub fn new(steps: usize) -> Self {
        let display = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(
                Some(steps as u64 * TICKS_PER_STEP),
                ProgressDrawTarget::stderr_with_hz(10),
            );
            let style = ProgressStyle::with_template("{bar:32.green/dim} {percent:>3}%  {wide_msg} {eta:>4} left");
            bar.set_style(style.expect("the template is fixed and well-formed").progress_chars("━━─"));
            Display::Bar(bar)
        } else {
            Display::Lines { next: Instant::now() + LINE_EVERY }
        };
        Self { steps, begun: 0, step: String::new(), display }
    }

    /// Begins the next step.
    pub fn step(&mut self, name: impl Into<String>) {
        self.begun += 1;
        self.step = name.into();
        self.show(0.0, 0);
    }

    /// Shows that a share of the current step is done, with so many requests outstanding.
    pub fn show(&mut self, share: f64, outstanding: usize) {
        let step = self.begun.saturating_sub(1) as u64;
        match &mut self.display {
            Display::Hidden => {}
            Display::Bar(bar) => {
                bar.set_position(step * TICKS_PER_STEP + (share.clamp(0.0, 1.0) * TICKS_PER_STEP as f64) as u64);
                bar.set_message(match outstanding {
                    0 => self.step.clone(),
                    _ => format!("{}  ({outstanding} outstanding)", self.step),
                });
            }
            Display::Lines { next } => {
                let now = Instant::now();
                if now >= *next {
                    *next = now + LINE_EVERY;
                    let Self { begun, steps, step, .. } = self;
                    let percent = share.min(1.0) * 100.0;
                    let mut err = std::io::stderr();
                    let outstanding =
                        if outstanding > 0 { format!(", {outstanding} outstanding") } else { String::new() };
                    let _nobody_reads_it = writeln!(err, "{begun} of {steps}: {step}, {percent:.0}%{outstanding}");
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
