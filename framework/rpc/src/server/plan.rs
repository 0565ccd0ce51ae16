//! Which threads a server has, and who belongs to whom: the heads of all instances, then their workers.

use crate::config::ServerConfig;
use crate::net::Interface;
use greenwave_verbs::{Address, Choice};

/// A thread of the server, by what it is given.
#[derive(Clone, Debug)]
pub(super) struct ThreadPlan {
    pub(super) is_head: bool,
    /// Where it is pinned to.
    pub(super) core: Option<usize>,
    pub(super) backend: Choice,
    /// Where it listens itself.
    pub(super) listen: Vec<Address>,
    /// The heads among whom it shares out what comes in where it listens.
    pub(super) heads: Vec<usize>,
    /// The workers that serve for it.
    pub(super) workers: Vec<usize>,
    /// What it sends over together with the instance's other heads, if there are any, and its number among them.
    pub(super) interface: Option<(Interface, usize)>,
}

/// The threads, by their numbers.
pub(super) fn plan(config: &ServerConfig) -> Vec<ThreadPlan> {
    let heads: usize = config.all_instances().map(|instance| instance.clusters).sum();
    let (mut plans, mut workers, mut first) = (Vec::new(), Vec::new(), 0);
    for instance in config.all_instances() {
        let clusters = instance.clusters;
        let backend = instance.choice();
        let core = |nth: usize| instance.cores.get(nth % instance.cores.len().max(1)).copied();
        let interface = (clusters > 1).then(|| Interface::of(clusters));
        for nth in 0..clusters {
            plans.push(ThreadPlan {
                is_head: true,
                core: core(nth),
                backend: backend.clone(),
                listen: if nth == 0 { instance.listen.clone() } else { Vec::new() },
                heads: if nth == 0 { (first..first + clusters).collect() } else { Vec::new() },
                workers: (0..config.workers).map(|round| heads + workers.len() + round * clusters + nth).collect(),
                interface: interface.clone().map(|interface| (interface, nth)),
            });
        }
        workers.extend((0..clusters * config.workers).map(|nth| ThreadPlan {
            is_head: false,
            core: core(clusters + nth),
            backend: backend.clone(),
            listen: Vec::new(),
            heads: Vec::new(),
            workers: Vec::new(),
            interface: None,
        }));
        first += clusters;
    }
    plans.extend(workers);
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Instance;

    fn instance(port: u16, clusters: usize, cores: &[usize]) -> Instance {
        let listen = vec![Address::Tcp(([127, 0, 0, 1], port).into())];
        Instance::default().listen(listen).clusters(clusters).cores(cores.to_vec())
    }

    #[test]
    fn every_worker_has_one_head_and_instances_keep_to_their_cores() {
        let Instance { listen, clusters, cores, .. } = instance(1, 2, &[0, 1, 2]);
        let instances = vec![instance(2, 1, &[7]), instance(3, 1, &[])];
        let config =
            ServerConfig::default().listen(listen).clusters(clusters).cores(cores).workers(2).instances(instances);
        let plans = plan(&config);
        assert_eq!(plans.len(), 4 + 8);
        assert!(plans.iter().enumerate().all(|(index, plan)| plan.is_head == (index < 4)));
        let mut workers: Vec<usize> = plans.iter().flat_map(|plan| plan.workers.clone()).collect();
        workers.sort_unstable();
        assert_eq!(workers, (4..12).collect::<Vec<_>>());
        let shares: Vec<_> = plans.iter().map(|plan| plan.heads.as_slice()).filter(|heads| !heads.is_empty()).collect();
        assert_eq!(shares, [&[0, 1][..], &[2], &[3]]);
        let cores: Vec<_> = plans.iter().map(|plan| plan.core).collect();
        let own = [Some(2), Some(0), Some(1), Some(2)];
        assert_eq!(cores[..4], [Some(0), Some(1), Some(7), None]);
        assert_eq!(cores[4..], [&own[..], &[Some(7); 2], &[None; 2]].concat());
        let sharing: Vec<_> = plans.iter().map(|plan| plan.interface.as_ref().map(|(_, nth)| *nth)).collect();
        assert_eq!(sharing, [&[Some(0), Some(1), None, None][..], &[None; 8]].concat());
        // The workers of the third head are those that are pinned where it is.
        assert_eq!(plans[2].workers, [8, 9]);
    }
}
