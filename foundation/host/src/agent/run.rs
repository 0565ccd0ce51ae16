//! The agent at work.
//!
//! One thread does all but metrics: it waits for devices to come and go, for questions, for its end, and for the time to
//! clean the table. Packets never wait for it.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aya::Ebpf;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::control::{self, Request};
use super::device;
use super::error::AgentError;
use super::hook::{self, Attached};
use super::metrics;
use super::netlink::DeviceEvents;
use super::object;
use super::record::{Claim, Folder, Note, SocketPath};
use super::settings::{DeviceName, Hook, Settings};
use super::status::{AgentState, DeviceState, FlowState, Role, Status, census};
use super::table::Table;

/// An agent. When it is dropped, everything that it attached is taken away again.
pub struct Agent {
    // In this order they are dropped: programs first, notes of them after that.
    at_work: Vec<AtWork>,
    wanted: Vec<(DeviceName, Role)>,
    view: Arc<View>,
    ebpf: Ebpf,
    settings: Settings,
    events: DeviceEvents,
    listener: UnixListener,
    path: Option<SocketPath>,
    folder: Folder,
    metrics: Option<SocketAddr>,
    refused: HashMap<String, String>,
}

/// A device that an agent is at work at.
struct AtWork {
    name: String,
    index: u32,
    role: Role,
    attached: Attached,
    _claim: Claim,
}

/// What may be looked at by other threads.
struct View {
    table: Table,
    settings: Settings,
    devices: Mutex<Vec<Seen>>,
}

/// A device as it is shown.
#[derive(Clone)]
struct Seen {
    name: String,
    role: Role,
    at_work: Option<(u32, Hook)>,
}

/// Something that happened to an agent that runs.
#[derive(Debug)]
pub enum Event {
    /// The classifier is at work at a device that has come, or come back.
    Attached {
        /// The device.
        device: String,
    },
    /// A device is gone; the others go on.
    Gone {
        /// The device.
        device: String,
    },
    /// A device has come, and the classifier can't be attached to it; the others go on.
    Refused {
        /// The device.
        device: String,
        /// Why.
        error: AgentError,
    },
    /// The table of flows can't be cleaned. Flows that were quiet for longest still give way to new ones.
    NotCleaned {
        /// Why.
        cause: io::Error,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached { device } => write!(f, "tagging on {device}, too"),
            Self::Gone { device } => write!(f, "{device} is gone; when it comes back, so does the classifier"),
            Self::Refused { device, error } => write!(f, "not tagging on {device}: {error}"),
            Self::NotCleaned { cause } => write!(f, "the table of flows can't be cleaned: {cause}"),
        }
    }
}

/// Ends an agent that runs. Clones end the same.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Not yet.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> Result<Self, AgentError> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(|it| Self(Arc::new(it))).map_err(|error| AgentError::refused("a descriptor", error))
    }

    /// Now.
    pub fn stop(&self) {
        let _it_is_set_already = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl Agent {
    /// Attaches the classifier to all devices that are there. Devices that are named must be.
    ///
    /// # Errors
    /// If the settings can't be meant, or the system refuses. Nothing is left attached then.
    pub fn start(settings: Settings) -> Result<Self, AgentError> {
        let pace = settings.check()?;
        let named = |names: &[DeviceName], role| names.iter().map(|name| (name.clone(), role)).collect::<Vec<_>>();
        let wanted = [
            named(&settings.guests, Role::Guest),
            named(&settings.uplinks, Role::Uplink),
            named(&settings.trusted, Role::Trusted),
        ]
        .concat();
        let missing = wanted.iter().find(|(name, _)| name.prefix().is_none() && device::index(name.as_str()).is_none());
        if let Some((name, _)) = missing {
            return Err(AgentError::UnknownDevice(name.to_string()));
        }
        // Heard from now on, so that nothing is missed.
        let events = DeviceEvents::listen().map_err(|cause| AgentError::refused("to hear of devices", cause))?;
        let (ebpf, table) = object::load(&settings, &pace)?;
        let folder = Folder::make(&settings.state)?;
        let path = folder.socket_path()?;
        let at_socket = |cause| AgentError::State { path: path.socket.clone(), cause };
        let listener = UnixListener::bind(&path.socket).map_err(at_socket)?;
        listener.set_nonblocking(true).map_err(at_socket)?;
        let view = Arc::new(View { table, settings: settings.clone(), devices: Mutex::default() });
        let mut agent = Self {
            at_work: Vec::new(),
            wanted,
            view,
            ebpf,
            settings,
            events,
            listener,
            path: Some(path),
            folder,
            metrics: None,
            refused: HashMap::new(),
        };
        for (name, role) in agent.present()? {
            agent.attach(&name, role)?;
        }
        agent.show();
        if let Some(address) = agent.settings.metrics {
            let view = Arc::clone(&agent.view);
            agent.metrics = Some(metrics::serve(address, move || view.state(0).0)?);
        }
        Ok(agent)
    }

    /// Works until it is to end: by `stop`, or because [`off`](super::off()) asks for it.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub fn run(&mut self, stop: &Stop, tell: &mut dyn FnMut(Event)) -> Result<(), AgentError> {
        let pause = (self.settings.idle / 4).clamp(Duration::from_millis(250), Duration::from_secs(10));
        let mut clean_at = Instant::now() + pause;
        loop {
            let left = clean_at.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left + Duration::from_millis(1)).unwrap_or_default();
            let mut sources = [
                PollFd::new(&stop.0, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN),
            ];
            match poll(&mut sources, Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(AgentError::refused("to wait", error)),
            }
            let [stopped, asked, changed] = sources.map(|it| !it.revents().is_empty());
            if stopped {
                return Ok(());
            }
            if changed {
                self.events.clear();
                self.follow(tell);
            }
            if asked && self.answer() {
                return Ok(());
            }
            if Instant::now() >= clean_at {
                let attached = |index| self.at_work.iter().any(|it| it.index == index);
                if let Err(cause) = self.view.table.clean(self.settings.idle, attached) {
                    tell(Event::NotCleaned { cause });
                }
                clean_at = Instant::now() + pause;
                // A device that was refused may be free by now.
                self.follow(tell);
            }
        }
    }

    /// Devices that the classifier is at work at, with what is done there.
    pub fn devices(&self) -> impl Iterator<Item = (&str, Role)> {
        self.at_work.iter().map(|it| (it.name.as_str(), it.role))
    }

    /// Where metrics are served.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// What it sees, with so many flows at most.
    #[must_use]
    pub fn status(&self, most_flows: usize) -> Status {
        let (agent, flows) = self.view.state(most_flows);
        Status { agents: vec![agent], flows }
    }

    /// Devices that are wanted and there.
    fn present(&self) -> Result<Vec<(String, Role)>, AgentError> {
        let all = device::all().map_err(|cause| AgentError::refused("to list devices", cause))?;
        let mut present: Vec<(String, Role)> = Vec::new();
        for (wanted, role) in &self.wanted {
            let fits = |name: &str| wanted.prefix().map_or(name == wanted.as_str(), |prefix| name.starts_with(prefix));
            for (name, _) in all.iter().filter(|(name, _)| fits(name)) {
                // What is named for itself isn't meant by a pattern.
                let own = self.wanted.iter().any(|(other, _)| other != wanted && other.as_str() == name);
                if !own && !present.iter().any(|(other, _)| other == name) {
                    present.push((name.clone(), *role));
                }
            }
        }
        Ok(present)
    }

    fn attach(&mut self, name: &str, role: Role) -> Result<(), AgentError> {
        let index = device::index(name).ok_or_else(|| AgentError::UnknownDevice(name.to_owned()))?;
        let mut claim = self.folder.claim(name, role)?;
        let made_clsact = claim.before.as_ref().is_some_and(|note| note.made_clsact && note.index == index);
        let note = |made_clsact| Note { pid: std::process::id(), device: name.to_owned(), index, role, made_clsact };
        // Noted before it is made: who dies in between has noted too much, which only leads to a look.
        let had_clsact = super::netlink::has_clsact(index).unwrap_or(true);
        claim.note(&note(made_clsact || (!had_clsact && self.settings.hook != Hook::Tcx)))?;
        self.view.table.enter(index)?;
        let attached = match hook::attach(&mut self.ebpf, role, name, self.settings.hook, made_clsact) {
            Ok(attached) => attached,
            Err(error) => {
                self.view.table.leave(index);
                return Err(error);
            }
        };
        claim.note(&note(attached.made_clsact))?;
        self.at_work.push(AtWork { name: name.to_owned(), index, role, attached, _claim: claim });
        Ok(())
    }

    /// Lets go of devices that are gone, and attaches to those that have come.
    fn follow(&mut self, tell: &mut dyn FnMut(Event)) {
        let (here, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.at_work).into_iter().partition(|it| device::index(&it.name) == Some(it.index));
        self.at_work = here;
        for it in gone {
            self.view.table.leave(it.index);
            tell(Event::Gone { device: it.name.clone() });
        }
        let present = self.present().unwrap_or_default();
        self.refused.retain(|name, _| present.iter().any(|(there, _)| there == name));
        for (name, role) in present {
            if self.at_work.iter().any(|it| it.name == name) {
                continue;
            }
            match self.attach(&name, role) {
                Ok(()) => {
                    self.refused.remove(&name);
                    tell(Event::Attached { device: name });
                }
                // Gone again already.
                Err(AgentError::UnknownDevice(_)) => (),
                Err(error) => {
                    // Said once, not with each attempt.
                    let text = error.to_string();
                    if self.refused.insert(name.clone(), text.clone()) != Some(text) {
                        tell(Event::Refused { device: name, error });
                    }
                }
            }
        }
        self.show();
    }

    /// Answers whoever has asked; whether that was to end.
    fn answer(&self) -> bool {
        let mut end = false;
        let answered = control::answer(&self.listener, |request| match request {
            Request::Status { most_flows } => serde_json::to_vec(&self.status(most_flows)),
            Request::End => {
                end = true;
                serde_json::to_vec(&std::process::id())
            }
        });
        // Whoever asked nonsense, or doesn't listen, has no answer.
        drop(answered);
        end
    }

    /// Lets other threads see the devices as they are now.
    fn show(&self) {
        let mut seen: Vec<_> = self
            .at_work
            .iter()
            .map(|it| Seen { name: it.name.clone(), role: it.role, at_work: Some((it.index, it.attached.hook)) })
            .collect();
        for (wanted, role) in &self.wanted {
            let fits = |name: &str| wanted.prefix().map_or(name == wanted.as_str(), |prefix| name.starts_with(prefix));
            if !seen.iter().any(|it| fits(&it.name)) {
                seen.push(Seen { name: wanted.to_string(), role: *role, at_work: None });
            }
        }
        *self.view.devices.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.at_work.clear();
        drop(self.path.take());
        self.folder.remove_if_empty();
    }
}

impl View {
    fn state(&self, most_flows: usize) -> (AgentState, Vec<FlowState>) {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = |index| {
            let of_it = |it: &&Seen| it.at_work.is_some_and(|(at, _)| at == index);
            devices.iter().find(of_it).map(|it| it.name.clone())
        };
        let (flows, large_flows, largest) = match census(&self.table, most_flows, name) {
            Ok(census) => (census.flows, census.large, census.largest),
            Err(_) => (0, 0, Vec::new()),
        };
        let shown = devices.iter().map(|it| {
            let counters = it.at_work.map(|(index, _)| self.table.counters(index)).unwrap_or_default();
            let hook = it.at_work.map(|(_, hook)| if hook == Hook::Tcx { "tcx" } else { "clsact" }.to_owned());
            DeviceState::new(it.name.clone(), it.role, hook, &counters)
        });
        let agent = AgentState {
            pid: std::process::id(),
            rate: self.settings.rule.rate,
            burst: self.settings.rule.burst,
            debt_ns: self.table.pace.debt,
            flows,
            large_flows,
            room: self.table.room,
            devices: shown.collect(),
        };
        (agent, largest)
    }
}
