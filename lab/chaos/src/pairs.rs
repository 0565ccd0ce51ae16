//! Scans that see several keys at one time.
//!
//! One client writes a number to the first key of a pair, and when that is acknowledged the same number to the second. So
//! whoever sees both at one time sees in the first one no smaller number than in the second one. After a write of unknown
//! outcome, which may still be done later, another pair is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use greenwave::Context;

use crate::history::{Ask, Outcome};
use crate::load::{self, Shared};

const DEADLINE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_millis(8);

/// Starts the client that writes, and one that scans.
pub(crate) fn start(shared: &Arc<Shared>, replicas: usize) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let pair = Arc::new(AtomicUsize::new(0));
    let (mut writes, mut scans) = (load::client(replicas)?, load::client(replicas)?);
    let (of_writer, of_scanner) = ((Arc::clone(shared), Arc::clone(&pair)), (Arc::clone(shared), pair));
    let writer = move || {
        let (shared, pair) = of_writer;
        let mut number = 0;
        while shared.enter() {
            number += 1;
            for key in keys(pair.load(Ordering::Relaxed)) {
                let ask = Ask::Put { key, value: format!("pair-{number}") };
                let context = Context::with_deadline(DEADLINE);
                let outcome =
                    shared.call(load::CLIENTS, ask, |ask| load::make(&mut writes, &context, ask, shared.reads));
                if outcome != Outcome::Written {
                    if matches!(outcome, Outcome::Unknown(_)) {
                        pair.fetch_add(1, Ordering::Relaxed);
                    }
                    break;
                }
            }
            shared.leave();
            thread::sleep(REST);
        }
    };
    let scanner = move || {
        let (shared, pair) = of_scanner;
        while shared.enter() {
            let keys = keys(pair.load(Ordering::Relaxed));
            let ask = Ask::Scan { keys: keys.to_vec() };
            let context = Context::with_deadline(DEADLINE);
            let outcome =
                shared.call(load::CLIENTS + 1, ask, |ask| load::make(&mut scans, &context, ask, shared.reads));
            if let Outcome::Rows(rows) = &outcome
                && !fits(&keys, rows)
            {
                shared.find(format!("a scan saw {} of different times: {rows:?}", keys.join(" and ")));
            }
            shared.leave();
            thread::sleep(REST);
        }
    };
    Ok(vec![thread::spawn(writer), thread::spawn(scanner)])
}

fn keys(pair: usize) -> [String; 2] {
    [format!("pair-{pair:05}-a"), format!("pair-{pair:05}-b")]
}

/// Whether both can have been seen at one time.
fn fits(keys: &[String; 2], rows: &[(String, String)]) -> bool {
    let number = |of: &String| {
        let row = rows.iter().find(|(key, _)| key == of);
        row.map_or(Some(0), |(_, value)| value.strip_prefix("pair-")?.parse::<u64>().ok())
    };
    match (number(&keys[0]), number(&keys[1])) {
        (Some(first), Some(second)) => first >= second,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_a_pair_is_never_ahead_of_the_first() {
        let keys = keys(3);
        let row = |key: usize, number: u32| (keys[key].clone(), format!("pair-{number}"));
        assert!(fits(&keys, &[]));
        assert!(fits(&keys, &[row(0, 1)]));
        assert!(fits(&keys, &[row(0, 2), row(1, 1)]));
        assert!(fits(&keys, &[row(0, 2), row(1, 2)]));
        assert!(!fits(&keys, &[row(1, 1)]));
        assert!(!fits(&keys, &[row(0, 1), row(1, 2)]));
        assert!(!fits(&keys, &[(keys[0].clone(), "damaged".into())]));
    }
}
