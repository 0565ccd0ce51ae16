//! Thousands of schedules by seed, and that they would find what there is to find.
//!
//! `GREENWAVE_SIM_SEED=N` runs that one alone; `GREENWAVE_SIM_SCHEDULES=N` so many.

use greenwave_sim::Seed;
use greenwave_sim::replica::schedule::{Defect, Finding, Report, run, run_with};

/// How many run in a test, unless the environment says otherwise.
const SCHEDULES: u64 = 2000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// No acknowledged write is lost, logs agree, every history is linearizable, and a group that was mended answers:
/// after kills, torn tails, partitions, cuts, clock jumps, slow, failing and full disks, pauses, handed-over leads,
/// changed memberships, snapshots, and lost disks: who has lost its own is taken out, taken in anew, and counts again.
#[test]
fn schedules_hold() {
    let seeds = match number("GREENWAVE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("GREENWAVE_SIM_SCHEDULES").unwrap_or(SCHEDULES),
    };
    let runs = seeds.end - seeds.start;
    let mut reports = Vec::new();
    for seed in seeds {
        match run(Seed::new(seed)) {
            Ok(report) => reports.push(report),
            Err(failure) => panic!("{failure}\nto see it again: GREENWAVE_SIM_SEED={seed} cargo test -p greenwave-sim"),
        }
    }
    // That it was worth something: most calls were answered, much went wrong, and leads changed.
    if runs >= 100 {
        let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
        let (calls, answered) = (sum(|report| report.calls as u64), sum(|report| report.answered as u64));
        assert!(calls > 100 * runs && answered * 10 > calls * 8, "{answered} of {calls} calls were answered");
        assert!(sum(|report| report.faults as u64) > 10 * runs, "hardly anything went wrong");
        assert!(sum(|report| report.terms as u64) > runs * 3 / 2, "leads hardly changed");
        assert!(sum(|report| report.snapshots) > runs, "hardly any snapshots");
        assert!(sum(|report| report.damages) * 100 > runs, "hardly any damage to logs was noticed");
        assert!(sum(|report| report.torn) * 100 > runs, "hardly any torn tails");
        assert!(sum(|report| report.wiped) * 10 > runs, "hardly any disks were lost");
        assert!(sum(|report| report.unwelcome) > runs, "hardly anything was said that isn't taken");
        assert!(sum(|report| u64::from(!report.decided)) * 200 < runs, "many histories took too long to check");
    }
}

/// A seed gives the same run again, event by event, and another one another.
#[test]
fn a_seed_is_a_run() {
    let hashes = |seeds: std::ops::Range<u64>| -> Vec<u64> {
        seeds
            .map(|seed| run(Seed::new(seed)).map_or_else(|failure| panic!("{failure}"), |report| report.hash))
            .collect()
    };
    let first = hashes(0..50);
    assert_eq!(first, hashes(0..50));
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 50);
}

/// Whether one of the first seeds finds a defect in such a way.
fn is_found(defect: Defect, seeds: u64, so: impl Fn(&Finding) -> bool) -> bool {
    (0..seeds).filter_map(|seed| run_with(Seed::new(seed), defect).err()).any(|failure| so(&failure.finding))
}

fn is_not_linearizable(finding: &Finding) -> bool {
    matches!(finding, Finding::NotLinearizable(_))
}

fn has_lost_writes(finding: &Finding) -> bool {
    matches!(finding, Finding::NotLinearizable(_) | Finding::Violation(_))
}

/// Acknowledging before a write is durable is found.
#[test]
fn early_acknowledgements_are_found() {
    assert!(is_found(Defect::EarlyPersisted, 1000, has_lost_writes));
}

/// A disk that loses what it has synced is found.
#[test]
fn forgetful_disks_are_found() {
    assert!(is_found(Defect::ForgetfulDisk, 1000, has_lost_writes));
}

/// Commands that are sent again without a session, and so are done twice, are found.
#[test]
fn double_application_is_found() {
    assert!(is_found(Defect::NoSessions, 1000, is_not_linearizable));
}

/// Reads that ask nobody whether they are still of the newest state are found.
#[test]
fn stale_reads_are_found() {
    assert!(is_found(Defect::StaleReads, 1000, is_not_linearizable));
}

/// Who has lost its disk, and votes as who it was, is found.
#[test]
fn lost_disks_that_vote_are_found() {
    assert!(is_found(Defect::WipedVotes, 2000, has_lost_writes));
}
