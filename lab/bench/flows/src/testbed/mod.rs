//! Guests, their hosts, a switch and receivers, on one machine, as network namespaces.
//!
//! Real packets, real queues of the kernel and real processes; only the cables are memory. One link, the bottleneck, is
//! made slow (`queue`); where everybody is shows `node`.
//!
//! Every testbed has a name, made of its owner's process id where none is given, and all its namespaces carry it:
//! `gwf-NAME-a1`. So several can be up at a time, and none is left behind: a testbed ends when it's dropped, also by a
//! panic; on SIGINT and SIGTERM ([`Testbed::end_with_signals`]); and what was killed harder is cleared away by the next
//! one that comes up, since its owner is gone.

mod feature;
mod netns;
mod node;
mod problem;
mod queue;
mod tool;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use clap::ValueEnum as _;
use greenwave_bench::process::is_gone;
use rustix::process::geteuid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use node::{E1, E2, ELSEWHERE, HOST_PORTS, Node, PORT_E, UPLINK};
pub use problem::Problem;
pub use queue::{Bands, Bottleneck, Link, SMALL_TOS};

/// What all names of namespaces begin with.
const PREFIX: &str = "gwf-";

/// Where each testbed has a folder of its name, for what its programs keep: addresses and devices have the same names in
/// all testbeds, but files are the machine's.
const FOLDER: &str = "/run/greenwave-flows";

/// Whether a signal is ending this process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A testbed that is up.
#[derive(Debug)]
pub struct Testbed {
    name: String,
    stays: bool,
    /// Why guests see more of their host than machines would; `None` if they don't.
    near: Option<String>,
}

impl Testbed {
    /// Brings up a testbed that is named after this process and ends with the value that is returned. What processes
    /// that are gone have left is cleared away before.
    ///
    /// # Errors
    /// When this isn't root's process, or the kernel has no such thing.
    pub fn up() -> Result<Self, Problem> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        clear_leftovers();
        Self::make(format!("{}{}", own_names(), MADE.fetch_add(1, Ordering::Relaxed)))
    }

    /// Brings up a testbed to be used by hand, which stays until [`Self::down`] of the same name.
    ///
    /// # Errors
    /// When there is one, and those of [`Self::up`].
    pub fn up_to_stay(name: &str) -> Result<Self, Problem> {
        let mut testbed = Self::make(checked(name)?)?;
        testbed.stays = true;
        Ok(testbed)
    }

    /// Takes down a testbed that was to stay, with all that runs in it. Says whether there was one.
    ///
    /// # Errors
    /// When a namespace can't be removed.
    pub fn down(name: &str) -> Result<bool, Problem> {
        let name = checked(name)?;
        let was_up = namespaces(&name).iter().any(|full| netns::exists(full));
        remove(&name)?;
        Ok(was_up)
    }

    /// Why there can be no testbed here; `None` if there can.
    pub fn obstacle() -> Option<Problem> {
        static TRIED: AtomicU32 = AtomicU32::new(0);
        let user = geteuid();
        if !user.is_root() {
            return Some(Problem::NotRoot { user: user.as_raw() });
        }
        let name = format!("{}try{}", own_names(), TRIED.fetch_add(1, Ordering::Relaxed));
        let there = namespace(&name, Node::A1);
        let tried = tool::ip(None, &[format!("netns add {there}")]).and_then(|()| {
            let lines = ["link add v0 type veth peer name v1", "link add br0 type bridge"].map(str::to_owned);
            tool::ip(Some(&there), &lines)?;
            tool::tc(&there, &["qdisc add dev v0 root handle 1: htb default 20".to_owned()])
        });
        tried.and(remove(&name)).err()
    }

    /// Takes this process's testbeds down when SIGINT, SIGTERM or SIGHUP ends the process.
    ///
    /// # Errors
    /// When the signals can't be caught.
    pub fn end_with_signals() -> std::io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                ENDING.store(true, Ordering::SeqCst);
                let own = own_names();
                for name in names().iter().filter(|name| name.starts_with(&own)) {
                    let _ = remove(name);
                }
                signal_hook::low_level::exit(128 + signal);
            }
        });
        Ok(())
    }

    /// Sets up the bottleneck, or one at each node, instead of those before. All other links are as fast as the machine.
    ///
    /// # Errors
    /// When the kernel doesn't have what it takes.
    pub fn limit(&self, links: &[Link]) -> Result<(), Problem> {
        self.unlimit()?;
        for link in links {
            let (node, interface) = link.interface();
            let namespace = self.namespace(node);
            if link.bands == Bands::PfifoFast {
                let packets = link.queue / 1514;
                tool::ip(Some(&namespace), &[format!("link set dev {interface} txqueuelen {packets}")])?;
            }
            tool::tc(&namespace, &link.lines())?;
        }
        Ok(())
    }

    /// Why nobody can be served like this here; `None` if they can. A bottleneck that there is goes.
    pub fn lacks(&self, bands: Bands) -> Option<String> {
        let tried = self.limit(&[Link::slow(Bottleneck::Switch, bands)]).and(self.unlimit());
        tried.err().map(|problem| format!("the kernel has no such queue: {problem}"))
    }

    /// Removes all bottlenecks.
    ///
    /// # Errors
    /// When the testbed isn't there any more.
    pub fn unlimit(&self) -> Result<(), Problem> {
        for at in [Bottleneck::Switch, Bottleneck::Host] {
            let (node, interface) = Link::slow(at, Bands::Fifo).interface();
            let namespace = self.namespace(node);
            let shown = tool::read("tc", &["-n", &namespace, "qdisc", "show", "dev", interface, "root"])?;
            if shown.contains("htb") || shown.contains("cake") {
                tool::tc(&namespace, &[format!("qdisc delete dev {interface} root")])?;
            }
        }
        Ok(())
    }

    /// Starts a process at a node, pinned to a core with all its threads if one is given.
    ///
    /// # Errors
    /// When there is no such program, or the testbed isn't there any more.
    pub fn spawn(&self, node: Node, core: Option<usize>, command: &mut Command) -> Result<Child, Problem> {
        netns::spawn(&self.namespace(node), core, command)
    }

    /// A folder for what the testbed's programs keep. It goes when the testbed does.
    pub fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// The namespace of a node: for `ip -n`, `tc -n` and `nsenter --net=/run/netns/..`.
    pub fn namespace(&self, node: Node) -> String {
        namespace(&self.name, node)
    }

    /// The names of the testbeds that are up, each with how many of its namespaces there are and how many processes run
    /// in them.
    pub fn all() -> Vec<(String, usize, usize)> {
        let count = |name: String| {
            let there: Vec<String> = namespaces(&name).into_iter().filter(|full| netns::exists(full)).collect();
            let processes = there.iter().map(|full| netns::inhabitants(full).len()).sum();
            (name, there.len(), processes)
        };
        names().into_iter().map(count).collect()
    }

    fn make(name: String) -> Result<Self, Problem> {
        let user = geteuid();
        if !user.is_root() {
            return Err(Problem::NotRoot { user: user.as_raw() });
        }
        if names().contains(&name) {
            return Err(Problem::IsUp { name });
        }
        // From here on whatever was made is removed if the rest fails.
        let mut testbed = Self { name, stays: false, near: None };
        let adding: Vec<String> = namespaces(&testbed.name).iter().map(|full| format!("netns add {full}")).collect();
        tool::ip(None, &adding)?;
        let folder = testbed.folder();
        fs::create_dir_all(&folder).map_err(|source| Problem::Folder { folder, source })?;
        for (near, near_name, far, far_name) in node::CABLES {
            let far = testbed.namespace(far);
            let line = format!("link add {near_name} type veth peer name {far_name} netns {far}");
            tool::ip(Some(&testbed.namespace(near)), &[line])?;
        }
        for &node in Node::value_variants() {
            tool::ip(Some(&testbed.namespace(node)), &set_up(node))?;
        }
        testbed.near = testbed.part_guests().err().map(|problem| problem.to_string());
        Ok(testbed)
    }

    /// Why bulk of the guests holds back as no machine's would, since their kernel is the host's; `None` if it doesn't.
    ///
    /// TCP keeps little of each connection in the queues of its own machine (*small queues*), and all namespaces are one
    /// machine. A virtual machine can't see its host's queues, and fills them.
    pub fn near_guests(&self) -> Option<&str> {
        self.near.as_deref()
    }

    /// Has hosts take packets of guests as a network card would, which ends what ties them to the connections they are
    /// of; and not put together again what TCP has cut.
    fn part_guests(&self) -> Result<(), Problem> {
        for host in Node::HOSTS {
            let namespace = self.namespace(host);
            for &(_, interface) in host.guests() {
                tool::ip(Some(&namespace), &[format!("link set dev {interface} gro_max_size 1514")])?;
                netns::within(&namespace, || feature::turn_on(interface, "rx-gro"))?
                    .map_err(|source| Problem::Feature { device: interface.to_owned(), feature: "rx-gro", source })?;
            }
        }
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // What runs here was ended by who ends the process, which mustn't look as if it ended by itself.
        while ENDING.load(Ordering::SeqCst) {
            thread::park();
        }
        if !self.stays
            && let Err(problem) = remove(&self.name)
        {
            eprintln!("the testbed can't be cleared away: {problem}");
        }
    }
}

/// The lines for `ip` that set up a node whose cables are there.
fn set_up(node: Node) -> Vec<String> {
    let ends = node::CABLES.iter().flat_map(|&(near, a, far, b)| [(near, a), (far, b)]);
    let interfaces: Vec<&str> = ends.filter(|end| end.0 == node).map(|end| end.1).collect();
    let mut lines = vec!["link set dev lo up".to_owned()];
    let forwards = node.addresses().is_empty();
    if forwards {
        lines.push("link add br0 type bridge".to_owned());
        lines.push("link set dev br0 addrgenmode none up".to_owned());
    }
    for interface in interfaces {
        // Packets as they are on a cable: a guest's super-packets of 64 KB would never fit behind a shaper.
        lines.push(format!("link set dev {interface} addrgenmode none gso_max_segs 1"));
        if forwards {
            lines.push(format!("link set dev {interface} master br0"));
        }
        lines.push(format!("link set dev {interface} up"));
    }
    lines.extend(node.addresses().iter().map(|address| format!("address add {address}/24 dev {}", node::ETH)));
    if node == Node::A1 {
        // So that there can be as many flows as one likes. B1 takes them and doesn't forward.
        lines.push(format!("route add {ELSEWHERE} via {}", Node::B1.address()));
    }
    lines
}

/// The names of the testbeds that there is anything of.
fn names() -> BTreeSet<String> {
    let name = |full: String| Some(full.strip_prefix(PREFIX)?.split_once('-')?.0.to_owned());
    netns::names().into_iter().filter_map(name).collect()
}

/// Removes a testbed, or what is there of one.
fn remove(name: &str) -> Result<(), Problem> {
    let folder = Path::new(FOLDER).join(name);
    let removed = netns::remove(namespaces(name).iter().map(String::as_str));
    // By now nobody writes there any more; it need not exist.
    let _ = fs::remove_dir_all(folder);
    let _ = fs::remove_dir(FOLDER);
    removed
}

/// Removes the testbeds whose owners are gone.
fn clear_leftovers() {
    for name in names().iter().filter(|name| owner(name).is_some_and(is_gone)) {
        // Another process may be clearing it away as well.
        let _ = remove(name);
    }
}

/// The process that a testbed belongs to; `None` if it is to stay.
fn owner(name: &str) -> Option<u32> {
    name.split_once('x')?.0.parse().ok()
}

/// What the names of this process's testbeds begin with.
fn own_names() -> String {
    format!("{}x", process::id())
}

/// All that a testbed has.
fn namespaces(name: &str) -> Vec<String> {
    Node::value_variants().iter().map(|node| namespace(name, *node)).collect()
}

fn namespace(name: &str, node: Node) -> String {
    format!("{PREFIX}{name}-{node}")
}

/// A name that can't be taken for one with an owner.
fn checked(name: &str) -> Result<String, Problem> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let fits = begins_well && name.len() <= 12 && name.chars().all(allowed);
    if fits { Ok(name.to_owned()) } else { Err(Problem::Name { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_testbed_to_stay_has_no_owner_who_could_be_gone() {
        assert_eq!(owner(&format!("{}0-a1", own_names())), Some(process::id()));
        for name in ["hand", "x", "a7x0"] {
            assert_eq!(owner(&checked(name).expect("a fine name")), None, "{name}");
        }
        for name in ["", "7x0", "-", "a-b", "../a", "A", "abcdefghijklm"] {
            assert!(checked(name).is_err(), "{name}");
        }
    }
}
