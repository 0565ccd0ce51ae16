//! A tree that points to parents, siblings and children, each node in a box of its own (standard library).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use crate::{Job, Scale, checksum};

const NODES: usize = 90_000;

#[derive(Default)]
struct Node {
    value: u64,
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let count = scale.of(NODES);
    Box::new(move || {
        let nodes = tree(count);
        let depths = nodes.iter().map(depth).sum();
        checksum([sum(&nodes[0]), depths, count as u64])
    })
}

/// Its nodes, the root first.
fn tree(count: usize) -> Vec<Rc<Node>> {
    let mut random = fastrand::Rng::with_seed(61);
    let mut nodes: Vec<Rc<Node>> = Vec::with_capacity(count);
    for at in 0..count {
        let node = Rc::new(Node { value: random.u64(..), ..Node::default() });
        if at > 0 {
            let parent = &nodes[random.usize(at / 3..at)];
            node.parent.replace(Rc::downgrade(parent));
            parent.children.borrow_mut().push(Rc::clone(&node));
        }
        nodes.push(node);
    }
    nodes
}

fn sum(node: &Node) -> u64 {
    node.children.borrow().iter().fold(node.value, |sum: u64, child| sum.rotate_left(1).wrapping_add(self::sum(child)))
}

fn depth(node: &Rc<Node>) -> u64 {
    let (mut depth, mut at) = (0, node.parent.borrow().upgrade());
    while let Some(node) = at {
        depth += 1;
        at = node.parent.borrow().upgrade();
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_below_its_parent() {
        let nodes = tree(100);
        assert_eq!(depth(&nodes[0]), 0);
        for node in &nodes {
            assert!(node.children.borrow().iter().all(|child| depth(child) == depth(node) + 1));
        }
    }
}
