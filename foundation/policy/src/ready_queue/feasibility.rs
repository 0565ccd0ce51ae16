//! Whether all can be in time if the earliest deadline goes first, and by how much.
//!
//! Each is done when all that is due before it is done. What it then has to spare is its *lead*, and if nobody's is below zero
//! all of them are in time (Liu and Layland, 1973). A tree that is sorted by deadline knows of each of its parts how much
//! work there is, the longest, and the least lead, so that coming, going and asking take logarithmic time. It is a treap (Seidel and
//! Aragon, 1996).

use crate::random::XorShift;
use std::cmp::Ordering;

/// One of those that are to be in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The earliest goes first, in nanoseconds of the clock.
    pub(super) due: i64,
    /// When it has to be done, in the same.
    pub(super) until: i64,
    /// Of equals the smallest goes first. No two have both in common, and none has the greatest there is.
    pub(super) turn: i64,
    pub(super) work: i64,
    /// How much work is saved if it gives way; zero if it may not.
    pub(super) saved: i64,
    /// What its owner calls it: a small number of its own.
    pub(super) id: u32,
}

/// All that are to be in time.
///
/// 1. `nodes` has one for each `id` that there ever was, and a tree of those that are there, by [`Member::key`].
/// 2. A node's `all`, `longest` and `lead` are those of the tree below it.
#[derive(Clone, Debug)]
pub(super) struct Feasibility {
    nodes: Vec<Node>,
    root: u32,
    len: usize,
    /// How many times its estimate work takes.
    slowdown: f64,
    random: XorShift,
}

#[derive(Clone, Debug)]
struct Node {
    member: Member,
    less: u32,
    greater: u32,
    priority: u32,
    /// The sum of the work.
    all: i64,
    /// Of what could give way.
    longest: i64,
    /// The least time between one's deadline and the end of all the work until there, begun at time zero.
    lead: i64,
}

const NONE: u32 = u32::MAX;

impl Member {
    #[inline]
    const fn key(&self) -> (i64, i64) {
        (self.due, self.turn)
    }
}

impl Feasibility {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), root: NONE, len: 0, slowdown: 1.0, random: XorShift::new(1) }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// From now on work takes so many times its estimate. Linear, if that is another than before.
    #[inline]
    pub(super) fn set_slowdown(&mut self, slowdown: f64) {
        if self.slowdown != slowdown {
            self.slowdown = slowdown;
            self.renew_all(self.root);
        }
    }

    pub(super) fn insert(&mut self, member: Member) {
        let id = member.id as usize;
        if self.len == 0 {
            // Nobody outside knows this, and so nobody can see to it that the tree is a line.
            self.random = XorShift::new(member.due.cast_unsigned());
        }
        let priority = self.random.below(u32::MAX as usize) as u32;
        let node = Node { member, less: NONE, greater: NONE, priority, all: 0, longest: 0, lead: 0 };
        if id >= self.nodes.len() {
            // Those before it are in no tree yet, and so nobody looks at them.
            self.nodes.resize(id + 1, node.clone());
        }
        self.nodes[id] = node;
        self.root = self.insert_below(self.root, member.id);
        self.len += 1;
    }

    fn insert_below(&mut self, at: u32, id: u32) -> u32 {
        let (key, priority) = (self.nodes[id as usize].member.key(), self.nodes[id as usize].priority);
        let root = match self.node(at) {
            Some(node) if node.priority >= priority => {
                let (less, greater) = (node.less, node.greater);
                if key < node.member.key() {
                    self.nodes[at as usize].less = self.insert_below(less, id);
                } else {
                    self.nodes[at as usize].greater = self.insert_below(greater, id);
                }
                at
            }
            _ => {
                let (less, greater) = self.split(at, key);
                let node = &mut self.nodes[id as usize];
                (node.less, node.greater) = (less, greater);
                id
            }
        };
        self.renew(root);
        root
    }

    /// Takes out one that is there.
    pub(super) fn remove(&mut self, id: u32) {
        self.root = self.remove_below(self.root, id);
        self.len -= 1;
    }

    fn remove_below(&mut self, at: u32, id: u32) -> u32 {
        let Node { less, greater, member, .. } = self.nodes[at as usize];
        if at == id {
            return self.merge(less, greater);
        }
        if self.nodes[id as usize].member.key() < member.key() {
            self.nodes[at as usize].less = self.remove_below(less, id);
        } else {
            self.nodes[at as usize].greater = self.remove_below(greater, id);
        }
        self.renew(at);
        at
    }

    /// Whose deadline is the earliest.
    #[inline]
    pub(super) fn first(&self) -> Option<Member> {
        let mut at = self.node(self.root)?;
        while let Some(less) = self.node(at.less) {
            at = less;
        }
        Some(at.member)
    }

    /// By when all would have to begin for everybody to be in time, if there is anybody.
    #[inline]
    pub(super) fn lead(&self) -> Option<i64> {
        self.node(self.root).map(|all| all.lead)
    }

    /// The one with the least lead, of several the first.
    pub(super) fn tightest(&self) -> Option<Member> {
        let mut at = self.node(self.root)?;
        let mut before = 0;
        loop {
            let less = self.node(at.less);
            let until = before + less.map_or(0, |less| less.all) + at.member.work;
            let of_less = less.map_or(i64::MAX, |less| self.lead_behind(less.lead, before));
            let own = self.lead_behind(at.member.until, until);
            let greater = self.node(at.greater);
            let of_greater = greater.map_or(i64::MAX, |greater| self.lead_behind(greater.lead, until));
            match (less, greater) {
                (Some(less), _) if of_less <= own.min(of_greater) => at = less,
                (_, Some(greater)) if of_greater < own => (at, before) = (greater, until),
                _ => return Some(at.member),
            }
        }
    }

    /// Of those up to one, and that may give way, the one with the most work, of several the first.
    pub(super) fn longest_until(&self, last: &Member) -> Option<Member> {
        let mut best: Option<&Node> = None;
        let mut at = self.node(self.root);
        // Where the longest is: at a node, or in the part before it.
        let mut is_below = false;
        let longer = |best: Option<&Node>, is_below: bool, work: i64| {
            work > best.map_or(0, |best| if is_below { best.longest } else { best.member.saved })
        };
        while let Some(node) = at {
            if node.member.key() > last.key() {
                at = self.node(node.less);
                continue;
            }
            if let Some(less) = self.node(node.less).filter(|less| longer(best, is_below, less.longest)) {
                (best, is_below) = (Some(less), true);
            }
            if longer(best, is_below, node.member.saved) {
                (best, is_below) = (Some(node), false);
            }
            at = self.node(node.greater);
        }
        let mut best = best?;
        while is_below {
            match self.node(best.less).filter(|less| less.longest == best.longest) {
                Some(less) => best = less,
                None if best.member.saved == best.longest => is_below = false,
                None => best = self.node(best.greater)?,
            }
        }
        Some(best.member)
    }

    /// Of those that may give way the one with the most work, of several the first.
    pub(super) fn longest(&self) -> Option<Member> {
        let all = Member { due: i64::MAX, until: i64::MAX, turn: i64::MAX, work: 0, saved: 0, id: NONE };
        self.longest_until(&all)
    }

    #[inline]
    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// A lead, behind so much work.
    #[inline]
    fn lead_behind(&self, lead: i64, work: i64) -> i64 {
        let takes = if self.slowdown == 1.0 { work } else { (work as f64 * self.slowdown) as i64 };
        lead.saturating_sub(takes)
    }

    /// What a node knows of the tree below it.
    #[inline]
    fn renew(&mut self, id: u32) {
        let node = &self.nodes[id as usize];
        let Member { until: last, work, saved, .. } = node.member;
        let (less, greater) = (self.node(node.less), self.node(node.greater));
        let until = less.map_or(0, |less| less.all) + work;
        let all = until + greater.map_or(0, |greater| greater.all);
        let longest = |node: Option<&Node>| node.map_or(0, |node| node.longest);
        let longest = longest(less).max(saved).max(longest(greater));
        let lead = self.lead_behind(last.min(greater.map_or(i64::MAX, |greater| greater.lead)), until);
        let lead = lead.min(less.map_or(i64::MAX, |less| less.lead));
        let node = &mut self.nodes[id as usize];
        (node.all, node.longest, node.lead) = (all, longest, lead);
    }

    #[cold]
    fn renew_all(&mut self, id: u32) {
        let Some(&Node { less, greater, .. }) = self.node(id) else { return };
        self.renew_all(less);
        self.renew_all(greater);
        self.renew(id);
    }

    /// What goes before, and what doesn't.
    fn split(&mut self, id: u32, key: (i64, i64)) -> (u32, u32) {
        let Some(node) = self.node(id) else { return (NONE, NONE) };
        let (less, greater) = (node.less, node.greater);
        let parts = match node.member.key().cmp(&key) {
            Ordering::Less => {
                let (before, behind) = self.split(greater, key);
                self.nodes[id as usize].greater = before;
                (id, behind)
            }
            _ => {
                let (before, behind) = self.split(less, key);
                self.nodes[id as usize].less = behind;
                (before, id)
            }
        };
        self.renew(id);
        parts
    }

    /// One tree of two, of which all of one go before all of the other.
    fn merge(&mut self, less: u32, greater: u32) -> u32 {
        let (Some(one), Some(other)) = (self.node(less), self.node(greater)) else {
            return if less == NONE { greater } else { less };
        };
        let id = if one.priority > other.priority {
            let inner = self.merge(one.greater, greater);
            self.nodes[less as usize].greater = inner;
            less
        } else {
            let inner = self.merge(less, other.less);
            self.nodes[greater as usize].less = inner;
            greater
        };
        self.renew(id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What the tree says, found by looking at all of them in their order.
    fn searched(all: &[Member], slowdown: i64) -> Option<(Member, Member, i64)> {
        let (mut until, mut tightest) = (0, None);
        for &member in all {
            until += member.work;
            let lead = member.until - until * slowdown;
            if tightest.is_none_or(|(_, least)| lead < least) {
                tightest = Some((member, lead));
            }
        }
        tightest.map(|(member, lead)| (all[0], member, lead))
    }

    fn longest(all: &[Member], last: (i64, i64)) -> Option<Member> {
        let until = all.iter().filter(|member| member.key() <= last && member.saved > 0);
        until.fold(None, |best: Option<Member>, &member| {
            Some(best.filter(|best| best.saved >= member.saved).unwrap_or(member))
        })
    }

    proptest! {
        #[test]
        fn the_tree_knows_what_a_search_finds(
            acts in vec((0..3_u8, 0..32_u32, 0..100_i64, 0..50_i64, 1..9_i64), 1..200),
            slowdowns in vec(1..4_i64, 3),
        ) {
            let (mut tree, mut all) = (Feasibility::new(), Vec::<Member>::new());
            for (at, (act, id, due, before, work)) in acts.into_iter().enumerate() {
                let slowdown = slowdowns[at / 70];
                tree.set_slowdown(slowdown as f64);
                let there = all.iter().position(|member| member.id == id);
                match there {
                    Some(there) if act == 0 => {
                        all.remove(there);
                        tree.remove(id);
                    }
                    None => {
                        let member = Member { due, until: due - before, turn: at as i64, work, saved: work * i64::from(work % 3 > 0), id };
                        all.push(member);
                        tree.insert(member);
                    }
                    _ => {}
                }
                all.sort_by_key(Member::key);
                prop_assert_eq!(tree.len(), all.len());
                let expected = searched(&all, slowdown);
                prop_assert_eq!(tree.first(), expected.map(|(first, ..)| first));
                prop_assert_eq!(tree.tightest(), expected.map(|(_, tightest, _)| tightest));
                prop_assert_eq!(tree.lead(), expected.map(|(.., lead)| lead));
                prop_assert_eq!(tree.longest(), longest(&all, (i64::MAX, i64::MAX)));
                let until = Member { due, until: due, turn: i64::MAX, work: 0, saved: 0, id: NONE };
                prop_assert_eq!(tree.longest_until(&until), longest(&all, until.key()));
            }
        }
    }
}
