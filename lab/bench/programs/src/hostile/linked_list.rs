//! Follows a list whose nodes lie all over memory: a loop of two instructions that wait for memory.

use crate::{Job, Scale, checksum};

const NODES: usize = 100_000;
const ROUNDS: usize = 40;

struct List {
    first: Option<Box<Node>>,
}

struct Node {
    value: u64,
    next: Option<Box<Node>>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let list = List::shuffled(0..scale.of(NODES) as u64);
    Box::new(move || {
        let sums = (0..ROUNDS).map(|_| list.sum());
        checksum(sums.chain([list.xor_of_places()]))
    })
}

impl List {
    /// The values in their order, in nodes that are not.
    fn shuffled(values: impl Iterator<Item = u64>) -> Self {
        let mut nodes: Vec<Box<Node>> = values.map(|value| Box::new(Node { value, next: None })).collect();
        let values: Vec<u64> = nodes.iter().map(|node| node.value).collect();
        fastrand::Rng::with_seed(41).shuffle(&mut nodes);
        let mut first = None;
        for (mut node, &value) in nodes.into_iter().zip(&values).rev() {
            *node = Node { value, next: first };
            first = Some(node);
        }
        Self { first }
    }

    fn sum(&self) -> u64 {
        let mut sum = 0;
        let mut next = self.first.as_ref();
        while let Some(node) = next {
            sum += node.value;
            next = node.next.as_ref();
        }
        sum
    }

    /// Of each value with its place.
    fn xor_of_places(&self) -> u64 {
        let mut sum = 0;
        let mut place = 0;
        let mut next = self.first.as_ref();
        while let Some(node) = next {
            sum ^= node.value.wrapping_mul(place);
            place += 1;
            next = node.next.as_ref();
        }
        sum
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // One after the other: left to themselves, nodes would drop each other in a recursion as deep as the list.
        let mut next = self.first.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_value_in_its_place() {
        let list = List::shuffled((0..1000).map(|at| at * 3));
        assert_eq!(list.sum(), 3 * 999 * 1000 / 2);
        assert_eq!(list.xor_of_places(), (0..1000).fold(0, |sum, place| sum ^ (place * 3 * place)));
    }
}
