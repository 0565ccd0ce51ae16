//! A host with guests: network namespaces, joined by veths, gone when the test is.
//!
//! ```text
//! guest 1  eth0 ---- va1 \
//!                          host (bridge br0, agent) up0 --- eth0  peer
//! guest 2  eth0 ---- va2 /
//! ```

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use greenwave_host::agent::{Agent, AgentError, DeviceName, Event, Settings, Status, Stop, status};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Longer than anything takes on a machine that others use, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A host with guests.
pub(crate) struct World {
    name: String,
    spaces: Vec<String>,
    state: tempfile::TempDir,
}

impl World {
    /// A host, two guests and a peer: 10.0.0.1, .2 and .9, and fd00::1, ::2 and ::9. Nothing where that isn't allowed.
    pub(crate) fn make() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("passed over: network namespaces and eBPF need root");
            return None;
        }
        let name = format!("gw{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut world = Self { name, spaces: Vec::new(), state: tempfile::tempdir().unwrap() };
        for space in ["host", "guest1", "guest2", "peer"] {
            let made = try_command("ip", &["netns", "add", &world.space(space)]);
            if !made.is_ok_and(|done| done.status.success()) {
                eprintln!(
                    "passed over: `ip` makes no network namespaces here; to install it: apt-get install iproute2"
                );
                return None;
            }
            world.spaces.push(world.space(space));
            world.ip(space, "link set lo up");
        }
        world.ip("host", "link add br0 type bridge");
        world.ip("host", "link set br0 up");
        world.plug("guest1", "va1", 1);
        world.plug("guest2", "va2", 2);
        world.plug("peer", "up0", 9);
        Some(world)
    }

    /// Joins a namespace to the host's bridge.
    pub(crate) fn plug(&self, space: &str, device: &str, number: u32) {
        let there = self.space(space);
        self.ip("host", &format!("link add {device} type veth peer name eth0 netns {there}"));
        self.ip("host", &format!("link set dev {device} master br0"));
        self.ip(space, &format!("addr add 10.0.0.{number}/24 dev eth0"));
        self.ip(space, &format!("addr add fd00::{number}/64 dev eth0 nodad"));
        self.ip(space, "link set eth0 up");
        self.ip("host", &format!("link set dev {device} up"));
    }

    /// `ip`, in a namespace.
    pub(crate) fn ip(&self, space: &str, arguments: &str) {
        self.run(space, "ip", arguments);
    }

    /// Runs a command in a namespace to its end, which must be a good one; what it printed.
    pub(crate) fn run(&self, space: &str, program: &str, arguments: &str) -> String {
        let done = self.try_run(space, program, arguments);
        assert!(done.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Runs a command in a namespace to its end.
    pub(crate) fn try_run(&self, space: &str, program: &str, arguments: &str) -> Output {
        let there = format!("--net=/run/netns/{}", self.space(space));
        let words: Vec<_> = [there.as_str(), "--", program].into_iter().chain(arguments.split(' ')).collect();
        command("nsenter", &words)
    }

    /// Does something in a namespace, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, space: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = PathBuf::from("/run/netns").join(self.space(space));
        std::thread::scope(|scope| {
            let working = scope.spawn(move || {
                let space = File::open(path).unwrap();
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&space), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Settings for these guests' devices, with a folder of this test's own.
    pub(crate) fn settings(&self, guests: &[&str]) -> Settings {
        Settings { guests: names(guests), state: self.state.path().to_owned(), ..Settings::default() }
    }

    /// Runs an agent on the host while something else is done, and ends it.
    pub(crate) fn with_agent<T: Send>(&self, settings: Settings, work: impl FnOnce(&Running) -> T + Send) -> T {
        let stop = Stop::new().unwrap();
        let (events, heard) = std::sync::mpsc::channel();
        let running = Running { world: self, heard };
        std::thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let (ending, path) = (stop.clone(), PathBuf::from("/run/netns").join(self.space("host")));
            scope.spawn(move || {
                let space = File::open(path).unwrap();
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&space), Some(LinkNameSpaceType::Network)).unwrap();
                let mut agent = Agent::start(settings).unwrap();
                ready.send(()).unwrap();
                agent.run(&ending, &mut |event| drop(events.send(event))).unwrap();
                let _nobody_forks = FORKS.lock();
                drop(agent);
            });
            let _ends_even_after_a_panic = Ending(stop);
            is_ready.recv_timeout(PATIENCE).expect("the agent starts");
            work(&running)
        })
    }

    /// An agent that can't start.
    pub(crate) fn refusal(&self, settings: Settings) -> AgentError {
        self.within("host", || Agent::start(settings).map(drop).unwrap_err())
    }

    /// What agents on the host say.
    pub(crate) fn status(&self) -> Status {
        self.within("host", || status(self.state.path(), 1000).unwrap())
    }

    /// The folder with agents' notes.
    pub(crate) fn state(&self) -> &std::path::Path {
        self.state.path()
    }

    /// A namespace's name.
    pub(crate) fn space(&self, space: &str) -> String {
        format!("{}-{space}", self.name)
    }

    /// A socket in a namespace.
    pub(crate) fn socket(&self, space: &str, address: &str) -> UdpSocket {
        let socket = self.within(space, || UdpSocket::bind(address)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _gone_already = command("ip", &["netns", "del", space]);
        }
    }
}

/// An agent that runs.
pub(crate) struct Running<'a> {
    world: &'a World,
    heard: std::sync::mpsc::Receiver<Event>,
}

impl Running<'_> {
    /// The next thing that happens to it.
    pub(crate) fn event(&self) -> Event {
        self.heard.recv_timeout(PATIENCE).expect("an event")
    }

    /// Waits until its status is as wanted.
    pub(crate) fn await_status(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.world.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < until, "still {status:#?}");
            std::thread::yield_now();
        }
    }
}

struct Ending(Stop);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn names(names: &[&str]) -> Vec<DeviceName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Receives a packet, and the byte of its header with DSCP and ECN.
pub(crate) fn receive(socket: &UdpSocket) -> io::Result<(Vec<u8>, u8)> {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    for (level, option) in [(libc::IPPROTO_IP, libc::IP_RECVTOS), (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)] {
        // SAFETY: the option is an int, of which the size is given. The wrong one of the two is refused.
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size_of_val(&on) as u32) };
    }
    let mut data = vec![0_u8; 65_536];
    let mut control = [0_u64; 32];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all zeros is a message without buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message's buffers are as large as it says, and outlive the call.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    data.truncate(read as usize);
    let mut tos = 0;
    // SAFETY: the kernel has filled in the control buffer of this message, and says how far.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so it points to a header in the buffer; what follows is at least a byte for these kinds.
        unsafe {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    tos = *libc::CMSG_DATA(header);
                }
                _ => (),
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((data, tos))
}

fn command(program: &str, arguments: &[&str]) -> Output {
    try_command(program, arguments).unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Held while there is a child. A program is at a device until the last descriptor of its link is closed, and a child has all of
/// them from its fork on: of an agent that ends meanwhile, for another test, packets would be tagged still. It closes them at its
/// exec, but whoever made it may go on before that; once it has ended it has none for certain.
static FORKS: Mutex<()> = Mutex::new(());

fn try_command(program: &str, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let _nobody_else_forks = FORKS.lock();
    command.spawn()?.wait_with_output()
}
