//! Receipts as the tree that their preorder describes: adding a call, the critical path, and what to leave out.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Receipt, STAGES_MOST, StageReceipt};
use crate::wire::RECEIPT_BYTES_MOST;

/// A stage, by its index, with those behind it, which follow it in the list.
#[derive(Clone, Copy)]
struct Subtree {
    root: usize,
    end: usize,
}

/// The subtrees of a part of the list, one for each stage that no other stage of the part called.
struct Siblings<'a> {
    stages: &'a [StageReceipt],
    next: usize,
    end: usize,
}

impl Iterator for Siblings<'_> {
    type Item = Subtree;

    fn next(&mut self) -> Option<Subtree> {
        let (root, rest) = self.stages[self.next..self.end].split_first()?;
        let below = rest.iter().take_while(|stage| stage.depth > root.depth).count();
        let subtree = Subtree { root: self.next, end: self.next + 1 + below };
        self.next = subtree.end;
        Some(subtree)
    }
}

/// Branches of one parallel unit, as far as they were seen: siblings in a row that have an index each, and of which
/// each was sent while an answer to an earlier one was missing.
///
/// By time, not by index: a parent may have several units one after the other, a hedge repeats an index, and of
/// a unit that was trimmed the first branch may be gone.
struct Unit {
    slowest: Subtree,
    answered: Duration,
}

impl Receipt {
    /// Adds a call that this stage made, with what lies behind its callee. `call.depth` is set to 0.
    ///
    /// Calls are added in the order in which they were made.
    pub fn add(&mut self, call: StageReceipt, behind: &Receipt) {
        self.children.push(StageReceipt { depth: 0, ..call });
        let deeper = behind
            .children
            .iter()
            .filter_map(|stage| stage.depth.checked_add(1).map(|depth| StageReceipt { depth, ..*stage }));
        let before = self.children.len();
        self.children.extend(deeper);
        let too_deep = behind.children.len() - (self.children.len() - before);
        self.omit(too_deep);
        self.omitted = self.omitted.saturating_add(behind.omitted);
        // Twice as many as are sent: so a wide fan-out sorts once in a while, and not for each branch.
        if self.children.len() > 2 * STAGES_MOST {
            self.trim(STAGES_MOST, RECEIPT_BYTES_MOST);
        }
    }

    /// The time that the answer had to take: queue and service of the callee, and network, queue and service of the
    /// stages behind it, of the branches of a parallel unit only the slowest.
    ///
    /// It equals what the client's clock measures, less what a stage waited for without a receipt: a call that
    /// was given up, or stages that were omitted.
    pub fn critical_path(&self) -> Duration {
        let mut path = self.queue.saturating_add(self.service);
        self.for_each_critical(|_, stage| path = path.saturating_add(stage.own()));
        path
    }

    /// The stage on the critical path that took the most by itself, in network, queue and service. `None` if
    /// that is the callee.
    pub fn costliest(&self) -> Option<&StageReceipt> {
        let mut most = self.queue.saturating_add(self.service);
        let mut costliest = None;
        self.for_each_critical(|_, stage| {
            if stage.own() > most {
                (most, costliest) = (stage.own(), Some(stage));
            }
        });
        costliest
    }

    /// Leaves out what exceeds this many stages or this many bytes, and counts it. The critical path stays longest,
    /// then the slower of the other stages; none stays without those that it was called by.
    pub fn trim(&mut self, stages: usize, bytes: usize) {
        let kept = self.worth_keeping(stages, bytes);
        let mut keep = vec![false; self.children.len()];
        kept.iter().for_each(|&index| keep[index] = true);
        self.omit(keep.len() - kept.len());
        let mut keep = keep.into_iter();
        self.children.retain(|_| keep.next().unwrap_or(false));
    }

    /// The indices of the stages to keep.
    ///
    /// A stage counts as no slower than the one that called it, and is on the critical path only if that is: so
    /// in this order callers come before callees, and any first part of it is a tree.
    fn worth_keeping(&self, stages: usize, bytes: usize) -> Vec<usize> {
        let mut critical = vec![false; self.children.len()];
        self.for_each_critical(|index, _| critical[index] = true);
        let mut callers: Vec<Duration> = Vec::new();
        let mut order = Vec::with_capacity(self.children.len());
        for (index, stage) in self.children.iter().enumerate() {
            callers.truncate(stage.depth.into());
            let weight = stage.round_trip().min(callers.last().copied().unwrap_or(Duration::MAX));
            callers.resize(usize::from(stage.depth) + 1, weight);
            order.push((Reverse(critical[index]), Reverse(weight), index));
        }
        order.sort_unstable();
        // The count of those omitted takes up to five bytes.
        let mut room = bytes.saturating_sub(5);
        let fitting = order.iter().map_while(|&(_, _, index)| {
            room = room.checked_sub(self.children[index].encoded_len())?;
            Some(index)
        });
        fitting.take(stages).collect()
    }

    fn for_each_critical<'a>(&'a self, mut visit: impl FnMut(usize, &'a StageReceipt)) {
        visit_critical(&self.children, (0, self.children.len()), &mut visit);
    }

    fn omit(&mut self, count: usize) {
        self.omitted = self.omitted.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

impl StageReceipt {
    /// What the stage took by itself, and the way to it and back.
    fn own(&self) -> Duration {
        self.network.saturating_add(self.queue).saturating_add(self.service)
    }
}

/// Visits the stages from `next` to `end` that are on the critical path.
fn visit_critical<'a>(
    stages: &'a [StageReceipt],
    (next, end): (usize, usize),
    visit: &mut dyn FnMut(usize, &'a StageReceipt),
) {
    let mut unit: Option<Unit> = None;
    for subtree in (Siblings { stages, next, end }) {
        let root = &stages[subtree.root];
        let joined = root.branch.is_some() && unit.as_mut().is_some_and(|unit| unit.join(stages, subtree));
        if joined {
            continue;
        }
        if let Some(unit) = unit.take() {
            visit_subtree(stages, unit.slowest, visit);
        }
        if root.branch.is_some() {
            unit = Some(Unit { slowest: subtree, answered: root.answered_after() });
        } else {
            visit_subtree(stages, subtree, visit);
        }
    }
    if let Some(unit) = unit {
        visit_subtree(stages, unit.slowest, visit);
    }
}

fn visit_subtree<'a>(stages: &'a [StageReceipt], subtree: Subtree, visit: &mut dyn FnMut(usize, &'a StageReceipt)) {
    visit(subtree.root, &stages[subtree.root]);
    visit_critical(stages, (subtree.root + 1, subtree.end), visit);
}

impl Unit {
    /// Takes a branch in, unless it belongs to a later unit.
    fn join(&mut self, stages: &[StageReceipt], branch: Subtree) -> bool {
        let root = &stages[branch.root];
        if root.sent_after >= self.answered {
            return false;
        }
        if root.round_trip() > stages[self.slowest.root].round_trip() {
            self.slowest = branch;
        }
        self.answered = self.answered.max(root.answered_after());
        true
    }
}

#[cfg(test)]
mod tests;
