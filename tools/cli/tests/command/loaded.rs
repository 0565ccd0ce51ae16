//! A group of real processes that is written to all the time, whose logs are short: snapshots are taken, sent and
//! restored under load, while one replica is killed again and again and another one is far away.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use greenwave::{Address, ChannelConfig, Context};
use greenwave_services::replicated::client::{Freshness, GroupClient, StoreClientError};
use greenwave_sim::{LinkRule, Proxy, Seed};

use crate::group::ports;
use crate::process::{PATIENCE, Running, kill};
use crate::world::World;

/// Bytes of the log after which a snapshot is taken. Half of it stays behind for those who lag.
const LOG_BYTES: u64 = 200_000;

const VALUE_BYTES: usize = 2000;

const WRITERS: usize = 4;

/// The replica that is killed, and the one that is far away.
const KILLED: usize = 1;
const FAR: usize = 2;

struct Group {
    world: World,
    addresses: Vec<String>,
    far: Proxy,
    running: Vec<Option<Running>>,
}

impl Group {
    fn start() -> Self {
        let first = ports();
        let addresses: Vec<_> = (first..first + 3).map(|port| format!("127.0.0.1:{port}")).collect();
        let any = "127.0.0.1:0".parse().unwrap();
        let link = LinkRule::delay(Duration::from_millis(15));
        let far = {
            let replicas: SocketAddr = format!("127.0.0.1:{}", first + FAR as u16 + 1000).parse().unwrap();
            Proxy::start(any, replicas, link, link, Seed::new(1)).unwrap()
        };
        let mut group = Self { world: World::new(), addresses, far, running: vec![None, None, None] };
        (0..3).for_each(|at| group.launch(at));
        (0..3).for_each(|at| drop(group.running[at].as_ref().unwrap().told()));
        group
    }

    fn launch(&mut self, at: usize) {
        let peers = (0..3).map(|peer| {
            let through =
                if peer == FAR && at != FAR { format!("/{}", self.far.address().port()) } else { String::new() };
            format!("{}=tcp://{}{through}", peer + 1, self.addresses[peer])
        });
        let peers = format!("--peers={}", peers.collect::<Vec<_>>().join(","));
        let (id, log) = (format!("--id={}", at + 1), format!("--log-bytes={LOG_BYTES}"));
        let data = self.world.option("--data", &format!("r{at}"));
        self.running[at] = Some(Running::start(&["serve", "kv", &id, &peers, &data, &log]));
    }

    fn kill(&mut self, at: usize) {
        let running = self.running[at].take().unwrap();
        kill(running.id());
        running.finish();
    }

    fn client(&self, of: &[usize]) -> GroupClient {
        let addresses: Vec<Address> =
            of.iter().map(|at| format!("tcp://{}", self.addresses[*at]).parse().unwrap()).collect();
        GroupClient::new(addresses, ChannelConfig::default()).unwrap()
    }

    /// Up to which entry a replica has applied, once it answers.
    fn applied(&self, at: usize) -> u64 {
        let mut client = self.client(&[at]);
        eventually(|| {
            let told = client.describe(&Context::with_deadline(Duration::from_secs(5)));
            told.into_iter().find_map(|(_, reply)| Some(reply.ok()?.applied))
        })
    }

    /// Waits until a replica has all that another one has now.
    fn catches_up(&self, at: usize, with: usize) {
        let mark = self.applied(with);
        eventually(|| (self.applied(at) >= mark).then_some(()));
    }

    fn snapshots(&self, at: usize) -> usize {
        let names = std::fs::read_dir(self.world.path(&format!("r{at}/log"))).unwrap();
        names.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("snapshot-0")).count()
    }
}

fn eventually<T>(mut is: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it never came to be");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn key(writer: usize, number: u64) -> Vec<u8> {
    format!("writer{writer}-{number:06}").into_bytes()
}

fn value(writer: usize, number: u64) -> Vec<u8> {
    format!("{writer} {number} ").into_bytes().into_iter().cycle().take(VALUE_BYTES).collect()
}

/// Writes one row after another; how many were acknowledged.
fn write(mut client: GroupClient, writer: usize, acknowledged: &AtomicU64, over: &AtomicBool) -> u64 {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let context = Context::with_deadline(PATIENCE);
        match client.put(&context, &key(writer, number), &value(writer, number)) {
            Ok(()) => {
                number += 1;
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // It may be done or not: the same row again.
            Err(StoreClientError::Unavailable { .. } | StoreClientError::Uncertain { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    number
}

#[test]
fn nothing_is_lost_while_snapshots_are_taken_and_sent_under_load() {
    let mut group = Group::start();
    let (acknowledged, over) = (AtomicU64::new(0), AtomicBool::new(false));
    // More than any log reaches back.
    let more = 4 * LOG_BYTES / VALUE_BYTES as u64;
    let wait_for_more = |acknowledged: &AtomicU64| {
        let mark = acknowledged.load(Ordering::Relaxed) + more;
        eventually(|| (acknowledged.load(Ordering::Relaxed) >= mark).then_some(()));
    };
    let rows: Vec<u64> = thread::scope(|scope| {
        let clients: Vec<_> = (0..WRITERS).map(|_| group.client(&[0, 1, 2])).collect();
        let spawn = |(writer, client)| {
            let (acknowledged, over) = (&acknowledged, &over);
            scope.spawn(move || write(client, writer, acknowledged, over))
        };
        let writers: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
        // The group has begun, for which all of them were needed.
        eventually(|| (acknowledged.load(Ordering::Relaxed) > 0).then_some(()));
        for _ in 0..3 {
            group.kill(KILLED);
            wait_for_more(&acknowledged);
            // It hardly comes up, again and again; then it may, and is sent what the others' logs have no more.
            for _ in 0..3 {
                group.launch(KILLED);
                drop(group.running[KILLED].as_ref().unwrap().told());
                group.kill(KILLED);
            }
            group.launch(KILLED);
            drop(group.running[KILLED].as_ref().unwrap().told());
            group.catches_up(KILLED, 0);
            group.catches_up(FAR, 0);
        }
        over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!((0..3).all(|at| group.snapshots(at) > 0));
    let mut client = group.client(&[0, 1, 2]);
    let context = Context::with_deadline(PATIENCE);
    client.put(&context, b"last", b"word").unwrap();
    for at in 0..3 {
        let mut client = group.client(&[at]);
        eventually(|| client.get(&context, b"last", Freshness::Stale).ok().flatten());
        for (writer, rows) in rows.iter().enumerate() {
            for number in 0..*rows {
                let found = client.get(&context, &key(writer, number), Freshness::Stale).unwrap();
                assert_eq!(found.as_deref(), Some(&*value(writer, number)), "row {number} of {writer} at replica {at}");
            }
        }
    }
}
