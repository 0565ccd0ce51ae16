//! Who calls whom, as a graph of numbers: cycles, and an order from the bottom up. Nothing here knows of LLVM.

/// Which functions lie on a common cycle of calls: those with the same number.
pub(crate) fn cycles(calls: &[Vec<usize>]) -> Vec<usize> {
    // Kosaraju: whoever is found, walking backwards, from the one that was left last, can reach it and be reached.
    let mut callers = vec![Vec::new(); calls.len()];
    for (caller, called) in calls.iter().enumerate() {
        called.iter().for_each(|&called| callers[called].push(caller));
    }
    let mut cycle = vec![usize::MAX; calls.len()];
    for root in bottom_up(calls).into_iter().rev() {
        let mut open = vec![root];
        while let Some(function) = open.pop() {
            if cycle[function] == usize::MAX {
                cycle[function] = root;
                open.extend(&callers[function]);
            }
        }
    }
    cycle
}

/// Functions without which no cycle of calls is left, few if possible: every recursion passes one of them. `may_be` says
/// how well each is suited, and of which none may be chosen. What recurses by those alone stays as it is.
pub(crate) fn heads(calls: &[Vec<usize>], may_be: &[Option<u32>]) -> Vec<bool> {
    let mut left: Vec<Vec<usize>> = calls.to_vec();
    let mut heads = vec![false; calls.len()];
    // Who calls itself has no choice.
    for (function, called) in calls.iter().enumerate() {
        heads[function] = may_be[function].is_some() && called.contains(&function);
    }
    loop {
        left.iter_mut().enumerate().filter(|(at, _)| heads[*at]).for_each(|(_, called)| called.clear());
        left.iter_mut().for_each(|called| called.retain(|called| !heads[*called]));
        let cycle = cycles(&left);
        let (mut inside, mut outside) = (vec![0_usize; calls.len()], vec![0_usize; calls.len()]);
        for (caller, called) in left.iter().enumerate() {
            for &called in called.iter().filter(|called| **called != caller && cycle[**called] == cycle[caller]) {
                (inside[called], outside[caller]) = (inside[called] + 1, outside[caller] + 1);
            }
        }
        // Of each cycle the one that most ways through it seem to pass.
        let mut best: Vec<Option<(u32, usize, usize)>> = vec![None; calls.len()];
        for function in 0..calls.len() {
            let ways = inside[function] * outside[function];
            if let Some(suits) = may_be[function].filter(|_| ways > 0) {
                let best = &mut best[cycle[function]];
                *best = (*best).max(Some((suits, ways, function)));
            }
        }
        if best.iter().all(Option::is_none) {
            return heads;
        }
        best.into_iter().flatten().for_each(|(_, _, function)| heads[function] = true);
    }
}

/// An order in which functions that are called come before those that call them, but for recursion, where `calls` says
/// for each which others it calls.
pub(crate) fn bottom_up(calls: &[Vec<usize>]) -> Vec<usize> {
    let (mut seen, mut sorted, mut path) = (vec![false; calls.len()], Vec::new(), Vec::new());
    for root in 0..calls.len() {
        if !std::mem::replace(&mut seen[root], true) {
            path.push((root, 0));
        }
        while let Some((at, edge)) = path.last_mut() {
            match calls[*at].get(*edge) {
                Some(&to) => {
                    *edge += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        path.push((to, 0));
                    }
                }
                None => {
                    sorted.push(*at);
                    path.pop();
                }
            }
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_calls_itself_through_others_shares_a_cycle_with_them() {
        let cycle = cycles(&[vec![1, 4], vec![2], vec![3], vec![1], vec![], vec![5], vec![4]]);
        assert!(cycle[1] == cycle[2] && cycle[2] == cycle[3] && cycle[0] != cycle[1] && cycle[4] != cycle[1]);
        assert_eq!(cycles(&[]), [0; 0]);
    }

    #[test]
    fn who_is_called_comes_first() {
        assert_eq!(bottom_up(&[vec![1, 3], vec![2], vec![1], vec![]]), [2, 1, 3, 0]);
        assert_eq!(bottom_up(&[]), [0; 0]);
    }

    #[test]
    fn a_cycle_has_one_head_if_one_is_enough() {
        // A parser: 0 calls 1, that 2, that 3, which calls 0 and 1 again; 4 calls itself.
        let calls = [vec![1], vec![2, 4], vec![3], vec![0, 1], vec![4]];
        let found = |may_be: &[Option<u32>]| {
            let heads = heads(&calls, may_be);
            (0..calls.len()).filter(|at| heads[*at]).collect::<Vec<_>>()
        };
        assert_eq!(found(&[Some(0), Some(0), Some(0), Some(0), Some(0)]), [3, 4], "the last of equals");
        assert_eq!(found(&[Some(0), Some(0), Some(1), Some(0), Some(0)]), [2, 4], "the one that suits better");
        assert_eq!(found(&[None, Some(0), None, None, None]), [1], "4 has no choice");
    }

    proptest! {
        /// Whoever calls whom: every recursion passes a head, unless none of it may be one; and without the heads those
        /// who are called come first.
        #[test]
        fn every_recursion_passes_a_head(
            calls in prop::collection::vec(prop::collection::vec(0..20_usize, 0..4), 20),
            may_be in prop::collection::vec(prop::option::weighted(0.9, 0..3_u32), 20),
        ) {
            let heads = heads(&calls, &may_be);
            let all = |at: usize| heads[at] || may_be[at].is_none();
            prop_assert!((0..20).all(|at| !heads[at] || may_be[at].is_some()));
            // Taking away who calls nobody that is left must take all away.
            let mut left: Vec<usize> = (0..20).filter(|at| !all(*at)).collect();
            loop {
                let before = left.len();
                let calls_one = |at: &usize| calls[*at].iter().any(|called| left.contains(called));
                left = left.iter().copied().filter(calls_one).collect();
                if left.len() == before { break }
            }
            prop_assert!(left.is_empty(), "{left:?}");
            let without: Vec<Vec<usize>> =
                calls.iter().map(|called| called.iter().copied().filter(|called| !heads[*called]).collect()).collect();
            let order = bottom_up(&without);
            let place = |function: usize| order.iter().position(|one| *one == function);
            for (caller, called) in without.iter().enumerate().filter(|(caller, _)| !all(*caller)) {
                for &called in called.iter().filter(|called| !all(**called)) {
                    prop_assert!(place(called) < place(caller));
                }
            }
        }
    }
}
