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
}
