//! Endpoints in shared memory that are closed, and others of this process may still reach into.
//!
//! libfabric maps the memory of an endpoint in the same process once for all, and takes it away when that endpoint is
//! closed: another one that handles what it has sent before then reads what is no longer there. So an endpoint that is
//! done with is kept until all endpoints of this process that it talked with are done too, and those that they talked
//! with. It costs memory (4 MiB or so each) for as long as one of them lives. Between processes there is no such bond.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::port::Body;

static GRAVES: Mutex<Option<Graves>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Graves(HashMap<Box<[u8]>, Plot>);

/// An endpoint of this process, by name.
#[derive(Debug, Default)]
struct Plot {
    /// Once it is done with.
    body: Option<Body>,
    talked_with: HashSet<Box<[u8]>>,
}

fn with<T>(work: impl FnOnce(&mut Graves) -> T) -> T {
    let mut graves = GRAVES.lock().unwrap_or_else(PoisonError::into_inner);
    work(graves.get_or_insert_default())
}

/// Notes an endpoint that was opened.
pub(super) fn enter(name: &[u8]) {
    with(|graves| drop(graves.0.insert(name.into(), Plot::default())));
}

/// Notes that two endpoints are about to talk, if both are of this process.
pub(super) fn bind(one: &[u8], other: &[u8]) {
    with(|graves| {
        if graves.0.contains_key(one) && graves.0.contains_key(other) {
            for (from, to) in [(one, other), (other, one)] {
                graves.0.entry(from.into()).or_default().talked_with.insert(to.into());
            }
        }
    });
}

/// Buries an endpoint that is done with, and gives up all that nobody reaches into any more.
pub(super) fn bury(name: &[u8], body: Body) {
    let gone = with(|graves| {
        graves.0.entry(name.into()).or_default().body = Some(body);
        graves.take_dead_around(name)
    });
    drop(gone);
}

impl Graves {
    /// Takes out an endpoint and all that are bound to it, directly or not, if all of them are done with.
    fn take_dead_around(&mut self, name: &[u8]) -> Vec<Plot> {
        let mut around: Vec<Box<[u8]>> = vec![name.into()];
        let mut index = 0;
        while let Some(next) = around.get(index).and_then(|name| self.0.get(name)) {
            let new = next.talked_with.iter().filter(|other| !around.contains(other)).cloned();
            let new: Vec<_> = new.collect();
            around.extend(new);
            index += 1;
        }
        if around.iter().any(|name| self.0.get(name).is_some_and(|plot| plot.body.is_none())) {
            return Vec::new();
        }
        around.iter().filter_map(|name| self.0.remove(name)).collect()
    }
}
