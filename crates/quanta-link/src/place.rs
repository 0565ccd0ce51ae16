//! Where probes go: a function's control flow in, gates out. Nothing here knows of LLVM.
//!
//! Each function counts its own work: a counter starts at the *bound* when the function is entered, and a *gate* at the
//! end of a block takes the cost of what ran since the last gate off it. When nothing is left the gate reads the clock,
//! which is the probe, and the counter starts again. So no path can run for more than about the bound without a probe
//! as long as
//! 1. every cycle contains a gate: the end of every edge that closes one is a gate;
//! 2. no path from gate to gate, or from the entry to a gate, costs more than the bound: where one would, a gate is put
//!    before the block that would exceed it;
//! 3. a gate takes off at least what the longest path to it has cost.
//!
//! A function's counter knows nothing of its callers, so a chain of calls that ends where it began would start again at
//! every call. Functions that may call themselves, through others or not, take the cost of a call off a counter of the
//! thread as they are entered ([`recursive`]).
//!
//! Costs are in instructions, roughly: what a call costs is for the caller to say. What lies between the last gate and
//! the function's end is its *tail*, which belongs to whoever called it.

/// A block of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// What it costs to run it once.
    pub(crate) cost: u32,
    /// The blocks that may follow, by their index.
    pub(crate) next: Vec<usize>,
}

/// Takes so much off the counter at the end of a block, before its last instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) block: usize,
    pub(crate) cost: u32,
}

/// What is to be done to a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// By block.
    pub(crate) gates: Vec<Gate>,
    /// The longest way from the entry or a gate to a return, in cost.
    pub(crate) tail: u32,
}

/// Decides for a function whose entry is block 0.
pub(crate) fn place(blocks: &[Block], bound: u32) -> Placement {
    let order = Order::of(blocks);
    let mut gated = vec![false; blocks.len()];
    for (block, next) in &order.closing {
        gated[*block] = true;
        debug_assert!(order.reached[*next]);
    }
    // The longest way to the end of each block from the gate before it. Over edges that close no cycle, so in one pass.
    let mut since = vec![0_u32; blocks.len()];
    let mut placement = Placement::default();
    let mut into = vec![0_u32; blocks.len()];
    for &block in &order.sorted {
        since[block] = into[block].saturating_add(blocks[block].cost);
        // Whoever follows would exceed the bound with what has run so far, so it is counted here.
        let ahead = blocks[block].next.iter().map(|&next| blocks[next].cost).max().unwrap_or(0);
        let long = into[block] > 0 && since[block].saturating_add(ahead) > bound;
        if gated[block] || (long && !blocks[block].next.is_empty()) {
            placement.gates.push(Gate { block, cost: since[block].max(1) });
            since[block] = 0;
        }
        if blocks[block].next.is_empty() {
            placement.tail = placement.tail.max(since[block]);
        }
        for &next in &blocks[block].next {
            if !order.closing.contains(&(block, next)) {
                into[next] = into[next].max(since[block]);
            }
        }
    }
    placement
}

/// Which functions lie on a cycle of calls, where `calls` says for each which others it calls.
pub(crate) fn recursive(calls: &[Vec<usize>]) -> Vec<bool> {
    // Kosaraju: whoever is found, walking backwards, from the one that was left last, can reach it and be reached.
    let mut callers = vec![Vec::new(); calls.len()];
    for (caller, called) in calls.iter().enumerate() {
        called.iter().for_each(|&called| callers[called].push(caller));
    }
    let mut seen = vec![false; calls.len()];
    let left: Vec<usize> = (0..calls.len()).flat_map(|root| walk(root, calls, &mut seen)).collect();
    let mut seen = vec![false; calls.len()];
    let mut recursive: Vec<bool> = calls.iter().enumerate().map(|(caller, called)| called.contains(&caller)).collect();
    for root in left.into_iter().rev() {
        let component = walk(root, &callers, &mut seen);
        if component.len() > 1 {
            component.into_iter().for_each(|function| recursive[function] = true);
        }
    }
    recursive
}

/// Goes to all that can be reached from `root` and was not seen yet; they are in the order in which they are left.
fn walk(root: usize, next: &[Vec<usize>], seen: &mut [bool]) -> Vec<usize> {
    let mut left = Vec::new();
    let mut path = Vec::new();
    if !std::mem::replace(&mut seen[root], true) {
        path.push((root, 0));
    }
    while let Some((at, edge)) = path.last_mut() {
        match next[*at].get(*edge) {
            Some(&to) => {
                *edge += 1;
                if !std::mem::replace(&mut seen[to], true) {
                    path.push((to, 0));
                }
            }
            None => {
                left.push(*at);
                path.pop();
            }
        }
    }
    left
}

/// The blocks that can be reached, each after all that lead to it but for the edges that close a cycle.
struct Order {
    sorted: Vec<usize>,
    /// From where to where.
    closing: std::collections::HashSet<(usize, usize)>,
    reached: Vec<bool>,
}

impl Order {
    fn of(blocks: &[Block]) -> Self {
        let mut order =
            Self { sorted: Vec::new(), closing: std::collections::HashSet::new(), reached: vec![false; blocks.len()] };
        if blocks.is_empty() {
            return order;
        }
        // Depth first; an edge to a block that is still open closes a cycle, also where the flow is irreducible.
        let mut open = vec![false; blocks.len()];
        let mut path = vec![(0, 0)];
        (order.reached[0], open[0]) = (true, true);
        while let Some((block, edge)) = path.last_mut() {
            let block = *block;
            let Some(&next) = blocks[block].next.get(*edge) else {
                open[block] = false;
                order.sorted.push(block);
                path.pop();
                continue;
            };
            *edge += 1;
            if open[next] {
                order.closing.insert((block, next));
            } else if !order.reached[next] {
                (order.reached[next], open[next]) = (true, true);
                path.push((next, 0));
            }
        }
        order.sorted.reverse();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn function(blocks: &[(u32, &[usize])]) -> Vec<Block> {
        blocks.iter().map(|(cost, next)| Block { cost: *cost, next: next.to_vec() }).collect()
    }

    #[test]
    fn a_loop_is_counted_once_an_iteration_and_a_straight_function_not_at_all() {
        let counted = place(&function(&[(3, &[1]), (5, &[1, 2]), (2, &[])]), 100);
        assert_eq!(counted, Placement { gates: vec![Gate { block: 1, cost: 8 }], tail: 2 });
        let straight = place(&function(&[(3, &[1, 2]), (5, &[3]), (9, &[3]), (2, &[])]), 100);
        assert_eq!(straight, Placement { gates: vec![], tail: 14 });
    }

    #[test]
    fn a_long_way_without_a_cycle_is_cut() {
        let blocks: Vec<Block> =
            (0..10).map(|at| Block { cost: 40, next: if at < 9 { vec![at + 1] } else { vec![] } }).collect();
        let placement = place(&blocks, 100);
        assert!(placement.gates.len() >= 4, "{placement:?}");
        assert!(placement.tail <= 100);
    }

    #[test]
    fn who_calls_itself_through_others_is_recursive_and_who_calls_them_is_not() {
        let calls = [vec![1, 4], vec![2], vec![3], vec![1], vec![], vec![5], vec![4]];
        assert_eq!(recursive(&calls), [false, true, true, true, false, true, false]);
        assert_eq!(recursive(&[]), [false; 0]);
    }

    /// Walks at random; whenever the counter is used up the way since is forgotten. Returns the longest way without.
    fn longest_way(blocks: &[Block], placement: &Placement, bound: u32, mut choices: impl Iterator<Item = u8>) -> u32 {
        let (mut at, mut counter, mut way, mut longest) = (0, i64::from(bound), 0_u32, 0);
        for _ in 0..2000 {
            way += blocks[at].cost;
            longest = longest.max(way);
            if let Some(gate) = placement.gates.iter().find(|gate| gate.block == at) {
                counter -= i64::from(gate.cost);
                if counter <= 0 {
                    (counter, way) = (i64::from(bound), 0);
                }
            }
            let Some(choice) = choices.next().filter(|_| !blocks[at].next.is_empty()) else { break };
            at = blocks[at].next[usize::from(choice) % blocks[at].next.len()];
        }
        longest
    }

    proptest! {
        /// Whatever the control flow, reducible or not: no way is longer than twice the bound and a block without a
        /// probe, as what the counter has left and the way to the next gate are each at most the bound and a block.
        #[test]
        fn no_way_is_much_longer_than_the_bound(
            shape in prop::collection::vec((1..60_u32, prop::collection::vec(0..24_usize, 0..3)), 1..24),
            choices in prop::collection::vec(any::<u8>(), 2000),
        ) {
            let count = shape.len();
            let blocks: Vec<Block> = shape.into_iter()
                .map(|(cost, next)| Block { cost, next: next.into_iter().map(|next| next % count).collect() }).collect();
            let bound = 200;
            let placement = place(&blocks, bound);
            let longest = longest_way(&blocks, &placement, bound, choices.into_iter());
            prop_assert!(longest <= 2 * bound + 60, "{longest}: {placement:?}");
            prop_assert!(placement.tail <= bound + 60);
        }
    }
}
