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
pub trait Case {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Who takes part, in the order in which they are shown.
    fn systems(&self) -> Vec<&'static str>;

    /// How often and how long each is measured; `None` if the case is left out.
    fn length(&self, quick: bool) -> Option<Length>;

    /// Whether a system takes part in a quick run, in which there isn't time for all.
    fn is_quick(&self, _system: &str) -> bool {
        true
    }

    /// Why a system can't take part here; `None` if it can.
    fn missing(&self, _bench: &Bench, _system: &str) -> Option<String> {
        None
    }

    /// Measures a system for so long.
    ///
    /// # Errors
    /// When something can't be set up or doesn't answer.
    fn run(&self, bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures>;

    /// Ratios that are taken within each round: of which metric, over whose.
    fn ratios(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Ratios that each system's figures have of themselves.
    fn own_ratios(&self) -> &'static [&'static str] {
        &[]
    }
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
