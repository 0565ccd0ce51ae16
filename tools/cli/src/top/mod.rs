//! `greenwave top`: what the agents of this host see and which threads are boosted, while it changes.
//!
//! On a terminal it is drawn again and again; elsewhere, or with `--once`, it is printed once. Rates are what has changed
//! between two looks, so that printing takes as long as one interval. Of a million flows, those that matter are looked
//! at: agents tell the [`FLOWS`] with the most bytes.

mod screen;
mod view;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use greenwave_host::agent::{self, AgentError, Settings};
use greenwave_host::boost::{self, Memory};

use crate::problem::Problem;
use screen::{Screen, Wish};
use view::{Sample, Sort, View};

/// Watch flows, small and large, and the threads that are boosted
#[derive(Args)]
#[command(after_help = "\
On a terminal: s sorts by something else, the arrows scroll, q ends. Elsewhere a table is printed once.

Examples:
  greenwave top
  greenwave top --interval 250ms --sort bytes
  greenwave top --once --most 50
  greenwave top --json | jq '.flows[] | select(.large) | .bits_per_s'")]
pub(crate) struct Top {
    /// How long between two looks, 0.1 to 60 s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// What comes first
    #[arg(long, value_enum, default_value_t = By::Rate)]
    sort: By,
    /// How many flows are printed at most, if it isn't a terminal
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    /// Print a table once, also on a terminal
    #[arg(long)]
    once: bool,
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
    /// Where agents keep their sockets
    #[arg(long, value_name = "DIR", default_value = Settings::STATE)]
    state: PathBuf,
    /// Where it is written down which threads were boosted [default: as `greenwave agent boost`]
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Rate,
    Bytes,
    Packets,
    Changes,
}

/// How many flows are asked for: more than anybody scrolls through, and quick to fetch.
const FLOWS: usize = 4096;

impl Top {
    /// Shows it until it's ended, or once.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let mut view = View::new(match self.sort {
            By::Rate => Sort::Rate,
            By::Bytes => Sort::Bytes,
            By::Packets => Sort::Packets,
            By::Changes => Sort::Changes,
        });
        if self.once || self.json || !screen::is_terminal() { self.print(&mut view) } else { self.watch(&mut view) }
    }

    fn print(&self, view: &mut View) -> Result<(), Problem> {
        let first = self.look()?;
        if let Some(why) = first.nothing() {
            // The text names the remedy.
            return Err(Problem::failure(why));
        }
        view.take(first);
        thread::sleep(self.interval);
        view.take(self.look()?);
        if self.json {
            show!("{}", view.json(self.most));
        } else {
            view.lines(self.most).iter().for_each(|line| show!("{line}"));
        }
        Ok(())
    }

    fn watch(&self, view: &mut View) -> Result<(), Problem> {
        let failed = |error| Problem::failure(error).at("the terminal").remedy("try --once");
        view.take(self.look()?);
        let mut screen = Screen::enter().map_err(failed)?;
        let mut next = Instant::now() + self.interval;
        loop {
            let (columns, rows) = screen.size();
            screen.draw(&view.page(columns, rows)).map_err(failed)?;
            match screen.wish(next).map_err(failed)? {
                Wish::End => return Ok(()),
                Wish::Sort => view.sort_otherwise(),
                Wish::Scroll(lines) => view.scroll(lines),
                Wish::Redraw => {}
                Wish::Look => {
                    view.take(self.look()?);
                    next = Instant::now() + self.interval;
                }
            }
        }
    }

    /// What there is now. That no agent runs, or the kernel has no slices, is part of it.
    fn look(&self) -> Result<Sample, Problem> {
        let flows = match agent::status(&self.state, FLOWS) {
            Ok(status) => Ok(status),
            Err(error @ (AgentError::NotRunning | AgentError::Silent { .. })) => Err(error.to_string()),
            Err(error) => return Err(Problem::failure(error)),
        };
        let memory = self.memory.clone().map_or_else(Memory::usual, Memory::at);
        let threads = boost::status(None, &memory).map_err(|error| error.to_string());
        Ok(Sample { at: Instant::now(), flows, threads })
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 1s or 250ms"))?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(60);
    if allowed.contains(&time) { Ok(time) } else { Err("allowed is 100ms to 60s".into()) }
}
