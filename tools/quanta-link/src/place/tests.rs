//! What placements have to keep to.

use super::*;
use proptest::prelude::*;

fn function(blocks: &[(u32, &[usize])]) -> Vec<Block> {
    blocks.iter().map(|(cost, next)| Block { cost: *cost, next: next.to_vec(), ..Block::default() }).collect()
}

fn placed(blocks: &[Block], counted: &[Counted]) -> Placement {
    placed_for(Callers::Any, blocks, counted)
}

fn placed_for(callers: Callers, blocks: &[Block], counted: &[Counted]) -> Placement {
    let shape = Shape::of(blocks);
    let of = |this: &Loop| counted.iter().copied().find(|counted| this.contains(counted.block));
    let counted: Vec<_> = shape.loops.iter().map(of).collect();
    place(blocks, &shape, &counted, 200, callers)
}

#[test]
fn a_small_function_probes_nothing_and_a_longer_one_as_it_is_entered() {
    let small = placed(&function(&[(3, &[1, 2]), (5, &[3]), (9, &[3]), (2, &[])]), &[]);
    assert_eq!(small, Placement { longest: 14, tail: 14, left: 14, ..Placement::default() });
    let long = placed(&function(&[(30, &[1, 2]), (50, &[3]), (90, &[3]), (2, &[])]), &[]);
    assert_eq!((long.entry, long.gates.len()), (Some(122), 0));
}

#[test]
fn a_function_whose_callers_know_it_leaves_them_the_ways_in_and_out() {
    let mut blocks = function(&[(30, &[1, 3]), (50, &[1, 2]), (7, &[4]), (60, &[4]), (20, &[])]);
    let placement = placed_for(Callers::Known, &blocks, &[]);
    assert_eq!((placement.entry, placement.gates.len(), placement.calls), (None, 1, true), "{placement:?}");
    assert_eq!(placement.left, 30 + 60 + 20, "by 3; by the loop it is 80 in and 27 out");
    assert_eq!(placed(&blocks, &[]).entry, Some(110), "who else calls it leaves it to pay");
    blocks[3].cost = KNOWN_LEAF;
    assert!(placed_for(Callers::Known, &blocks, &[]).entry.is_some(), "too long");
    (blocks[3].cost, blocks[3].is_open) = (5, true);
    assert!(placed_for(Callers::Known, &blocks, &[]).entry.is_some(), "it may be called in turn");
}

#[test]
fn a_loop_that_does_not_count_has_a_gate_in_a_local_copy() {
    let counted = placed(&function(&[(3, &[1]), (5, &[1, 2]), (2, &[])]), &[]);
    assert_eq!(counted.gates, [Gate { block: 1, cost: 8, local: Some(0) }]);
    assert_eq!((counted.locals, counted.entry), (vec![(0, 0)], Some(2)));
}

#[test]
fn a_short_loop_with_a_gate_or_a_limit_is_to_stand_in_a_row() {
    let mut blocks = function(&[(3, &[1]), (5, &[2, 3]), (4, &[1, 3]), (2, &[])]);
    assert_eq!(placed(&blocks, &[]).repeats, [(0, REPEATED.div_ceil(9))]);
    let early = placed(&blocks, &[Counted { block: 2, most: None, movable: true }]);
    assert_eq!((early.strips.len(), early.repeats), (1, vec![(0, REPEATED.div_ceil(9))]));
    blocks[1].cost = REPEATED;
    assert!(placed(&blocks, &[]).repeats.is_empty(), "the gate is cheap beside it");
    blocks[1] = Block { cost: 5, calls: true, probes: true, ..blocks[1].clone() };
    assert!(placed(&blocks, &[]).repeats.is_empty(), "who is called probes");
}

#[test]
fn a_loop_that_counts_is_paid_for_before_it_and_makes_the_gate_of_the_loop_around_it_needless() {
    // 0 leads to 1, which leads to the loop of 2; 3 leads back to 1 or out.
    let blocks = function(&[(3, &[1]), (4, &[2]), (5, &[2, 3]), (6, &[1, 4]), (2, &[])]);
    let placement = placed(&blocks, &[Counted { block: 2, most: None, movable: true }]);
    assert!(placement.gates.is_empty(), "{placement:?}");
    let [strip] = placement.strips[..] else { panic!("{placement:?}") };
    assert_eq!((strip.preheader, strip.cost, strip.before), (1, 5, 10), "6 of the iteration before, and 4");
    assert_eq!(strip.at_once, None);
}

#[test]
fn a_loop_of_few_iterations_is_straight_code() {
    let blocks = function(&[(3, &[1]), (5, &[1, 2]), (2, &[])]);
    let placement = placed(&blocks, &[Counted { block: 1, most: Some(7), movable: true }]);
    assert_eq!(
        placement,
        Placement { longest: 3 + 35 + 2, tail: 3 + 35 + 2, left: 3 + 35 + 2, ..Placement::default() }
    );
}

#[test]
fn a_loop_that_may_end_early_pays_for_little() {
    // 1 tests the data, 2 counts; 4 is a panic.
    let mut blocks = function(&[(3, &[1]), (5, &[2, 3]), (4, &[1, 4]), (2, &[]), (50, &[])]);
    blocks[4].is_end = true;
    let placement = placed(&blocks, &[Counted { block: 2, most: None, movable: true }]);
    assert_eq!(placement.strips[0].at_once, Some(AT_ONCE));
    blocks[3].is_end = true;
    let placement = placed(&blocks, &[Counted { block: 2, most: None, movable: true }]);
    assert_eq!(placement.strips[0].at_once, None, "panics don't count");
}

#[test]
fn a_loop_that_calls_in_every_iteration_leaves_the_probe_to_who_is_called() {
    let mut blocks = function(&[(3, &[1]), (12, &[1, 2]), (2, &[])]);
    (blocks[1].calls, blocks[1].probes) = (true, true);
    assert!(placed(&blocks, &[]).gates.is_empty());
    blocks[1].cost = 2 * BESIDE_A_CALL;
    assert_eq!(placed(&blocks, &[]).gates, [Gate { block: 1, cost: 3 + 2 * BESIDE_A_CALL, local: None }]);
}

#[test]
fn a_small_function_that_calls_only_known_ones_is_a_leaf_all_the_same() {
    let mut blocks = function(&[(3, &[1]), (12, &[])]);
    blocks[1].calls = true;
    let placement = placed(&blocks, &[]);
    assert_eq!((placement.entry, placement.calls), (None, true));
    blocks[1].is_open = true;
    assert!(placed(&blocks, &[]).entry.is_some(), "who is called may be the function itself");
}

#[test]
fn a_call_by_which_nobody_may_probe_pays_for_no_iteration() {
    let mut blocks = function(&[(3, &[1]), (5, &[1, 2]), (2, &[])]);
    (blocks[1].calls, blocks[1].is_open) = (true, true);
    assert_eq!(placed(&blocks, &[]).gates, [Gate { block: 1, cost: 8, local: None }]);
}

#[test]
fn the_gate_of_a_loop_around_a_match_is_where_the_ways_part() {
    let blocks = function(&[(3, &[1]), (9, &[2, 3, 4]), (5, &[5]), (6, &[5]), (7, &[5]), (2, &[1, 6]), (2, &[])]);
    let placement = placed(&blocks, &[]);
    let [gate] = placement.gates[..] else { panic!("{placement:?}") };
    assert_eq!((gate.block, gate.local), (1, Some(0)));
    assert_eq!(gate.cost, 9 + 7 + 2, "what comes behind it is paid for in the next iteration");
}

#[test]
fn a_nest_of_loops_that_are_paid_for_in_advance_keeps_the_credit_in_a_local_copy() {
    // 1 leads to the loop of 2; 3 back to 1 or out.
    let blocks = function(&[(3, &[1]), (90, &[2]), (5, &[2, 3]), (6, &[1, 4]), (2, &[])]);
    let counted = [Counted { block: 2, most: None, movable: true }];
    let placement = placed(&blocks, &counted);
    assert_eq!(placement.strips[0].local, Some(1), "{placement:?}");
    assert_eq!(placement.locals, [(1, 0)]);
}

#[test]
fn a_loop_that_mostly_goes_by_its_calls_keeps_the_credit_in_a_local_copy() {
    // 1 skips by way of 2, or calls in 3, which may panic by way of 6; 4 goes back or out.
    let mut blocks = function(&[(3, &[1]), (5, &[2, 3]), (4, &[4]), (12, &[4, 6]), (2, &[1, 5]), (2, &[]), (9, &[])]);
    (blocks[3].calls, blocks[6].is_end) = (true, true);
    let placement = placed(&blocks, &[]);
    assert_eq!(placement.locals, [(0, 0)]);
    assert!(placement.gates.iter().any(|gate| gate.local == Some(0)), "{placement:?}");
    blocks[3].is_invoke = true;
    assert!(placed(&blocks, &[]).locals.is_empty(), "who follows the call is led to by others too");
    blocks[3].is_invoke = false;
    blocks[2].cost = TIGHT;
    assert!(placed(&blocks, &[]).locals.is_empty(), "it is long anyway");
    (blocks[2].cost, blocks[1].calls) = (4, true);
    assert!(placed(&blocks, &[]).locals.is_empty(), "every way round calls");
    blocks[1].calls = false;
    blocks[3].next.push(3);
    assert!(placed(&blocks, &[]).locals.is_empty(), "the call is in a loop of its own");
}

#[test]
fn who_calls_somebody_unknown_on_some_ways_alone_pays_there() {
    // 1 calls, and 3 behind it once more; 2 goes by.
    let mut blocks = function(&[(3, &[1, 2]), (12, &[3]), (5, &[4]), (20, &[4]), (2, &[])]);
    for called in [1, 3] {
        (blocks[called].calls, blocks[called].is_open) = (true, true);
    }
    let placement = placed(&blocks, &[]);
    assert_eq!((placement.entry, placement.late), (None, vec![(1, 3 + 12 + 20 + 2)]), "the first call pays");
    assert_eq!((placement.left, placement.calls), (3 + 5 + 2, true));
    blocks[2].cost = LEAF;
    assert!(placed(&blocks, &[]).entry.is_some(), "the way by it is long");
    (blocks[2].cost, blocks[2].is_open, blocks[2].calls) = (5, true, true);
    assert!(placed(&blocks, &[]).entry.is_some(), "all ways call");
    blocks[2].is_open = false;
    blocks[1].comes_back = true;
    assert!(placed(&blocks, &[]).entry.is_some(), "it calls itself");
    (blocks[1].comes_back, blocks[1].probes, blocks[1].next) = (false, true, vec![1, 3]);
    assert!(placed(&blocks, &[]).entry.is_some(), "the call is in a loop");
}

#[test]
fn a_step_of_threaded_code_pays_in_windows_for_what_is_between_them() {
    // 0 leads on by 1, or jumps by 2.
    let mut blocks = function(&[(3, &[1, 2]), (12, &[]), (15, &[])]);
    for called in [1, 2] {
        (blocks[called].calls, blocks[called].is_open) = (true, true);
    }
    assert!(placed(&blocks, &[]).entry.is_some());
    blocks[1].is_step = true;
    let placement = placed(&blocks, &[]);
    assert_eq!((placement.entry, placement.late, placement.steps), (None, vec![(2, 18)], vec![(1, 18 * EVERY)]));
}

#[test]
fn the_ways_back_from_recursion_have_gates() {
    let mut blocks = function(&[(3, &[1, 2]), (12, &[2]), (2, &[])]);
    (blocks[1].calls, blocks[1].comes_back) = (true, true);
    assert!(placed(&blocks, &[]).gates.is_empty(), "it is short");
    blocks[1].cost = 50;
    assert_eq!(placed(&blocks, &[]).gates, [Gate { block: 1, cost: 53, local: None }]);
}

proptest! {
    /// Whatever the control flow, reducible or not: no way is longer than the bound and a block without a probe,
    /// none can go on for ever without one, and a probe covers the way to it.
    #[test]
    fn every_way_is_paid_for(
        shape in prop::collection::vec((1..60_u32, prop::collection::vec(0..24_usize, 0..3)), 1..24),
        choices in prop::collection::vec(any::<u8>(), 2000),
        callers in prop::sample::select(vec![Callers::Known, Callers::Any]),
    ) {
        let count = shape.len();
        let blocks: Vec<Block> = shape.into_iter()
            .map(|(cost, next)| Block {
                cost, next: next.into_iter().map(|next| next % count).collect(), ..Block::default()
            }).collect();
        let placement = placed_for(callers, &blocks, &[]);
        let (mut at, mut way, mut choices, mut into) = (0, 0, choices.into_iter(), None);
        prop_assert!(placement.entry.is_some() || placement.left <= KNOWN_LEAF && callers == Callers::Known
            || placement.left <= LEAF && placement.gates.is_empty());
        loop {
            way += blocks[at].cost;
            prop_assert!(way <= 200 + 60, "{way}: {placement:?}");
            prop_assert!(way <= placement.longest);
            if let Some(gate) = placement.gates.iter().find(|gate| gate.block == at) {
                prop_assert!(gate.cost >= way, "{way}: {gate:?}");
                into = into.or(Some(way));
                way = 0;
            }
            if blocks[at].next.is_empty() {
                prop_assert!(placement.entry.is_none_or(|entry| entry >= way));
                prop_assert!(placement.left >= into.unwrap_or(0) + way, "{into:?} and {way}: {placement:?}");
                break;
            }
            let Some(choice) = choices.next() else { break };
            at = blocks[at].next[usize::from(choice) % blocks[at].next.len()];
        }
    }
}
