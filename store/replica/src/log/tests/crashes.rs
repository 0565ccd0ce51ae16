//! Whatever is written, and wherever the process or the machine stops: what was synced is there, in order, and nothing
//! but what the sync under way would have added.

use proptest::prelude::*;

use super::model::{Model, Step, any_step};
use super::*;
use crate::log::faulty::Fault;

/// What goes wrong while steps are done.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    fault: Fault,
    /// Whether the machine stops too.
    power: bool,
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    let fault = (0..8_u8, 1..40_u64).prop_map(|(kind, after)| match kind {
        0 => Fault::Write(after),
        1 => Fault::Sync(after),
        _ => Fault::End(after),
    });
    (fault, any::<bool>()).prop_map(|(fault, power)| Trouble { fault, power })
}

/// A log, and what it may hold.
struct Tried {
    disk: FaultyDisk,
    durable: Model,
    /// What a sync that failed would have made of it.
    attempted: Option<Model>,
    now: Model,
}

impl Tried {
    /// Does steps until all are done or something fails; says how many were done.
    fn run(&mut self, steps: &[Step]) -> Result<(), LogError> {
        let mut log = self.open()?;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Sync => {
                    self.attempted = Some(self.now.clone());
                    log.sync()?;
                    self.durable = self.now.clone();
                    self.attempted = None;
                }
                Step::Compact => {
                    log.compact(u64::MAX)?;
                }
                Step::Open => {
                    drop(log);
                    self.now = self.durable.clone();
                    log = self.open()?;
                }
                _ => {
                    let write = self.now.write(step, number).unwrap();
                    log.append(&write)?;
                    self.now.apply(&write);
                    assert_eq!(log.last(), self.now.last());
                    assert_eq!(log.beginning(), self.now.snapshot.index);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Log<FaultyDisk>, LogError> {
        let (log, recovered) = open(&self.disk)?;
        let expected = self.attempted.iter().chain([&self.durable]).find(|model| **model == recovered);
        let Some(expected) = expected else {
            panic!("found {recovered:?}\nwanted {:?}\nor {:?}", self.durable, self.attempted)
        };
        self.durable = Model { hard_state: recovered.hard_state, ..expected.clone() };
        self.now = self.durable.clone();
        self.attempted = None;
        Ok(log)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_is_there_and_nothing_is_invented(
        seed in any::<u64>(),
        short in any::<bool>(),
        rounds in prop::collection::vec((prop::collection::vec(any_step(), 0..40), any_trouble()), 1..5),
    ) {
        let (durable, now) = (Model::default(), Model::default());
        let mut tried = Tried { disk: FaultyDisk::new(seed), durable, attempted: None, now };
        for (steps, Trouble { fault, power }) in rounds {
            tried.disk.write_short(short);
            tried.disk.fail(fault);
            if let Err(error) = tried.run(&steps) {
                let expected = matches!(error, LogError::Io { .. } | LogError::Poisoned { .. });
                prop_assert!(expected, "{error}");
            }
            tried.disk = if power { tried.disk.after_power_loss() } else { tried.disk.after_kill() };
        }
        tried.run(&[]).unwrap();
    }
}

/// The sync of an earlier process failed, a later one read what it had written from memory, and then the power went.
#[test]
fn what_is_recovered_is_durable_even_if_the_sync_that_wrote_it_failed() {
    for seed in 0..50 {
        let disk = FaultyDisk::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        log.append(&entries(1..=3, 100)).unwrap();
        disk.fail(Fault::Sync(1));
        assert!(log.sync().is_err());
        let disk = disk.after_kill();
        let (_, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.entries.len(), 3, "it is in the system's memory");
        let (_, after) = open(&disk.after_power_loss()).unwrap();
        assert_eq!(after, recovered);
    }
}

/// A torn block was cut off, the sync of that failed, and the block that came in its place was torn as well.
#[test]
fn a_torn_block_whose_cut_was_not_synced_does_not_come_back() {
    let tear = |disk: &FaultyDisk, bytes: usize| {
        let (mut log, recovered) = open(disk).unwrap();
        let next = recovered.entries.len() as u64 + 1;
        log.append(&entries(next..=next, bytes)).unwrap();
        disk.fail(Fault::End(2));
        assert!(log.sync().is_err());
        disk.after_power_loss()
    };
    for seed in 0..200 {
        let disk = tear(&FaultyDisk::new(seed), 2000);
        disk.fail(Fault::Sync(1));
        assert!(open(&disk).is_err());
        let disk = tear(&disk.after_kill(), 600);
        assert!(open(&disk).is_ok(), "seed {seed}");
    }
}

#[test]
fn a_log_can_be_opened_again_and_again() {
    let disk = FaultyDisk::new(1);
    let mut sizes = Vec::new();
    for index in 1..=50 {
        let (mut log, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.entries.len() as u64, index - 1);
        log.append(&entries(index..=index, 10)).unwrap();
        log.sync().unwrap();
        sizes.push(disk.used());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "restarts alone take no room: {sizes:?}");
}
