//! A server in this process: its start line, its life, its gentle end.

use std::io::{self, Write};

use greenwave::{ServerConfig, ServerHandle, StartError, VerbsError};
use greenwave_services::ServeError;

use super::events::{self, Ending, Event};
use crate::problem::Problem;

/// Starts a server, and serves until the process is told to end.
///
/// # Errors
/// When it doesn't start.
pub(super) fn serve(
    config: &ServerConfig,
    ending: Ending,
    start: impl FnOnce() -> Result<ServerHandle, ServeError>,
) -> Result<(), Problem> {
    let facts = Facts::of(config)?;
    let (_kept_open, events) = events::listen(ending)?;
    let server = start().map_err(|error| problem(&error))?;
    facts.announce(&server);
    for event in events {
        match event {
            Event::Drain => {
                drain(server, &facts.name, ending);
                return Ok(());
            }
            Event::Stop => return Ok(()),
            Event::Told { .. } | Event::Said { .. } | Event::Closed { .. } => {}
        }
    }
    Ok(())
}

/// Says how the server did, and finishes what it accepted.
pub(super) fn drain(server: ServerHandle, name: &str, ending: Ending) {
    let counters = server.counters();
    let late = counters.late + counters.expired_on_arrival + counters.expired_in_queue + counters.expired_in_service;
    let refused = counters.infeasible + counters.queue_full;
    let (answered, limit) = (counters.answered, ending.limit);
    // Whoever started this process says it for all of them.
    if !ending.follow_stdin {
        tell!("{name}: {answered} calls answered in time, {late} late, {refused} refused");
        tell!("{name}: finishing what was accepted, for {limit:?} at most");
    }
    server.drain(limit);
}

/// What a start line says of a server, beside its addresses.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Its name in receipts.
    pub(super) name: String,
    /// One for each address.
    lines: Vec<String>,
}

impl Facts {
    /// Finds out what moves the bytes.
    ///
    /// # Errors
    /// A backend that doesn't run here.
    pub(super) fn of(config: &ServerConfig) -> Result<Self, Problem> {
        let backends = config.backends().map_err(Problem::failure)?;
        let (pid, name) = (std::process::id(), config.stage().to_owned());
        let line = |backend| format!("{config} backend={backend} pid={pid}");
        Ok(Self { name, lines: backends.into_iter().map(line).collect() })
    }

    /// Prints a line for each address, for people and for programs that wait for it.
    pub(super) fn announce(&self, server: &ServerHandle) {
        let lines = server.addresses().iter().zip(&self.lines);
        lines.for_each(|(address, line)| tell(&format!("listening {address} {line}")));
    }
}

/// Prints a line on standard output at once, whether or not anybody reads it.
pub(super) fn tell(line: &str) {
    let mut out = io::stdout().lock();
    let _nobody_reads_it = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Whose fault it is that a service doesn't start.
pub(super) fn problem(error: &ServeError) -> Problem {
    match error {
        ServeError::Channel(_) | ServeError::Start(StartError::Config(_)) => {
            Problem::wrong_use(error).remedy("see --help")
        }
        ServeError::Start(StartError::Verbs(VerbsError::Listen { .. })) => {
            Problem::failure(error).remedy("--listen and --instance say where")
        }
        _ => Problem::failure(error),
    }
}
