//! What every case is given: the testbed, the programs, and who runs on which core.

use std::cell::OnceCell;
use std::time::Duration;

use greenwave_bench::pin::Cores;

use crate::agent::Programs;
use crate::role::{Figures, Role};
use crate::testbed::{Node, Testbed};

/// The testbed with what runs in it.
#[derive(Debug)]
pub struct Bench {
    /// Where everything takes place.
    pub testbed: Testbed,
    /// What is run there.
    pub programs: Programs,
    cores: Cores,
    obstacle: OnceCell<Option<String>>,
}

/// Who has to share a processor with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// What is small, and has to be on time.
    Small,
    /// What is large.
    Bulk,
}

impl Bench {
    /// Brings the testbed up.
    ///
    /// # Errors
    /// Those of [`Testbed::up`].
    pub fn new(programs: Programs) -> anyhow::Result<Self> {
        let cores = Cores::choose()?;
        Ok(Self { testbed: Testbed::up()?, programs, cores, obstacle: OnceCell::new() })
    }

    /// Starts a role of [`crate::load`].
    ///
    /// # Errors
    /// Those of [`Role::start`].
    pub fn load(&self, node: Node, core: Core, words: &[&str]) -> anyhow::Result<Role> {
        Role::start(&self.testbed, node, Some(self.core(core)), self.programs.load(words), "ready")
    }

    /// The same for what must never wait for a processor itself, on the core of what is small.
    ///
    /// # Errors
    /// Those of [`Role::start`].
    pub fn load_on_time(&self, node: Node, words: &[&str]) -> anyhow::Result<Role> {
        let core = Some(self.core(Core::Small));
        Role::start(&self.testbed, node, core, self.programs.load_on_time(words), "ready")
    }

    /// The number of a core.
    pub fn core(&self, core: Core) -> usize {
        if core == Core::Small { self.cores.server } else { self.cores.client }
    }

    /// Why the agent can't tag here, so that nothing that needs it can be measured; `None` if it can. Tried once.
    pub fn agent_obstacle(&self) -> Option<String> {
        self.obstacle.get_or_init(|| self.programs.obstacle(&self.testbed)).clone()
    }
}

/// Something that is measured.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name in results.
    pub name: &'static str,
    /// Who takes part, in the order in which they are shown.
    pub systems: &'static [&'static str],
    /// How often and how long each is measured.
    pub full: Length,
    /// The same in a quick run; `None` if the case is left out.
    pub quick: Option<Length>,
    /// Systems that a quick run has no time for.
    pub not_quick: &'static [&'static str],
    /// Why a system can't take part here; `None` if it can.
    pub missing: fn(&Bench, &str) -> Option<String>,
    /// Ratios that are taken within each round: of which metric, over whose.
    pub ratios: &'static [(&'static str, &'static str)],
    /// Ratios that each system's figures have of themselves.
    pub own_ratios: &'static [&'static str],
    /// Measures a system for so long; an error when something can't be set up or doesn't answer.
    pub run: fn(&Bench, &str, Duration) -> anyhow::Result<Figures>,
}

/// How often and how long something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// In how many rounds.
    pub rounds: usize,
    /// How long in each.
    pub time: Duration,
}

impl Length {
    /// So many rounds of so many milliseconds.
    pub const fn new(rounds: usize, ms: u64) -> Self {
        Self { rounds, time: Duration::from_millis(ms) }
    }
}
