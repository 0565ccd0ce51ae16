//! The group at rest, after everything was mended: is it alive, are the replicas equal?

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use crate::group::{Group, Rows};
use crate::load::Shared;
use crate::replica;
use crate::value;

/// How long the group may take to write again when nothing is wrong any more.
const ALIVE: Duration = Duration::from_secs(60);

/// How long replicas may take to have applied the same when nothing is written.
const EQUAL: Duration = Duration::from_secs(60);

/// How long a replica may take to end after something has failed, and how often that is looked at.
const ENDS: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// What was found at a checkpoint, beside what shouldn't be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// How long a write took when all was mended.
    pub(crate) alive_after: Duration,
    /// Rows of each replica.
    pub(crate) rows: usize,
}

/// Puts the group to the test. Calls of clients are held back meanwhile.
pub(crate) fn check(group: &mut Group, shared: &Shared) -> Passed {
    bring_back(group, shared);
    for replica in &mut group.replicas {
        if let Some(status) = replica.ended() {
            shared.find(format!("replica {} ended by itself: {}", replica.id(), replica::shown(status)));
        }
        if let Err(error) = replica.start(0) {
            shared.find(format!("replica {} doesn't start: {error:#}", replica.id()));
        }
    }
    let mut passed = Passed::default();
    match group.probe(ALIVE) {
        Ok(after) => passed.alive_after = after,
        Err(why) => shared.find(format!("nothing can be written {ALIVE:?} after all was mended: {why}")),
    }
    let open = shared.pause();
    if open > 0 {
        shared.find(format!("{open} calls were neither answered nor failed long after their deadlines"));
    }
    match equal(group) {
        Ok(rows) => passed.rows = rows,
        Err(why) => shared.find(why),
    }
    for replica in &mut group.replicas {
        if let Some(status) = replica.ended() {
            shared.find(format!("replica {} ended with nothing wrong: {}", replica.id(), replica::shown(status)));
        }
    }
    passed
}

/// A replica to which something failed ends by itself, and takes a moment for that. It is started again, as whoever runs it
/// would do.
fn bring_back(group: &mut Group, shared: &Shared) {
    let begun = Instant::now();
    while !group.may_end.is_empty() && begun.elapsed() < ENDS {
        let Group { may_end, replicas, .. } = group;
        may_end.retain(|node| {
            let has_ended = replicas[*node].ended().is_some();
            if has_ended && let Err(error) = replicas[*node].start(0) {
                shared.find(format!("replica {} doesn't start: {error:#}", replicas[*node].id()));
            }
            !has_ended
        });
        thread::sleep(LOOK);
    }
    group.may_end.clear();
}

/// Whether all replicas have the same rows, and how many. What clients were told nothing of may still be done meanwhile, so
/// it is looked at some times.
fn equal(group: &mut Group) -> Result<usize, String> {
    let mut differs = String::new();
    for _ in 0..5 {
        group.settle(EQUAL).map_err(|told| format!("replicas don't come to the same within {EQUAL:?}: {told}"))?;
        let rows: Result<Vec<Rows>, _> = (0..group.replicas.len()).map(Group::rows).collect();
        let rows = rows.map_err(|error| format!("a replica can't be read at rest: {error:#}"))?;
        match difference(&rows) {
            None => return Ok(rows.first().map_or(0, Vec::len)),
            Some(found) => differs = found,
        }
    }
    Err(format!("replicas differ at rest: {differs}"))
}

fn difference(rows: &[Rows]) -> Option<String> {
    let (first, others) = rows.split_first()?;
    let at = others.iter().position(|other| other != first)?;
    let (one, other): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (first.iter().cloned().collect(), others[at].iter().cloned().collect());
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).filter(|key| one.get(*key) != other.get(*key)).collect();
    let name = |of: &BTreeMap<_, Vec<u8>>, key: &Vec<u8>| of.get(key).map(|bytes| value::name(bytes));
    let shown = |key: &&Vec<u8>| format!("{}: {:?}, {:?}", key.escape_ascii(), name(&one, key), name(&other, key));
    let shown: Vec<_> = keys.iter().take(5).map(shown).collect();
    let rows = (one.len(), other.len());
    Some(format!("1 and {} in {} keys ({} and {} rows): {}", at + 2, keys.len(), rows.0, rows.1, shown.join("; ")))
}
