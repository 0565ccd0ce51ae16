//! Thousands of connections at once, of which nothing comes.

use crate::raw::{eventually, socket_of};
use crate::siege::Bystander;
use crate::site::{Plan, Site};
use std::net::TcpStream;
use std::time::Duration;

const THREADS: usize = 4;
const CONNECTIONS: usize = 500;

/// How many may be needed until one finds all that it needs.
const STORMS: usize = 10;

/// Connects as quickly as it can. Half are closed at once, the others stay until the server has had enough of them.
fn storm(site: &Site) {
    let address = socket_of(&site.address);
    let threads = [(); THREADS].map(|()| {
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for number in 0..CONNECTIONS {
                let stream = TcpStream::connect(address).unwrap();
                if number % 2 == 0 {
                    silent.push(stream);
                }
            }
            for mut stream in silent {
                stream.set_read_timeout(Some(crate::raw::HANG)).unwrap();
                // A word of farewell, and then the end, in order or not.
                let _reset = std::io::copy(&mut stream, &mut std::io::sink());
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn is_survived_by(clusters: usize) {
    let plan = Plan { clusters, handshake: Duration::from_millis(300), ..Plan::default() };
    let mut site = Site::start(&plan).unwrap();
    let bystander = Bystander::at(&site.address);
    let files = site.files();
    let mut memory: Vec<u64> = Vec::new();
    // One leaves tables and pools behind that are as large as it was, and the next may be larger; but at some time one finds all
    // that it needs. What leaks grows each time.
    let mut has_grown = true;
    while has_grown && memory.len() < STORMS {
        let storms = memory.len() as u64 + 1;
        storm(&site);
        let all = 1 + storms * (THREADS * CONNECTIONS) as u64;
        site.comes_to("accepted", all);
        site.comes_to("connections", 1);
        eventually("the descriptors are back", || site.files() == files);
        bystander.is_served();
        let (most, now) = (memory.iter().max().copied(), site.memory());
        has_grown = most.is_none_or(|most| now > most + 512);
        memory.push(now);
    }
    assert!(!has_grown, "KiB after each storm: {memory:?}");
    assert_eq!((site.counter("threads_died"), site.counter("starved")), (0, 0));
    Bystander::at(&site.address).leaves();
    bystander.leaves();
}

#[test]
fn a_storm_of_connections_leaves_nothing_behind() {
    is_survived_by(1);
}

#[test]
fn a_storm_of_connections_leaves_nothing_behind_where_heads_share_them_out() {
    is_survived_by(2);
}
