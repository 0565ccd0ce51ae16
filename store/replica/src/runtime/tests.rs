//! Three replicas in one process: real threads, real disks, TCP over loopback.

use super::*;
use crate::core::{CoreConfig, Role};
use crate::machine::MachineView;
use crate::sessions::SessionChange;
use crate::{ClientId, MachineError, Peer, Place, Sequence};
use greenwave_rpc::{Channel, ChannelConfig, MethodId, Server, ServerConfig, ServerHandle};
use greenwave_verbs::Address;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

mod attacks;
mod snapshots;

/// Longer than anything here takes, even on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(120);

const PUT: &str = "test.Store/Put";

type Shared = Arc<Mutex<BTreeMap<String, String>>>;

/// `key=value` puts, and is answered with what was there.
#[derive(Default)]
struct Store {
    applied: Index,
    state: Shared,
    ills: Arc<Ills>,
}

/// What a machine suffers from.
#[derive(Default)]
struct Ills {
    /// As of an engine whose disk has failed once.
    no_views: AtomicBool,
    /// Who holds it keeps the machine from being restored.
    restoring: Mutex<()>,
}

impl StateMachine for Store {
    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, _: Index, command: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(command);
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let before = self.state.lock().unwrap().insert(key.into(), value.into());
        before.unwrap_or_default().into_bytes()
    }

    fn commit(&mut self, applied: Index, _: &[SessionChange]) -> Result<(), MachineError> {
        self.applied = applied;
        Ok(())
    }

    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
        if self.ills.no_views.load(Ordering::Relaxed) {
            return Err(MachineError::Other("poisoned".into()));
        }
        Ok(Box::new(View(self.state.lock().unwrap().clone())))
    }

    fn restore(&mut self, at: Index, _: &[SessionChange], from: &mut dyn Read) -> Result<(), MachineError> {
        let _free = self.ills.restoring.lock().unwrap();
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        *self.state.lock().unwrap() = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        self.applied = at;
        Ok(())
    }
}

struct View(BTreeMap<String, String>);

impl MachineView for View {
    fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError> {
        self.0.iter().try_for_each(|(key, value)| Ok(writeln!(to, "{key}={value}")?))
    }
}

struct Running {
    handle: ReplicaHandle,
    server: ServerHandle,
    state: Shared,
    ills: Arc<Ills>,
}

/// What names stand for.
type Hosts = Arc<Mutex<BTreeMap<String, Vec<SocketAddr>>>>;

struct Group {
    directory: tempfile::TempDir,
    peers: Vec<Peer>,
    hosts: Hosts,
    running: BTreeMap<NodeId, Running>,
    change: fn(&mut CoreConfig),
    access: PeerAccess,
}

impl Group {
    fn start(change: fn(&mut CoreConfig)) -> Self {
        Self::start_with(PeerAccess::default(), change)
    }

    fn start_with(access: PeerAccess, change: fn(&mut CoreConfig)) -> Self {
        // Ports that are free now; the servers get them in a moment.
        let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let peers = (1..).zip(&listeners).map(|(number, listener)| {
            Peer::new(NodeId::new(number).unwrap(), format!("tcp://{}", listener.local_addr().unwrap()))
        });
        let mut group = Self { access, ..Self::of(peers.collect(), change) };
        drop(listeners);
        group.peers.clone().iter().for_each(|peer| group.start_one(peer.node));
        group
    }

    fn of(peers: Vec<Peer>, change: fn(&mut CoreConfig)) -> Self {
        let (directory, hosts) = (tempfile::tempdir().unwrap(), Hosts::default());
        Self { directory, peers, hosts, running: BTreeMap::new(), change, access: PeerAccess::default() }
    }

    fn start_one(&mut self, node: NodeId) {
        let peer = self.peers.iter().find(|peer| peer.node == node).unwrap();
        let mut core = CoreConfig::new(node);
        let all = Membership::of_voters(self.peers.clone()).unwrap();
        // Those beyond the first three are added to a group that is there.
        let (bootstrap, contacts) = if node.number() > 3 { (None, Some(all)) } else { (Some(all), None) };
        core.bootstrap = bootstrap;
        (self.change)(&mut core);
        let config = ReplicaConfig::new(core, 7, self.directory.path().join(node.to_string()));
        let hosts = Arc::clone(&self.hosts);
        let lookup = Lookup::new(move |name, _| {
            let known = hosts.lock().unwrap().get(name).cloned();
            known.ok_or_else(|| std::io::Error::other("there is no such name"))
        });
        let lookup = lookup.intervals(PATIENCE, Duration::from_millis(5));
        let config = ReplicaConfig { contacts, lookup, access: self.access.clone(), ..config };
        let store = Store::default();
        let (state, ills) = (Arc::clone(&store.state), Arc::clone(&store.ills));
        let Replica { handle, router } = Replica::start(config, store).unwrap();
        let puts = handle.clone();
        let router = router.method_bytes(PUT, move |context, request, reply| {
            reply.extend_from_slice(&puts.submit(context, Session::NONE, request)?);
            Ok(())
        });
        let listen = vec![match peer.address.parse().unwrap() {
            Place::Address(address) => address,
            // As its host has it, which is where it was found last.
            Place::Host { name, .. } => Address::Tcp(*self.hosts.lock().unwrap()[&name].last().unwrap()),
        }];
        let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
        self.running.insert(node, Running { handle, server, state, ills });
    }

    /// Without any leave-taking.
    fn stop_one(&mut self, node: NodeId) {
        let Running { handle, server, .. } = self.running.remove(&node).unwrap();
        handle.stop(Duration::ZERO);
        server.shutdown();
    }

    fn leader(&self) -> Option<NodeId> {
        let leads = |(node, running): (&NodeId, &Running)| {
            let standing = running.handle.standing();
            (standing.role == Role::Leader).then_some((standing.term, *node))
        };
        self.running.iter().filter_map(leads).max().map(|(_, node)| node)
    }

    /// One that doesn't lead.
    fn follower(&self) -> NodeId {
        let leader = self.eventually(Group::leader);
        *self.running.keys().find(|node| **node != leader).unwrap()
    }

    fn eventually<T>(&self, is: impl Fn(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = is(self) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "it never came to be: {:?}", self.reports());
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn reports(&self) -> Vec<Report> {
        self.running.values().map(|running| running.handle.report()).collect()
    }

    /// Gets a command through, whoever leads, by sending it as often as it takes.
    fn put(&self, session: Session, command: &str) -> String {
        let answer = self.eventually(|group| {
            let handle = &group.running[&group.leader()?].handle;
            let context = Context::with_deadline(PATIENCE);
            handle.submit(&context, session, Bytes::copy_from_slice(command.as_bytes())).ok()
        });
        String::from_utf8(answer.to_vec()).unwrap()
    }

    fn get(&self, key: &str) -> Option<String> {
        self.eventually(|group| {
            let running = &group.running[&group.leader()?];
            running.handle.read(&Context::with_deadline(PATIENCE)).ok()?;
            Some(running.state.lock().unwrap().get(key).cloned())
        })
    }

    fn stop(self) {
        let stop = |running: Running| {
            running.handle.stop(Duration::from_secs(10));
            running.server.shutdown();
        };
        self.running.into_values().for_each(stop);
    }
}

fn session(sequence: u64) -> Session {
    Session { client: ClientId(9), sequence: Sequence(sequence) }
}

#[test]
fn what_is_acknowledged_outlives_a_leader_and_is_there_when_it_comes_back() {
    let mut group = Group::start(|_| {});
    group.put(session(0), "");
    assert_eq!(group.put(session(1), "a=1"), "");
    assert_eq!(group.put(session(2), "a=2"), "1");
    assert_eq!(group.get("a"), Some("2".into()));

    let old = group.eventually(Group::leader);
    group.stop_one(old);
    // The same command once more is answered the same, by another leader.
    assert_eq!(group.put(session(2), "a=2"), "1");
    assert_eq!(group.put(session(3), "a=3"), "2");

    group.start_one(old);
    assert_eq!(group.put(session(4), "b=1"), "");
    let back = |group: &Group| {
        let state = group.running[&old].state.lock().unwrap();
        (state.get("b").is_some() && state.get("a") == Some(&"3".into())).then_some(())
    };
    // It learns of the commit with a sign of life.
    group.eventually(back);
    group.stop();
}

#[test]
fn handlers_wait_for_their_commands_and_many_clients_share_batches() {
    let group = Group::start(|_| {});
    let leader = group.eventually(Group::leader);
    group.put(Session::NONE, "ready=1");
    let address = group.running[&leader].server.addresses()[0].clone();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let address = address.clone();
            scope.spawn(move || {
                let channel = Channel::new(address, ChannelConfig::default()).unwrap();
                for number in 0..50 {
                    let command = format!("client-{client}-{number}={number}");
                    let context = Context::with_deadline(PATIENCE);
                    channel.call(&context, MethodId::of(PUT), command.as_bytes()).unwrap();
                }
            });
        }
    });
    let last = group.running[&leader].handle.report().figures.last;
    group.get("ready");
    assert_eq!(group.running[&leader].state.lock().unwrap().len(), 401);
    assert!(last.0 <= 500, "{last} entries: at most one for each command");
    group.stop();
}

#[test]
fn a_leader_that_stops_hands_over_and_answers_what_it_took() {
    let mut group = Group::start(|_| {});
    group.put(Session::NONE, "first=1");
    let old = group.eventually(Group::leader);
    let Running { handle, server, .. } = group.running.remove(&old).unwrap();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|number| {
                let handle = handle.clone();
                let command = Bytes::from(format!("key-{number}={number}"));
                scope.spawn(move || handle.submit(&Context::with_deadline(PATIENCE), Session::NONE, command))
            })
            .collect();
        handle.stop(Duration::from_secs(60));
        for client in clients {
            let answer = client.join().unwrap();
            let told = matches!(
                answer,
                Ok(_)
                    | Err(ReplicaError::Refused(
                        Refusal::NotLeader { .. } | Refusal::Stopped | Refusal::Uncertain { .. }
                    ))
            );
            assert!(told, "{answer:?}");
        }
    });
    server.shutdown();
    assert_eq!(
        handle.submit(&Context::with_deadline(PATIENCE), Session::NONE, Bytes::new()),
        Err(ReplicaError::Refused(Refusal::Stopped))
    );
    group.put(Session::NONE, "after=1");
    assert_eq!(group.get("first"), Some("1".into()));
    group.stop();
}

#[test]
fn only_who_never_proposed_a_command_says_so() {
    let code = |refusal| Status::from(ReplicaError::Refused(refusal)).code;
    // Clients take this one for a promise that nothing was done.
    assert_eq!(code(Refusal::NotLeader { leader: None }), Code::Unavailable);
    for maybe_done in [Refusal::Uncertain { leader: None }, Refusal::Stopped] {
        assert_eq!(code(maybe_done), Code::Aborted);
    }
}

#[test]
fn a_directory_in_use_or_of_another_replica_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let config = |number: u64| {
        let node = NodeId::new(number).unwrap();
        let mut core = CoreConfig::new(node);
        let peer = Peer::new(node, "tcp://127.0.0.1:1");
        core.bootstrap = Some(Membership::of_voters([peer]).unwrap());
        ReplicaConfig::new(core, 7, Path::new(directory.path()))
    };
    let first = Replica::start(config(1), Store::default()).unwrap();
    assert!(Replica::start(config(1), Store::default()).unwrap_err().to_string().contains("is in use"));
    first.handle.stop(Duration::from_secs(10));
    let error = Replica::start(config(2), Store::default()).unwrap_err().to_string();
    assert!(error.contains("belongs to replica 1"), "{error}");
}

#[test]
fn a_replica_with_nothing_is_added_and_what_it_was_told_is_seen() {
    let mut group = Group::start(|_| {});
    (0..50).for_each(|number| {
        group.put(Session::NONE, &format!("key-{number}={number}"));
    });
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let added = Peer::new(NodeId::new(4).unwrap(), format!("tcp://{free}"));
    group.peers.push(added.clone());
    group.start_one(added.node);

    // It follows first, and votes once it has all. Whoever leads is asked, as the lead may move on a busy machine.
    let context = || Context::with_deadline(PATIENCE);
    let change = |group: &Group, change: Change| {
        group.eventually(|group| group.running[&group.leader()?].handle.change(&context(), vec![change.clone()]).ok());
    };
    change(&group, Change::AddLearner(added.clone()));
    group.eventually(|group| (group.running[&added.node].state.lock().unwrap().len() == 50).then_some(()));
    let seen = group.eventually(|group| {
        let seen = group.running[&group.leader()?].handle.inspect(&context()).ok()?;
        let other = seen.others.iter().find(|other| other.node == added.node).copied();
        other.is_some_and(|other| other.matched >= seen.figures.committed).then_some(seen)
    });
    assert!(!seen.membership.is_voter(added.node) && seen.others.len() == 3, "{seen:?}");
    change(&group, Change::AddVoter(added.clone()));
    group.eventually(|group| {
        let _it_may_have_the_lead = group.running[&group.leader()?].handle.transfer(&context(), added.node);
        (group.leader()? == added.node).then_some(())
    });

    // What it is told counts from then on, and is what it says.
    let setting = crate::core::Setting::new(1000, 3000).unwrap();
    let new = group.running[&added.node].handle.clone();
    new.resize(Sizing::Fixed(setting)).unwrap();
    let seen = new.inspect(&context()).unwrap();
    assert_eq!((seen.sizing, seen.setting), (Sizing::Fixed(setting), setting));
    assert!(seen.environment.is_none(), "{seen:?}");
    group.eventually(|group| {
        let before = group.running[&group.leader()?].handle.inspect(&context()).ok()?;
        group.put(Session::NONE, "last=1");
        let after = group.running[&group.leader()?].handle.inspect(&context()).ok()?;
        (after.answered > before.answered && after.in_system == 0).then_some(())
    });
    group.stop();
}

/// A machine on disk has entries that the log hasn't: the log was lost, and with it votes and acknowledgements.
#[test]
fn a_log_that_was_lost_is_noticed_by_a_machine_that_was_not() {
    let directory = tempfile::tempdir().unwrap();
    let node = NodeId::new(1).unwrap();
    let mut core = CoreConfig::new(node);
    core.bootstrap = Some(Membership::of_voters([Peer::new(node, "tcp://127.0.0.1:1")]).unwrap());
    let kept = Store { applied: Index(40), ..Store::default() };
    let error = Replica::start(ReplicaConfig::new(core, 7, directory.path()), kept).unwrap_err();
    assert!(matches!(error, ReplicaStartError::Lost { machine: Index(40), .. }), "{error}");
}

/// All three begin once it is known where the third is. Then one comes back at another address of its name, long before names
/// are looked up without a reason.
#[test]
fn replicas_with_names_are_found_and_found_again_where_they_have_moved() {
    let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let sockets: Vec<SocketAddr> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let peers = (1..=3).map(|number| Peer::new(NodeId::new(number).unwrap(), format!("tcp://kv-{number}.test:7400")));
    let mut group = Group::of(peers.collect(), |_| {});
    drop(listeners);
    let found = |group: &Group, number: u64, sockets: &[SocketAddr]| {
        group.hosts.lock().unwrap().insert(format!("kv-{number}.test"), sockets.to_vec());
    };
    let [first, second, third] = [1, 2, 3].map(|number| NodeId::new(number).unwrap());
    found(&group, 1, &sockets[..1]);
    found(&group, 2, &sockets[1..2]);
    [first, second].into_iter().for_each(|node| group.start_one(node));
    // These two have found one another, and wait for the third.
    let missing = Obstacle::Missing(vec![third]);
    group.eventually(|group| {
        group.reports().iter().all(|report| report.obstacle.as_ref() == Some(&missing)).then_some(())
    });
    found(&group, 3, &sockets[2..3]);
    group.start_one(third);
    group.put(Session::NONE, "a=1");
    let has = |node: NodeId, keys: usize| {
        move |group: &Group| (group.running[&node].state.lock().unwrap().len() == keys).then_some(())
    };
    group.eventually(has(third, 1));

    group.stop_one(second);
    group.put(Session::NONE, "b=1");
    // Where it was it isn't, and there are two addresses now.
    found(&group, 2, &[sockets[1], sockets[3]]);
    group.start_one(second);
    group.eventually(has(second, 2));
    // The others need it from now on.
    let other = group.eventually(|group| [first, third].into_iter().find(|node| group.leader() != Some(*node)));
    group.stop_one(other);
    group.put(Session::NONE, "c=1");
    group.eventually(has(second, 3));
    group.stop();
}

impl Group {
    /// Its disk is lost, and it is started again on an empty one.
    fn wipe_one(&mut self, node: NodeId) {
        if self.running.contains_key(&node) {
            self.stop_one(node);
        }
        std::fs::remove_dir_all(self.directory.path().join(node.to_string())).unwrap();
        self.start_one(node);
    }

    fn change(&self, change: &Change) {
        self.eventually(|group| {
            let context = Context::with_deadline(PATIENCE);
            group.running[&group.leader()?].handle.change(&context, vec![change.clone()]).ok()
        });
    }
}

/// One of three is down, a put is acknowledged by the other two, the follower of these loses its disk, the leader ends, and
/// the first comes back: the two must not elect, as neither has what was acknowledged.
#[test]
fn an_acknowledged_write_outlives_a_follower_that_loses_its_disk() {
    let mut group = Group::start(|_| {});
    group.put(Session::NONE, "first=1");
    let leader = group.eventually(Group::leader);
    let others: Vec<NodeId> = group.running.keys().copied().filter(|node| *node != leader).collect();
    let [away, follower] = others.try_into().unwrap();
    group.stop_one(away);
    group.put(Session::NONE, "acknowledged=1");
    group.wipe_one(follower);
    let has_lost = |group: &Group| {
        let obstacle = group.running[&follower].handle.report().obstacle;
        matches!(obstacle, Some(Obstacle::Wiped { me, .. }) if me == follower).then_some(())
    };
    group.eventually(has_lost);
    group.stop_one(leader);
    group.start_one(away);
    // The one that is back stands for election again and again, and nobody votes for it.
    let told = |group: &Group| {
        let refused = group.running[&follower].handle.report().refused;
        (refused > 20 && group.running[&away].handle.standing().role != Role::Follower).then_some(())
    };
    group.eventually(told);
    assert_eq!(group.leader(), None);
    assert!(group.running[&follower].state.lock().unwrap().is_empty());

    // The leader comes back with its disk, and all is there. The lost one is removed and taken in anew, and counts again.
    group.start_one(leader);
    assert_eq!(group.get("acknowledged"), Some("1".into()));
    group.change(&Change::Remove(follower));
    let peer = group.peers.iter().find(|peer| peer.node == follower).unwrap().clone();
    group.change(&Change::AddVoter(peer));
    group.eventually(|group| (group.running[&follower].state.lock().unwrap().len() == 2).then_some(()));
    let report = group.running[&follower].handle.report();
    assert!(report.obstacle.is_none() && report.membership.enrolment(follower).unwrap().since > Index::ZERO);
    let gone = group.eventually(Group::leader);
    group.stop_one(gone);
    group.put(Session::NONE, "last=1");
    assert_eq!(group.get("acknowledged"), Some("1".into()));
    group.stop();
}

/// Two of three lose their disks: what only the third still has must not be replaced by nothing.
#[test]
fn a_majority_that_loses_its_disks_makes_no_new_group() {
    let mut group = Group::start(|_| {});
    group.put(Session::NONE, "acknowledged=1");
    let nodes: Vec<NodeId> = group.running.keys().copied().collect();
    let [kept, ..] = nodes[..] else { panic!("three") };
    group.eventually(|group| (group.running[&kept].state.lock().unwrap().len() == 1).then_some(()));
    nodes.iter().for_each(|node| group.stop_one(*node));
    nodes[1..].iter().for_each(|node| group.wipe_one(*node));
    let missing = Obstacle::Missing(vec![kept]);
    group.eventually(|group| {
        group.reports().iter().all(|report| report.obstacle.as_ref() == Some(&missing)).then_some(())
    });
    group.start_one(kept);
    group.eventually(|group| {
        let wiped = |node| matches!(group.running[node].handle.report().obstacle, Some(Obstacle::Wiped { .. }));
        nodes[1..].iter().all(wiped).then_some(())
    });
    assert_eq!(group.leader(), None);
    assert!(group.running[&kept].handle.report().figures.last > Index(2), "what was acknowledged is in its log");
    group.stop();
}

/// A replica that is to be added has to say who it is, and a directory of another group isn't taken in.
#[test]
fn who_is_added_says_who_it_is() {
    let group = Group::start(|_| {});
    group.put(Session::NONE, "first=1");
    let leader = group.eventually(Group::leader);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let add = |group: &Group, peer: Peer| {
        let context = Context::with_deadline(PATIENCE);
        group.running[&leader].handle.change(&context, vec![Change::AddLearner(peer)])
    };
    let absent = Peer::new(NodeId::new(4).unwrap(), format!("tcp://{free}"));
    let refused = add(&group, absent.clone());
    assert!(matches!(refused, Err(ReplicaError::Joining(JoiningError::Silent { number: 4, .. }))), "{refused:?}");
    let other = group.peers.iter().find(|peer| peer.node != leader).unwrap().clone();
    let refused = add(&group, Peer { node: absent.node, ..other });
    assert!(matches!(refused, Err(ReplicaError::Joining(JoiningError::Another { .. }))), "{refused:?}");

    let alone = Group::of(vec![absent.clone()], |_| {});
    let mut alone = Group { peers: vec![absent.clone()], ..alone };
    alone.change =
        |core| core.bootstrap = Some(Membership::of_voters([Peer::new(core.node, "tcp://127.0.0.1:1")]).unwrap());
    alone.start_one(absent.node);
    alone.put(Session::NONE, "another=1");
    let refused = add(&group, absent);
    assert_eq!(refused, Err(ReplicaError::Joining(JoiningError::OtherGroup(4))));
    alone.stop();
    group.stop();
}

/// Directories of a version without identities are adopted, and serve on; one of this version that has lost its identity
/// isn't one of those.
#[test]
fn a_directory_without_an_identity_is_adopted_if_it_never_had_one() {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let peers = (1..).zip(&listeners).map(|(number, listener)| {
        Peer::new(NodeId::new(number).unwrap(), format!("tcp://{}", listener.local_addr().unwrap()))
    });
    let mut group = Group::of(peers.collect(), |_| {});
    drop(listeners);
    let membership = Membership::of_voters(group.peers.clone()).unwrap();
    let identity = |node: NodeId, group: &Group| group.directory.path().join(node.to_string()).join("identity");
    for node in membership.voters() {
        let directory = group.directory.path().join(node.to_string());
        let config = crate::log::LogConfig::new(directory, crate::log::Owner { group: 7, replica: node.number() });
        let (mut log, _) = crate::log::Log::open(crate::log::RealDisk, &config).unwrap();
        let write = crate::core::Write {
            number: 0,
            hard_state: Some(crate::HardState { term: crate::Term(1), vote: None, commit: crate::core::BOOTSTRAP }),
            entries: Vec::new(),
            snapshot: Some(SnapshotMeta {
                index: crate::core::BOOTSTRAP,
                term: crate::Term(1),
                membership: membership.clone(),
            }),
        };
        stored::write_all(&mut log, [stored::Job::Write(write)].into_iter()).unwrap();
        assert!(!identity(node, &group).exists());
    }
    membership.voters().for_each(|node| group.start_one(node));
    group.put(Session::NONE, "first=1");
    let node = group.eventually(Group::leader);
    group.stop_one(node);
    assert!(identity(node, &group).exists());
    group.start_one(node);
    group.put(Session::NONE, "second=1");
    group.stop();

    let mut group = Group::start(|_| {});
    group.put(Session::NONE, "first=1");
    let node = *group.running.keys().next().unwrap();
    group.stop_one(node);
    std::fs::remove_file(identity(node, &group)).unwrap();
    let directory = group.directory.path().join(node.to_string());
    let error = Replica::start(ReplicaConfig::new(CoreConfig::new(node), 7, directory), Store::default()).unwrap_err();
    assert!(
        matches!(&error, ReplicaStartError::Log(crate::log::LogError::Missing { file }) if file.ends_with("identity"))
    );
    group.stop();
}

/// The identity says that there was a log.
#[test]
fn a_log_that_is_gone_beside_its_identity_is_missed() {
    let mut group = Group::start(|_| {});
    group.put(Session::NONE, "first=1");
    let node = *group.running.keys().next().unwrap();
    group.stop_one(node);
    let directory = group.directory.path().join(node.to_string());
    for file in std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "log") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let config = ReplicaConfig::new(CoreConfig::new(node), 7, &directory);
    let error = Replica::start(config, Store::default()).unwrap_err();
    assert!(matches!(error, ReplicaStartError::Log(crate::log::LogError::Missing { .. })), "{error}");
    group.stop();
}
