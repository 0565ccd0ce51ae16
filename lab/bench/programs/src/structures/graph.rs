//! Shortest ways and connected components in a graph (crate `petgraph`).

use petgraph::algo::{dijkstra, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;

use crate::{Job, Scale, checksum};

const NODES: usize = 200_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let graph = graph(scale.of(NODES));
    Box::new(move || {
        let from = NodeIndex::new(0);
        let ways = dijkstra(&graph, from, None, |edge| *edge.weight());
        let ways = graph.node_indices().map(|node| ways.get(&node).copied().unwrap_or(u64::MAX));
        let components = tarjan_scc(&graph).into_iter().map(|component| component.len() as u64);
        let (mut walk, mut walked) = (Dfs::new(&graph, from), 0);
        while let Some(node) = walk.next(&graph) {
            walked = (walked ^ u64::from(graph[node])).rotate_left(3);
        }
        checksum(ways.chain(components).chain([walked]))
    })
}

fn graph(nodes: usize) -> DiGraph<u32, u64> {
    let mut random = fastrand::Rng::with_seed(60);
    let mut graph = DiGraph::new();
    for _ in 0..nodes {
        graph.add_node(random.u32(..));
    }
    for node in 0..nodes {
        for _ in 0..random.usize(0..6) {
            let to = (node + random.usize(0..nodes.div_ceil(3))) % nodes;
            graph.add_edge(NodeIndex::new(node), NodeIndex::new(to), random.u64(1..1000));
        }
    }
    graph
}
