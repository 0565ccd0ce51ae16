//! A network of namespaces whose switch is this process.
//!
//! Each node is a network namespace with one interface, a TUN device at 10.88.0.N. What it sends is read here, and written
//! to the node that it is for: late, twice, spoiled or not at all, as the link between the two says. So nothing is needed of
//! the kernel but namespaces and TUN; netem is in few kernels of virtual machines.
//!
//! Namespaces are named after this process, `gwc-PIDx-N`. They go with [`Network`], on signals, and those of processes that
//! are gone are cleared away by the next run.

mod netns;
mod packet;
mod switch;

use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tun_rs::DeviceBuilder;

pub(crate) use netns::clear_leftovers;
use switch::Switch;
pub(crate) use switch::{Link, Spoiled};

/// The interface of every node.
const INTERFACE: &str = "gw0";

/// As on most cables.
const MTU: u16 = 1500;

/// Nodes and the switch between them.
pub(crate) struct Network {
    nodes: usize,
    switch: Arc<Switch>,
}

impl Network {
    /// So many nodes, from 0 on.
    ///
    /// # Errors
    /// When the kernel doesn't have what it takes, or this isn't root's process.
    pub(crate) fn up(nodes: usize, seed: u64) -> anyhow::Result<Self> {
        let mut devices = Vec::new();
        for node in 0..nodes {
            let name = netns::name(node);
            netns::ip(None, &[format!("netns add {name}")])?;
            let made = netns::within(&name, || DeviceBuilder::new().name(INTERFACE).mtu(MTU).build_sync())?;
            devices.push(made.context("a TUN device can't be made; the kernel needs CONFIG_TUN, and /dev/net/tun")?);
            netns::ip(
                Some(&name),
                &[
                    "link set dev lo up".to_owned(),
                    format!("link set dev {INTERFACE} addrgenmode none"),
                    format!("address add {}/24 dev {INTERFACE}", address(node)),
                    format!("link set dev {INTERFACE} up"),
                ],
            )?;
        }
        Ok(Self { nodes, switch: Switch::start(devices, seed) })
    }

    /// Moves the calling thread to a node, with all threads and processes that it starts from then on.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub(crate) fn move_to(node: usize) -> anyhow::Result<()> {
        netns::move_to(&netns::name(node))
    }

    /// Starts a process at a node.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn spawn(node: usize, command: &mut Command) -> anyhow::Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        netns::within(&netns::name(node), || command.spawn())?.with_context(|| format!("can't start {program}"))
    }

    /// Changes the link from one node to another.
    pub(crate) fn set(&self, from: usize, to: usize, change: impl FnOnce(&mut Link)) {
        self.switch.set(from, to, change);
    }

    /// All links are as good as new.
    pub(crate) fn mend(&self) {
        for from in 0..self.nodes {
            (0..self.nodes).for_each(|to| self.set(from, to, |link| *link = Link::default()));
        }
    }

    /// What was done to packets so far.
    pub(crate) fn spoiled(&self) -> Spoiled {
        self.switch.spoiled()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        netns::remove_own();
    }
}

/// The address of a node.
pub(crate) fn address(node: usize) -> String {
    format!("10.88.0.{}", node + 1)
}

/// Why there can be no network; `None` if there can.
pub(crate) fn obstacle() -> Option<anyhow::Error> {
    let tried = || {
        let user = rustix::process::geteuid();
        if !user.is_root() {
            bail!("network namespaces can't be made by user {}; run it as root", user.as_raw());
        }
        let network = Network::up(1, 0)?;
        drop(network);
        Ok(())
    };
    tried().err()
}

/// Ends what runs in this process's namespaces, and removes them.
pub(crate) fn end() {
    netns::remove_own();
}
