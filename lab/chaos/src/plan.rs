//! Which faults come when: a list that follows from the seed alone.
//!
//! Faults come in rounds. Those of a round may overlap; after it everything is mended, and the group is put to the test at
//! rest ([`crate::checkpoint`]). Whom a fault hits is said by role where that depends on the run: the plan says "who leads",
//! and who that is shows when the time has come.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use serde::Serialize;

/// How long a round takes, mending and the test at rest included; more where something is slow.
pub(crate) const ROUND: Duration = Duration::from_secs(8);

/// Faults begin and end within so much of their round.
const FAULTS_WITHIN: Duration = Duration::from_secs(9);

/// All faults of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    /// What all of it follows from, beside the options.
    pub(crate) seed: u64,
    /// One after the other.
    pub(crate) rounds: Vec<Round>,
}

/// Faults that may overlap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Round {
    /// By when they begin.
    pub(crate) faults: Vec<Fault>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// When it begins, after the round has.
    pub(crate) after: Duration,
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// What happens.
    pub(crate) kind: Kind,
    /// To whom.
    pub(crate) target: Target,
    /// What is to be drawn while it happens: which writes a power cut keeps, how many descriptors there are.
    pub(crate) draw: u64,
}

/// Who is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Target {
    /// Who leads when the time has come.
    Leader,
    /// One of those that don't lead, by its place among them.
    Follower(usize),
    /// All replicas.
    All,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
pub(crate) enum Kind {
    /// SIGKILL, and started again
    Kill,
    /// SIGSTOP, and SIGCONT
    Pause,
    /// a replica is cut off from the others, in both directions, and clients reach all
    Partition,
    /// a replica is cut off from the others and from clients
    Isolate,
    /// what a replica sends to the others is lost, and it hears them
    Mute,
    /// what the others send to a replica is lost, and they hear it
    Deaf,
    /// packets take long, and not all equally long
    Delay,
    /// packets are lost
    Loss,
    /// packets come twice
    Duplicate,
    /// packets overtake one another
    Reorder,
    /// bits of packets flip, which TCP notices
    Corrupt,
    /// bytes between replicas change and TCP doesn't notice
    Forge,
    /// clients ask for much and read nothing
    SlowReader,
    /// the disk is full
    DiskFull,
    /// syncs take long
    DiskSlow,
    /// syncs fail, and what they were to write is never written
    SyncFails,
    /// a replica ends and of what wasn't synced nothing is kept
    PowerCut,
    /// a replica ends and of what wasn't synced some is kept, by blocks and sectors
    PowerTorn,
    /// a replica ends, and its monotonic clock stands elsewhere when it is started again
    ClockShift,
    /// no more file descriptors than are open
    Descriptors,
    /// hardly more memory than is in use
    Memory,
    /// a replica loses its disk, is removed from the group and added to it
    Wipe,
    /// all replicas are ended in good order and started again, one after the other, with the other binary if there are two
    Rolling,
}

impl Kind {
    /// Whether it takes a whole group otherwise: it is a round of its own.
    fn is_alone(self) -> bool {
        matches!(self, Self::Wipe | Self::Rolling)
    }

    /// Whether it makes sense for all replicas at a time.
    fn may_hit_all(self) -> bool {
        use Kind::{Corrupt, Delay, DiskSlow, Duplicate, Forge, Kill, Loss, Pause, PowerCut, PowerTorn, Reorder};
        let kinds = [Kill, Pause, Delay, Loss, Duplicate, Reorder, Corrupt, Forge, DiskSlow, PowerCut, PowerTorn];
        kinds.contains(&self)
    }
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The seed.
    pub(crate) seed: u64,
    /// How many replicas there are.
    pub(crate) replicas: usize,
    /// For so long, if not for a number of faults.
    pub(crate) time: Duration,
    /// So many faults, if that is said.
    pub(crate) faults: Option<usize>,
    /// Which kinds; all if there are none.
    pub(crate) only: Vec<Kind>,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(wanted: &Wanted) -> Self {
        let mut draw = Draw(ChaCha8Rng::seed_from_u64(wanted.seed));
        let kinds = if wanted.only.is_empty() { Kind::value_variants() } else { &wanted.only };
        let rounds = (wanted.time.as_secs_f64() / ROUND.as_secs_f64()).ceil().max(1.0) as usize;
        let (mut plan, mut bag) = (Self { seed: wanted.seed, rounds: Vec::new() }, Vec::new());
        let mut left = wanted.faults.unwrap_or(usize::MAX);
        while left > 0 && (wanted.faults.is_some() || plan.rounds.len() < rounds) {
            // Each kind comes once before one comes twice.
            let first = bag.pop().unwrap_or_else(|| {
                bag = draw.shuffled(kinds);
                bag.pop().unwrap_or(Kind::Kill)
            });
            let more = if first.is_alone() { 0 } else { [0, 0, 1, 1, 2][draw.below(5)] };
            let beside = kinds.iter().copied().filter(|kind| !kind.is_alone()).collect::<Vec<_>>();
            let mut round = vec![first];
            round.extend((0..more.min(left - 1)).filter_map(|_| draw.one_of(&beside)));
            left -= round.len();
            let mut faults: Vec<Fault> = round.into_iter().map(|kind| draw.fault(kind, wanted.replicas)).collect();
            faults.sort_by_key(|fault| fault.after);
            plan.rounds.push(Round { faults });
        }
        plan
    }

    /// All of them.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.rounds.iter().flat_map(|round| &round.faults)
    }
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let at = self.below(of.len());
        of.get(at).copied()
    }

    fn shuffled(&mut self, kinds: &[Kind]) -> Vec<Kind> {
        let mut kinds = kinds.to_vec();
        for at in (1..kinds.len()).rev() {
            let other = self.below(at + 1);
            kinds.swap(at, other);
        }
        kinds
    }

    fn fault(&mut self, kind: Kind, replicas: usize) -> Fault {
        let after = Duration::from_millis(500 + 100 * self.below(30) as u64);
        let most = (FAULTS_WITHIN - after).as_millis() as usize / 100;
        let lasts = Duration::from_millis(500 + 100 * self.below(most - 5) as u64);
        let target = match self.below(10) {
            0..2 if kind.may_hit_all() => Target::All,
            0..6 => Target::Leader,
            _ => Target::Follower(self.below(replicas.saturating_sub(1))),
        };
        Fault { after, lasts, kind, target, draw: self.0.next_u64() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => f.write_str("who leads"),
            Self::Follower(place) => write!(f, "follower {}", place + 1),
            Self::All => f.write_str("all"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, lasts, kind, target, .. } = self;
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        write!(f, "after {after:.1?} for {lasts:.1?}: {name}, {target}")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} faults in {} rounds", self.seed, self.faults().count(), self.rounds.len())?;
        for (number, round) in self.rounds.iter().enumerate() {
            writeln!(f, "round {}", number + 1)?;
            round.faults.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn wanted(seed: u64) -> Wanted {
        let time = Duration::from_secs(600);
        Wanted { seed, replicas: 3, time, faults: None, only: Vec::new() }
    }

    #[test]
    fn the_documents_count_as_many_kinds() {
        let count = Kind::value_variants().len();
        for (text, said) in [
            (include_str!("../../../docs/replica.md"), format!("faults of {count} kinds")),
            (include_str!("../../../docs/promises.md"), format!("{count} kinds of faults")),
            (include_str!("../../../docs/chaos.md"), format!("{} clients get, put", crate::load::CLIENTS)),
        ] {
            assert!(text.contains(&said), "no document says `{said}`");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        assert_eq!(Plan::new(&wanted(7)), Plan::new(&wanted(7)));
        assert_ne!(Plan::new(&wanted(7)), Plan::new(&wanted(8)));
    }

    #[test]
    fn a_plan_of_one_more_minute_begins_as_the_shorter_one_does() {
        let longer = Wanted { time: Duration::from_secs(660), ..wanted(7) };
        let (plan, longer) = (Plan::new(&wanted(7)), Plan::new(&longer));
        assert_eq!(longer.rounds[..plan.rounds.len()], plan.rounds[..]);
    }

    #[test]
    fn every_kind_of_fault_comes_and_those_that_take_the_group_come_alone() {
        for seed in 0..50 {
            let plan = Plan::new(&wanted(seed));
            let kinds: BTreeSet<Kind> = plan.faults().map(|fault| fault.kind).collect();
            assert_eq!(kinds.len(), Kind::value_variants().len());
            for round in &plan.rounds {
                assert!(round.faults.len() == 1 || round.faults.iter().all(|fault| !fault.kind.is_alone()));
                assert!(round.faults.iter().all(|fault| fault.after + fault.lasts <= FAULTS_WITHIN));
            }
        }
    }

    #[test]
    fn a_number_of_faults_is_kept_and_so_is_a_choice_of_kinds() {
        for faults in 1..40 {
            let wanted = Wanted { faults: Some(faults), only: vec![Kind::Kill, Kind::Pause], ..wanted(faults as u64) };
            let plan = Plan::new(&wanted);
            assert_eq!(plan.faults().count(), faults);
            assert!(plan.faults().all(|fault| wanted.only.contains(&fault.kind)));
        }
    }
}
