//! The loops of a control-flow graph: dominators, natural loops and how they nest. Nothing here knows of LLVM.

use crate::place::Block;
use std::collections::HashMap;

/// A natural loop: all blocks from which its header can be reached without leaving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) header: usize,
    /// The blocks from which an edge leads back to the header.
    pub(crate) latches: Vec<usize>,
    /// All its blocks, those of inner loops too, in ascending order.
    pub(crate) blocks: Vec<usize>,
    /// Whether another loop lies within.
    pub(crate) is_innermost: bool,
}

impl Loop {
    pub(crate) fn contains(&self, block: usize) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }
}

/// What is known of the shape of a function whose entry is block 0.
pub(crate) struct Shape {
    /// The blocks that can be reached, each after all that lead to it but for the edges that close a cycle.
    pub(crate) sorted: Vec<usize>,
    /// The edges that close a cycle, from where to where.
    pub(crate) closing: std::collections::HashSet<(usize, usize)>,
    /// The closing edges whose target doesn't dominate their source: cycles that are no natural loop.
    pub(crate) irreducible: Vec<(usize, usize)>,
    /// Inner loops before those around them.
    pub(crate) loops: Vec<Loop>,
    /// The place in `sorted`, or [`usize::MAX`] where a block can't be reached.
    position: Vec<usize>,
    /// The immediate dominator of each block.
    dominator: Vec<usize>,
}

impl Shape {
    pub(crate) fn of(blocks: &[Block]) -> Self {
        let mut shape = Self {
            sorted: Vec::new(),
            closing: std::collections::HashSet::new(),
            irreducible: Vec::new(),
            loops: Vec::new(),
            position: vec![usize::MAX; blocks.len()],
            dominator: vec![0; blocks.len()],
        };
        if blocks.is_empty() {
            return shape;
        }
        shape.sort(blocks);
        let mut before = vec![Vec::new(); blocks.len()];
        for &block in &shape.sorted {
            blocks[block].next.iter().for_each(|&next| before[next].push(block));
        }
        shape.find_dominators(&before);
        shape.find_loops(&before);
        shape
    }

    /// Whether every way from the entry to `block` leads through `above`.
    pub(crate) fn dominates(&self, above: usize, mut block: usize) -> bool {
        loop {
            if block == above {
                return true;
            }
            if self.position[block] <= self.position[above] {
                return false;
            }
            block = self.dominator[block];
        }
    }

    /// Depth first; an edge to a block that is still open closes a cycle, also where the flow is irreducible.
    /// The last of the blocks that every way to a block passes.
    pub(crate) fn dominator(&self, block: usize) -> usize {
        self.dominator[block]
    }

    fn sort(&mut self, blocks: &[Block]) {
        let (mut open, mut reached) = (vec![false; blocks.len()], vec![false; blocks.len()]);
        let mut path = vec![(0, 0)];
        (reached[0], open[0]) = (true, true);
        while let Some((block, edge)) = path.last_mut() {
            let block = *block;
            let Some(&next) = blocks[block].next.get(*edge) else {
                open[block] = false;
                self.sorted.push(block);
                path.pop();
                continue;
            };
            *edge += 1;
            if open[next] {
                self.closing.insert((block, next));
            } else if !reached[next] {
                (reached[next], open[next]) = (true, true);
                path.push((next, 0));
            }
        }
        self.sorted.reverse();
        self.sorted.iter().enumerate().for_each(|(at, &block)| self.position[block] = at);
    }

    /// Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm" (2001).
    fn find_dominators(&mut self, before: &[Vec<usize>]) {
        let mut known = vec![false; before.len()];
        known[0] = true;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for at in 1..self.sorted.len() {
                let block = self.sorted[at];
                let common = before[block].iter().copied().filter(|one| known[*one]);
                let Some(common) = common.reduce(|one, other| self.common_dominator(one, other)) else { continue };
                if !known[block] || self.dominator[block] != common {
                    (known[block], self.dominator[block], changed) = (true, common, true);
                }
            }
        }
    }

    fn common_dominator(&self, mut one: usize, mut other: usize) -> usize {
        while one != other {
            if self.position[one] > self.position[other] {
                one = self.dominator[one];
            } else {
                other = self.dominator[other];
            }
        }
        one
    }

    fn find_loops(&mut self, before: &[Vec<usize>]) {
        let mut latches: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(from, to) in &self.closing {
            if self.dominates(to, from) {
                latches.entry(to).or_default().push(from);
            } else {
                self.irreducible.push((from, to));
            }
        }
        self.irreducible.sort_unstable();
        for (header, mut latches) in latches {
            latches.sort_unstable();
            let mut inside: std::collections::BTreeSet<usize> = [header].into();
            let mut open = latches.clone();
            while let Some(block) = open.pop() {
                if inside.insert(block) {
                    open.extend(before[block].iter().copied());
                }
            }
            self.loops.push(Loop { header, latches, blocks: inside.into_iter().collect(), is_innermost: true });
        }
        // An outer loop has more blocks than those within it; the header settles the order of the others.
        self.loops.sort_by_key(|one| (one.blocks.len(), one.header));
        for outer in 0..self.loops.len() {
            let inner = |inner: &Loop| self.loops[outer].contains(inner.header);
            self.loops[outer].is_innermost = !self.loops[..outer].iter().any(inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(next: &[&[usize]]) -> Shape {
        Shape::of(&next.iter().map(|next| Block { next: next.to_vec(), ..Block::default() }).collect::<Vec<_>>())
    }

    #[test]
    fn nested_loops_are_found_inner_ones_first() {
        let shape = shape(&[&[1], &[2], &[2, 3], &[1, 4], &[]]);
        let found: Vec<_> = shape.loops.iter().map(|one| (one.header, one.blocks.clone(), one.is_innermost)).collect();
        assert_eq!(found, [(2, vec![2], true), (1, vec![1, 2, 3], false)]);
        assert_eq!(shape.loops[1].latches, [3]);
        assert!(shape.irreducible.is_empty());
    }

    #[test]
    fn a_cycle_with_two_entries_is_no_loop_but_is_known() {
        let shape = shape(&[&[1, 2], &[2], &[1, 3], &[]]);
        assert!(shape.loops.is_empty());
        assert_eq!(shape.irreducible.len(), 1);
    }

    #[test]
    fn blocks_that_cannot_be_reached_are_left_out() {
        let shape = shape(&[&[2], &[2], &[]]);
        assert_eq!(shape.sorted, [0, 2]);
        assert!(shape.dominates(0, 2));
    }

    proptest! {
        /// By definition: without the dominator there is no way.
        #[test]
        fn dominators_are_what_no_way_avoids(
            next in prop::collection::vec(prop::collection::vec(0..12_usize, 0..3), 12),
        ) {
            let blocks: Vec<Block> = next.into_iter().map(|next| Block { next, ..Block::default() }).collect();
            let shape = Shape::of(&blocks);
            for above in shape.sorted.iter().copied() {
                let mut reached = [false; 12];
                let mut open = if above == 0 { vec![] } else { vec![0] };
                while let Some(block) = open.pop() {
                    if block != above && !std::mem::replace(&mut reached[block], true) {
                        open.extend(&blocks[block].next);
                    }
                }
                for block in shape.sorted.iter().copied() {
                    prop_assert_eq!(shape.dominates(above, block), !reached[block], "{} {}", above, block);
                }
            }
        }
    }
}
